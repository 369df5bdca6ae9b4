//! Where the member is, by what its Nodes say: for the Cluster of a member of which nobody said it.
//!
//! In: Nodes. Out: the provider (of `spec.providerID`), the region and the zones (of Kubernetes' well-known labels). A Cluster is of one provider and one region:
//! what Nodes say differently is left open.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use crate::{Gvk, Member, MemberEvent, Watch};

/// As many zones are told: no region has more, and labels are whatever somebody wrote.
const MOST_ZONES: usize = 32;

/// Where a member is. What is not known is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// As in `aws:///eu-west-1a/i-0abc`: `aws`.
    pub provider: String,
    /// Of `topology.kubernetes.io/region`.
    pub region: String,
    /// Of `topology.kubernetes.io/zone`, in order.
    pub zones: Vec<String>,
}

impl Topology {
    /// What these Nodes say.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Value>) -> Self {
        let (mut providers, mut regions, mut zones) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for node in nodes {
            let id = node.pointer("/spec/providerID").and_then(Value::as_str);
            providers.extend(id.and_then(|id| Some(id.split_once("://")?.0)));
            regions.extend(label(node, "region"));
            zones.extend(label(node, "zone"));
        }
        Self {
            provider: the_one(&providers),
            region: the_one(&regions),
            zones: zones.into_iter().take(MOST_ZONES).map(str::to_owned).collect(),
        }
    }

    /// What the Nodes of `member` say, where it lists them within this time; else nothing.
    pub async fn look(member: &dyn Member, within: Duration) -> Self {
        tokio::time::timeout(within, nodes(member)).await.map(|nodes| Self::of(&nodes)).unwrap_or_default()
    }
}

/// The label's value, under the name that it has today or the one that it had before Kubernetes 1.17.
fn label<'a>(node: &'a Value, what: &str) -> Option<&'a str> {
    let labels = node.pointer("/metadata/labels")?;
    let names =
        [format!("topology.kubernetes.io/{what}"), format!("failure-domain.beta.kubernetes.io/{what}")];
    let said = names.iter().find_map(|name| labels.get(name)?.as_str());
    said.filter(|said| !said.is_empty())
}

fn the_one(all: &BTreeSet<&str>) -> String {
    if all.len() == 1 { all.iter().map(|one| (*one).to_owned()).collect() } else { String::new() }
}

/// The Nodes there are; none where they cannot be listed.
async fn nodes(member: &dyn Member) -> Vec<Value> {
    let watch = Watch {
        gvk: Gvk::new("v1", "Node"),
        namespace: String::new(),
        labels: String::new(),
        fields: String::new(),
    };
    let mut events = member.watch(watch);
    let mut nodes = Vec::new();
    while let Some(Ok(event)) = events.next().await {
        match event {
            MemberEvent::Listing => nodes.clear(),
            MemberEvent::Object(node) => nodes.push(*node),
            MemberEvent::Listed => return nodes,
            MemberEvent::Gone(_) => {}
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::memory::MemoryMember;

    fn node(name: &str, provider: &str, region: &str, zone: &str) -> Value {
        let mut labels = json!({});
        for (what, said) in [("region", region), ("zone", zone)] {
            if !said.is_empty() {
                labels[format!("topology.kubernetes.io/{what}")] = json!(said);
            }
        }
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider}})
    }

    #[test]
    fn a_cluster_is_of_the_provider_and_region_that_all_nodes_name_and_of_all_zones() {
        let nodes = [
            node("b", "aws:///eu-west-1b/i-2", "eu-west-1", "eu-west-1b"),
            node("a", "aws:///eu-west-1a/i-1", "eu-west-1", "eu-west-1a"),
            node("c", "aws:///eu-west-1a/i-3", "eu-west-1", "eu-west-1a"),
            node("unlabelled", "", "", ""),
        ];
        let zones = vec!["eu-west-1a".to_owned(), "eu-west-1b".to_owned()];
        assert_eq!(
            Topology::of(&nodes),
            Topology { provider: "aws".into(), region: "eu-west-1".into(), zones }
        );
    }

    #[test]
    fn what_nodes_say_differently_is_left_open() {
        let nodes = [node("a", "aws:///x/1", "eu", "eu-1"), node("b", "gce://p/x/2", "us", "")];
        let zones = vec!["eu-1".to_owned()];
        assert_eq!(Topology::of(&nodes), Topology { zones, ..Topology::default() });
        assert_eq!(Topology::of(&[node("a", "no scheme", "", "")]), Topology::default());
    }

    #[test]
    fn labels_of_old_clusters_count_and_the_new_ones_count_more() {
        let mut old = node("a", "", "", "");
        old["metadata"]["labels"] = json!({"failure-domain.beta.kubernetes.io/region": "old", "failure-domain.beta.kubernetes.io/zone": "old-1"});
        assert_eq!(
            Topology::of([&old]),
            Topology { region: "old".into(), zones: vec!["old-1".into()], ..Topology::default() }
        );
        old["metadata"]["labels"]["topology.kubernetes.io/region"] = json!("new");
        assert_eq!(Topology::of([&old]).region, "new");
    }

    #[test]
    fn no_member_tells_zones_without_end() {
        let nodes: Vec<Value> = (0..100).map(|n| node("a", "", "", &format!("z{n:03}"))).collect();
        assert_eq!(Topology::of(&nodes).zones.len(), MOST_ZONES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_members_nodes_are_looked_at_and_one_that_lists_none_holds_up_nothing() {
        let member = MemoryMember::new("m", 0, Duration::ZERO);
        member.seed(node("a", "gce://project/zone/a", "europe-west4", "europe-west4-b"));
        let zones = vec!["europe-west4-b".to_owned()];
        let found = Topology::look(&member, Duration::from_secs(5)).await;
        assert_eq!(found, Topology { provider: "gce".into(), region: "europe-west4".into(), zones });
        member.list_late(Duration::from_secs(60));
        assert_eq!(Topology::look(&member, Duration::from_secs(5)).await, Topology::default());
    }
}
