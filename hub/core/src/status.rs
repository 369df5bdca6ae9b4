//! How a template stands in all its clusters.
//!
//! In: the Works of a binding. Out: the binding's aggregated status and its condition FullyApplied, and the
//! template's status.

mod left_out;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karmada_api::binding::{AggregatedStatusItem, BindingStatus, Health, ResourceBinding};
use karmada_api::strings::conditions;
use karmada_api::work::Work;
use karmada_api::{names, object};
use karmada_interpreter::{Answer, InterpretError, Interpreter, Operation};
use serde_json::{Map, Value};

use self::left_out::without_unreadable;
pub use self::left_out::{newly_left_out, within_an_object};
use crate::interpreter_webhook::observed;
use crate::kind_facts;
use crate::targets::{leaving, target_clusters};
use crate::{condition, set_condition};

/// How one Work of a binding stands: none where it is on its way out. What is not applied says why, and nobody knows its health. Of the Work's
/// manifests nothing is read. What a cluster reports and no object of the kind can say is left out, and the item says so.
pub fn item(binding: &ResourceBinding, work: &Work) -> Option<AggregatedStatusItem> {
    reported_item(work).map(|item| without_unreadable(binding, item))
}

/// How one Work of a binding stands where a webhook is asked what its cluster reports.
#[derive(Debug, PartialEq)]
pub struct Interpreted {
    /// As of [`item`]. Of what nobody has said yet it says what it said before.
    pub item: AggregatedStatusItem,
    /// What has no answer, or none yet.
    pub troubles: Vec<(Operation, InterpretError)>,
}

/// The same as [`item`] of kinds of which a webhook is asked: the status is what `interpreter` says of the object as its cluster has it, and
/// so is the health where `reads_health`; else it is what the site said. `before`: what was said of this cluster the last time.
pub fn interpreted(
    binding: &ResourceBinding,
    work: &Work,
    before: Option<&AggregatedStatusItem>,
    (interpreter, reads_health): (&dyn Interpreter, bool),
) -> Option<Interpreted> {
    let mut item = reported_item(work)?;
    let (last_status, last_health) =
        before.map(|item| (item.status.clone(), item.health)).unwrap_or_default();
    let mut troubles = Vec::new();
    let reported = work.status.manifest_statuses.first().and_then(|status| status.status.as_ref());
    if let (Some(manifest), Some(reported)) = (work.spec.workload.manifests.first(), reported) {
        let object = observed::object(manifest, reported);
        // A site that was not told yet to report all of it does so soon.
        item.status = match object.as_ref().map(|object| interpreter.reflect_status(object)) {
            Some(Ok(status)) => status,
            Some(Err(InterpretError::NoHook { .. })) => None,
            Some(Err(error)) => {
                troubles.push((Operation::InterpretStatus, error));
                last_status
            }
            None => last_status,
        };
        if item.applied && reads_health {
            item.health = Some(match object.map(|object| interpreter.health(&object)) {
                Some(Ok(true) | Err(InterpretError::NoHook { .. })) => Health::Healthy,
                Some(Ok(false)) => Health::Unhealthy,
                Some(Err(error)) => {
                    let waits = matches!(error, InterpretError::Unanswered(_));
                    troubles.push((Operation::InterpretHealth, error));
                    last_health.filter(|_| waits).unwrap_or(Health::Unknown)
                }
                None => last_health.unwrap_or(Health::Unknown),
            });
        }
    }
    Some(Interpreted { item: without_unreadable(binding, item), troubles })
}

/// Whether a cluster says of a Work as it is now that it is applied and healthy. `is_judged_here`: its health is for a webhook of the hub's side to tell,
/// and not asked for. A Work that is held back says nothing of what it holds.
pub fn is_reported_healthy(binding: &ResourceBinding, work: &Work, is_judged_here: bool) -> bool {
    let is_held_back = work.spec.suspend_dispatching == Some(true);
    let said = item(binding, work).filter(|item| item.applied && !is_held_back);
    said.is_some_and(|item| is_judged_here || item.health == Some(Health::Healthy))
}

fn reported_item(work: &Work) -> Option<AggregatedStatusItem> {
    if work.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let cluster = names::cluster_of_execution_namespace(work.metadata.namespace.as_deref()?)?;
    let applied = work.status.condition(conditions::APPLIED);
    let reported = work.status.manifest_statuses.first();
    let is_applied = applied.is_some_and(|condition| condition.status == conditions::TRUE);
    let (is_applied, message, health) = match overtaken(work, applied) {
        Some(message) if is_applied => (false, message, Health::Unknown),
        _ if is_applied => {
            (true, String::new(), reported.and_then(|status| status.health).unwrap_or(Health::Unknown))
        }
        _ => (false, applied.map(|condition| condition.message.clone()).unwrap_or_default(), Health::Unknown),
    };
    Some(AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        status: reported.and_then(|status| status.status.clone()).map(observed::unmarked),
        applied: is_applied,
        applied_message: message,
        health: Some(health),
    })
}

