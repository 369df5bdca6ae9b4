//! Deletes Jobs `ttlSecondsAfterFinished` after they finished, their dependants first.
//!
//! In: Jobs, the time. Out: deletes in the foreground.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{find, gone_is_fine, mentions, resource, time, until};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, DeletionPropagation, Key};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Clock, Controller, Error, Source};

/// Runs the controller until told to stop.
pub async fn run(informers: impl Into<Informers>, clock: Clock, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let limited = |change: &Change| match change {
        Change::Applied(object) if mentions(object, "ttlSecondsAfterFinished") => vec![object.key.clone()],
        _ => Vec::new(),
    };
    let sources = vec![Source::new("batch/v1", "Job", limited)];
    let controller = Arc::new(TtlAfterFinished { api: api.clone(), clock });
    runner::run(informers, controller, Arc::new(Queue::default()), sources, 1, stop).await;
}

struct TtlAfterFinished {
    api: Arc<dyn Api>,
    clock: Clock,
}

#[async_trait::async_trait]
impl Controller for TtlAfterFinished {
    type Key = Key;

    fn name(&self) -> &'static str {
        "ttl-after-finished"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let jobs = resource(&*self.api, "batch/v1", "Job")?;
        let found = find(&*self.api, &jobs, &key.namespace, &key.name).await?;
        let Some(job) = found.filter(|job| !job.deleting) else { return Ok(Action::Done) };
        let now = (self.clock)();
        match end(&job.value()?) {
            Some(end) if end <= now => {
                gone_is_fine(self.api.delete(&jobs, key, &job.uid, DeletionPropagation::Foreground).await)?;
                Ok(Action::Done)
            }
            Some(end) => Ok(Action::RequeueAfter(until(end, now))),
            None => Ok(Action::Done),
        }
    }
}

/// When a Job's time is over; `None` where it has not finished or may stay. Pure.
fn end(job: &Value) -> Option<jiff::Timestamp> {
    let ttl = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let conditions = job["status"]["conditions"].as_array()?;
    let finished = |c: &&Value| c["status"] == "True" && (c["type"] == "Complete" || c["type"] == "Failed");
    let since = time(&conditions.iter().find(finished)?["lastTransitionTime"])?;
    since.checked_add(jiff::SignedDuration::from_secs(ttl.max(0))).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{api, fixed, settle};
    use super::*;
    use serde_json::json;

    #[test]
    fn when_the_time_of_a_job_is_over() {
        let job = |ttl: Value, kind: &str, status: &str| {
            json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [
                {"type": kind, "status": status, "lastTransitionTime": "2026-05-01T12:00:00Z"}]}})
        };
        let table = [
            (job(json!(60), "Complete", "True"), Some("2026-05-01T12:01:00Z")),
            (job(json!(0), "Failed", "True"), Some("2026-05-01T12:00:00Z")),
            (job(json!(60), "Complete", "False"), None),
            (job(json!(60), "Suspended", "True"), None),
            (job(Value::Null, "Complete", "True"), None),
            (json!({"spec": {"ttlSecondsAfterFinished": 1}}), None),
        ];
        for (job, expected) in table {
            assert_eq!(end(&job).map(|t| t.to_string()).as_deref(), expected, "{job}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_finished_job_goes_in_the_foreground() {
        let api = api();
        let job = |name: &str, since: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "n"},
                "spec": {"ttlSecondsAfterFinished": 60},
                "status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": since}]}})
        };
        api.seed_all([job("old", "2026-05-01T11:59:00Z"), job("new", "2026-05-01T11:59:01Z")]);
        let stop = CancellationToken::new();
        settle(run(api.clone(), fixed(), stop.clone()), stop).await;
        let old = api.value("batch/v1", "Job", "n", "old").unwrap();
        assert_eq!(old["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        assert!(
            api.value("batch/v1", "Job", "n", "new").unwrap()["metadata"].get("deletionTimestamp").is_none()
        );
    }
}
