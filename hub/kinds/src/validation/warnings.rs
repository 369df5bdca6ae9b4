//! What is taken of built-in kinds, but warned of, in kube-apiserver's words.
//!
//! In: an object, on a change also what stands. Out: sentences for the answer's `Warning` headers, added to a list; nothing is refused
//! here. A Pod's template is looked at only where it is new or changed.

mod paths;
mod ports;

use std::collections::HashSet;

use karmada_quantity::Quantity;
use serde_json::Value;

use super::pod::annotations;
use super::{addresses, entries, list, names, text};

type Warnings = Vec<String>;

/// Warnings that are looked for, where each entry may be warned of beside each other one. No answer holds more.
const MOST: usize = karmada_definitions::status::MOST_WARNINGS;

/// A Pod that is created.
pub(crate) fn new_pod(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    if old.is_none() {
        pod_name("the Pod's hostname", new, out);
        pod("", new, out);
    }
}

/// What has a Pod's template that is new or changed.
pub(crate) fn workload(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    template("/spec/template", "spec.template.", new, old, out);
}

/// The same, whose name is that of its Pods.
pub(crate) fn named_workload(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    names_pods(new, old, out);
    workload(new, old, out);
}

pub(crate) fn stateful_set(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    of_set(new, out);
    workload(new, old, out);
}

pub(crate) fn cron_job(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    names_pods(new, old, out);
    template("/spec/jobTemplate/spec/template", "spec.jobTemplate.spec.template.", new, old, out);
}

fn names_pods(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    if old.is_none() {
        pod_name("Pod names and hostnames", new, out);
    }
}

fn template(pointer: &str, place: &str, new: &Value, old: Option<&Value>, out: &mut Warnings) {
    fn of<'v>(object: &'v Value, pointer: &str) -> &'v Value {
        object.pointer(pointer).unwrap_or(&Value::Null)
    }
    if old.is_none_or(|old| of(old, pointer) != of(new, pointer)) {
        pod(place, of(new, pointer), out);
    }
}

pub(crate) fn node(new: &Value, out: &mut Warnings) {
    if !text(&new["spec"], "externalID").is_empty() {
        out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
}

pub(crate) fn secret(new: &Value, out: &mut Warnings) {
    if new["type"] == "kubernetes.io/tls" {
        key_pair(new, out);
    }
}

pub(crate) fn ingress(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    if old.is_none() && new["metadata"]["annotations"][CLASS].is_string() {
        out.push(format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

/// Owners that are there twice: the later ones are forgotten.
pub fn owners(new: &Value) -> Option<String> {
    let (mut seen, mut told, mut twice) = (HashSet::new(), HashSet::new(), Vec::new());
    for one in list(&new["metadata"], "ownerReferences") {
        let uid = text(one, "uid");
        if !seen.insert(one) && told.insert(uid) {
            twice.push(uid);
        }
    }
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(",")
        )
    })
}

fn pod_name(what: &str, new: &Value, out: &mut Warnings) {
    let name = text(&new["metadata"], "name");
    let problems = names::dns_label(name);
    if !name.is_empty() && !problems.is_empty() {
        out.push(format!(
            "metadata.name: this is used in {what}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// What is said of labels of nodes that have newer names.
fn old_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        _ => return None,
    })
}

/// A Pod, or its template at `place` (empty, or ending in a dot).
pub(crate) fn pod(place: &str, of: &Value, out: &mut Warnings) {
    let spec = &of["spec"];
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(words) = old_label(key) {
            out.push(format!("{place}spec.nodeSelector[{key}]: {words}"));
        }
    }
    node_terms(place, spec, out);
    spread(place, spec, out);
    annotations(place, of, out);
    volumes(place, spec, out);
    for (field, part, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = HashSet::new();
        for (index, one) in list(spec, field).iter().enumerate() {
            let value = text(one, part);
            if !seen.insert(value) {
                out.push(format!("{place}spec.{field}[{index}].{part}: duplicate {what} {value:?}"));
            }
        }
    }
    for (index, one) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(one, "name").is_empty() {
            out.push(format!("{place}spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    containers(place, spec, out);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        out.push(format!(
            "{place}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated \
             as 1"
        ));
    }
    affinity(place, spec, out);
    for (index, one) in list(&spec["dnsConfig"], "nameservers").iter().filter_map(Value::as_str).enumerate() {
        out.extend(addresses::warning(&format!("{place}spec.dnsConfig.nameservers[{index}]"), one));
    }
    for (index, one) in list(spec, "hostAliases").iter().enumerate() {
        out.extend(addresses::warning(&format!("{place}spec.hostAliases[{index}].ip"), text(one, "ip")));
    }
}

/// Choices of nodes by labels that have newer names, or by values that no label has.
fn node_terms(place: &str, spec: &Value, out: &mut Warnings) {
    let of = &spec["affinity"]["nodeAffinity"];
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let at = format!("{place}spec.affinity.nodeAffinity");
    for (index, term) in list(&of[required], "nodeSelectorTerms").iter().enumerate() {
        node_term(&format!("{at}.{required}.nodeSelectorTerms[{index}]"), term, |_, _, _| {}, out);
    }
    for (index, term) in list(of, preferred).iter().enumerate() {
        let at = format!("{at}.{preferred}[{index}].preference");
        node_term(&at, &term["preference"], values, out);
    }
}

/// One term; `values`: what is said of the values of a requirement, which are refused elsewhere where they are not only preferred.
fn node_term(at: &str, term: &Value, values: fn(&str, &Value, &mut Warnings), out: &mut Warnings) {
    for (index, one) in list(term, "matchExpressions").iter().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let key = text(one, "key");
        if let Some(words) = old_label(key) {
            out.push(format!("{at}.key: {key} is {words}"));
        }
        values(&at, one, out);
    }
}

