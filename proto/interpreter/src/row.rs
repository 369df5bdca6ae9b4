//! What one kind can be asked, as a row of functions; and a table of rows as an interpreter.
//!
//! In: a table, and an object. Out: the answer of the function in its kind's row, or the error that there is none. Pure.

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use serde_json::Value;

use crate::{Answer, DependentObject, InterpretError, Interpreter, Operation, Replicas};

type ReplicasFn = fn(&Value) -> Answer<Replicas>;
type ComponentsFn = fn(&Value) -> Answer<Vec<Component>>;
type ReviseFn = fn(&mut Value, i64);
type RetainFn = fn(&mut Value, &Value) -> Answer<()>;
type AggregateFn = fn(&mut Value, &[AggregatedStatusItem], Timestamp) -> Answer<()>;
type ReflectFn = fn(&Value) -> Answer<Option<Value>>;
type HealthFn = fn(&Value) -> Answer<bool>;
type DependenciesFn = fn(&Value) -> Answer<Vec<DependentObject>>;

/// What one kind can be asked.
#[derive(Clone, Copy)]
pub struct Row {
    pub(crate) replicas: Option<ReplicasFn>,
    pub(crate) components: Option<ComponentsFn>,
    pub(crate) revise: Option<ReviseFn>,
    pub(crate) retain: Option<RetainFn>,
    pub(crate) aggregate: Option<AggregateFn>,
    pub(crate) reflect: Option<ReflectFn>,
    pub(crate) health: Option<HealthFn>,
    pub(crate) dependencies: Option<DependenciesFn>,
}

/// Nothing.
pub const NONE: Row = Row {
    replicas: None,
    components: None,
    revise: None,
    retain: None,
    aggregate: None,
    reflect: None,
    health: None,
    dependencies: None,
};

/// Rows by apiVersion and kind.
pub trait Table: Send + Sync {
    /// What a kind can be asked; [`NONE`] for one that is not known.
    fn row(&self, api_version: &str, kind: &str) -> Row;
}

fn hook<F>(function: Option<F>, operation: Operation, object: &Value) -> Answer<F> {
    function.ok_or_else(|| InterpretError::no_hook(operation, object))
}

fn row_of(table: &impl Table, object: &Value) -> Row {
    table.row(object::api_version(object), object::kind(object))
}

impl<T: Table> Interpreter for T {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let row = self.row(api_version, kind);
        match operation {
            Operation::InterpretReplica => row.replicas.is_some(),
            Operation::InterpretComponent => row.components.is_some(),
            Operation::ReviseReplica => row.revise.is_some(),
            Operation::Retain => row.retain.is_some(),
            Operation::AggregateStatus => row.aggregate.is_some(),
            Operation::InterpretStatus => row.reflect.is_some(),
            Operation::InterpretHealth => row.health.is_some(),
            Operation::InterpretDependency => row.dependencies.is_some(),
        }
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        hook(row_of(self, object).replicas, Operation::InterpretReplica, object)?(object)
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        hook(row_of(self, object).components, Operation::InterpretComponent, object)?(object)
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        hook(row_of(self, object).revise, Operation::ReviseReplica, object)?(object, replicas);
        Ok(())
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        hook(row_of(self, desired).retain, Operation::Retain, desired)?(desired, observed)
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        hook(row_of(self, object).aggregate, Operation::AggregateStatus, object)?(object, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        hook(row_of(self, object).reflect, Operation::InterpretStatus, object)?(object)
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        hook(row_of(self, object).health, Operation::InterpretHealth, object)?(object)
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        hook(row_of(self, object).dependencies, Operation::InterpretDependency, object)?(object)
    }
}
