//! Connections and streams of agents, by who shows an agent's certificate.
//!
//! In: connections as they come, the key that each has proved to hold, and how to end it; calls of the fleet's service. Out: the
//! service's answers; the oldest connection is ended where one key has more than an agent needs. An agent has one session, for a
//! moment the one that it replaces, and the tunnels that it was asked for: whatever else it opens cannot add up, also where it takes nothing of
//! what is sent to it and its streams therefore do not end by themselves.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tower::Service;

use super::Grpc;

/// Streams of one connection: sessions and tunnels.
pub const STREAMS: u32 = 2 + TUNNELS as u32;
/// Sessions of one key at once, over all its connections.
const SESSIONS: usize = 2 * CONNECTIONS;
/// Tunnels of one key at once: as many as it is asked for, and some that are ending.
const TUNNELS: usize = 160;
/// Connections of one key: what is left of links that broke is not noticed at once.
const CONNECTIONS: usize = 4;
/// The first message of a stream is a hello: names, features and positions, a kilobyte in practice.
pub const HELLO_LIMIT: u32 = 64 << 10;
/// What is decoded takes many times as much, where it is many short headers.
const TUNNEL_LIMIT: u32 = karmada_tunnel::MESSAGE as u32;
/// What stands before each message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// The service for agents, and who is connected.
pub struct AgentStreams {
    service: Grpc,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// By key, the oldest first.
    of_key: BTreeMap<String, VecDeque<(u64, CancellationToken)>>,
    /// Calls that are not over, by key; whether they are tunnels.
    calls: BTreeMap<(String, bool), usize>,
}

/// A connection of an agent, until it is dropped.
pub struct Connected {
    agents: Arc<AgentStreams>,
    key: String,
    number: u64,
}

impl AgentStreams {
    /// In front of the service.
    pub fn new(service: Grpc) -> Arc<AgentStreams> {
        Arc::new(AgentStreams { service, open: Mutex::default() })
    }

    /// A connection of who holds the key with this fingerprint, which ends when `leave` is cancelled. Where the key has too many, the
    /// oldest ends.
    pub fn connected(self: &Arc<Self>, key: &str, leave: CancellationToken) -> Connected {
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        let of_key = open.of_key.entry(key.to_owned()).or_default();
        of_key.push_back((number, leave));
        if of_key.len() > CONNECTIONS
            && let Some((_, oldest)) = of_key.pop_front()
        {
            oldest.cancel();
        }
        drop(open);
        Connected { agents: self.clone(), key: key.to_owned(), number }
    }

    /// Answers a call of who holds this key.
    pub async fn call(
        self: &Arc<Self>,
        key: &str,
        request: http::Request<tonic::body::Body>,
    ) -> http::Response<tonic::body::Body> {
        let is_tunnel = request.uri().path().ends_with("/Tunnel");
        let Some(call) = self.begins(key, is_tunnel) else {
            return Status::resource_exhausted("this agent has more streams open than an agent needs")
                .into_http();
        };
        let mut service = self.service.clone();
        let bounds = if is_tunnel { Bounds::of_all(TUNNEL_LIMIT) } else { Bounds::of_the_first(HELLO_LIMIT) };
        let short = |body| tonic::body::Body::new(Bounded { body, bounds });
        match service.call(request.map(short)).await {
            Ok(response) => response.map(|body| tonic::body::Body::new(Counted { body, _call: call })),
            Err(never) => match never {},
        }
    }

    /// A session that is no call, counted as one until it is dropped; `None` where the key has too many.
    pub fn session(self: &Arc<Self>, key: &str) -> Option<impl Drop + Send + use<>> {
        self.begins(key, false)
    }

    /// A call that counts until it is dropped; `None` where there are too many.
    fn begins(self: &Arc<Self>, key: &str, is_tunnel: bool) -> Option<OpenCall> {
        let sort = (key.to_owned(), is_tunnel);
        let mut open = self.open.lock();
        let count = open.calls.entry(sort.clone()).or_default();
        if *count >= if is_tunnel { TUNNELS } else { SESSIONS } {
            return None;
        }
        *count += 1;
        drop(open);
        Some(OpenCall { agents: self.clone(), sort })
    }
}

/// A call that is not over.
struct OpenCall {
    agents: Arc<AgentStreams>,
    sort: (String, bool),
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut open = self.agents.open.lock();
        let Some(count) = open.calls.get_mut(&self.sort) else { return };
        *count -= 1;
        if *count == 0 {
            open.calls.remove(&self.sort);
        }
    }
}

/// An answer's body, which keeps its call counted.
struct Counted {
    body: tonic::body::Body,
    _call: OpenCall,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.agents.open.lock();
        let Some(of_key) = open.of_key.get_mut(&self.key) else { return };
        of_key.retain(|(number, _)| *number != self.number);
        if of_key.is_empty() {
            open.of_key.remove(&self.key);
        }
    }
}

/// A request's body whose messages are bounded: one that is too long is refused by the length that it announces, before any of it is kept.
struct Bounded {
    body: tonic::body::Body,
    bounds: Bounds,
}

