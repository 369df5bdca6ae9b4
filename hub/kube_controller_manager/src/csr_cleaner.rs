//! Deletes certificate signing requests that are done with: an hour after they were approved and issued, denied or failed, a
//! day after nobody decided.
//!
//! In: CertificateSigningRequests, the time, every ten minutes. Out: deletes. Limits as kube-controller-manager's csrcleaner.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{gone_is_fine, sweep, time};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, DeletionPropagation};
use karmada_controller_runtime::runner::{Action, Clock, Controller, Error};

const DECIDED: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const PENDING: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);
const EVERY: Duration = Duration::from_secs(600);

/// Runs the sweeps until told to stop.
pub async fn run(informers: impl Into<Informers>, clock: Clock, stop: CancellationToken) {
    let informers = informers.into();
    let api = informers.api().clone();
    sweep(informers, CsrCleaner { api, clock }, stop).await;
}

struct CsrCleaner {
    api: Arc<dyn Api>,
    clock: Clock,
}

#[async_trait::async_trait]
impl Controller for CsrCleaner {
    type Key = ();

    fn name(&self) -> &'static str {
        "csrcleaner"
    }

    async fn reconcile(&self, (): &()) -> Result<Action, Error> {
        let kind = self.api.resource_of("certificates.k8s.io/v1", "CertificateSigningRequest");
        let Some(requests) = kind else { return Ok(Action::RequeueAfter(EVERY)) };
        for request in self.api.list(&requests, "").await? {
            if is_over(&request.value()?, (self.clock)()) {
                let key = &request.key;
                gone_is_fine(
                    self.api.delete(&requests, key, &request.uid, DeletionPropagation::Background).await,
                )?;
            }
        }
        Ok(Action::RequeueAfter(EVERY))
    }
}

/// Whether nobody needs the request any more. Pure.
fn is_over(request: &Value, now: jiff::Timestamp) -> bool {
    let longer_than =
        |since: &Value, limit| time(since).is_some_and(|since| now.duration_since(since) > limit);
    let conditions = request["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.is_empty() {
        return longer_than(&request["metadata"]["creationTimestamp"], PENDING);
    }
    let issued = request["status"]["certificate"].as_str().is_some_and(|pem| !pem.is_empty());
    conditions.iter().any(|condition| match condition["type"].as_str() {
        // Approved and not issued waits for its signer, a day at most.
        Some("Approved") if !issued => longer_than(&condition["lastUpdateTime"], PENDING),
        Some("Approved" | "Denied" | "Failed") => longer_than(&condition["lastUpdateTime"], DECIDED),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::now;
    use super::*;
    use serde_json::json;

    #[test]
    fn when_a_request_is_over() {
        let request = |made: &str, decided: &str, kind: &str, certificate: &str| {
            let conditions =
                if kind.is_empty() { json!([]) } else { json!([{"type": kind, "lastUpdateTime": decided}]) };
            json!({"metadata": {"creationTimestamp": made}, "status": {"conditions": conditions, "certificate": certificate}})
        };
        let (day, hour, minute) = ("2026-04-30T11:59:59Z", "2026-05-01T10:59:59Z", "2026-05-01T11:59:00Z");
        let table = [
            (request(hour, "", "", ""), false),
            (request(day, "", "", ""), true),
            (request(day, hour, "Approved", ""), false),
            (request(day, day, "Approved", ""), true),
            (request(day, hour, "Approved", "cGVt"), true),
            (request(day, minute, "Approved", "cGVt"), false),
            (request(day, hour, "Denied", ""), true),
            (request(day, minute, "Denied", ""), false),
            (request(day, hour, "Failed", ""), true),
        ];
        for (request, over) in table {
            assert_eq!(is_over(&request, now()), over, "{request}");
        }
    }
}
