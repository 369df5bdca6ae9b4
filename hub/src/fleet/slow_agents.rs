//! Agents that were too late, each of which is left alone for a while: one site on a bad link must not hold up every decision.
//!
//! In: questions as they are asked. Out: their answers, or at once that an agent was late a moment ago.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an agent that was too late is left alone.
const QUIET: Duration = Duration::from_secs(30);

/// Those that were too late.
#[derive(Default)]
pub(super) struct SlowAgents(Mutex<BTreeMap<String, Instant>>);

impl SlowAgents {
    fn is(&self, cluster: &str) -> bool {
        let mut late = self.0.lock();
        late.retain(|_, since| since.elapsed() < QUIET);
        late.contains_key(cluster)
    }

    /// Waits for what is asked of a cluster, unless its agent was late: one that takes longer than `soon` is.
    pub(super) async fn unless_late<T>(
        &self,
        cluster: &str,
        soon: Duration,
        asking: impl Future<Output = T>,
    ) -> Result<T, String> {
        if self.is(cluster) {
            return Err("its agent did not answer in time a moment ago".to_owned());
        }
        let begun = Instant::now();
        let answer = asking.await;
        if begun.elapsed() > soon {
            self.0.lock().insert(cluster.to_owned(), Instant::now());
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
        assert!(late.unless_late("a", soon, takes(2)).await.is_ok());
        assert!(
            late.unless_late("a", soon, takes(3)).await.is_ok(),
            "what comes late is an answer all the same"
        );
        assert!(late.unless_late("a", soon, takes(0)).await.is_err());
        assert!(late.unless_late("b", soon, takes(0)).await.is_ok());
        takes(30).await;
        assert!(late.unless_late("a", soon, takes(0)).await.is_ok());
    }
}
