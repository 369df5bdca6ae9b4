//! The harness: real member clusters, hubs, agents and the links between them, for tests and benches.
//!
//! Every part is a value that starts something on loopback, and ends it when dropped, also when the test
//! panics or the process is killed. Calls block; what is asynchronous inside runs on one runtime of the
//! harness. Nothing waits by sleeping: [`wait::eventually`] polls a predicate and says what it saw last.
//!
//! - [`kube_binaries`]: the member's programs, built from `tests/kube` on first use.
//! - [`member`]: a member cluster (etcd, kube-apiserver, controllers, scheduler, kwok's nodes).
//! - [`kubelet`]: runs the agent's Pod of a member as a process.
//! - [`hub`], [`agent`]: the built product. [`faulty_link`]: the wire between the two, to be cut.
//! - [`joining`]: a token for any number of agents.
//! - [`middlebox`]: what may answer in the hub's place, and is no hub.
//! - [`clients`]: client-go, Argo CD's engine, Flux's apply, Helm and Python's clients, built from `tests/clients`.
//! - [`suite`]: Kubernetes' own specs, built from `tests/suite`, run one by one with a time limit each.
//! - [`subject`]: the server that a suite's tests share. [`rows`]: figures of benches. [`wire`]: requests over kept connections.
//! - [`kubectl`], [`api`]: the two ways to look and act: the real client, and plain requests.
//!
//! In: options of each part. Out: processes on loopback, and handles to ask and to stop them.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// The harness fails tests: panics are its way to say so.
#![allow(clippy::unwrap_used)]

pub mod agent;
pub mod api;
pub mod built;
pub mod clients;
pub mod faulty_link;
pub mod folder;
pub mod hub;
pub mod joining;
pub mod kube_binaries;
pub mod kubectl;
pub mod kubelet;
pub mod member;
mod member_certs;
pub mod middlebox;
pub mod ports;
pub mod process;
pub mod rows;
pub mod subject;
pub mod suite;
pub mod wait;
pub mod wire;

use std::sync::OnceLock;

/// The runtime that everything asynchronous of the harness runs on; it lives as long as the process, so that
/// members and links may outlive the test that started them.
pub fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("harness").enable_all().build().expect("a runtime can be built")
    })
}

/// True where a skipped test is a failure (`CI=true`, as CI systems set it).
pub fn must_not_skip() -> bool {
    std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false")
}