/// Values that no label has.
fn values(at: &str, requirement: &Value, out: &mut Warnings) {
    for (index, value) in list(requirement, "values").iter().filter_map(Value::as_str).enumerate() {
        let problems = names::label_value(value).into_iter();
        out.extend(problems.map(|why| format!("{at}.values[{index}]: {value} is invalid, {why}")));
    }
}

/// Annotations that once did something.
fn annotations(place: &str, of: &Value, out: &mut Warnings) {
    for (key, words) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "non-functional in v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
    ] {
        if of["metadata"]["annotations"][key].is_string() {
            out.push(format!("{place}metadata.annotations[{key}]: {words}"));
        }
    }
    let mut seccomp = |key: &str, context: &Value| {
        if of["metadata"]["annotations"][key].is_string() && !context["seccompProfile"].is_object() {
            out.push(format!(
                "{place}metadata.annotations[{key}]: non-functional in v1.27+; use the \"seccompProfile\" field instead"
            ));
        }
    };
    seccomp(annotations::SECCOMP, &of["spec"]["securityContext"]);
    let containers =
        || ["initContainers", "containers"].into_iter().flat_map(|field| list(&of["spec"], field));
    for one in containers() {
        seccomp(&format!("{}{}", annotations::SECCOMP_OF, text(one, "name")), &one["securityContext"]);
    }
    if place.is_empty() {
        // Of a Pod itself said where its fields are filled.
        return;
    }
    for one in containers() {
        let key = format!("{}{}", annotations::ARMOR_OF, text(one, "name"));
        let is_set = of["metadata"]["annotations"][key.as_str()].is_string();
        if is_set && !one["securityContext"]["appArmorProfile"].is_object() {
            out.push(annotations::deprecated(place, &key));
        }
    }
}

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

fn spread(place: &str, spec: &Value, out: &mut Warnings) {
    for (index, one) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{place}spec.topologySpreadConstraints[{index}]");
        let key = text(one, "topologyKey");
        if let Some(words) = old_label(key) {
            out.push(format!("{at}.topologyKey: {key} is {words}"));
        }
        if !one["labelSelector"].is_object() {
            out.push(format!("{at}.labelSelector: {NO_SELECTOR}"));
        }
    }
}

fn affinity(place: &str, spec: &Value, out: &mut Warnings) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let of = &spec["affinity"][kind];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (index, term) in list(of, required).iter().enumerate() {
            if !term["labelSelector"].is_object() {
                out.push(format!(
                    "{place}spec.affinity.{kind}.{required}[{index}].labelSelector: {NO_SELECTOR}"
                ));
            }
        }
        for (index, term) in list(of, preferred).iter().enumerate() {
            if !term["podAffinityTerm"]["labelSelector"].is_object() {
                out.push(format!(
                    "{place}spec.affinity.{kind}.{preferred}[{index}].podAffinityTerm.labelSelector: {NO_SELECTOR}"
                ));
            }
        }
    }
}

