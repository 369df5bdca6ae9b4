//! Retries of calls to the member and at a join, by the `backoff` crate.
//!
//! In: what failed, succeeded or recovered. Out: how long to wait before the next try; and for a single call, its answer or its last error.
//!
//! The one place that names that crate: it is unmaintained (RUSTSEC-2025-0012), so what is behind these two
//! functions can be replaced without touching anybody else. It would draw its own randomness: the waits of objects are spread by their
//! names instead, so that the same failures are tried again at the same times, and the session's reconnect schedule, which must be a
//! function of a seed, is not built on it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use backoff::backoff::Backoff;
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};

/// Waits of an object that fails: half a second to two minutes.
fn per_object() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(Duration::from_millis(500))
        .with_multiplier(2.0)
        .with_randomization_factor(0.0)
        .with_max_interval(Duration::from_secs(120))
        .with_max_elapsed_time(None)
        .build()
}

/// Waits of a removal that fails: about a second to half a minute, of which [`spread`] takes or adds half.
fn per_removal() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(Duration::from_secs(1))
        .with_multiplier(2.0)
        .with_randomization_factor(0.0)
        .with_max_interval(Duration::from_secs(20))
        .with_max_elapsed_time(None)
        .build()
}

/// The waits of many objects, each with its own.
#[derive(Debug)]
pub struct Waits {
    policy: fn() -> ExponentialBackoff,
    failing: BTreeMap<String, Failing>,
    /// Those whose waits have grown, and that did not begin anew in this row of failures.
    grown: BTreeSet<String>,
}

#[derive(Debug)]
struct Failing {
    waits: ExponentialBackoff,
    failures: u32,
    began_anew: bool,
}

impl Failing {
    fn next(&mut self, key: &str) -> Duration {
        let wait = self.waits.next_backoff().unwrap_or(self.waits.max_interval);
        wait.mul_f64(spread(key, self.failures))
    }
}

/// Between a half and one and a half: what fails together is not tried again together.
fn spread(key: &str, failures: u32) -> f64 {
    let mut hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = hash.wrapping_add(u64::from(failures).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    0.5 + ((hash ^ (hash >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl Default for Waits {
    fn default() -> Self {
        Self::by(per_object)
    }
}

impl Waits {
    /// Those of removals.
    pub fn of_removals() -> Self {
        Self::by(per_removal)
    }

    fn by(policy: fn() -> ExponentialBackoff) -> Self {
        Self { policy, failing: BTreeMap::new(), grown: BTreeSet::new() }
    }

    /// `key` failed: when to try again.
    pub fn failed(&mut self, key: &str) -> Duration {
        let new = || Failing { waits: (self.policy)(), failures: 0, began_anew: false };
        let failing = self.failing.entry(key.to_owned()).or_insert_with(new);
        failing.failures += 1;
        if failing.failures > 1 && !failing.began_anew {
            self.grown.insert(key.to_owned());
        }
        failing.next(key)
    }

    /// `key` succeeded, or is gone.
    pub fn clear(&mut self, key: &str) {
        self.failing.remove(key);
        self.grown.remove(key);
    }

    /// Something else of the same member succeeded. Those that fail begin anew, each once in a row of failures: one that fails on beside
    /// what succeeds has a trouble of its own. Out: when to try each.
    pub fn recovered(&mut self) -> Vec<(String, Duration)> {
        let mut anew = Vec::new();
        for key in std::mem::take(&mut self.grown) {
            if let Some(failing) = self.failing.get_mut(&key) {
                failing.waits.reset();
                failing.began_anew = true;
                let wait = failing.next(&key);
                anew.push((key, wait));
            }
        }
        anew
    }
}

/// Calls until it succeeds, fails for good (`is_transient` is false), or `limit` has passed.
///
/// # Errors
/// The last error: the first that is not transient (`is_transient`), or the one at which `limit` had passed.
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

    #[test]
    fn the_same_failures_are_tried_again_at_the_same_times_and_others_at_others() {
        let row = |key: &str| {
            let mut waits = Waits::default();
            (0..8).map(|_| waits.failed(key)).collect::<Vec<_>>()
        };
        assert_eq!(row("a"), row("a"));
        assert!(row("a").iter().zip(&row("b")).all(|(one, other)| one != other));
        for key in ["", "a", "work"] {
            assert!((1..1000).all(|failures| (0.5..1.5).contains(&spread(key, failures))), "{key}");
        }
    }

    #[test]
    fn removals_wait_half_a_minute_at_most_and_begin_anew_once_when_the_member_recovers() {
        let mut waits = Waits::of_removals();
        let first = waits.failed("a");
        assert!(first >= Duration::from_millis(500) && first <= Duration::from_millis(1500), "{first:?}");
        assert_eq!(waits.recovered(), [], "it waits no longer than it would anew");
        for _ in 0..100 {
            assert!(waits.failed("a") <= Duration::from_secs(30));
        }
        assert!(waits.failed("a") >= Duration::from_secs(10), "grown");
        let anew = waits.recovered();
        assert!(
            matches!(&anew[..], [(key, wait)] if key == "a" && *wait < Duration::from_secs(2)),
            "{anew:?}"
        );
        (0..10).for_each(|_| _ = waits.failed("a"));
        assert_eq!(waits.recovered(), [], "it is its own trouble");
        waits.clear("a");
        (0..10).for_each(|_| _ = waits.failed("a"));
        assert_eq!(waits.recovered().len(), 1, "another row of failures");
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
