//! Cluster, completed: taints get their time, the old zone field its successor, nodes their grades.
//!
//! In: the JSON that is written, the stored one on update, the time. Out: the same JSON completed, with status and generation as a write of
//! the spec leaves them. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{object, time};

const GI: u64 = 1 << 30;

/// What becomes of a Cluster's grades of nodes (`spec.resourceModels`; feature gate `CustomizedClusterResourceModeling`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grades {
    /// They are put in order, and are the standard ones where none are said.
    #[default]
    Completed,
    /// They stay as they are written.
    AsWritten,
}

/// Completes a Cluster. On create the status is wiped and the generation is 1; on update the status stays what it
/// was and the generation counts changes of the spec.
pub fn default_cluster(cluster: &mut Value, old: Option<&Value>, now: Timestamp, grades: Grades) {
    let root = object::root(cluster);
    let status = old.map(|old| old.get("status").cloned());
    match status.flatten() {
        Some(status) => root.insert("status".to_owned(), status),
        None => root.remove("status"),
    };
    let spec = object::child(root, "spec");
    copy_zone(spec);
    stamp_taints(spec, now);
    if grades == Grades::Completed {
        default_models(spec);
    }
    let generation = match old {
        None => 1,
        Some(old) if old.get("spec") == cluster.get("spec") => object::generation(old),
        Some(old) => object::generation(old) + 1,
    };
    object::metadata(cluster).insert("generation".to_owned(), Value::from(generation));
}

fn copy_zone(spec: &mut Map<String, Value>) {
    let zone = spec.get("zone").and_then(Value::as_str).unwrap_or("").to_owned();
    let has_zones = spec.get("zones").and_then(Value::as_array).is_some_and(|zones| !zones.is_empty());
    if !zone.is_empty() && !has_zones {
        spec.insert("zones".to_owned(), json!([zone]));
    }
}

/// A NoExecute taint evicts after a time: it must be known since when it stands.
fn stamp_taints(spec: &mut Map<String, Value>, now: Timestamp) {
    let taints = spec.get_mut("taints").and_then(Value::as_array_mut);
    for taint in taints.into_iter().flatten().filter_map(Value::as_object_mut) {
        let evicts = taint.get("effect").and_then(Value::as_str) == Some("NoExecute");
        if evicts && taint.get("timeAdded").is_none_or(Value::is_null) {
            taint.insert("timeAdded".to_owned(), Value::from(time::seconds(now)));
        }
    }
}

fn default_models(spec: &mut Map<String, Value>) {
    match spec.get_mut("resourceModels").and_then(Value::as_array_mut).filter(|models| !models.is_empty()) {
        Some(models) => models.sort_by_key(|model| model.get("grade").and_then(Value::as_u64).unwrap_or(0)),
        None => {
            spec.insert("resourceModels".to_owned(), standard_models());
        }
    }
}

/// Karmada's nine default grades of nodes, by cores and by memory. From the third on each upper bound is twice the one before; the last
/// has none.
pub fn standard_models() -> Value {
    const MAX: u64 = i64::MAX as u64;
    let cpu = [0, 1, 2, 4, 8, 16, 32, 64, 128, MAX];
    let memory = [0, 4, 16, 32, 64, 128, 256, 512, 1024].map(|gi: u64| gi * GI);
    let quantity = |bytes: u64| {
        if bytes == MAX {
            bytes.to_string()
        } else if bytes == 0 {
            "0".to_owned()
        } else {
            format!("{}Gi", bytes / GI)
        }
    };
    let memory: Vec<u64> = memory.into_iter().chain([MAX]).collect();
    let models = (0..9_usize).map(|grade| {
        json!({
            "grade": grade,
            "ranges": [
                {"name": "cpu", "min": cpu[grade].to_string(), "max": cpu[grade + 1].to_string()},
                {"name": "memory", "min": canonical(&quantity(memory[grade])), "max": canonical(&quantity(memory[grade + 1]))},
            ],
        })
    });
    Value::Array(models.collect())
}

fn canonical(text: &str) -> String {
    text.parse::<karmada_quantity::Quantity>()
        .map_or_else(|_| text.to_owned(), |quantity| quantity.to_string())
}
