//! Calls of the agents' service that need no certificate: joins, and nothing else, whoever makes them.
//!
//! In: a gRPC request, the address it comes from, what else its connection has under way. Out: the service's answer, or a refusal.
//! What a stranger can take is bounded before anything is read: a few calls of a connection, a rate of an address, a number in
//! all, ten seconds each, and 64 KiB of a message, which the service given here holds to.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use karmada_gateway::rate::{Buckets, Rate};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;
use tower::Service;

use super::Grpc;
use super::connections::network;

/// Calls of one connection under way.
const OF_CONNECTION: usize = 4;
/// Calls under way in all: 32 MiB, where each has sent all it may.
const AT_ONCE: usize = 512;
/// How long a call may take, its message included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls of one address. Many agents may share one, and each asks again when it is told to.
const OF_ADDRESS: Rate = Rate { per_minute: 600.0, burst: 100.0 };
/// Addresses that are told apart.
const ADDRESSES: usize = 4096;

/// The service for strangers.
pub struct Strangers {
    service: Grpc,
    started: Instant,
    of_address: Mutex<Buckets<IpAddr>>,
    at_once: Semaphore,
}

/// What one connection has under way.
#[derive(Clone)]
pub struct Calls(Arc<Semaphore>);

impl Default for Calls {
    fn default() -> Self {
        Calls(Arc::new(Semaphore::new(OF_CONNECTION)))
    }
}

impl Strangers {
    /// In front of a service that reads no message of more than a join's size.
    pub fn new(service: Grpc) -> Strangers {
        Strangers {
            service,
            started: Instant::now(),
            of_address: Mutex::new(Buckets::new(ADDRESSES)),
            at_once: Semaphore::new(AT_ONCE),
        }
    }

    /// Answers a call.
    pub async fn call(
        &self,
        calls: &Calls,
        from: IpAddr,
        request: http::Request<tonic::body::Body>,
    ) -> http::Response<tonic::body::Body> {
        let too_many = |what: &str| Status::resource_exhausted(what).into_http();
        if self.of_address.lock().take(network(from), OF_ADDRESS, self.started.elapsed()).is_err() {
            return too_many("too many calls from this address: try again in a minute");
        }
        let (Ok(_mine), Ok(_all)) = (calls.0.try_acquire(), self.at_once.try_acquire()) else {
            return too_many("too many calls at once: try again");
        };
        let mut service = self.service.clone();
        match tokio::time::timeout(CALL_TIMEOUT, service.call(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => Status::deadline_exceeded("the call took longer than ten seconds").into_http(),
        }
    }
}
