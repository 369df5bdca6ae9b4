//! What a webhook answered, as far as it can be believed.
//!
//! In: a question, and the bytes that came back. Out: the answer to that operation, or in words why it is none. A webhook is a stranger: what it
//! says is bounded, of the types that the API has, and says nothing but what it was asked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_api::binding::{Component, ReplicaRequirements};
use karmada_interpreter::{DependentObject, Operation, Question, Replicas};
use serde::Deserialize;
use serde_json::Value;

use super::request;

/// The longest answer that is read: what an object may weigh.
pub const LONGEST: usize = 3 << 20;

/// What is told of a webhook's own words.
const WORDS: usize = 512;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Of InterpretReplica.
    Replicas(Replicas),
    /// Of InterpretComponent.
    Components(Vec<Component>),
    /// Of ReviseReplica and AggregateStatus: a JSON patch of the object; none where it stays as it is.
    Patch(Option<Vec<u8>>),
    /// Of InterpretDependency, sorted, each once.
    Dependencies(Vec<DependentObject>),
    /// Of InterpretStatus.
    Status(Value),
    /// Of InterpretHealth.
    Healthy(bool),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Context {
    api_version: Option<String>,
    kind: Option<String>,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    uid: Option<String>,
    successful: Option<bool>,
    status: Option<Status>,
    patch: Option<String>,
    patch_type: Option<String>,
    replicas: Option<i32>,
    replica_requirements: Option<ReplicaRequirements>,
    components: Option<Vec<Component>>,
    dependencies: Option<Vec<DependentObject>>,
    raw_status: Option<Value>,
    healthy: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: Option<String>,
    code: Option<i64>,
}

