//! A request on a resource: what it asks for, whether that is served, and who answers it.
//!
//! In: the call, what its path names, its body. Out: the answer of the verb's own file.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::strategy;
use karmada_registry::{Operation, VirtualRequest};
use karmada_schema::object::{ObjectKey, meta};
use karmada_schema::{names, protobuf};

use super::answer_body::Body;
use super::body::{self, Received};
use super::negotiation::{self, AnswerFormat, Possible};
use super::objects::{names_its_type, namespace_of, object_in};
use super::resource_call::ResourceCall;
use super::table::Include;
use super::target::ResourcePath;
use super::{ApiServer, Call, discovery, list, options, request_checks};

impl ApiServer {
    /// Any request on a resource.
    pub(super) async fn resource(
        &self,
        call: &Call<'_>,
        wanted: &ResourcePath,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let catalogue = self.registry.catalogue();
        let definition = catalogue.resource(&wanted.group, &wanted.version, &wanted.plural);
        let definition = definition.ok_or_else(|| discovery::unserved(&catalogue, &wanted.group))?;
        exists(definition, wanted)?;
        if let Some(connector) = self.connector(wanted) {
            return self.connect(call, definition, wanted, &**connector, body).await;
        }
        let of = ResourceCall { call, definition, wanted, format: format(call, definition, wanted)? };
        if !wanted.subresource.is_empty() {
            return self.subresource(of, body).await;
        }
        let verb = verb(call, definition, wanted)?;
        let ending = definition.custom.as_ref().is_some_and(|custom| custom.crd.terminating);
        if ending && verb == "create" {
            let value = body::parse(body::media_type(call.headers), &body::read(body).await?)?;
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(definition, meta::name(&value), why));
        }
        // At its end a kind announces less than it still takes: whoever holds an object must be able to let it go.
        if !definition.allows(verb) && !ending {
            return Err(Status::method_not_allowed());
        }
        if verb != "update" {
            request_checks::require_namespace(wanted)?;
        }
        definition.row.deprecation.into_iter().for_each(|text| call.warnings.add(text.to_owned()));
        if matches!(verb, "get" | "delete" | "patch") {
            fit_for_a_key(&wanted.name)?;
        }
        match verb {
            "watch" => self.watch(of).await,
            "get" | "list" => self.read(of, verb).await,
            "delete" => self.delete(of, body).await,
            "deletecollection" => self.delete_collection(of, body).await,
            _ => self.write(of, verb, body).await,
        }
    }

    async fn read(&self, of: ResourceCall<'_, '_>, verb: &str) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let namespace = namespace_of(definition, wanted);
        let asked =
            VirtualRequest { definition, user: &call.user, namespace: &namespace, name: &wanted.name };
        if format.of_list.is_some() {
            if verb == "get" {
                self.registry.read(&asked).await?;
            }
            let go_type = match definition.is_structural() {
                true => "unstructured.Unstructured".to_owned(),
                false => format!("{}.{}", strategy::package(definition), definition.kind),
            };
            format.check_list_form(verb == "list", &go_type)?;
        }
        if verb == "list" {
            return self.list(of).await;
        }
        let version = options::version(&call.query)?;
        if !definition.is_virtual {
            list::until(self.registry.cache(), version.unwrap_or_default()).await?;
        }
        let object = self.registry.read(&asked).await?;
        let object = self.registry.view(definition, vec![object]).await?.remove(0);
        Ok(self.object(call, definition, &object, format, StatusCode::OK))
    }

    async fn write(
        &self,
        of: ResourceCall<'_, '_>,
        verb: &str,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let bytes = body::read(body).await?;
        match verb {
            "create" if definition.row.known == BuiltinKind::Binding => {
                let mut binding = object_in(call, definition, &bytes)?;
                request_checks::check_type(&mut binding, "Binding", "")?;
                let options = self.write_options(call, "", &Bytes::new())?;
                let key = ObjectKey::new(&wanted.namespace, meta::name(&binding));
                let registry = &self.registry;
                registry.admit_unstored(definition, &key, Operation::Create, &mut binding, &options).await?;
                let catalogue = self.registry.catalogue();
                let pods = catalogue.resource("", "v1", "pods").ok_or_else(Status::no_resource)?;
                self.bind(call, pods, &wanted.namespace, format, &binding).await
            }
            "create" => self.create(of, &bytes).await,
            "update" => {
                request_checks::require_namespace_of_update(call, wanted, &bytes)?;
                let value = object_in(call, definition, &bytes)?;
                names_its_type(definition, &value, &bytes)?;
                let options = self.write_options(call, "", &bytes)?;
                self.put(of, value, &options).await
            }
            _ => self.patch(of, "", &bytes).await,
        }
    }
}

