//! Rows of the core group.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::GO`.

use karmada_definitions::kind_row::KindRow;
use karmada_definitions::kind_row::MetadataCheck::{Changed, New};
use karmada_definitions::kind_row::{BuiltinKind, Rules, SelectableField};
use karmada_schema::apply::ResetFields;
use karmada_schema::metadata::NameRule;
use karmada_schema::path::Path;
use serde_json::json;

use super::{Group, selectable};
use crate::table::{
    cells::name_and_created, core as cells, pod as pod_cells, storage as volume_cells, workloads,
};
use crate::validation::{
    core, endpoints, events, facts, node, persistent_volumes, pod, quota, service, statuses, warnings,
};
use crate::{disabled_fields, pod_status, volume_status};

pub(super) const GROUPS: &[Group] = &[("", CORE)];

const CORE: &[KindRow] = &[
    KindRow { kind: "Binding", known: BuiltinKind::Binding, ..KindRow::GO },
    KindRow {
        kind: "ComponentStatus",
        deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
        ..KindRow::GO.with(Rules::None, cells::component_status)
    },
    KindRow {
        kind: "ConfigMap",
        metadata_checks: &[Changed, New],
        ..KindRow::GO.with(Rules::Change(core::config_map), cells::config_map)
    },
    KindRow {
        kind: "Endpoints",
        deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        metadata_checks: &[Changed, New],
        warn: |new, _, out| warnings::endpoints(new, out),
        creates_on_update: true,
        directory: "services/endpoints",
        ..KindRow::GO.with(Rules::Change(endpoints::endpoints), cells::endpoints)
    },
    KindRow {
        kind: "Event",
        name: NameRule::Late,
        metadata_checks: &[],
        creates_on_update: true,
        collected: false,
        selectable: selectable::EVENT,
        ..KindRow::GO.with(Rules::Object(events::core_event), cells::event)
    },
    KindRow {
        kind: "LimitRange",
        known: BuiltinKind::LimitRange,
        metadata_checks: &[New],
        creates_on_update: true,
        ..KindRow::GO.with(Rules::Object(quota::limit_range), name_and_created)
    },
    KindRow {
        kind: "Namespace",
        known: BuiltinKind::Namespace,
        name: NameRule::Label,
        metadata_checks: &[New, Changed],
        parts: &[("status", |new, _, errors| statuses::namespace(new, errors))],
        begin: crate::namespace::hold,
        resets: ResetFields { begun_by_server: Some(["spec", "finalizers"]), ..ResetFields::GO },
        first_status: |_, _| Some(json!({"phase": "Active"})),
        keeps_spec: true,
        returns_deleted: true,
        selectable: &[SelectableField::at("status.phase", &[&["status", "phase"]])],
        ..KindRow::GO.with(Rules::Object(core::namespace), cells::namespace)
    },
    KindRow {
        kind: "Node",
        metadata_checks: &[New, Changed],
        judged_twice: true,
        parts: &[("status", |new, old, errors| node::node(new, Some(old), errors))],
        warn: |new, _, out| warnings::node(new, out),
        drop_disabled_fields: |new, old| disabled_fields::forget(new, old, "spec", &["configSource"]),
        // A kubelet registers its Node with one.
        created_with_status: true,
        directory: "minions",
        selectable: &[SelectableField::at("spec.unschedulable", &[&["spec", "unschedulable"]]).or("false")],
        ..KindRow::GO.with(Rules::Change(node::node), cells::node)
    },
    KindRow {
        kind: "PersistentVolume",
        metadata_checks: &[New, New],
        judged_twice: true,
        parts: &[("status", |_, _, _| {})],
        warn: |new, _, out| warnings::volume(new, out),
        first_status: |_, now| Some(json!({"phase": "Pending", "lastPhaseTransitionTime": now})),
        finish_status: volume_status::finish,
        returns_deleted: true,
        ..KindRow::GO
            .with(Rules::Change(persistent_volumes::persistent_volume), volume_cells::persistent_volume)
    },
    KindRow {
        kind: "PersistentVolumeClaim",
        known: BuiltinKind::VolumeClaim,
        metadata_checks: &[Changed, New],
        parts: &[("status", |new, _, errors| statuses::claim(new, errors))],
        warn: |new, _, out| warnings::claim(new, out),
        drop_disabled_fields: |new, old| disabled_fields::at(new, old, "/spec", disabled_fields::claim),
        first_status: |_, _| Some(json!({"phase": "Pending"})),
        returns_deleted: true,
        ..KindRow::GO
            .with(Rules::Change(core::persistent_volume_claim), volume_cells::persistent_volume_claim)
    },
    KindRow {
        kind: "Pod",
        known: BuiltinKind::Pod,
        metadata_checks: &[Changed, New],
        parts: &[
            ("binding", |_, _, _| {}),
            ("ephemeralcontainers", pod::ephemeral),
            ("resize", pod::resized),
        ],
        warn: warnings::new_pod,
        drop_disabled_fields: disabled_fields::whole_pod,
        first_status: |pod, _| Some(pod_status::first(pod)),
        finish_create: pod_status::finish_create,
        finish_status: pod_status::finish,
        returns_deleted: true,
        status_keeps: &["ownerReferences"],
        resets: ResetFields {
            by_status: &["metadata.deletionTimestamp", "metadata.ownerReferences"],
            ..ResetFields::GO
        },
        row_conditions: pod_cells::pod_conditions,
        selectable: selectable::POD,
        ..KindRow::COUNTED.with(Rules::Change(pod::pod), pod_cells::pod)
    },
    KindRow {
        kind: "PodTemplate",
        pod_template: Some("/template"),
        warn: |new, _, out| warnings::pod("template.", &new["template"], out),
        drop_disabled_fields: |new, old| {
            disabled_fields::at(new, old, "/template/spec", disabled_fields::pod);
        },
        returns_deleted: true,
        ..KindRow::COUNTED.with(
            Rules::Object(|new, errors| {
                pod::template(&new["template"], &Path::field("template"), errors);
            }),
            workloads::pod_template,
        )
    },
    KindRow {
        kind: "ReplicationController",
        name: NameRule::LongName,
        pod_template: Some("/spec/template"),
        parts: &[("status", |new, _, errors| statuses::controller(new, errors))],
        warn: warnings::named_workload,
        drop_disabled_fields: disabled_fields::template,
        first_status: |_, _| Some(json!({"replicas": 0})),
        // Where a delete says nothing, dependants stay: the kind is older than garbage collection.
        orphans: true,
        directory: "controllers",
        selectable: &[SelectableField::at("status.replicas", &[&["status", "replicas"]]).or("0")],
        ..KindRow::COUNTED
            .with(Rules::Facts(facts::CORE_V1_REPLICATION_CONTROLLER), workloads::replication_controller)
    },
    KindRow {
        kind: "ResourceQuota",
        parts: &[("status", |new, _, errors| quota::quota_status(new, errors))],
        returns_deleted: true,
        ..KindRow::GO.with(Rules::Change(quota::resource_quota), cells::resource_quota)
    },
    KindRow {
        kind: "Secret",
        metadata_checks: &[Changed, New],
        warn: |new, _, out| warnings::secret(new, out),
        selectable: &[SelectableField::at("type", &[&["type"]])],
        ..KindRow::GO.with(Rules::Change(core::secret), cells::secret)
    },
    KindRow {
        kind: "Service",
        known: BuiltinKind::Service,
        name: NameRule::Label,
        parts: &[("status", statuses::balancer)],
        warn: |new, _, out| warnings::service(new, out),
        first_status: |_, _| Some(json!({"loadBalancer": {}})),
        creates_on_update: true,
        returns_deleted: true,
        directory: "services/specs",
        selectable: &[
            SelectableField::at("spec.clusterIP", &[&["spec", "clusterIP"]]),
            SelectableField::at("spec.type", &[&["spec", "type"]]),
        ],
        ..KindRow::GO.with(Rules::Change(service::service), cells::service)
    },
    KindRow {
        kind: "ServiceAccount",
        metadata_checks: &[Changed, New],
        drop_disabled_fields: disabled_fields::service_account,
        returns_deleted: true,
        ..KindRow::GO.with(Rules::None, cells::service_account)
    },
];