/// Reads an answer.
///
/// # Errors
/// It is longer than [`LONGEST`], no ResourceInterpreterContext, to another question, a refusal, or lacks what was asked for.
pub fn read(question: &Question, bytes: &[u8]) -> Result<Said, String> {
    if bytes.len() > LONGEST {
        return Err(format!("the answer is longer than {LONGEST} bytes"));
    }
    let Context { api_version, kind, response } =
        serde_json::from_slice(bytes).map_err(|error| format!("the answer cannot be read: {error}"))?;
    let (version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
    if !matches!(&*version, "" | "config.karmada.io/v1alpha1")
        || !matches!(&*kind, "" | "ResourceInterpreterContext")
    {
        return Err(format!(
            "expected a config.karmada.io/v1alpha1 ResourceInterpreterContext, got {} {}",
            shortened(&version),
            shortened(&kind)
        ));
    }
    let response = response.ok_or("the answer has no response")?;
    let (uid, told) = (request::uid(&question.digest), response.uid.as_deref().unwrap_or_default());
    if told != uid {
        return Err(format!("expected response.uid {uid:?}, got {:?}", shortened(told)));
    }
    if response.successful != Some(true) {
        let Status { message, code } = response.status.unwrap_or_default();
        let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
        return Err(format!("it did not succeed (code {code}): {}", shortened(&message)));
    }
    response.said(question.operation)
}

pub(super) fn shortened(words: &str) -> String {
    words.chars().take(WORDS).collect()
}

impl Response {
    fn said(self, operation: Operation) -> Result<Said, String> {
        let lacks = |field: &str| format!("the answer has no response.{field}");
        match operation {
            Operation::InterpretReplica => {
                let count = self.replicas.ok_or_else(|| lacks("replicas"))?;
                if count < 0 {
                    return Err(format!("response.replicas is negative: {count}"));
                }
                Ok(Said::Replicas(Replicas { count, requirements: self.replica_requirements }))
            }
            Operation::InterpretComponent => {
                let components = self.components.unwrap_or_default();
                match components.iter().find(|component| component.replicas < 0) {
                    Some(component) => {
                        Err(format!("component {:?} has negative replicas", shortened(&component.name)))
                    }
                    None => Ok(Said::Components(components)),
                }
            }
            Operation::InterpretDependency => {
                let mut all = self.dependencies.unwrap_or_default();
                all.iter().try_for_each(DependentObject::check)?;
                all.sort();
                all.dedup();
                Ok(Said::Dependencies(all))
            }
            Operation::ReviseReplica | Operation::AggregateStatus | Operation::Retain => {
                patch(self.patch.as_deref(), self.patch_type.as_deref()).map(Said::Patch)
            }
            Operation::InterpretStatus => {
                let status =
                    self.raw_status.filter(|status| !status.is_null()).ok_or_else(|| lacks("rawStatus"))?;
                if status.is_object() {
                    Ok(Said::Status(status))
                } else {
                    Err("response.rawStatus is no object".to_owned())
                }
            }
            Operation::InterpretHealth => self.healthy.map(Said::Healthy).ok_or_else(|| lacks("healthy")),
        }
    }
}

fn patch(patch: Option<&str>, kind: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    match (patch.unwrap_or_default(), kind) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err("the answer has a response.patchType and no response.patch".to_owned()),
        (patch, Some("JSONPatch")) => {
            let bytes = STANDARD.decode(patch);
            bytes.map(Some).map_err(|error| format!("response.patch is no base64: {error}"))
        }
        (_, other) => Err(format!(
            "response.patchType must be JSONPatch, and is {:?}",
            shortened(other.unwrap_or_default())
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(operation: Operation) -> Question {
        Question {
            webhook_digest: [0; 32],
            whom: "c/h".into(),
            operation,
            api_version: "x.io/v1".into(),
            kind: "Thing".into(),
            namespace: "n".into(),
            name: "t".into(),
            digest: [7; 32],
            body: Vec::new(),
        }
    }

    fn answered(operation: Operation, mut response: Value) -> Result<Said, String> {
        let defaults = [("uid", json!(request::uid(&[7; 32]))), ("successful", json!(true))];
        for (field, value) in defaults {
            if response.get(field).is_none() {
                response[field] = value;
            }
        }
        let context = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": response});
        read(&question(operation), context.to_string().as_bytes())
    }

    #[test]
    fn each_operation_has_its_answer() {
        let patched = STANDARD.encode(r#"[{"op":"remove","path":"/a"}]"#);
        let dependency =
            |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": name});
        let dependent = |name: &str| serde_json::from_value::<DependentObject>(dependency(name)).unwrap();
        use Operation as Op;
        for (operation, response, said) in [
            (
                Op::InterpretReplica,
                json!({"replicas": 3}),
                Said::Replicas(Replicas { count: 3, requirements: None }),
            ),
            (
                Op::InterpretReplica,
                json!({"replicas": 0, "patch": null}),
                Said::Replicas(Replicas::default()),
            ),
            (Op::InterpretComponent, json!({}), Said::Components(Vec::new())),
            (Op::ReviseReplica, json!({}), Said::Patch(None)),
            (
                Op::AggregateStatus,
                json!({"patch": patched, "patchType": "JSONPatch"}),
                Said::Patch(Some(br#"[{"op":"remove","path":"/a"}]"#.to_vec())),
            ),
            (
                Op::InterpretDependency,
                json!({"dependencies": [dependency("b"), dependency("a"), dependency("b")]}),
                Said::Dependencies(vec![dependent("a"), dependent("b")]),
            ),
            (Op::InterpretStatus, json!({"rawStatus": {"ready": 1}}), Said::Status(json!({"ready": 1}))),
            (Op::InterpretHealth, json!({"healthy": false}), Said::Healthy(false)),
        ] {
            assert_eq!(answered(operation, response), Ok(said), "{}", operation.name());
        }
    }

    #[test]
    fn what_is_no_answer_says_why() {
        use Operation as Op;
        for (operation, response, words) in [
            (Op::InterpretReplica, json!({}), "the answer has no response.replicas"),
            (Op::InterpretReplica, json!({"replicas": -1}), "response.replicas is negative: -1"),
            (Op::InterpretReplica, json!({"replicas": "3"}), "cannot be read"),
            (Op::InterpretReplica, json!({"replicas": 3_000_000_000_u64}), "cannot be read"),
            (
                Op::InterpretComponent,
                json!({"components": [{"name": "a", "replicas": -2}]}),
                "negative replicas",
            ),
            (
                Op::InterpretDependency,
                json!({"dependencies": [{"apiVersion": "v1"}]}),
                "a dependency needs its kind",
            ),
            (Op::InterpretStatus, json!({"rawStatus": null}), "no response.rawStatus"),
            (Op::InterpretStatus, json!({"rawStatus": 7}), "rawStatus is no object"),
            (Op::InterpretHealth, json!({"rawStatus": {}}), "no response.healthy"),
            (Op::ReviseReplica, json!({"patch": "W10="}), "patchType must be JSONPatch"),
            (Op::ReviseReplica, json!({"patchType": "JSONPatch"}), "no response.patch"),
            (Op::ReviseReplica, json!({"patch": "W10=", "patchType": "Merge"}), "and is \"Merge\""),
            (Op::ReviseReplica, json!({"patch": "?", "patchType": "JSONPatch"}), "no base64"),
            (Op::ReviseReplica, json!({"uid": "another"}), "got \"another\""),
            (
                Op::ReviseReplica,
                json!({"successful": false, "status": {"code": 403, "message": "not mine"}}),
                "(code 403): not mine",
            ),
            (Op::ReviseReplica, json!({"successful": null}), "it did not succeed (code 0)"),
        ] {
            let why = answered(operation, response).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        let read = |bytes: &[u8]| read(&question(Op::InterpretHealth), bytes).unwrap_err();
        assert!(read(b"<html>").contains("cannot be read"));
        assert!(read(b"{}").contains("no response"));
        assert!(read(br#"{"kind": "AdmissionReview"}"#).contains("got  AdmissionReview"));
        assert!(read(&vec![b' '; LONGEST + 1]).contains("longer than"));
    }
}
