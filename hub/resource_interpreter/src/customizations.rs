//! The interpreter of this hub: as its ResourceInterpreterCustomizations and its ResourceInterpreterWebhookConfigurations are now.
//!
//! In: changes of both. Out: an interpreter that answers by the present ones; a reconcile that asked before a change is woken by the
//! same change, and later. And what agents need of them, as one document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::object;
use karmada_controller_runtime::runner::Clock;
use karmada_controller_runtime::typed::Transition;
use karmada_core::interpreter_webhook::{WebhookConfiguration, observed};
use karmada_interpreter::{Chain, InterpretError, Interpreter, Operation};
use karmada_lua::customization::RETAINED_BY_WEBHOOK;
use karmada_lua::{Customization, Customized};
use parking_lot::Mutex;
use serde_json::Value;

use crate::webhook_questions::InterpreterWebhooks;

/// What is asked at the sites.
const AT_SITES: [Operation; 3] = [Operation::Retain, Operation::InterpretStatus, Operation::InterpretHealth];

/// What of that is asked on the hub, where a webhook is to be asked it.
const OF_STATUS: [Operation; 2] = [Operation::InterpretStatus, Operation::InterpretHealth];

/// Why it is not known what of an object stays.
#[derive(Debug)]
pub enum RetainError {
    /// Too much is being asked just now.
    Busy,
    /// The webhook failed, or there is none.
    Failed(InterpretError),
}

/// The customizations there are, and who asks them.
pub struct Customizations {
    known: Mutex<BTreeMap<Arc<str>, Arc<Customization>>>,
    /// The webhooks, which are asked after them.
    pub webhooks: Arc<InterpreterWebhooks>,
    interpreter: Arc<Customized>,
}

impl Customizations {
    /// None yet.
    pub fn new(clock: Clock) -> Self {
        let interpreter = Arc::new(Customized::new(Arc::new(Chain::default()), clock));
        Self { known: Mutex::default(), webhooks: Arc::default(), interpreter }
    }

    /// Takes a change in.
    pub fn observe(&self, transition: &Transition<Customization>) {
        let mut known = self.known.lock();
        match &transition.now {
            Some(customization) => known.insert(transition.key.name.clone(), customization.clone()),
            None => known.remove(&transition.key.name),
        };
        let all = known.values().map(|customization| (**customization).clone()).collect();
        self.interpreter.replace(all);
    }

    /// Takes a change of webhooks in.
    pub fn observe_webhooks(&self, transition: &Transition<WebhookConfiguration>) {
        let layer = self.webhooks.observe(transition);
        let known: Arc<dyn Interpreter> = Arc::new(Chain::default());
        self.interpreter.know(match layer {
            Some(layer) => Arc::new(Chain::new(vec![Arc::new(layer), known])),
            None => known,
        });
    }

    /// How many changes there were.
    pub fn version(&self) -> u64 {
        self.interpreter.version()
    }

    /// Who answers by the present ones.
    pub fn interpreter(&self) -> Arc<dyn Interpreter> {
        self.interpreter.clone()
    }

    /// Whether a webhook is the one who is asked this of a kind.
    pub fn asks_webhook(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let is_asked = |one: &Arc<Customization>| {
            one.api_version == api_version && one.kind == kind && one.scripts.contains_key(&operation)
        };
        self.webhooks.claims(api_version, kind, operation) && !self.known.lock().values().any(is_asked)
    }

    /// Whether what sites report of a kind is interpreted on the hub, as a webhook is to be asked: sites cannot ask.
    pub fn reads_status(&self, api_version: &str, kind: &str) -> bool {
        OF_STATUS.into_iter().any(|operation| self.asks_webhook(api_version, kind, operation))
    }

    /// What sites need of them: JSON of an array, in the order of names; those that say nothing of what is asked there are left out. Of
    /// `kinds`, as apiVersion and kind, the status of those that are interpreted on the hub is to be reported whole, whatever customizations say.
    pub fn at_sites(&self, kinds: &BTreeSet<(&str, &str)>) -> Vec<u8> {
        // Those that webhooks name are told before the first of them is placed: sites need to know when it comes.
        let named = self.webhooks.named_kinds();
        let mut kinds = kinds.clone();
        kinds.extend(named.iter().map(|(api_version, kind)| (api_version.as_str(), kind.as_str())));
        let mut whole = kinds.clone();
        whole.retain(|(api_version, kind)| self.reads_status(api_version, kind));
        let retained: Vec<Value> =
            kinds.iter().filter_map(|(api_version, kind)| self.retained(api_version, kind)).collect();
        let known = self.known.lock();
        let of_whole = |one: &Customization| whole.contains(&(one.api_version.as_str(), one.kind.as_str()));
        let mut told: Vec<Value> = known.values().filter_map(|one| at_sites(one, of_whole(one))).collect();
        told.extend(whole.iter().map(|(api_version, kind)| reported_whole(api_version, kind)));
        told.extend(retained);
        Value::from(told).to_string().into_bytes()
    }

