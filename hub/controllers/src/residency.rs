//! The ResidencyRules as the controllers look at them, and the bindings that one of them keeps out of a cluster.
//!
//! In: changes of rules. Out: the rules that cover a template; whom to wake when a rule or a cluster changes. A hub without rules pays one look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::binding::ObjectReference;
use karmada_api::cluster::Cluster;
use karmada_api::residency_rule::ResidencyRule;
use karmada_core::detector::Subject;
use karmada_core::residency::{Residency, Rules};
use karmada_core::scheduler::cluster_changes;
use parking_lot::{Mutex, RwLock};

use crate::fetch;
use crate::port::{Api, Key};
use crate::runner::{Error, Source};
use crate::typed::{Transition, Typed};

/// The rules, and whom they keep out.
#[derive(Default)]
pub struct ResidencyRules {
    /// Every ResidencyRule.
    pub rules: Arc<Typed<ResidencyRule>>,
    current: RwLock<Arc<Rules>>,
    /// Bindings of which a Work was refused or not made.
    withheld: Mutex<BTreeSet<Key>>,
}

impl ResidencyRules {
    /// None yet.
    pub fn new() -> Arc<Self> {
        let all = Arc::new(ResidencyRules::default());
        let told = Arc::downgrade(&all);
        all.rules.listen(move |_| {
            if let Some(all) = told.upgrade() {
                *all.current.write() = Arc::new(Rules::of(all.rules.all("").iter().cloned()));
            }
        });
        all
    }

    /// The rules as they are now.
    pub fn now(&self) -> Arc<Rules> {
        self.current.read().clone()
    }

    /// The rules as they would be with these beside them, or in the place of those of the same names.
    pub fn as_if(&self, given: &[ResidencyRule]) -> Arc<Rules> {
        if given.is_empty() {
            return self.now();
        }
        let all = self.rules.all("");
        let stays = |rule: &&Arc<ResidencyRule>| given.iter().all(|other| other.name() != rule.name());
        let stay: Vec<_> = all.iter().filter(stays).cloned().collect();
        Arc::new(Rules::of(stay.into_iter().chain(given.iter().cloned().map(Arc::new))))
    }

    /// The rules that cover a template. It is looked up where its labels decide; of one that is not there they do not.
    ///
    /// # Errors
    /// It cannot be read now.
    pub async fn of(&self, api: &dyn Api, template: &ObjectReference) -> Result<Residency, Error> {
        if let Some(name) = self.rules.unread("").first() {
            return Err(Error::Other(format!(
                "the ResidencyRule {name} cannot be read: it may forbid any place, and nothing is placed until it can be"
            )));
        }
        let rules = self.now();
        if rules.is_empty() {
            return Ok(Residency::default());
        }
        let mut labels = BTreeMap::new();
        let resource = api.resource_of(&template.api_version, &template.kind);
        if let Some(resource) = resource.filter(|_| rules.look_at_labels(template)) {
            let found = fetch::get_object(api, &resource, &template.namespace, &template.name).await?;
            labels = found.map(|found| found.labels.clone()).unwrap_or_default();
        }
        Ok(rules.covering(&Subject {
            api_version: template.api_version.as_str().into(),
            kind: &template.kind,
            namespace: &template.namespace,
            name: &template.name,
            labels: std::borrow::Cow::Owned(labels),
        }))
    }

    /// Wakes the keys that `map` names for each rule that comes, goes or says something else. That its status changed is no news.
    pub fn wakes<K: 'static>(
        &self,
        map: impl Fn(&Transition<ResidencyRule>) -> Vec<K> + Send + Sync + 'static,
    ) -> Source<K> {
        self.rules.wakes(move |transition| {
            let spec = |rule: &Option<Arc<ResidencyRule>>| rule.as_ref().map(|rule| rule.spec.clone());
            let same = spec(&transition.before) == spec(&transition.now);
            if same { Vec::new() } else { map(transition) }
        })
    }

    /// Notes whether a binding is kept out of one of its clusters.
    pub fn note(&self, binding: &Key, is_withheld: bool) {
        let mut withheld = self.withheld.lock();
        if !is_withheld {
            withheld.remove(binding);
        } else if !withheld.contains(binding) {
            withheld.insert(binding.clone());
        }
    }

    /// Wakes the bindings that are kept out of a cluster, where a rule or a cluster changed so that they may not be any more.
    pub fn withheld(self: &Arc<Self>, clusters: &Arc<Typed<Cluster>>) -> [Source<Key>; 2] {
        let all = || {
            let rules = self.clone();
            move || -> Vec<Key> { rules.withheld.lock().iter().cloned().collect() }
        };
        let (by_rules, by_clusters) = (all(), all());
        let clusters = clusters.wakes(move |transition| match (&transition.before, &transition.now) {
            (Some(before), Some(now)) if cluster_changes::matters_to_placement(before, now) => by_clusters(),
            _ => Vec::new(),
        });
        [self.wakes(move |_| by_rules()), clusters]
    }
}
