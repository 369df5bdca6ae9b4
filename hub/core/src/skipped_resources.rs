//! What is never propagated, whatever policies say. In: an object or its kind, and the namespaces that who runs the hub excludes. Out:
//! whether it stays on the hub. Pure.

use std::str::FromStr;
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

/// Whether it is what the hub tells the API servers that serve groups for it, which no member needs: also where `kube-system` is not skipped.
pub fn is_told_to_api_servers(object: &Value) -> bool {
    object::kind(object) == "ConfigMap"
        && object::namespace(object) == "kube-system"
        && object::name(object) == "extension-apiserver-authentication"
}

/// Groups, versions and kinds that are not propagated beside those of the control plane, as `--skipped-propagating-apis` names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedApis(Vec<SkippedApi>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SkippedApi {
    Group(String),
    /// A group with its version.
    Version(String),
    /// Kinds of one group and version.
    Kinds {
        api_version: String,
        kinds: Vec<String>,
    },
}

/// Why a text names no APIs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no API: write GROUP, GROUP/VERSION, GROUP/VERSION/KIND,KIND or v1/KIND,KIND, with semicolons between"
)]
pub struct NoApi(String);

impl FromStr for SkippedApis {
    type Err = NoApi;

    fn from_str(text: &str) -> Result<Self, NoApi> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(skipped_api).collect::<Result<_, _>>().map(SkippedApis)
    }
}

fn skipped_api(text: &str) -> Result<SkippedApi, NoApi> {
    let parts: Vec<&str> = text.split('/').collect();
    let api = match parts[..] {
        // The core group has no name, and so no group before its version.
        ["v1", kinds] => kinds_of("v1".to_owned(), kinds),
        [group, version, kinds] => kinds_of(format!("{group}/{version}"), kinds),
        [_, _] => SkippedApi::Version(text.to_owned()),
        _ => SkippedApi::Group(text.to_owned()),
    };
    let has_lists =
        parts.split_last().is_some_and(|(_, before)| before.iter().any(|part| part.contains(',')));
    let is_named = parts.iter().flat_map(|part| part.split(',')).all(|word| !word.trim().is_empty());
    let lists_kinds = matches!(api, SkippedApi::Kinds { .. }) || !text.contains(',');
    if parts.len() > 3 || has_lists || !is_named || !lists_kinds {
        return Err(NoApi(text.to_owned()));
    }
    Ok(api)
}

fn kinds_of(api_version: String, kinds: &str) -> SkippedApi {
    SkippedApi::Kinds { api_version, kinds: kinds.split(',').map(|kind| kind.trim().to_owned()).collect() }
}

impl SkippedApis {
    fn skip(&self, api_version: &str, kind: &str) -> bool {
        self.0.iter().any(|api| match api {
            SkippedApi::Group(group) => *group == object::group_version(api_version).0,
            SkippedApi::Version(version) => version == api_version,
            SkippedApi::Kinds { api_version: version, kinds } => {
                version == api_version && kinds.iter().any(|skipped| skipped == kind)
            }
        })
    }
}

/// Which namespaces and kinds are left alone.
#[derive(Clone, Debug)]
pub struct SkipRules {
    namespaces: Vec<Regex>,
    apis: SkippedApis,
}

/// Made once: reading a regular expression takes longer than most decisions that ask for this.
static DEFAULT: LazyLock<SkipRules> =
    LazyLock::new(|| SkipRules::new([DEFAULT_NAMESPACES]).expect("the default is a regular expression"));

impl Default for SkipRules {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// Whether no object of a kind is propagated, whatever who runs the hub says.
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
        Ok(Self { namespaces: anchored.collect::<Result<_, _>>()?, apis: SkippedApis::default() })
    }

    /// The same, and these APIs as well.
    #[must_use]
    pub fn with_apis(self, apis: SkippedApis) -> Self {
        Self { apis, ..self }
    }

    /// Whether no policy places an object of a kind.
    pub fn skips_kind(&self, api_version: &str, kind: &str) -> bool {
        skips_kind(api_version, kind) || self.apis.skip(api_version, kind)
    }

    /// Whether nothing in `namespace` is propagated.
    pub fn skips_namespace(&self, namespace: &str) -> bool {
        !namespace.is_empty()
            && (names::is_reserved_namespace(namespace)
                || self.namespaces.iter().any(|regex| regex.is_match(namespace)))
    }

    /// Whether an object is never propagated.
    pub fn skips(&self, object: &Value) -> bool {
        self.skips_kind(object::api_version(object), object::kind(object))
            || self.skips_namespace(object::namespace(object))
            || (object::kind(object) == "Namespace" && self.skips_namespace(object::name(object)))
            || is_the_hubs_own(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apis_are_skipped_by_group_by_version_and_by_kind() {
        let apis = "apps ; batch/v1;networking.k8s.io/v1/Ingress,IngressClass;v1/Secret,ConfigMap;";
        let rules = SkipRules::default().with_apis(apis.parse().unwrap());
        let nothing = SkipRules::default().with_apis("".parse().unwrap());
        for (api_version, kind, skipped) in [
            ("apps/v1", "Deployment", true),
            ("batch/v1", "Job", true),
            ("batch/v2", "Job", false),
            ("networking.k8s.io/v1", "IngressClass", true),
            ("networking.k8s.io/v1", "NetworkPolicy", false),
            ("networking.k8s.io/v2", "Ingress", false),
            ("v1", "Secret", true),
            ("v1", "ConfigMap", true),
            ("v1", "Service", false),
        ] {
            assert_eq!(rules.skips_kind(api_version, kind), skipped, "{api_version} {kind}");
            assert!(!nothing.skips_kind(api_version, kind), "{api_version} {kind}");
        }
        assert!(nothing.skips_kind("work.karmada.io/v1alpha1", "Work"), "the hub's own stay on the hub");
    }

    #[test]
    fn what_is_no_api_is_refused() {
        for wrong in
            ["a/b/c/d", "apps,batch", "batch/v1,v2", "a,b/v1/Kind", "apps/", "/v1", "batch/v1/", "v1/A,,B"]
        {
            assert!(wrong.parse::<SkippedApis>().is_err(), "{wrong}");
        }
    }
}
