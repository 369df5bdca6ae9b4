//! What was placed and is not yet seen in what clusters report: it counts as taken, so that two workloads are not placed into one gap.
//!
//! In: what the scheduler placed, what became of the health of bindings, the moment since some beginning. Out: for each cluster what is to be taken
//! off its free room. An assumption ends when the workload turns healthy there, as it is then in the cluster's report, when the binding goes, or
//! after five minutes. Of each binding there is one, so that what is kept is bounded by the bindings there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::binding::{
    AggregatedStatusItem, Component, ComponentReplicaRequirements, Health, ResourceBinding, TargetCluster,
};
/// What is assumed in one cluster of one binding.
pub use karmada_interpreter::node_room::Assumed;

/// How long what was placed is assumed, at most.
const LONGEST: Duration = Duration::from_secs(300);

/// So many sorts of replicas are told apart where they are summed: who is told takes no longer list.
const SORTS: usize = 256;

/// Namespace and name of a binding.
type BindingKey = (String, String);

/// What is assumed of all bindings.
#[derive(Debug, Default)]
pub struct Assumptions(BTreeMap<BindingKey, Entry>);

#[derive(Debug)]
struct Entry {
    clusters: BTreeMap<String, Arc<Assumed>>,
    since: Duration,
}

/// What of each cluster's room is taken, though its report does not say so: by binding.
pub type Taken = BTreeMap<String, Vec<Arc<Assumed>>>;

/// The same with the replicas of one sort and namespace told once, as they came first: a workload that is rolled out a hundred times takes no more
/// words than once. Each sort is told as a workload of its own: of one workload no part is laid after one without room. What is left out of a list that is
/// too long, the cluster's summary is still reckoned without.
pub fn summed(taken: &[Arc<Assumed>]) -> Vec<Assumed> {
    let mut all: Vec<Assumed> = Vec::new();
    for one in taken {
        for part in &one.components {
            let part = Component { name: String::new(), replicas: part.replicas.max(0), ..part.clone() };
            let is_same = |known: &&mut Assumed| {
                let sort = known.components.first().map(|known| &known.replica_requirements);
                known.namespace == one.namespace && sort == Some(&part.replica_requirements)
            };
            let known = all.iter_mut().find(is_same).and_then(|known| known.components.first_mut());
            if let Some(known) = known {
                known.replicas = known.replicas.saturating_add(part.replicas);
            } else if all.len() < SORTS {
                all.push(Assumed { namespace: one.namespace.clone(), components: vec![part] });
            }
        }
    }
    all
}

/// The clusters in which a workload is healthy.
pub fn healthy(items: &[AggregatedStatusItem]) -> BTreeSet<String> {
    let healthy = items.iter().filter(|item| item.health == Some(Health::Healthy));
    healthy.map(|item| item.cluster_name.clone()).collect()
}

fn key_of(binding: &ResourceBinding) -> BindingKey {
    (binding.namespace().to_owned(), binding.name().to_owned())
}

/// What a binding takes in a cluster that has so many of its replicas: nothing where it is no workload. Of a workload of several parts every
/// cluster has them all.
pub fn footprint(binding: &ResourceBinding, replicas: i32) -> Option<Assumed> {
    let spec = &binding.spec;
    if !spec.is_workload() {
        return None;
    }
    let namespace = spec.resource.namespace.clone();
    if spec.has_whole_sets() {
        return Some(Assumed { namespace, components: spec.components.clone() });
    }
    let requirements = spec.replica_requirements.as_ref().map(|wanted| ComponentReplicaRequirements {
        node_claim: wanted.node_claim.clone(),
        resource_request: wanted.resource_request.clone(),
        priority_class_name: wanted.priority_class_name.clone(),
    });
    let of_part = || spec.components.first()?.replica_requirements.clone();
    let requirements = of_part().or(requirements);
    let component =
        Component { name: spec.resource.name.clone(), replicas, replica_requirements: requirements };
    Some(Assumed { namespace, components: vec![component] })
}

