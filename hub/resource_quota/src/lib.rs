//! ResourceQuotas: what an object uses of them, and what they refuse (`k8s.io/kubernetes/pkg/quota/v1`).
//!
//! In: a quota's spec, objects as JSON. Out: amounts by resource name. Pure; where objects come from is the caller's business.

pub mod pod;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use karmada_quantity::Quantity;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Core kinds that have a resource of their own name.
const NAMED: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What follows a device class's name in the name of the resource that claims of its devices count for.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// What a claim for all devices of a class counts for: as many as one claim can be given.
const ALL_DEVICES: i64 = 32;

/// Where objects are found.
pub trait Objects {
    /// How many there are of a kind.
    fn count(&self, group: &str, plural: &str) -> usize;
    /// All of a kind.
    fn all(&self, group: &str, plural: &str) -> Vec<Value>;
}

/// What a quota limits.
pub fn hard(quota: &Value) -> Amounts {
    amounts(&quota["spec"]["hard"])
}

/// Reads a map of amounts; what is no quantity is left out.
pub fn amounts(list: &Value) -> Amounts {
    let all = list.as_object().into_iter().flatten();
    all.filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?))).collect()
}

fn quantity(value: &Value) -> Option<Quantity> {
    serde_json::from_value(value.clone()).ok()
}

/// Group and plural of the objects that a resource name counts; `None` for a name that means nothing here.
pub fn counts(name: &str) -> Option<(&str, &str)> {
    if let Some(counted) = name.strip_prefix("count/") {
        return Some(counted.split_once('.').map_or(("", counted), |(plural, group)| (group, plural)));
    }
    if name.contains(".storageclass.storage.k8s.io/") || name == "requests.storage" {
        return Some(("", "persistentvolumeclaims"));
    }
    if name.ends_with(OF_DEVICE_CLASS) {
        return Some(("resource.k8s.io", "resourceclaims"));
    }
    if name.starts_with("services.") {
        return Some(("", "services"));
    }
    if let Some(known) = NAMED.iter().find(|known| **known == name) {
        return Some(("", known));
    }
    let of_pods = matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || ["requests.", "limits.", "hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    of_pods.then_some(("", "pods"))
}

/// Whether one look at the number of objects says it all.
fn only_counts(name: &str) -> bool {
    name.starts_with("count/") || NAMED.contains(&name) && name != "pods"
}

/// Whether the quota is about the object at all: its scopes.
pub fn covers(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = spec["scopes"].as_array().into_iter().flatten();
    let mut plain = plain.filter_map(Value::as_str);
    let selected = spec["scopeSelector"]["matchExpressions"].as_array();
    let mut selected = selected.into_iter().flatten();
    let within = |scope: &str, operator: &str, values: &Value| match (group, plural) {
        ("", "pods") => in_scope(scope, operator, values, object),
        ("", "persistentvolumeclaims") => {
            scope == "VolumeAttributesClass" && of_attributes_class(operator, values, object)
        }
        _ => false,
    };
    plain.all(|scope| within(scope, "Exists", &Value::Null))
        && selected.all(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            within(text("scopeName"), text("operator"), &one["values"])
        })
}

/// Whether a claim is of such a class of volume attributes: the one that it asks for, has, or is being given.
fn of_attributes_class(operator: &str, values: &Value, claim: &Value) -> bool {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let all = [
        &spec["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let names: Vec<&str> =
        all.into_iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).collect();
    let among = |name: &&str| values.as_array().is_some_and(|values| values.iter().any(|one| one == *name));
    match operator {
        "In" => names.iter().any(among),
        "NotIn" => names.is_empty() || names.iter().any(|name| !among(name)),
        "DoesNotExist" => names.is_empty(),
        _ => !names.is_empty(),
    }
}

fn in_scope(scope: &str, operator: &str, values: &Value, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let ends = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => pod::is_best_effort(spec),
        "NotBestEffort" => !pod::is_best_effort(spec),
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().unwrap_or_default();
            let named = values.as_array().is_some_and(|values| values.iter().any(|one| one == class));
            match operator {
                "In" => named,
                "NotIn" => !named,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(&spec["affinity"]),
        _ => false,
    }
}

fn crosses_namespaces(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.get("topologyKey").is_some()
                && (fields.get("namespaces").is_some_and(|n| n.as_array().is_some_and(|n| !n.is_empty()))
                    || fields.get("namespaceSelector").is_some_and(Value::is_object))
                || fields.values().any(crosses_namespaces)
        }
        Value::Array(items) => items.iter().any(crosses_namespaces),
        _ => false,
    }
}

