//! The audit log: one line of JSON (`audit.k8s.io/v1` Event) for each stage of each request that the policy wants to see.
//!
//! In: a policy, requests as they pass, what admission notes of them. Out: lines to [`AuditLog`]. Requests over HTTP are audited,
//! those that are refused too, and so is what other services of the same port tell ([`NonRequestEvent`]); what this process' own
//! controllers write is not, as it passes no port. With no policy nothing of this runs.
//!
//! What is promised: memory is bounded (the queue in lines and bytes, an event's objects in bytes); a disk that is slow slows
//! requests for a second each at most, after which the event is dropped and counted; a disk that is full loses events, which is
//! counted and said, and stops nothing. Bearer tokens are never written: neither headers nor the tokens in reviews and requests.

mod event;
mod log;
mod policy;
mod record;

pub use event::Event;
pub use log::{AuditLog, LogOptions};
pub use policy::Stage;
pub use policy::{Level, Policy, Ruling};
pub use record::Record;

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;

use karmada_registry::{Attributes, Clock, Ids, User};

/// The address that a connection comes from, put into the request's extensions by the listener.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// Something at another service of this port, which is no request of the API, told as one.
#[derive(Clone, Copy, Debug)]
pub struct NonRequestEvent<'a> {
    /// What was done.
    pub verb: &'static str,
    /// Where.
    pub path: &'static str,
    /// To which part of which resource.
    pub of: NonRequestResource,
    /// Who, as far as it was proved; none is `system:anonymous`.
    pub user: Option<&'a str>,
    /// The object that it is about.
    pub name: &'a str,
    /// The connection's other end.
    pub from: Option<IpAddr>,
    /// How it ended, as an HTTP status would say it.
    pub code: u16,
    /// Why, where it was refused or waits.
    pub message: &'a str,
}

/// The resource that such an event is told of.
#[derive(Clone, Copy, Debug)]
pub struct NonRequestResource {
    /// Its group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its plural.
    pub plural: &'static str,
    /// The part of it.
    pub part: &'static str,
}

/// The header by which a client names its request, and the answer repeats it.
pub const AUDIT_ID: &str = "audit-id";

/// Audits requests.
pub struct Audit {
    policy: Policy,
    log: Arc<AuditLog>,
    clock: Clock,
    ids: Ids,
}

impl Audit {
    /// By a policy, into a log.
    pub fn new(policy: Policy, log: Arc<AuditLog>, clock: Clock, ids: Ids) -> Self {
        Audit { policy, log, clock, ids }
    }

    /// The log behind it.
    pub fn log(&self) -> &Arc<AuditLog> {
        &self.log
    }

    /// Begins the record of a request; `None` where the policy does not want it. `user` is `None` where nobody could be told.
    pub fn begin(
        self: &Arc<Self>,
        user: Option<&User>,
        attributes: &Attributes,
        parts: &Parts,
    ) -> Option<Record> {
        let ruling = self.policy.judge(user, attributes);
        if ruling.level == Level::None {
            return None;
        }
        let id = event::given_id(&parts.headers).unwrap_or_else(|| (self.ids)().to_string());
        let event = Event::of_request(ruling.level, id, user, attributes, parts, (self.clock)());
        Some(Record::new(self.clone(), event, ruling))
    }

    /// Writes an event of another service of this port, where the policy wants it.
    /// Returns at once; where the log is full, the event is dropped and counted.
    pub fn non_request(&self, event: &NonRequestEvent<'_>) {
        let now = (self.clock)();
        let id = (self.ids)().to_string();
        if let Some(line) = event::of_non_request(event, &self.policy, id, now) {
            self.log.offer(line);
        }
    }
}
