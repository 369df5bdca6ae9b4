//! ServiceImport: a Service of other clusters, under a name of its own. Pure.
//!
//! In: a ServiceImport, and the Service that is derived from it. Out: that Service as it is to be. It has no selector: its EndpointSlices are those
//! that [`service_export`](crate::service_export) keeps on the hub, and both go where the ServiceImport goes, as its policy takes along what it
//! depends on.

use karmada_api::strings::labels;
use karmada_api::{names, object};
use serde_json::{Map, Value, json};

/// `apiVersion` of ServiceImports and ServiceExports.
pub const API: &str = "multicluster.x-k8s.io/v1alpha1";
/// Kind of ServiceImports.
pub const KIND: &str = "ServiceImport";

/// What is to be done with the derived Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Derived {
    /// It is as it is to be, or nobody's business here.
    Stays,
    /// It is to be made.
    Create(Value),
    /// It is there, and is to be like this.
    Update(Value),
    /// It is to go.
    Delete,
    /// There can be none: why.
    Refused(String),
}

/// Why there can be no Service under the derived name of this one.
pub fn refused(name: &str) -> Option<String> {
    let derived = names::derived_service_name(name);
    (derived.len() > 63 || name.contains('.')).then(|| {
        format!(
            "no Service can have the derived name {derived}: a name has 63 characters at most, and no dot"
        )
    })
}

/// The Service of which one is derived that has this name.
pub fn service_of(derived: &str) -> Option<&str> {
    derived.strip_prefix("derived-").filter(|name| !name.is_empty())
}

/// The Service that is derived from the ServiceImport of this name: one for ClusterSetIP, none for Headless. One that is there under this name is taken
/// over; with the ServiceImport goes what was made for it, or taken over.
pub fn derive((namespace, name): (&str, &str), import: Option<&Value>, service: Option<&Value>) -> Derived {
    let Some(import) = import.filter(|import| !object::deleting(import)) else {
        let goes = service.is_some_and(|service| !object::deleting(service) && is_derived(service, name));
        return if goes { Derived::Delete } else { Derived::Stays };
    };
    if import["spec"]["type"] != "ClusterSetIP" {
        return Derived::Stays;
    }
    if let Some(words) = refused(name) {
        return Derived::Refused(words);
    }
    let Some(service) = service else {
        let mut wanted = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": names::derived_service_name(name), "namespace": namespace}, "spec": spec(import)});
        own(&mut wanted, import);
        return Derived::Create(wanted);
    };
    if object::deleting(service) {
        return Derived::Stays;
    }
    if !is_derived(service, name) && is_somebodys(service) {
        let service = names::derived_service_name(name);
        return Derived::Refused(format!(
            "the Service {service} is somebody else's: it has Pods or an owner of its own"
        ));
    }
    let mut wanted = service.clone();
    own(&mut wanted, import);
    strip(&mut wanted);
    if said(&spec(import)) != said(&service["spec"]) {
        let address = service["spec"]["clusterIP"].as_str().filter(|address| !address.is_empty());
        wanted["spec"] = spec(import);
        if let Some(address) = address {
            wanted["spec"]["clusterIP"] = json!(address);
        }
    }
    if wanted == *service { Derived::Stays } else { Derived::Update(wanted) }
}

/// The derived Service with the addresses of its ServiceImport in its status; `None` where it has them.
pub fn with_status(import: &Value, service: &Value) -> Option<Value> {
    let addresses = import["spec"]["ips"].as_array().into_iter().flatten();
    let wanted: Vec<Value> = addresses.map(|ip| json!({"ip": ip})).collect();
    let has = service["status"]["loadBalancer"]["ingress"].as_array();
    let told = |one: &Value| one["ip"].clone();
    let is_so = match has {
        None => wanted.is_empty(),
        Some(has) => has.iter().map(told).eq(wanted.iter().map(told)),
    };
    if import["spec"]["type"] != "ClusterSetIP" || is_so {
        return None;
    }
    let mut service = service.clone();
    let balancer = if wanted.is_empty() { json!({}) } else { json!({"ingress": wanted}) };
    object::set(&mut service, &["status", "loadBalancer"], balancer);
    Some(service)
}

