//! When to ask for a new certificate: once a third of its life is left, then every so often until it is there.

use std::time::Duration;

use jiff::Timestamp;
use karmada_certs::PeerIdentity;

/// Between two asks.
const AGAIN: Duration = Duration::from_secs(300);

/// How long until the certificate is to be renewed; zero where that is due. Short lives ask again sooner.
pub fn due_in(certificate: &PeerIdentity, now: Timestamp) -> Duration {
    let life = certificate.not_after.as_second().saturating_sub(certificate.not_before.as_second());
    let at = certificate.not_after.as_second().saturating_sub(life / 3);
    Duration::from_secs(at.saturating_sub(now.as_second()).max(0) as u64)
}

/// How long to wait after an ask that was not answered.
pub fn ask_again_in(certificate: &PeerIdentity, now: Timestamp) -> Duration {
    let left = certificate.not_after.as_second().saturating_sub(now.as_second()).max(0) as u64;
    AGAIN.min(Duration::from_secs(left / 10).max(Duration::from_secs(1)))
}

/// Days that are left of a certificate that should have been renewed by now; `None` where there is time.
pub fn late(certificate: &PeerIdentity, now: Timestamp) -> Option<i64> {
    let life = certificate.not_after.as_second().saturating_sub(certificate.not_before.as_second());
    let left = certificate.not_after.as_second().saturating_sub(now.as_second());
    (left < life / 6).then(|| left.div_euclid(24 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_life_is_left_when_it_is_due() {
        let at = |s| Timestamp::from_second(s).unwrap();
        let certificate = PeerIdentity {
            common_name: String::new(),
            organizations: Vec::new(),
            subject: String::new(),
            issuer: String::new(),
            serial: String::new(),
            not_before: at(0),
            not_after: at(300),
            fingerprint: String::new(),
            key_fingerprint: String::new(),
        };
        for (now, due) in [(0, 200), (150, 50), (200, 0), (400, 0)] {
            assert_eq!(due_in(&certificate, at(now)).as_secs(), due);
        }
        for (now, days) in [(0, None), (250, None), (251, Some(0)), (301, Some(-1))] {
            assert_eq!(late(&certificate, at(now)), days, "{now}");
        }
        assert_eq!(ask_again_in(&certificate, at(200)).as_secs(), 10);
        assert_eq!(ask_again_in(&certificate, at(400)).as_secs(), 1);
    }
}
