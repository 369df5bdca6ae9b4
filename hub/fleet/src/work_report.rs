//! What a site says of a Work, written into it.
//!
//! In: a report of one site's agent, of whatever content it liked, and the Work as it is. Out: the Work with what the report can speak for:
//! the outcome of the body that there is now, statuses for the manifests that it has, the end of the Work that is meant.

use bytes::Bytes;
use karmada_api::strings::{conditions, finalizers};
use karmada_gateway::body_hash;
use karmada_gateway::ports::WorkReport;
use karmada_proto::digest::{self, Content, ReportedOutcome};
use karmada_schema::condition;
use karmada_schema::object::meta;
use serde_json::{Value, json};

/// The body of a Work: its generation, and the hash of what is in it in that generation.
pub type Body = (u64, Bytes);

/// A Work's generation; 0 where it has none.
pub fn generation(work: &Value) -> u64 {
    work["metadata"]["generation"].as_u64().unwrap_or(0)
}

/// Reads what runs on the site, as JSON; nothing where the report does not say.
///
/// # Errors
/// It is no JSON.
pub fn statuses(report: &WorkReport) -> Result<Option<Value>, serde_json::Error> {
    report.manifest_statuses.as_ref().map(|bytes| serde_json::from_slice(bytes)).transpose()
}

/// Writes a report into the Work that it is about; a Work of another life stays as it is. `present` is the body that the Work has.
pub fn put(
    work: &mut Value,
    report: &WorkReport,
    statuses: Option<&Value>,
    present: Option<&Body>,
    now: &str,
) {
    if meta::text(work, "uid") != report.uid {
        return;
    }
    // How an older spec fared says nothing of the one there is now; what runs is told all the same.
    let generation = generation_of(report, generation(work), present);
    if let (Some(applied), Some(generation)) = (report.applied.as_ref(), generation) {
        let said = json!({
            "type": "Applied", "status": if applied.ok { "True" } else { "False" },
            "reason": applied.reason, "message": applied.message, "observedGeneration": generation,
            "lastTransitionTime": now,
        });
        condition::put(work, said);
        say_dispatched(work, now);
    }
    let manifests = work["spec"]["workload"]["manifests"].as_array().map_or(0, Vec::len);
    // More of them than there are manifests speak of nothing.
    if let Some(statuses) = statuses.filter(|all| are_statuses(all, manifests)) {
        work["status"]["manifestStatuses"] = statuses.clone();
    }
}

/// A Work that its agent has is being dispatched: said with the first report, so that it costs no write of its own. Of one that is, or was, held back its
/// controller says it.
fn say_dispatched(work: &mut Value, now: &str) {
    let is_held_back = work["spec"]["suspendDispatching"] == true;
    if is_held_back || condition::find(work, conditions::DISPATCHING).is_some() {
        return;
    }
    let said = json!({
        "type": conditions::DISPATCHING, "status": conditions::TRUE, "reason": conditions::DISPATCHING_REASON,
        "message": conditions::DISPATCHING_MESSAGE, "lastTransitionTime": now,
    });
    condition::put(work, said);
}

/// How a Work stands, as its agent would tell it; `None` where there is nothing to tell, or it cannot be read. What is being deleted waits
/// for the agent's word in any case.
pub fn content(work: &Bytes) -> Option<Content> {
    let hash = body_hash(work)?;
    let work: Value = serde_json::from_slice(work).ok()?;
    let text = |condition: &'_ Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let applied = condition::find(&work, "Applied");
    let statuses = digest::statuses(&work["status"]["manifestStatuses"]);
    if applied.is_none() && statuses.is_none() && !meta::deleting(&work) {
        return None;
    }
    let said = applied
        .map(|applied| (applied["status"] == "True", text(applied, "reason"), text(applied, "message")));
    Some(digest::status_row(ReportedOutcome {
        uid: meta::text(&work, "uid"),
        hash: &hash,
        generation: applied.and_then(|applied| applied["observedGeneration"].as_u64()).unwrap_or_default(),
        applied: said.as_ref().map(|(ok, reason, message)| (*ok, reason.as_str(), message.as_str())),
        statuses,
    }))
}

/// Lets go of a Work whose objects the site removed. Whether this is the life of the Work that is meant, and it waits for that.
pub fn let_go(work: &mut Value, uid: &str) -> bool {
    let is_meant = meta::text(work, "uid") == uid && meta::deleting(work);
    if is_meant {
        let mut left = meta::finalizers(work);
        left.retain(|finalizer| finalizer != finalizers::EXECUTION);
        meta::of(work).insert("finalizers".into(), json!(left));
    }
    is_meant
}

/// Whether these can be the statuses of so many manifests.
fn are_statuses(reported: &Value, manifests: usize) -> bool {
    reported.as_array().is_some_and(|all| all.len() <= manifests && all.iter().all(Value::is_object))
}

