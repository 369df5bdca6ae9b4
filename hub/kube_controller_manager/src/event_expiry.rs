//! Deletes Events an hour after they were last seen, as kube-apiserver's leases on them do.
//!
//! In: Events, the time, once a minute. Out: deletes. Nothing is kept in memory for an Event.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{gone_is_fine, resource, sweep, time};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, DeletionPropagation};
use karmada_controller_runtime::runner::{Action, Clock, Controller, Error};

const LIFETIME: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const EVERY: Duration = Duration::from_secs(60);

/// Runs the sweeps until told to stop.
pub async fn run(informers: impl Into<Informers>, clock: Clock, stop: CancellationToken) {
    let informers = informers.into();
    let api = informers.api().clone();
    sweep(informers, EventExpiry { api, clock }, stop).await;
}

struct EventExpiry {
    api: Arc<dyn Api>,
    clock: Clock,
}

#[async_trait::async_trait]
impl Controller for EventExpiry {
    type Key = ();

    fn name(&self) -> &'static str {
        "event-expiry"
    }

    async fn reconcile(&self, (): &()) -> Result<Action, Error> {
        let events = resource(&*self.api, "v1", "Event")?;
        let now = (self.clock)();
        for event in self.api.list(&events, "").await? {
            if last_seen(&event.value()?).is_some_and(|seen| now.duration_since(seen) >= LIFETIME) {
                let key = &event.key;
                gone_is_fine(
                    self.api.delete(&events, key, &event.uid, DeletionPropagation::Background).await,
                )?;
            }
        }
        Ok(Action::RequeueAfter(EVERY))
    }
}

/// The latest time that an Event names. Pure.
fn last_seen(event: &Value) -> Option<jiff::Timestamp> {
    let fields = [
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
        &event["eventTime"],
        &event["firstTimestamp"],
        &event["metadata"]["creationTimestamp"],
    ];
    fields.into_iter().filter_map(time).max()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{api, fixed, settle};
    use super::*;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn events_live_an_hour_from_when_they_were_last_seen() {
        let api = api();
        let event = |name: &str, made: &str, rest: Value| {
            let mut event = rest;
            event["apiVersion"] = json!("v1");
            event["kind"] = json!("Event");
            event["metadata"] = json!({"name": name, "namespace": "n", "creationTimestamp": made});
            event
        };
        let (old, recent) = ("2026-05-01T11:00:00Z", "2026-05-01T11:00:01Z");
        api.seed_all([
            event("over", old, json!({"lastTimestamp": old})),
            event("again", old, json!({"lastTimestamp": recent})),
            event(
                "series",
                old,
                json!({"eventTime": old, "series": {"lastObservedTime": "2026-05-01T11:30:00.000001Z"}}),
            ),
            event("bare", old, json!({"lastTimestamp": null})),
            event("new", recent, json!({})),
        ]);
        let stop = CancellationToken::new();
        settle(run(api.clone(), fixed(), stop.clone()), stop).await;
        let left: Vec<String> =
            api.values("v1", "Event").iter().map(|e| e["metadata"]["name"].to_string()).collect();
        assert_eq!(left, ["\"again\"", "\"new\"", "\"series\""]);
    }
}
