//! One rule of a role: what it matches, and what of another rule it covers. Pure.
//!
//! The semantics are those of Kubernetes' `rbac/v1` helpers (`VerbMatches`, `ResourceMatches`, …) and of its
//! `validation.Covers`, which decides whether someone grants more than they hold.
//!
//! In: a role's rules, a request's attributes, what somebody holds and wants to grant. Out: whether a rule allows or covers it, what is
//! missing, texts for messages; [`TooMany`] where comparing would take too long.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use karmada_registry::Attributes;
use serde::Deserialize;
use serde_json::{Value, json};

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

    /// Whether this rule alone grants all of `wanted`, compared list by list. That is quick, and settles what administrators hold, whose
    /// lists are wildcards.
    fn covers_plainly(&self, wanted: &Rule) -> bool {
        let all = |held: &[String], asked: &[String]| {
            held.iter().any(|h| h == ALL)
                || (asked.len() <= held.len() && asked.iter().all(|a| held.contains(a)))
        };
        // Items of a list without a wildcard are compared one by one, so it must be short; long ones are looked up elsewhere.
        let short = |list: &[String]| list.len() <= 64 || list.iter().any(|item| item == ALL);
        let lists = [&self.verbs, &self.api_groups, &self.resources, &self.non_resource_urls];
        self.resource_names.is_empty()
            && lists.into_iter().all(|list| short(list))
            && all(&self.verbs, &wanted.verbs)
            && all(&self.api_groups, &wanted.api_groups)
            && all(&self.resources, &wanted.resources)
            && all(&self.non_resource_urls, &wanted.non_resource_urls)
    }

    /// How many rules of one verb on one thing [`Rule::parts`] makes of this one; `None` beyond all numbers.
    fn part_count(&self) -> Option<usize> {
        let things = self.api_groups.len().checked_mul(self.resources.len())?;
        let named = things.checked_mul(self.resource_names.len().max(1))?;
        self.verbs.len().checked_mul(named.checked_add(self.non_resource_urls.len())?)
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

/// How many rules of one verb on one thing are compared with what somebody holds.
const MOST_PARTS: usize = 20_000;
/// How many comparisons of such a rule with one that is held are made: about a second of a release build.
const MOST_COMPARISONS: usize = 20_000_000;

/// Rules that are too many to be compared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the rules name too many combinations of verb, API group, resource and name to be compared with what you hold \
             (at most {MOST_PARTS}): divide them into several roles"
        )
    }
}

/// What of `wanted` is not granted by `held`, in rules of one verb on one thing.
///
/// # Errors
/// The lists of a rule multiply: a role of a megabyte can name a hundred billion such rules. Those that one held rule does not grant
/// as a whole are counted before they are made, and are too many.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Result<Vec<Rule>, TooMany> {
    let open: Vec<&Rule> =
        wanted.iter().filter(|rule| !held.iter().any(|held| held.covers_plainly(rule))).collect();
    let count = open.iter().try_fold(0_usize, |sum, rule| sum.checked_add(rule.part_count()?));
    let count = count.filter(|count| *count <= MOST_PARTS).ok_or(TooMany)?;
    let held: Vec<IndexedRule<'_>> = held.iter().map(IndexedRule::new).collect();
    let length: usize = held.iter().map(|held| 1 + held.patterns.len()).sum();
    if count.saturating_mul(length) > MOST_COMPARISONS {
        return Err(TooMany);
    }
    let parts = open.into_iter().flat_map(Rule::parts);
    Ok(parts.filter(|part| !held.iter().any(|rule| rule.covers(part))).collect())
}

/// A held rule whose lists are looked up.
struct IndexedRule<'r> {
    verbs: HashSet<&'r str>,
    groups: HashSet<&'r str>,
    resources: HashSet<&'r str>,
    names: HashSet<&'r str>,
    /// Paths: each may be a beginning.
    patterns: &'r [String],
}

impl<'r> IndexedRule<'r> {
    fn new(rule: &'r Rule) -> Self {
        let set = |list: &'r [String]| list.iter().map(String::as_str).collect();
        IndexedRule {
            verbs: set(&rule.verbs),
            groups: set(&rule.api_groups),
            resources: set(&rule.resources),
            names: set(&rule.resource_names),
            patterns: &rule.non_resource_urls,
        }
    }

    /// Whether everything that `part`, a rule of one verb on one thing, grants is granted here.
    fn covers(&self, part: &Rule) -> bool {
        let all = |held: &HashSet<&str>, asked: &[String]| {
            held.contains(ALL) || asked.iter().all(|a| held.contains(a.as_str()))
        };
        let resources = part.resources.iter().all(|asked| {
            let any_of = |sub: &str| self.resources.contains(format!("*/{sub}").as_str());
            self.resources.contains(ALL)
                || self.resources.contains(asked.as_str())
                || asked.split_once('/').is_some_and(|(_, sub)| !sub.is_empty() && any_of(sub))
        });
        let urls = part
            .non_resource_urls
            .iter()
            .all(|asked| self.patterns.iter().any(|pattern| covers_path(pattern, asked)));
        let names = self.names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| self.names.contains(name.as_str())));
        all(&self.verbs, &part.verbs) && all(&self.groups, &part.api_groups) && resources && urls && names
    }
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
            let lacking = compact(&missing(&held, std::slice::from_ref(&wanted)).unwrap());
            let texts: Vec<String> = lacking.iter().map(Rule::describe).collect();
            assert_eq!(texts.join("\n"), lacks, "{}", wanted.describe());
        }
    }

    #[test]
    fn rules_that_multiply_are_counted_before_they_are_made() {
        let texts = |n: usize| (0..n).map(|at| format!("x{at}")).collect::<Vec<_>>();
        let wide = Rule {
            verbs: texts(20_000),
            api_groups: texts(20_000),
            resources: texts(20_000),
            resource_names: texts(20_000),
            ..Rule::default()
        };
        assert_eq!(missing(&[], std::slice::from_ref(&wide)), Err(TooMany));
        let many = vec![rule("get", "", "pods", ""); MOST_PARTS + 1];
        assert_eq!(missing(&[], &many), Err(TooMany));
        assert_eq!(missing(&[], &many[1..]).map(|lacking| lacking.len()), Ok(MOST_PARTS));
        let everything = [rule("*", "*", "*", "")];
        assert_eq!(missing(&everything, &[wide]), Ok(Vec::new()), "an administrator may still give it");
        let one_by_one: Vec<Rule> = texts(5_000).iter().map(|name| rule("get", "", "pods", name)).collect();
        assert_eq!(missing(&one_by_one, &many[1..]), Err(TooMany), "comparisons multiply, too");
    }

    #[test]
    fn a_rule_is_granted_as_a_whole_only_by_what_grants_each_part_of_it() {
        let wanted = [rule("get list", "apps", "deployments replicasets", "")];
        for (held, granted) in [
            (rule("get list watch", "apps", "deployments replicasets pods", ""), true),
            (rule("get list watch", "apps", "deployments", ""), false),
            (rule("get list watch", "apps", "deployments replicasets pods", "one"), false),
            (rule("get", "apps", "*", ""), false),
            (rule("*", "apps", "*", ""), true),
        ] {
            assert_eq!(held.covers_plainly(&wanted[0]), granted, "{}", held.describe());
            assert_eq!(missing(&[held], &wanted).unwrap().is_empty(), granted);
        }
    }
}
