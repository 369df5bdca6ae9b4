//! Autoscalers between v1, which knows the processor's share alone, and v2.
//!
//! In: an object in one version. Out: the same in the other. What v1 cannot say stands in annotations, written as Go writes
//! them: metrics and conditions in v1's own words, the behaviour in those of a type that was never meant to be seen.

use karmada_schema::object::meta;
use serde_json::{Map, Value, json};

const CPU: &str = "targetCPUUtilizationPercentage";
const CURRENT_CPU: &str = "currentCPUUtilizationPercentage";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TOLERANCES: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
];

/// The share that one without metrics asks for.
const DEFAULT_CPU: i64 = 80;

fn cpu_metric(percent: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["averageUtilization"].is_number()
}

/// From v1 to v2.
pub(crate) fn autoscaler_v2(object: &mut Value) {
    let mut said = drop_annotations(object);
    let mut read = |name: &str| serde_json::from_str::<Value>(said.remove(name)?.as_str()?).ok();
    let mut metrics: Vec<Value> = read(METRICS)
        .and_then(|all| all.as_array()?.iter().map(|one| metric_v2(one, Side::Wanted)).collect())
        .unwrap_or_default();
    if let Some(percent) = take(object, "spec", CPU) {
        metrics.push(cpu_metric(&percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu_metric(&json!(DEFAULT_CPU)));
    }
    if object["spec"].is_object() {
        object["spec"]["metrics"] = Value::Array(metrics);
        if let Some(behavior) = read(BEHAVIOR).map(|behavior| lower(&behavior)).filter(Value::is_object) {
            object["spec"]["behavior"] = behavior;
        }
    }
    let (current, conditions) = (read(CURRENT_METRICS), read(CONDITIONS));
    let percent = take(object, "status", CURRENT_CPU);
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    if status.get("currentReplicas").is_some_and(|count| *count == 0) {
        status.remove("currentReplicas");
    }
    let seen: Option<Vec<Value>> =
        current.and_then(|all| all.as_array()?.iter().map(|one| metric_v2(one, Side::Seen)).collect());
    let from_percent = |percent: Value| {
        let current = json!({"averageUtilization": percent});
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
    };
    let seen = seen.map(Value::Array).or(percent.map(from_percent));
    status.insert("currentMetrics".to_owned(), seen.unwrap_or(Value::Null));
    if let Some(conditions) = conditions.filter(Value::is_array) {
        status.insert("conditions".to_owned(), conditions);
    }
}

/// From v2 to v1.
pub(crate) fn autoscaler_v1(object: &mut Value) {
    drop_annotations(object);
    let metrics = take(object, "spec", "metrics").and_then(|m| m.as_array().cloned()).unwrap_or_default();
    if let Some(metric) = metrics.iter().find(|metric| is_cpu(metric)) {
        object["spec"][CPU] = metric["resource"]["target"]["averageUtilization"].clone();
    }
    let others: Vec<String> = metrics
        .iter()
        .filter(|metric| !is_cpu(metric))
        .map(|metric| metric_v1(metric, Side::Wanted))
        .collect();
    if !others.is_empty() {
        annotate(object, METRICS, format!("[{}]", others.join(",")));
    }
    if let Some(behavior) = take(object, "spec", "behavior").filter(Value::is_object) {
        annotate(object, BEHAVIOR, behavior_text(&behavior));
    }
    let (current, conditions) =
        (take(object, "status", "currentMetrics"), take(object, "status", "conditions"));
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    for field in ["currentReplicas", "desiredReplicas"] {
        status.entry(field).or_insert(json!(0));
    }
    let current = current.and_then(|all| all.as_array().cloned()).unwrap_or_default();
    let share = |metric: &&Value| {
        metric["resource"]["name"] == "cpu" && metric["resource"]["current"]["averageUtilization"].is_number()
    };
    if let Some(metric) = current.iter().rfind(share) {
        status.insert(CURRENT_CPU.to_owned(), metric["resource"]["current"]["averageUtilization"].clone());
    }
    if !current.is_empty() {
        let all: Vec<String> = current.iter().map(|metric| metric_v1(metric, Side::Seen)).collect();
        annotate(object, CURRENT_METRICS, format!("[{}]", all.join(",")));
    }
    let conditions = conditions.and_then(|all| all.as_array().cloned()).unwrap_or_default();
    if !conditions.is_empty() {
        let order = ["type", "status", "lastTransitionTime", "reason", "message"];
        let all: Vec<String> = conditions
            .iter()
            .map(|one| ordered(order.map(|field| (field, one.get(field).map(Value::to_string)))))
            .collect();
        annotate(object, CONDITIONS, format!("[{}]", all.join(",")));
    }
}

/// Takes from managers who wrote the other version what a write in `version` changed, as that version has it.
pub(crate) fn disown_changed(old: &Value, new: &mut Value, version: &str) {
    let (other, convert): (_, fn(&mut Value)) = match version {
        "v1" => ("autoscaling/v2", autoscaler_v2),
        _ => ("autoscaling/v1", autoscaler_v1),
    };
    let whole = |object: &Value| {
        let mut object =
            json!({"metadata": {"annotations": object["metadata"]["annotations"]}, "spec": object["spec"]});
        convert(&mut object);
        object["spec"].take()
    };
    let (before, after) = (whole(old), whole(new));
    let entries = new.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter(|entry| entry["apiVersion"] == other) {
        let Some(owned) = entry.pointer_mut("/fieldsV1/f:spec").and_then(Value::as_object_mut) else {
            continue;
        };
        owned.retain(|field, _| {
            let field = field.trim_start_matches("f:");
            before[field] == after[field] || after[field].is_object()
        });
    }
}

/// The members that are there, in this order.
fn ordered<const N: usize>(fields: [(&str, Option<String>); N]) -> String {
    let given = fields.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", given.collect::<Vec<_>>().join(","))
}

const NO_AMOUNT: &str = "\"0\"";

/// What a metric tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// What is asked for.
    Wanted,
    /// What was measured.
    Seen,
}

