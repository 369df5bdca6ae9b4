//! Which clusters a binding means: those that shall have the template, and those that are being left.
//!
//! In: a binding. Out: names of clusters, and what they say of the Works that there are: a Work is known by the cluster that it stands in.

use std::collections::BTreeSet;

use karmada_api::binding::ResourceBinding;
use karmada_api::names;
use karmada_api::policy::PurgeMode;

/// The clusters that shall have the template: those chosen, and those of bindings that require it.
pub fn target_clusters(binding: &ResourceBinding) -> BTreeSet<&str> {
    let required = binding.spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    binding.spec.clusters.iter().chain(required).map(|target| target.name.as_str()).collect()
}

/// The clusters whose Works stay while they are being left: those of evictions that do not purge at once.
pub fn leaving(binding: &ResourceBinding) -> BTreeSet<&str> {
    from_clusters(binding, |mode| mode != Some(PurgeMode::Directly))
}

fn from_clusters(binding: &ResourceBinding, of: impl Fn(Option<PurgeMode>) -> bool) -> BTreeSet<&str> {
    let tasks = binding.spec.graceful_eviction_tasks.iter();
    tasks.filter(|task| of(task.purge_mode)).map(|task| task.from_cluster.as_str()).collect()
}

/// What a binding says of its Works, by the execution namespaces that they stand in.
pub struct Places<'a> {
    kept: BTreeSet<&'a str>,
    purged: BTreeSet<&'a str>,
}

impl<'a> Places<'a> {
    /// What this binding says.
    pub fn of(binding: &'a ResourceBinding) -> Self {
        let mut kept = target_clusters(binding);
        kept.extend(leaving(binding));
        Self { kept, purged: from_clusters(binding, |mode| mode == Some(PurgeMode::Directly)) }
    }

    /// Whether nobody wants a Work that stands there any more.
    pub fn is_unwanted(&self, namespace: &str) -> bool {
        !names::cluster_of_execution_namespace(namespace).is_some_and(|cluster| self.kept.contains(cluster))
    }

    /// Whether the binding leaves the cluster at once.
    pub fn is_purged(&self, namespace: &str) -> bool {
        names::cluster_of_execution_namespace(namespace).is_some_and(|cluster| self.purged.contains(cluster))
    }

    /// Whether a Work that stands there must be gone before anything new is made. One that stays, as another binding requires it, is waited
    /// for by nobody.
    pub fn goes_first(&self, namespace: &str) -> bool {
        self.is_purged(namespace) && self.is_unwanted(namespace)
    }
}
