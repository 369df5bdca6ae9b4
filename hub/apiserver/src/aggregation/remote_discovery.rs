//! What another server may tell of itself, read into its fields and no more. Pure.
//!
//! In: bytes of its discovery and OpenAPI documents. Out: bytes of one version's entry, parts of a document, or nothing. A server
//! tells what it likes: a few megabytes of zeros parsed into a tree would take forty times as much, and be kept. What is kept of a
//! version is at most [`LARGEST_ENTRY`], whatever was sent.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Handed;

/// Bytes of one version's entry of aggregated discovery.
pub(super) const LARGEST_ENTRY: usize = 256 << 10;

/// Names in one list of a resource: verbs, short names, categories.
const MOST_NAMES: usize = 64;

/// Resources of a version, subresources of a resource.
const MOST_ROWS: usize = 2_000;

/// A list that is refused where it is longer than anybody's.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Few<T, const MOST: usize>(Vec<T>);

impl<T, const MOST: usize> Default for Few<T, MOST> {
    fn default() -> Self {
        Few(Vec::new())
    }
}

impl<T, const MOST: usize> Few<T, MOST> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T, const MOST: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> serde::de::Visitor<'de> for Reader<T, MOST> {
            type Value = Few<T, MOST>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a list of at most {MOST}")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Ok(Few::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == MOST {
                        return Err(serde::de::Error::invalid_length(MOST + 1, &self));
                    }
                    all.push(item);
                }
                Ok(Few(all))
            }
        }
        deserializer.deserialize_any(Reader(std::marker::PhantomData))
    }
}

type Names = Few<String, MOST_NAMES>;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

/// `apidiscovery.k8s.io/v2` APISubresourceDiscovery.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Subresource {
    subresource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<ResponseKind>,
    #[serde(skip_serializing_if = "Few::is_empty")]
    accepted_types: Few<ResponseKind, MOST_NAMES>,
    verbs: Names,
}

/// `apidiscovery.k8s.io/v2` APIResourceDiscovery.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<ResponseKind>,
    scope: String,
    singular_resource: String,
    verbs: Names,
    #[serde(skip_serializing_if = "Few::is_empty")]
    short_names: Names,
    #[serde(skip_serializing_if = "Few::is_empty")]
    categories: Names,
    #[serde(skip_serializing_if = "Few::is_empty")]
    subresources: Few<Subresource, MOST_ROWS>,
}

/// `apidiscovery.k8s.io/v2` APIVersionDiscovery.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Version {
    version: String,
    resources: Few<Resource, MOST_ROWS>,
}

/// A row of a `v1` APIResourceList.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Row {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Names,
    short_names: Names,
    categories: Names,
}

/// The entry of a version in a server's aggregated discovery document, where that has one that can be read.
pub(super) fn version_in(document: &[u8], handed: &Handed) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Groups<'a> {
        kind: &'a str,
        #[serde(borrow)]
        items: Few<Group<'a>, MOST_ROWS>,
    }
    #[derive(Deserialize)]
    struct Group<'a> {
        metadata: Metadata,
        #[serde(borrow)]
        versions: Few<&'a RawValue, MOST_NAMES>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let groups: Groups<'_> = serde_json::from_slice(document).ok()?;
    if groups.kind != "APIGroupDiscoveryList" {
        return None;
    }
    let group = groups.items.0.into_iter().find(|group| group.metadata.name == *handed.group)?;
    let read = |raw: &RawValue| serde_json::from_str::<Version>(raw.get()).ok();
    let mut versions = group.versions.0.into_iter().filter_map(read);
    versions.find(|version| version.version == *handed.version).and_then(|version| entry(&version))
}

/// The same made of an `APIResourceList`.
pub(super) fn converted(document: &[u8], handed: &Handed) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        resources: Few<Row, MOST_ROWS>,
    }
    let list: List = serde_json::from_slice(document).ok()?;
    let kind = |row: &Row| {
        let or = |own: &str, other: &str| if own.is_empty() { other.to_owned() } else { own.to_owned() };
        let (group, version) = (or(&row.group, &handed.group), or(&row.version, &handed.version));
        Some(ResponseKind { group, version, kind: row.kind.clone() })
    };
    let mut below: BTreeMap<String, Vec<Subresource>> = BTreeMap::new();
    let mut whole = Vec::new();
    for row in list.resources.0 {
        let response_kind = kind(&row);
        match row.name.split_once('/') {
            Some((name, sub)) => below.entry(name.to_owned()).or_default().push(Subresource {
                subresource: sub.to_owned(),
                response_kind,
                verbs: row.verbs,
                ..Subresource::default()
            }),
            None => whole.push(Resource {
                scope: if row.namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
                resource: row.name,
                response_kind,
                singular_resource: row.singular_name,
                verbs: row.verbs,
                short_names: row.short_names,
                categories: row.categories,
                subresources: Few::default(),
            }),
        }
    }
    for resource in &mut whole {
        resource.subresources = Few(below.remove(&resource.resource).unwrap_or_default());
    }
    entry(&Version { version: handed.version.to_string(), resources: Few(whole) })
}

