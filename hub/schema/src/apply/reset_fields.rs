//! Fields that a write through a part of a kind cannot change, and so cannot own: what kube-apiserver's registries call reset fields.
//!
//! In: what a kind says of it, the part that is written, the kind's schema. Out: a set of fields. Pure.

use super::{Element, Set, Writer};
use crate::SchemaRef;

/// What a kind says of the fields that writes of its parts leave as they are, beside what holds of every kind.
#[derive(Clone, Copy, Debug)]
pub struct ResetFields {
    /// What a write of the whole resets beside the status.
    pub by_whole: &'static [&'static str],
    /// What a write of the status, or of an approval, resets beside its metadata and `by_status`.
    pub beside_status: BesideStatus,
    /// More that a write of the status resets.
    pub by_status: &'static [&'static str],
    /// A list that the server begins, whoever made the object: nobody owns it while no more than that stands there.
    pub begun_by_server: Option<[&'static str; 2]>,
}

/// What an object has beside its status, metadata and type.
#[derive(Clone, Copy, Debug)]
pub enum BesideStatus {
    /// Every field of its schema.
    AllFields,
    /// Its spec, whatever else it has.
    Spec,
}

impl ResetFields {
    /// Of kinds that are compiled into kube-apiserver.
    pub const GO: ResetFields = ResetFields {
        by_whole: &[],
        beside_status: BesideStatus::AllFields,
        by_status: &[],
        begun_by_server: None,
    };

    /// The same, where a write of the status leaves the metadata, too.
    pub const WITH_METADATA: ResetFields = ResetFields { by_status: &["metadata"], ..ResetFields::GO };

    /// Of custom kinds.
    pub const CUSTOM: ResetFields =
        ResetFields { beside_status: BesideStatus::Spec, ..ResetFields::WITH_METADATA };
}

/// The fields that this write resets.
pub(super) fn reset_fields(writer: Writer<'_>, schema: SchemaRef<'_>) -> Set {
    let mut set = Set::default();
    let resets = writer.resets;
    match writer.subresource {
        "" if writer.has_status => {
            set.insert(&[Element::field("status")]);
            insert_paths(&mut set, resets.by_whole);
        }
        "approval" => {
            insert_beside_status(&mut set, resets.beside_status, schema);
            set.insert(&[Element::field("status"), Element::field("certificate")]);
        }
        "status" => {
            insert_beside_status(&mut set, resets.beside_status, schema);
            insert_paths(&mut set, resets.by_status);
        }
        _ => {}
    }
    set
}

fn insert_beside_status(set: &mut Set, beside: BesideStatus, schema: SchemaRef<'_>) {
    match beside {
        BesideStatus::Spec => set.insert(&[Element::field("spec")]),
        BesideStatus::AllFields => {
            for (name, _, _) in schema.properties() {
                if !matches!(name, "apiVersion" | "kind" | "metadata" | "status") {
                    set.insert(&[Element::field(name)]);
                }
            }
        }
    }
}

fn insert_paths(set: &mut Set, paths: &[&str]) {
    for path in paths {
        set.insert(&path.split('.').map(Element::field).collect::<Vec<_>>());
    }
}
