//! How to read and change any workload: replicas, what a member decides, status, health, dependencies.
//!
//! In: objects as JSON. Out: numbers, changed objects, statuses. No IO and no clock. [`Interpreter`] is the one
//! door: [`Native`] knows the built-in kinds and [`ThirdParty`] those of other projects, and a [`Chain`] asks several
//! interpreters in order, so that customizations stand before both.
//!
//! Beside the interpreter: [`retain_metadata`] merges what the hub wants with what a member has, whatever the kind, [`conflict_resolution`] says whether it may, and
//! [`resource_summary`] counts a member's nodes and resources, and [`node_room`] says how much more they have room for.

pub mod aggregate;
pub mod conflict_resolution;
pub mod dependencies;
pub mod health;
mod native;
pub mod node_room;
pub mod nodes_and_pods;
pub mod pod_request;
pub mod question;
pub mod reflect;
pub mod replicas;
pub mod reported_status;
pub mod resource_summary;
pub mod retain;
pub mod retain_metadata;
mod row;
mod thirdparty;
pub mod usage;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, Health, ReplicaRequirements};
use karmada_api::object;
use serde_json::Value;

pub use karmada_api::manifest::{prune, record_managed};

pub use crate::dependencies::DependentObject;
pub use crate::native::Native;
pub use crate::question::Question;
pub use crate::thirdparty::ThirdParty;

/// What can be asked of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// How many replicas, and what one of them asks for.
    InterpretReplica,
    /// The same object with another number of replicas.
    ReviseReplica,
    /// What the member decided is kept.
    Retain,
    /// The statuses of members become one.
    AggregateStatus,
    /// What of a member object's status is reported.
    InterpretStatus,
    /// Whether an object does what it shall.
    InterpretHealth,
    /// What an object refers to.
    InterpretDependency,
    /// The parts of a workload with several pod templates.
    InterpretComponent,
}

impl Operation {
    /// All of them, in the order in which the API lists them.
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretStatus,
        Self::InterpretHealth,
        Self::InterpretDependency,
    ];

    /// As the API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterpretReplica => "InterpretReplica",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretStatus => "InterpretStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::InterpretDependency => "InterpretDependency",
            Self::InterpretComponent => "InterpretComponent",
        }
    }
}

/// Why an interpreter has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    /// Nobody knows how to do this for the kind. Ask [`Interpreter::enabled`] first.
    #[error("no {operation} interpreter for \"{api_version}, Kind={kind}\"")]
    NoHook {
        /// What was asked.
        operation: &'static str,
        /// Of which apiVersion.
        api_version: String,
        /// Of which kind.
        kind: String,
    },
    /// The object is not what its kind promises.
    #[error("{0}")]
    Object(String),
    /// Somebody outside has to be asked first: whoever can does so, and comes again.
    #[error("webhook {:?} has not answered yet", .0.whom)]
    Unanswered(Arc<Question>),
    /// Who was asked outside did not answer, or nothing that can be used.
    #[error("{why}")]
    Outside {
        /// What went wrong, and with whom.
        why: String,
        /// After how long it may be asked again.
        again: Duration,
    },
}

impl InterpretError {
    /// Nobody knows how to do `operation` for the kind of `object`.
    pub fn no_hook(operation: Operation, object: &Value) -> Self {
        Self::NoHook {
            operation: operation.name(),
            api_version: object::api_version(object).to_owned(),
            kind: object::kind(object).to_owned(),
        }
    }
}

/// What most functions here answer.
pub type Answer<T> = Result<T, InterpretError>;

/// How many replicas an object wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicas {
    /// The number.
    pub count: i32,
    /// What one of them asks for; none where nothing is asked.
    pub requirements: Option<ReplicaRequirements>,
}

/// Knows how to read and change objects of some kinds. Every method may be called for every object; where
/// [`Interpreter::enabled`] says no, the answer is [`InterpretError::NoHook`].
pub trait Interpreter: Send + Sync {
    /// Whether this interpreter handles an operation for a kind.
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool;

    /// How many replicas `object` wants.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or a number or an amount in `object` is none, or a customization's script fails.
    fn replicas(&self, object: &Value) -> Answer<Replicas>;

    /// The parts of a workload with several pod templates.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or a part of `object` cannot be read, or a customization's script fails.
    fn components(&self, object: &Value) -> Answer<Vec<Component>>;

    /// Gives `object` another number of replicas.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or a customization's script fails.
    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()>;

    /// Keeps in `desired` what the member decided in `observed`.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or `observed` lacks what is to be kept, or a customization's script fails.
    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()>;

    /// Writes into `object.status` what the members report. `now` stamps conditions that change.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or a member's status cannot be read, or a customization's script fails.
    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()>;

    /// What of a member object's status is reported; none where there is nothing to report.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or the status cannot be read, or a customization's script fails.
    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>>;

    /// Whether a member object does what it shall.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or the status cannot be read, or a customization's script fails; see [`health_of`].
    fn health(&self, object: &Value) -> Answer<bool>;

    /// What `object` refers to, sorted, each once.
    ///
    /// # Errors
    /// [`InterpretError::NoHook`], or what must be a list in `object` is none, or a customization's script fails.
    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>>;
}

/// The health to report for a member object: a kind without a hook counts as healthy, an object that
/// cannot be read, or of which nobody has said it yet, as unknown.
pub fn health_of(interpreter: &dyn Interpreter, object: &Value) -> Health {
    health_by(&interpreter.health(object))
}

/// The same by an answer that is there already.
pub fn health_by(answer: &Answer<bool>) -> Health {
    match answer {
        Ok(true) | Err(InterpretError::NoHook { .. }) => Health::Healthy,
        Ok(false) => Health::Unhealthy,
        Err(_) => Health::Unknown,
    }
}

/// Asks several interpreters; the first that handles operation and kind answers.
#[derive(Clone)]
pub struct Chain {
    layers: Vec<Arc<dyn Interpreter>>,
}

impl Chain {
    /// From the first asked to the last.
    pub fn new(layers: Vec<Arc<dyn Interpreter>>) -> Self {
        Self { layers }
    }

    fn layer(&self, object: &Value, operation: Operation) -> Answer<&dyn Interpreter> {
        let (api_version, kind) = (object::api_version(object), object::kind(object));
        self.layers
            .iter()
            .find(|layer| layer.enabled(api_version, kind, operation))
            .map(AsRef::as_ref)
            .ok_or_else(|| InterpretError::no_hook(operation, object))
    }
}

impl Default for Chain {
    /// What is known without being taught: the kinds of other projects, and those of Kubernetes.
    fn default() -> Self {
        Self::new(vec![Arc::new(ThirdParty), Arc::new(Native)])
    }
}

impl Interpreter for Chain {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.layers.iter().any(|layer| layer.enabled(api_version, kind, operation))
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        self.layer(object, Operation::InterpretReplica)?.replicas(object)
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.layer(object, Operation::InterpretComponent)?.components(object)
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        self.layer(object, Operation::ReviseReplica)?.revise_replica(object, replicas)
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        self.layer(desired, Operation::Retain)?.retain(desired, observed)
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        self.layer(object, Operation::AggregateStatus)?.aggregate_status(object, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        self.layer(object, Operation::InterpretStatus)?.reflect_status(object)
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        self.layer(object, Operation::InterpretHealth)?.health(object)
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.layer(object, Operation::InterpretDependency)?.dependencies(object)
    }
}
