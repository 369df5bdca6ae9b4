//! Retries of calls to the member and at a join, by the `backoff` crate.
//!
//! The one place that names that crate: it is unmaintained (RUSTSEC-2025-0012), so what is behind these two
//! functions can be replaced without touching anybody else. It draws its own randomness; the session's reconnect
//! schedule, which must be a function of a seed, is therefore not built on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use backoff::backoff::Backoff;
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};

/// Waits of an object that fails: half a second to two minutes.
fn per_object() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(Duration::from_millis(500))
        .with_multiplier(2.0)
        .with_max_interval(Duration::from_secs(120))
        .with_max_elapsed_time(None)
        .build()
}

/// The waits of many objects, each with its own.
#[derive(Debug, Default)]
pub struct Waits {
    failing: BTreeMap<String, ExponentialBackoff>,
}

impl Waits {
    /// `key` failed: when to try again.
    pub fn failed(&mut self, key: &str) -> Duration {
        let waits = self.failing.entry(key.to_owned()).or_insert_with(per_object);
        waits.next_backoff().unwrap_or(Duration::from_secs(120))
    }

    /// `key` succeeded, or is gone.
    pub fn clear(&mut self, key: &str) {
        self.failing.remove(key);
    }
}

/// Calls until it succeeds, fails for good (`is_transient` is false), or `limit` has passed; the last error then.
pub async fn until<T, E, F>(
    limit: Duration,
    is_transient: impl Fn(&E) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let waits = ExponentialBackoffBuilder::new()
        .with_initial_interval(Duration::from_millis(250))
        .with_max_interval(Duration::from_secs(5))
        .with_max_elapsed_time(Some(limit))
        .build();
    backoff::future::retry(waits, || {
        let attempt = call();
        let is_transient = &is_transient;
        async move {
            attempt.await.map_err(|error| {
                if is_transient(&error) {
                    backoff::Error::transient(error)
                } else {
                    backoff::Error::permanent(error)
                }
            })
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_per_object_and_are_forgotten_on_success() {
        let mut waits = Waits::default();
        let grown = (0..6).map(|_| waits.failed("a")).last().unwrap();
        assert!(grown > Duration::from_secs(4), "{grown:?}");
        assert!(waits.failed("b") < Duration::from_secs(1));
        waits.clear("a");
        assert!(waits.failed("a") < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permanent_error_ends_at_once_and_a_transient_one_is_tried_again() {
        let mut calls = 0;
        let result: Result<(), bool> = until(
            Duration::from_secs(5),
            |e| *e,
            || {
                calls += 1;
                let error = calls < 3;
                async move { Err(error) }
            },
        )
        .await;
        assert_eq!((result, calls), (Err(false), 3));
    }
}
