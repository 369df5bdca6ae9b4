//! What of a member's object stays where an interpreter webhook decides it (operation Retain): a layer of the interpreter over what the hub answered.
//!
//! In: the kinds of which a webhook decides, as the hub told them; what the hub answered. Out: the manifest with what stays in it; where the hub
//! has not been asked, [`InterpretError::Unanswered`] with the object as it is to be sent; where the webhook failed, why. Of the object that the
//! member has, its status and what the API server counts in it are not looked at: they change all the time, and each change would be a question.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use karmada_interpreter::question::Digest;
use karmada_interpreter::{
    Answer, Chain, DependentObject, InterpretError, Interpreter, Operation, Question, Replicas,
    retain_metadata,
};
use karmada_lua::customization::RETAINED_BY_WEBHOOK;
use karmada_lua::{Clock, Customization, Customized};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::member_body;

/// Answers that are kept; the oldest go first, and are asked for again.
const MOST: usize = 1024;
/// Bytes of them.
const MOST_BYTES: usize = 4 << 20;
/// After how long what failed may be asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// How an agent reads objects: by customizations; then, of what stays of the member's objects, by what webhooks decided; then as is `known` without
/// either. Both of the former begin empty.
pub fn in_front_of(known: Arc<dyn Interpreter>, clock: Clock) -> (Arc<Customized>, Arc<WebhookRetention>) {
    let retention = Arc::new(WebhookRetention::default());
    let layers = Chain::new(vec![retention.clone(), known]);
    (Arc::new(Customized::new(Arc::new(layers), clock)), retention)
}

/// The layer.
#[derive(Default)]
pub struct WebhookRetention(Mutex<State>);

#[derive(Default)]
struct State {
    /// Of each kind of which a webhook decides, what stands for that webhook.
    kinds: BTreeMap<(String, String), String>,
    answers: BTreeMap<Digest, Answered>,
    by_age: VecDeque<Digest>,
    bytes: usize,
}

enum Answered {
    Retained {
        object: Arc<Value>,
        bytes: usize,
    },
    /// Until when it holds, once it was read: however long that takes, it is told once.
    Failed {
        why: String,
        until: Option<Instant>,
    },
}

impl Answered {
    fn bytes(&self) -> usize {
        match self {
            Answered::Retained { bytes, .. } => *bytes,
            Answered::Failed { why, .. } => why.len(),
        }
    }
}

impl WebhookRetention {
    /// These are the kinds of which a webhook decides from now on, among what the hub told of customizations.
    pub fn replace(&self, told: &[Customization]) {
        let webhook = |one: &Customization| {
            let webhook = one.name.strip_prefix(RETAINED_BY_WEBHOOK)?.to_owned();
            Some(((one.api_version.clone(), one.kind.clone()), webhook))
        };
        self.0.lock().kinds = told.iter().filter_map(webhook).collect();
    }

    /// The hub answered a question: the manifest with what stays in it, or why there is none.
    pub fn answered(&self, question: Digest, result: Result<Value, String>) {
        let answer = match result {
            Ok(object) => {
                let bytes = object.to_string().len();
                Answered::Retained { object: Arc::new(object), bytes }
            }
            Err(why) => Answered::Failed { why, until: None },
        };
        self.0.lock().put(question, answer);
    }

    /// The question that has to be put before it is known what of `observed` stays, or none where the hub answered it.
    fn find(&self, desired: &Value, observed: &Value) -> Result<Arc<Value>, InterpretError> {
        let (api_version, kind) = (object::api_version(desired), object::kind(desired));
        let webhook = self.0.lock().kinds.get(&(api_version.to_owned(), kind.to_owned())).cloned();
        // It was asked as there was one: without an answer nothing would be kept of the member's object.
        let Some(webhook) = webhook else {
            let why = "who decides what of it stays changes just now".to_owned();
            return Err(InterpretError::Outside { why, again: AGAIN });
        };
        let mut told = observed.clone();
        retain_metadata::drop_counted(&mut told);
        let observed = told.to_string();
        let digest = digest([&webhook, &desired.to_string(), &observed]);
        match self.0.lock().answers.get_mut(&digest) {
            Some(Answered::Retained { object, .. }) => return Ok(object.clone()),
            Some(Answered::Failed { why, until }) => {
                let until = *until.get_or_insert(Instant::now() + AGAIN);
                if until > Instant::now() {
                    return Err(InterpretError::Outside { why: why.clone(), again: AGAIN });
                }
            }
            None => {}
        }
        Err(InterpretError::Unanswered(Arc::new(Question {
            whom: webhook,
            webhook_digest: Digest::default(),
            operation: Operation::Retain,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: object::namespace(desired).to_owned(),
            name: object::name(desired).to_owned(),
            digest,
            body: observed.into_bytes(),
        })))
    }
}

impl State {
    fn put(&mut self, question: Digest, answer: Answered) {
        self.bytes += answer.bytes();
        match self.answers.insert(question, answer) {
            Some(before) => self.bytes -= before.bytes(),
            None => self.by_age.push_back(question),
        }
        while self.by_age.len() > MOST || self.bytes > MOST_BYTES && self.by_age.len() > 1 {
            let Some(oldest) = self.by_age.pop_front() else { return };
            self.bytes -= self.answers.remove(&oldest).map_or(0, |answer| answer.bytes());
        }
    }
}

