//! LimitRanges: what Pods and claims of a namespace may ask for, and what those that say nothing get (kube-apiserver's
//! LimitRanger).
//!
//! In: a new Pod or claim (or one that grows). Out: a Pod with the defaults filled in, or a 403 with everything that is out of
//! bounds. Namespaces without ranges pay one look at a map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_quantity::Quantity;
use karmada_resource_quota::{self as quota, Amounts};
use karmada_schema::object::meta;
use serde_json::{Value, json};

use super::Admission;
use crate::cache::{Cache, ResourceCache};
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The gate.
pub struct LimitRanger {
    ranges: Arc<ResourceCache>,
}

impl LimitRanger {
    /// Over the ranges in `cache`.
    pub fn new(cache: &Cache) -> Self {
        LimitRanger { ranges: cache.of_resource(&StorageId("core/limitranges".into())) }
    }
}

impl Admission for LimitRanger {
    fn admit(&self, _: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if judged(request) == Some(Judged::Pod) {
            self.limits(request).iter().for_each(|limits| fill_in(request.object, limits));
        }
        Ok(())
    }

    fn judge(&self, _: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let Some(judged) = judged(request) else { return Ok(()) };
        for limits in self.limits(request) {
            let errors = each_once(match judged {
                Judged::Pod => pod(request.object, &limits),
                Judged::Claim => claim(request.object, &limits),
            });
            if !errors.is_empty() {
                let why = match errors.len() {
                    1 => errors.join(""),
                    _ => format!("[{}]", errors.join(", ")),
                };
                return Err(Status::forbidden(request.definition, &request.key.name, &why));
            }
        }
        Ok(())
    }
}

impl LimitRanger {
    /// What each range of the namespace says.
    fn limits(&self, request: &AdmissionRequest<'_>) -> Vec<Vec<Value>> {
        if self.ranges.is_empty() {
            return Vec::new();
        }
        let of = |range: &Value| range["spec"]["limits"].as_array().cloned().unwrap_or_default();
        let ranges = self.ranges.snapshot(&request.key.namespace).items;
        ranges.iter().map(|range| of(&range.value())).collect()
    }
}

/// What a write is judged as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Pod,
    Claim,
}

fn judged(request: &AdmissionRequest<'_>) -> Option<Judged> {
    let definition = request.definition;
    if request.old.is_some_and(meta::deleting) {
        return None;
    }
    match (definition.row.known, request.operation, request.subresource) {
        // A Pod grows by a way of its own alone.
        (BuiltinKind::Pod, Operation::Create, "") | (BuiltinKind::Pod, Operation::Update, "resize") => {
            Some(Judged::Pod)
        }
        (BuiltinKind::VolumeClaim, Operation::Create | Operation::Update, "") => Some(Judged::Claim),
        _ => None,
    }
}

/// What is wrong with several containers is said once.
fn each_once(errors: Vec<String>) -> Vec<String> {
    let mut said = BTreeSet::new();
    errors.into_iter().filter(|error| said.insert(error.clone())).collect()
}

fn amounts(value: &Value) -> Amounts {
    quota::amounts(value)
}

/// Gives containers what they do not ask for. Pure.
fn fill_in(pod: &mut Value, limits: &[Value]) {
    let mut told = Vec::new();
    for limit in limits.iter().filter(|limit| limit["type"] == "Container") {
        for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
            let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (field, defaults, what) in [
                    ("limits", &limit["default"], "limit"),
                    ("requests", &limit["defaultRequest"], "request"),
                ] {
                    let set = missing(&mut container["resources"], field, defaults);
                    if !set.is_empty() {
                        told.push((what, format!("{} {what} for {word} {name}", set.join(", "))));
                    }
                }
            }
        }
    }
    if told.is_empty() {
        return;
    }
    // Requests are told before limits.
    told.sort_by_key(|(what, _)| *what != "request");
    let texts: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
    let text = format!("LimitRanger plugin set: {}", texts.join("; "));
    let metadata = meta::of(pod);
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    annotations[ANNOTATION] = json!(text);
}

fn missing(resources: &mut Value, field: &str, defaults: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if resources[field].get(name).is_none() {
            resources[field][name.as_str()] = amount.clone();
            set.push(name.clone());
        }
    }
    set.sort();
    set
}

