//! One stored object: JSON bytes that are served as they are, and the few facts that many readers ask of them.
//!
//! In: a JSON object to store, or bytes from the store with their revision. Out: bytes in storage form, or a [`Stored`].
//!
//! Storage form is the object in its storage version with `kind`, `apiVersion` and `metadata` first and without
//! `metadata.resourceVersion`, which is the store's revision: it is spliced in once, when the object enters the cache.

pub mod extent;
mod pieces;
mod shared_values;
mod stored;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::buf::Writer;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value};

pub use shared_values::SharedValues;
pub use stored::Stored;

/// Bytes of JSON of the largest object of most kinds that is stored, as etcd's default request limit.
pub const LARGEST: usize = 3 << 19;

/// Namespace (empty when cluster-scoped) and name: the order of every list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from text.
    pub fn new(namespace: &str, name: &str) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

/// The bytes to store for an object.
pub fn encode(object: &Value, kind: &str, api_version: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(1024).writer();
    let empty = Map::new();
    let members = object.as_object().unwrap_or(&empty);
    let metadata = members.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let metadata: BTreeMap<&str, &Value> = metadata
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(n, _)| *n != "resourceVersion")
        .collect();
    put(&mut out, "{\"kind\":", &kind);
    put(&mut out, ",\"apiVersion\":", &api_version);
    put(&mut out, ",\"metadata\":", &metadata);
    for (name, value) in members {
        if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            put(&mut out, ",", name);
            put(&mut out, ":", value);
        }
    }
    let mut bytes = out.into_inner();
    bytes.put_u8(b'}');
    bytes.freeze()
}

fn put(out: &mut Writer<BytesMut>, prefix: &str, value: &impl Serialize) {
    out.get_mut().put_slice(prefix.as_bytes());
    // Writing to memory does not fail, and texts and Values always serialise.
    let _ = serde_json::to_writer(out, value);
}

/// Short ways to `metadata` of an object under construction.
pub mod meta {
    use serde_json::{Map, Value};

    /// The fields of ObjectMeta, in the order in which Go writes them.
    pub const FIELDS: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];

    /// `metadata` as a map, made where it is missing or no object.
    pub fn of(object: &mut Value) -> &mut Map<String, Value> {
        if !object.is_object() {
            *object = Value::Object(Map::new());
        }
        let slot = &mut object["metadata"];
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        slot.as_object_mut().expect("made an object above")
    }

    /// A text field of `metadata`, empty where absent.
    pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
        object["metadata"][field].as_str().unwrap_or("")
    }

    /// `metadata.name`.
    pub fn name(object: &Value) -> &str {
        text(object, "name")
    }

    /// `metadata.namespace`.
    pub fn namespace(object: &Value) -> &str {
        text(object, "namespace")
    }

    /// `metadata.finalizers`.
    pub fn finalizers(object: &Value) -> Vec<String> {
        let list = object["metadata"]["finalizers"].as_array();
        list.into_iter().flatten().filter_map(|f| f.as_str().map(str::to_owned)).collect()
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn deleting(object: &Value) -> bool {
        object["metadata"]["deletionTimestamp"].is_string()
    }
}
