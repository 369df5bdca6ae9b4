//! What a session knows of the line that it runs over: when something was heard, how long a silence was announced, what went over it.
//!
//! In: frames and bytes that came, questions that are asked, the time. Out: whether the agent is silent for too long, and what is told of
//! the line. `now` is monotonic time since any fixed start.

use std::time::Duration;

use karmada_proto::keepalive::{dead_after, late_after};
use karmada_proto::v1;

/// An agent may announce silences up to this long.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

/// How long nothing was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// No longer than announced, or known already.
    Fine,
    /// So long that it is to be asked for a sign of life.
    Late,
    /// So long that nobody is there.
    Dead(Duration),
}

/// The line.
#[derive(Debug)]
pub(super) struct Liveness {
    heard: Duration,
    silence: Duration,
    is_late: bool,
    probes: u64,
    /// When the last question went out, as long as it waits for its answer.
    asked: Option<Duration>,
    round_trip: Option<Duration>,
    received: u64,
    sent: u64,
}

impl Liveness {
    /// A line on which something was just heard, and whose silences are `silence` long until others are announced.
    pub(super) fn new(silence: Duration, now: Duration) -> Self {
        Liveness {
            heard: now,
            silence,
            is_late: false,
            probes: 0,
            asked: None,
            round_trip: None,
            received: 0,
            sent: 0,
        }
    }

    /// A frame of so many bytes came. True where the agent was late until now.
    pub(super) fn heard_frame(&mut self, bytes: u64, now: Duration) -> bool {
        self.received += bytes;
        self.heard = now;
        std::mem::take(&mut self.is_late)
    }

    /// Bytes came at `at`, though perhaps no whole frame. True where the agent was late until now.
    pub(super) fn heard_bytes(&mut self, at: Duration) -> bool {
        if at <= self.heard {
            return false;
        }
        self.heard = at;
        std::mem::take(&mut self.is_late)
    }

    /// The agent says after how long it will be heard again.
    pub(super) fn announced(&mut self, next: Duration) {
        self.silence = next.clamp(Duration::from_secs(1), LONGEST_SILENCE);
    }

    /// A frame of so many bytes went out.
    pub(super) fn sends(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// A question for a sign of life.
    pub(super) fn probe(&mut self, now: Duration) -> v1::Ping {
        self.probes += 1;
        self.asked = Some(now);
        v1::Ping { seq: self.probes, next_ms: self.silence.as_millis() as u64, ..v1::Ping::default() }
    }

    /// The answer to one.
    pub(super) fn answered(&mut self, seq: u64, now: Duration) {
        if seq == self.probes
            && let Some(asked) = self.asked.take()
        {
            self.round_trip = Some(now.saturating_sub(asked));
        }
    }

    /// Looks at the clock.
    pub(super) fn silence(&mut self, now: Duration) -> Silence {
        let silent = now.saturating_sub(self.heard);
        if silent >= dead_after(self.silence) {
            return Silence::Dead(silent);
        }
        if silent < late_after(self.silence) || self.is_late {
            return Silence::Fine;
        }
        self.is_late = true;
        Silence::Late
    }

    /// When [`Liveness::silence`] has something else to say.
    pub(super) fn deadline(&self) -> Duration {
        let after = if self.is_late { dead_after } else { late_after };
        self.heard + after(self.silence)
    }

    /// From when on silence is death.
    pub(super) fn dead_at(&self) -> Duration {
        self.heard + dead_after(self.silence)
    }

    pub(super) fn heard(&self) -> Duration {
        self.heard
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Bytes of frames that came, and that went.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.received, self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_timed_by_its_own_answer() {
        let ms = Duration::from_millis;
        let mut line = Liveness::new(Duration::from_secs(20), ms(0));
        let first = line.probe(ms(100));
        let second = line.probe(ms(200));
        line.answered(first.seq, ms(250));
        assert_eq!(line.round_trip(), None, "the answer to another question");
        line.answered(second.seq, ms(280));
        line.answered(second.seq, ms(900));
        assert_eq!(line.round_trip(), Some(ms(80)));
    }
}
