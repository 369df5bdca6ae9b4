//! One stored object: JSON bytes that are served as they are, and the few facts that many readers ask of them.
//!
//! In: a JSON object to store, or bytes from the store with their revision. Out: bytes in storage form, or a [`Stored`].
//!
//! Storage form is the object in its storage version with `kind`, `apiVersion` and `metadata` first and without
//! `metadata.resourceVersion`, which is the store's revision: it is spliced in once, when the object enters the cache.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::buf::Writer;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

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

/// An object as the cache holds it.
#[derive(Debug)]
pub struct Stored {
    /// Where it stands.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub revision: u64,
    /// `metadata.generation`, 0 where absent.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// A digest of what people and controllers set in `metadata` without raising the generation: labels, annotations, owners,
    /// finalizers. With the generation it tells a change of the status from any other; good within one process only.
    pub marks: u64,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids of `metadata.ownerReferences`.
    pub owners: Box<[Box<str>]>,
    /// The whole object, `metadata.resourceVersion` included.
    pub json: Bytes,
}

impl Stored {
    /// Reads stored bytes. Fails where they are no object (a damaged store).
    pub fn read(bytes: &Bytes, revision: u64) -> Result<Stored, serde_json::Error> {
        let head: Head<'_> = serde_json::from_slice(bytes)?;
        let meta = head.metadata;
        let mut labels: Vec<(Box<str>, Box<str>)> = meta
            .labels
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.into_boxed_str(), v.into_boxed_str()))
            .collect();
        labels.sort();
        let mut digest = DefaultHasher::new();
        (&labels, meta.annotations.map(RawValue::get), meta.finalizers.map(RawValue::get)).hash(&mut digest);
        meta.owner_references.iter().for_each(|owner| owner.uid.hash(&mut digest));
        Ok(Stored {
            key: ObjectKey { namespace: meta.namespace.into(), name: meta.name.into() },
            uid: meta.uid.into(),
            revision,
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            marks: digest.finish(),
            labels: labels.into_boxed_slice(),
            owners: meta.owner_references.into_iter().map(|o| o.uid.into()).collect(),
            json: stamp(bytes, revision),
        })
    }

    /// The same object as it last stood, under the revision of its removal.
    pub fn removed_at(&self, revision: u64) -> Stored {
        let old = format!("\"resourceVersion\":\"{}\",", self.revision);
        let bytes = match find(&self.json, old.as_bytes()) {
            Some(at) => {
                let mut out = BytesMut::with_capacity(self.json.len());
                out.put_slice(&self.json[..at]);
                out.put_slice(&self.json[at + old.len()..]);
                out.freeze()
            }
            None => self.json.clone(),
        };
        Stored {
            key: self.key.clone(),
            uid: self.uid.clone(),
            revision,
            generation: self.generation,
            deleting: self.deleting,
            marks: self.marks,
            labels: self.labels.clone(),
            owners: self.owners.clone(),
            json: stamp(&bytes, revision),
        }
    }

    /// The label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|at| &*self.labels[at].1)
    }

    /// The object parsed. The cache only ever holds JSON that parsed once.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    generation: i64,
    #[serde(default, borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(default, borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(default, borrow)]
    finalizers: Option<&'a RawValue>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    uid: String,
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

const METADATA: &[u8] = b"\"metadata\":{";

/// Splices the revision in. The first `"metadata":{` is the object's own: only `kind` and `apiVersion` precede it.
fn stamp(bytes: &Bytes, revision: u64) -> Bytes {
    // What was not written has no version.
    let at = find(bytes, METADATA).map(|at| at + METADATA.len()).filter(|_| revision > 0);
    let Some(at) = at else { return bytes.clone() };
    let field = format!("\"resourceVersion\":\"{revision}\",");
    let mut out = BytesMut::with_capacity(bytes.len() + field.len());
    out.put_slice(&bytes[..at]);
    out.put_slice(field.as_bytes());
    out.put_slice(&bytes[at..]);
    out.freeze()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Short ways to `metadata` of an object under construction.
pub mod meta {
    use serde_json::{Map, Value};

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_revision_is_spliced_in_and_replaced_on_removal() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "\"metadata\":{"},
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "3", "labels": {"b": "2", "a": "1"}}});
        let bytes = encode(&object, "ConfigMap", "v1");
        let stored = Stored::read(&bytes, 7).unwrap();
        assert_eq!(stored.value()["metadata"]["resourceVersion"], "7");
        assert_eq!(stored.value()["data"], object["data"]);
        assert_eq!((stored.label("a"), stored.label("c")), (Some("1"), None));
        let gone = stored.removed_at(9);
        assert_eq!(gone.value()["metadata"]["resourceVersion"], "9");
        assert_eq!(gone.revision, 9);
        assert!(stored.json.starts_with(b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{"));
    }
}
