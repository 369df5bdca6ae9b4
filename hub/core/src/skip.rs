//! What is never propagated, whatever policies say (behaviour 2, features: skipped-propagating).

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
    object::namespace(object) == "default"
        && object::name(object) == "kubernetes"
        && matches!(object::kind(object), "Service" | "Endpoints" | "EndpointSlice")
}

/// Which namespaces and kinds are left alone.
#[derive(Clone, Debug)]
pub struct SkipRules {
    namespaces: Vec<Regex>,
}

impl Default for SkipRules {
    fn default() -> Self {
        Self::new([DEFAULT_NAMESPACES]).expect("the default is a regular expression")
    }
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

    /// Whether no object of a kind is propagated.
    pub fn skips_kind(&self, api_version: &str, kind: &str) -> bool {
        let (group, _) = object::group_version(api_version);
        GROUPS.contains(&group) || (group.is_empty() && kind == "Event")
    }

    /// Whether an object is never propagated.
    pub fn skips(&self, object: &Value) -> bool {
        self.skips_kind(object::api_version(object), object::kind(object))
            || self.skips_namespace(object::namespace(object))
            || (object::kind(object) == "Namespace" && self.skips_namespace(object::name(object)))
            || finds_the_hub(object)
    }
}
