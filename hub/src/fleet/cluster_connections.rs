//! What the gateway knows of the fleet, as the controllers ask for it, and whom of them its news wake.
//!
//! In: the gateway's [`SharedFleet`]. Out: for the cluster controller, whether a cluster is connected and when it was last heard; keys in the
//! queues of those who are to look at a cluster.

use std::sync::Arc;

use jiff::Timestamp;
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::port::Key;
use karmada_controllers::queue::Queue;
use karmada_core::cluster::Contact;
use karmada_gateway::SharedFleet;
use karmada_gateway::fleet::Wake;

/// The queues of those who look at a cluster when its link changes.
#[derive(Clone, Default)]
pub struct FleetQueues {
    /// The cluster controller.
    pub clusters: Arc<Queue<Key>>,
    /// The loop that keeps what is known of agents on their Clusters.
    pub agents: Arc<Queue<Key>>,
    /// The loop that tells agents the resource models by which they count.
    pub models: Arc<Queue<Key>>,
    /// The loop that asks agents where their clusters are.
    pub topologies: Arc<Queue<Key>>,
    /// The loop that keeps ClusterLinks.
    pub links: Arc<Queue<Key>>,
}

impl FleetQueues {
    /// Wakes those whom the news is for.
    pub fn wake(&self, cluster: &str, wake: Wake) {
        let queues: &[&Arc<Queue<Key>>] = match wake {
            Wake::Contact => &[&self.clusters],
            Wake::Agent => &[&self.agents],
            // There is another session: whoever has something to say to its agent, or to ask it.
            Wake::ResourceModels => &[&self.models, &self.topologies],
            Wake::Link => &[&self.links],
        };
        for queue in queues {
            queue.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
        }
    }
}

/// The links as the controllers ask for them.
pub struct Contacts(pub Arc<SharedFleet>);

impl ContactSource for Contacts {
    fn contact(&self, cluster: &str, now: Timestamp) -> Contact {
        let heard = self.0.heard(cluster, now);
        Contact { last_heard: heard.last, listening_since: heard.listening_since }
    }

    fn joined(&self, cluster: &str) {
        self.0.joined(cluster);
    }

    fn connected(&self, cluster: &str) -> bool {
        self.0.has_contact(cluster)
    }
}

#[cfg(test)]
mod tests {
    use karmada_gateway::ClockAndRandom;
    use parking_lot::Mutex;

    use karmada_controllers::queue::WorkQueue;

    use super::*;

    #[tokio::test]
    async fn whoever_asks_or_tells_an_agent_is_woken_by_its_session() {
        let woken = FleetQueues::default();
        woken.wake("north", Wake::ResourceModels);
        for queue in [&woken.models, &woken.topologies] {
            let waits = tokio::time::timeout(std::time::Duration::from_secs(5), queue.next()).await;
            assert_eq!(waits.unwrap().map(|key| key.name.to_string()), Some("north".to_owned()));
        }
    }

    #[tokio::test]
    async fn the_grace_of_a_cluster_that_joined_again_begins_anew_and_its_controller_looks() {
        let time = Arc::new(Mutex::new(0));
        let read = time.clone();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let woken = FleetQueues::default();
        let sources = ClockAndRandom::new(move || at(*read.lock()), || 0);
        let wake = woken.clone();
        let fleet = SharedFleet::new(sources, jiff::SignedDuration::from_secs(40), move |cluster, who| {
            wake.wake(cluster, who);
        });
        let contacts = Contacts(fleet);
        assert_eq!(contacts.contact("north", at(5)), Contact { last_heard: None, listening_since: at(0) });
        *time.lock() = 170;
        contacts.joined("north");
        assert_eq!(
            contacts.contact("north", at(175)),
            Contact { last_heard: None, listening_since: at(170) }
        );
        assert!(!contacts.connected("north"));
        let waits = tokio::time::timeout(std::time::Duration::from_secs(5), woken.clusters.next()).await;
        assert_eq!(waits.unwrap().map(|key| key.name.to_string()), Some("north".to_owned()));
    }
}