/// Volumes of drivers that are gone, by the name that warnings use.
const GONE: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The volume after whose mention that of claims comes.
const CLAIMS_AFTER: &str = "glusterfs";

fn volumes(place: &str, spec: &Value, out: &mut Warnings) {
    let all = list(spec, "volumes");
    for (index, one) in all.iter().enumerate() {
        for (field, named, words) in GONE {
            if one[field].is_object() {
                out.push(format!("{place}spec.volumes[{index}].{named}: {words}"));
            }
            if field == CLAIMS_AFTER {
                let template = &one["ephemeral"]["volumeClaimTemplate"];
                let at = format!("{place}spec.volumes[{index}].ephemeral.volumeClaimTemplate.spec");
                claim_spec(&at, &template["spec"], out);
            }
        }
    }
    paths::warnings(all, out);
}

fn fraction(at: &str, resources: &Value, out: &mut Warnings) {
    for name in ["memory", "ephemeral-storage", "storage"] {
        let size = Quantity::from_value(&resources[name]);
        if size.is_some_and(|size| size.wrapped_milli() % 1000 != 0) {
            out.push(format!(
                "{at}[{name}]: fractional byte value {:?} is invalid, must be an integer",
                super::amount_shown(&resources[name])
            ));
        }
    }
}

fn containers(place: &str, spec: &Value, out: &mut Warnings) {
    fraction(&format!("{place}spec.overhead"), &spec["overhead"], out);
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    let all: Vec<(String, &Value)> = kinds
        .into_iter()
        .flat_map(|kind| {
            let one = move |(index, one)| (format!("{place}spec.{kind}[{index}]"), one);
            list(spec, kind).iter().enumerate().map(one)
        })
        .collect();
    for (at, one) in &all {
        for part in ["limits", "requests"] {
            let amounts = &one["resources"][part];
            for name in ["memory", "ephemeral-storage"] {
                let alone = serde_json::json!({name: amounts[name]});
                fraction(&format!("{at}.resources.{part}"), &alone, out);
            }
        }
        let mut seen = HashSet::new();
        for (index, variable) in list(one, "env").iter().enumerate() {
            let (name, value) = (text(variable, "name"), text(variable, "value"));
            let reference = format!("$({name})");
            let hides =
                variable["valueFrom"].is_object() || value == reference || !value.contains(&reference);
            if !seen.insert(name) && hides {
                out.push(format!(
                    "{at}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
                ));
            }
        }
    }
    ports::warnings(&all, out);
}

