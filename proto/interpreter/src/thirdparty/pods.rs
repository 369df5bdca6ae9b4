//! Pod templates inside of other people's kinds: what one replica asks for, the parts of a workload, what they refer to.
//!
//! In: templates as JSON. Out: as the native kinds answer of theirs.

use karmada_api::binding::{Component, ComponentReplicaRequirements, NodeClaim, ReplicaRequirements};
use serde_json::Value;

use crate::dependencies::{DependentObject, References, of_pod_spec};
use crate::replicas::{QuotaEstimate, pod_requirements};
use crate::{Answer, Replicas};

/// What a pod of this template asks for, and its priority class: quotas may hold for Pods of some classes only, and whoever
/// heeds none leaves the class out. An empty selector asks for nothing.
pub fn requirements(template: &Value) -> Answer<Option<ReplicaRequirements>> {
    let Some(spec) = template.get("spec") else { return Ok(None) };
    // Lists that are none would be read as empty otherwise.
    of_pod_spec(template, Some(spec))?;
    let mut wanted = pod_requirements(spec, QuotaEstimate::On)?.unwrap_or_default();
    wanted.node_claim = wanted.node_claim.filter(|claim| *claim != NodeClaim::default());
    Ok(Some(wanted).filter(|wanted| *wanted != ReplicaRequirements::default()))
}

/// That many pods of a template.
pub fn replicas(count: i32, template: &Value) -> Answer<Replicas> {
    Ok(Replicas { count, requirements: requirements(template)? })
}

/// What a replica asks for, as a part says it.
pub fn of_part(wanted: ReplicaRequirements) -> ComponentReplicaRequirements {
    let ReplicaRequirements { node_claim, resource_request, priority_class_name, .. } = wanted;
    ComponentReplicaRequirements { node_claim, resource_request, priority_class_name }
}

/// A part of a workload: that many pods of a template.
pub fn part(name: &str, replicas: i32, template: Option<&Value>) -> Answer<Component> {
    let wanted = template.map_or(Ok(None), requirements)?;
    Ok(Component { name: name.to_owned(), replicas, replica_requirements: wanted.map(of_part) })
}

/// What pods of these templates refer to.
pub fn references<'a>(
    object: &Value,
    templates: impl IntoIterator<Item = &'a Value>,
) -> Answer<Vec<DependentObject>> {
    let mut references = References::of(object);
    for spec in templates.into_iter().filter_map(|template| template.get("spec")) {
        references.add_pod(spec)?;
    }
    Ok(references.sorted())
}
