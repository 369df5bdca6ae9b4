//! When to ask for a new certificate: once a third of its life is left, then every so often until it is there.
//!
//! In: what the certificate says, the wall clock, when it was asked before. Out: how long to wait. What a hub answers never shortens a
//! wait: one that refuses, sends what is held already, or asks to be asked, is asked ever more seldom.

use std::time::Duration;

use jiff::Timestamp;
use karmada_certs::PeerIdentity;

/// Between two asks.
const AGAIN: Duration = Duration::from_secs(300);

/// How long until the certificate is to be renewed; zero where that is due. Short lives ask again sooner.
pub fn due_in(certificate: &PeerIdentity, now: Timestamp) -> Duration {
    let lifetime = certificate.not_after.as_second().saturating_sub(certificate.not_before.as_second());
    let at = certificate.not_after.as_second().saturating_sub(lifetime / 3);
    Duration::from_secs(at.saturating_sub(now.as_second()).max(0) as u64)
}

/// How long to wait after an ask that was not answered.
pub fn ask_again_in(certificate: &PeerIdentity, now: Timestamp) -> Duration {
    AGAIN.min((left(certificate, now) / 10).max(Duration::from_secs(1)))
}

/// Between two words about renewals that brought nothing.
const TELL: Duration = Duration::from_secs(60);

/// The asks so far, over all sessions. Times are monotonic, since any fixed start.
#[derive(Debug, Default)]
pub struct Asking {
    asked: Option<Duration>,
    in_a_row: u32,
    told: Option<Duration>,
}

impl Asking {
    /// It is asked at `now`.
    pub fn asks(&mut self, now: Duration) {
        let is_in_a_row = self.asked.is_some_and(|before| now.saturating_sub(before) <= 2 * AGAIN);
        self.in_a_row = if is_in_a_row { self.in_a_row.saturating_add(1) } else { 0 };
        self.asked = Some(now);
    }

    /// The earliest time of the next ask, whoever wishes it: a second after the last, then two, four, up to five minutes, and at most a
    /// third of what is left of the certificate.
    pub fn earliest(&self, certificate: &PeerIdentity, now: Timestamp) -> Duration {
        let Some(asked) = self.asked else { return Duration::ZERO };
        let pause = Duration::from_secs(1 << self.in_a_row.min(9)).min(AGAIN);
        let third = match left(certificate, now) / 3 {
            Duration::ZERO => AGAIN,
            third => third.max(Duration::from_secs(1)),
        };
        asked + pause.min(third)
    }

    /// Whether it is time to say that a reply brought nothing.
    pub fn tells(&mut self, now: Duration) -> bool {
        let is_due = self.told.is_none_or(|told| now.saturating_sub(told) >= TELL);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }
}

/// How long the certificate is valid still.
fn left(certificate: &PeerIdentity, now: Timestamp) -> Duration {
    Duration::from_secs(certificate.not_after.as_second().saturating_sub(now.as_second()).max(0) as u64)
}

/// Days that are left of a certificate that should have been renewed by now; `None` where there is time.
pub fn late(certificate: &PeerIdentity, now: Timestamp) -> Option<i64> {
    let lifetime = certificate.not_after.as_second().saturating_sub(certificate.not_before.as_second());
    let left = certificate.not_after.as_second().saturating_sub(now.as_second());
    (left < lifetime / 6).then(|| left.div_euclid(24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn certificate(not_after: i64) -> PeerIdentity {
        PeerIdentity {
            common_name: String::new(),
            organizations: Vec::new(),
            subject: String::new(),
            issuer: String::new(),
            serial: String::new(),
            not_before: at(0),
            not_after: at(not_after),
            fingerprint: String::new(),
            key_fingerprint: String::new(),
        }
    }

    #[test]
    fn a_third_of_life_is_left_when_it_is_due() {
        let certificate = certificate(300);
        for (now, due) in [(0, 200), (150, 50), (200, 0), (400, 0)] {
            assert_eq!(due_in(&certificate, at(now)).as_secs(), due);
        }
        for (now, days) in [(0, None), (250, None), (251, Some(0)), (301, Some(-1))] {
            assert_eq!(late(&certificate, at(now)), days, "{now}");
        }
        assert_eq!(ask_again_in(&certificate, at(200)).as_secs(), 10);
        assert_eq!(ask_again_in(&certificate, at(400)).as_secs(), 1);
    }

    /// Seconds of the asks of an hour in which it is asked as early as may be, whatever is answered.
    fn asks_of_an_hour(certificate: &PeerIdentity, begins: i64) -> Vec<u64> {
        let (mut asking, mut asks) = (Asking::default(), Vec::new());
        for second in 0..3600 {
            let now = Duration::from_secs(second);
            if asking.earliest(certificate, at(begins + second as i64)) <= now {
                asking.asks(now);
                asks.push(second);
            }
        }
        asks
    }

    #[test]
    fn whatever_is_answered_it_is_asked_ever_more_seldom() {
        let year = 365 * 24 * 3600;
        for begins in [0, year - 7200, year + 1] {
            let asks = asks_of_an_hour(&certificate(year), begins);
            assert_eq!(asks[..6], [0, 1, 3, 7, 15, 31], "{begins}");
            assert!(asks.len() < 25, "{begins}: {asks:?}");
        }
        let short = asks_of_an_hour(&certificate(3600), 3000);
        assert!(
            short.iter().filter(|ask| **ask < 600).count() > 8,
            "what ends soon is asked for before: {short:?}"
        );
        assert!(short.len() < 60, "{short:?}");
    }

    #[test]
    fn a_new_need_long_after_the_last_begins_with_short_waits() {
        let (certificate, mut asking) = (certificate(365 * 24 * 3600), Asking::default());
        (0..20).for_each(|at| asking.asks(Duration::from_secs(at * 300)));
        let last = Duration::from_secs(19 * 300);
        assert_eq!(asking.earliest(&certificate, at(0)), last + AGAIN);
        let later = last + Duration::from_secs(3600);
        asking.asks(later);
        assert_eq!(asking.earliest(&certificate, at(0)), later + Duration::from_secs(1));
    }

    #[test]
    fn what_brought_nothing_is_told_once_a_minute() {
        let mut asking = Asking::default();
        let told = (0..600).filter(|second| asking.tells(Duration::from_secs(*second))).count();
        assert_eq!(told, 10);
    }
}
