//! Tunnels: one request each to a member's API, by way of its agent, which dials what it is asked for.
//!
//! In: requests of the hub ([`Gateway::tunnel`]); calls of agents that name the id of a tunnel they were asked for. Out: what the member
//! answers, part by part ([`OpenTunnel`]). A tunnel ends with its session: whose identity is not accepted any more carries nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use karmada_certs::PeerIdentity;
use karmada_proto::frame;
use karmada_proto::v1::{
    self, AskRefusalCode, TunnelFrame, TunnelHello, TunnelRequest, answer, ask, tunnel_frame,
};
use karmada_tunnel::{Flow, Guard, Incoming, Outgoing, WINDOW};
use tokio::sync::mpsc;

use crate::awaited_tunnels::{Dialled, TunnelPermit};
use crate::gateway::Gateway;
use crate::pending_asks::NotAsked;
use crate::session_handle::SessionHandle;

/// How long an agent may take to dial a tunnel.
const DIAL: Duration = Duration::from_secs(10);
/// Frames on their way to one agent.
const OUTBOUND: usize = 4;

/// A tunnel over which the request was sent.
#[derive(Debug)]
pub struct OpenTunnel {
    /// The request's body; once the connection is another protocol's, what is said in it.
    pub outgoing: Outgoing,
    /// The head of the member's answer, and what follows.
    pub incoming: Incoming,
    /// Dropped, the tunnel ends.
    pub guard: TunnelGuard,
}

/// Keeps a tunnel open, and its place taken.
#[derive(Debug)]
pub struct TunnelGuard {
    _open: Guard,
    _place: TunnelPermit,
}

/// Why there is no tunnel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// The cluster's agent has no session.
    #[error("the agent of cluster {0} is not connected")]
    NotConnected(String),
    /// The agent went away, or did not answer.
    #[error("the agent of cluster {0} did not open a tunnel in time: {1}")]
    NotOpened(String, &'static str),
    /// The agent is older than tunnels.
    #[error("the agent of cluster {0} cannot open tunnels: it is to be upgraded")]
    TooOld(String),
    /// Too many are open.
    #[error("too many requests to the member clusters are open at once")]
    Busy,
    /// The site does not want it.
    #[error("the agent of cluster {0} refuses: {1}")]
    Refused(String, String),
}

impl Gateway {
    /// Sends `request` to the member `cluster`, by a tunnel that its agent opens.
    ///
    /// # Errors
    /// The agent is not there, does not open one in time, or does not want to; at once where that is known.
    pub async fn tunnel(&self, cluster: &str, request: TunnelRequest) -> Result<OpenTunnel, TunnelError> {
        let handle =
            self.fleet.handle(cluster).ok_or_else(|| TunnelError::NotConnected(cluster.to_owned()))?;
        let place = self.tunnels.place(cluster).ok_or(TunnelError::Busy)?;
        let Dialled { frames, out, window } = self.dialled(&handle).await?;
        let request = TunnelRequest { window: WINDOW, ..request };
        let gone = || TunnelError::NotOpened(cluster.to_owned(), "it went away");
        out.send(frame::tunnel(tunnel_frame::Body::Request(request))).await.map_err(|_| gone())?;
        let (outgoing, incoming, open, pump) =
            karmada_tunnel::open(Flow::new(WINDOW, window), frames, out, &handle.over);
        tokio::spawn(pump);
        Ok(OpenTunnel { outgoing, incoming, guard: TunnelGuard { _open: open, _place: place } })
    }

    /// Asks for a tunnel and waits for the call.
    async fn dialled(&self, handle: &Arc<SessionHandle>) -> Result<Dialled, TunnelError> {
        let name = || handle.cluster.clone();
        let id = (u128::from(self.random()) << 64 | u128::from(self.random())).to_be_bytes();
        let (_wait, dialled) = self.tunnels.awaits(id, handle.clone());
        let question = ask::Question::OpenTunnel(v1::OpenTunnel { id: Bytes::copy_from_slice(&id) });
        let answered = handle.ask(question, DIAL).map_err(|error| match error {
            NotAsked::Busy => TunnelError::Busy,
            NotAsked::Over => TunnelError::NotOpened(name(), "its session ended"),
        })?;
        let refused = async {
            match answered.await {
                Ok(answer::Result::TunnelComes(_)) => std::future::pending().await,
                Ok(answer::Result::Refusal(refusal)) if refusal.code() == AskRefusalCode::UnknownQuestion => {
                    TunnelError::TooOld(name())
                }
                Ok(answer::Result::Refusal(refusal)) if refusal.code() == AskRefusalCode::AskBusy => {
                    TunnelError::Busy
                }
                Ok(answer::Result::Refusal(refusal)) => {
                    TunnelError::Refused(name(), karmada_proto::one_line(&refusal.message))
                }
                Ok(_) => TunnelError::NotOpened(name(), "it answered something else"),
                Err(_) => TunnelError::NotOpened(name(), "its session ended"),
            }
        };
        tokio::select! {
            biased;
            Ok(dialled) = dialled => Ok(dialled),
            refused = refused => Err(refused),
            () = handle.over.cancelled() => Err(TunnelError::NotOpened(name(), "its session ended")),
            () = tokio::time::sleep(DIAL) => Err(TunnelError::NotOpened(name(), "nothing came within 10 s")),
        }
    }

    /// An agent dials a tunnel: the frames to it, where it was asked for one.
    ///
    /// # Errors
    /// Why it gets none, in words that tell nothing of other tunnels.
    pub(crate) async fn accept_tunnel<I, E>(
        &self,
        peer: &PeerIdentity,
        mut inbound: I,
    ) -> Result<mpsc::Receiver<TunnelFrame>, &'static str>
    where
        I: Stream<Item = Result<TunnelFrame, E>> + Send + Unpin + 'static,
        E: Send,
    {
        let authorized = self.ports.registrar.authorize_session(peer).await;
        let cluster = authorized.map_err(|_| "this identity has no session")?;
        let first = tokio::time::timeout(self.options.hello_timeout, inbound.next()).await;
        let Ok(Some(Ok(TunnelFrame { body: Some(tunnel_frame::Body::Hello(hello)), .. }))) = first else {
            return Err("the first frame of a tunnel must be a hello");
        };
        let TunnelHello { id, window } = hello;
        let awaited = self.tunnels.take(&id, &cluster, peer).ok_or("nobody asked for this tunnel")?;
        if !self.fleet.is_current(&awaited.handle) {
            return Err("nobody asked for this tunnel");
        }
        let (out, frames) = mpsc::channel(OUTBOUND);
        let inbound = inbound.take_while(|frame| futures::future::ready(frame.is_ok()));
        let inbound = inbound.filter_map(|frame| futures::future::ready(frame.ok()));
        let dialled = Dialled { frames: Box::new(Box::pin(inbound)), out, window };
        awaited.dialled.send(dialled).map_err(|_| "nobody waits for this tunnel any more")?;
        Ok(frames)
    }
}
