//! Requests to parts of objects that somebody serves as connections ([`Connect`]).
//!
//! In: the call, its body unread. Out: what the connector answers, once the part takes the verb, the object is there, and admission let
//! the connection pass.

use http::Response;
use hyper::upgrade::OnUpgrade;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::VirtualRequest;

use super::answer_body::Body;
use super::body::Received;
use super::objects::namespace_of;
use super::target::{ResourcePath, Target};
use super::{ApiServer, Call, request_checks, resources, subresources};
use crate::connect::{Connect, Connection};

impl ApiServer {
    /// Whether what is asked for is a connection.
    pub(super) fn connects(&self, target: &Target) -> bool {
        match target {
            Target::Resource(wanted) => self.connector(wanted).is_some(),
            Target::Path(_) => false,
        }
    }

    /// Who serves the part that is asked for, where it is a connection.
    pub(super) fn connector(&self, wanted: &ResourcePath) -> Option<&std::sync::Arc<dyn Connect>> {
        self.connectors.of(&wanted.group, &wanted.plural, &wanted.subresource)
    }

    /// The connection. Why there is no way to what is behind it is said in a warning as well: kubectl asks first what is served there, and of a
    /// refusal of that it tells people the code alone, that a resource is not there, and not which object is not.
    pub(super) async fn connect(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        wanted: &ResourcePath,
        connector: &dyn Connect,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let connected = self.connected(call, definition, wanted, connector, body).await;
        let has_no_way = |status: &&Status| status.code == 404 || status.code >= 500;
        if let Some(status) = connected.as_ref().err().filter(has_no_way) {
            call.warnings.add(status.message.clone());
        }
        connected
    }

    async fn connected(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        wanted: &ResourcePath,
        connector: &dyn Connect,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        resources::check_scope(definition, wanted)?;
        let part = definition.subresource(&wanted.subresource).ok_or_else(Status::no_resource)?;
        subresources::verb(call, part)?;
        request_checks::require_namespace(wanted)?;
        self.admit_connection(call, definition, wanted).await?;
        let namespace = namespace_of(definition, wanted);
        let asked =
            VirtualRequest { definition, user: &call.user, namespace: &namespace, name: &wanted.name };
        let object = self.registry.read(&asked).await?;
        let connection = Connection {
            user: &call.user,
            definition,
            object,
            path: &wanted.rest,
            parts: call.parts,
            body,
            upgrade: call.parts.extensions.get::<OnUpgrade>().cloned(),
        };
        connector.connect(connection).await
    }
}
