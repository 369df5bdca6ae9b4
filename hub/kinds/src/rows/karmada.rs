//! Rows of Karmada's kinds that are more than their schemas.

use karmada_definitions::kind_row::KindRow;

use super::Group;
use crate::conversion::{binding_v1alpha1, binding_v1alpha2};
use crate::table::{cluster, work};

pub(super) const GROUPS: &[Group] = &[("cluster.karmada.io", CLUSTER), ("work.karmada.io", WORK)];

/// Its annotations say by which key its site speaks: who may write its status alone changes none.
const CLUSTER: &[KindRow] = &[KindRow {
    kind: "Cluster",
    updates_without_version: true,
    cells: Some(cluster::cluster),
    ..KindRow::CUSTOM
}];

const OLD_BINDING: KindRow = KindRow {
    version: "v1alpha1",
    to_storage: binding_v1alpha2,
    from_storage: binding_v1alpha1,
    ..KindRow::CUSTOM
};

const WORK: &[KindRow] = &[
    KindRow { kind: "ClusterResourceBinding", ..OLD_BINDING },
    KindRow { kind: "ResourceBinding", ..OLD_BINDING },
    KindRow { kind: "Work", cell: work::cell, ..KindRow::CUSTOM },
];