/// How v1 calls what one side of a metric says.
struct Names {
    part: &'static str,
    value: &'static str,
    average: &'static str,
    share: &'static str,
}

impl Side {
    fn names(self) -> Names {
        match self {
            Side::Seen => Names {
                part: "current",
                value: "currentValue",
                average: "currentAverageValue",
                share: "currentAverageUtilization",
            },
            Side::Wanted => Names {
                part: "target",
                value: "targetValue",
                average: "targetAverageValue",
                share: "targetAverageUtilization",
            },
        }
    }

    /// What was measured has an amount always; what is asked for may leave it out.
    fn amount(self, value: Option<String>) -> Option<String> {
        if self == Side::Seen { or_none(value) } else { value }
    }
}

fn as_text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| value.to_string())
}

fn or_none(value: Option<String>) -> Option<String> {
    Some(value.unwrap_or_else(|| NO_AMOUNT.to_owned()))
}

/// A metric in v1's words.
fn metric_v1(metric: &Value, side: Side) -> String {
    let of = |kind: &str| metric.get(kind).filter(|source| source.is_object());
    ordered([
        ("type", as_text(&metric["type"])),
        ("object", of("object").map(|source| object_v1(source, side))),
        ("pods", of("pods").map(|source| pods_v1(source, side))),
        ("resource", of("resource").map(|source| ordered(resource_v1(source, side)))),
        (
            "containerResource",
            of("containerResource").map(|source| {
                let [name, share, average] = resource_v1(source, side);
                ordered([name, share, average, ("container", as_text(&source["container"]))])
            }),
        ),
        ("external", of("external").map(|source| external_v1(source, side))),
    ])
}

fn object_v1(source: &Value, side: Side) -> String {
    let Names { part, value, .. } = side.names();
    let target = &source["describedObject"];
    let reference = ordered(["kind", "name", "apiVersion"].map(|field| (field, as_text(&target[field]))));
    ordered([
        ("target", Some(reference)),
        ("metricName", as_text(&source["metric"]["name"])),
        (value, or_none(as_text(&source[part]["value"]))),
        ("selector", as_text(&source["metric"]["selector"])),
        ("averageValue", as_text(&source[part]["averageValue"])),
    ])
}

fn pods_v1(source: &Value, side: Side) -> String {
    let Names { part, average, .. } = side.names();
    ordered([
        ("metricName", as_text(&source["metric"]["name"])),
        (average, or_none(as_text(&source[part]["averageValue"]))),
        ("selector", as_text(&source["metric"]["selector"])),
    ])
}

