//! What is served, as clients discover it: versions, groups, resources (aggregated and one by one).
//!
//! In: the catalogue that is announced, the groups of other servers, and a path. Out: documents in the form that the client takes,
//! aggregated ones with an ETag; or a 404. Reads memory alone.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Response, StatusCode};
use karmada_definitions::resource::{Catalogue, ResourceDefinition, Version};
use karmada_definitions::status::Status;
use karmada_definitions::version::api_version;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answer_body::Body;
use super::negotiation::AnswerFormat;
use super::{ApiServer, Call, ServerOptions, respond};
use crate::aggregation::Groups;
use crate::openapi::Document;

/// `/version`.
pub(super) fn version(options: &ServerOptions) -> Value {
    let mut numbers = options.git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
    let before = minor.parse::<u32>().unwrap_or(0).saturating_sub(1).to_string();
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": before,
        "gitVersion": options.git_version, "gitCommit": options.git_commit, "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// `/`.
pub(super) fn paths(catalogue: &Catalogue) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in catalogue.groups().iter().filter(|(g, _)| !g.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|(version, _)| format!("/apis/{group}/{version}")));
    }
    for fixed in ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
        paths.push(fixed.to_owned());
    }
    json!({"paths": paths})
}

impl ApiServer {
    pub(super) fn discover(&self, call: &Call<'_>, path: &str) -> Result<Response<Body>, Status> {
        let catalogue = self.registry.announced();
        let handed = self.aggregator.as_ref().and_then(|aggregator| aggregator.groups());
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        match parts.as_slice() {
            ["api"] if aggregated(call) => {
                Ok(shared(cached(call, Document::of(aggregated_core(&catalogue)), AGGREGATED)))
            }
            ["apis"] if aggregated(call) => {
                let groups = aggregated_groups(&catalogue, handed.as_ref());
                Ok(shared(cached(call, Document::of(groups), AGGREGATED)))
            }
            ["api"] => Ok(document(call, &core_versions(&self.options.advertise))),
            ["apis"] => {
                let groups = groups(&catalogue, handed.as_ref());
                Ok(document(call, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
            }
            ["api", version] => Ok(document(call, &resource_list(&catalogue, "", version)?)),
            ["apis", group] => {
                match groups(&catalogue, handed.as_ref()).into_iter().find(|g| g["name"] == **group) {
                    Some(mut body) => {
                        body["kind"] = json!("APIGroup");
                        body["apiVersion"] = json!("v1");
                        Ok(document(call, &body))
                    }
                    None => Err(Status::no_page()),
                }
            }
            ["apis", group, version] => Ok(document(call, &resource_list(&catalogue, group, version)?)),
            _ => Err(Status::no_resource()),
        }
    }
}

/// A document in the form that the client takes first.
fn document(call: &Call<'_>, value: &Value) -> Response<Body> {
    let format = AnswerFormat::choose_whole(call.headers).unwrap_or(AnswerFormat::JSON);
    respond::document(StatusCode::OK, value.to_string().into(), format)
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn aggregated(call: &Call<'_>) -> bool {
    let accept = call.headers.get_all(ACCEPT);
    accept.iter().filter_map(|v| v.to_str().ok()).any(|v| {
        v.split(',').any(|clause| {
            // Its form in protobuf is not written: who asks for that alone gets the documents one by one.
            clause.trim_start().starts_with("application/json")
                && clause.contains("as=APIGroupDiscoveryList")
                && clause.contains("v=v2")
                && !clause.contains("v=v2beta1")
        })
    })
}

/// A document with its hash as ETag: clients that hold it get 304.
pub(super) fn cached(call: &Call<'_>, document: Document, content_type: &'static str) -> Response<Body> {
    let Document { bytes, etag } = document;
    let held = call.headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = if held == Some(etag.as_str()) {
        respond::with_type(StatusCode::NOT_MODIFIED, respond::full(Bytes::new()), content_type)
    } else {
        respond::with_type(StatusCode::OK, respond::full(bytes), content_type)
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// A document that is the same for everybody.
fn shared(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn core_versions(advertise: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": advertise}]})
}

fn one_group(group: &str, versions: &[(Arc<str>, Vec<Arc<ResourceDefinition>>)]) -> Value {
    let entry = |version: &str| json!({"groupVersion": api_version(group, version), "version": version});
    let all: Vec<Value> = versions.iter().map(|(version, _)| entry(version)).collect();
    json!({"name": group, "preferredVersion": all.first(), "versions": all})
}

/// Every group but the core one, those that other servers answer among them.
fn groups(catalogue: &Catalogue, handed: Option<&Groups>) -> Vec<Value> {
    let mut all: Vec<Value> = catalogue
        .groups()
        .iter()
        .filter(|(g, _)| !g.is_empty())
        .map(|(g, versions)| one_group(g, versions))
        .collect();
    if let Some(handed) = handed {
        handed.add_to_list(&mut all);
    }
    all
}

fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Result<Value, Status> {
    let resources = catalogue.resources(group, version).ok_or_else(|| unserved(catalogue, group))?;
    let mut rows = Vec::new();
    for definition in resources {
        let mut row = json!({
            "name": definition.plural, "singularName": definition.singular, "namespaced": definition.namespaced,
            "kind": definition.kind, "verbs": verbs(definition),
        });
        if !definition.short_names.is_empty() {
            row["shortNames"] = json!(definition.short_names);
        }
        if !definition.categories.is_empty() {
            row["categories"] = json!(definition.categories);
        }
        if definition.is_stored() {
            row["storageVersionHash"] = json!(storage_hash(definition));
        }
        rows.push(row);
        for sub in &definition.subresources {
            let mut row = json!({
                "name": format!("{}/{}", definition.plural, sub.name), "singularName": "",
                "namespaced": definition.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            if (&sub.group, &sub.version) != (&definition.group, &definition.version) {
                row["group"] = json!(sub.group);
                row["version"] = json!(sub.version);
            }
            rows.push(row);
        }
    }
    rows.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": api_version(group, version), "resources": rows});
    // Of the core group kube-apiserver does not say it.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Ok(list)
}

/// What is said of a path below a group: a group that is not served is no API at all.
pub(super) fn unserved(catalogue: &Catalogue, group: &str) -> Status {
    let served = catalogue.groups().iter().any(|(name, _)| &**name == group);
    if served { Status::no_resource() } else { Status::no_page() }
}

/// A kind's verbs; those of a custom one in the order of its handler.
fn verbs(definition: &ResourceDefinition) -> Vec<&str> {
    const ORDER: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    match definition.is_structural() {
        true => ORDER.into_iter().filter(|verb| definition.allows(verb)).collect(),
        false => definition.verbs.iter().map(|verb| &**verb).collect(),
    }
}

/// By which clients see that a kind is stored in another version than before.
fn storage_hash(definition: &ResourceDefinition) -> String {
    use base64::Engine;
    let stored = definition.storage_api_version();
    let (group, version) = stored.rsplit_once('/').unwrap_or(("", &stored));
    let digest = Sha256::digest(format!("{group}/{version}/{}", definition.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The core group, which has no name.
fn aggregated_core(catalogue: &Catalogue) -> Bytes {
    let groups = catalogue.groups().iter().filter(|(group, _)| group.is_empty());
    let items: Vec<Value> = groups.map(|(_, versions)| aggregated_group(&json!({}), versions)).collect();
    discovery_list(&items)
}

/// Every other group, and those that other servers serve.
fn aggregated_groups(catalogue: &Catalogue, handed: Option<&Groups>) -> Bytes {
    let groups = catalogue.groups().iter().filter(|(group, _)| !group.is_empty());
    let mut items: Vec<Value> =
        groups.map(|(group, versions)| aggregated_group(&json!({"name": group}), versions)).collect();
    if let Some(handed) = handed {
        handed.add_to_discovery(&mut items);
    }
    discovery_list(&items)
}

fn aggregated_group(metadata: &Value, versions: &[Version]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.iter().map(|d| aggregated_resource(d)).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

fn discovery_list(items: &[Value]) -> Bytes {
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    format!("{list}\n").into()
}

fn aggregated_resource(definition: &ResourceDefinition) -> Value {
    // Kubernetes' own kinds say their group and version only where it is another than the one they stand under.
    let implied = |group: &str, version: &str| {
        !definition.is_structural() && (group, version) == (&*definition.group, &*definition.version)
    };
    let kind = |group: &str, version: &str, kind: &str| {
        let (group, version) = if implied(group, version) { ("", "") } else { (group, version) };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut resource = json!({
        "resource": definition.plural,
        "responseKind": kind(&definition.group, &definition.version, &definition.kind),
        "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": definition.singular,
        "verbs": verbs(definition),
    });
    if !definition.short_names.is_empty() {
        resource["shortNames"] = json!(definition.short_names);
    }
    if !definition.categories.is_empty() {
        resource["categories"] = json!(definition.categories);
    }
    let subresources: Vec<Value> = definition
        .subresources
        .iter()
        .map(|s| json!({"subresource": s.name, "responseKind": kind(&s.group, &s.version, &s.kind), "verbs": s.verbs}))
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = Value::Array(subresources);
    }
    resource
}
