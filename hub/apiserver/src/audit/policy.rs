//! The audit policy (`audit.k8s.io/v1` Policy): which requests are logged, how much of them, at which stages.
//!
//! Pure. In: the policy file's text; a user and the attributes of a request. Out: a [`Ruling`] by the first rule that matches,
//! as kube-apiserver's policy checker.

use karmada_registry::{Attributes, User};
use karmada_schema::yaml;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It came.
    RequestReceived,
    /// The head of a long answer (a watch) was sent.
    ResponseStarted,
    /// It is answered.
    ResponseComplete,
    /// Answering it broke down.
    Panic,
}

impl Stage {
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// How much of a request is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when, and how it ended.
    Metadata,
    /// And the request's body.
    Request,
    /// And the answer's.
    RequestResponse,
}

impl Level {
    /// As events name it.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// How much is logged.
    pub level: Level,
    /// Stages that are left out, a bit for each.
    omitted: u8,
    /// Whether objects are logged without their managed fields.
    pub omit_managed_fields: bool,
}

impl Ruling {
    /// Whether an event of this stage is logged.
    pub fn wants(self, stage: Stage) -> bool {
        self.level != Level::None && self.omitted & stage.bit() == 0
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default)]
    rules: Vec<RuleText>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleText {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    ruling: Ruling,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
}

/// A policy.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// Reads a policy file (YAML or JSON).
    ///
    /// # Errors
    /// In words: it cannot be read, is no policy, has no rule, or a rule of it is not allowed (`rules[N]`).
    pub fn read(text: &str) -> Result<Policy, String> {
        // By way of JSON: the YAML reader is large, and made once for that.
        let value = yaml::read::<{ yaml::FILE }>(text).map_err(|error| error.to_string())?;
        let file: File = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let File { api_version, kind, _metadata: _, rules, omit_stages, omit_managed_fields } = file;
        if (api_version.as_str(), kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!("expected audit.k8s.io/v1, Kind=Policy, got {api_version}, Kind={kind}"));
        }
        if rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        let everywhere = bits(&omit_stages);
        let rules = rules.into_iter().enumerate().map(|(index, rule)| {
            check(&rule).map_err(|why| format!("rules[{index}]: {why}"))?;
            Ok(Rule {
                ruling: Ruling {
                    level: rule.level,
                    omitted: everywhere | bits(&rule.omit_stages),
                    omit_managed_fields: rule.omit_managed_fields.unwrap_or(omit_managed_fields),
                },
                users: rule.users,
                groups: rule.user_groups,
                verbs: rule.verbs,
                resources: rule.resources,
                namespaces: rule.namespaces,
                paths: rule.non_resource_urls,
            })
        });
        Ok(Policy { rules: rules.collect::<Result<_, String>>()? })
    }

    /// What becomes of a request: what the first rule that matches says, nothing where none does.
    pub fn judge(&self, user: Option<&User>, request: &Attributes) -> Ruling {
        let rule = self.rules.iter().find(|rule| rule.matches(user, request));
        rule.map(|rule| rule.ruling).unwrap_or_default()
    }
}

fn bits(stages: &[Stage]) -> u8 {
    stages.iter().fold(0, |bits, stage| bits | stage.bit())
}

fn check(rule: &RuleText) -> Result<(), String> {
    let about_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if !rule.non_resource_urls.is_empty() && about_resources {
        return Err(
            "nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs".into()
        );
    }
    for url in &rule.non_resource_urls {
        let inner = url.strip_suffix('*').unwrap_or(url);
        if url != "*" && !url.starts_with('/') {
            return Err(format!(
                "nonResourceURLs: {url:?}: non-resource URL rules must begin with a '/' character"
            ));
        }
        if url != "*" && inner.contains('*') {
            return Err(format!(
                "nonResourceURLs: {url:?}: non-resource URL wildcards '*' must be the final character of the rule"
            ));
        }
    }
    let unnamed = |one: &Resources| !one.resource_names.is_empty() && one.resources.is_empty();
    if rule.resources.iter().any(unnamed) {
        return Err("resources: using resourceNames requires at least one resource".into());
    }
    Ok(())
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == wanted)
}

impl Rule {
    fn matches(&self, user: Option<&User>, request: &Attributes) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.groups, group));
        if !self.groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, &request.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.matches_resource(request);
        }
        if !self.paths.is_empty() {
            return !request.is_resource() && self.paths.iter().any(|spec| path_matches(&request.path, spec));
        }
        true
    }

    fn matches_resource(&self, request: &Attributes) -> bool {
        if !request.is_resource() {
            return false;
        }
        if !self.namespaces.is_empty() && !has(&self.namespaces, &request.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.match_(request))
    }
}