/// What one object uses, by every name that it counts for.
pub fn usage(group: &str, plural: &str, object: &Value) -> Amounts {
    let one = Quantity::from_units(1);
    let suffix = if group.is_empty() { String::new() } else { format!(".{group}") };
    let mut used = Amounts::from([(format!("count/{plural}{suffix}"), one)]);
    if (group, plural) == ("resource.k8s.io", "resourceclaims") {
        devices(&object["spec"], &mut used);
    }
    if !group.is_empty() || !NAMED.contains(&plural) {
        return used;
    }
    match plural {
        "pods" => {
            if !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                used.insert("pods".to_owned(), one);
                pod::used(&object["spec"], &mut used);
            }
            return used;
        }
        "services" => service(&object["spec"], &mut used),
        "persistentvolumeclaims" => claim(object, &mut used),
        _ => {}
    }
    used.insert(plural.to_owned(), one);
    used
}

fn add(into: &mut Amounts, name: &str, amount: Quantity) {
    let sum = into.entry(name.to_owned()).or_default();
    *sum = sum.plus(amount);
}

fn service(spec: &Value, used: &mut Amounts) {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = i64::try_from(ports.count()).unwrap_or(0);
    let no_node_ports = spec["allocateLoadBalancerNodePorts"] == false;
    match spec["type"].as_str() {
        Some("NodePort") => add(used, "services.nodeports", Quantity::from_units(ports)),
        Some("LoadBalancer") => {
            add(used, "services.loadbalancers", Quantity::from_units(1));
            if !no_node_ports {
                add(used, "services.nodeports", Quantity::from_units(ports));
            }
        }
        _ => {}
    }
}

fn claim(object: &Value, used: &mut Amounts) {
    let spec = &object["spec"];
    let asked = quantity(&spec["resources"]["requests"]["storage"]);
    let annotated = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = annotated.as_str().or(spec["storageClassName"].as_str()).filter(|class| !class.is_empty());
    if let Some(class) = class {
        let name = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
        add(used, &name("persistentvolumeclaims"), Quantity::from_units(1));
        if let Some(asked) = asked {
            add(used, &name("requests.storage"), asked);
        }
    }
    if let Some(asked) = asked {
        add(used, "requests.storage", asked);
    }
}

/// The devices that a claim asks for, by class; of what may be given instead of each other, the most of each class.
fn devices(spec: &Value, used: &mut Amounts) {
    for request in spec["devices"]["requests"].as_array().into_iter().flatten() {
        // Up to v1beta1, what is asked for stands in the request itself.
        let exactly = [request.get("exactly").unwrap_or(request).clone()];
        let instead = request["firstAvailable"].as_array().filter(|instead| !instead.is_empty());
        let mut most = Amounts::new();
        for one in instead.map_or(&exactly[..], Vec::as_slice) {
            let Some(class) = one["deviceClassName"].as_str() else { continue };
            let count = match one["allocationMode"].as_str() {
                Some("ExactCount") => one["count"].as_i64().unwrap_or_default(),
                Some("All") => ALL_DEVICES,
                _ => 0,
            };
            let seen = most.entry(format!("{class}{OF_DEVICE_CLASS}")).or_default();
            *seen = (*seen).max(Quantity::from_units(count));
        }
        add_all(used, &most);
    }
}

/// A kind of objects that a quota counts, and the resources that it counts them for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group, empty for the core group.
    pub group: String,
    /// Plural name.
    pub plural: String,
    names: Vec<String>,
    /// Whether their number says it all.
    by_number: bool,
}

/// The kinds that a quota counts, each once, in order.
pub fn kinds(quota: &Value) -> Vec<Kind> {
    let scoped = !quota["spec"]["scopes"].is_null() || !quota["spec"]["scopeSelector"].is_null();
    let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for name in hard(quota).into_keys() {
        if let Some((group, plural)) = counts(&name) {
            let key = (group.to_owned(), plural.to_owned());
            all.entry(key).or_default().push(name);
        }
    }
    let kind = |((group, plural), names): ((String, String), Vec<String>)| {
        let by_number = !scoped && names.iter().all(|name| only_counts(name));
        Kind { group, plural, names, by_number }
    };
    all.into_iter().map(kind).collect()
}

