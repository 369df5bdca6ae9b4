//! Webhooks as a layer of the interpreter, over the answers that are in hand.
//!
//! In: webhooks in their order, and who keeps answers. Out: what the webhook of a kind said; where nothing is in hand,
//! [`InterpretError::Unanswered`] with the question, and where it failed, [`InterpretError::Outside`]. No other layer is asked in its place then.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use karmada_interpreter::question::Digest;
use karmada_interpreter::{Answer, DependentObject, InterpretError, Interpreter, Operation, Replicas};
use karmada_schema::patch::{self, PatchError};
use serde_json::Value;

use super::answer::{Said, shortened};
use super::configuration::{self, Webhook};
use super::request::Asked;

/// What became of a question.
#[derive(Clone, Debug)]
pub enum InHand {
    /// It was answered.
    Said(Arc<Said>),
    /// It was not.
    Failed {
        /// Why, with the webhook's name.
        why: String,
        /// After how long it may be asked again.
        again: Duration,
    },
}

/// Keeps answers.
pub trait Answers: Send + Sync {
    /// What became of the question of this digest; none where it has to be asked.
    fn find(&self, question: &Digest) -> Option<InHand>;
}

/// The layer.
pub struct Layer {
    webhooks: Vec<Arc<Webhook>>,
    answers: Arc<dyn Answers>,
}

impl Layer {
    /// Over `webhooks`, in the order in which they are looked at.
    pub fn new(webhooks: Vec<Arc<Webhook>>, answers: Arc<dyn Answers>) -> Self {
        Self { webhooks, answers }
    }

    fn ask(&self, asked: Asked<'_>) -> Answer<(&Webhook, Arc<Said>)> {
        let (api_version, kind) = (object::api_version(asked.object), object::kind(asked.object));
        let webhook: &Webhook = configuration::first(&self.webhooks, api_version, kind, asked.operation)
            .ok_or_else(|| InterpretError::no_hook(asked.operation, asked.object))?;
        let digest = asked.digest(webhook);
        match self.answers.find(&digest) {
            Some(InHand::Said(said)) => Ok((webhook, said)),
            Some(InHand::Failed { why, again }) => Err(InterpretError::Outside { why, again }),
            None => Err(InterpretError::Unanswered(Arc::new(asked.question(webhook, digest)))),
        }
    }

    /// What `of` takes of the answer to a question about an object alone.
    fn said<T>(&self, operation: Operation, object: &Value, of: impl Fn(&Said) -> Option<T>) -> Answer<T> {
        let (webhook, said) =
            self.ask(Asked { operation, object, observed: None, replicas: None, items: &[] })?;
        of(&said).ok_or_else(|| unfit(webhook, operation))
    }

    /// The object as a webhook's patch makes it: still of the same apiVersion, kind, namespace and name.
    fn patched(&self, asked: Asked<'_>) -> Answer<Option<Value>> {
        let (webhook, said) = self.ask(asked)?;
        let Said::Patch(patch) = &*said else { return Err(unfit(webhook, asked.operation)) };
        let Some(patch) = patch else { return Ok(None) };
        let changed = patch::json_patch(asked.object, patch).map_err(|error| {
            let why = match error {
                PatchError::Unprocessable { cause } => cause,
                other => other.to_string(),
            };
            wrong(webhook, asked.operation, &format!("its patch cannot be applied: {why}"))
        })?;
        if object::identity(&changed) != object::identity(asked.object) {
            let why = "its patch changes apiVersion, kind, namespace or name";
            return Err(wrong(webhook, asked.operation, why));
        }
        Ok(Some(changed))
    }
}

fn wrong(webhook: &Webhook, operation: Operation, why: &str) -> InterpretError {
    // A patch may be named in it whole.
    let why = shortened(why);
    InterpretError::Object(format!("webhook {:?}, {}: {why}", webhook.whom, operation.name()))
}

/// Answers are kept by what was asked: another kind of answer is the fault of who keeps them.
fn unfit(webhook: &Webhook, operation: Operation) -> InterpretError {
    wrong(webhook, operation, "what is kept of it is an answer to another operation")
}

