//! Rows of storage and of devices.
//!
//! Constants alone, found by `rows::find`: what a row does not say is as in `KindRow::GO`.

use karmada_definitions::kind_row::MetadataCheck::{Changed, New};
use karmada_definitions::kind_row::{ACTED_ON, BuiltinKind, Generation, KindRow, Rules};
use karmada_schema::apply::ResetFields;
use karmada_schema::metadata::NameRule;
use serde_json::json;

use super::Group;
use crate::table::{
    cells::{name_and_age, name_and_created},
    storage as cells,
};
use crate::validation::{devices, facts, storage, warnings};
use crate::{defaults, disabled_fields};

pub(super) const GROUPS: &[Group] = &[("storage.k8s.io", STORAGE), ("resource.k8s.io", RESOURCE)];

const OF_STORAGE: KindRow = KindRow {
    metadata_checks: &[New, Changed],
    returns_deleted: true,
    status_keeps: ACTED_ON,
    resets: ResetFields::WITH_METADATA,
    ..KindRow::GO
};

const STORAGE: &[KindRow] = &[
    KindRow {
        kind: "CSIDriver",
        metadata_checks: &[Changed],
        warn: warnings::token_in_clear,
        drop_disabled_fields: |new, old| {
            disabled_fields::forget(new, old, "spec", &["preventPodSchedulingIfMissing"]);
        },
        updates_without_version: false,
        // Its changes alone are counted.
        generation: Some(Generation { from_one: false, ..Generation::USUAL }),
        ..OF_STORAGE.with(Rules::Facts(facts::STORAGE_V1_CSIDRIVER), cells::csi_driver)
    },
    KindRow {
        kind: "CSINode",
        metadata_checks: &[New],
        updates_without_version: false,
        ..OF_STORAGE.with(Rules::Change(storage::csi_node), cells::csi_node)
    },
    KindRow {
        kind: "CSIStorageCapacity",
        updates_without_version: false,
        returns_deleted: false,
        ..OF_STORAGE.with(Rules::Facts(facts::STORAGE_V1_CSISTORAGE_CAPACITY), name_and_created)
    },
    KindRow {
        kind: "StorageClass",
        ..OF_STORAGE.with(Rules::Facts(facts::STORAGE_V1_STORAGE_CLASS), cells::storage_class)
    },
    KindRow {
        kind: "VolumeAttachment",
        metadata_checks: &[New],
        parts: &[("status", |new, _, errors| storage::attachment_status(new, errors))],
        first_status: |_, _| Some(json!({"attached": false})),
        updates_without_version: false,
        ..OF_STORAGE.with(Rules::Facts(facts::STORAGE_V1_VOLUME_ATTACHMENT), cells::volume_attachment)
    },
    KindRow {
        kind: "VolumeAttributesClass",
        metadata_checks: &[Changed, New],
        ..OF_STORAGE
            .with(Rules::Facts(facts::STORAGE_V1_VOLUME_ATTRIBUTES_CLASS), cells::volume_attributes_class)
    },
];

const RESOURCE: &[KindRow] = &[
    KindRow {
        kind: "DeviceClass",
        name: NameRule::LongName,
        generation: Some(Generation::USUAL),
        ..OF_STORAGE.with(
            Rules::Compiling(|new, _, compiling, errors| devices::device_class(new, compiling, errors)),
            name_and_age,
        )
    },
    KindRow {
        kind: "ResourceClaim",
        known: BuiltinKind::ResourceClaim,
        parts: &[("status", devices::claim_status)],
        ..OF_STORAGE.with(
            Rules::Compiling(|new, old, compiling, errors| {
                devices::resource_claim(new, old, compiling, errors);
            }),
            cells::resource_claim,
        )
    },
    KindRow {
        kind: "ResourceClaimTemplate",
        known: BuiltinKind::ResourceClaimTemplate,
        ..OF_STORAGE.with(
            Rules::Compiling(|new, old, compiling, errors| {
                devices::resource_claim_template(new, old, compiling, errors);
            }),
            name_and_age,
        )
    },
    KindRow {
        kind: "ResourceSlice",
        metadata_checks: &[Changed],
        drop_disabled_fields: |new, old| disabled_fields::at(new, old, "/spec", disabled_fields::slice),
        date: defaults::date_taints,
        generation: Some(Generation { with_dropped: true, ..Generation::USUAL }),
        ..OF_STORAGE.with(Rules::Facts(facts::RESOURCE_V1_RESOURCE_SLICE), cells::resource_slice)
    },
];
