//! kube-apiserver's defaulting of built-in kinds (its `SetDefaults_…` functions).
//!
//! In: a decoded object. Out: the same with its defaults in place. Walks the object by its schema and, at every named
//! type it meets, lays in that type's plain defaults (`data/defaults.tsv`) and runs its rule, parents before children, as the
//! generated Go code does; then defaults that
//! the published schema itself states. Idempotent.

mod apps;
mod autoscaling;
pub(crate) use autoscaling::federated_autoscaler;
mod batch;
mod cluster_scoped;
mod core;
mod network;
mod pod;
mod whole_pod;

use karmada_quantity::Quantity;
use karmada_schema::{Format, SchemaRef};
use serde_json::{Map, Value, json};

/// A Job without a selector of its own selects by its uid, once that is known and its ownership is recorded.
pub(crate) fn select_by_uid(job: &mut Value) -> Vec<String> {
    if let Some(fields) = job.as_object_mut() {
        batch::generate_selector(fields);
    }
    Vec::new()
}

/// A daemon set counts changes of its template.
pub(crate) fn next_template_generation(set: &mut Value, old: &Value) {
    if let Some(fields) = set.as_object_mut() {
        apps::next_template_generation(fields, old);
    }
}

/// The taints of a slice's devices that do not say since when, are there since now.
pub(crate) fn date_taints(slice: &mut Value, now: &dyn Fn() -> String) {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    let taints = devices.into_iter().flatten();
    let taints = taints.filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    let undated: Vec<&mut Value> =
        taints.filter(|one| one.is_object() && one["timeAdded"].is_null()).collect();
    if !undated.is_empty() {
        let now = Value::String(now());
        undated.into_iter().for_each(|taint| taint["timeAdded"] = now.clone());
    }
}

/// The fields of a struct.
type Fields = Map<String, Value>;

// Those that depend on nothing else: `data/defaults.tsv`.
include!(concat!(env!("OUT_DIR"), "/defaults.rs"));

/// Lays the defaults of a built-in kind into `value`.
pub(crate) fn lay_in(schema: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if holds_amounts(schema) {
                fields.values_mut().for_each(in_millis);
            }
            if let Some(name) = schema.type_name().and_then(|name| name.strip_prefix("io.k8s.")) {
                let name = name.strip_prefix("api.").unwrap_or(name);
                plain(name, fields);
                rule(name, fields);
            }
            for (name, property, _) in schema.properties() {
                published(name, property, fields);
            }
            let keeps = schema.type_name().is_some_and(has_amounts_of_its_own);
            for (name, item) in fields.iter_mut() {
                if let Some(child) = schema.child(name).filter(|child| !(keeps && holds_amounts(*child))) {
                    lay_in(child, item);
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items() {
                items.iter_mut().for_each(|item| lay_in(element, item));
            }
        }
        _ => {}
    }
}

fn holds_amounts(schema: SchemaRef<'_>) -> bool {
    schema.additional().is_some_and(|amount| amount.format() == Format::Quantity)
}

/// Whether the amounts in a type are not of the core group's type, and stay as they are: those of runtime classes, and of devices.
fn has_amounts_of_its_own(name: &str) -> bool {
    name.ends_with(".node.v1.Overhead") || name.starts_with("io.k8s.api.resource.")
}

/// Resources are counted in thousandths: finer amounts are rounded up.
fn in_millis(amount: &mut Value) {
    if let Some(quantity) =
        Quantity::from_value(amount).filter(|quantity| quantity.rounded_to_milli() != *quantity)
    {
        *amount = Value::String(quantity.rounded_to_milli().to_string());
    }
}

/// A default that the schema states and Go lays in: any for a pointer, a non-zero one for a plain field.
fn published(name: &str, property: SchemaRef<'_>, fields: &mut Fields) {
    let Some(default) = property.default() else { return };
    let zero = match default {
        Value::Null | Value::Object(_) | Value::Array(_) => return,
        Value::String(text) => text.is_empty(),
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
    };
    if !zero || property.is_pointer() {
        set(fields, name, default.clone());
    }
}

fn rule(type_name: &str, fields: &mut Fields) {
    match type_name {
        "core.v1.Pod" => pod::pod(fields),
        "core.v1.PodSpec" => pod::pod_spec(fields),
        "core.v1.Container" | "core.v1.EphemeralContainer" => pod::container(fields),
        "core.v1.Volume" => pod::volume(fields),
        "core.v1.ReplicationController" => core::replication_controller(fields),
        "core.v1.Secret" => core::secret(fields),
        "core.v1.Namespace" => core::namespace(fields),
        "core.v1.NodeSpec" => core::node_spec(fields),
        "core.v1.NodeStatus" => core::node_status(fields),
        "core.v1.LimitRangeItem" => core::limit_range_item(fields),
        "core.v1.Service" => network::service(fields),
        "apps.v1.Deployment" => apps::deployment(object(fields, "spec")),
        "apps.v1.DaemonSet" => {
            apps::first_template_generation(fields);
            apps::daemon_set(object(fields, "spec"));
        }
        "apps.v1.StatefulSet" => apps::stateful_set(object(fields, "spec")),
        "batch.v1.Job" => batch::job(fields),
        "autoscaling.v1.HorizontalPodAutoscaler" => autoscaling::autoscaler_v1(fields),
        "autoscaling.v2.HorizontalPodAutoscaler" => autoscaling::autoscaler_v2(object(fields, "spec")),
        "networking.v1.NetworkPolicy" => network::policy(object(fields, "spec")),
        _ => cluster_scoped::rule(type_name, fields),
    }
}

/// Sets a field that is absent or null.
fn set(fields: &mut Fields, name: &str, default: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), default);
    }
}

/// The same of a field that is there and empty, or zero.
fn set_blank(fields: &mut Fields, name: &str, default: Value) {
    let blank = match fields.get(name) {
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        _ => is_empty(fields, name),
    };
    if blank {
        fields.insert(name.to_owned(), default);
    }
}

/// Sets a text field that is absent, null or empty.
fn set_text(fields: &mut Fields, name: &str, default: &str) {
    if text(fields, name).is_empty() {
        fields.insert(name.to_owned(), default.into());
    }
}

/// The object at a field, made where there is none.
fn object<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    let value = fields.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made an object above")
}

/// The text of a field; empty where there is none.
fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a list or map field is absent or empty.
fn is_empty(fields: &Fields, name: &str) -> bool {
    match fields.get(name) {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        other => other.is_none_or(Value::is_null),
    }
}
