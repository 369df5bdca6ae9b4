//! What an expression sees: the types of what it may name, and the values.
//!
//! In: a cluster; a template; what the expressions of a policy are. Out: declarations to compile by, values to evaluate with. Pure.

use std::collections::BTreeMap;

use karmada_api::cluster::{Cluster, ClusterStatus, ResourceSummary};
use karmada_api::object;
use karmada_cel::{Declarations, Type, Value as Cel};
use karmada_core::cluster_expressions::Said;
use serde_json::{Value, json};

/// What expressions may name: `cluster`, of which every field that stands here is always there, and `object`.
pub(crate) fn names() -> Declarations {
    let texts = || Type::Map(Box::new(Type::String), Box::new(Type::String));
    let list = |of: Type| Type::List(Box::new(of));
    let metadata = |of: &str, more: [(&'static str, Type); 1]| {
        let [more] = more;
        Type::object(of, [("name", Type::String), ("labels", texts()), ("annotations", texts()), more])
    };
    let taint = [("key", Type::String), ("value", Type::String), ("effect", Type::String)];
    let spec = [
        ("provider", Type::String),
        ("region", Type::String),
        ("zone", Type::String),
        ("zones", list(Type::String)),
        ("taints", list(Type::object("cluster.taint", taint))),
    ];
    let condition = [
        ("type", Type::String),
        ("status", Type::String),
        ("reason", Type::String),
        ("message", Type::String),
    ];
    let summary = [("allocatable", texts()), ("allocated", texts()), ("allocating", texts())];
    let status = [
        ("kubernetesVersion", Type::String),
        ("conditions", list(Type::object("cluster.condition", condition))),
        ("nodeSummary", Type::object("cluster.nodes", [("totalNum", Type::Int), ("readyNum", Type::Int)])),
        ("resourceSummary", Type::object("cluster.resources", summary)),
        ("remedyActions", list(Type::String)),
    ];
    let cluster = [
        ("metadata", metadata("cluster.metadata", [("uid", Type::String)])),
        ("spec", Type::object("cluster.spec", spec)),
        ("status", Type::object("cluster.status", status)),
    ];
    let template = [
        ("apiVersion", Type::String),
        ("kind", Type::String),
        ("metadata", metadata("object.metadata", [("namespace", Type::String)])),
        ("spec", Type::Dyn),
    ];
    Declarations::new()
        .with("cluster", Type::object("cluster", cluster))
        .with("object", Type::object("object", template))
}

/// A cluster as expressions see it, but for parts that their text does not name: who names none of a status need not wait for it to be made.
pub(crate) fn cluster(cluster: &Cluster, said: &Said) -> Cel {
    let names = |word: &str| said.filter.contains(word) || said.score.contains(word);
    let mut shown = json!({});
    if names("metadata") {
        let metadata = &cluster.metadata;
        let none = BTreeMap::new();
        let texts = |map: &Option<BTreeMap<String, String>>| json!(map.as_ref().unwrap_or(&none));
        let annotations = if names("annotations") { texts(&metadata.annotations) } else { json!({}) };
        shown["metadata"] = json!({"name": cluster.name(), "uid": metadata.uid.as_deref().unwrap_or(""),
            "labels": texts(&metadata.labels), "annotations": annotations});
    }
    if names("spec") {
        let spec = &cluster.spec;
        let taints = spec.taints.iter();
        let taints: Vec<Value> = taints
            .map(|one| json!({"key": one.key, "value": one.value.as_deref().unwrap_or(""), "effect": one.effect}))
            .collect();
        shown["spec"] = json!({"provider": spec.provider, "region": spec.region, "zone": spec.zone, "zones": spec.zones,
            "taints": taints});
    }
    if names("status") {
        shown["status"] = status(&cluster.status);
    }
    Cel::from_json(&shown)
}

fn status(status: &ClusterStatus) -> Value {
    let conditions = status.conditions.iter();
    let conditions: Vec<Value> = conditions
        .map(|one| json!({"type": one.type_, "status": one.status, "reason": one.reason, "message": one.message}))
        .collect();
    let (nodes, none) = (status.node_summary.unwrap_or_default(), ResourceSummary::default());
    let room = status.resource_summary.as_ref().unwrap_or(&none);
    json!({"kubernetesVersion": status.kubernetes_version, "conditions": conditions, "remedyActions": status.remedy_actions,
        "nodeSummary": {"totalNum": nodes.total_num, "readyNum": nodes.ready_num},
        "resourceSummary": {"allocatable": room.allocatable, "allocated": room.allocated, "allocating": room.allocating}})
}

/// Where kubectl keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A template as expressions see it.
pub(crate) fn object(template: &Value) -> Cel {
    let text = |field: fn(&Value) -> &str| field(template).to_owned();
    // What kubectl keeps in an annotation is the whole object, a Secret's data included.
    let annotations: BTreeMap<_, _> = object::annotations(template)
        .into_iter()
        .filter(|(name, _)| {
            name.as_str() != LAST_APPLIED && !matches!(object::kind(template), "Secret" | "ConfigMap")
        })
        .collect();
    let mut shown = json!({"apiVersion": text(object::api_version), "kind": text(object::kind),
        "metadata": {"name": text(object::name), "namespace": text(object::namespace),
            "labels": object::labels(template), "annotations": annotations}});
    if let Some(spec) = template.get("spec") {
        shown["spec"] = spec.clone();
    }
    Cel::from_json(&shown)
}