    /// What has sites ask the hub what is retained of a kind, where a webhook decides that.
    fn retained(&self, api_version: &str, kind: &str) -> Option<Value> {
        if !self.asks_webhook(api_version, kind, Operation::Retain) {
            return None;
        }
        let whom = self.webhooks.asked(api_version, kind, Operation::Retain)?;
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        let name = format!("{RETAINED_BY_WEBHOOK}{whom} {api_version} {kind}");
        Some(Customization { name, api_version, kind, scripts: BTreeMap::new() }.object())
    }

    /// A manifest as it is to be applied over what a member has, where a webhook decides what of the latter stays. Asked for a site, which
    /// reaches no webhook. Waits for the webhook.
    ///
    /// # Errors
    /// No webhook decides it for the kind, or the webhook did not answer, or nothing that can be used; or too much is being asked.
    pub async fn retain(&self, manifest: &Value, observed: &Value) -> Result<Value, RetainError> {
        let (api_version, kind) = (object::api_version(manifest), object::kind(manifest));
        if !self.asks_webhook(api_version, kind, Operation::Retain) {
            return Err(RetainError::Failed(InterpretError::no_hook(Operation::Retain, manifest)));
        }
        let retained = || {
            let mut retained = manifest.clone();
            self.interpreter.retain(&mut retained, observed).map(|()| retained)
        };
        match retained() {
            Err(InterpretError::Unanswered(question)) => {
                if !self.webhooks.put_for_a_site(&question).await {
                    return Err(RetainError::Busy);
                }
            }
            known => return known.map_err(RetainError::Failed),
        }
        // Whose webhook is another by now has no answer.
        retained().map_err(|error| match error {
            InterpretError::Unanswered(_) => RetainError::Busy,
            error => RetainError::Failed(error),
        })
    }
}

fn at_sites(customization: &Customization, is_whole: bool) -> Option<Value> {
    let is_asked = |operation: &Operation| {
        AT_SITES.contains(operation) && !(is_whole && *operation == Operation::InterpretStatus)
    };
    let asked = customization.scripts.iter().filter(|(operation, _)| is_asked(operation));
    let kept = Customization {
        scripts: asked.map(|(operation, script)| (*operation, script.clone())).collect(),
        ..customization.clone()
    };
    (!kept.scripts.is_empty()).then(|| kept.object())
}

/// What has sites report the status of a kind as it is.
fn reported_whole(api_version: &str, kind: &str) -> Value {
    let scripts = [(Operation::InterpretStatus, observed::SCRIPT.to_owned())].into();
    let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
    // Names of objects hold no space: this is nobody's.
    let name = format!("status of {api_version} {kind}");
    Customization { name, api_version, kind, scripts }.object()
}

