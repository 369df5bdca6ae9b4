//! Rows of what makes Pods, and of what scales and guards it.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::GO`.

use karmada_definitions::kind_row::KindRow;
use karmada_definitions::kind_row::MetadataCheck::{Changed, New};
use karmada_definitions::kind_row::{BuiltinKind, Generation, Rules, SelectableField};
use karmada_schema::apply::ResetFields;
use karmada_schema::metadata::NameRule;
use serde_json::json;

use super::Group;
use crate::conversion::{autoscaler_v1, autoscaler_v2, disown_changed};
use crate::table::workloads as cells;
use crate::validation::{autoscaling, facts, job, statuses, warnings};
use crate::{defaults, disabled_fields};

pub(super) const GROUPS: &[Group] =
    &[("apps", APPS), ("batch", BATCH), ("autoscaling", AUTOSCALING), ("policy", POLICY)];

const APPS: &[KindRow] = &[
    KindRow {
        kind: "ControllerRevision",
        metadata_checks: &[Changed, New],
        ..KindRow::GO.with(Rules::Facts(facts::APPS_V1_CONTROLLER_REVISION), cells::controller_revision)
    },
    KindRow {
        kind: "DaemonSet",
        pod_template: Some("/spec/template"),
        warn: warnings::workload,
        drop_disabled_fields: disabled_fields::template,
        first_status: |_, _| {
            Some(json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            }))
        },
        finish_update: defaults::next_template_generation,
        hidden_annotation: Some("deprecated.daemonset.template.generation"),
        ..KindRow::COUNTED.with(Rules::Facts(facts::APPS_V1_DAEMON_SET), cells::daemon_set)
    },
    KindRow {
        kind: "Deployment",
        pod_template: Some("/spec/template"),
        warn: warnings::named_workload,
        drop_disabled_fields: disabled_fields::template,
        status_keeps: &["labels"],
        resets: ResetFields { by_status: &["metadata.labels"], ..ResetFields::GO },
        // Annotations are copied to replica sets.
        generation: Some(Generation { metadata: Some("annotations"), ..Generation::USUAL }),
        ..KindRow::GO.with(Rules::Facts(facts::APPS_V1_DEPLOYMENT), cells::deployment)
    },
    KindRow {
        kind: "ReplicaSet",
        pod_template: Some("/spec/template"),
        warn: warnings::named_workload,
        drop_disabled_fields: disabled_fields::template,
        first_status: |_, _| Some(json!({"replicas": 0})),
        ..KindRow::COUNTED.with(Rules::Facts(facts::APPS_V1_REPLICA_SET), cells::replica_set)
    },
    KindRow {
        kind: "StatefulSet",
        pod_template: Some("/spec/template"),
        name: NameRule::Label,
        warn: warnings::stateful_set,
        drop_disabled_fields: disabled_fields::stateful_set,
        first_status: |_, _| Some(json!({"availableReplicas": 0, "replicas": 0})),
        ..KindRow::COUNTED.with(Rules::Facts(facts::APPS_V1_STATEFUL_SET), cells::stateful_set)
    },
];

const BATCH: &[KindRow] = &[
    KindRow {
        kind: "CronJob",
        pod_template: Some("/spec/jobTemplate/spec/template"),
        warn: warnings::cron_job,
        drop_disabled_fields: |new, old| {
            disabled_fields::at(new, old, "/spec/jobTemplate/spec/template/spec", disabled_fields::pod);
        },
        ..KindRow::COUNTED.with(Rules::Facts(facts::BATCH_V1_CRON_JOB), cells::cron_job)
    },
    KindRow {
        kind: "Job",
        pod_template: Some("/spec/template"),
        known: BuiltinKind::Job,
        metadata_checks: &[New, Changed],
        warn: warnings::named_workload,
        drop_disabled_fields: disabled_fields::template,
        finish_create: defaults::select_by_uid,
        // Where a delete says nothing, dependants stay: so it was before there was garbage collection.
        orphans: true,
        shares_labels: true,
        selectable: &[SelectableField::at("status.successful", &[&["status", "successful"]])],
        ..KindRow::COUNTED.with(Rules::Change(job::job), cells::job)
    },
];

const AUTOSCALER: KindRow = KindRow {
    kind: "HorizontalPodAutoscaler",
    rules: Rules::Change(autoscaling::of_any_version),
    parts: &[("status", |new, _, errors| autoscaling::status(new, errors))],
    disown: disown_changed,
    cells: Some(cells::horizontal_pod_autoscaler),
    ..KindRow::GO
};

const AUTOSCALING: &[KindRow] = &[
    KindRow {
        version: "v1",
        first_status: |_, _| Some(json!({"currentReplicas": 0, "desiredReplicas": 0})),
        to_storage: autoscaler_v2,
        from_storage: autoscaler_v1,
        ..AUTOSCALER
    },
    KindRow {
        version: "v2",
        first_status: |_, _| Some(json!({"currentMetrics": null, "desiredReplicas": 0})),
        ..AUTOSCALER
    },
];

const POLICY: &[KindRow] = &[KindRow {
    kind: "PodDisruptionBudget",
    name: NameRule::Late,
    metadata_checks: &[],
    rules: Rules::Facts(facts::POLICY_V1_POD_DISRUPTION_BUDGET),
    parts: &[("status", |new, _, errors| statuses::budget(new, errors))],
    first_status: |_, _| {
        Some(json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}))
    },
    updates_without_version: false,
    generation: Some(Generation::USUAL),
    cells: Some(cells::pod_disruption_budget),
    ..KindRow::GO
}];
