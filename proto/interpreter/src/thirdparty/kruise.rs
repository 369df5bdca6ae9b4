//! OpenKruise: CloneSet, Advanced StatefulSet, Advanced DaemonSet and UnitedDeployment.
//!
//! In: their objects, and what members report of them. Out: replicas of a pod template, sums, and the health of a rollout.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use karmada_api::object;
use serde_json::Value;

use super::conditions::by_type;
use super::pods;
use super::read::{self, present, required, whole};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{Rollup, roll_up};
use crate::aggregate::status_mut;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject, Replicas};

/// CloneSet.
pub const CLONE_SET: Row = Row {
    replicas: Some(replicas),
    revise: Some(revise),
    aggregate: Some(aggregate_clone_set),
    reflect: Some(|object| reflect(object, &CLONE_SET_STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

/// StatefulSet.
pub const STATEFUL_SET: Row = Row {
    replicas: Some(replicas),
    revise: Some(revise),
    aggregate: Some(aggregate_stateful_set),
    reflect: Some(|object| reflect(object, &STATEFUL_SET_STATUS)),
    health: Some(health),
    dependencies: Some(dependencies),
    ..NONE
};

/// DaemonSet.
pub const DAEMON_SET: Row = Row {
    aggregate: Some(aggregate_daemon_set),
    reflect: Some(|object| reflect(object, &DAEMON_SET_STATUS)),
    health: Some(daemon_set_health),
    dependencies: Some(dependencies),
    ..NONE
};

/// UnitedDeployment.
pub const UNITED_DEPLOYMENT: Row = Row {
    replicas: Some(united_replicas),
    revise: Some(revise),
    aggregate: Some(aggregate_united),
    reflect: Some(|object| reflect(object, &UNITED_STATUS)),
    health: Some(united_health),
    dependencies: Some(united_dependencies),
    ..NONE
};

const CLONE_SET_STATUS: Reflection = Reflection {
    fields: &[
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedReadyReplicas",
        "expectedUpdatedReplicas",
        "currentRevision",
        "updateRevision",
        "labelSelector",
        "observedGeneration",
    ],
    counts: &[],
    generations: Generations::Told,
};

const STATEFUL_SET_STATUS: Reflection = Reflection {
    fields: &[
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
        "updatedReadyReplicas",
        "currentRevision",
        "updateRevision",
        "observedGeneration",
    ],
    counts: &[],
    generations: Generations::Told,
};

const DAEMON_SET_STATUS: Reflection = Reflection {
    fields: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "daemonSetHash",
        "observedGeneration",
    ],
    counts: &[],
    generations: Generations::Told,
};

const UNITED_STATUS: Reflection = Reflection {
    fields: &[
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "unavailableReplicas",
        "conditions",
        "observedGeneration",
    ],
    counts: &[],
    generations: Generations::Told,
};

/// The pod template, which each of these has.
fn template(object: &Value) -> Answer<&Value> {
    required(object, &["spec", "template"])
}

fn replicas(object: &Value) -> Answer<Replicas> {
    pods::replicas(read::replicas(object, &["spec", "replicas"])?, template(object)?)
}

fn revise(object: &mut Value, replicas: i64) {
    object::set(object, &["spec", "replicas"], Value::from(replicas));
}

/// What the pod template refers to; a pod that refers to nothing has no dependencies, which is no error.
fn dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    pods::references(object, [template(object)?])
}

fn aggregate_clone_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const OF: Rollup = Rollup {
        sums: &[
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "updatedReplicas",
            "updatedReadyReplicas",
            "expectedUpdatedReplicas",
        ],
        texts: &["currentRevision", "updateRevision", "labelSelector"],
    };
    roll_up(object, items, &OF)
}

fn aggregate_stateful_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const OF: Rollup = Rollup {
        sums: &[
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
            "updatedReadyReplicas",
        ],
        texts: &["currentRevision", "updateRevision"],
    };
    roll_up(object, items, &OF)
}

fn aggregate_daemon_set(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const OF: Rollup = Rollup {
        sums: &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
        ],
        texts: &["daemonSetHash"],
    };
    roll_up(object, items, &OF)
}

/// Sums, and the last condition of each type; where no member has one, those of before stay.
fn aggregate_united(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const OF: Rollup = Rollup {
        sums: &["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas"],
        texts: &[],
    };
    roll_up(object, items, &OF)?;
    let conditions = by_type(items, "type", |_, _| true);
    if !conditions.is_empty() {
        status_mut(object).insert("conditions".to_owned(), Value::Array(conditions));
    }
    Ok(())
}

/// Whether the member's controller has seen the object as it is now.
fn observed(object: &Value, status: &Value) -> bool {
    status.get("observedGeneration").and_then(Value::as_i64) == Some(object::generation(object))
}

/// The rollout is over: this generation was seen, all replicas are updated, all updated ones available.
fn health(object: &Value) -> Answer<bool> {
    let (spec, status) = (required(object, &["spec"])?, required(object, &["status"])?);
    if !observed(object, status) {
        return Ok(false);
    }
    let updated = whole(status, "updatedReplicas")?;
    let wanted = present(spec, &["replicas"]).map(|_| whole(spec, "replicas")).transpose()?;
    Ok(wanted.is_none_or(|wanted| updated >= wanted) && whole(status, "availableReplicas")? >= updated)
}

/// As above, for every node that shall have a pod.
fn daemon_set_health(object: &Value) -> Answer<bool> {
    let status = required(object, &["status"])?;
    if !observed(object, status) {
        return Ok(false);
    }
    let updated = whole(status, "updatedNumberScheduled")?;
    Ok(updated >= whole(status, "desiredNumberScheduled")? && whole(status, "numberAvailable")? >= updated)
}

/// As above; before there is a status it is not healthy.
fn united_health(object: &Value) -> Answer<bool> {
    let known = [["spec"], ["status"]].iter().all(|path| present(object, path).is_some());
    if known { health(object) } else { Ok(false) }
}

/// The pod template of the workload that each subset is made from.
fn subset_template(object: &Value) -> Answer<Option<&Value>> {
    let subsets = template(object)?;
    let kinds =
        ["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"];
    Ok(kinds.iter().find_map(|kind| present(subsets, &[kind, "spec", "template"])))
}

fn united_replicas(object: &Value) -> Answer<Replicas> {
    let count = read::replicas(object, &["spec", "replicas"])?;
    let requirements = subset_template(object)?.map_or(Ok(None), pods::requirements)?;
    Ok(Replicas { count, requirements })
}

fn united_dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    pods::references(object, subset_template(object)?)
}
