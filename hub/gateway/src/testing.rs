//! What several tests need: a peer with a certificate of its own, sources of time that a test owns, and text of any length.
//!
//! In: the name of a cluster, a length, a seed. Out: the same for the same input, but for keys. Compiled for tests alone.

use std::time::Duration;

use jiff::Timestamp;
use karmada_certs::{Authority, CertificateRequest, ClientKey, PeerIdentity, agent_subject};
use tokio::time::Instant;

use crate::clock_and_random::ClockAndRandom;

/// When the wall clock of tests begins.
pub(crate) fn beginning() -> Timestamp {
    Timestamp::from_second(1_750_000_000).unwrap()
}

/// The agent of a cluster.
pub(crate) fn peer(cluster: &str) -> PeerIdentity {
    let (ca, _) = Authority::create(beginning()).unwrap();
    let key = ClientKey::generate().unwrap();
    let request = CertificateRequest::from_der(&key.request(&agent_subject(cluster)).unwrap()).unwrap();
    let hour = Duration::from_secs(3600);
    PeerIdentity::from_pem(&ca.issue_client(&agent_subject(cluster), &request, hour, beginning()).unwrap())
        .unwrap()
}

/// A wall clock that goes with the runtime's, and draws that are not all the same. Must be called within a tokio runtime.
pub(crate) fn sources() -> ClockAndRandom {
    let started = Instant::now();
    let wall = move || beginning() + jiff::SignedDuration::try_from(started.elapsed()).unwrap();
    let draws = std::sync::atomic::AtomicU64::new(1);
    let step = 0x9e37_79b9_7f4a_7c15;
    ClockAndRandom::new(wall, move || draws.fetch_add(step, std::sync::atomic::Ordering::Relaxed))
}

/// Text that shrinks little.
pub(crate) fn noise(length: usize, seed: u64) -> String {
    let mut state = seed;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 40) % 26) as u8)
    };
    (0..length).map(letter).collect()
}
