//! Whether names of Services resolve in the member, for who lets traffic go elsewhere by it (a Remedy on `ServiceDomainNameResolutionReady`).
//!
//! In: look-ups of the name that every cluster has, from the agent's own Pod. Out: what is to be shown, in the agent's state: as for readiness, only
//! half a minute of the other answer changes it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::readiness::{Probe, Readiness};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent_state::AgentState;

/// The Service of the member's own API server, by the name that a Pod gives it.
const NAME: &str = "kubernetes.default.svc";
/// How often it is looked up.
const PERIOD: Duration = Duration::from_secs(10);
/// A resolver that does not answer by then has none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the resolver of this machine, which in a Pod is the cluster's, knows the name.
pub async fn resolves() -> bool {
    tokio::net::lookup_host((NAME, 443)).await.is_ok_and(|mut addresses| addresses.next().is_some())
}

/// Looks until `stop`.
pub async fn run<F: Future<Output = bool>>(
    shared: Arc<AgentState>,
    look_up: impl Fn() -> F,
    stop: CancellationToken,
) {
    let (started, mut readiness) = (Instant::now(), Readiness::default());
    while !stop.is_cancelled() {
        let found = tokio::time::timeout(PATIENCE, look_up()).await.unwrap_or(false);
        let probe = if found { Probe::Ok } else { Probe::Unhealthy };
        let shown = readiness.observe(probe, started.elapsed()) == Probe::Ok;
        shared.service_names.send_if_modified(|before| before.replace(shown) != Some(shown));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::ledger::Ledger;

    #[tokio::test(start_paused = true)]
    async fn names_that_do_not_resolve_for_half_a_minute_are_told_and_so_is_that_they_do_again() {
        let shared = AgentState::new(Ledger::in_memory().unwrap(), Default::default());
        let answers = Arc::new(AtomicBool::new(true));
        let stop = CancellationToken::new();
        let look_up = {
            let answers = answers.clone();
            move || {
                let answers = answers.load(Ordering::Relaxed);
                // One that is silent is one that does not know.
                async move { if answers { true } else { std::future::pending().await } }
            }
        };
        let running = tokio::spawn(run(shared.clone(), look_up, stop.clone()));
        let mut shown = shared.service_names.subscribe();
        let begun = Instant::now();
        shown.wait_for(|shown| *shown == Some(true)).await.unwrap();
        answers.store(false, Ordering::Relaxed);
        shown.wait_for(|shown| *shown == Some(false)).await.unwrap();
        assert!((30..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        answers.store(true, Ordering::Relaxed);
        shown.wait_for(|shown| *shown == Some(true)).await.unwrap();
        stop.cancel();
        running.await.unwrap();
    }
}
