//! One rule of a role: what it matches, and what of another rule it covers. Pure.
//!
//! The semantics are those of Kubernetes' `rbac/v1` helpers (`VerbMatches`, `ResourceMatches`, …) and of its
//! `validation.Covers`, which decides whether someone grants more than they hold.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::Attributes;

const ALL: &str = "*";

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// Verbs, `*` for all.
    pub verbs: Vec<String>,
    /// API groups, `*` for all.
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/log`, `*`, `*/scale`.
    pub resources: Vec<String>,
    /// Object names; none means all.
    pub resource_names: Vec<String>,
    /// Paths that are no resources, `*` at the end for all below.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

impl Rule {
    /// Reads a role's `rules`; what cannot be read grants nothing.
    pub fn list(rules: &Value) -> Vec<Rule> {
        let items = rules.as_array().into_iter().flatten();
        items.filter_map(|rule| Rule::deserialize(rule).ok()).collect()
    }

    /// Whether the rule allows the request.
    pub fn allows(&self, request: &Attributes) -> bool {
        if !has(&self.verbs, &request.verb) {
            return false;
        }
        if !request.is_resource() {
            return self.non_resource_urls.iter().any(|url| covers_path(url, &request.path));
        }
        has(&self.api_groups, &request.group)
            && self.names_resource(&request.combined_resource(), &request.subresource)
            && (self.resource_names.is_empty() || self.resource_names.contains(&request.name))
    }

    fn names_resource(&self, combined: &str, subresource: &str) -> bool {
        self.resources.iter().any(|resource| {
            resource == ALL
                || resource == combined
                || (!subresource.is_empty() && resource.strip_prefix("*/") == Some(subresource))
        })
    }

    /// Whether everything that `part`, a rule of one verb on one thing, grants is granted here.
    fn covers(&self, part: &Rule) -> bool {
        let all = |held: &[String], asked: &[String]| {
            held.iter().any(|h| h == ALL) || asked.iter().all(|a| held.contains(a))
        };
        let resources = part.resources.iter().all(|asked| {
            let subresource = asked.split_once('/').map_or("", |(_, sub)| sub);
            self.names_resource(asked, subresource)
        });
        let urls = part
            .non_resource_urls
            .iter()
            .all(|asked| self.non_resource_urls.iter().any(|u| covers_path(u, asked)));
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| self.resource_names.contains(name)));
        all(&self.verbs, &part.verbs) && all(&self.api_groups, &part.api_groups) && resources && urls && names
    }

    /// The rule as rules of one verb on one thing.
    fn parts(&self) -> Vec<Rule> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let part = Rule {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Rule::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    let named = self.resource_names.iter();
                    parts.extend(named.map(|n| Rule { resource_names: vec![n.clone()], ..part.clone() }));
                }
            }
            for url in &self.non_resource_urls {
                let (verbs, urls) = (vec![verb.clone()], vec![url.clone()]);
                parts.push(Rule { verbs, non_resource_urls: urls, ..Rule::default() });
            }
        }
        parts
    }

    /// The rule as messages name it.
    pub fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = fields.iter().filter(|(_, list)| !list.is_empty());
        let texts: Vec<String> = shown.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", texts.join(", "))
    }

    /// The rule as JSON, empty lists left out.
    pub fn to_json(&self) -> Value {
        let mut out = json!({"verbs": self.verbs});
        let fields = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        for (name, list) in fields {
            if !list.is_empty() {
                out[name] = json!(list);
            }
        }
        out
    }
}

/// Whether `pattern` names `path` itself or, ending in `*`, all that begins like it.
fn covers_path(pattern: &str, path: &str) -> bool {
    pattern == ALL
        || pattern == path
        || pattern.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

/// A list as Go's `%q` prints it.
pub(super) fn quoted(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

/// What of `wanted` is not granted by `held`, in rules of one verb on one thing.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::parts);
    parts.filter(|part| !held.iter().any(|rule| rule.covers(part))).collect()
}

/// Rules of one verb put together by what they are about, for messages and for rules to be added.
pub fn compact(parts: &[Rule]) -> Vec<Rule> {
    let mut verbs: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for part in parts {
        let about = Rule { verbs: Vec::new(), ..part.clone() };
        let slot = verbs.entry(about).or_default();
        slot.extend(part.verbs.iter().filter(|v| !slot.contains(v)).cloned().collect::<BTreeSet<_>>());
    }
    verbs.into_iter().map(|(about, verbs)| Rule { verbs, ..about }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, group: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        Rule {
            verbs: list(verbs),
            api_groups: vec![group.to_owned()],
            resources: list(resources),
            resource_names: list(names),
            ..Rule::default()
        }
    }

    fn paths(verbs: &str, urls: &str) -> Rule {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        Rule { verbs: list(verbs), non_resource_urls: list(urls), ..Rule::default() }
    }

    fn request(verb: &str, group: &str, resource: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn what_rules_match() {
        let table = [
            (rule("get", "", "pods", ""), request("get", "", "pods", "a"), true),
            (rule("get", "", "pods", ""), request("list", "", "pods", ""), false),
            (rule("get", "", "pods", ""), request("get", "apps", "pods", "a"), false),
            (rule("get", "", "pods", ""), request("get", "", "pods/log", "a"), false),
            (rule("get", "", "pods/log", ""), request("get", "", "pods/log", "a"), true),
            (rule("get", "", "pods/log", ""), request("get", "", "pods", "a"), false),
            (rule("*", "*", "*", ""), request("x", "y", "z/w", "a"), true),
            (rule("update", "*", "*/scale", ""), request("update", "apps", "deployments/scale", "a"), true),
            (rule("update", "*", "*/scale", ""), request("update", "apps", "deployments/status", "a"), false),
            (rule("update", "*", "*/scale", ""), request("update", "apps", "scale", "a"), false),
            (rule("get", "", "pods", "a b"), request("get", "", "pods", "b"), true),
            (rule("get", "", "pods", "a b"), request("get", "", "pods", "c"), false),
            (rule("list", "", "pods", "a b"), request("list", "", "pods", ""), false),
            (paths("get", "/healthz /api/*"), Attributes::path("get", "/healthz"), true),
            (paths("get", "/healthz /api/*"), Attributes::path("get", "/healthz/x"), false),
            (paths("get", "/healthz /api/*"), Attributes::path("get", "/api/v1"), true),
            (paths("get", "/healthz /api/*"), Attributes::path("get", "/apis"), false),
            (paths("get", "*"), Attributes::path("get", "/x"), true),
            (paths("get", "*"), Attributes::path("post", "/x"), false),
            (rule("*", "*", "*", ""), Attributes::path("get", "/x"), false),
            (paths("*", "*"), request("get", "", "pods", ""), false),
        ];
        for (rule, request, expected) in table {
            assert_eq!(rule.allows(&request), expected, "{} {request:?}", rule.describe());
        }
    }

    #[test]
    fn nobody_grants_more_than_they_hold() {
        let held = [
            rule("get list", "", "pods */scale", ""),
            rule("get", "", "secrets", "a b"),
            paths("get", "/x/*"),
        ];
        let table = [
            (rule("get", "", "pods", ""), ""),
            (rule("get", "", "pods", "a"), ""),
            (rule("get", "", "secrets", "a"), ""),
            (rule("get", "", "secrets", ""), "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"),
            (rule("get list", "", "web/scale", ""), ""),
            (rule("*", "", "pods", ""), "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}"),
            (
                rule("list watch delete", "", "pods", ""),
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\" \"delete\"]}",
            ),
            (paths("get", "/x/y"), ""),
            (paths("get", "/x"), "{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"),
        ];
        for (wanted, lacks) in table {
            let lacking = compact(&missing(&held, std::slice::from_ref(&wanted)));
            let texts: Vec<String> = lacking.iter().map(Rule::describe).collect();
            assert_eq!(texts.join("\n"), lacks, "{}", wanted.describe());
        }
    }
}
