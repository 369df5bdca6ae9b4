//! Where the hub's randomness is made, for whoever is given some: numbers, ids, tokens, keys.
//!
//! In: nothing. Out: numbers, ids, a generator. Everything else is handed one of these, so that a test can hand its own.

use uuid::Uuid;

/// A number that nobody foresees.
#[expect(clippy::disallowed_methods, reason = "here it is made")]
pub fn number() -> u64 {
    rand::random()
}

/// An id that no other object has.
#[expect(clippy::disallowed_methods, reason = "here it is made")]
pub fn id() -> Uuid {
    Uuid::new_v4()
}

/// A generator for secrets.
#[expect(clippy::disallowed_methods, reason = "here it is made")]
pub fn generator() -> rand::rngs::ThreadRng {
    rand::rng()
}
