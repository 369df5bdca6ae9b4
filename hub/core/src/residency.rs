//! Residency: which objects may be in which clusters, whoever puts them there.
//!
//! In: all ResidencyRules, an object or a Work, a cluster. Out: the rules that cover the object ([`Residency`]), whether they allow the cluster, and
//! why not; for a Work on its way to the store a [`Refusal`]; for a rule its status ([`status`]).
//!
//! An object is known by group and kind, namespace, name and labels. Its version is not looked at: what is one object can be written in several.
//! What of a rule cannot be read covers everything, and allows nothing.

pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::object;
use karmada_api::policy::ResourceSelector;
use karmada_api::residency_rule::ResidencyRule;
use karmada_api::selector::{affinity_matches, labels_match};
use serde_json::Value;

use crate::detector::Subject;

/// All rules, found by the kind of an object: what no rule is about costs one look.
#[derive(Debug, Default)]
pub struct Rules {
    /// By name.
    all: Vec<Arc<ResidencyRule>>,
    /// By group and kind: which of them may cover such an object.
    by_kind: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// Those that are about every kind.
    of_any_kind: Vec<usize>,
}

impl Rules {
    /// Of these rules, in any order.
    pub fn of(rules: impl IntoIterator<Item = Arc<ResidencyRule>>) -> Rules {
        let mut rules = Rules { all: rules.into_iter().collect(), ..Rules::default() };
        rules.all.sort_by(|one, other| one.name().cmp(other.name()));
        for (at, rule) in rules.all.iter().enumerate() {
            if rule.spec.resource_selectors.is_empty() {
                rules.of_any_kind.push(at);
            }
            for selector in &rule.spec.resource_selectors {
                let (group, _) = object::group_version(&selector.api_version);
                let kinds = rules.by_kind.entry(group.to_owned()).or_default();
                let named = kinds.entry(selector.kind.clone()).or_default();
                if named.last() != Some(&at) {
                    named.push(at);
                }
            }
        }
        rules
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The rules that may cover an object of a kind, by name.
    fn about(&self, api_version: &str, kind: &str) -> impl Iterator<Item = &Arc<ResidencyRule>> {
        let (group, _) = object::group_version(api_version);
        let named = self.by_kind.get(group).and_then(|kinds| kinds.get(kind));
        let mut meant: Vec<usize> = named.into_iter().flatten().chain(&self.of_any_kind).copied().collect();
        meant.sort_unstable();
        meant.into_iter().filter_map(|at| self.all.get(at))
    }

    /// Whether an object's labels decide anything: else who knows its name need not read it.
    pub fn look_at_labels(&self, of: &ObjectReference) -> bool {
        let by_labels = |rule: &Arc<ResidencyRule>| {
            rule.spec.resource_selectors.iter().any(|selector| selector.label_selector.is_some())
        };
        self.about(&of.api_version, &of.kind).any(by_labels)
    }

    /// The rules that cover an object.
    pub fn covering(&self, subject: &Subject<'_>) -> Residency {
        let about = self.about(&subject.api_version, subject.kind);
        Residency(about.filter(|rule| covers(rule, subject)).cloned().collect())
    }

    /// The same of a whole object, which is read where some rule is about its kind.
    pub fn covering_object(&self, of: &Value) -> Residency {
        if self.about(object::api_version(of), object::kind(of)).next().is_none() {
            return Residency::default();
        }
        self.covering(&Subject::of(of))
    }

    /// The rules that keep something out of a cluster.
    pub fn closing<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Arc<ResidencyRule>> {
        self.all.iter().filter(|rule| !allows(rule, cluster))
    }
}

/// The rules that cover one object, by name. None: it may be anywhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residency(Vec<Arc<ResidencyRule>>);

impl Residency {
    /// Whether no rule covers it.
    pub fn is_free(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it may be in a cluster.
    ///
    /// # Errors
    /// The name of the first rule that does not allow it.
    pub fn admits(&self, cluster: &Cluster) -> Result<(), &str> {
        self.0.iter().find(|rule| !allows(rule, cluster)).map_or(Ok(()), |rule| Err(rule.name()))
    }

    /// The same of a cluster of which nothing may be known: nothing that is covered may be there.
    fn admits_if_known(&self, cluster: Option<&Cluster>) -> Result<(), &str> {
        match cluster {
            Some(cluster) => self.admits(cluster),
            None => self.0.first().map_or(Ok(()), |rule| Err(rule.name())),
        }
    }
}

/// Whether the objects of a rule may be in a cluster. A policy that says `zone In` means clusters of which one zone is listed, as in Karmada; a
/// rule means those of which all are, as nobody knows in which zone of a cluster a Pod will run.
pub fn allows(rule: &ResidencyRule, cluster: &Cluster) -> bool {
    let affinity = &rule.spec.cluster_affinity;
    let fields = affinity.field_selector.iter().flat_map(|selector| &selector.match_expressions);
    let zones = fields.filter(|one| one.key == "zone" && one.operator == "In");
    affinity_matches(affinity, cluster)
        && zones.into_iter().all(|one| cluster.spec.zones.iter().all(|zone| one.values.contains(zone)))
}

/// Whether a rule covers an object.
pub fn covers(rule: &ResidencyRule, subject: &Subject<'_>) -> bool {
    may_cover(rule, subject, |selector| match &selector.label_selector {
        // As in policies: where a name is given, labels are not looked at.
        Some(labels) if selector.name.is_empty() => labels_match(labels, &subject.labels).unwrap_or(true),
        _ => true,
    })
}

/// Whether a rule may cover an object of which its kind and place are known, whatever its labels are: whom to look at again when the rule goes.
pub fn may_mean(rule: &ResidencyRule, of: &ObjectReference) -> bool {
    let subject = Subject {
        api_version: of.api_version.as_str().into(),
        kind: &of.kind,
        namespace: &of.namespace,
        name: &of.name,
        labels: std::borrow::Cow::Owned(BTreeMap::new()),
    };
    may_cover(rule, &subject, |_| true)
}

fn may_cover(
    rule: &ResidencyRule,
    subject: &Subject<'_>,
    labels_match: impl Fn(&ResourceSelector) -> bool,
) -> bool {
    let (group, _) = object::group_version(&subject.api_version);
    let selects = |wanted: &ResourceSelector| {
        wanted.kind == subject.kind
            && object::group_version(&wanted.api_version).0 == group
            && (wanted.namespace.is_empty() || wanted.namespace == subject.namespace)
            && (wanted.name.is_empty() || wanted.name == subject.name)
            && labels_match(wanted)
    };
    let spec = &rule.spec;
    (spec.namespaces.is_empty() || spec.namespaces.iter().any(|namespace| namespace == subject.namespace))
        && (spec.resource_selectors.is_empty() || spec.resource_selectors.iter().any(selects))
}

/// Why a Work may not be stored for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "residency rule {rule} does not allow {object} in cluster {cluster}{doubt}: place it in clusters that the rule's spec.clusterAffinity means \
     (kubectl get residencyrule {rule} -o yaml), or change the rule"
)]
pub struct Refusal {
    /// The rule.
    pub rule: String,
    /// What it covers, as `Secret shop/db`.
    pub object: String,
    /// The cluster.
    pub cluster: String,
    doubt: &'static str,
}

