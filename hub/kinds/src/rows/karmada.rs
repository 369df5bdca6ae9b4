//! Rows of Karmada's kinds that are more than their schemas.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::CUSTOM`.

use karmada_api::binding::LARGEST_BINDING;
use karmada_definitions::kind_row::{KindRow, Rules};

use super::Group;
use crate::conversion::{binding_v1alpha1, binding_v1alpha2};
use crate::defaults;
use crate::table::{cluster, work};
use crate::validation::{autoscaling, interpreter_webhooks, multi_cluster_ingress, multi_cluster_service};

pub(super) const GROUPS: &[Group] = &[
    ("autoscaling.karmada.io", AUTOSCALING),
    ("cluster.karmada.io", CLUSTER),
    ("config.karmada.io", CONFIG),
    ("networking.karmada.io", NETWORKING),
    ("work.karmada.io", WORK),
];

const AUTOSCALING: &[KindRow] = &[KindRow {
    kind: "FederatedHPA",
    rules: Rules::Change(autoscaling::federated),
    drop_disabled_fields: defaults::federated_autoscaler,
    ..KindRow::CUSTOM
}];

const CONFIG: &[KindRow] = &[KindRow {
    kind: "ResourceInterpreterWebhookConfiguration",
    rules: Rules::Object(interpreter_webhooks::configuration),
    ..KindRow::CUSTOM
}];

const NETWORKING: &[KindRow] = &[
    KindRow {
        kind: "MultiClusterIngress",
        rules: Rules::Change(multi_cluster_ingress::multi_cluster_ingress),
        ..KindRow::CUSTOM
    },
    KindRow {
        kind: "MultiClusterService",
        rules: Rules::Change(multi_cluster_service::multi_cluster_service),
        ..KindRow::CUSTOM
    },
];

/// An annotation of a Cluster says with which key its site signs in. As for every custom kind, a write of the status leaves the annotations
/// as they are, so who may write the status alone cannot change the key.
const CLUSTER: &[KindRow] = &[KindRow {
    kind: "Cluster",
    updates_without_version: true,
    cells: Some(cluster::cluster),
    ..KindRow::CUSTOM
}];

/// A binding names its clusters and says how each stands, which no other kind comes to.
const BINDING: KindRow = KindRow { version: "v1alpha2", largest: LARGEST_BINDING, ..KindRow::CUSTOM };

const OLD_BINDING: KindRow =
    KindRow { version: "v1alpha1", to_storage: binding_v1alpha2, from_storage: binding_v1alpha1, ..BINDING };

const WORK: &[KindRow] = &[
    KindRow { kind: "ClusterResourceBinding", ..OLD_BINDING },
    KindRow { kind: "ResourceBinding", ..OLD_BINDING },
    KindRow { kind: "ClusterResourceBinding", ..BINDING },
    KindRow { kind: "ResourceBinding", ..BINDING },
    KindRow { kind: "Work", cell: work::cell, ..KindRow::CUSTOM },
];