fn resource_v1(source: &Value, side: Side) -> [(&'static str, Option<String>); 3] {
    let Names { part, average, share, .. } = side.names();
    [
        ("name", as_text(&source["name"])),
        (share, as_text(&source[part]["averageUtilization"])),
        (average, side.amount(as_text(&source[part]["averageValue"]))),
    ]
}

fn external_v1(source: &Value, side: Side) -> String {
    let Names { part, value, average, .. } = side.names();
    ordered([
        ("metricName", as_text(&source["metric"]["name"])),
        ("metricSelector", as_text(&source["metric"]["selector"])),
        (value, side.amount(as_text(&source[part]["value"]))),
        (average, as_text(&source[part]["averageValue"])),
    ])
}

/// A metric of v1 in v2's words; `None` where it is no metric.
fn metric_v2(metric: &Value, side: Side) -> Option<Value> {
    let Names { part, value: value_name, average: average_name, share: share_name } = side.names();
    let mut out = Map::new();
    out.insert("type".to_owned(), metric.as_object()?.get("type").cloned().unwrap_or(json!("")));
    for kind in ["object", "pods", "resource", "containerResource", "external"] {
        let Some(source) = metric.get(kind).filter(|source| source.is_object()) else { continue };
        let resource = matches!(kind, "resource" | "containerResource");
        let average = if kind == "object" { "averageValue" } else { average_name };
        let (value, average, share) = (&source[value_name], &source[average], &source[share_name]);
        let mut amount = Map::new();
        for (name, given) in [("value", value), ("averageValue", average), ("averageUtilization", share)] {
            if !given.is_null() {
                amount.insert(name.to_owned(), given.clone());
            }
        }
        if side == Side::Wanted {
            let by_average = match kind {
                "object" => !average.is_null(),
                "external" => value.is_null(),
                _ => true,
            };
            let ty = match (resource && !share.is_null(), by_average) {
                (true, _) => "Utilization",
                (_, true) => "AverageValue",
                _ => "Value",
            };
            amount.insert("type".to_owned(), json!(ty));
        }
        let mut made = Map::new();
        made.insert(part.to_owned(), Value::Object(amount));
        if resource {
            made.insert("name".to_owned(), source["name"].clone());
            if kind == "containerResource" {
                made.insert("container".to_owned(), source["container"].clone());
            }
        } else {
            let selector = &source[if kind == "external" { "metricSelector" } else { "selector" }];
            let mut of = json!({"name": source["metricName"]});
            if !selector.is_null() {
                of["selector"] = selector.clone();
            }
            made.insert("metric".to_owned(), of);
        }
        if kind == "object" {
            made.insert("describedObject".to_owned(), source["target"].clone());
        }
        out.insert(kind.to_owned(), Value::Object(made));
    }
    Some(Value::Object(out))
}

/// The behaviour by its Go names, nothing left out.
fn behavior_text(behavior: &Value) -> String {
    let rules = |rules: &Value| {
        if !rules.is_object() {
            return "null".to_owned();
        }
        let policy = |one: &Value| {
            ordered([
                ("Type", Some(one["type"].to_string())),
                ("Value", Some(one["value"].to_string())),
                ("PeriodSeconds", Some(one["periodSeconds"].to_string())),
            ])
        };
        let policies = rules["policies"].as_array().map_or_else(
            || "null".to_owned(),
            |all| format!("[{}]", all.iter().map(policy).collect::<Vec<_>>().join(",")),
        );
        ordered([
            ("StabilizationWindowSeconds", Some(rules["stabilizationWindowSeconds"].to_string())),
            ("SelectPolicy", Some(rules["selectPolicy"].to_string())),
            ("Policies", Some(policies)),
            ("Tolerance", Some(rules["tolerance"].to_string())),
        ])
    };
    ordered([
        ("ScaleUp", Some(rules(&behavior["scaleUp"]))),
        ("ScaleDown", Some(rules(&behavior["scaleDown"]))),
    ])
}

/// Go names as those of the API, nothing where nothing is.
fn lower(value: &Value) -> Value {
    let first = |name: &str| {
        let mut letters = name.chars();
        letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
    };
    match value {
        Value::Object(fields) => {
            let given = fields.iter().filter(|(_, item)| !item.is_null());
            Value::Object(given.map(|(name, item)| (first(name), lower(item))).collect())
        }
        Value::Array(items) => items.iter().map(lower).collect(),
        other => other.clone(),
    }
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

/// Takes out the annotations that this writes; no annotations are left where there were no others.
fn drop_annotations(object: &mut Value) -> Map<String, Value> {
    let mut said = Map::new();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return said };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return said;
    };
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].into_iter().chain(TOLERANCES) {
        if let Some(text) = annotations.remove(name) {
            said.insert(name.to_owned(), text);
        }
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    said
}

fn annotate(object: &mut Value, name: &str, text: String) {
    let metadata = meta::of(object);
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    annotations[name] = Value::String(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_survives_the_way_there_and_back() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, CPU: 50}});
        let mut object = old.clone();
        autoscaler_v2(&mut object);
        assert_eq!(object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
        autoscaler_v1(&mut object);
        assert_eq!(object, old);
    }

    #[test]
    fn metrics_that_v1_cannot_say_wait_in_an_annotation() {
        let new = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": [
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 9}}}]}});
        let mut object = new.clone();
        autoscaler_v1(&mut object);
        assert!(object["spec"].get("metrics").is_none());
        autoscaler_v2(&mut object);
        assert_eq!(object["spec"], new["spec"]);
    }
}