impl Interpreter for Layer {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        configuration::first(&self.webhooks, api_version, kind, operation).is_some()
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        self.said(Operation::InterpretReplica, object, |said| match said {
            Said::Replicas(replicas) => Some(replicas.clone()),
            _ => None,
        })
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.said(Operation::InterpretComponent, object, |said| match said {
            Said::Components(components) => Some(components.clone()),
            _ => None,
        })
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        let operation = Operation::ReviseReplica;
        let revised =
            self.patched(Asked { operation, object, observed: None, replicas: Some(replicas), items: &[] })?;
        if let Some(revised) = revised {
            *object = revised;
        }
        Ok(())
    }

    /// Asked for an agent, which has the object and reaches no webhook. Of what is observed, the status is not looked at.
    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        let operation = Operation::Retain;
        let asked =
            Asked { operation, object: desired, observed: Some(observed), replicas: None, items: &[] };
        if let Some(retained) = self.patched(asked)? {
            *desired = retained;
        }
        Ok(())
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        _: Timestamp,
    ) -> Answer<()> {
        let operation = Operation::AggregateStatus;
        let aggregated = self.patched(Asked { operation, object, observed: None, replicas: None, items })?;
        let Some(mut aggregated) = aggregated else { return Ok(()) };
        match object::root(&mut aggregated).remove("status") {
            Some(status) => object::root(object).insert("status".to_owned(), status),
            None => object::root(object).remove("status"),
        };
        Ok(())
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        self.said(Operation::InterpretStatus, object, |said| match said {
            Said::Status(status) => Some(Some(status.clone())),
            _ => None,
        })
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        self.said(Operation::InterpretHealth, object, |said| match said {
            Said::Healthy(healthy) => Some(*healthy),
            _ => None,
        })
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.said(Operation::InterpretDependency, object, |said| match said {
            Said::Dependencies(dependencies) => Some(dependencies.clone()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::interpreter_webhook::{WebhookConfiguration, configuration::in_order};

    /// Answers that a test puts in hand.
    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<Digest, InHand>>);

    impl Answers for Kept {
        fn find(&self, question: &Digest) -> Option<InHand> {
            self.0.lock().unwrap().get(question).cloned()
        }
    }

    fn layer(operations: &[&str]) -> (Layer, Arc<Kept>) {
        let rules = json!([{"apiGroups": ["x.io"], "apiVersions": ["v1"], "kinds": ["Thing"], "operations": operations}]);
        let webhooks = json!([{"name": "h", "clientConfig": {"url": "https://h/"}, "rules": rules}]);
        let configuration: WebhookConfiguration =
            json!({"metadata": {"name": "c"}, "webhooks": webhooks}).into();
        let kept = Arc::new(Kept::default());
        (Layer::new(in_order([configuration].iter()), kept.clone()), kept)
    }

    fn thing() -> Value {
        json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}, "spec": {"size": 1}, "status": {"old": true}})
    }

    /// Asks until nothing is asked any more; each question has this answer.
    fn asked<T>(kept: &Kept, said: &InHand, ask: impl Fn() -> Answer<T>) -> Answer<T> {
        match ask() {
            Err(InterpretError::Unanswered(question)) => {
                kept.0.lock().unwrap().insert(question.digest, said.clone());
                ask()
            }
            other => other,
        }
    }

    fn said(said: Said) -> InHand {
        InHand::Said(Arc::new(said))
    }

    fn patch(operations: &Value) -> InHand {
        said(Said::Patch(Some(operations.to_string().into_bytes())))
    }

    #[test]
    fn a_webhook_answers_once_it_was_asked_and_fails_in_its_own_name() {
        let (layer, kept) = layer(&["InterpretReplica"]);
        assert!(layer.enabled("x.io/v1", "Thing", Operation::InterpretReplica));
        assert!(!layer.enabled("x.io/v1", "Thing", Operation::ReviseReplica));
        let unanswered = layer.replicas(&thing()).unwrap_err();
        assert_eq!(unanswered.to_string(), "webhook \"c/h\" has not answered yet");
        let three = said(Said::Replicas(Replicas { count: 3, requirements: None }));
        assert_eq!(asked(&kept, &three, || layer.replicas(&thing())).unwrap().count, 3);
        assert_eq!(layer.replicas(&thing()).unwrap().count, 3);
        let mut other = thing();
        other["spec"]["size"] = json!(2);
        let failed = InHand::Failed { why: "c/h is away".into(), again: Duration::from_secs(1) };
        let failed = asked(&kept, &failed, || layer.replicas(&other)).unwrap_err();
        assert!(matches!(failed, InterpretError::Outside { why, .. } if why == "c/h is away"));
        assert!(matches!(layer.dependencies(&thing()), Err(InterpretError::NoHook { .. })));
    }

    #[test]
    fn a_patch_changes_what_it_says_and_never_which_object_it_is() {
        let (layer, kept) = layer(&["ReviseReplica"]);
        let revised = |to: i64, operations: &Value| {
            asked(&kept, &patch(operations), || {
                let mut object = thing();
                layer.revise_replica(&mut object, to).map(|()| object)
            })
        };
        let of_size = |to: i64| json!([{"op": "replace", "path": "/spec/size", "value": to}]);
        assert_eq!(revised(5, &of_size(5)).unwrap()["spec"]["size"], json!(5));
        assert_eq!(
            revised(6, &of_size(6)).unwrap()["spec"]["size"],
            json!(6),
            "each number is a question of its own"
        );
        for (to, path, value) in [
            (10, "/metadata/name", json!("other")),
            (11, "/metadata/namespace", json!("kube-system")),
            (12, "/kind", json!("ClusterRole")),
            (13, "/apiVersion", json!("v1")),
            (14, "", json!(null)),
            (15, "/metadata", json!({})),
        ] {
            let why = revised(to, &json!([{"op": "replace", "path": path, "value": value}]))
                .unwrap_err()
                .to_string();
            assert!(why.starts_with("webhook \"c/h\", ReviseReplica: its patch"), "{path}: {why}");
        }
        let why = revised(16, &json!([{"op": "remove", "path": "/spec/nothing"}])).unwrap_err().to_string();
        assert!(why.contains("cannot be applied"), "{why}");
        let unchanged = asked(&kept, &said(Said::Patch(None)), || {
            let mut object = thing();
            layer.revise_replica(&mut object, 1).map(|()| object)
        });
        assert_eq!(unchanged.unwrap(), thing());
        let unfit = asked(&kept, &said(Said::Healthy(true)), || layer.revise_replica(&mut thing(), 99));
        assert!(unfit.unwrap_err().to_string().contains("another operation"));
    }

    #[test]
    fn of_an_aggregation_the_status_alone_is_taken() {
        let (layer, kept) = layer(&["*"]);
        let aggregated = |operations: &Value, cluster: &str| {
            let items =
                [AggregatedStatusItem { cluster_name: cluster.into(), ..AggregatedStatusItem::default() }];
            asked(&kept, &patch(operations), || {
                let mut object = thing();
                layer.aggregate_status(&mut object, &items, Timestamp::UNIX_EPOCH).map(|()| object)
            })
        };
        let both = json!([{"op": "replace", "path": "/status", "value": {"ready": 2}},
            {"op": "replace", "path": "/spec/size", "value": 9}]);
        let object = aggregated(&both, "m1").unwrap();
        assert_eq!((&object["status"], &object["spec"]["size"]), (&json!({"ready": 2}), &json!(1)));
        let gone = aggregated(&json!([{"op": "remove", "path": "/status"}]), "m2").unwrap();
        assert!(gone.get("status").is_none());
    }

    #[test]
    fn what_a_member_has_decides_about_what_stays_and_its_status_does_not() {
        let (layer, kept) = layer(&["Retain"]);
        let mut there = thing();
        there["spec"]["size"] = json!(7);
        let retained = |there: &Value, said: &InHand| {
            asked(&kept, said, || {
                let mut desired = thing();
                layer.retain(&mut desired, there).map(|()| desired)
            })
        };
        let seven = patch(&json!([{"op": "replace", "path": "/spec/size", "value": 7}]));
        assert_eq!(retained(&there, &seven).unwrap()["spec"]["size"], json!(7));
        there["status"] = json!({"counts": "up"});
        let never = InHand::Failed { why: "not asked again".into(), again: Duration::from_secs(1) };
        assert_eq!(retained(&there, &never).unwrap()["spec"]["size"], json!(7));
        there["spec"]["size"] = json!(8);
        assert!(retained(&there, &never).is_err(), "another object is another question");
        there["spec"]["size"] = json!(9);
        let other = patch(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]));
        assert!(retained(&there, &other).unwrap_err().to_string().contains("Retain: its patch changes"));
    }
}
