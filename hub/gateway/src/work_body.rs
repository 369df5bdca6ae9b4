//! What of a Work goes over the wire: `{"manifests":[…]}`, the manifests' text as it is stored.
//!
//! In: a Work's JSON. Out: the body and its hash; for JSON that cannot be read, the report that says so in the agent's place. Pure.
//!
//! Status and metadata stay behind, so that a status written by the agent's own report does not come back to it
//! as a new desired state.

use bytes::Bytes;
use karmada_proto::body;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ports::{Applied, Work, WorkReport};

#[derive(Deserialize, Default)]
struct Object<'a> {
    #[serde(borrow, default)]
    spec: Spec<'a>,
}

#[derive(Deserialize, Default)]
struct Spec<'a> {
    #[serde(borrow, default)]
    workload: Workload<'a>,
}

#[derive(Deserialize, Default)]
struct Workload<'a> {
    #[serde(borrow, default)]
    manifests: Option<&'a RawValue>,
}

/// The body for the agent, cut out of a Work's JSON.
pub fn manifests(work: &[u8]) -> Result<Bytes, serde_json::Error> {
    let object: Object<'_> = serde_json::from_slice(work)?;
    let manifests = object.spec.workload.manifests.map_or("[]", RawValue::get);
    let manifests = if manifests == "null" { "[]" } else { manifests };
    Ok(format!(r#"{{"manifests":{manifests}}}"#).into())
}

/// The hash by which an agent names the body of the Work that this JSON is of; `None` where it cannot be read.
pub fn body_hash(work: &[u8]) -> Option<Bytes> {
    Some(body::hash(&manifests(work).ok()?))
}

/// The report about a Work whose JSON cannot be read.
pub fn malformed(work: &Work, error: &serde_json::Error) -> WorkReport {
    WorkReport {
        key: work.key.to_string(),
        uid: work.uid.to_string(),
        revision: work.revision,
        generation: work.generation,
        hash: None,
        applied: Some(Applied {
            ok: false,
            reason: "AppliedFailed".into(),
            message: format!("the Work cannot be read: {error}"),
        }),
        manifest_statuses: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_manifests_count() {
        let work = |status: &str| {
            format!(
                r#"{{"metadata":{{"name":"a"}},"spec":{{"workload":{{"manifests":[{{"b":"\u00e9","a":1}}]}}}},"status":{status}}}"#
            )
        };
        let body = manifests(work("{}").as_bytes()).unwrap();
        assert_eq!(body, Bytes::from_static(br#"{"manifests":[{"b":"\u00e9","a":1}]}"#));
        assert_eq!(manifests(work(r#"{"conditions":[]}"#).as_bytes()).unwrap(), body);
        for empty in [r#"{}"#, r#"{"spec":{}}"#, r#"{"spec":{"workload":{"manifests":null}}}"#] {
            assert_eq!(manifests(empty.as_bytes()).unwrap(), Bytes::from_static(br#"{"manifests":[]}"#));
        }
        assert!(manifests(b"[").is_err());
    }
}
