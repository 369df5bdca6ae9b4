//! Whether a hello becomes a session, decided before anything is opened for it.
//!
//! In: a hello, and what the hub knows of its past, its load and the clock. Out: the protocol to speak and where to resume, or the Close to
//! send with the time to come back. Pure.

use std::time::Duration;

use karmada_proto::PROTOCOL;
use karmada_proto::v1::{Close, CloseCode, Hello, RetryClass, Seen};

use crate::ports::{JoinRefusal, JoinRefusalCode, Position, RestoreHold, SessionRefusal};

/// Who is refused asks again this seldom: a person must look.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// Even a few agents come back spread over this.
const LEAST_SPREAD: Duration = Duration::from_secs(2);
/// Starts of the hub that a hello may name beside that of its cursor.
const SEEN: usize = 16;
/// Bytes of a boot id, which is kept as long as its session and shown: some random characters.
const BOOT_ID: usize = 128;
/// Characters that are shown of a name that is not the agent's.
const SHOWN_NAME: usize = 64;
/// A hub that cannot tell now.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// Checks what needs no other knowledge. The protocol version to speak.
///
/// # Errors
/// The close to send: no version is spoken by both, the hello is another cluster's, or something in it is longer than it may be.
pub fn check(cluster: &str, hello: &Hello) -> Result<u32, Close> {
    let version = PROTOCOL.1.min(hello.protocol_max);
    if version < PROTOCOL.0 || version < hello.protocol_min {
        let message = format!(
            "this hub speaks protocol {} to {}, the agent {} to {}",
            PROTOCOL.0, PROTOCOL.1, hello.protocol_min, hello.protocol_max
        );
        return Err(close(CloseCode::Version, RetryClass::Fatal, Duration::ZERO, message));
    }
    if hello.cluster_name != cluster {
        // A name of a Cluster is no longer than that; what else it says goes back to nobody.
        let said: String = hello.cluster_name.chars().take(SHOWN_NAME).collect();
        let message = format!("the certificate is cluster {cluster}'s, the hello says {said:?}");
        return Err(close(CloseCode::Protocol, RetryClass::Rejoin, Duration::ZERO, message));
    }
    if !(1..=BOOT_ID).contains(&hello.boot_id.len()) {
        let message = format!("a boot id has 1 to {BOOT_ID} bytes");
        return Err(close(CloseCode::Protocol, RetryClass::Fatal, Duration::ZERO, message));
    }
    if hello.seen.len() > SEEN {
        let message = format!("a hello names at most {SEEN} starts of the hub");
        return Err(close(CloseCode::Protocol, RetryClass::Fatal, Duration::ZERO, message));
    }
    Ok(version)
}

/// Whether the agent was given an epoch that the hub does not know of: the hub's file was copied back, and a new epoch
/// must be minted. `sealed`: the number carries the proof that a hub with this CA handed it out. Without it the number is
/// one site's word, and moves nobody but that site, which is listed everything in the hub's epoch.
pub fn ahead(hello: &Hello, position: Position, sealed: bool) -> bool {
    sealed && hello.epoch > position.epoch
}

/// Where the watch may resume: only within the epoch the agent has seen, and where the cursor `is_ours`: told to the agent of this very
/// Cluster, in our past, as is all of [`lives`].
pub fn resume(hello: &Hello, epoch: u64, is_ours: bool) -> Option<u64> {
    (is_ours && hello.epoch == epoch && hello.cursor > 0).then_some(hello.cursor)
}

