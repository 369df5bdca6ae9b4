//! kube-apiserver's validation of built-in kinds: the rules that users meet, in its words.
//!
//! In: a decoded and defaulted object, and on update the stored one. Out: field errors, which the caller turns into a
//! 422 with causes. Structure is checked before ([`karmada_schema`]); what is here relates fields to each other, and
//! compares an update with what was.

pub(crate) mod admission_registration;
pub(crate) mod api_service;
pub(crate) mod apps;
pub(crate) mod autoscaling;
pub(crate) mod certificates;
pub(crate) mod core;
pub(crate) mod cron_job;
pub(crate) mod device_slices;
pub(crate) mod devices;
pub(crate) mod disruption_budget;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod flow_control;
pub(crate) mod interpreter_webhooks;
pub(crate) mod job;
pub(crate) mod multi_cluster_ingress;
pub(crate) mod multi_cluster_service;
pub(crate) mod network;
pub(crate) mod node;
mod persistent_volume_update;
pub(crate) mod persistent_volumes;
pub(crate) mod pod;
pub(crate) mod quota;
pub(crate) mod rbac;
mod resources;
mod runtime_class;
mod scheduling;
mod security;
mod selector;
pub(crate) mod service;
pub(crate) mod statuses;
pub(crate) mod storage;
mod volume_fields;
mod volumes;
pub(crate) mod warnings;

use std::sync::Arc;

use karmada_cel::Compiling;
use karmada_definitions::kind_row::{KindRow, MetadataCheck};
use karmada_schema::facts::judge;
use karmada_schema::fields::{
    Errors, amount_shown, entries, immutable, invalid_each, is_empty, list, non_negative, only_name, text,
    whole_lists,
};
use karmada_schema::metadata::{self, NameRule, validate_metadata, validate_metadata_update};
use karmada_schema::{FieldError, addresses, names};
use serde_json::Value;

/// The plain facts of types (`data/facts.tsv`), by the type's name.
pub(crate) mod facts {
    use karmada_schema::facts::{Fact, Step, What, When};
    use karmada_schema::names;

    include!(concat!(env!("OUT_DIR"), "/facts.rs"));
}

pub(crate) use pod::annotations::app_armor_from_annotations;
pub(crate) use service::{addresses as service_addresses, is_watched as has_health_port};
pub use warnings::owners as owners_twice;

/// Everything that is wrong with `new`; on update (`old`), also what may not change. `compiling`: what the request compiles. Where that
/// finds itself crowded in the end, nothing is known.
pub(crate) fn validate_builtin(
    row: &KindRow,
    new: &Value,
    old: Option<&Value>,
    compiling: &Arc<Compiling>,
) -> Vec<FieldError> {
    // Where the kind's own rules say nothing of metadata, it is judged only if they find nothing.
    let mut errors = match old {
        None if row.name.is_late() => Vec::new(),
        None => metadata_of_new(row, new),
        Some(old) => metadata_of_changed(row, new, old),
    };
    let metadata = errors.len();
    row.rules.judge(new, old, compiling, &mut errors);
    if old.is_some() && row.judged_twice {
        // Once as if it were new, once as a change.
        let mut again = Vec::new();
        row.rules.judge(new, None, compiling, &mut again);
        errors.splice(metadata..metadata, again);
    }
    let looks_last = matches!(row.name, NameRule::Late | NameRule::Any | NameRule::LongName);
    if errors.is_empty() && looks_last && old.is_none() {
        errors = validate_metadata(NameRule::PathSegment, new, old);
    }
    errors
}

fn metadata_of_new(row: &KindRow, new: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata(row.name, new, None);
    if row.standard_finalizers {
        metadata::standard_finalizers(new, &mut errors);
    }
    errors
}

/// What is wrong with the metadata of a changed object: said as often as kube-apiserver looks at it.
fn metadata_of_changed(row: &KindRow, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata(NameRule::PathSegment, new, None);
    errors.extend(validate_metadata(NameRule::PathSegment, new, Some(old)));
    for check in row.metadata_checks {
        errors.extend(match check {
            MetadataCheck::New => validate_metadata(row.name, new, None),
            MetadataCheck::Changed => validate_metadata(row.name, new, Some(old)),
        });
        if row.standard_finalizers {
            metadata::standard_finalizers(new, &mut errors);
        }
    }
    errors
}

/// What is wrong with a part that is written by itself; `None` where the kind has no rules of its own for it.
pub(crate) fn validate_part(row: &KindRow, part: &str, new: &Value, old: &Value) -> Option<Vec<FieldError>> {
    let (_, rules) = row.parts.iter().find(|(name, _)| *name == part)?;
    let mut errors = validate_metadata_update(new, old);
    rules(new, old, &mut errors);
    Some(errors)
}