/// What is out of bounds in a Pod. Pure.
fn pod(pod: &Value, limits: &[Value]) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in limits {
        match limit["type"].as_str() {
            Some("Container") => {
                let lists = ["containers", "initContainers"].map(|field| pod["spec"][field].as_array());
                for container in lists.into_iter().flatten().flatten() {
                    let resources = &container["resources"];
                    let (requests, most) = (amounts(&resources["requests"]), amounts(&resources["limits"]));
                    bounds(limit, "Container", &requests, &most, &mut errors);
                }
            }
            Some("Pod") => {
                let whole = |name: &str| matches!(name, "cpu" | "memory");
                let of = |side: &str| quota::pod::resources(&pod["spec"], side, whole);
                bounds(limit, "Pod", &of("requests"), &of("limits"), &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// What is out of bounds in a claim. Pure.
fn claim(claim: &Value, limits: &[Value]) -> Vec<String> {
    let asked = amounts(&claim["spec"]["resources"]["requests"]);
    let mut errors = Vec::new();
    for limit in limits.iter().filter(|limit| limit["type"] == "PersistentVolumeClaim") {
        for (name, least) in amounts(&limit["min"]) {
            errors.extend(at_least("PersistentVolumeClaim", &name, least, &asked));
        }
        for (name, most) in amounts(&limit["max"]) {
            match asked.get(&name) {
                Some(asked) if *asked > most => errors.push(format!(
                    "maximum {name} usage per PersistentVolumeClaim is {most}, but request is {asked}"
                )),
                None => errors.push(format!(
                    "maximum {name} usage per PersistentVolumeClaim is {most}.  No request is specified"
                )),
                Some(_) => {}
            }
        }
    }
    errors
}

fn at_least(kind: &str, name: &str, least: Quantity, requests: &Amounts) -> Option<String> {
    match requests.get(name) {
        None => Some(format!("minimum {name} usage per {kind} is {least}.  No request is specified")),
        Some(asked) if *asked < least => {
            Some(format!("minimum {name} usage per {kind} is {least}, but request is {asked}"))
        }
        Some(_) => None,
    }
}

fn bounds(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    for (name, least) in amounts(&limit["min"]) {
        if let Some(why) = at_least(kind, &name, least, requests) {
            errors.push(why);
        } else if let Some(most) = limits.get(&name).filter(|most| **most < least) {
            errors.push(format!("minimum {name} usage per {kind} is {least}, but limit is {most}"));
        }
    }
    for (name, most) in amounts(&limit["max"]) {
        match (limits.get(&name), requests.get(&name)) {
            (None, _) => {
                errors.push(format!("maximum {name} usage per {kind} is {most}.  No limit is specified"));
            }
            (Some(limit), _) if *limit > most => {
                errors.push(format!("maximum {name} usage per {kind} is {most}, but limit is {limit}"));
            }
            (_, Some(asked)) if *asked > most => {
                errors.push(format!("maximum {name} usage per {kind} is {most}, but request is {asked}"));
            }
            _ => {}
        }
    }
    let ratios: BTreeMap<String, Quantity> = amounts(&limit["maxLimitRequestRatio"]);
    for (name, ratio) in ratios {
        let (asked, most) = (requests.get(&name), limits.get(&name));
        let (Some(asked), Some(most)) = (asked.filter(|a| !a.is_zero()), most.filter(|m| !m.is_zero()))
        else {
            let why = "but no request is specified or request is 0";
            errors.push(format!("{name} max limit to request ratio per {kind} is {ratio}, {why}"));
            continue;
        };
        #[allow(
            clippy::cast_precision_loss,
            reason = "a ratio of amounts; kube-apiserver compares floats too"
        )]
        let given = most.milli() as f64 / asked.milli() as f64;
        #[allow(clippy::cast_precision_loss, reason = "as above")]
        if given > ratio.milli() as f64 / 1000.0 {
            errors.push(format!(
                "{name} max limit to request ratio per {kind} is {ratio}, but provided ratio is {given:.6}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_gets_the_defaults() {
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "1"}}}]}});
        let limits = [
            json!({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}}),
        ];
        fill_in(&mut pod, &limits);
        let containers = &pod["spec"]["containers"];
        assert_eq!(
            containers[0]["resources"],
            json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}})
        );
        assert_eq!(containers[1]["resources"]["limits"], json!({"cpu": "1"}));
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory request for container b; cpu limit for container a"
        );
        let once = pod.clone();
        fill_in(&mut pod, &limits);
        assert_eq!(pod, once);
    }

    #[test]
    fn what_is_out_of_bounds_is_told() {
        let pod_of = |requests: Value, limits: Value| json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}});
        let limit = |kind: &str| [json!({"type": kind, "max": {"cpu": "1"}, "min": {"cpu": "100m"}})];
        for (object, kind, wanted) in [
            (pod_of(json!({"cpu": "200m"}), json!({"cpu": "1"})), "Container", ""),
            (
                pod_of(json!({"cpu": "200m"}), json!({"cpu": "2"})),
                "Container",
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                pod_of(json!({"cpu": "50m"}), json!({"cpu": "1"})),
                "Pod",
                "minimum cpu usage per Pod is 100m, but request is 50m",
            ),
            (
                pod_of(json!({"cpu": "200m"}), json!({})),
                "Container",
                "maximum cpu usage per Container is 1.  No limit is specified",
            ),
        ] {
            assert_eq!(pod(&object, &limit(kind)).join("|"), wanted);
        }
        let asks = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        let limits = [json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})];
        let told = claim(&asks, &limits).join("");
        assert_eq!(told, "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi");
    }
}
