//! The native interpreter: one table of what each built-in kind can be asked (features: Native matrix).

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::Value;

use crate::dependencies::{self, DependentObject};
use crate::{
    Answer, InterpretError, Interpreter, Operation, Replicas, aggregate, health, reflect, replicas, retain,
};

type ReplicasFn = fn(&Value) -> Answer<Replicas>;
type ReviseFn = fn(&mut Value, i64);
type RetainFn = fn(&mut Value, &Value) -> Answer<()>;
type AggregateFn = fn(&mut Value, &[AggregatedStatusItem], Timestamp) -> Answer<()>;
type ReflectFn = fn(&Value) -> Answer<Option<Value>>;
type HealthFn = fn(&Value) -> Answer<bool>;
type DependenciesFn = fn(&Value) -> Vec<DependentObject>;

/// What one kind can be asked. Every kind can be asked for its status.
#[derive(Clone, Copy)]
struct Row {
    replicas: Option<ReplicasFn>,
    revise: Option<ReviseFn>,
    retain: Option<RetainFn>,
    aggregate: Option<AggregateFn>,
    reflect: ReflectFn,
    health: Option<HealthFn>,
    dependencies: Option<DependenciesFn>,
}

/// Any kind that is not in the table.
const ANY: Row = Row {
    replicas: None,
    revise: None,
    retain: None,
    aggregate: None,
    reflect: reflect::whole,
    health: None,
    dependencies: None,
};

fn row(api_version: &str, kind: &str) -> Row {
    match (api_version, kind) {
        ("apps/v1", "Deployment") => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            retain: Some(retain::deployment),
            aggregate: Some(aggregate::deployment::aggregate),
            reflect: reflect::deployment,
            health: Some(health::deployment),
            dependencies: Some(dependencies::of_template),
        },
        ("apps/v1", "ReplicaSet") => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            aggregate: Some(aggregate::workload::replica_set),
            reflect: reflect::replica_set,
            health: Some(health::replica_set),
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
        ("apps/v1", "StatefulSet") => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            aggregate: Some(aggregate::workload::stateful_set),
            reflect: reflect::stateful_set,
            health: Some(health::stateful_set),
            dependencies: Some(dependencies::of_stateful_set),
            ..ANY
        },
        ("apps/v1", "DaemonSet") => Row {
            aggregate: Some(aggregate::workload::daemon_set),
            reflect: reflect::daemon_set,
            health: Some(health::daemon_set),
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
        ("batch/v1", kind) => batch_row(kind),
        ("v1", kind) => core_row(kind),
        ("networking.k8s.io/v1", "Ingress") => Row {
            aggregate: Some(aggregate::load_balancer::ingress),
            health: Some(health::load_balancer),
            dependencies: Some(dependencies::of_ingress),
            ..ANY
        },
        ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => {
            Row { dependencies: Some(dependencies::of_service_import), ..ANY }
        }
        ("policy/v1", "PodDisruptionBudget") => Row {
            aggregate: Some(aggregate::sums::disruption_budget),
            reflect: reflect::disruption_budget,
            health: Some(health::disruption_budget),
            ..ANY
        },
        ("autoscaling/v2", "HorizontalPodAutoscaler") => {
            Row { aggregate: Some(aggregate::sums::autoscaler), reflect: reflect::autoscaler, ..ANY }
        }
        _ => ANY,
    }
}

fn batch_row(kind: &str) -> Row {
    match kind {
        "Job" => Row {
            replicas: Some(replicas::of_job),
            revise: Some(replicas::revise_job),
            retain: Some(retain::job),
            aggregate: Some(aggregate::job::job),
            reflect: reflect::job,
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
        "CronJob" => Row {
            aggregate: Some(aggregate::job::cron_job),
            dependencies: Some(dependencies::of_cron_job),
            ..ANY
        },
        _ => ANY,
    }
}

fn core_row(kind: &str) -> Row {
    match kind {
        "Pod" => Row {
            replicas: Some(replicas::of_pod),
            retain: Some(retain::pod),
            aggregate: Some(aggregate::phase::pod),
            health: Some(health::pod),
            dependencies: Some(dependencies::of_pod),
            ..ANY
        },
        "Service" => Row {
            retain: Some(retain::service),
            aggregate: Some(aggregate::load_balancer::service),
            reflect: reflect::service,
            health: Some(health::service),
            ..ANY
        },
        "PersistentVolumeClaim" => Row {
            retain: Some(retain::claim),
            aggregate: Some(aggregate::phase::claim),
            health: Some(health::claim),
            ..ANY
        },
        "PersistentVolume" => {
            Row { retain: Some(retain::volume), aggregate: Some(aggregate::phase::volume), ..ANY }
        }
        "ServiceAccount" => Row { retain: Some(retain::service_account), ..ANY },
        "Secret" => Row { retain: Some(retain::secret), ..ANY },
        _ => ANY,
    }
}

fn row_of(object: &Value) -> Row {
    row(object::api_version(object), object::kind(object))
}

fn hook<F>(function: Option<F>, operation: Operation, object: &Value) -> Answer<F> {
    function.ok_or_else(|| InterpretError::no_hook(operation, object))
}

/// Knows the built-in kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Interpreter for Native {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let row = row(api_version, kind);
        match operation {
            Operation::InterpretReplica => row.replicas.is_some(),
            Operation::ReviseReplica => row.revise.is_some(),
            Operation::Retain => row.retain.is_some(),
            Operation::AggregateStatus => row.aggregate.is_some(),
            Operation::InterpretStatus => true,
            Operation::InterpretHealth => row.health.is_some(),
            Operation::InterpretDependency => row.dependencies.is_some(),
        }
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        hook(row_of(object).replicas, Operation::InterpretReplica, object)?(object)
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        hook(row_of(object).revise, Operation::ReviseReplica, object)?(object, replicas);
        Ok(())
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        hook(row_of(desired).retain, Operation::Retain, desired)?(desired, observed)
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        hook(row_of(object).aggregate, Operation::AggregateStatus, object)?(object, items, now)
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        (row_of(object).reflect)(object)
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        hook(row_of(object).health, Operation::InterpretHealth, object)?(object)
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        Ok(hook(row_of(object).dependencies, Operation::InterpretDependency, object)?(object))
    }
}
