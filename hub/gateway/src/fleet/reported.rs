//! Whether a Cluster still says what its agent said last: an agent speaks when something changes, so that a status which somebody edited
//! or wiped on the hub would stay so.
//!
//! In: a report as it came and the Cluster as it was written; the Cluster as it is. Out: what to do about it. Of what was reported only a
//! digest is kept.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// A report that is being written may be seen before it is known here.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// Between two questions to one agent: whoever else writes that status all the time is not fought over it.
pub const AGAIN: Duration = Duration::from_secs(30);

/// One report.
pub(super) struct Reported {
    /// Fields of the status, without `conditions`.
    fields: Vec<String>,
    /// Types of conditions.
    conditions: Vec<String>,
    digest: u64,
    differs_since: Option<Timestamp>,
    asked: Option<Timestamp>,
}

/// What to do about a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusVerdict {
    /// Nothing: it says what its agent said, or nothing is known.
    Right,
    /// Look again after this.
    Wait(Duration),
    /// Ask the agent.
    Ask,
}

impl Reported {
    /// `reported` was written, and the Cluster is now `written`; `before` is the report that it follows.
    pub(super) fn new(reported: &Value, written: &Value, before: Option<&Reported>) -> Self {
        let fields = reported.as_object().into_iter().flatten().map(|(field, _)| field.clone());
        let conditions = reported["conditions"].as_array().into_iter().flatten();
        let mut report = Reported {
            fields: fields.filter(|field| field != "conditions").collect(),
            conditions: conditions.filter_map(|c| c["type"].as_str().map(str::to_owned)).collect(),
            digest: 0,
            differs_since: None,
            asked: before.and_then(|before| before.asked),
        };
        report.digest = report.digest_of(written);
        report
    }

    /// Holds the Cluster to what was reported.
    pub(super) fn verdict(&mut self, live: &Value, now: Timestamp) -> StatusVerdict {
        if self.digest_of(live) == self.digest {
            self.differs_since = None;
            return StatusVerdict::Right;
        }
        let since = *self.differs_since.get_or_insert(now);
        let left = |from: Timestamp, wait: Duration| {
            wait.checked_sub(now.duration_since(from).try_into().unwrap_or_default())
                .filter(|left| !left.is_zero())
        };
        let wait = left(since, DEBOUNCE).or(self.asked.and_then(|asked| left(asked, AGAIN)));
        if let Some(wait) = wait {
            return StatusVerdict::Wait(wait);
        }
        self.asked = Some(now);
        StatusVerdict::Ask
    }

    /// Of what was reported, as the Cluster has it. Times of conditions are the hub's own.
    fn digest_of(&self, cluster: &Value) -> u64 {
        let status = &cluster["status"];
        let mut hasher = DefaultHasher::new();
        for field in &self.fields {
            status[field].to_string().hash(&mut hasher);
        }
        let conditions = status["conditions"].as_array();
        for kind in &self.conditions {
            let found = conditions.into_iter().flatten().find(|c| c["type"] == kind.as_str());
            for field in ["status", "reason", "message"] {
                found.map(|condition| condition[field].to_string()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(version: &str, ready: &str, time: &str) -> Value {
        json!({"status": {"kubernetesVersion": version, "remedyActions": ["theirs"], "conditions": [
            {"type": "Other", "status": "True"},
            {"type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": time},
        ]}})
    }

    #[test]
    fn what_differs_for_a_moment_is_asked_for_and_not_too_often() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let right = cluster("v1", "True", "t1");
        let told = json!({"kubernetesVersion": "v1", "conditions": [{"type": "Ready", "status": "True"}]});
        let mut first = Reported::new(&told, &right, None);
        let other = json!({"status": {"kubernetesVersion": "v1", "remedyActions": [], "conditions": [
            {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "t2"}]}});
        for same in [&right, &other] {
            assert_eq!(
                first.verdict(same, at(1)),
                StatusVerdict::Right,
                "what the agent did not say is not its"
            );
        }
        for wrong in [cluster("v2", "True", "t1"), cluster("v1", "False", "t1"), json!({})] {
            assert!(matches!(first.verdict(&wrong, at(10)), StatusVerdict::Wait(_)), "{wrong}");
        }
        assert_eq!(first.verdict(&json!({}), at(11)), StatusVerdict::Ask);
        assert_eq!(first.verdict(&json!({}), at(21)), StatusVerdict::Wait(Duration::from_secs(20)));
        let mut second = Reported::new(&told, &right, Some(&first));
        assert_eq!(second.verdict(&right, at(22)), StatusVerdict::Right);
        assert_eq!(second.verdict(&json!({}), at(23)), StatusVerdict::Wait(DEBOUNCE));
        assert_eq!(second.verdict(&json!({}), at(24)), StatusVerdict::Wait(Duration::from_secs(17)));
        assert_eq!(second.verdict(&json!({}), at(41)), StatusVerdict::Ask);
    }
}
