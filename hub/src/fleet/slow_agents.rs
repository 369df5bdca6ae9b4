//! Agents that were too late, each of which is left alone for a while: one site on a bad link must not hold up every decision.
//!
//! In: questions as they are asked, each of a namespace's. Out: their answers, or at once that an agent was late a moment ago. What one namespace asks may
//! be what takes so long: an agent is late for all once it was for two.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an agent that was too late is left alone.
const QUIET: Duration = Duration::from_secs(30);

/// Of so many namespaces, questions came too late: it is the agent, or its link.
const SLOW_FOR_ALL: usize = 2;

/// Those that were too late: by cluster, for which namespaces, and when.
#[derive(Default)]
pub(super) struct SlowAgents(Mutex<BTreeMap<String, BTreeMap<String, Instant>>>);

impl SlowAgents {
    fn is(&self, cluster: &str, namespace: &str) -> bool {
        let mut late = self.0.lock();
        let Some(of) = late.get_mut(cluster) else { return false };
        of.retain(|_, since| since.elapsed() < QUIET);
        let is_late = of.len() >= SLOW_FOR_ALL || of.contains_key(namespace);
        if of.is_empty() {
            late.remove(cluster);
        }
        is_late
    }

    fn note(&self, cluster: &str, namespace: &str) {
        let mut late = self.0.lock();
        // Nobody asks about a cluster that is gone: what is noted of it ends with its time, as the next one is noted.
        late.retain(|_, of| of.values().any(|since| since.elapsed() < QUIET));
        late.entry(cluster.to_owned()).or_default().insert(namespace.to_owned(), Instant::now());
    }

    /// Waits for what is asked of a cluster for a namespace, unless its agent was late: one that takes longer than `soon` is.
    pub(super) async fn unless_late<T>(
        &self,
        (cluster, namespace): (&str, &str),
        soon: Duration,
        asking: impl Future<Output = T>,
    ) -> Result<T, String> {
        if self.is(cluster, namespace) {
            return Err("its agent did not answer in time a moment ago".to_owned());
        }
        let begun = Instant::now();
        let answer = asking.await;
        if begun.elapsed() > soon {
            self.note(cluster, namespace);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_late_is_left_alone_for_a_while() {
        let (late, soon) = (SlowAgents::default(), Duration::from_secs(2));
        let takes = |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds));
        let is_asked = async |cluster: &str, namespace: &str, seconds: u64| {
            late.unless_late((cluster, namespace), soon, takes(seconds)).await.is_ok()
        };
        assert!(is_asked("a", "shop", 2).await);
        assert!(is_asked("a", "shop", 3).await, "what comes late is an answer all the same");
        assert!(!is_asked("a", "shop", 0).await);
        assert!(is_asked("b", "shop", 0).await);
        assert!(is_asked("a", "bank", 0).await, "it may be what the one asked that took so long");
        assert!(is_asked("a", "bank", 3).await);
        assert!(!is_asked("a", "school", 0).await, "it is the agent");
        takes(30).await;
        for namespace in ["shop", "bank", "school"] {
            assert!(is_asked("a", namespace, 0).await);
        }
        assert!(late.0.lock().is_empty(), "nothing is kept of it");
        assert!(is_asked("gone", "shop", 3).await);
        takes(30).await;
        assert!(is_asked("b", "shop", 3).await);
        assert_eq!(
            late.0.lock().keys().collect::<Vec<_>>(),
            ["b"],
            "nor of a cluster that nobody asks about any more"
        );
    }
}
