//! gRPC: the calls of agents and of those who want to be, as frames and requests, and back. Nothing else in the gateway knows of it.
//!
//! In: calls with the caller's certificate and address beside them. Out: streams of frames, or a gRPC status for who showed no certificate.
//! It decides nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use karmada_certs::PeerIdentity;
use karmada_proto::MESSAGE_LIMIT;
use karmada_proto::join::JOIN_LIMIT;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::fleet_server::{Fleet, FleetServer};
use karmada_proto::v1::{AgentFrame, HubFrame, JoinReply, JoinRequest, TunnelFrame};
use tonic::{Request, Response, Status, Streaming};

use crate::connection::{Caller, connect};
use crate::gateway::Gateway;
use crate::join;

/// What carries frames here, for display.
const TRANSPORT: &str = "grpc";

/// The service that the hub mounts on its port. Cheap to clone.
#[derive(Clone)]
pub struct FleetService {
    gateway: Arc<Gateway>,
}

/// The service of a gateway, for any number of ports.
pub fn server(gateway: &Arc<Gateway>) -> FleetServer<FleetService> {
    FleetServer::new(FleetService { gateway: gateway.clone() }).max_decoding_message_size(MESSAGE_LIMIT)
}

/// The same for callers who showed no certificate: they can only join, and what they say is short.
pub fn for_strangers(gateway: &Arc<Gateway>) -> FleetServer<FleetService> {
    FleetServer::new(FleetService { gateway: gateway.clone() }).max_decoding_message_size(JOIN_LIMIT)
}

#[tonic::async_trait]
impl Fleet for FleetService {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let from = request.extensions().get::<IpAddr>().copied();
        let answer = join::answer(&self.gateway, request.into_inner(), from).await;
        answer.map(Response::new).map_err(|error| Status::unavailable(error.message))
    }

    type TunnelStream = BoxStream<'static, Result<TunnelFrame, Status>>;

    async fn tunnel(
        &self,
        request: Request<Streaming<TunnelFrame>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let Some(peer) = request.extensions().get::<PeerIdentity>().cloned() else {
            return Err(Status::unauthenticated("a tunnel needs the agent's client certificate"));
        };
        let accepted = self.gateway.accept_tunnel(&peer, request.into_inner()).await;
        let mut frames = accepted.map_err(Status::permission_denied)?;
        let frames = futures::stream::poll_fn(move |cx| frames.poll_recv(cx));
        Ok(Response::new(frames.map(Ok).boxed()))
    }

    type ConnectStream = BoxStream<'static, Result<HubFrame, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let shown = request.extensions();
        let Some(peer) = shown.get::<PeerIdentity>().cloned() else {
            return Err(Status::unauthenticated("the stream needs the agent's client certificate"));
        };
        let caller = Caller {
            peer,
            from: shown.get::<IpAddr>().copied(),
            last_read: shown.get::<LastRead>().cloned().unwrap_or_default(),
            transport: TRANSPORT,
        };
        let frames = connect(&self.gateway, caller, request.into_inner()).await;
        Ok(Response::new(frames.map(Ok).boxed()))
    }
}
