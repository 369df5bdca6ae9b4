//! The state of every agent's link, in memory only: liveness is not stored (design decision 4).
//!
//! In: what the gateway sees. Out: for the cluster controller, whether a cluster is connected and when it was last heard.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_apiserver::registry::Clock;
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::port::Key;
use karmada_controllers::queue::Queue;
use karmada_core::cluster::Contact;
use karmada_gateway::ports::LinkState;
use parking_lot::Mutex;

/// All links.
pub struct Links {
    started: Timestamp,
    clock: Clock,
    links: Mutex<BTreeMap<String, Link>>,
    wake: Arc<Queue<Key>>,
}

/// One link. While it is connected, `last_heard` is always now.
#[derive(Clone, Copy)]
struct Link {
    connected: bool,
    changed: Timestamp,
}

impl Links {
    /// No link yet. `wake` is the cluster controller's queue.
    pub fn new(wake: Arc<Queue<Key>>, clock: Clock) -> Self {
        Links { started: clock(), clock, links: Mutex::default(), wake }
    }

    /// Takes note of a link's state and wakes the cluster's controller where it changed.
    pub fn set(&self, cluster: &str, state: LinkState) {
        let connected = state != LinkState::Offline;
        let mut links = self.links.lock();
        if links.get(cluster).is_some_and(|link| link.connected == connected) {
            return;
        }
        links.insert(cluster.to_owned(), Link { connected, changed: (self.clock)() });
        drop(links);
        self.wake.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
    }
}

impl ContactSource for Links {
    fn contact(&self, cluster: &str, now: Timestamp) -> Contact {
        let known = self.links.lock().get(cluster).copied();
        let last_heard = known.map(|link| if link.connected { now } else { link.changed });
        Contact { last_heard, listening_since: self.started }
    }

    fn connected(&self, cluster: &str) -> bool {
        self.links.lock().get(cluster).is_some_and(|link| link.connected)
    }
}