/// Where in a stream of messages one is, and how long they may be.
struct Bounds {
    most: u32,
    /// Whether that holds for the first alone.
    is_of_the_first: bool,
    head: [u8; HEAD],
    /// Bytes of `head` that have come.
    seen: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Bounds {
    fn of_the_first(most: u32) -> Self {
        Self { most, is_of_the_first: true, head: [0; HEAD], seen: 0, left: 0 }
    }

    fn of_all(most: u32) -> Self {
        Self { is_of_the_first: false, ..Self::of_the_first(most) }
    }

    fn looks_at(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(data.len());
                (self.left, data) = (self.left - passed, &data[passed..]);
                continue;
            }
            if self.seen == HEAD {
                if self.is_of_the_first {
                    return Ok(());
                }
                self.seen = 0;
            }
            let missing = data.len().min(HEAD - self.seen);
            self.head[self.seen..self.seen + missing].copy_from_slice(&data[..missing]);
            (self.seen, data) = (self.seen + missing, &data[missing..]);
            let [_, length @ ..] = self.head;
            let length = u32::from_be_bytes(length);
            if self.seen == HEAD {
                if length > self.most {
                    let text = format!("a message of this stream is of {} KiB at most", self.most >> 10);
                    return Err(Status::out_of_range(text));
                }
                self.left = length as usize;
            }
        }
        Ok(())
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &polled
            && let Some(data) = frame.data_ref()
            && let Err(refused) = self.bounds.looks_at(data)
        {
            return Poll::Ready(Some(Err(refused)));
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_are_looked_at_however_they_come() {
        for (length, goes) in
            [(0u32, true), (1000, true), (64 << 10, true), ((64 << 10) + 1, false), (u32::MAX, false)]
        {
            let mut bytes = vec![0];
            bytes.extend(length.to_be_bytes());
            assert_eq!(Bounds::of_the_first(64 << 10).looks_at(&bytes).is_ok(), goes, "{length} at once");
            let mut slow = Bounds::of_the_first(64 << 10);
            let ends: Vec<bool> = bytes.iter().map(|byte| slow.looks_at(&[*byte]).is_ok()).collect();
            assert_eq!(ends, [true, true, true, true, goes], "{length} byte by byte");
            let message = [&[0, 0, 0, 0, 3][..], b"abc", &bytes].concat();
            for step in 1..message.len() {
                let mut all = Bounds::of_all(64 << 10);
                let goes_on = message.chunks(step).all(|chunk| all.looks_at(chunk).is_ok());
                assert_eq!(goes_on, goes, "{length} after another, {step} at a time");
            }
        }
        let mut later = Bounds::of_the_first(64 << 10);
        later.looks_at(&[0, 0, 0, 0, 1, 7]).unwrap();
        later.looks_at(&[0xff; 100]).unwrap();
    }

    #[test]
    fn the_oldest_of_one_key_goes_and_no_other() {
        let service =
            tower::service_fn(|_: http::Request<tonic::body::Body>| async { Ok(Status::ok("").into_http()) });
        let agents = AgentStreams::new(tower::util::BoxCloneSyncService::new(service));
        let leaves: Vec<_> = (0..7).map(|_| CancellationToken::new()).collect();
        let other = agents.connected("other", leaves[6].clone());
        let mut all: Vec<_> = leaves[..4].iter().map(|leave| agents.connected("k", leave.clone())).collect();
        let gone = || leaves.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>();
        assert_eq!(gone(), [false; 7]);
        drop(all.remove(1));
        all.push(agents.connected("k", leaves[4].clone()));
        assert_eq!(gone(), [false; 7], "who left by himself counts no more");
        all.push(agents.connected("k", leaves[5].clone()));
        assert_eq!(gone(), [true, false, false, false, false, false, false]);
        drop((all, other));
        assert!(agents.open.lock().of_key.is_empty());
    }

    #[tokio::test]
    async fn calls_of_one_key_are_counted_until_they_are_over() {
        // As a session's answer: it goes on.
        let service = tower::service_fn(|_: http::Request<tonic::body::Body>| async {
            let goes_on = futures::stream::pending::<Result<Frame<Bytes>, Status>>();
            Ok(http::Response::new(tonic::body::Body::new(http_body_util::StreamBody::new(goes_on))))
        });
        let agents = AgentStreams::new(tower::util::BoxCloneSyncService::new(service));
        let call = |key: &'static str, path: &'static str| {
            let (agents, request) = (agents.clone(), http::Request::post(path));
            async move { agents.call(key, request.body(tonic::body::Body::empty()).unwrap()).await }
        };
        let is_taken =
            |response: &http::Response<tonic::body::Body>| !response.headers().contains_key("grpc-status");
        for (path, most) in [("/fleet.v1.Fleet/Connect", SESSIONS), ("/fleet.v1.Fleet/Tunnel", TUNNELS)] {
            let mut open = Vec::new();
            for _ in 0..most {
                open.push(call("k", path).await);
            }
            assert!(open.iter().all(is_taken));
            assert!(!is_taken(&call("k", path).await), "{path}");
            assert!(is_taken(&call("other", path).await), "{path}");
            open.pop();
            assert!(is_taken(&call("k", path).await), "{path}: one is over");
        }
        assert!(agents.open.lock().calls.is_empty());
    }
}
