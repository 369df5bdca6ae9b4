//! OpenKruise: SidecarSet, which adds containers to the pods of others.
//!
//! In: its objects, and what members report of them. Out: counts of pods, and what the containers refer to.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::Value;

use super::read::present;
use super::reflect::{Generations, Reflection, reflect};
use crate::aggregate::sums;
use crate::dependencies::{References, items as elements};
use crate::reflect::number;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, Replicas};

/// SidecarSet.
pub const SIDECAR_SET: Row = Row {
    replicas: Some(replicas),
    retain: Some(retain),
    aggregate: Some(aggregate),
    reflect: Some(|object| reflect(object, &STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

const COUNTS: &[&str] = &["matchedPods", "updatedPods", "readyPods"];
const STATUS: Reflection = Reflection { fields: &[], counts: COUNTS, generations: Generations::Untold };

/// It has no pods of its own.
fn replicas(_object: &Value) -> Answer<Replicas> {
    Ok(Replicas::default())
}

/// Nothing of it is the member's.
fn retain(_desired: &mut Value, _observed: &Value) -> Answer<()> {
    Ok(())
}

fn aggregate(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    let sums = sums(items, COUNTS)?;
    object::root(object).insert("status".to_owned(), Value::Object(sums));
    Ok(())
}

/// Every pod that it matches is updated and ready; one that matches none is well.
fn health(object: &Value) -> Answer<bool> {
    let Some(status) = present(object, &["status"]) else { return Ok(false) };
    let matched = number(status, "matchedPods")?;
    Ok(matched == 0 || number(status, "updatedPods")? == matched)
}

/// What its containers and volumes refer to, wherever their pods are.
fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let mut references = References::of(object);
    if let Some(spec) = present(object, &["spec"]) {
        elements(spec, "containers")?.iter().try_for_each(|container| references.add_container(container))?;
        for volume in elements(spec, "volumes")? {
            references.add("ConfigMap", volume.pointer("/configMap/name"));
            references.add("Secret", volume.pointer("/secret/secretName"));
            let sources =
                volume.get("projected").map_or(Ok(&[][..]), |projected| elements(projected, "sources"))?;
            for source in sources {
                references.add("ConfigMap", source.pointer("/configMap/name"));
                references.add("Secret", source.pointer("/secret/name"));
            }
        }
    }
    Ok(references.sorted())
}