/// Whether the agent has seen a life of the hub that was taken back, and nothing is `held` for that yet: it comes out of another epoch, or
/// was told what it holds by a start that is none of this hub's past. What was to be deleted then may be so no more. A cursor of zero says
/// nothing against it: a listing that was cut, or from which deletes were withheld, leaves it beside the start whose Works are held still.
/// `others`: those of [`lives`] that are none of this hub's past; `waits`: what is held waits for a word still, in this very epoch.
pub fn saw_another_life(
    hello: &Hello,
    epoch: u64,
    others: &[Seen],
    held: Option<&RestoreHold>,
    waits: bool,
) -> bool {
    let is_accounted_for = |life: &Seen| held.is_some_and(|held| held.accounts_for(life));
    let is_of_another_epoch = hello.epoch != 0 && hello.epoch != epoch && !waits;
    hello.objects > 0 && (is_of_another_epoch || !others.iter().all(is_accounted_for))
}

/// The starts of the hub that told the agent what it holds, each with the revision up to which it did: that of the cursor, also while a
/// listing that is unfinished begins the cursor anew; and those of what came beyond it before a cut.
pub fn lives(hello: &Hello) -> impl Iterator<Item = Seen> {
    let newest = hello.cursor.max(hello.former_cursor);
    let was_told = hello.timeline != 0 || hello.epoch != 0 && newest > 0;
    let of_the_cursor = was_told.then_some(Seen { timeline: hello.timeline, revision: newest });
    of_the_cursor.into_iter().chain(hello.seen.iter().copied())
}

/// To an agent whose certificate ended while its session ran. One that has renewed it meanwhile is back at once.
pub fn expired() -> Close {
    let message = "the agent's certificate has ended".to_owned();
    close(CloseCode::Recycle, RetryClass::RetryAfter, Duration::from_secs(1), message)
}

/// When an agent that is sent away may come back: all `live` of them spread over the time that the hub takes for them.
/// `random` is one agent's draw.
pub fn spread(random: u64, live: usize, rate: u32) -> Duration {
    let within = retry_hint(live, rate).max(LEAST_SPREAD);
    within.mul_f64(random as f64 / u64::MAX as f64)
}

/// The close for an identity that is refused.
pub fn refused(refusal: &SessionRefusal) -> Close {
    match refusal {
        SessionRefusal::Unregistered(message) => {
            close(CloseCode::Unregistered, RetryClass::Rejoin, REFUSED_PAUSE, message.clone())
        }
        SessionRefusal::Revoked(message) => {
            close(CloseCode::Revoked, RetryClass::Rejoin, REFUSED_PAUSE, message.clone())
        }
        SessionRefusal::Unavailable(message) => busy(message.clone()),
    }
}

/// The close for a cluster whose sessions follow one another faster than anybody's link breaks.
pub fn too_often(after: Duration) -> Close {
    let message = "this cluster's sessions follow one another too quickly".to_owned();
    close(CloseCode::Busy, RetryClass::RetryAfter, after, message)
}

/// The close for a hub that cannot serve now.
pub fn busy(message: String) -> Close {
    close(CloseCode::Busy, RetryClass::RetryAfter, BUSY_PAUSE, message)
}

/// Wait this long before the next dial, should the session be lost: all `live` agents fit into it at `rate` per
/// second.
pub fn retry_hint(live: usize, rate: u32) -> Duration {
    Duration::from_secs_f64(live as f64 / f64::from(rate.max(1))).min(Duration::from_secs(300))
}

/// Clocks may be this far apart: as far as certificates are backdated.
const CLOCK_LIMIT: Duration = Duration::from_secs(3600);

/// Refuses a join of a machine whose clock would find the hub's certificates not yet valid, or over: before anything
/// is made for it. Both in milliseconds since 1970 UTC.
///
/// # Errors
/// [`JoinRefusalCode::ClockSkewed`]: they are more than an hour apart.
pub fn clocks(agent_ms: i64, hub_ms: i64) -> Result<(), JoinRefusal> {
    let apart = Duration::from_millis(agent_ms.abs_diff(hub_ms));
    if apart <= CLOCK_LIMIT {
        return Ok(());
    }
    let way = if agent_ms < hub_ms { "behind" } else { "ahead of" };
    let message = format!("the joining machine's clock is {} s {way} the hub's", apart.as_secs());
    Err(JoinRefusal { code: JoinRefusalCode::ClockSkewed, message })
}

