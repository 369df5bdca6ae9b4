//! One end of a tunnel: a request to a member's API and its answer, as frames that anything may carry.
//!
//! Comes in: the frames of the other end, and what this end has to say, part by part. Goes out: frames, and what the other end said, part by
//! part. [`flow`] counts bytes and decides, without IO; [`pump`] moves frames and parts; [`relay`] moves bodies and connections; [`headers`] are
//! HTTP's headers as frames carry them.
//!
//! Both ends are of this crate: the hub's gateway says requests and hears answers, the agent the other way round.

pub mod flow;
pub mod headers;
pub mod pump;
pub mod relay;

pub use flow::{Fault, Flow};
pub use pump::{Guard, Incoming, Outgoing, Part, Reset, open};

/// Bytes that an end takes before it allows more: what one tunnel may hold in memory at either end.
pub const WINDOW: u64 = 256 * 1024;

/// No frame carries more: what is of a higher class waits for one of them at most.
pub const CHUNK: usize = 16 * 1024;

/// No message of a tunnel is longer: a head, or a chunk and what stands around it.
pub const MESSAGE: usize = 128 * 1024;

/// Bytes of a tunnel's id.
pub const ID: usize = 16;
