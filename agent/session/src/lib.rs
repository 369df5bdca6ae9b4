//! The agent's end of the stream, without IO: no clock, no sockets, no disk.
//!
//! In: frames, outcomes, monotonic time and a seed, all handed in by the agent's tasks. Out: frames, changes to keep, times to wait.
//!
//! ```text
//! the hub's frames          ── session ─▶ frames, changes for the ledger, advice on the next dial
//! what the member came to   ── outbox  ─▶ reports, each once, the newest of each Work
//! how sessions ended        ── redial  ─▶ when to dial again
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod outbox;
pub mod redial;
pub mod session;
