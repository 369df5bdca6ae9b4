//! The hub's wall clock is set while sessions run.

use std::sync::atomic::AtomicI64;

use super::*;
use crate::testing::beginning;

/// Certificates of an hour: what one is worth is what the clock on the wall says now, and not what it said when the session began.
#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_certificate_where_the_clock_is_set_ahead() {
    let ahead = Arc::new(AtomicI64::new(0));
    let set = ahead.clone();
    let started = tokio::time::Instant::now();
    let wall = move || {
        let passed = started.elapsed().as_secs() as i64 + set.load(Ordering::SeqCst);
        beginning() + jiff::SignedDuration::from_secs(passed)
    };
    let rig = Rig::over(crate::clock_and_random::ClockAndRandom::new(wall, || 1));
    let (frames, mut session) = rig.open().await.unwrap();
    let is_closed =
        |said: &[hub_frame::Body]| said.iter().any(|body| matches!(body, hub_frame::Body::Close(_)));
    let mut lives = async |seconds: u64| {
        let mut said = Vec::new();
        for seq in 0..seconds {
            let _ = frames.unbounded_send(Ok(frame::agent(agent_frame::Body::Ping(Ping {
                seq,
                next_ms: 20_000,
                ..Ping::default()
            }))));
            tokio::time::sleep(Duration::from_secs(1)).await;
            said.extend(turn(&mut session).await);
        }
        said
    };
    assert!(!is_closed(&lives(60).await));
    ahead.store(3000, Ordering::SeqCst);
    assert!(!is_closed(&lives(60).await), "it has some minutes still");
    ahead.store(4000, Ordering::SeqCst);
    assert!(is_closed(&lives(10).await), "it ended");
    assert_eq!(rig.gateway.fleet().sessions(), 0);
}
