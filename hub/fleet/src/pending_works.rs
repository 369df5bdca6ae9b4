//! Which Works of a cluster have not got there: not applied as they are now, or still to be taken away.
//!
//! In: a Work as JSON; or how far all of a cluster's have got, and the moment. Out: since when it waits; or how many wait, and for whom. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::strings::{conditions, labels};
use karmada_core::removal_limit::{self, held_since_text};
use karmada_gateway::fleet::{WorkProgress, WorkProgressCache};
use serde_json::Value;

/// What of a cluster has not got there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// How many Works.
    pub count: usize,
    /// The one that has waited for the longest, and since when.
    pub oldest: Option<(Arc<str>, Timestamp)>,
    /// Works that nobody wants there any more, and that wait for a person to let them go.
    pub held: Option<WaitingDeletes>,
}

/// Works that wait for a person to let them go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingDeletes {
    /// How many.
    pub count: usize,
    /// When the last of them was held back: confirming this moment lets all of them go.
    pub last: Timestamp,
}

impl WaitingDeletes {
    /// The Works held back before the current second. More may be held back within this second under the same moment: they are shown in the next
    /// one, so that nobody confirms what they have not seen.
    pub fn of(looks: &WorkProgressCache, now: Timestamp) -> Option<WaitingDeletes> {
        let all = || looks.values().filter_map(|look| look.held);
        let settled = || all().filter(|since| since.as_second() != now.as_second());
        settled().max().map(|last| WaitingDeletes { count: settled().count(), last })
    }

    /// The batch that a person lets go.
    pub fn batch(&self) -> String {
        held_since_text(self.last)
    }
}

impl Pending {
    /// Of Works that have got so far.
    pub fn of(looks: &WorkProgressCache, now: Timestamp) -> Pending {
        let waiting = || looks.iter().filter_map(|(name, look)| Some((name.clone(), look.pending?)));
        let (count, oldest) = (waiting().count(), waiting().min_by_key(|(_, since)| *since));
        Pending { count, oldest, held: WaitingDeletes::of(looks, now) }
    }
}

/// How far a Work has got, at a revision of it.
pub fn look_at(revision: u64, work: &Value) -> WorkProgress {
    WorkProgress { revision, pending: pending_since(work), held: held_since(work) }
}

/// Since when a Work waits for a person to let it go; `None` where it does not.
fn held_since(work: &Value) -> Option<Timestamp> {
    let since = work["metadata"]["labels"][labels::REMOVAL_HELD].as_str()?;
    work["metadata"]["deletionTimestamp"].is_null().then(|| removal_limit::held_since(since)).flatten()
}

/// Since when a Work waits as it is now; `None` where it does not. What it should be was written last when its fields that are no
/// status were.
fn pending_since(work: &Value) -> Option<Timestamp> {
    if !is_pending(work) {
        return None;
    }
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let metadata = &work["metadata"];
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    let written =
        managers.filter(|entry| entry["subresource"] != "status").filter_map(|entry| time(&entry["time"]));
    let since = time(&metadata["deletionTimestamp"]).or_else(|| written.max());
    Some(since.or_else(|| time(&metadata["creationTimestamp"])).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Whether a Work waits: it is being deleted, or its present generation is not known to be applied. One that is suspended waits for
/// a person, and does not count.
fn is_pending(work: &Value) -> bool {
    if !work["metadata"]["deletionTimestamp"].is_null() {
        return true;
    }
    if work["spec"]["suspendDispatching"] == true {
        return false;
    }
    let all = work["status"]["conditions"].as_array();
    let applied = all.into_iter().flatten().find(|condition| condition["type"] == conditions::APPLIED);
    let generation = work["metadata"]["generation"].as_i64().unwrap_or(0);
    !applied.is_some_and(|applied| {
        let of = applied["observedGeneration"].as_i64().unwrap_or(generation);
        applied["status"] == "True" && of >= generation
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_work_waits_until_its_present_generation_is_applied() {
        let work = |generation: i64, status: &str, of: i64| {
            json!({"metadata": {"generation": generation}, "spec": {},
                "status": {"conditions": [{"type": "Applied", "status": status, "observedGeneration": of}]}})
        };
        assert!(!is_pending(&work(2, "True", 2)));
        assert!(is_pending(&work(2, "True", 1)), "an older one was");
        assert!(is_pending(&work(2, "False", 2)) && is_pending(&json!({"metadata": {"generation": 1}})));
        let mut leaving = work(1, "True", 1);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(is_pending(&leaving));
        assert!(!is_pending(&json!({"metadata": {"generation": 1}, "spec": {"suspendDispatching": true}})));
    }

    #[test]
    fn a_work_that_was_held_back_waits_since_its_mark() {
        let mut work = json!({"metadata": {"labels": {"edge.karmada.io/removal-held": "20260131T235959Z"}}});
        let since = held_since(&work);
        assert_eq!(
            since.map(|last| WaitingDeletes { count: 1, last }.batch()).as_deref(),
            Some("20260131T235959Z")
        );
        work["metadata"]["deletionTimestamp"] = json!("2026-02-01T00:00:00Z");
        assert_eq!(held_since(&work), None, "it was let go");
        assert_eq!(
            held_since(&json!({"metadata": {"labels": {"edge.karmada.io/removal-held": "soon"}}})),
            None
        );
    }

    #[test]
    fn a_batch_is_shown_once_it_grows_no_more() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let held = |seconds: &[i64]| -> WorkProgressCache {
            let look = |since: i64| WorkProgress { revision: 1, pending: None, held: Some(at(since * 1000)) };
            let named = |(n, since): (usize, &i64)| (n.to_string().into(), look(*since));
            seconds.iter().enumerate().map(named).collect()
        };
        let shown = |seconds: &[i64], now: i64| {
            WaitingDeletes::of(&held(seconds), at(now)).map(|held| (held.count, held.last.as_second()))
        };
        assert_eq!(shown(&[100, 100], 100_900), None, "a third may come in this second");
        assert_eq!(shown(&[100, 100, 100], 101_000), Some((3, 100)));
        assert_eq!(shown(&[90, 100, 100], 100_000), Some((1, 90)));
        assert_eq!(shown(&[90, 100], 95_000), Some((2, 100)), "a clock was ahead");
        assert_eq!(shown(&[], 100_000), None);
    }

    #[test]
    fn a_work_waits_since_it_was_written_or_is_to_go() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let entry = |seconds: i64, subresource: &str| json!({"time": at(seconds).to_string(), "subresource": subresource});
        let mut work = json!({"metadata": {"generation": 2, "creationTimestamp": at(10).to_string()}});
        assert_eq!(pending_since(&work), Some(at(10)));
        work["metadata"]["managedFields"] = json!([entry(20, ""), entry(15, ""), entry(90, "status")]);
        assert_eq!(pending_since(&work), Some(at(20)));
        work["metadata"]["deletionTimestamp"] = json!(at(50).to_string());
        assert_eq!(pending_since(&work), Some(at(50)));
        assert_eq!(pending_since(&json!({"spec": {"suspendDispatching": true}})), None);
        assert_eq!(pending_since(&json!({})), Some(Timestamp::UNIX_EPOCH));
    }
}