impl Resources {
    fn match_(&self, request: &Attributes) -> bool {
        if self.group != request.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !has(&self.resource_names, &request.name) {
            return false;
        }
        let combined = request.combined_resource();
        self.resources.iter().any(|wanted| {
            let of_any = wanted
                .strip_prefix("*/")
                .is_some_and(|sub| !request.subresource.is_empty() && sub == request.subresource);
            let any_of = wanted.strip_suffix("/*").is_some_and(|resource| resource == request.resource);
            *wanted == combined || wanted == "*" || of_any || any_of
        })
    }
}

fn path_matches(path: &str, spec: &str) -> bool {
    spec == "*" || spec == path || spec.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: p}
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: [watch]
  resources: [{group: "", resources: [endpoints, services]}]
- level: None
  userGroups: ["system:authenticated"]
  nonResourceURLs: ["/api*", "/version"]
- level: Request
  omitManagedFields: false
  resources: [{group: "", resources: [configmaps], resourceNames: [controller-leader]}]
  namespaces: [kube-system]
- level: RequestResponse
  omitStages: [ResponseStarted]
  resources: [{group: apps, resources: ["*/scale", "deployments/*"]}, {group: batch}]
- level: Metadata
  resources: [{group: "", resources: [secrets, "pods/log"]}]
"#;

    fn about(verb: &str, resource: &str) -> Attributes {
        let (group, rest) = resource.split_once(':').unwrap_or(("", resource));
        let mut parts = rest.split('/');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: next(),
            subresource: next(),
            namespace: next(),
            name: next(),
            ..Attributes::default()
        }
    }

    #[test]
    fn the_first_rule_that_matches_rules() {
        let policy = Policy::read(POLICY).unwrap();
        let user = |name: &str| User {
            name: name.into(),
            groups: vec!["system:authenticated".into()],
            ..User::default()
        };
        let level = |who: &str, request: &Attributes| policy.judge(Some(&user(who)), request).level;
        for (who, request, wanted) in [
            ("system:kube-proxy", about("watch", "endpoints"), Level::None),
            ("a", about("watch", "endpoints"), Level::None),
            ("a", about("get", "secrets//shop/s"), Level::Metadata),
            ("a", about("get", "pods/log/shop/p"), Level::Metadata),
            ("a", about("get", "pods//shop/p"), Level::None),
            ("a", about("update", "configmaps//kube-system/controller-leader"), Level::Request),
            ("a", about("update", "configmaps//kube-system/other"), Level::None),
            ("a", about("update", "configmaps//shop/controller-leader"), Level::None),
            ("a", about("update", "apps:deployments/scale/shop/d"), Level::RequestResponse),
            ("a", about("update", "apps:deployments/status/shop/d"), Level::RequestResponse),
            ("a", about("update", "apps:statefulsets/scale/shop/d"), Level::RequestResponse),
            ("a", about("update", "apps:deployments//shop/d"), Level::RequestResponse),
            ("a", about("update", "apps:daemonsets//shop/d"), Level::None),
            ("a", about("create", "batch:jobs//shop/"), Level::RequestResponse),
            ("a", Attributes::path("get", "/apis/apps"), Level::None),
            ("a", Attributes::path("get", "/metrics"), Level::None),
        ] {
            assert_eq!(level(who, &request), wanted, "{who} {request:?}");
        }
        let jobs = policy.judge(None, &about("create", "batch:jobs"));
        assert!(!jobs.wants(Stage::RequestReceived) && !jobs.wants(Stage::ResponseStarted));
        assert!(jobs.wants(Stage::ResponseComplete) && jobs.wants(Stage::Panic) && jobs.omit_managed_fields);
        let leader = policy.judge(None, &about("update", "configmaps//kube-system/controller-leader"));
        assert!(!leader.omit_managed_fields && leader.wants(Stage::ResponseStarted));
    }

    #[test]
    fn what_is_no_policy_is_told_in_words() {
        let rule = |rule: &str| format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rule}]");
        for (text, part) in [
            ("kind: Policy".to_owned(), "apiVersion"),
            (rule("{level: Metadata}").replace("/v1", "/v1beta1"), "expected audit.k8s.io/v1"),
            (rule(""), "0 rules"),
            (rule("{level: Loud}"), "Loud"),
            (rule("{level: None, verb: [get]}"), "verb"),
            (rule("{level: None, omitStages: [Never]}"), "Never"),
            (rule("{level: None, nonResourceURLs: [/a], namespaces: [b]}"), "both regular resources"),
            (rule("{level: None, nonResourceURLs: [a]}"), "must begin with a '/'"),
            (rule("{level: None, nonResourceURLs: [/a*b]}"), "final character"),
            (rule("{level: None, resources: [{resourceNames: [a]}]}"), "resourceNames requires"),
        ] {
            let why = Policy::read(&text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
