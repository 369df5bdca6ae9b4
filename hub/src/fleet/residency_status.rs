//! ResidencyRule status controller: what a rule covers and is in a cluster that it does not allow, as it came before the rule, or the cluster changed.
//!
//! In: rules, Clusters, the Works of clusters that a rule does not allow. Out: `status`, and an event on the rule where there is more than before.
//! Nothing is taken away here. Works in clusters that every rule allows are not read; without rules, none is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::names;
use karmada_api::residency_rule::{ResidencyRule, ResidencyViolation};
use karmada_api::strings::events;
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::{EventType, Reference};
use karmada_controllers::fetch::{self, kinds};
use karmada_controllers::port::{Api, Change, Key, Object};
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_core::residency::allows;
use karmada_core::residency::status::{self, Held};
use parking_lot::Mutex;

/// A rule is looked at no more often: what leaves the clusters of a fleet leaves them one by one.
const DEBOUNCE: Duration = Duration::from_secs(5);

/// The controller.
pub struct ResidencyStatus {
    shared: Arc<ControllerContext>,
    /// The Works that violated each rule when it was looked at last.
    seen: Mutex<BTreeMap<Key, BTreeSet<Key>>>,
}

fn key_of_rule(rule: &ResidencyRule) -> Key {
    Key { namespace: "".into(), name: rule.name().into() }
}

impl ResidencyStatus {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(ResidencyStatus { shared, seen: Mutex::default() })
    }

    /// The rules that a Work violates, where it is.
    fn violated(&self, work: &Object) -> Vec<Key> {
        let rules = self.shared.residency.now();
        let at = names::cluster_of_execution_namespace(&work.key.namespace).filter(|_| !rules.is_empty());
        let Some(cluster) = at.and_then(|at| self.shared.clusters.get("", at)) else { return Vec::new() };
        let mut closing = rules.closing(&cluster).peekable();
        if closing.peek().is_none() {
            return Vec::new();
        }
        let Ok(held) = work.parse::<Held>() else { return Vec::new() };
        closing.filter(|rule| held.covered_by(rule).is_some()).map(|rule| key_of_rule(rule)).collect()
    }

    /// The rules that a Work violates, or did when they were looked at.
    fn concerned(&self, change: &Change) -> Vec<Key> {
        let (Change::Applied(work) | Change::Deleted(work)) = change;
        let mut rules: BTreeSet<Key> = match change {
            Change::Applied(work) => self.violated(work).into_iter().collect(),
            Change::Deleted(_) => BTreeSet::new(),
        };
        let seen = self.seen.lock();
        rules
            .extend(seen.iter().filter(|(_, works)| works.contains(&work.key)).map(|(rule, _)| rule.clone()));
        rules.into_iter().collect()
    }

    /// What wakes this controller: a rule; a Work that violates it, or did; a Cluster that it allows and did not, or the other way round.
    pub fn wakes(self: &Arc<Self>) -> Vec<Source<Key>> {
        let own = Source::own("edge.karmada.io/v1alpha1", "ResidencyRule").but_status();
        let controller = self.clone();
        let works =
            Source::new("work.karmada.io/v1alpha1", "Work", move |change| controller.concerned(change));
        let rules = self.shared.residency.clone();
        let clusters = self.shared.clusters.wakes(move |transition| {
            let all = rules.rules.all("");
            let allowed = |rule: &ResidencyRule, now: bool| {
                let state = if now { &transition.now } else { &transition.before };
                state.as_ref().map(|cluster| allows(rule, cluster))
            };
            let changed = all.iter().filter(|rule| allowed(rule, true) != allowed(rule, false));
            changed.map(|rule| key_of_rule(rule)).collect()
        });
        vec![own, works.but_status().debounced(DEBOUNCE), clusters.debounced(DEBOUNCE)]
    }

    /// The Works that violate a rule.
    async fn violations(&self, rule: &ResidencyRule) -> Result<Vec<ResidencyViolation>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let works = kinds::works(api)?;
        let mut found = Vec::new();
        let clusters = self.shared.clusters.all("");
        for cluster in clusters.iter().filter(|cluster| !allows(rule, cluster)) {
            for work in api.list(&works, &names::execution_namespace(cluster.name())).await? {
                let Some(object) = work.parse::<Held>().ok().and_then(|held| held.covered_by(rule)) else {
                    continue;
                };
                let (cluster, work) = (cluster.name().to_owned(), work.key.name.to_string());
                found.push(ResidencyViolation { cluster, work, object });
            }
            // A fleet may have many: others are not kept waiting.
            tokio::task::yield_now().await;
        }
        Ok(found)
    }
}

#[async_trait::async_trait]
impl Controller for ResidencyStatus {
    type Key = Key;

    fn name(&self) -> &'static str {
        "residency-rule-status-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::residency_rules(api)?;
        let found: Option<ResidencyRule> = fetch::get(api, &resource, "", &key.name).await?;
        let Some(mut rule) = found else {
            self.seen.lock().remove(key);
            return Ok(Action::Done);
        };
        let violations = self.violations(&rule).await?;
        let at = |one: &ResidencyViolation| Key {
            namespace: names::execution_namespace(&one.cluster).into(),
            name: one.work.as_str().into(),
        };
        self.seen.lock().insert(key.clone(), violations.iter().map(at).collect());
        let wanted = status::status(&rule, violations, (self.shared.clock)());
        if wanted == rule.status {
            return Ok(Action::Done);
        }
        let before = std::mem::replace(&mut rule.status, wanted);
        let value = fetch::to_value(&rule)?;
        let about = Reference::of(&value);
        api.update_status(&resource, value).await?;
        if let Some(news) = status::news(&before, &rule.status) {
            self.shared.recorder.record(&about, EventType::Warning, events::RESIDENCY_VIOLATED, &news);
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
