//! Deletes bootstrap tokens whose time has long been over.
//!
//! In: the bootstrap-token Secrets of `kube-system`, the time. Out: deletes, each a day after its token's end. An ended
//! token lets nobody in and signs nothing; it is kept so long (kube-controller-manager's cleaner keeps none) because a
//! site that comes with yesterday's line is to hear "expired", and not "unknown", also from a hub that was restarted
//! in between.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{BOOTSTRAP_TOKEN, KUBE_SYSTEM, find, gone_is_fine, mentions, resource, secret_text, time, until};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, DeletionPropagation, Key};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Clock, Controller, Error, Source};

/// Runs the cleaner until told to stop.
pub async fn run(informers: impl Into<Informers>, clock: Clock, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let token = |change: &Change| match change {
        Change::Applied(object) if mentions(object, BOOTSTRAP_TOKEN) => vec![object.key.clone()],
        _ => Vec::new(),
    };
    let sources = vec![Source::new("v1", "Secret", token).within(KUBE_SYSTEM)];
    let cleaner = Arc::new(TokenCleaner { api: api.clone(), clock });
    runner::run(informers, cleaner, Arc::new(Queue::default()), sources, 1, stop).await;
}

/// How long an ended token is kept.
const KEPT: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

struct TokenCleaner {
    api: Arc<dyn Api>,
    clock: Clock,
}

#[async_trait::async_trait]
impl Controller for TokenCleaner {
    type Key = Key;

    fn name(&self) -> &'static str {
        "tokencleaner"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let secrets = resource(&*self.api, "v1", "Secret")?;
        let Some(secret) = find(&*self.api, &secrets, &key.namespace, &key.name).await? else {
            return Ok(Action::Done);
        };
        let now = (self.clock)();
        match end(&secret.value()?) {
            Some(end) if end <= now - KEPT => {
                gone_is_fine(
                    self.api.delete(&secrets, key, &secret.uid, DeletionPropagation::Background).await,
                )?;
                Ok(Action::Done)
            }
            Some(end) => Ok(Action::RequeueAfter(until(end + KEPT, now))),
            None => Ok(Action::Done),
        }
    }
}

/// When a bootstrap token ends; `None` where it never does. An end that cannot be read has come.
fn end(secret: &Value) -> Option<jiff::Timestamp> {
    let expiration = secret_text(secret, "expiration");
    if secret["type"] != BOOTSTRAP_TOKEN || expiration.is_empty() {
        return None;
    }
    Some(time(&json!(expiration)).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{api, now, settle};
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    fn secret(name: &str, kind: &str, expiration: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "namespace": KUBE_SYSTEM},
            "data": {"expiration": STANDARD.encode(expiration)}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_goes_a_day_after_its_end_and_not_before() {
        let api = api();
        api.seed_all([
            secret("over", BOOTSTRAP_TOKEN, "2026-04-30T11:59:59Z"),
            secret("odd", BOOTSTRAP_TOKEN, "tomorrow"),
            secret("soon", BOOTSTRAP_TOKEN, "2026-04-30T12:00:10Z"),
            secret("ended", BOOTSTRAP_TOKEN, "2026-04-30T12:01:00Z"),
            secret("holds", BOOTSTRAP_TOKEN, "2026-05-01T12:01:00Z"),
            secret("forever", BOOTSTRAP_TOKEN, ""),
            secret("opaque", "Opaque", "2026-04-30T11:59:59Z"),
        ]);
        let start = tokio::time::Instant::now();
        let clock: Clock = Arc::new(move || {
            let elapsed = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
            now() + jiff::SignedDuration::from_millis(elapsed)
        });
        let stop = CancellationToken::new();
        settle(run(api.clone(), clock, stop.clone()), stop).await;
        let left: Vec<String> =
            api.values("v1", "Secret").iter().map(|s| s["metadata"]["name"].to_string()).collect();
        assert_eq!(left, ["\"ended\"", "\"forever\"", "\"holds\"", "\"opaque\""]);
    }
}
