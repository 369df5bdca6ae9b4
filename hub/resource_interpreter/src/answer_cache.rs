//! Answers of webhooks that are in hand: as many as may be kept, for as long as they may be believed.
//!
//! In: what became of questions. Out: the same for who asks again, until it is too old: a webhook may have learned something since. A failure is kept
//! as long as nobody is to ask again, longer with each in a row. Where there are too many answers the oldest go, and are asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_core::interpreter_webhook::{Answers, InHand, Said};
use karmada_interpreter::question::Digest;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer is believed.
const FRESH: Duration = Duration::from_secs(600);

/// Answers that are kept, failures among them.
const MOST: usize = 20_000;

/// Bytes of them.
const MOST_BYTES: usize = 32 << 20;

/// What an answer takes beside its bytes.
const BESIDE: usize = 256;

/// How long a question is not asked again after it failed: after the first time, and at most.
const HOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The answers.
#[derive(Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    entries: BTreeMap<Digest, Entry>,
    by_age: BTreeMap<u64, Digest>,
    next: u64,
    bytes: usize,
}

struct Entry {
    age: u64,
    at: Instant,
    bytes: usize,
    outcome: Outcome,
}

enum Outcome {
    Said(Arc<Said>),
    Failed { why: String, times: u32 },
}

impl State {
    fn remove(&mut self, digest: &Digest) -> Option<Entry> {
        let entry = self.entries.remove(digest)?;
        self.by_age.remove(&entry.age);
        self.bytes -= entry.bytes;
        Some(entry)
    }

    fn put(&mut self, digest: Digest, outcome: Outcome, bytes: usize) {
        self.remove(&digest);
        let (age, bytes) = (self.next, bytes + BESIDE);
        self.next += 1;
        self.entries.insert(digest, Entry { age, at: Instant::now(), bytes, outcome });
        self.by_age.insert(age, digest);
        self.bytes += bytes;
        while self.entries.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.by_age.values().next().copied() else { return };
            self.remove(&oldest);
        }
    }
}

/// How long a question is not asked again after so many failures in a row.
fn hold(times: u32) -> Duration {
    let (first, most) = HOLD;
    first.saturating_mul(1 << times.saturating_sub(1).min(16)).min(most)
}

impl Kept {
    /// A question was answered, by so many bytes.
    pub(super) fn said(&self, digest: Digest, said: Said, bytes: usize) {
        self.0.lock().put(digest, Outcome::Said(Arc::new(said)), bytes);
    }

    /// A question was not answered.
    pub(super) fn failed(&self, digest: Digest, why: String) {
        let mut state = self.0.lock();
        let before = match state.remove(&digest) {
            Some(Entry { outcome: Outcome::Failed { times, .. }, .. }) => times,
            _ => 0,
        };
        let bytes = why.len();
        state.put(digest, Outcome::Failed { why, times: before.saturating_add(1) }, bytes);
    }
}

impl Answers for Kept {
    fn find(&self, question: &Digest) -> Option<InHand> {
        let state = self.0.lock();
        let entry = state.entries.get(question)?;
        match &entry.outcome {
            Outcome::Said(said) => (entry.at.elapsed() < FRESH).then(|| InHand::Said(said.clone())),
            Outcome::Failed { why, times } => {
                let left = hold(*times).saturating_sub(entry.at.elapsed());
                (!left.is_zero()).then(|| InHand::Failed { why: why.clone(), again: left })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_believed_for_a_while_and_a_failure_for_longer_each_time() {
        let kept = Kept::default();
        kept.said(digest(1), Said::Healthy(true), 10);
        assert!(matches!(kept.find(&digest(1)), Some(InHand::Said(_))));
        tokio::time::advance(FRESH).await;
        assert!(kept.find(&digest(1)).is_none());
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            kept.failed(digest(1), "away".into());
            let held = kept.find(&digest(1));
            let whole = Duration::from_secs(seconds);
            assert!(matches!(held, Some(InHand::Failed { again, .. }) if again == whole), "{seconds}");
            tokio::time::advance(whole).await;
            assert!(kept.find(&digest(1)).is_none(), "{seconds}");
        }
        kept.said(digest(1), Said::Healthy(true), 10);
        kept.failed(digest(1), "away".into());
        let held = kept.find(&digest(1));
        assert!(
            matches!(held, Some(InHand::Failed { again, .. }) if again == HOLD.0),
            "an answer ends the row"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_where_there_are_too_many_or_too_large_ones() {
        let kept = Kept::default();
        for number in 0..=MOST {
            kept.said(digest(number), Said::Healthy(true), 1);
        }
        assert!(kept.find(&digest(0)).is_none() && kept.find(&digest(1)).is_some());
        kept.said(digest(1), Said::Healthy(false), MOST_BYTES - BESIDE);
        let state = kept.0.lock();
        assert!(state.bytes <= MOST_BYTES && state.entries.contains_key(&digest(1)), "{}", state.bytes);
        assert_eq!((state.entries.len(), state.by_age.len()), (1, 1));
    }
}
