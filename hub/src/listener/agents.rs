//! Connections and streams of agents, by who shows an agent's certificate.
//!
//! In: connections as they come, the key that each has proved to hold, and how to end it; calls of the fleet's service. Out: the
//! service's answers; the oldest connection is ended where one key has more than an agent needs. An agent has one stream, and for a
//! moment the one that it replaces: whatever else it opens cannot add up, also where it takes nothing of what is sent to it and its
//! streams therefore do not end by themselves.

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

/// Streams of one connection.
pub const STREAMS: u32 = 2;
/// Connections of one key: what is left of links that broke is not noticed at once.
const CONNECTIONS: usize = 4;
/// The first message of a stream is a hello: names, features and positions, a kilobyte in practice.
const HELLO_LIMIT: u32 = 64 << 10;
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

    /// Answers a call.
    pub async fn call(&self, request: http::Request<tonic::body::Body>) -> http::Response<tonic::body::Body> {
        let mut service = self.service.clone();
        let short = |body| tonic::body::Body::new(ShortHello { body, head: [0; HEAD], seen: 0 });
        match service.call(request.map(short)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
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

/// A request's body of which the first message must be short: refused by the length that it announces, before any of it is kept.
struct ShortHello {
    body: tonic::body::Body,
    head: [u8; HEAD],
    /// Bytes of `head` that have come.
    seen: usize,
}

impl ShortHello {
    fn looks_at(&mut self, data: &[u8]) -> Result<(), Status> {
        let missing = data.len().min(HEAD - self.seen);
        if missing == 0 {
            return Ok(());
        }
        self.head[self.seen..self.seen + missing].copy_from_slice(&data[..missing]);
        self.seen += missing;
        let [_, length @ ..] = self.head;
        if self.seen == HEAD && u32::from_be_bytes(length) > HELLO_LIMIT {
            return Err(Status::out_of_range("the first message of a stream is a hello of at most 64 KiB"));
        }
        Ok(())
    }
}

impl http_body::Body for ShortHello {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &polled
            && let Some(data) = frame.data_ref()
            && let Err(refused) = self.looks_at(data)
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

    fn hello() -> ShortHello {
        ShortHello { body: tonic::body::Body::empty(), head: [0; HEAD], seen: 0 }
    }

    #[test]
    fn the_first_length_is_looked_at_however_it_comes() {
        for (length, goes) in
            [(0u32, true), (1000, true), (64 << 10, true), ((64 << 10) + 1, false), (u32::MAX, false)]
        {
            let mut bytes = vec![0];
            bytes.extend(length.to_be_bytes());
            assert_eq!(hello().looks_at(&bytes).is_ok(), goes, "{length} at once");
            let mut slow = hello();
            let ends: Vec<bool> = bytes.iter().map(|byte| slow.looks_at(&[*byte]).is_ok()).collect();
            assert_eq!(ends, [true, true, true, true, goes], "{length} byte by byte");
        }
        let mut later = hello();
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
}
