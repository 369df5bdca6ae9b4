//! What hub and agent agree on: the frames of the stream, the service, and how bodies travel.
//!
//! Comes in: `protos/fleet/v1/fleet.proto`, compiled by `build.rs`. Goes out: the generated types ([`v1`]), the
//! codec, body encoding and chunking ([`body`]) with the dictionary that both ends have, a body told by what differs from another ([`delta`]),
//! digests of what both ends hold ([`digest`]), frame constructors ([`frame`]), liveness arithmetic shared by both ends ([`keepalive`]), the bounds
//! of a join ([`join`]), how often somebody may do something ([`token_bucket`]), and how a peer's text is printed ([`quote`]). No runtime and no IO; the only clock is the caller's.

pub mod body;
mod codec;
pub mod credit;
pub mod delta;
mod dictionary;
pub mod digest;
pub mod frame;
pub mod join;
pub mod keepalive;
pub mod last_read;
pub mod quote;
pub mod token_bucket;

pub use codec::SmallCodec;
pub use quote::{one_line, one_line_of, quoted};

/// The generated types of package `fleet.v1`. Documented in the `.proto`.
#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::missing_errors_doc,
    clippy::semicolon_if_nothing_returned,
    clippy::large_futures
)]
pub mod v1 {
    tonic::include_proto!("fleet.v1");
}

/// The protocol versions this build speaks, lowest and highest.
pub const PROTOCOL: (u32, u32) = (1, 1);

/// What this build understands beyond the protocol's first version. Both ends use what both name.
pub const FEATURES: [&str; 6] = [DIGESTS, ASK, DOCUMENTS, DICTIONARY, DELTAS, ASK_HUB];

/// Both ends compare roots of what they hold, and only what differs is sent.
pub const DIGESTS: &str = "digests";

/// The hub may ask, and the agent answers; it dials tunnels that it is asked for.
pub const ASK: &str = "ask";

/// The agent may ask, and the hub answers.
pub const ASK_HUB: &str = "ask-hub";

/// The hub tells tables that are one document each.
pub const DOCUMENTS: &str = "documents";

/// Bodies may be packed with the dictionary that both ends have.
pub const DICTIONARY: &str = "dictionary";

/// A changed body may be told by what differs from the one that the agent holds.
pub const DELTAS: &str = "deltas";

/// No frame carries more body than this: on a slow link, pings and deletes are sent between two of them.
pub const CHUNK: usize = 64 * 1024;

/// The largest decoded body of a Work: etcd's own limit for one object, and then some for the envelope.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The largest decoded status of one Work or of a cluster: what is parsed grows manyfold.
pub const STATUS_LIMIT: usize = 1024 * 1024;

/// The largest message either end decodes: one chunk and its envelope, with room for a JSON status.
pub const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;

/// The longest question ([`v1::Ask`], [`v1::AskHub`]) that either end takes, bytes: it is kept until it is answered. An answer of the hub's is no
/// longer either.
pub const LONGEST_QUESTION: usize = 64 * 1024;
