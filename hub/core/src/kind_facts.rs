//! What decisions must know of a kind beside what an interpreter tells: one row for each kind that is more than its name.
//!
//! In: an apiVersion and a kind. Out: its row; [`NOTHING`] for any other one. Constants and functions without IO: nothing else in this
//! crate decides by a kind's name, except what is never propagated (`skipped_resources`) and what policies select.

use karmada_api::object;
use serde_json::Value;

/// A path in an object, by the names of its fields.
type FieldPath = &'static [&'static str];

/// What is known of one kind.
#[derive(Clone, Copy, Debug)]
pub struct KindFacts {
    kind: &'static str,
    group: &'static str,
    /// Where its containers (not the init containers) stand, as far as overriders of images, commands and args know it.
    pub containers: Option<FieldPath>,
    /// A total that is divided among clusters as its replicas are.
    pub divided_total: Option<FieldPath>,
    /// Fields of the spec that the hub's API server fills in: a member refuses the second without the first.
    pub filled_in_together: Option<[&'static str; 2]>,
    /// Whether an object takes others along where it goes, also such as no Work tells of: a namespace what is in it, a definition every
    /// object of its kind.
    pub takes_others: bool,
    /// Whether the hub itself needs its objects, so that nobody wants to hear that they wait for a policy.
    pub serves_the_hub: bool,
    /// Whether a status that says something tells of what is under way, which is nowhere once no cluster has the object.
    pub is_under_way: fn(&Value) -> bool,
}

/// A kind of which nothing is known.
pub const NOTHING: KindFacts = KindFacts {
    kind: "",
    group: "",
    containers: None,
    divided_total: None,
    filled_in_together: None,
    takes_others: false,
    serves_the_hub: false,
    is_under_way: |_| false,
};

const OF_APPS: KindFacts =
    KindFacts { group: "apps", containers: Some(&["spec", "template", "spec", "containers"]), ..NOTHING };

const ROWS: &[KindFacts] = &[
    KindFacts { kind: "Pod", containers: Some(&["spec", "containers"]), ..NOTHING },
    KindFacts { kind: "Service", filled_in_together: Some(["clusterIP", "clusterIPs"]), ..NOTHING },
    // It goes along without a policy.
    KindFacts { kind: "Namespace", takes_others: true, serves_the_hub: true, ..NOTHING },
    // It serves the hub first.
    KindFacts {
        kind: "CustomResourceDefinition",
        group: "apiextensions.k8s.io",
        takes_others: true,
        serves_the_hub: true,
        ..NOTHING
    },
    KindFacts { kind: "Deployment", ..OF_APPS },
    KindFacts { kind: "ReplicaSet", ..OF_APPS },
    KindFacts { kind: "DaemonSet", ..OF_APPS },
    KindFacts { kind: "StatefulSet", ..OF_APPS },
    KindFacts {
        kind: "Job",
        group: "batch",
        divided_total: Some(&["spec", "completions"]),
        is_under_way: |status| !is_over(status),
        ..OF_APPS
    },
    KindFacts { kind: "HorizontalPodAutoscaler", group: "autoscaling", is_under_way: |_| true, ..NOTHING },
];

/// Whether a Job has come to an end.
fn is_over(status: &Value) -> bool {
    status["conditions"].as_array().into_iter().flatten().any(|condition| {
        matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True"
    })
}

/// The row of a kind in its group.
pub fn of_kind(api_version: &str, kind: &str) -> &'static KindFacts {
    let (group, _) = object::group_version(api_version);
    ROWS.iter().find(|row| row.kind == kind && row.group == group).unwrap_or(&NOTHING)
}

/// The row of a kind of that name, in whichever group: what Karmada asks of objects by their kind alone.
pub fn of_name(kind: &str) -> &'static KindFacts {
    ROWS.iter().find(|row| row.kind == kind).unwrap_or(&NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_in_its_group_or_by_its_name_alone() {
        assert!(of_kind("batch/v1", "Job").divided_total.is_some());
        assert!(of_kind("batch.volcano.sh/v1alpha1", "Job").divided_total.is_none());
        assert!(of_name("Job").containers.is_some());
        assert!(of_kind("v1", "Namespace").takes_others && !of_kind("v1", "Service").takes_others);
        assert!(of_name("Spring").containers.is_none());
    }
}
