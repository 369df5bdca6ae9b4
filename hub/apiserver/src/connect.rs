//! The port for parts of objects that are connections: whoever serves one sees the request before its body is read, may take its
//! connection for another protocol, and answers for as long as it likes.
//!
//! In: a request whose user is known and may make it, which admission let pass, and the object that it is to. Out: the answer, which is
//! sent as it is; it holds no seat and is not timed.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use hyper::upgrade::OnUpgrade;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::User;
use karmada_schema::object::Stored;

use crate::http::{Body, Received};

/// A request to a part of an object.
pub struct Connection<'a> {
    /// Who asks.
    pub user: &'a User,
    /// The object's resource.
    pub definition: &'a ResourceDefinition,
    /// The object.
    pub object: Arc<Stored>,
    /// What follows the part's name in the path.
    pub path: &'a str,
    /// Method, address, headers and what the listener knows of the connection.
    pub parts: &'a Parts,
    /// The body, of which nothing is read yet.
    pub body: Received,
    /// The client's connection, where it may become something else: after an answer of 101.
    pub upgrade: Option<OnUpgrade>,
}

/// Whoever serves connections to a part of a resource's objects.
#[async_trait::async_trait]
pub trait Connect: Send + Sync {
    /// Answers one.
    ///
    /// # Errors
    /// There is no connection, and the status says why.
    async fn connect(&self, connection: Connection<'_>) -> Result<Response<Body>, Status>;
}

/// Who serves which part, by group, plural and name of the part.
#[derive(Default)]
pub struct Connectors(BTreeMap<(String, String, String), Arc<dyn Connect>>);

impl Connectors {
    /// And this part of a resource's objects, by `connector`.
    #[must_use]
    pub fn with(mut self, (group, plural, part): (&str, &str, &str), connector: Arc<dyn Connect>) -> Self {
        self.0.insert((group.to_owned(), plural.to_owned(), part.to_owned()), connector);
        self
    }

    pub(crate) fn of(&self, group: &str, plural: &str, part: &str) -> Option<&Arc<dyn Connect>> {
        if part.is_empty() || self.0.is_empty() {
            return None;
        }
        self.0.get(&(group.to_owned(), plural.to_owned(), part.to_owned()))
    }
}