fn digest(parts: [&str; 3]) -> Digest {
    let lengths = parts.map(|part| part.len().to_string()).join(" ");
    let hash = karmada_proto::body::hash([&lengths, parts[0], parts[1], parts[2]].concat().as_bytes());
    let mut digest = Digest::default();
    digest[..hash.len()].copy_from_slice(&hash);
    digest
}

impl Interpreter for WebhookRetention {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let known = || self.0.lock().kinds.contains_key(&(api_version.to_owned(), kind.to_owned()));
        operation == Operation::Retain && known()
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        let retained = self.find(desired, observed)?;
        *desired = member_body::stamped_as(&retained, desired)?;
        Ok(())
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        Err(InterpretError::no_hook(Operation::InterpretReplica, object))
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        Err(InterpretError::no_hook(Operation::InterpretComponent, object))
    }

    fn revise_replica(&self, object: &mut Value, _: i64) -> Answer<()> {
        Err(InterpretError::no_hook(Operation::ReviseReplica, object))
    }

    fn aggregate_status(&self, object: &mut Value, _: &[AggregatedStatusItem], _: Timestamp) -> Answer<()> {
        Err(InterpretError::no_hook(Operation::AggregateStatus, object))
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        Err(InterpretError::no_hook(Operation::InterpretStatus, object))
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        Err(InterpretError::no_hook(Operation::InterpretHealth, object))
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        Err(InterpretError::no_hook(Operation::InterpretDependency, object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KIND: (&str, &str) = ("x.io/v1", "Thing");

    fn decided_by(webhook: &str) -> Customization {
        let name = format!("{RETAINED_BY_WEBHOOK}{webhook}");
        Customization { name, api_version: KIND.0.into(), kind: KIND.1.into(), ..Customization::default() }
    }

    fn manifest(size: i64) -> Value {
        json!({"apiVersion": KIND.0, "kind": KIND.1, "metadata": {"name": "t", "namespace": "n"}, "spec": {"size": size}})
    }

    fn there(size: i64, counted: i64) -> Value {
        let mut there = manifest(size);
        there["metadata"]["resourceVersion"] = json!(counted.to_string());
        there["metadata"]["managedFields"] = json!([{"time": counted}]);
        there["status"] = json!({"seen": counted});
        there
    }

    fn retained(layer: &WebhookRetention, observed: &Value) -> Answer<Value> {
        let mut desired = member_body::stamped(&manifest(1), "m", "w");
        layer.retain(&mut desired, observed).map(|()| desired)
    }

    fn unanswered(layer: &WebhookRetention, observed: &Value) -> Arc<Question> {
        match retained(layer, observed) {
            Err(InterpretError::Unanswered(question)) => question,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_hub_answered_holds_for_the_same_object_whatever_is_counted_in_it() {
        let layer = WebhookRetention::default();
        assert!(
            matches!(retained(&layer, &there(7, 1)), Err(InterpretError::Outside { .. })),
            "it is not its turn"
        );
        layer.replace(&[decided_by("a"), Customization::default()]);
        assert!(layer.enabled(KIND.0, KIND.1, Operation::Retain));
        assert!(!layer.enabled("", "", Operation::Retain));
        let question = unanswered(&layer, &there(7, 1));
        let sent: Value = serde_json::from_slice(&question.body).unwrap();
        assert_eq!(sent, manifest(7));
        layer.answered(question.digest, Ok(manifest(7)));
        let kept = retained(&layer, &there(7, 2)).unwrap();
        assert_eq!(kept, member_body::stamped(&manifest(7), "m", "w"), "it bears the Work's marks");
        assert_ne!(unanswered(&layer, &there(8, 2)).digest, question.digest);
        // Another webhook, or the same with another content, may say otherwise.
        layer.replace(&[decided_by("b")]);
        assert_ne!(unanswered(&layer, &there(7, 2)).digest, question.digest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_and_asked_about_again() {
        let layer = WebhookRetention::default();
        layer.replace(&[decided_by("a")]);
        let question = unanswered(&layer, &there(7, 1));
        layer.answered(question.digest, Err("the webhook is away".into()));
        // Its reader may come late.
        tokio::time::advance(AGAIN * 10).await;
        let why = retained(&layer, &there(7, 1)).unwrap_err();
        assert_eq!(why.to_string(), "the webhook is away");
        tokio::time::advance(AGAIN).await;
        assert_eq!(unanswered(&layer, &there(7, 1)).digest, question.digest);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_about_another_object_is_not_applied() {
        let layer = WebhookRetention::default();
        layer.replace(&[decided_by("a")]);
        let mut other = manifest(7);
        other["metadata"]["namespace"] = json!("kube-system");
        layer.answered(unanswered(&layer, &there(7, 1)).digest, Ok(other));
        let why = retained(&layer, &there(7, 1)).unwrap_err().to_string();
        assert!(why.contains("another object"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded_in_number_and_bytes() {
        let layer = WebhookRetention::default();
        let numbered = |at: usize| {
            let mut digest = Digest::default();
            digest[..8].copy_from_slice(&at.to_be_bytes());
            digest
        };
        for at in 0..MOST + 10 {
            layer.answered(numbered(at), Err("w".into()));
        }
        let kept = || {
            let state = layer.0.lock();
            (state.answers.len(), state.bytes)
        };
        assert_eq!(kept(), (MOST, MOST));
        let large = json!({"text": "x".repeat(MOST_BYTES / 2)});
        for at in 0..3 {
            layer.answered(numbered(at), Ok(large.clone()));
        }
        let state = layer.0.lock();
        assert!(state.bytes <= MOST_BYTES && state.answers.len() == state.by_age.len(), "{}", state.bytes);
    }
}