impl Kind {
    /// What one object uses of the quota. It is read only where its number does not say it all.
    pub fn share(&self, quota: &Value, object: impl FnOnce() -> Value) -> Amounts {
        if self.by_number {
            return self.names.iter().map(|name| (name.clone(), Quantity::from_units(1))).collect();
        }
        let object = object();
        if !covers(quota, &self.group, &self.plural, &object) {
            return Amounts::new();
        }
        let mut used = usage(&self.group, &self.plural, &object);
        used.retain(|name, _| self.names.contains(name));
        used
    }
}

/// Adds amounts to a sum.
pub fn add_all(sum: &mut Amounts, more: &Amounts) {
    more.iter().for_each(|(name, amount)| add(sum, name, *amount));
}

/// Takes amounts from a sum.
pub fn take_all(sum: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        let rest = sum.entry(name.clone()).or_default();
        *rest = rest.minus(*amount);
    }
}

/// What is used of each of the quota's resources.
pub fn used(quota: &Value, objects: &dyn Objects) -> Amounts {
    let mut used: Amounts = hard(quota).into_keys().map(|name| (name, Quantity::default())).collect();
    for kind in kinds(quota) {
        if kind.by_number {
            let count = i64::try_from(objects.count(&kind.group, &kind.plural)).unwrap_or(i64::MAX);
            kind.names.iter().for_each(|name| add(&mut used, name, Quantity::from_units(count)));
            continue;
        }
        for object in objects.all(&kind.group, &kind.plural) {
            add_all(&mut used, &kind.share(quota, || object));
        }
    }
    used
}

/// What each container of a Pod must say where a quota limits it, and does not: `limits.cpu for: a,b; requests.cpu for: a`. Where
/// anything is said of the whole, containers may be silent.
pub fn unsaid(quota: &Value, pod: &Value) -> Option<String> {
    if pod::says_of_the_whole(&pod["spec"]) {
        return None;
    }
    let mut out = Vec::new();
    for name in hard(quota).into_keys() {
        let (kind, resource) = match name.as_str() {
            "cpu" | "memory" => ("requests", name.as_str()),
            other => match other.split_once('.') {
                Some((kind @ ("requests" | "limits"), resource @ ("cpu" | "memory"))) => (kind, resource),
                _ => continue,
            },
        };
        let lists = ["containers", "initContainers"].map(|field| pod["spec"][field].as_array());
        let all = lists.into_iter().flatten().flatten();
        let silent = all.filter(|container| container["resources"][kind].get(resource).is_none());
        let names: BTreeSet<&str> = silent.filter_map(|container| container["name"].as_str()).collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.into_iter().collect();
            out.push(format!("{name} for: {}", names.join(",")));
        }
    }
    (!out.is_empty()).then(|| out.join("; "))
}

