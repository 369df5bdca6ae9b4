//! What is asked of a webhook, as a ResourceInterpreterContext, and the digest by which its answer is found again.
//!
//! In: an object and what is wanted of it. Out: a [`Question`]. What an API server counts up by itself in an object makes no other
//! question of it: who would be told the same twice is not asked twice.

use std::io;

use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use karmada_interpreter::Operation;
use karmada_interpreter::question::{Digest, Question};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::configuration::Webhook;

/// What is wanted of an object.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub operation: Operation,
    pub object: &'a Value,
    /// The same as a member has it, without its status.
    pub observed: Option<&'a Value>,
    /// The replicas that it shall have.
    pub replicas: Option<i64>,
    /// How it stands in the clusters.
    pub items: &'a [AggregatedStatusItem],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    api_version: &'static str,
    kind: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    kind: Kind<'a>,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    object: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_object: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    aggregated_status: &'a [AggregatedStatusItem],
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// The uid of a question: an answer must repeat it.
pub(super) fn uid(digest: &Digest) -> String {
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl Asked<'_> {
    /// Of everything that decides about the answer.
    pub(super) fn digest(&self, webhook: &Webhook) -> Digest {
        let mut digest = Digesting(Sha256::new());
        digest.0.update(webhook.webhook_digest);
        digest.0.update(webhook.whom.as_bytes());
        digest.0.update(format!("\0{}\0{:?}\0", self.operation.name(), self.replicas));
        digest.object(self.object, self.reads_status());
        if let Some(observed) = self.observed {
            digest.0.update(b"\0observed\0");
            digest.object(observed, false);
        }
        digest.part(&self.items);
        digest.0.finalize().into()
    }

    /// Whether the object's status decides about the answer. Of what is asked of a template it does not: the hub itself writes that, often while
    /// the template is rolled out, and each time it would be another question.
    fn reads_status(&self) -> bool {
        !matches!(
            self.operation,
            Operation::InterpretReplica
                | Operation::InterpretComponent
                | Operation::ReviseReplica
                | Operation::InterpretDependency
                | Operation::Retain
        )
    }

    /// The question, of this digest.
    pub(super) fn question(&self, webhook: &Webhook, digest: Digest) -> Question {
        let (api_version, kind) = (object::api_version(self.object), object::kind(self.object));
        let (group, version) = object::group_version(api_version);
        let (name, namespace) = (object::name(self.object), object::namespace(self.object));
        let context = Context {
            api_version: "config.karmada.io/v1alpha1",
            kind: "ResourceInterpreterContext",
            request: Request {
                uid: uid(&digest),
                kind: Kind { group, version, kind },
                name,
                namespace,
                operation: self.operation.name(),
                object: self.object,
                observed_object: self.observed,
                replicas: self.replicas,
                aggregated_status: self.items,
            },
        };
        Question {
            whom: webhook.whom.clone(),
            webhook_digest: webhook.webhook_digest,
            operation: self.operation,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            digest,
            // Keys are texts and numbers are finite: nothing here fails to be written.
            body: serde_json::to_vec(&context).unwrap_or_default(),
        }
    }
}

/// Digests what is written into it.
struct Digesting(Sha256);

impl Digesting {
    /// An object, without what an API server counts up in it; with its status where that is asked for.
    fn object(&mut self, object: &Value, with_status: bool) {
        let Value::Object(fields) = object else { return };
        for (field, value) in fields.iter().filter(|(field, _)| *field != "status" || with_status) {
            self.part(field);
            match value {
                Value::Object(metadata) if field == "metadata" => {
                    let counted = |field: &str| matches!(field, "resourceVersion" | "managedFields");
                    for (field, value) in metadata.iter().filter(|(field, _)| !counted(field)) {
                        self.part(field);
                        self.part(value);
                    }
                }
                value => self.part(value),
            }
            self.0.update(b"\0end\0");
        }
    }

    /// One value as JSON, and its end.
    fn part(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing into a digest does not fail, and what is written here are values that were JSON before.
        let _ = serde_json::to_writer(&mut *self, value);
        self.0.update([0]);
    }
}

impl io::Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::interpreter_webhook::WebhookConfiguration;

    fn webhook(url: &str) -> Webhook {
        let all = json!([{"name": "h", "clientConfig": {"url": url}}]);
        let configuration: WebhookConfiguration = json!({"metadata": {"name": "c"}, "webhooks": all}).into();
        (*configuration.webhooks[0]).clone()
    }

    fn thing() -> Value {
        json!({"apiVersion": "x.io/v1", "kind": "Thing", "spec": {"size": 3},
            "metadata": {"name": "t", "namespace": "n", "resourceVersion": "7", "managedFields": [{}], "labels": {"a": "b"}}})
    }

    fn asked(object: &Value) -> Asked<'_> {
        Asked { operation: Operation::ReviseReplica, object, observed: None, replicas: Some(2), items: &[] }
    }

    #[test]
    fn a_question_is_a_context_of_the_api() {
        let (object, webhook) = (thing(), webhook("https://h/"));
        let digest = asked(&object).digest(&webhook);
        let question = asked(&object).question(&webhook, digest);
        assert_eq!((question.whom.as_str(), question.name.as_str()), ("c/h", "t"));
        let body: Value = serde_json::from_slice(&question.body).unwrap();
        let told = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": {
            "uid": uid(&digest), "kind": {"group": "x.io", "version": "v1", "kind": "Thing"}, "name": "t", "namespace": "n",
            "operation": "ReviseReplica", "replicas": 2, "object": object}});
        assert_eq!(body, told);
        assert_eq!(uid(&digest).len(), 36);
        let mut there = thing();
        there["spec"]["size"] = json!(9);
        let retain =
            Asked { operation: Operation::Retain, observed: Some(&there), replicas: None, ..asked(&object) };
        let body: Value = serde_json::from_slice(&retain.question(&webhook, digest).body).unwrap();
        assert_eq!((&body["request"]["object"], &body["request"]["observedObject"]), (&object, &there));
    }

    #[test]
    fn what_decides_about_the_answer_makes_another_question_and_nothing_else_does() {
        let (object, here) = (thing(), webhook("https://h/"));
        let same = asked(&object).digest(&here);
        let mut counted = object.clone();
        counted["metadata"]["resourceVersion"] = json!("8");
        counted["metadata"]["managedFields"] = json!([]);
        assert_eq!(asked(&counted).digest(&here), same);
        let changed = |path: &str, value: Value| {
            let mut object = thing();
            *object.pointer_mut(path).unwrap() = value;
            asked(&object).digest(&here)
        };
        let mut other = thing();
        other["spec"]["size"] = json!(9);
        let item = AggregatedStatusItem { cluster_name: "m".into(), ..AggregatedStatusItem::default() };
        let others = [
            changed("/spec/size", json!(4)),
            changed("/metadata/labels/a", json!("c")),
            changed("/metadata/name", json!("u")),
            asked(&object).digest(&webhook("https://other/")),
            Asked { replicas: Some(3), ..asked(&object) }.digest(&here),
            Asked { replicas: None, ..asked(&object) }.digest(&here),
            Asked { operation: Operation::InterpretReplica, ..asked(&object) }.digest(&here),
            Asked { items: &[item], ..asked(&object) }.digest(&here),
            Asked { observed: Some(&object), ..asked(&object) }.digest(&here),
            Asked { observed: Some(&other), ..asked(&object) }.digest(&here),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(*other, same, "{index}");
            assert!(!others[..index].contains(other), "{index}");
        }
    }
}