/// A Close frame's body.
pub fn close(code: CloseCode, retry: RetryClass, after: Duration, message: String) -> Close {
    Close {
        code: code.into(),
        retry: retry.into(),
        after_ms: after.as_millis() as u64,
        message,
        endpoint: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(min: u32, max: u32) -> Hello {
        Hello {
            protocol_min: min,
            protocol_max: max,
            cluster_name: "a".into(),
            boot_id: "b1".into(),
            ..Hello::default()
        }
    }

    #[test]
    fn versions_must_overlap_and_names_must_agree() {
        assert_eq!(check("a", &hello(1, 1)), Ok(1));
        assert_eq!(check("a", &hello(1, 9)), Ok(1));
        assert_eq!(check("a", &hello(2, 9)).unwrap_err().retry(), RetryClass::Fatal);
        assert_eq!(check("a", &hello(0, 0)).unwrap_err().code(), CloseCode::Version);
        assert_eq!(check("b", &hello(1, 1)).unwrap_err().code(), CloseCode::Protocol);
        for (length, goes) in [(0, false), (1, true), (128, true), (129, false)] {
            assert_eq!(check("a", &Hello { boot_id: "b".repeat(length), ..hello(1, 1) }).is_ok(), goes);
        }
    }

    #[test]
    fn epoch_and_cursor_order_everything() {
        let at = |epoch, cursor| Hello { epoch, cursor, ..hello(1, 1) };
        let hub = Position { epoch: 5, revision: 100, timeline: 1 };
        for (epoch, cursor, is_ahead, resumes) in [
            (0, 0, false, None),
            (4, 900, false, None),
            (5, 0, false, None),
            (5, 100, false, Some(100)),
            (5, 101, false, Some(101)),
            (6, 1, true, None),
            (u64::MAX, 1, true, None),
        ] {
            let hello = at(epoch, cursor);
            assert!(!ahead(&hello, hub, false), "a number without a proof moves nobody");
            assert_eq!(resume(&hello, hub.epoch, false), None, "nor does a cursor of another history");
            assert_eq!(
                (ahead(&hello, hub, true), resume(&hello, hub.epoch, true)),
                (is_ahead, resumes),
                "{epoch}/{cursor}"
            );
        }
    }

    #[test]
    fn clocks_an_hour_apart_are_told_by_how_much_and_which_way() {
        const HOUR: i64 = 3_600_000;
        assert_eq!(clocks(5 * HOUR, 4 * HOUR), Ok(()));
        assert_eq!(clocks(4 * HOUR, 5 * HOUR), Ok(()));
        for (agent, says) in [(0, "18000 s behind"), (8 * HOUR, "10800 s ahead of")] {
            let refusal = clocks(agent, 5 * HOUR).unwrap_err();
            assert_eq!(refusal.code, JoinRefusalCode::ClockSkewed);
            assert!(refusal.message.contains(says), "{}", refusal.message);
        }
    }

    #[test]
    fn who_is_sent_away_comes_back_spread_over_what_the_hub_takes() {
        let draws = (0..1000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let waits: Vec<u64> = draws.map(|random| spread(random, 10_000, 500).as_secs()).collect();
        for quarter in 0..4 {
            let inside = waits.iter().filter(|wait| **wait / 5 == quarter).count();
            assert!((150..350).contains(&inside), "{inside} of 1000 in quarter {quarter} of 20 s");
        }
        assert!(spread(u64::MAX, 3, 500) <= LEAST_SPREAD);
    }

    #[test]
    fn the_hint_grows_with_the_fleet_to_its_bound() {
        assert_eq!(retry_hint(0, 500), Duration::ZERO);
        assert_eq!(retry_hint(10_000, 500), Duration::from_secs(20));
        assert_eq!(retry_hint(10_000_000, 1), Duration::from_secs(300));
    }
}