pub(crate) fn service(new: &Value, out: &mut Warnings) {
    let spec = &new["spec"];
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    if new["metadata"]["annotations"][HINTS].is_string() {
        out.push(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let headless = text(spec, "clusterIP") == "None";
    if !headless && !text(spec, "clusterIP").is_empty() {
        for (index, ip) in list(spec, "clusterIPs").iter().filter_map(Value::as_str).enumerate() {
            out.extend(addresses::warning(&format!("spec.clusterIPs[{index}]"), ip));
        }
    }
    if headless && spec["type"] == "ClusterIP" {
        if !text(spec, "loadBalancerIP").is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !list(spec, "externalIPs").is_empty() {
            out.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec, "sessionAffinity") != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    for (index, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        out.extend(addresses::warning(&format!("spec.externalIPs[{index}]"), ip));
    }
    let external = spec["type"] == "ExternalName";
    let unreached = external || (headless && spec["type"] == "ClusterIP");
    if !unreached && !list(spec, "externalIPs").is_empty() {
        let warning = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        out.push(warning.to_owned());
    }
    if !text(spec, "loadBalancerIP").is_empty() {
        out.extend(addresses::warning("spec.loadBalancerIP", text(spec, "loadBalancerIP")));
    }
    for (index, range) in list(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate()
    {
        out.extend(addresses::range_warnings(&format!("spec.loadBalancerSourceRanges[{index}]"), range));
    }
    if external && !list(spec, "externalIPs").is_empty() {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external && !text(spec, "externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        let warning = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        out.push(warning.to_owned());
    }
}

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) fn volume(new: &Value, out: &mut Warnings) {
    let (spec, annotations) = (&new["spec"], &new["metadata"]["annotations"]);
    for (key, words) in [
        (BETA_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations[key].is_string() {
            out.push(format!("metadata.annotations[{key}]: {words}"));
        }
    }
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        out.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    for wanted in ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"] {
        let gone = GONE.iter().find(|(field, ..)| *field == wanted && spec[*field].is_object());
        if let Some((_, named, words)) = gone {
            out.push(format!("spec.{named}: {words}"));
        }
    }
}

pub(crate) fn claim(new: &Value, out: &mut Warnings) {
    if new["metadata"]["annotations"][BETA_CLASS].is_string() {
        out.push(format!(
            "metadata.annotations[{BETA_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    claim_spec("spec", &new["spec"], out);
}

fn claim_spec(at: &str, spec: &Value, out: &mut Warnings) {
    for part in ["requests", "limits"] {
        let amounts = serde_json::json!({"storage": spec["resources"][part]["storage"]});
        fraction(&format!("{at}.resources.{part}"), &amounts, out);
    }
}

fn of_set(new: &Value, out: &mut Warnings) {
    for (index, one) in list(&new["spec"], "volumeClaimTemplates").iter().enumerate() {
        claim_spec(&format!("spec.volumeClaimTemplates[{index}]"), &one["spec"], out);
    }
    if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        out.push(format!("spec.revisionHistoryLimit: {why}"));
    }
}

/// Keys that no TLS library reads.
fn key_pair(new: &Value, out: &mut Warnings) {
    use base64::Engine as _;
    let decode = |key: &str| {
        let text = new["data"][key].as_str().unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        if !decode(key).contains("-----BEGIN ") {
            out.push(format!("tls: failed to find any PEM data in {what} input"));
            return;
        }
    }
}

pub(crate) fn policy(new: &Value, out: &mut Warnings) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in list(&new["spec"], direction).iter().enumerate() {
            for (peer, one) in list(rule, peers).iter().enumerate() {
                let at = format!("spec.{direction}[{index}].{peers}[{peer}].ipBlock");
                let block = &one["ipBlock"];
                out.extend(addresses::range_warnings(&format!("{at}.cidr"), text(block, "cidr")));
                for (index, range) in list(block, "except").iter().filter_map(Value::as_str).enumerate() {
                    out.extend(addresses::range_warnings(&format!("{at}.except[{index}]"), range));
                }
            }
        }
    }
}

pub(crate) fn endpoints(new: &Value, out: &mut Warnings) {
    for (index, subset) in list(new, "subsets").iter().enumerate() {
        for field in ["addresses", "notReadyAddresses"] {
            for (place, one) in list(subset, field).iter().enumerate() {
                let at = format!("subsets[{index}].{field}[{place}].ip");
                out.extend(addresses::warning(&at, text(one, "ip")));
            }
        }
    }
}

pub(crate) fn slice(new: &Value, out: &mut Warnings) {
    if new["addressType"] == "FQDN" {
        out.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        return;
    }
    for (index, endpoint) in list(new, "endpoints").iter().enumerate() {
        for (place, address) in list(endpoint, "addresses").iter().filter_map(Value::as_str).enumerate() {
            out.extend(addresses::warning(&format!("endpoints[{index}].addresses[{place}]"), address));
        }
    }
}

/// A driver is handed tokens, and nobody said that they are secrets.
pub(crate) fn token_in_clear(new: &Value, old: Option<&Value>, out: &mut Warnings) {
    let spec = &new["spec"];
    let asked = !list(spec, "tokenRequests").is_empty()
        && old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
    if asked && spec["serviceAccountTokenInSecrets"].is_null() {
        let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                    possible logging of tokens in volume attributes";
        out.push(text.to_owned());
    }
}

/// Configurations that kube-apiserver reads from its own files have such names.
pub(crate) fn reserved_name(new: &Value, out: &mut Warnings) {
    if text(&new["metadata"], "name").ends_with(".static.k8s.io") {
        let warning = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
                       configurations and cannot be managed via the API";
        out.push(warning.to_owned());
    }
}
