//! The resources that ship with the hub: names, scope, verbs, subresources, table columns.
//!
//! In: `data/catalogue.jsonl`, one resource a line, compiled in. Out: their descriptions, read once and kept; and definitions, made anew
//! for each caller, in which a description is joined with its row and its schema.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use karmada_definitions::description::{Resource, Style};
use karmada_definitions::resource::{Catalogue, Family, ResourceDefinition, Shipped, StorageId, named};
use karmada_schema::Schemas;

use crate::rows;

static TEXT: &str = include_str!("../data/catalogue.jsonl");

/// Every shipped resource, in discovery's order.
pub fn resources() -> &'static [Resource] {
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(|| {
        TEXT.lines()
            .map(|line| {
                serde_json::from_str(line).expect("the embedded catalogue parses, as the crate's tests show")
            })
            .collect()
    })
}

/// The resources that ship with the hub.
pub fn shipped() -> Catalogue {
    Catalogue::new(resources().iter().map(|resource| Arc::new(definition(resource))))
}

/// Of these, the resources that are Kubernetes' own: what a member cluster serves.
pub fn of_kubernetes() -> Catalogue {
    let own = resources().iter().filter(|resource| !resource.group.ends_with("karmada.io"));
    Catalogue::new(own.map(|resource| Arc::new(definition(resource))))
}

fn definition(resource: &'static Resource) -> ResourceDefinition {
    let (storage_group, storage_version) = stored_as(resource);
    let storage = if storage_group.is_empty() { "core" } else { storage_group };
    ResourceDefinition {
        family: if resource.style == Style::Go { Family::Builtin } else { Family::Custom },
        storage: StorageId(format!("{storage}/{}", resource.plural).into()),
        storage_version: storage_version.into(),
        storage_group: storage_group.into(),
        row: rows::find(&resource.group, &resource.version, &resource.kind, resource.style),
        shipped: Some(Shipped {
            resource,
            schema: Schemas::builtin().of(&resource.group, &resource.version, &resource.kind),
        }),
        ..named(resource)
    }
}

/// Group and version that a resource is stored in: its own, but for events (core) and kinds with an older version beside.
fn stored_as(resource: &Resource) -> (&str, &str) {
    if resource.group == "events.k8s.io" {
        return ("", "v1");
    }
    let siblings = resources().iter().filter(|r| r.group == resource.group && r.plural == resource.plural);
    let stored = siblings.clone().find(|r| r.storage).or_else(|| siblings.clone().next());
    (&resource.group, stored.map_or(resource.version.as_str(), |r| r.version.as_str()))
}

/// The resource of a kind.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    type Key = (&'static str, &'static str, &'static str);
    static INDEX: OnceLock<BTreeMap<Key, usize>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let all = resources().iter().enumerate();
        all.map(|(at, r)| ((r.group.as_str(), r.version.as_str(), r.kind.as_str()), at)).collect()
    });
    index.get(&(group, version, kind)).map(|at| &resources()[*at])
}

/// How a kind's bodies are treated; kinds without a resource (lists, options, Scale) are Go types.
pub fn style(group: &str, version: &str, kind: &str) -> Style {
    of_kind(group, version, kind).map_or(Style::Go, |resource| resource.style)
}

#[cfg(test)]
mod tests {
    use super::{Resource, resources};

    /// Karmada's kinds that something acts on. Of each other one, whoever writes it is told that nothing does.
    const ACTING: [&str; 21] = [
        "Cluster",
        "ClusterTaintPolicy",
        "CronFederatedHPA",
        "FederatedHPA",
        "FederatedResourceQuota",
        "LinkPolicy",
        "ResidencyRule",
        "MultiClusterService",
        "Remedy",
        "ServiceExport",
        "ServiceImport",
        "WorkloadRebalancer",
        "ClusterOverridePolicy",
        "ClusterPropagationPolicy",
        "ClusterResourceBinding",
        "OverridePolicy",
        "PropagationPolicy",
        "ResourceBinding",
        "ResourceInterpreterCustomization",
        "ResourceInterpreterWebhookConfiguration",
        "Work",
    ];

    #[test]
    fn each_of_karmadas_kinds_acts_or_says_that_it_does_not() {
        let fleet = |group: &str| group.ends_with(".karmada.io") || group == "multicluster.x-k8s.io";
        // What cannot be written needs nobody who acts on it.
        let written = |resource: &&Resource| fleet(&resource.group) && !resource.is_virtual;
        for resource in resources().iter().filter(written) {
            let (kind, inert) = (
                resource.kind.as_str(),
                karmada_api::ignored_fields::is_inert(&resource.group, &resource.kind),
            );
            assert_ne!(ACTING.contains(&kind), inert, "{kind}");
        }
    }
}