/// Whether a Work may be stored for a cluster. `find` tells what is known of the cluster, and is asked where some rule covers something of the Work.
/// What was in it before and stays word for word is let be: it is in the cluster, and to take it away is a person's or the scheduler's business;
/// unless the Work was held back, as it may be in no cluster yet.
///
/// # Errors
/// The first manifest that a rule does not allow there.
pub fn judge(
    rules: &Rules,
    cluster: &str,
    (new, old): (&Value, Option<&Value>),
    find: impl FnOnce() -> Option<Cluster>,
) -> Result<(), Refusal> {
    let covered: Vec<(&Value, Residency)> = manifests(new)
        .map(|manifest| (manifest, rules.covering_object(manifest)))
        .filter(|(_, residency)| !residency.is_free())
        .collect();
    if covered.is_empty() {
        return Ok(());
    }
    let known = find();
    let there = old.filter(|old| !is_held_back(old) || is_held_back(new));
    for (manifest, residency) in covered {
        let Err(rule) = residency.admits_if_known(known.as_ref()) else { continue };
        if there.is_some_and(|old| manifests(old).any(|before| before == manifest)) {
            continue;
        }
        let doubt = if known.is_some() { "" } else { ", of which nothing is known" };
        let (rule, object, cluster) = (rule.to_owned(), named(manifest), cluster.to_owned());
        return Err(Refusal { rule, object, cluster, doubt });
    }
    Ok(())
}

fn manifests(work: &Value) -> impl Iterator<Item = &Value> {
    work["spec"]["workload"]["manifests"].as_array().into_iter().flatten()
}

fn is_held_back(work: &Value) -> bool {
    work["spec"]["suspendDispatching"] == Value::Bool(true)
}

/// How an object is called in a sentence.
pub fn named(of: &Value) -> String {
    let key = karmada_api::names::namespaced_key(object::namespace(of), object::name(of));
    format!("{} {key}", object::kind(of))
}
