//! The fleet's end of the stream, on the hub.
//!
//! Comes in: agents' gRPC calls, already authenticated by the listener (the verified peer's
//! `karmada_certs::PeerIdentity` is found in the request's extensions; none means no client certificate; beside it, where the
//! listener tells, the connection's `karmada_proto::pulse::Pulse`); or frames of any other transport ([`connection::carry`]). Goes
//! out: Works to agents, reports to the hub's ports. Mount [`service::of`] on the hub's one port.
//!
//! - [`session`]: one agent's session as a pure state machine; [`stream`]: the shell around it.
//! - [`fleet`]: what is known of every link and session, pure; [`links`]: the same, shared; [`door`]: how a session is reached.
//! - [`router`]: which session a change is for; [`queue`], [`inbox`]: what waits to be sent, and to be written; [`wire`]: what of a Work
//!   is sent; [`encodings`]: how it is packed, once for all sites that share it.
//! - [`admission`], [`connection`]: who becomes a session; [`gateway`]: what is done to sessions from outside.
//! - [`asks`], [`asking`]: what an agent is asked, and who waits for its answer; [`tunnels`], [`dialling`]: requests to a member's API, by
//!   way of its agent.
//! - [`join`], [`rate`]: how strangers become agents, and how often anybody may.
//! - [`service`]: gRPC, which nothing else here knows; [`ports`]: what the hub implements; [`sources`]: time and randomness.

mod asking;
mod asks;
mod clones;
pub mod connection;
mod dialling;
mod door;
pub mod encodings;
pub mod fleet;
mod gateway;
pub mod inbox;
pub mod join;
pub mod links;
pub mod options;
pub mod ports;
pub mod queue;
pub mod rate;
pub mod router;
pub mod service;
pub mod session;
pub mod session_admission;
pub mod sources;
mod stream;
#[cfg(test)]
mod testing;
mod tunnels;
mod wire;

pub use asking::AskError;
pub use dialling::{OpenTunnel, TunnelError, TunnelGuard};
pub use gateway::Gateway;
pub use links::Links;
pub use options::Options;
pub use ports::Ports;
pub use sources::Sources;
pub use wire::body_hash;