/// The form of the answer, once the path is one that the resource has.
fn format(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    wanted: &ResourcePath,
) -> Result<AnswerFormat, Status> {
    let looks = matches!(call.method, Method::GET | Method::HEAD);
    if call.method == Method::HEAD && !definition.is_structural() && wanted.subresource != "proxy" {
        return Err(Status::method_not_allowed());
    }
    check_scope(definition, wanted)?;
    if let Some(warning) = definition.custom.as_ref().and_then(|custom| custom.warning.clone()) {
        call.warnings.add(warning);
    }
    let is_list = wanted.name.is_empty() && looks;
    let protobuf =
        !definition.is_structural() && protobuf::has_form(&definition.api_version(), &definition.kind);
    // What is not kept is no row of a table: reviews, and what is asked of an object that is none itself.
    let asked = matches!(wanted.subresource.as_str(), "binding" | "eviction" | "token");
    let tables = !asked && (definition.allows("get") || definition.allows("list"));
    let format =
        AnswerFormat::choose(call.headers, Possible { protobuf, tables }).map_err(
            |status| match definition.is_structural() {
                true => status,
                false => negotiation::routed(call.headers, is_list).unwrap_or(status),
            },
        )?;
    if format.shape.is_table() {
        Include::check(call.query.get("includeObject"))?;
    }
    Ok(format)
}

/// Whether any method finds something at the path. What custom kinds have is for their own handler to say.
fn exists(definition: &ResourceDefinition, wanted: &ResourcePath) -> Result<(), Status> {
    if wanted.hollow {
        return Err(Status::no_resource());
    }
    if definition.is_structural() {
        return Ok(());
    }
    check_scope(definition, wanted)?;
    let any = |verbs: &[&str]| verbs.iter().any(|verb| definition.allows(verb));
    let found = match (wanted.subresource.as_str(), wanted.name.is_empty()) {
        ("", true) if definition.namespaced && wanted.namespace.is_empty() && !wanted.unnamed => {
            any(&["list", "watch"])
        }
        ("", true) => any(&["list", "create", "deletecollection"]),
        ("", false) => any(&["get", "update", "patch", "delete"]),
        ("proxy", _) => true,
        (part, _) => definition.subresource(part).is_some() && wanted.rest.is_empty(),
    };
    if found { Ok(()) } else { Err(Status::no_resource()) }
}

/// Refuses a name that can be no part of a key, whether there is such an object or not.
pub(super) fn fit_for_a_key(name: &str) -> Result<(), Status> {
    match names::path_segment(name).first() {
        Some(why) => Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}"))),
        None => Ok(()),
    }
}

/// What the method means here, in the terms of RBAC.
fn verb(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    wanted: &ResourcePath,
) -> Result<&'static str, Status> {
    let one = !wanted.name.is_empty();
    let looks = matches!(call.method, Method::GET | Method::HEAD);
    if wanted.watch && !looks {
        return Err(Status::method_not_allowed());
    }
    if definition.namespaced && wanted.namespace.is_empty() && !wanted.unnamed && !looks {
        // Across namespaces there is only looking, but where a path has a place for their name.
        return Err(match definition.is_structural() && call.method == Method::POST {
            true => Status::no_page(),
            false => Status::method_not_allowed(),
        });
    }
    // One object is got, whatever the query says: a watch of it is a watch of the collection with a field selector.
    let watches = (call.query.flag("watch") && !one) || wanted.watch;
    Ok(match call.method {
        Method::GET | Method::HEAD if watches => "watch",
        Method::GET | Method::HEAD if one => "get",
        Method::GET | Method::HEAD => "list",
        // A custom kind's path may name an object all the same.
        Method::POST if !one || definition.is_structural() => "create",
        Method::PUT if one => "update",
        Method::PATCH if one => "patch",
        Method::DELETE if one => "delete",
        Method::DELETE => "deletecollection",
        // Their handler knows no collection where one object is replaced.
        Method::PUT if definition.is_structural() => {
            return Err(Status::bad_request("name must be provided"));
        }
        _ => return Err(Status::method_not_allowed()),
    })
}

/// Namespaced paths are for namespaced resources, and one object of those is reached through its namespace only. What is judged as
/// something in a namespace is in it: of namespaces, that is the one of the path alone.
pub(super) fn check_scope(definition: &ResourceDefinition, wanted: &ResourcePath) -> Result<(), Status> {
    let is_namespace = definition.row.known == BuiltinKind::Namespace && wanted.namespace == wanted.name;
    let in_namespace = !wanted.namespace.is_empty() || wanted.unnamed;
    let fits = match (definition.namespaced, in_namespace) {
        (true, true) => true,
        (true, false) => wanted.name.is_empty(),
        (false, true) => is_namespace,
        (false, false) => true,
    };
    if fits { Ok(()) } else { Err(Status::no_resource()) }
}
