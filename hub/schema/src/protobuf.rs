//! Kubernetes' protobuf bodies: kubectl's typed commands and client-go's generated clients send them, and ask for them.
//!
//! On the wire: `k8s\0` and an `Unknown` message around the object's own (`runtime.Unknown` of apimachinery). Inside the hub an object is
//! JSON: [`decode`] makes JSON of a body, to be decoded like any other, and [`encode`] makes an answer of JSON.
//!
//! The field numbers are facts in `data/protobuf.tsv`, looked up line by line, so that nothing is held in memory.
//!
//! In: a body's bytes, or JSON to answer with. Out: JSON, or bytes; [`ProtobufError`] where the kind has no such form or the bytes are
//! malformed. Pure.

mod read;
mod write;

use serde_json::{Map, Value, json};

use self::read::{Fields, Wire, read_message, utf8};

pub use self::write::{List, encode, event};

static MESSAGES: &str = include_str!("../data/protobuf.tsv");

const MAGIC: &[u8] = b"k8s\0";

/// Deeper than any Kubernetes type nests; what nests deeper is an attack.
const MAX_DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The kind has no protobuf form here: the client is to send JSON.
    #[error("{0} has no protobuf form")]
    Unsupported(String),
    /// The bytes are not what they claim to be.
    #[error("the protobuf body is malformed: {0}")]
    Malformed(&'static str),
    /// A field's text is none of its type: of which kind, in which version, and what is wrong, in kube-apiserver's words.
    #[error("{0} in version {1:?} cannot be handled as a {0}: {2}")]
    Unfit(String, String, &'static str),
}

use ProtobufError::{Malformed, Unsupported};

/// The content type of objects in this form.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Whether objects of this kind have a protobuf form.
pub fn has_form(api_version: &str, kind: &str) -> bool {
    message(&message_name(api_version, kind)).is_some()
}

/// Reads a body.
///
/// # Errors
/// Its kind has no protobuf form ([`ProtobufError::Unsupported`]), or it is malformed, or text in it does not fit its field.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let rest = body.strip_prefix(MAGIC).ok_or(Malformed("it does not begin with k8s\\0"))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &rest[..0]);
    for field in Fields(rest) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields(meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?.to_owned(),
                        (2, Wire::Bytes(text)) => kind = utf8(text)?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    let Some(fields) = message(&name) else { return Err(Unsupported(format!("{api_version} {kind}"))) };
    let mut object = Map::new();
    read_message(raw, fields, &mut object, 0).map_err(|error| match error {
        ProtobufError::Unfit(_, _, why) => {
            let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
            ProtobufError::Unfit(kind.clone(), version, why)
        }
        other => other,
    })?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

/// Kinds that every group and version has: options, refusals, and what discovery answers.
const OF_NO_GROUP: [&str; 6] =
    ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Status"];

/// `core.v1.Pod` for v1 Pod, `apps.v1.Deployment` for apps/v1 Deployment.
fn message_name(api_version: &str, kind: &str) -> String {
    if OF_NO_GROUP.contains(&kind) {
        return format!("meta.v1.{kind}");
    }
    match api_version.split_once('/') {
        // A group of somebody else's may begin like one of Kubernetes' own.
        Some((group, _)) if group.contains('.') && !group.ends_with(".k8s.io") => String::new(),
        Some((group, version)) => format!("{}.{version}.{kind}", group.split('.').next().unwrap_or(group)),
        None => format!("core.{api_version}.{kind}"),
    }
}

/// The fields of a message, as the data file writes them. The lines are sorted.
fn message(name: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, MESSAGES.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let start = MESSAGES[..middle].rfind('\n').map_or(0, |at| at + 1);
        let end = MESSAGES[start..].find('\n').map_or(MESSAGES.len(), |at| start + at);
        let (found, fields) = MESSAGES[start..end].split_once('\t')?;
        match name.cmp(found) {
            std::cmp::Ordering::Equal => return Some(fields),
            std::cmp::Ordering::Less => high = start,
            std::cmp::Ordering::Greater => low = end + 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn a_config_map_and_a_secret_are_read() {
        let metadata = field(1, &field(1, b"a"));
        let entry = field(2, &[field(1, b"key"), field(2, b"value")].concat());
        let object =
            decode(&envelope("v1", "ConfigMap", &[metadata.clone(), entry.clone()].concat())).unwrap();
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value"}})
        );
        let object = decode(&envelope("v1", "Secret", &[metadata, entry].concat())).unwrap();
        assert_eq!(object["data"]["key"], "dmFsdWU=");
    }

    #[test]
    fn inlined_messages_stand_in_their_parent() {
        let source = field(2, &field(6, &field(1, b"s")));
        let volume = [field(1, b"v"), source].concat();
        let pod = field(2, &field(1, &volume));
        let object = decode(&envelope("v1", "Pod", &pod)).unwrap();
        assert_eq!(object["spec"]["volumes"][0], json!({"name": "v", "secret": {"secretName": "s"}}));
    }

    #[test]
    fn damaged_bodies_are_refused_and_unknown_kinds_named() {
        assert!(matches!(decode(b"xxxx"), Err(Malformed(_))));
        let whole = envelope("v1", "ConfigMap", &field(1, &field(1, b"a")));
        for cut in 5..whole.len() {
            let _ = decode(&whole[..cut]);
        }
        assert!(matches!(decode(&whole[..whole.len() - 1]), Err(Malformed(_))));
        assert!(matches!(decode(&envelope("example.org/v1", "Thing", b"")), Err(Unsupported(_))));
    }

    #[test]
    fn every_message_that_is_named_is_there() {
        for line in MESSAGES.lines() {
            let (name, fields) = line.split_once('\t').unwrap();
            assert_eq!(message(name), Some(fields), "{name}");
            for field in fields.split(' ').filter(|f| !f.is_empty()) {
                let kind = field.rsplit(':').next().unwrap().trim_start_matches(['[', '{', '^']);
                if let Some(other) = kind.strip_prefix(['m', 'o']) {
                    assert!(message(other).is_some(), "{name} names {other}");
                }
            }
        }
    }
}