fn entry(version: &Version) -> Option<Bytes> {
    serde_json::to_vec(version).ok().filter(|bytes| bytes.len() <= LARGEST_ENTRY).map(Bytes::from)
}

/// The hash in a version's address in a server's OpenAPI v3 index.
pub(super) fn openapi_hash(index: &[u8], handed: &Handed) -> Option<String> {
    #[derive(Deserialize)]
    struct Index<'a> {
        #[serde(borrow)]
        paths: BTreeMap<String, &'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Place {
        #[serde(rename = "serverRelativeURL")]
        server_relative_url: String,
    }
    let index: Index<'_> = serde_json::from_slice(index).ok()?;
    let place = index.paths.get(&format!("apis/{}/{}", handed.group, handed.version))?;
    let place: Place = serde_json::from_str(place.get()).ok()?;
    let (_, hash) = place.server_relative_url.split_once("hash=")?;
    Some(hash.to_owned()).filter(|hash| hash.len() <= 256)
}

/// Paths and definitions of a server's OpenAPI v2 document, each as it was sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Document {
    pub paths: BTreeMap<String, Box<RawValue>>,
    pub definitions: BTreeMap<String, Box<RawValue>>,
}

/// What the namespace controller looks at in an answer: a refusal's message, the names and finalizers of objects.
pub(super) fn objects(body: &[u8]) -> Value {
    const MOST: usize = 10_000;
    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Answer {
        message: String,
        items: Vec<Object>,
    }
    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Metadata {
        name: String,
        finalizers: Names,
    }
    let mut answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    answer.items.truncate(MOST);
    let mut kept = serde_json::to_value(&answer).unwrap_or_default();
    if answer.message.is_empty()
        && let Some(fields) = kept.as_object_mut()
    {
        fields.remove("message");
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn handed() -> Handed {
        let object = json!({"metadata": {"name": "v1.a.org"}, "spec": {"group": "a.org", "version": "v1",
            "service": {"namespace": "n", "name": "s"}}});
        Handed::read(&object).unwrap()
    }

    fn value(bytes: Option<Bytes>) -> Value {
        bytes.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn a_list_of_resources_becomes_a_versions_entry() {
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"], "shortNames": ["t"]},
            {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["update"]},
            {"name": "wholes", "namespaced": false, "kind": "Whole", "verbs": ["list"]}]});
        let kind = |kind: &str| json!({"group": "a.org", "version": "v1", "kind": kind});
        let entry = value(converted(list.to_string().as_bytes(), &handed()));
        assert_eq!(
            entry,
            json!({"version": "v1", "resources": [
                {"resource": "things", "responseKind": kind("Thing"), "scope": "Namespaced", "singularResource": "thing",
                    "verbs": ["get"], "shortNames": ["t"],
                    "subresources": [{"subresource": "status", "responseKind": kind("Thing"), "verbs": ["update"]}]},
                {"resource": "wholes", "responseKind": kind("Whole"), "scope": "Cluster", "singularResource": "", "verbs": ["list"]}]})
        );
        let groups = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "b.org"}, "versions": []}, {"metadata": {"name": "a.org"}, "versions": [{"version": "v0"}, entry]}]});
        assert_eq!(value(version_in(groups.to_string().as_bytes(), &handed())), entry);
    }

    #[test]
    fn what_is_no_discovery_is_not_kept() {
        let zeros = vec![0; 100_000];
        let verbs = vec!["get"; 100];
        let rows: Vec<Value> = (0..3_000).map(|at| json!({"name": format!("r{at}")})).collect();
        for resources in [
            json!([{"name": "x", "verbs": zeros}]),
            json!([{"name": "x", "verbs": verbs}]),
            json!(rows),
            json!([{"name": "x".repeat(LARGEST_ENTRY)}]),
            json!({}),
        ] {
            let list = json!({"resources": resources});
            assert_eq!(converted(list.to_string().as_bytes(), &handed()), None);
            let groups = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a.org"},
                "versions": [{"version": "v1", "resources": [{"resource": "x", "verbs": zeros}]}]}]});
            assert_eq!(version_in(groups.to_string().as_bytes(), &handed()), None);
        }
    }

    #[test]
    fn the_hash_stands_in_the_versions_address() {
        let index = json!({"paths": {"apis/a.org/v1": {"serverRelativeURL": "/openapi/v3/apis/a.org/v1?hash=ABC"}, "version": 1}});
        assert_eq!(openapi_hash(index.to_string().as_bytes(), &handed()).as_deref(), Some("ABC"));
        assert_eq!(openapi_hash(b"{\"paths\":{}}", &handed()), None);
    }

    #[test]
    fn of_an_answer_names_finalizers_and_a_message_are_read() {
        let list = json!({"kind": "List", "junk": vec![0; 1000], "items": [
            {"metadata": {"name": "a", "finalizers": ["f"], "labels": {"x": "y"}}, "spec": 1}]});
        let kept = objects(list.to_string().as_bytes());
        assert_eq!(kept, json!({"items": [{"metadata": {"name": "a", "finalizers": ["f"]}}]}));
        assert_eq!(objects(br#"{"message":"no"}"#)["message"], "no");
    }
}
