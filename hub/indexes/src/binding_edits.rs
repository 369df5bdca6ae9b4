//! Bindings that went, or that say otherwise now what the detector writes of their template and its policy: somebody else may have written them.
//!
//! In: bindings as they were and are. Out: the templates of those, to whoever listens. Where a binding goes and what else is decided in it is no
//! such change: it would wake the detector at every placement.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use karmada_api::binding::{BindingSpec, ObjectReference};
use karmada_api::strings::labels;
use parking_lot::RwLock;

/// Hears of a template whose binding went or was edited.
type Listener = Box<dyn Fn(&ObjectReference) + Send + Sync>;

/// Who listens.
#[derive(Default)]
pub(crate) struct BindingEdits(RwLock<Vec<Listener>>);

impl BindingEdits {
    pub(crate) fn listen(&self, hear: impl Fn(&ObjectReference) + Send + Sync + 'static) {
        self.0.write().push(Box::new(hear));
    }

    pub(crate) fn tell(&self, template: &ObjectReference) {
        self.0.read().iter().for_each(|hear| hear(template));
    }
}

/// What the detector writes, as one number: two that are equal say the same.
pub(crate) fn digest(spec: &BindingSpec, marks: &BTreeMap<String, String>) -> u64 {
    let suspension = spec.suspension.as_ref().map(|held| (held.dispatching, &held.dispatching_on_clusters));
    let claims =
        [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID].map(|key| marks.get(key));
    let of = &spec.resource;
    let workload =
        (spec.replicas, &spec.replica_requirements, &spec.components, &spec.workload_affinity_groups);
    let policy = (&spec.placement, &spec.failover, spec.conflict_resolution, &spec.schedule_priority);
    let flags = (spec.propagate_deps, &spec.scheduler_name, spec.preserve_resources_on_deletion, suspension);
    let resource = (&of.api_version, &of.kind, &of.namespace, &of.name, &of.uid);
    let mut digest = DefaultHasher::new();
    // What cannot be written as JSON was not read from it.
    serde_json::to_vec(&(resource, workload, policy, flags, claims)).unwrap_or_default().hash(&mut digest);
    digest.finish()
}