/// What to say where a cluster's word on a Work is of an older generation than the Work has now: the newer one waits for
/// a cluster that is away, or is on its way there. A Work that is held back waits for nobody: what was applied stands.
fn overtaken(work: &Work, applied: Option<&Condition>) -> Option<String> {
    if work.spec.suspend_dispatching == Some(true) {
        return None;
    }
    let (had, has) = (applied?.observed_generation?, work.metadata.generation?);
    (had < has)
        .then(|| format!("generation {has} has not been applied yet; the cluster has generation {had}"))
}

/// Whether every target has it applied, and every cluster that is being left still has it.
pub fn fully_applied(binding: &ResourceBinding, items: &[AggregatedStatusItem]) -> bool {
    let targets = target_clusters(binding);
    let applied: BTreeSet<&str> =
        items.iter().filter(|item| item.applied).map(|item| item.cluster_name.as_str()).collect();
    !targets.is_empty() && targets.union(&leaving(binding)).all(|cluster| applied.contains(cluster))
}

/// Whether the template is to show what its clusters report. Before it was ever placed there is nothing to tell it;
/// once nothing is placed any more, it is told that.
pub fn tells_the_template(binding: &ResourceBinding, has_works: bool) -> bool {
    let placed_once = binding.status.last_scheduled_time.is_some();
    placed_once || !binding.spec.clusters.is_empty() || has_works
}

/// The binding's status with what its Works report (see [`item`]), in any order; none if nothing changed.
pub fn binding_status(
    binding: &ResourceBinding,
    mut items: Vec<AggregatedStatusItem>,
    now: Timestamp,
) -> Option<BindingStatus> {
    items.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    let mut status = binding.status.clone();
    let said = if fully_applied(binding, &items) {
        let message = conditions::FULLY_APPLIED_SUCCESS_MESSAGE;
        condition(
            conditions::FULLY_APPLIED,
            conditions::TRUE,
            conditions::FULLY_APPLIED_SUCCESS,
            message,
            now,
        )
    } else {
        let message = conditions::FULLY_APPLIED_FAILED_MESSAGE;
        condition(
            conditions::FULLY_APPLIED,
            conditions::FALSE,
            conditions::FULLY_APPLIED_FAILED,
            message,
            now,
        )
    };
    set_condition(&mut status.conditions, said);
    status.aggregated_status = items;
    (status != binding.status).then_some(status)
}

/// The conditions of a Work with what holds of its dispatching; none if nothing changed. Of a Work that was never held back it is said
/// with the first report of its agent, so that the common case costs no write.
pub fn dispatching(work: &Work, now: Timestamp) -> Option<Vec<Condition>> {
    let suspended = work.spec.suspend_dispatching == Some(true);
    let said = match (suspended, work.status.condition(conditions::DISPATCHING)) {
        (true, _) => condition(
            conditions::DISPATCHING,
            conditions::FALSE,
            conditions::SUSPEND_DISPATCHING,
            conditions::SUSPEND_DISPATCHING_MESSAGE,
            now,
        ),
        (false, Some(_)) => condition(
            conditions::DISPATCHING,
            conditions::TRUE,
            conditions::DISPATCHING_REASON,
            conditions::DISPATCHING_MESSAGE,
            now,
        ),
        (false, None) => return None,
    };
    let mut list = work.status.conditions.clone();
    set_condition(&mut list, said).then_some(list)
}

/// The template with the status that its members report; none if nothing changed, or if nobody knows how to
/// aggregate its kind.
///
/// # Errors
/// A member's status cannot be read.
pub fn template_status(
    template: &Value,
    items: &[AggregatedStatusItem],
    interpreter: &dyn Interpreter,
    now: Timestamp,
) -> Answer<Option<Value>> {
    let (api_version, kind) = (object::api_version(template), object::kind(template));
    if !interpreter.enabled(api_version, kind, Operation::AggregateStatus) {
        return Ok(None);
    }
    let mut wanted = template.clone();
    interpreter.aggregate_status(&mut wanted, items, now)?;
    if items.is_empty() && wanted.get("status") == template.get("status") && runs_on(template) {
        object::root(&mut wanted).insert("status".to_owned(), Value::Object(Map::new()));
    }
    Ok((wanted.get("status") != template.get("status")).then_some(wanted))
}

/// Whether a status tells of something under way, which is nowhere once no cluster has the template. Of kinds that no
/// clusters are nothing to add up for; what a Job came to in the end stays.
fn runs_on(template: &Value) -> bool {
    let status = &template["status"];
    let says = status.as_object().is_some_and(|status| !status.is_empty());
    says && (kind_facts::of_name(object::kind(template)).is_under_way)(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap_or_default()
    }

    #[test]
    fn only_a_work_that_was_held_back_speaks_of_dispatching() {
        let mut work = Work::default();
        assert_eq!(dispatching(&work, now()), None);
        work.spec.suspend_dispatching = Some(true);
        work.status.conditions = dispatching(&work, now()).unwrap();
        assert_eq!(work.status.conditions[0].status, conditions::FALSE);
        assert_eq!(dispatching(&work, now()), None, "said once");
        work.spec.suspend_dispatching = None;
        work.status.conditions = dispatching(&work, now()).unwrap();
        assert_eq!(work.status.conditions[0].status, conditions::TRUE);
    }
}
