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
    /// When each joined, where that was since the hub's start.
    joins: Mutex<BTreeMap<String, Timestamp>>,
    wake: Arc<Queue<Key>>,
}

/// One link. While it is connected, `last_heard` is always now.
#[derive(Clone, Copy)]
struct Link {
    connected: bool,
    changed: Timestamp,
    /// Since when a session that is still there has been late.
    late: Option<Timestamp>,
}

impl Links {
    /// No link yet. `wake` is the cluster controller's queue.
    pub fn new(wake: Arc<Queue<Key>>, clock: Clock) -> Self {
        Links { started: clock(), clock, links: Mutex::default(), joins: Mutex::default(), wake }
    }

    /// Takes note of a link's state and wakes the cluster's controller where it connected or went offline.
    pub fn set(&self, cluster: &str, state: LinkState) {
        let now = (self.clock)();
        let connected = state != LinkState::Offline;
        let mut links = self.links.lock();
        let before = links.get(cluster).copied();
        let late = before.filter(|link| link.connected).and_then(|link| link.late);
        let same = before.filter(|link| link.connected == connected);
        let link = match state {
            LinkState::Connected => Link { connected, changed: now, late: None },
            LinkState::Late => Link { connected, changed: now, late: Some(now) },
            // Who was late before it was given up was last heard before that.
            LinkState::Offline => Link { connected, changed: late.unwrap_or(now), late: None },
        };
        let changed = same.map_or(link.changed, |same| same.changed);
        links.insert(cluster.to_owned(), Link { changed, ..link });
        drop(links);
        if same.is_none() {
            self.wake.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
        }
    }
}

impl ContactSource for Links {
    fn contact(&self, cluster: &str, now: Timestamp) -> Contact {
        let known = self.links.lock().get(cluster).copied();
        let last_heard = known.map(|link| if link.connected { now } else { link.changed });
        let heard = Contact { last_heard, listening_since: self.started };
        heard.of_one_made(self.joins.lock().get(cluster).copied())
    }

    fn joined(&self, cluster: &str) {
        self.joins.lock().insert(cluster.to_owned(), (self.clock)());
        self.wake.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
    }

    fn connected(&self, cluster: &str) -> bool {
        self.links.lock().get(cluster).is_some_and(|link| link.connected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_went_silent_was_last_heard_before_it_was_late() {
        let time = Arc::new(Mutex::new(0));
        let read = time.clone();
        let links =
            Links::new(Arc::default(), Arc::new(move || Timestamp::from_second(*read.lock()).unwrap()));
        let heard = |states: &[(i64, LinkState)], now: i64| {
            for (at, state) in states {
                *time.lock() = *at;
                links.set("north", *state);
            }
            let heard = links.contact("north", Timestamp::from_second(now).unwrap()).last_heard;
            heard.map(Timestamp::as_second)
        };
        use LinkState::{Connected, Late, Offline};
        assert_eq!(heard(&[], 5), None);
        assert_eq!(heard(&[(10, Connected), (40, Late)], 45), Some(45), "late is not lost");
        assert_eq!(heard(&[(60, Offline)], 70), Some(40), "a stalled link");
        assert_eq!(heard(&[(80, Connected), (90, Offline)], 99), Some(90), "a cut one");
        assert_eq!(heard(&[(100, Connected), (110, Late), (120, Connected), (130, Offline)], 140), Some(130));
        assert_eq!(heard(&[(150, Offline)], 160), Some(130), "told twice");
        *time.lock() = 170;
        links.joined("north");
        let contact = links.contact("north", Timestamp::from_second(175).unwrap());
        assert_eq!(
            (contact.last_heard, contact.listening_since.as_second()),
            (None, 170),
            "its grace begins anew"
        );
        *time.lock() = 180;
        links.set("north", Connected);
        *time.lock() = 190;
        links.set("north", Offline);
        let contact = links.contact("north", Timestamp::from_second(195).unwrap());
        assert_eq!(contact.last_heard.map(Timestamp::as_second), Some(190), "and is over once it was heard");
    }
}
