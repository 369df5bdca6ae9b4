//! An interpreter that notes what it could not answer without asking a webhook: for who waits for all of it at once.
//!
//! In: calls of an interpreter. Out: its answers, and the questions that stood in their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_interpreter::question::Digest;
use karmada_interpreter::{
    Answer, DependentObject, InterpretError, Interpreter, Operation, Question, Replicas,
};
use parking_lot::Mutex;
use serde_json::Value;

/// Bytes of questions that are noted: what is asked beyond them is asked when it is looked at again.
const MOST: usize = 16 << 20;

/// Notes over an interpreter.
pub struct Noting<'a> {
    inner: &'a dyn Interpreter,
    questions: Mutex<Noted>,
}

/// Each question once, and their bytes.
#[derive(Default)]
struct Noted {
    questions: BTreeMap<Digest, Arc<Question>>,
    bytes: usize,
}

impl<'a> Noting<'a> {
    /// Nothing was asked yet.
    pub fn over(inner: &'a dyn Interpreter) -> Self {
        Self { inner, questions: Mutex::default() }
    }

    /// What has to be asked, each question once.
    pub fn into_questions(self) -> Vec<Arc<Question>> {
        self.questions.into_inner().questions.into_values().collect()
    }

    fn noted<T>(&self, answer: Answer<T>) -> Answer<T> {
        if let Err(InterpretError::Unanswered(question)) = &answer {
            let mut noted = self.questions.lock();
            if noted.bytes < MOST && noted.questions.insert(question.digest, question.clone()).is_none() {
                noted.bytes += question.body.len();
            }
        }
        answer
    }
}

impl Interpreter for Noting<'_> {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.inner.enabled(api_version, kind, operation)
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        self.noted(self.inner.replicas(object))
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.noted(self.inner.components(object))
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        self.noted(self.inner.revise_replica(object, replicas))
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        self.noted(self.inner.retain(desired, observed))
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        self.noted(self.inner.aggregate_status(object, items, now))
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        self.noted(self.inner.reflect_status(object))
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        self.noted(self.inner.health(object))
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.noted(self.inner.dependencies(object))
    }
}
