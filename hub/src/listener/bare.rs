//! An agent's session without HTTP: frames straight over the connection, where TLS negotiated them.
//!
//! In: a connection that was received, and the key of the agent whose certificate was shown. Out: nothing; runs until the session or the
//! connection ends. Who shows no agent's certificate is let go without a word: agents alone know of it.

use karmada_bare::{Incoming, Limits, Outgoing};
use karmada_gateway::connection::{Caller, carry};
use karmada_proto::v1::{AgentFrame, HubFrame};
use karmada_proto::{MESSAGE_LIMIT, frame};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::agents::HELLO_LIMIT;
use super::connections::UNTAKEN;
use super::{Received, Services};

/// What carries the frames, for display.
const TRANSPORT: &str = "bare";
/// The first message is a hello.
const LIMITS: Limits = Limits { first: HELLO_LIMIT as usize, then: MESSAGE_LIMIT };

/// What is still read of an agent whose session is over: more than it sends before it has heard so.
const UNHEARD: u64 = 4 << 20;

/// Serves the session of one connection. As many of one key as calls of gRPC.
pub async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(received: Box<Received<S>>, services: Services) {
    let Received { stream, peer, place, from, last_read } = *received;
    let Some(peer) = peer.identity.filter(|peer| peer.is_of_an_agent()) else {
        return tracing::debug!(from = %from.0, "frames without HTTP need an agent's certificate");
    };
    let _one_of_its_key = services.agents.connected(&peer.key_fingerprint, place.leave.clone());
    let Some(_session) = services.agents.session(&peer.key_fingerprint) else {
        return tracing::debug!(from = %from.0, "this agent has more sessions open than an agent needs");
    };
    let _busy = place.begin();
    let (reads, writes) = tokio::io::split(stream);
    let mut frames: Incoming<_, AgentFrame> = Incoming::new(reads, LIMITS).only(frame::is_bounded);
    let out: Outgoing<_, HubFrame> = Outgoing::new(writes);
    let caller = Caller { peer, from: Some(from.0), last_read, transport: TRANSPORT };
    tokio::select! {
        ended = carry(&services.gateway, caller, &mut frames, out) => {
            if let Err(error) = ended {
                return tracing::debug!(%error, "a connection ended");
            }
        }
        () = place.leave.cancelled() => return,
    }
    tokio::select! {
        () = heard_out(frames.into_inner()) => {}
        () = place.leave.cancelled() => {}
    }
}

/// Waits until the agent ends the connection as well. One that is closed while there is something to read is reset, and the agent loses what it has
/// not taken by then: why its session was closed above all.
async fn heard_out<R: AsyncRead + Unpin>(reads: R) {
    let rest = async { tokio::io::copy(&mut reads.take(UNHEARD), &mut tokio::io::sink()).await };
    if let Ok(Err(error)) = tokio::time::timeout(UNTAKEN, rest).await {
        tracing::debug!(%error, "a connection ended");
    }
}
