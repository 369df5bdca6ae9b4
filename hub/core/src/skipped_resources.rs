//! What is never propagated, whatever policies say. In: an object or its kind, and the namespaces that who runs the hub excludes. Out:
//! whether it stays on the hub. Pure.

use std::sync::LazyLock;

use karmada_api::strings::labels;
use karmada_api::{names, object};
use regex::Regex;
use serde_json::Value;

/// Groups that are the control plane's own, or that make no sense elsewhere.
const GROUPS: [&str; 12] = [
    "cluster.karmada.io",
    "policy.karmada.io",
    "work.karmada.io",
    "config.karmada.io",
    "networking.karmada.io",
    "autoscaling.karmada.io",
    "remedy.karmada.io",
    "apps.karmada.io",
    "search.karmada.io",
    "edge.karmada.io",
    "events.k8s.io",
    "coordination.k8s.io",
];

/// The regular expression of namespaces that are skipped where nothing is configured.
pub const DEFAULT_NAMESPACES: &str = "kube-.*";

/// Whether this is `default/kubernetes`, by which clients find the hub itself: every member has its own.
fn finds_the_hub(object: &Value) -> bool {
    object::namespace(object) == "default" && object::name(object) == "kubernetes"
}

/// Where the API server notes that a specification of flow control follows its own default.
const FLOW_CONTROL: &str = "apf.kubernetes.io/autoupdate-spec";
/// The label of an APIService that the API server keeps for a group it serves.
const SERVED_HERE: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The label of roles, bindings and whatever else a control plane makes at its start.
const FROM_THE_START: &str = "kubernetes.io/bootstrapping";

/// Whether the hub made this for itself: every API server makes its own, with its own CA, keys and addresses, and that
/// of the hub would take the member's away. A selector without a name would else catch them. Objects of a person bear
/// none of these marks.
pub fn is_the_hubs_own(object: &Value) -> bool {
    if object::label(object, FROM_THE_START).is_some()
        || object::label(object, labels::BOOTSTRAPPING).is_some()
    {
        return true;
    }
    let (group, _) = object::group_version(object::api_version(object));
    let name = object::name(object);
    match (group, object::kind(object)) {
        // What every namespace is given.
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "ServiceAccount") => name == "default",
        // Who holds it may join this hub.
        ("", "Secret") => {
            object::get(object, &["type"]) == Some(&Value::from("bootstrap.kubernetes.io/token"))
        }
        ("", "Service" | "Endpoints") | ("discovery.k8s.io", "EndpointSlice") => finds_the_hub(object),
        ("rbac.authorization.k8s.io", _) => name.starts_with("system:"),
        ("flowcontrol.apiserver.k8s.io", _) => object::annotation(object, FLOW_CONTROL).is_some(),
        ("apiregistration.k8s.io", "APIService") => object::label(object, SERVED_HERE).is_some(),
        // Names that begin so are the API server's alone.
        ("scheduling.k8s.io", "PriorityClass") => name.starts_with("system-"),
        // Which addresses this API server gives to its Services.
        ("networking.k8s.io", "IPAddress") => true,
        ("networking.k8s.io", "ServiceCIDR") => name == "kubernetes",
        _ => false,
    }
}

/// Which namespaces and kinds are left alone.
#[derive(Clone, Debug)]
pub struct SkipRules {
    namespaces: Vec<Regex>,
}

/// Made once: reading a regular expression takes longer than most decisions that ask for this.
static DEFAULT: LazyLock<SkipRules> =
    LazyLock::new(|| SkipRules::new([DEFAULT_NAMESPACES]).expect("the default is a regular expression"));

impl Default for SkipRules {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// Whether no object of a kind is propagated.
pub fn skips_kind(api_version: &str, kind: &str) -> bool {
    let (group, _) = object::group_version(api_version);
    GROUPS.contains(&group) || (group.is_empty() && kind == "Event")
}

impl SkipRules {
    /// Rules with these regular expressions of namespaces; each must match a whole name.
    ///
    /// # Errors
    /// One is no regular expression.
    pub fn new<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Result<Self, regex::Error> {
        let anchored = namespaces.into_iter().map(|text| Regex::new(&format!("^(?:{text})$")));
        Ok(Self { namespaces: anchored.collect::<Result<_, _>>()? })
    }

    /// Whether nothing in `namespace` is propagated.
    pub fn skips_namespace(&self, namespace: &str) -> bool {
        !namespace.is_empty()
            && (names::is_reserved_namespace(namespace)
                || self.namespaces.iter().any(|regex| regex.is_match(namespace)))
    }

    /// Whether an object is never propagated.
    pub fn skips(&self, object: &Value) -> bool {
        skips_kind(object::api_version(object), object::kind(object))
            || self.skips_namespace(object::namespace(object))
            || (object::kind(object) == "Namespace" && self.skips_namespace(object::name(object)))
            || is_the_hubs_own(object)
    }
}