/// The generation for which a report says how applying it went; `None` where it is not about the body that there is. A generation is
/// a number, which another life of the hub gave to other content, and which agents of an earlier version do not say: the body's hash
/// decides. `live`: the Work's generation; `present`: a generation of it, and the hash of the body that it has in that one.
fn generation_of(report: &WorkReport, live: u64, present: Option<&Body>) -> Option<u64> {
    let is_named = report.generation == 0 || report.generation == live;
    let is_of_body = report
        .hash
        .as_ref()
        .is_none_or(|told| present.is_some_and(|(generation, hash)| *generation == live && hash == told));
    (is_named && is_of_body).then_some(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_speaks_for_its_own_generation_and_body_alone() {
        let present = (2, Bytes::from_static(b"this"));
        for (told, hash, live, stamps) in [
            (1, Some("this"), 2, None),
            (2, Some("this"), 2, Some(2)),
            (3, Some("this"), 2, None),
            (2, Some("that"), 2, None),
            (2, Some(""), 2, None),
            (2, Some("this"), 3, None),
            (3, Some("this"), 3, None),
            (0, Some("this"), 2, Some(2)),
            (0, Some("that"), 2, None),
            (2, None, 2, Some(2)),
            (1, None, 2, None),
        ] {
            let report = WorkReport {
                key: "w".into(),
                uid: "u".into(),
                revision: 1,
                generation: told,
                hash: hash.map(Bytes::from),
                applied: None,
                manifest_statuses: None,
            };
            let of = generation_of(&report, live, Some(&present));
            assert_eq!(of, stamps, "{told} of {live}, {hash:?}");
            assert_eq!(
                generation_of(&report, live, None),
                stamps.filter(|_| hash.is_none()),
                "no body is known"
            );
        }
    }

    fn work() -> Value {
        json!({"metadata": {"uid": "u", "generation": 2, "finalizers": [finalizers::EXECUTION, "mine"]},
            "spec": {"workload": {"manifests": [{}]}}})
    }

    fn report(uid: &str, ok: bool) -> WorkReport {
        let applied = karmada_gateway::ports::Applied { ok, reason: "r".into(), message: "m".into() };
        WorkReport {
            key: "w".into(),
            uid: uid.into(),
            revision: 1,
            generation: 2,
            hash: None,
            applied: Some(applied),
            manifest_statuses: None,
        }
    }

    #[test]
    fn a_report_of_another_life_changes_nothing_and_statuses_are_as_many_as_manifests() {
        let mut told = work();
        put(&mut told, &report("other", true), Some(&json!([{"status": {}}])), None, "now");
        assert_eq!(told, work());
        for nonsense in [json!([{}, {}]), json!([1]), json!({}), Value::Null] {
            put(&mut told, &report("u", true), Some(&nonsense), None, "now");
            assert!(told["status"]["manifestStatuses"].is_null(), "{nonsense}");
        }
        put(&mut told, &report("u", false), Some(&json!([{"status": {}}])), None, "now");
        assert_eq!(told["status"]["manifestStatuses"], json!([{"status": {}}]));
        let applied = condition::find(&told, "Applied").unwrap();
        assert_eq!((&applied["status"], &applied["observedGeneration"]), (&json!("False"), &json!(2)));
    }

    #[test]
    fn a_work_that_an_agent_has_is_dispatched_unless_it_is_held_back() {
        let mut told = work();
        put(&mut told, &report("u", false), None, None, "now");
        let said = condition::find(&told, "Dispatching").unwrap();
        assert_eq!((&said["status"], &said["lastTransitionTime"]), (&json!("True"), &json!("now")));
        put(&mut told, &report("u", true), None, None, "later");
        let said = condition::find(&told, "Dispatching").unwrap();
        assert_eq!(said["lastTransitionTime"], "now", "it is said once");
        let mut held = work();
        held["spec"]["suspendDispatching"] = json!(true);
        put(&mut held, &report("u", true), None, None, "now");
        assert_eq!(condition::find(&held, "Dispatching"), None);
    }

    #[test]
    fn a_work_is_let_go_of_by_what_was_removed_of_its_own_life_once_it_waits_for_that() {
        let mut held = work();
        assert!(!let_go(&mut held, "u"), "nobody deleted it");
        held["metadata"]["deletionTimestamp"] = json!("2026-05-01T00:00:00Z");
        assert!(!let_go(&mut held, "another"));
        assert_eq!(held["metadata"]["finalizers"], work()["metadata"]["finalizers"]);
        assert!(let_go(&mut held, "u"));
        assert_eq!(held["metadata"]["finalizers"], json!(["mine"]));
    }
}
