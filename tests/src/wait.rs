//! Waiting for something to become true: by looking again and again, never by guessing how long it takes.
//!
//! In: what is waited for, in words, and a function that looks. Out: what it found; after the timeout a panic or an error with what was
//! seen last. Blocks, and looks every 50 ms.

use std::time::{Duration, Instant};

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(50);

/// Long enough for anything that happens at all, on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Looks until `look` answers `Ok`, and returns that.
///
/// `look` says in its `Err` what it saw instead; after `timeout` that is the panic's text, so that a failure
/// tells the state and not only that time ran out.
#[track_caller]
pub fn eventually<T>(what: &str, timeout: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    match try_eventually(timeout, &mut look) {
        Ok(found) => found,
        Err(last) => panic!("waited {timeout:?} for {what}; last seen: {last}"),
    }
}

/// The same, with the timeout as an error.
///
/// # Errors
/// What was seen last, once `timeout` is over.
pub fn try_eventually<T>(
    timeout: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    let deadline = Instant::now() + timeout;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(seen) if Instant::now() >= deadline => return Err(seen),
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
}

/// Turns a condition into what [`eventually`] wants.
///
/// # Errors
/// It does not hold: what was seen.
pub fn so(condition: bool, seen: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(seen()) }
}

/// Looks for `duration` that `look` stays `Ok`, for what must *not* happen.
#[track_caller]
pub fn throughout(what: &str, duration: Duration, mut look: impl FnMut() -> Result<(), String>) {
    let deadline = Instant::now() + duration;
    while Instant::now() < deadline {
        if let Err(seen) = look() {
            panic!("{what} did not last; seen: {seen}");
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_tells_what_was_seen_last() {
        let mut looks = 0;
        let result = try_eventually(Duration::from_millis(120), || {
            looks += 1;
            Err::<(), _>(format!("look {looks}"))
        });
        assert_eq!(result, Err(format!("look {looks}")));
        assert!(looks > 1);
        assert_eq!(try_eventually(Duration::ZERO, || Ok::<_, String>(1)), Ok(1));
    }
}