/// Whether a change of a customization changes what it answers: its name alone, and what else stands in it, do not.
pub fn concerns(transition: &Transition<Customization>) -> bool {
    transition.before != transition.now
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karmada_controller_runtime::port::Key;
    use serde_json::json;

    use super::*;

    fn transition(name: &str, scripts: &Value) -> Transition<Customization> {
        let object = json!({"metadata": {"name": name}, "spec": {
            "target": {"apiVersion": "x/v1", "kind": "Thing"}, "customizations": scripts}});
        let key = Key { namespace: "".into(), name: name.into() };
        Transition { key, before: None, now: Some(Arc::new(Customization::of(&object))) }
    }

    #[test]
    fn sites_are_told_what_is_asked_there_and_no_more() {
        let all = Customizations::new(Arc::new(|| Timestamp::UNIX_EPOCH));
        assert_eq!(all.at_sites(&BTreeSet::new()), b"[]");
        let script = json!({"luaScript": "s"});
        all.observe(&transition("b", &json!({"replicaResource": script})));
        assert_eq!(all.at_sites(&BTreeSet::new()), b"[]");
        all.observe(&transition("c", &json!({"retention": script, "replicaResource": script})));
        all.observe(&transition("a", &json!({"statusReflection": script, "healthInterpretation": script})));
        let told: Vec<Customization> = serde_json::from_slice(&all.at_sites(&BTreeSet::new())).unwrap();
        let shown: Vec<_> = told.iter().map(|told| (told.name.as_str(), told.scripts.len())).collect();
        assert_eq!(shown, [("a", 2), ("c", 1)]);
        assert_eq!(told[1].kind, "Thing");
    }

    fn configuration(operations: &[&str]) -> Transition<WebhookConfiguration> {
        let rules =
            json!([{"apiGroups": ["x"], "apiVersions": ["v1"], "kinds": ["*"], "operations": operations}]);
        let object = json!({"metadata": {"name": "hooks"}, "webhooks": [{"name": "h", "rules": rules}]});
        let key = Key { namespace: "".into(), name: "hooks".into() };
        Transition { key, before: None, now: Some(Arc::new(object.into())) }
    }

    #[test]
    fn sites_report_the_whole_status_of_kinds_of_which_a_webhook_is_asked() {
        let all = Customizations::new(Arc::new(|| Timestamp::UNIX_EPOCH));
        let kinds = BTreeSet::from([("x/v1", "Thing"), ("x/v1", "Other"), ("v1", "ConfigMap")]);
        assert_eq!(all.at_sites(&kinds), b"[]");
        all.observe_webhooks(&configuration(&["InterpretReplica", "Retain"]));
        let retained: Vec<Customization> = serde_json::from_slice(&all.at_sites(&kinds)).unwrap();
        let asks_hub =
            |one: &Customization| one.name.starts_with(RETAINED_BY_WEBHOOK) && one.scripts.is_empty();
        assert!(retained.iter().all(asks_hub), "of what is reported it is not asked");
        assert_eq!(retained.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>(), ["Other", "Thing"]);
        all.observe_webhooks(&configuration(&["InterpretStatus", "InterpretHealth"]));
        let script = json!({"luaScript": "s"});
        all.observe(&transition("a", &json!({"healthInterpretation": script, "retention": script})));
        let told = |all: &Customizations| {
            let told: Vec<Customization> = serde_json::from_slice(&all.at_sites(&kinds)).unwrap();
            told.into_iter().map(|one| (one.name, one.kind, one.scripts.len())).collect::<Vec<_>>()
        };
        let own = |kind: &str| (format!("status of x/v1 {kind}"), kind.to_owned(), 1);
        assert_eq!(told(&all), [("a".into(), "Thing".into(), 2), own("Other"), own("Thing")]);
        assert!(!all.asks_webhook("x/v1", "Thing", Operation::InterpretHealth), "the script comes first");
        all.observe(&transition("a", &json!({"healthInterpretation": script, "statusReflection": script})));
        assert_eq!(
            told(&all),
            [("a".into(), "Thing".into(), 2), own("Other")],
            "nothing is left to ask of it"
        );
        all.observe(&transition("a", &json!({"statusReflection": script})));
        assert_eq!(told(&all), [own("Other"), own("Thing")], "the hub reads the status by the script then");
    }

    #[test]
    fn what_a_site_reports_whole_is_put_together_on_the_hub_as_it_was() {
        let told = reported_whole("x/v1", "Thing");
        let scripts =
            karmada_lua::Scripts::new(vec![Customization::of(&told)], Arc::new(|| Timestamp::UNIX_EPOCH));
        let manifest =
            json!({"apiVersion": "x/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": []}});
        for status in
            [json!({"empty": {}, "none": [], "ready": 3, "deep": [{"a": {}}]}), json!({}), Value::Null]
        {
            let mut member = manifest.clone();
            member["metadata"]["generation"] = json!(4);
            member["metadata"]["annotations"] = json!({"resourcetemplate.karmada.io/generation": "2"});
            if !status.is_null() {
                member["status"] = status;
            }
            let reported = scripts.reflect_status(&member).unwrap().unwrap();
            assert_eq!(observed::object(&manifest, &reported).unwrap(), member);
        }
        let mut plain = manifest.clone();
        plain["metadata"].as_object_mut().unwrap().remove("annotations");
        let reported = scripts.reflect_status(&plain).unwrap().unwrap();
        assert_eq!(observed::object(&manifest, &reported).unwrap(), plain);
    }
}
