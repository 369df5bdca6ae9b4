//! An interpreter as its customizations are now: they change while it is asked.
//!
//! In: all customizations there are, each time that some change, and what is known without them. Out: for who asks, answers of the present ones; a number that grows with each
//! change, for who remembers answers. What asked before a change has the answer of before.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_interpreter::{Answer, Chain, DependentObject, Interpreter, Operation, Replicas};
use parking_lot::RwLock;
use serde_json::Value;

use crate::{Clock, Customization, Scripts};

/// Customizations in front of what is known without them.
pub struct Customized {
    now: RwLock<Now>,
    clock: Clock,
}

/// Who answers now.
struct Now {
    version: u64,
    scripts: Arc<Scripts>,
    known: Arc<dyn Interpreter>,
    chain: Arc<Chain>,
}

impl Now {
    fn next(&mut self, scripts: Arc<Scripts>, known: Arc<dyn Interpreter>) {
        let chain = Arc::new(Chain::new(vec![scripts.clone(), known.clone()]));
        *self = Now { version: self.version + 1, scripts, known, chain };
    }
}

impl Customized {
    /// None yet, in front of `known`.
    pub fn new(known: Arc<dyn Interpreter>, clock: Clock) -> Self {
        let chain = Arc::new(Chain::new(vec![known.clone()]));
        let scripts = Arc::new(Scripts::new(Vec::new(), clock.clone()));
        Customized { now: RwLock::new(Now { version: 0, scripts, known, chain }), clock }
    }

    /// These are all that there are from now on.
    pub fn replace(&self, all: Vec<Customization>) {
        let scripts = Arc::new(Scripts::new(all, self.clock.clone()));
        let mut now = self.now.write();
        let known = now.known.clone();
        now.next(scripts, known);
    }

    /// This is known without customizations from now on.
    pub fn know(&self, known: Arc<dyn Interpreter>) {
        let mut now = self.now.write();
        let scripts = now.scripts.clone();
        now.next(scripts, known);
    }

    /// How many changes there were.
    pub fn version(&self) -> u64 {
        self.now.read().version
    }

    fn chain(&self) -> Arc<Chain> {
        self.now.read().chain.clone()
    }
}

impl Interpreter for Customized {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.chain().enabled(api_version, kind, operation)
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        self.chain().replicas(object)
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.chain().components(object)
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        self.chain().revise_replica(object, replicas)
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        self.chain().retain(desired, observed)
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        self.chain().aggregate_status(object, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        self.chain().reflect_status(object)
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        self.chain().health(object)
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.chain().dependencies(object)
    }
}
