//! The fleet's end of the stream, on the hub.
//!
//! Comes in: agents' gRPC calls, already authenticated by the listener (the verified peer's
//! `karmada_certs::PeerIdentity` is found in the request's extensions; none means no client certificate; beside it, where the
//! listener tells, the connection's `karmada_proto::last_read::LastRead`); or frames of any other transport ([`connection::carry`]). Goes
//! out: Works to agents, reports to the hub's ports. Mount [`service::server`] on the hub's one port.
//!
//! - [`session`]: one agent's session as a pure state machine; [`stream`]: the shell around it.
//! - [`fleet`]: what is known of every link and session, pure; [`shared_fleet`]: the same, shared; [`session_handle`]: how a session is reached.
//! - [`router`]: which session a change is for; [`queue`], [`inbox`]: what waits to be sent, and to be written; [`work_body`]: what of a Work
//!   is sent; [`encodings`]: how it is packed, once for all sites that share it.
//! - [`session_admission`], [`connection`]: who becomes a session; [`gateway`]: what is done to sessions from outside.
//! - [`pending_asks`], [`ask_agent`]: what an agent is asked, and who waits for its answer; [`awaited_tunnels`], [`open_tunnel`]: requests to a member's API, by
//!   way of its agent.
//! - [`join`], [`rate`]: how strangers become agents, and how often anybody may.
//! - [`service`]: gRPC, which nothing else here knows; [`ports`]: what the hub implements; [`clock_and_random`]: time and randomness.

mod ask_agent;
mod awaited_tunnels;
pub mod clock_and_random;
mod cloned_identity;
pub mod connection;
pub mod encodings;
pub mod fleet;
mod gateway;
pub mod inbox;
pub mod join;
mod open_tunnel;
pub mod options;
mod pending_asks;
pub mod ports;
pub mod queue;
pub mod rate;
mod release_empty;
pub mod router;
pub mod service;
pub mod session;
pub mod session_admission;
mod session_handle;
pub mod shared_fleet;
mod stream;
#[cfg(test)]
mod testing;
mod work_body;

pub use ask_agent::AskError;
pub use clock_and_random::ClockAndRandom;
pub use gateway::Gateway;
pub use open_tunnel::{OpenTunnel, TunnelError, TunnelGuard};
pub use options::Options;
pub use ports::Ports;
pub use shared_fleet::SharedFleet;
pub use work_body::body_hash;
