//! Resources of this test that are in no store: beacons, which are published as they change; echoes, which answer what is posted; and
//! `beacons/line`, which sees a request before its body is read.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use karmada_apiserver::connect::{Connect, Connection};
use karmada_apiserver::http::Body;
use karmada_definitions::description::Resource;
use karmada_definitions::resource::{Catalogue, ResourceDefinition, named};
use karmada_definitions::status::Status;
use karmada_registry::cache::{Collection, Published};
use karmada_registry::{VirtualRequest, VirtualResource};
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::{Value, json};

/// One of them by its plural.
fn definition(plural: &str, kind: &str, verbs: &[&str]) -> Arc<ResourceDefinition> {
    let resource: Resource = serde_json::from_value(json!({
        "group": "test.example.org", "version": "v1", "plural": plural, "kind": kind, "singular": kind.to_lowercase(),
        "namespaced": false, "style": "crd", "virtual": true, "verbs": verbs,
        "subresources": if plural == "beacons" { json!([{"name": "line", "verbs": ["create", "get"]}]) } else { json!([]) },
    }))
    .unwrap();
    Arc::new(named(&resource))
}

/// What ships, and these.
pub fn catalogue() -> Catalogue {
    let own = [
        definition("beacons", "Beacon", &["get", "list", "watch"]),
        definition("echoes", "Echo", &["create"]),
    ];
    Catalogue::new(karmada_kinds::catalogue::shipped().iter().cloned().chain(own))
}

fn object(kind: &str, name: &str, colour: &str) -> Value {
    json!({"kind": kind, "apiVersion": "test.example.org/v1",
        "metadata": {"name": name, "labels": {"colour": colour}, "creationTimestamp": "2026-01-01T00:00:00Z"}})
}

/// Published as they change.
pub struct Beacons(pub Published);

impl Beacons {
    /// Shows one, or takes it away.
    pub fn show(&self, name: &str, colour: Option<&str>) {
        let made = |_: Option<&Value>| Some(object("Beacon", name, colour?));
        assert!(self.0.renew(&ObjectKey::new("", name), jiff::Timestamp::now(), made));
    }
}

#[async_trait::async_trait]
impl VirtualResource for Beacons {
    async fn get(&self, asked: &VirtualRequest<'_>) -> Result<Arc<Stored>, Status> {
        let found = self.0.get(&ObjectKey::new("", asked.name));
        found.ok_or_else(|| Status::not_found(asked.definition, asked.name))
    }

    async fn list(&self, _: &VirtualRequest<'_>) -> Result<Collection, Status> {
        Ok(self.0.collection())
    }

    async fn watch(&self, _: &VirtualRequest<'_>) -> Result<Collection, Status> {
        Ok(self.0.collection())
    }
}

/// Answers what is posted.
pub struct Echoes;

#[async_trait::async_trait]
impl VirtualResource for Echoes {
    async fn create(&self, asked: &VirtualRequest<'_>, mut object: Value) -> Result<Value, Status> {
        object["status"] = json!({"heard": asked.user.name});
        Ok(object)
    }
}

/// Answers with what it sees of a request; takes what follows of its body only if it is to.
pub struct Line;

#[async_trait::async_trait]
impl Connect for Line {
    async fn connect(&self, connection: Connection<'_>) -> Result<Response<Body>, Status> {
        let Connection { user, object, path, parts, body, .. } = connection;
        let mut said = format!("{} {} {path} by {}", parts.method, object.key.name, user.name);
        if path == "silent" {
            std::future::pending::<()>().await;
        }
        if path != "deaf" {
            let heard = body.collect().await.map_err(Status::bad_request)?.to_bytes();
            said.push_str(&format!(": {}", String::from_utf8_lossy(&heard)));
        }
        Ok(Response::new(Full::new(Bytes::from(said)).boxed_unsync()))
    }
}
