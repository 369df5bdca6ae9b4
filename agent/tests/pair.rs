//! Both ends of the stream together: as bare state machines under a clock of the test's own, and over real TLS
//! and gRPC on loopback with a member in memory; and an agent whose member is another cluster.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "pair/copies.rs"]
mod copies;
#[path = "pair/deltas.rs"]
mod deltas;
#[path = "pair/digests.rs"]
mod digests;
#[path = "pair/elsewhere.rs"]
mod elsewhere;
#[path = "pair/hostile.rs"]
mod hostile;
#[path = "pair/machines.rs"]
mod machines;
#[path = "pair/recorded.rs"]
mod recorded;
#[path = "pair/restores.rs"]
mod restores;
#[path = "pair/resumption.rs"]
mod resumption;
#[path = "pair/stream.rs"]
mod stream;
