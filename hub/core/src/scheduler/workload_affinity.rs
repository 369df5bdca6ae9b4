//! Workloads that want to be together, or apart.
//!
//! In: bindings that are in groups, as they come, move and go. Out: for one binding, the clusters that its groups leave it. Of a group only how
//! many of its members are placed, and how many in each cluster, is counted: a question costs as much as the group has clusters, however many
//! members it has, and what is kept is never more than what the bindings themselves say.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::{BindingSpec, WorkloadAffinityGroups};

use super::filter::Unfit;

/// Namespace, whether its members keep apart, and the group's name.
type GroupKey = (String, bool, String);

/// All groups, and who is in them.
#[derive(Debug, Default)]
pub struct WorkloadAffinityIndex {
    groups: BTreeMap<GroupKey, Group>,
    members: BTreeMap<(String, String), Member>,
}

/// What is known of a group.
#[derive(Debug, Default)]
struct Group {
    /// How many members are placed.
    placed: usize,
    /// How many members each cluster has.
    clusters: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Member {
    groups: Vec<GroupKey>,
    clusters: BTreeSet<String>,
}

/// The clusters that its groups leave to a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedClusters {
    /// Where all others of its group are; none where it has no group, or nobody of it is placed.
    with: Option<BTreeSet<String>>,
    /// Where others are that it keeps apart from.
    not_with: BTreeSet<String>,
}

impl AllowedClusters {
    /// Whether a cluster is where the binding's group is. One that has the template already stays.
    ///
    /// # Errors
    /// [`Unfit::NotWithItsGroup`] where it is not.
    pub fn together(&self, cluster: &str, already_target: bool) -> Result<(), Unfit> {
        let fits = already_target || self.with.as_ref().is_none_or(|with| with.contains(cluster));
        if fits { Ok(()) } else { Err(Unfit::NotWithItsGroup) }
    }

    /// Whether none is there that the binding keeps apart from. One that has the template already stays.
    ///
    /// # Errors
    /// [`Unfit::WithItsAntiGroup`] where one is.
    pub fn apart(&self, cluster: &str, already_target: bool) -> Result<(), Unfit> {
        let fits = already_target || !self.not_with.contains(cluster);
        if fits { Ok(()) } else { Err(Unfit::WithItsAntiGroup) }
    }
}

fn keys(namespace: &str, groups: Option<&WorkloadAffinityGroups>) -> Vec<GroupKey> {
    let Some(groups) = groups else { return Vec::new() };
    let named = [(false, &groups.affinity_group), (true, &groups.anti_affinity_group)];
    let said = named.into_iter().filter(|(_, name)| !name.is_empty());
    said.map(|(apart, name)| (namespace.to_owned(), apart, name.clone())).collect()
}

impl WorkloadAffinityIndex {
    /// Takes note of a binding as it is now.
    pub fn put(&mut self, namespace: &str, name: &str, spec: &BindingSpec) {
        self.remove(namespace, name);
        let groups = keys(namespace, spec.workload_affinity_groups.as_ref());
        let clusters: BTreeSet<String> = spec.clusters.iter().map(|target| target.name.clone()).collect();
        if groups.is_empty() || clusters.is_empty() {
            return;
        }
        for key in &groups {
            let group = self.groups.entry(key.clone()).or_default();
            group.placed += 1;
            for cluster in &clusters {
                *group.clusters.entry(cluster.clone()).or_default() += 1;
            }
        }
        self.members.insert((namespace.to_owned(), name.to_owned()), Member { groups, clusters });
    }

    /// Forgets a binding.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(member) = self.members.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        for key in &member.groups {
            let Some(group) = self.groups.get_mut(key) else { continue };
            group.placed -= 1;
            for cluster in &member.clusters {
                if let Some(count) = group.clusters.get_mut(cluster) {
                    *count -= 1;
                }
            }
            group.clusters.retain(|_, count| *count > 0);
            if group.placed == 0 {
                self.groups.remove(key);
            }
        }
    }

    /// What its groups leave to a binding; it is no neighbour of its own.
    pub fn neighbours(&self, namespace: &str, name: &str, spec: &BindingSpec) -> AllowedClusters {
        let own = self.members.get(&(namespace.to_owned(), name.to_owned()));
        let mut neighbours = AllowedClusters::default();
        for key in keys(namespace, spec.workload_affinity_groups.as_ref()) {
            let Some(group) = self.groups.get(&key) else { continue };
            let own = own.filter(|member| member.groups.contains(&key));
            let others = |cluster: &str, count: usize| {
                count - usize::from(own.is_some_and(|member| member.clusters.contains(cluster)))
            };
            let placed = group.placed - usize::from(own.is_some());
            let counted = group.clusters.iter().map(|(cluster, count)| (cluster, others(cluster, *count)));
            if key.1 {
                neighbours.not_with = counted.filter(|(_, n)| *n > 0).map(|(c, _)| c.clone()).collect();
            } else if placed > 0 {
                let shared = counted.filter(|(_, n)| *n == placed).map(|(c, _)| c.clone());
                neighbours.with = Some(shared.collect());
            }
        }
        neighbours
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.members.is_empty()
    }
}
