//! How a session is opened: a connection, over which both ends say hello.
//!
//! In: who we are, what the ledger holds, an endpoint, what may carry frames. Out: a session with both of its directions ([`OpenedSession`]), or why there is
//! none.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use karmada_bare::{Incoming, Limits, Outgoing};
use karmada_certs::{PeerIdentity, SealKeys};
use karmada_proto::digest::Seed;
use karmada_proto::last_read::LastRead;
use karmada_proto::v1::fleet_client::FleetClient;
use karmada_proto::v1::{AgentFrame, Holding, HubFrame, Table};
use karmada_proto::{MESSAGE_LIMIT, frame, one_line};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::dial::{self, Dialled};
use super::hub::{Apart, Hub};
use super::last_read::NotingReads;
use super::{Carried, Link, OUTBOUND};
use crate::agent_state::AgentState;
use crate::cause::Cause;
use crate::clock_and_random::ClockAndRandom;
use crate::ledger::LedgerError;
use crate::renewal_schedule;
use crate::session::{Opening, Session};

/// How long the hub may take to answer the hello.
const ANSWER: Duration = Duration::from_secs(30);
/// What was said before a session's end is still sent for so long.
const FAREWELL: Duration = Duration::from_secs(1);
const LIMITS: Limits = Limits { first: MESSAGE_LIMIT, then: MESSAGE_LIMIT };

/// What the hub says; an error, in words, where the stream breaks.
pub(super) type Inbound = BoxStream<'static, Result<HubFrame, String>>;
type Refused = (Cause, String);

/// A session that said hello.
pub(super) struct OpenedSession {
    pub session: Session,
    pub frames: mpsc::Sender<AgentFrame>,
    pub inbound: Inbound,
    /// When the connection last brought a byte.
    pub last_read: LastRead,
    pub hub: Hub,
}

/// Opens a session with the hub at `endpoint`.
pub(super) async fn open(
    link: &Link,
    carried: &mut Carried,
    endpoint: &str,
) -> Result<Result<OpenedSession, Refused>, LedgerError> {
    let (config, peer) = match identity(link) {
        Ok(shown) => shown,
        Err(refused) => return Ok(Err(refused)),
    };
    let connector = NotingReads {
        connector: link.connector.clone(),
        started: carried.started,
        last_read: LastRead::default(),
    };
    let transports = carried.transports;
    let dialled = match dial::dial_any(&connector, endpoint, config.clone(), transports).await {
        Ok(dialled) => dialled,
        Err(error) => {
            carried.transports = transports.after_failure(link.transports, error.is_of_the_protocol());
            return Ok(Err(((&error).into(), error.to_string())));
        }
    };
    let mut session = begin(link, carried, peer)?;
    let (frames, outbound) = mpsc::channel(OUTBOUND);
    {
        let mut outbox = link.shared.outbox.lock();
        if let Some(hello) = session.next_frame(&mut outbox, carried.started.elapsed()) {
            let _ = frames.try_send(hello);
        }
    }
    let (answered, hub) = match dialled {
        Dialled::Grpc(client) => (called(client.clone(), outbound).await, Hub::Beside(client)),
        Dialled::Bare(stream) => {
            let apart = Apart::new(link.connector.clone(), endpoint.to_owned(), config);
            (framed(*stream, outbound).await, Hub::Apart(Arc::new(apart)))
        }
    };
    carried.transports =
        if answered.is_ok() { link.transports } else { transports.after_failure(link.transports, true) };
    Ok(answered.map(|inbound| OpenedSession {
        session,
        frames,
        inbound,
        last_read: connector.last_read,
        hub,
    }))
}

/// What this site shows, where it can be shown now.
fn identity(link: &Link) -> Result<(ClientConfig, PeerIdentity), Refused> {
    let identity = &link.identity;
    let now = link.sources.now();
    let unusable =
        |error: karmada_certs::CertError| (Cause::Other, format!("the identity cannot be used: {error}"));
    let shown = identity.keyed_certificate(now);
    let config = karmada_certs::client_config_h2(&identity.trust(), Some(&shown)).map_err(unusable)?;
    let peer = identity.peer(now).map_err(unusable)?;
    link.shared.counts.certificate_ends.store(peer.not_after.as_second(), Ordering::Relaxed);
    if let Some(days) = renewal_schedule::late(&peer, now) {
        tracing::warn!(days, until = %peer.not_after, "the agent's certificate ends and was not renewed: it must reach the hub before");
    }
    // The hub's TLS would refuse it without a word of why.
    if peer.not_after <= now {
        let reason = format!("the agent's certificate ended on {}: register again", peer.not_after);
        return Err((Cause::CertificateExpired, reason));
    }
    if peer.not_before > now {
        let reason = format!(
            "the agent's certificate begins on {}: is this machine's clock right? If it was the hub's that was wrong, register again",
            peer.not_before
        );
        return Err((Cause::Clock, reason));
    }
    Ok((config, peer))
}