impl Assumptions {
    /// What of a schedule no cluster's report shows yet: what is new in each cluster, beside what was new there a moment ago. (Karmada assumes the
    /// whole, so that a workload that grows counts twice.)
    pub fn unseen(
        &self,
        binding: &ResourceBinding,
        targets: &[TargetCluster],
        now: Duration,
    ) -> BTreeMap<String, Assumed> {
        let held = self.0.get(&key_of(binding)).filter(|entry| entry.holds(now));
        let placed: BTreeMap<&str, &TargetCluster> =
            binding.spec.clusters.iter().map(|before| (&*before.name, before)).collect();
        let unseen = targets.iter().filter_map(|target| {
            let before = placed.get(&*target.name);
            let known = held.and_then(|entry| entry.clusters.get(&target.name)).filter(|_| before.is_some());
            if binding.spec.has_whole_sets() && before.is_some() {
                // Parts are there whole.
                return Some((target.name.clone(), Assumed::clone(known?)));
            }
            let waiting = known.map_or(0, |known| known.components.iter().map(|part| part.replicas).sum());
            let grown = target.replicas - before.map_or(0, |before| before.replicas);
            let replicas = (waiting + grown).clamp(0, target.replicas.max(0));
            let counts = replicas > 0 || before.is_none();
            Some((target.name.clone(), footprint(binding, replicas)?)).filter(|_| counts)
        });
        unseen.collect()
    }

    /// A binding was placed, and takes `added`. In other clusters that it had or has nothing is assumed. That it was placed again renews all
    /// that is assumed of it.
    pub fn placed(
        &mut self,
        binding: &ResourceBinding,
        targets: &[TargetCluster],
        added: BTreeMap<String, Assumed>,
        now: Duration,
    ) {
        let key = key_of(binding);
        let both = binding.spec.clusters.iter().chain(targets);
        let over: BTreeSet<&str> = both.map(|target| &*target.name).collect();
        let entry = self.0.entry(key.clone()).or_insert(Entry { clusters: BTreeMap::new(), since: now });
        entry.clusters.retain(|name, _| !over.contains(&**name));
        if !added.is_empty() {
            entry.since = now;
            entry.clusters.extend(added.into_iter().map(|(name, assumed)| (name, Arc::new(assumed))));
        }
        self.keep(&key);
    }

    /// The status of a binding changed: in these clusters it was healthy, and in these it is. Where it turned healthy, it is in the cluster's
    /// report.
    pub fn reported(
        &mut self,
        namespace: &str,
        name: &str,
        before: &BTreeSet<String>,
        now: &BTreeSet<String>,
    ) {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(entry) = self.0.get_mut(&key) {
            entry.clusters.retain(|cluster, _| before.contains(cluster) || !now.contains(cluster));
        }
        self.keep(&key);
    }

    /// A binding is gone.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.0.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Whether anything is assumed of a binding.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        self.0.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// Forgets what is too old; how many bindings that were.
    pub fn collect(&mut self, now: Duration) -> usize {
        let before = self.0.len();
        self.0.retain(|_, entry| entry.holds(now));
        before - self.0.len()
    }

    /// What is assumed in each cluster, by binding.
    pub fn by_cluster(&self, now: Duration) -> BTreeMap<&str, Vec<(&str, &Assumed)>> {
        let mut all: BTreeMap<&str, Vec<(&str, &Assumed)>> = BTreeMap::new();
        for ((namespace, _), entry) in self.0.iter().filter(|(_, entry)| entry.holds(now)) {
            for (cluster, assumed) in &entry.clusters {
                all.entry(cluster).or_default().push((namespace, assumed));
            }
        }
        all
    }

    /// What is to be taken off each cluster's free room.
    pub fn taken(&self, now: Duration) -> Taken {
        let mut all = Taken::new();
        for entry in self.0.values().filter(|entry| entry.holds(now)) {
            for (cluster, assumed) in &entry.clusters {
                all.entry(cluster.clone()).or_default().push(assumed.clone());
            }
        }
        all
    }

    fn keep(&mut self, key: &BindingKey) {
        if self.0.get(key).is_some_and(|entry| entry.clusters.is_empty()) {
            self.0.remove(key);
        }
    }
}

impl Entry {
    fn holds(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) <= LONGEST
    }
}
