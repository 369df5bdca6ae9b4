//! The interpreter of this hub: as its ResourceInterpreterCustomizations are now.
//!
//! In: changes of customizations. Out: an interpreter that answers by the present ones; a reconcile that asked before a change is woken by the
//! same change, and later. And what agents need of them, as one document.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_interpreter::{Chain, Interpreter, Operation};
use karmada_lua::{Customization, Customized};
use parking_lot::Mutex;
use serde_json::Value;

use crate::runner::Clock;
use crate::typed::Transition;

/// What is asked at the sites.
const AT_SITES: [Operation; 3] = [Operation::Retain, Operation::InterpretStatus, Operation::InterpretHealth];

/// The customizations there are, and who asks them.
pub struct Customizations {
    known: Mutex<BTreeMap<Arc<str>, Arc<Customization>>>,
    interpreter: Arc<Customized>,
}

impl Customizations {
    /// None yet.
    pub fn new(clock: Clock) -> Self {
        let interpreter = Arc::new(Customized::new(Arc::new(Chain::default()), clock));
        Self { known: Mutex::default(), interpreter }
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

    /// How many changes there were.
    pub fn version(&self) -> u64 {
        self.interpreter.version()
    }

    /// Who answers by the present ones.
    pub fn interpreter(&self) -> Arc<dyn Interpreter> {
        self.interpreter.clone()
    }

    /// What sites need of them: JSON of an array, in the order of names; those that say nothing of what is asked there are left out.
    pub fn at_sites(&self) -> Vec<u8> {
        let known = self.known.lock();
        let told: Vec<Value> = known.values().filter_map(|customization| at_sites(customization)).collect();
        Value::from(told).to_string().into_bytes()
    }
}

fn at_sites(customization: &Customization) -> Option<Value> {
    let asked = customization.scripts.iter().filter(|(operation, _)| AT_SITES.contains(operation));
    let kept = Customization {
        scripts: asked.map(|(operation, script)| (*operation, script.clone())).collect(),
        ..customization.clone()
    };
    (!kept.scripts.is_empty()).then(|| kept.object())
}

/// Whether a change of a customization changes what it answers: its name alone, and what else stands in it, do not.
pub fn concerns(transition: &Transition<Customization>) -> bool {
    transition.before != transition.now
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::port::Key;

    fn transition(name: &str, scripts: &Value) -> Transition<Customization> {
        let object = json!({"metadata": {"name": name}, "spec": {
            "target": {"apiVersion": "x/v1", "kind": "Thing"}, "customizations": scripts}});
        let key = Key { namespace: "".into(), name: name.into() };
        Transition { key, before: None, now: Some(Arc::new(Customization::of(&object))) }
    }

    #[test]
    fn sites_are_told_what_is_asked_there_and_no_more() {
        let all = Customizations::new(Arc::new(|| Timestamp::UNIX_EPOCH));
        assert_eq!(all.at_sites(), b"[]");
        let script = json!({"luaScript": "s"});
        all.observe(&transition("b", &json!({"replicaResource": script})));
        assert_eq!(all.at_sites(), b"[]");
        all.observe(&transition("c", &json!({"retention": script, "replicaResource": script})));
        all.observe(&transition("a", &json!({"statusReflection": script, "healthInterpretation": script})));
        let told: Vec<Customization> = serde_json::from_slice(&all.at_sites()).unwrap();
        let shown: Vec<_> = told.iter().map(|told| (told.name.as_str(), told.scripts.len())).collect();
        assert_eq!(shown, [("a", 2), ("c", 1)]);
        assert_eq!(told[1].kind, "Thing");
    }
}
