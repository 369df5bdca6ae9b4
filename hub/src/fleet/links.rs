//! The state of every agent's link, in memory only: liveness is not stored (design decision 4).
//!
//! In: what the gateway sees. Out: for the cluster controller, whether a cluster is connected and since when.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_controllers::cluster::{Link, LinkSource};
use karmada_controllers::port::Key;
use karmada_controllers::queue::Queue;
use karmada_gateway::ports::LinkState;
use parking_lot::Mutex;
use tokio::time::Instant;

/// All links.
pub struct Links {
    started: Instant,
    links: Mutex<BTreeMap<String, Link>>,
    wake: Arc<Queue<Key>>,
}

impl Links {
    /// No link yet. `wake` is the cluster controller's queue.
    pub fn new(wake: Arc<Queue<Key>>) -> Self {
        Links { started: Instant::now(), links: Mutex::default(), wake }
    }

    /// Takes note of a link's state and wakes the cluster's controller where it changed.
    pub fn set(&self, cluster: &str, state: LinkState) {
        let connected = state != LinkState::Offline;
        let mut links = self.links.lock();
        let known = links.get(cluster);
        if known.is_some_and(|link| link.connected == connected) {
            return;
        }
        links.insert(cluster.to_owned(), Link { connected, since: Instant::now() });
        drop(links);
        self.wake.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
    }
}

impl LinkSource for Links {
    fn link(&self, cluster: &str) -> Link {
        // A cluster not heard of since the start is offline since the start: it gets the same grace as everybody.
        let known = self.links.lock().get(cluster).copied();
        known.unwrap_or(Link { connected: false, since: self.started })
    }
}