/// What of `asked` does not fit beside `used`: the sentence of the refusal.
pub fn exceeded(name: &str, hard: &Amounts, used: &Amounts, asked: &Amounts) -> Option<String> {
    let over = |resource: &&String| {
        let (Some(limit), Some(more)) = (hard.get(*resource), asked.get(*resource)) else { return false };
        let used = used.get(*resource).copied().unwrap_or_default();
        *more > Quantity::default() && used.plus(*more) > *limit
    };
    let over: Vec<&String> = asked.keys().filter(over).collect();
    if over.is_empty() {
        return None;
    }
    let list = |of: &Amounts| {
        let one =
            |resource: &&String| format!("{resource}={}", of.get(*resource).copied().unwrap_or_default());
        over.iter().map(one).collect::<Vec<_>>().join(",")
    };
    Some(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        list(asked),
        list(used),
        list(hard)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_count_kinds() {
        for (name, wanted) in [
            ("pods", Some(("", "pods"))),
            ("limits.cpu", Some(("", "pods"))),
            ("requests.nvidia.com/gpu", Some(("", "pods"))),
            ("requests.storage", Some(("", "persistentvolumeclaims"))),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(("", "persistentvolumeclaims"))),
            ("services.nodeports", Some(("", "services"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            ("count/configmaps", Some(("", "configmaps"))),
            ("gold.deviceclass.resource.k8s.io/devices", Some(("resource.k8s.io", "resourceclaims"))),
            ("bananas", None),
        ] {
            assert_eq!(counts(name), wanted, "{name}");
        }
    }

    #[test]
    fn what_a_pod_uses() {
        let pod = json!({"spec": {
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}}],
            "containers": [{"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1"}}}],
        }});
        let used = usage("", "pods", &pod);
        let shown: Vec<String> = used.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(shown, ["count/pods=1", "cpu=2", "limits.cpu=1", "pods=1", "requests.cpu=2"]);
        let done = json!({"status": {"phase": "Failed"}});
        assert_eq!(usage("", "pods", &done).into_keys().collect::<Vec<_>>(), ["count/pods"]);
        let quota = |scope: &str| json!({"spec": {"hard": {"pods": "1"}, "scopes": [scope]}});
        for (scope, wanted) in
            [("NotTerminating", true), ("Terminating", false), ("NotBestEffort", true), ("BestEffort", false)]
        {
            assert_eq!(covers(&quota(scope), "", "pods", &pod), wanted, "{scope}");
        }
        assert!(!covers(&quota("NotTerminating"), "", "secrets", &pod));
    }

    #[test]
    fn claims_are_counted_by_their_class_of_attributes() {
        let quota = |operator: &str| {
            json!({"spec": {"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {
            "matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": operator, "values": ["gold"]}]}}})
        };
        let asked = |class: &str| json!({"spec": {"volumeAttributesClassName": class}});
        let given = json!({"spec": {"volumeAttributesClassName": "tin"}, "status": {"currentVolumeAttributesClassName": "gold"}});
        for (operator, claim, wanted) in [
            ("In", asked("gold"), true),
            ("In", asked("tin"), false),
            ("In", given.clone(), true),
            ("NotIn", asked("gold"), false),
            ("NotIn", given, true),
            ("NotIn", json!({}), true),
            ("Exists", asked("tin"), true),
            ("Exists", json!({}), false),
            ("DoesNotExist", json!({}), true),
        ] {
            assert_eq!(
                covers(&quota(operator), "", "persistentvolumeclaims", &claim),
                wanted,
                "{operator} {claim}"
            );
            assert!(!covers(&quota(operator), "", "services", &claim));
        }
    }

    #[test]
    fn what_a_claim_of_devices_uses() {
        let of = |class: &str, mode: &str, count: i64| json!({"deviceClassName": class, "allocationMode": mode, "count": count});
        let requests = json!([
            {"name": "a", "exactly": of("gold", "ExactCount", 2)},
            {"name": "b", "firstAvailable": [of("gold", "ExactCount", 3), of("gold", "ExactCount", 1), of("tin", "All", 0)]},
        ]);
        let used = |requests: Value| -> Vec<String> {
            let claim = json!({"spec": {"devices": {"requests": requests}}});
            let used = usage("resource.k8s.io", "resourceclaims", &claim);
            used.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
        };
        let wanted = [
            "count/resourceclaims.resource.k8s.io=1",
            "gold.deviceclass.resource.k8s.io/devices=5",
            "tin.deviceclass.resource.k8s.io/devices=32",
        ];
        assert_eq!(used(requests), wanted);
        let mut older = of("gold", "ExactCount", 2);
        older["name"] = json!("a");
        assert_eq!(used(json!([older])), [wanted[0], "gold.deviceclass.resource.k8s.io/devices=2"]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let of = |pairs: &[(&str, i64)]| -> Amounts {
            pairs.iter().map(|(name, n)| ((*name).to_owned(), Quantity::from_units(*n))).collect()
        };
        let (hard, used) = (of(&[("pods", 2), ("cpu", 9)]), of(&[("pods", 2), ("cpu", 1)]));
        let told = exceeded("q", &hard, &used, &of(&[("pods", 1), ("cpu", 1), ("count/pods", 1)]));
        assert_eq!(told.unwrap(), "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
        assert_eq!(exceeded("q", &hard, &used, &of(&[("cpu", 8)])), None);
        let quota = json!({"spec": {"hard": {"limits.cpu": "1", "pods": "3"}}});
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        assert_eq!(unsaid(&quota, &pod).unwrap(), "limits.cpu for: a,b");
    }
}
