//! The native interpreter: one table of what each built-in kind can be asked.
//!
//! In: an apiVersion and a kind. Out: its row of functions; a kind that is not known is reflected whole, and can be asked nothing else.
//! Pure.

use crate::row::{NONE, Row, Table};
use crate::{aggregate, dependencies, health, reflect, replicas, retain};

/// Any kind that is not in the table.
const ANY: Row = Row { reflect: Some(reflect::whole), ..NONE };

fn row(api_version: &str, kind: &str) -> Row {
    match (api_version, kind) {
        ("apps/v1", kind) => apps_row(kind),
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
            reflect: Some(reflect::disruption_budget),
            health: Some(health::disruption_budget),
            ..ANY
        },
        ("autoscaling/v2", "HorizontalPodAutoscaler") => {
            Row { aggregate: Some(aggregate::sums::autoscaler), reflect: Some(reflect::autoscaler), ..ANY }
        }
        _ => ANY,
    }
}

fn apps_row(kind: &str) -> Row {
    match kind {
        "Deployment" => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            retain: Some(retain::deployment),
            aggregate: Some(aggregate::deployment::aggregate),
            reflect: Some(reflect::deployment),
            health: Some(health::deployment),
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
        "ReplicaSet" => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            aggregate: Some(aggregate::workload::replica_set),
            reflect: Some(reflect::replica_set),
            health: Some(health::replica_set),
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
        "StatefulSet" => Row {
            replicas: Some(replicas::of_workload),
            revise: Some(replicas::revise_workload),
            aggregate: Some(aggregate::workload::stateful_set),
            reflect: Some(reflect::stateful_set),
            health: Some(health::stateful_set),
            dependencies: Some(dependencies::of_stateful_set),
            ..ANY
        },
        "DaemonSet" => Row {
            aggregate: Some(aggregate::workload::daemon_set),
            reflect: Some(reflect::daemon_set),
            health: Some(health::daemon_set),
            dependencies: Some(dependencies::of_template),
            ..ANY
        },
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
            reflect: Some(reflect::job),
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
            reflect: Some(reflect::service),
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

/// Knows the built-in kinds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Table for Native {
    fn row(&self, api_version: &str, kind: &str) -> Row {
        row(api_version, kind)
    }
}