/// A session that has not said hello yet, of what the ledger holds.
fn begin(link: &Link, carried: &mut Carried, peer: PeerIdentity) -> Result<Session, LedgerError> {
    let (identity, ledger) = (&link.identity, &link.shared.ledger);
    let (epoch, cursor) = ledger.position()?;
    let seed = seed(&link.sources);
    let (status_root, cluster_digest) = {
        let mut outbox = link.shared.outbox.lock();
        outbox.session_begins(seed);
        (outbox.told_root(), outbox.told_cluster())
    };
    let opening = Opening {
        cluster_name: identity.cluster_name.clone(),
        cluster_uid: identity.cluster_uid.clone(),
        key_fingerprint: peer.key_fingerprint,
        boot_id: link.boot_id.clone(),
        epoch,
        cursor,
        timeline: ledger.timeline()?,
        former_cursor: ledger.former_cursor()?,
        seen: ledger.seen()?,
        epoch_seal: ledger.epoch_seal()?,
        seal_keys: SealKeys::of_bundle(&identity.ca_bundle),
        clock_ms: link.sources.now().as_millisecond(),
        attempt: carried.schedule.attempt(),
        seed,
        holdings: holdings(&link.shared)?,
        status_root,
        cluster_digest,
    };
    let held = ledger.held()?;
    let unfinished = std::mem::take(&mut carried.unfinished);
    Ok(Session::open(opening, held, unfinished, carried.cadence, carried.started.elapsed()))
}

/// The documents that are held.
fn holdings(shared: &AgentState) -> Result<Vec<Holding>, LedgerError> {
    let table = Table::Customizations as u32;
    let held = shared.ledger.document(table)?;
    Ok(held.map(|(hash, _)| Holding { table, hash }).into_iter().collect())
}

/// What the digests of one session are salted with.
fn seed(sources: &ClockAndRandom) -> Seed {
    let random = u128::from(sources.random()) << 64 | u128::from(sources.random());
    Seed::new(random.to_be_bytes())
}

async fn in_time<T>(answer: impl Future<Output = T>) -> Result<T, Refused> {
    let late = |_| (Cause::Tcp, "the hub did not answer the hello in 30 s".to_owned());
    tokio::time::timeout(ANSWER, answer).await.map_err(late)
}

/// Carries the session by a call of gRPC.
async fn called(
    mut client: FleetClient<Channel>,
    outbound: mpsc::Receiver<AgentFrame>,
) -> Result<Inbound, Refused> {
    let answer = in_time(client.connect(ReceiverStream::new(outbound))).await?;
    let refused = |status: tonic::Status| {
        ((&status).into(), format!("the hub refused the stream: {}", one_line(status.message())))
    };
    let inbound = answer.map_err(refused)?.into_inner();
    Ok(inbound.map(|frame| frame.map_err(|status| one_line(status.message()))).boxed())
}

/// Carries the session by frames over the connection itself.
async fn framed<S: AsyncRead + AsyncWrite + Send + 'static>(
    connection: S,
    outbound: mpsc::Receiver<AgentFrame>,
) -> Result<Inbound, Refused> {
    let (reads, writes) = tokio::io::split(connection);
    let out: Outgoing<_, AgentFrame> = Outgoing::new(writes);
    let over = CancellationToken::new();
    let ends = over.clone().drop_guard();
    tokio::spawn(async move {
        let late = async {
            over.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            _ = ReceiverStream::new(outbound).map(Ok).forward(out) => {}
            () = late => {}
        }
    });
    let frames: Incoming<_, HubFrame> = Incoming::new(reads, LIMITS).only(frame::is_bounded);
    let mut frames = frames.map(move |frame| {
        let _until_it_is_dropped = &ends;
        frame.map_err(|error| one_line(&error.to_string()))
    });
    match in_time(frames.next()).await? {
        Some(Ok(first)) => Ok(stream::iter([Ok(first)]).chain(frames).boxed()),
        Some(Err(why)) => Err((Cause::Tcp, format!("the hub did not answer the hello: {why}"))),
        None => Err((Cause::Tcp, "the hub did not answer the hello: it ended the connection".to_owned())),
    }
}
