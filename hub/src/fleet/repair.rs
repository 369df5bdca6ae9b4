//! Holds `Cluster.status` to what the cluster's agent said last: an agent speaks when something changes, so a status that
//! somebody edited or wiped on the hub would stay so.
//!
//! In: what agents reported, as it was written ([`Told::wrote`]), and changes of Clusters. Out: where a Cluster says
//! something else while its agent is connected, the agent is asked to say it again. Nothing is asked or written while
//! nothing differs; of what was reported, only a digest is kept.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apiserver::registry::Registry;
use karmada_controllers::port::Key;
use karmada_controllers::runner::{Action, Controller, Error};
use karmada_gateway::Gateway;
use parking_lot::Mutex;
use serde_json::Value;

/// A report that is being written may be seen before it is known here.
const SETTLE: Duration = Duration::from_secs(1);
/// Between two questions to one agent: whoever else writes that status all the time is not fought over it.
const AGAIN: Duration = Duration::from_secs(30);

/// What each connected agent said last of its cluster.
#[derive(Default)]
pub struct Told(Mutex<BTreeMap<String, Report>>);

/// One report.
struct Report {
    /// Fields of the status, without `conditions`.
    fields: Vec<String>,
    /// Types of conditions.
    conditions: Vec<String>,
    digest: u64,
    differs_since: Option<Timestamp>,
    asked: Option<Timestamp>,
}

/// What to do about a Cluster.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It says what its agent said, or nothing is known.
    Right,
    /// Look again after this.
    Wait(Duration),
    /// Ask the agent.
    Ask,
}

impl Told {
    /// `reported` was written, and the Cluster is now `cluster`.
    pub fn wrote(&self, name: &str, reported: &Value, cluster: &Value) {
        let fields = reported.as_object().into_iter().flatten().map(|(field, _)| field.clone());
        let conditions = reported["conditions"].as_array().into_iter().flatten();
        let mut report = Report {
            fields: fields.filter(|field| field != "conditions").collect(),
            conditions: conditions.filter_map(|c| c["type"].as_str().map(str::to_owned)).collect(),
            digest: 0,
            differs_since: None,
            asked: None,
        };
        report.digest = report.digest_of(cluster);
        let mut all = self.0.lock();
        report.asked = all.get(name).and_then(|before| before.asked);
        all.insert(name.to_owned(), report);
    }

    /// The agent is gone: what it says next, it says by itself.
    pub fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }

    fn verdict(&self, name: &str, cluster: &Value, now: Timestamp) -> Verdict {
        let mut all = self.0.lock();
        let Some(report) = all.get_mut(name) else { return Verdict::Right };
        if report.digest_of(cluster) == report.digest {
            report.differs_since = None;
            return Verdict::Right;
        }
        let since = *report.differs_since.get_or_insert(now);
        let left = |from: Timestamp, wait: Duration| {
            wait.checked_sub(now.duration_since(from).try_into().unwrap_or_default())
                .filter(|left| !left.is_zero())
        };
        let wait = left(since, SETTLE).or(report.asked.and_then(|asked| left(asked, AGAIN)));
        if let Some(wait) = wait {
            return Verdict::Wait(wait);
        }
        report.asked = Some(now);
        Verdict::Ask
    }
}

impl Report {
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

/// Looks at every Cluster that changes.
pub struct Repair {
    registry: Arc<Registry>,
    told: Arc<Told>,
    gateway: Arc<Gateway>,
}

impl Repair {
    /// One over what was `told`, asking through the gateway.
    pub fn new(registry: Arc<Registry>, told: Arc<Told>, gateway: Arc<Gateway>) -> Arc<Repair> {
        Arc::new(Repair { registry, told, gateway })
    }
}

#[async_trait::async_trait]
impl Controller for Repair {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cluster-status-repair"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let other = |status: karmada_apiserver::status::Status| Error::Other(status.message);
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(other)?;
        let Ok(cluster) = self.registry.get(&definition, "", &key.name) else {
            self.told.forget(&key.name);
            return Ok(Action::Done);
        };
        if let Some(epoch) = super::reports::confirmed(&cluster.value()) {
            self.gateway.confirm_deletes(&key.name, epoch);
        }
        Ok(match self.told.verdict(&key.name, &cluster.value(), self.registry.now()) {
            Verdict::Right => Action::Done,
            Verdict::Wait(wait) => Action::RequeueAfter(wait),
            Verdict::Ask => {
                if self.gateway.ask_cluster_status(&key.name) {
                    tracing::info!(
                        cluster = &*key.name,
                        "its status is not what its agent said: asking again"
                    );
                }
                Action::RequeueAfter(AGAIN)
            }
        })
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
        let told = Told::default();
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let right = cluster("v1", "True", "t1");
        assert_eq!(told.verdict("north", &right, at(0)), Verdict::Right, "nothing is known");
        let reported =
            json!({"kubernetesVersion": "v1", "conditions": [{"type": "Ready", "status": "True"}]});
        told.wrote("north", &reported, &right);
        let other = json!({"status": {"kubernetesVersion": "v1", "remedyActions": [], "conditions": [
            {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "t2"}]}});
        for same in [&right, &other] {
            assert_eq!(
                told.verdict("north", same, at(1)),
                Verdict::Right,
                "what the agent did not say is not its"
            );
        }
        for wrong in [cluster("v2", "True", "t1"), cluster("v1", "False", "t1"), json!({})] {
            assert!(matches!(told.verdict("north", &wrong, at(10)), Verdict::Wait(_)), "{wrong}");
        }
        assert_eq!(told.verdict("north", &json!({}), at(11)), Verdict::Ask);
        assert_eq!(told.verdict("north", &json!({}), at(21)), Verdict::Wait(Duration::from_secs(20)));
        told.wrote("north", &reported, &right);
        assert_eq!(told.verdict("north", &right, at(22)), Verdict::Right);
        assert_eq!(told.verdict("north", &json!({}), at(23)), Verdict::Wait(SETTLE));
        assert_eq!(told.verdict("north", &json!({}), at(24)), Verdict::Wait(Duration::from_secs(17)));
        assert_eq!(told.verdict("north", &json!({}), at(41)), Verdict::Ask);
        told.forget("north");
        assert_eq!(told.verdict("north", &json!({}), at(99)), Verdict::Right, "nobody is there to be asked");
    }
}
