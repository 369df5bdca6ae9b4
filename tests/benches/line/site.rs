//! What is measured: one hub, a few real members, an agent beside each.

use std::time::Duration;

use tests::agent::{Agent, AgentOptions};
use tests::api::condition;
use tests::hub::{Hub, HubOptions};
use tests::joining::Joining;
use tests::member::{Member, MemberOptions};
use tests::wait::{eventually, so};

/// A hub and its members.
pub struct Site {
    /// The hub.
    pub hub: Hub,
    /// The members.
    pub members: Vec<Member>,
    /// Their agents.
    pub agents: Vec<Agent>,
}

impl Site {
    /// Starts everything and waits until every cluster is ready.
    pub fn start(count: usize) -> Site {
        let members = Member::start_all((1..=count).map(|n| MemberOptions::new(&format!("m{n}"))));
        let hub = Hub::start(HubOptions::default());
        let joining = Joining::on(&hub);
        let agents = members
            .iter()
            .map(|member| {
                Agent::start(AgentOptions {
                    hub: hub.address().to_string(),
                    token: Some(joining.token.clone()),
                    ca_hash: Some(joining.ca_hash.clone()),
                    cluster_name: Some(member.name().to_owned()),
                    kubeconfig: Some(member.kubeconfig()),
                    ..AgentOptions::default()
                })
            })
            .collect();
        let site = Site { hub, members, agents };
        site.wait_ready(count);
        site
    }

    fn wait_ready(&self, count: usize) {
        eventually("every cluster is ready", Duration::from_secs(60), || {
            let clusters = self
                .hub
                .api()
                .list("/apis/cluster.karmada.io/v1alpha1/clusters")
                .map_err(|error| format!("{error:#}"))?;
            let ready = clusters.iter().filter(|cluster| condition(cluster, "Ready") == "True").count();
            so(ready == count, || format!("{ready} of {count} are ready"))
        });
    }

    /// Ends agents, hub and members.
    pub fn stop(mut self) {
        for agent in &mut self.agents {
            agent.stop();
        }
        self.hub.stop();
        for member in &mut self.members {
            // Not asked to drain: the bench's own watches would hold it up.
            member.kill();
        }
    }
}