/// Whether the hub made an object for whoever imports a Service: it follows the ServiceImport, and waits for no policy of its own.
pub fn is_made_for_importers(object: &Value) -> bool {
    match object::kind(object) {
        "EndpointSlice" => object::label(object, labels::SLICE_MANAGED_BY) == Some(labels::SLICE_IMPORTED),
        "Service" => service_of(object::name(object)).is_some_and(|name| is_derived(object, name)),
        _ => false,
    }
}

/// Whether a Service was derived from a ServiceImport of this name, or taken over by one.
fn is_derived(service: &Value, name: &str) -> bool {
    let mut owners = service["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["apiVersion"] == API && owner["kind"] == KIND && owner["name"] == name)
}

/// Whether a Service has Pods or an owner of its own: who made it lives by it, and it is not taken over.
fn is_somebodys(service: &Value) -> bool {
    let selects = service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let mut owners = service["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    selects || owners.any(|owner| owner["controller"] == true)
}

/// It ends with its ServiceImport, also where nobody looks any more.
fn own(service: &mut Value, import: &Value) {
    let owner = json!({"apiVersion": API, "kind": KIND, "name": object::name(import), "uid": object::uid(import), "controller": true});
    let has = service["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.contains(&owner));
    if !has {
        object::metadata(service).insert("ownerReferences".to_owned(), json!([owner]));
    }
}

/// It has no labels and annotations but those that the hub itself gives.
fn strip(service: &mut Value) {
    let is_the_hubs = |key: &str| {
        key.split_once('/')
            .is_some_and(|(domain, _)| domain == "karmada.io" || domain.ends_with(".karmada.io"))
    };
    let metadata = object::metadata(service);
    for map in ["labels", "annotations"] {
        let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { continue };
        entries.retain(|key, _| is_the_hubs(key));
        if entries.is_empty() {
            metadata.remove(map);
        }
    }
}

/// What a ServiceImport says of its Service.
fn spec(import: &Value) -> Value {
    let from = &import["spec"];
    let fields = ["name", "protocol", "port", "appProtocol"];
    let port = |port: &Value| {
        let kept = fields.into_iter().filter_map(|field| Some((field.to_owned(), port.get(field)?.clone())));
        Value::Object(kept.collect::<Map<_, _>>())
    };
    let ports: Vec<Value> = from["ports"].as_array().into_iter().flatten().map(port).collect();
    let mut spec = json!({"type": "ClusterIP"});
    if !ports.is_empty() {
        spec["ports"] = json!(ports);
    }
    for field in ["sessionAffinity", "sessionAffinityConfig"] {
        if let Some(said) = from.get(field).filter(|said| !said.is_null()) {
            spec[field] = said.clone();
        }
    }
    spec
}

/// What a specification says, whether an API server filled in the rest or not.
fn said(spec: &Value) -> Value {
    let or = |value: &Value, other: Value| if value.is_null() { other } else { value.clone() };
    let port = |port: &Value| {
        json!({"name": or(&port["name"], json!("")), "protocol": or(&port["protocol"], json!("TCP")), "port": port["port"],
            "appProtocol": port["appProtocol"], "targetPort": or(&port["targetPort"], port["port"].clone())})
    };
    let ports: Vec<Value> = spec["ports"].as_array().into_iter().flatten().map(port).collect();
    let affinity = or(&spec["sessionAffinity"], json!("None"));
    let config = if affinity == "ClientIP" {
        or(&spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], json!(10_800))
    } else {
        Value::Null
    };
    json!({"type": or(&spec["type"], json!("ClusterIP")), "ports": ports, "sessionAffinity": affinity, "timeout": config, "selector": spec["selector"]})
}
