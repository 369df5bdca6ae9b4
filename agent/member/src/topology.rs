//! Where the member is, by what its Nodes say: for the Cluster of a member of which nobody said it.
//!
//! In: Nodes. Out: the provider (of `spec.providerID`), the region and the zones (of Kubernetes' well-known labels). A Cluster is of one provider and one region:
//! what Nodes say differently is left open.

use std::collections::BTreeSet;
use std::time::Duration;

use karmada_proto::join::{ZONES, is_word};
use serde_json::{Value, json};

use crate::list::list;
use crate::{Gvk, Member, Watch};

/// Where a member is. What is not known is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// As in `aws:///eu-west-1a/i-0abc`: `aws`.
    pub provider: String,
    /// Of `topology.kubernetes.io/region`.
    pub region: String,
    /// Of `topology.kubernetes.io/zone`, in order; the first of them, where there are more than a join may name.
    pub zones: Vec<String>,
}

impl Topology {
    /// What these Nodes say, as far as a join may say it: a provider is whatever somebody wrote, and no word of a Node keeps a cluster out.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Value>) -> Self {
        let (mut providers, mut regions, mut zones) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for node in nodes {
            let id = node.pointer("/spec/providerID").and_then(Value::as_str);
            let provider = id.and_then(|id| Some(id.split_once("://")?.0));
            providers.extend(provider.filter(|provider| !provider.is_empty() && is_word(provider)));
            regions.extend(label(node, "region"));
            zones.extend(label(node, "zone"));
        }
        Self {
            provider: the_one(&providers),
            region: the_one(&regions),
            zones: zones.into_iter().take(ZONES).map(str::to_owned).collect(),
        }
    }

    /// The same, and where it says nothing, as `member`'s Nodes say, where it lists them within this time. They are not asked where all is said.
    pub async fn completed_by(self, member: &dyn Member, within: Duration) -> Self {
        if !self.provider.is_empty() && !self.region.is_empty() && !self.zones.is_empty() {
            return self;
        }
        let found = Self::look(member, within).await;
        Self {
            provider: if self.provider.is_empty() { found.provider } else { self.provider },
            region: if self.region.is_empty() { found.region } else { self.region },
            zones: if self.zones.is_empty() { found.zones } else { self.zones },
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
    said.filter(|said| !said.is_empty() && is_word(said))
}

fn the_one(all: &BTreeSet<&str>) -> String {
    if all.len() == 1 { all.iter().map(|one| (*one).to_owned()).collect() } else { String::new() }
}

/// What matters here of a Node: a cluster may have thousands, each of which says much else.
fn trimmed(node: &Value) -> Value {
    let mut kept = json!({"metadata": {"labels": {}}, "spec": {}});
    for what in ["region", "zone"] {
        if let Some(said) = label(node, what) {
            kept["metadata"]["labels"][format!("topology.kubernetes.io/{what}")] = json!(said);
        }
    }
    if let Some(id) = node.pointer("/spec/providerID") {
        kept["spec"]["providerID"] = id.clone();
    }
    kept
}

/// The Nodes there are; none where they cannot be listed.
async fn nodes(member: &dyn Member) -> Vec<Value> {
    let watch = Watch {
        gvk: Gvk::new("v1", "Node"),
        namespace: String::new(),
        labels: String::new(),
        fields: String::new(),
    };
    let nodes = list(member, watch, usize::MAX, |node| trimmed(&node)).await;
    nodes.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
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

    /// Whatever Nodes say, the hub takes the join.
    #[test]
    fn no_word_of_a_node_keeps_a_cluster_out() {
        let mut nodes: Vec<Value> = (0..100).map(|n| node("a", "", "", &format!("z{n:03}"))).collect();
        let long = format!("{}://x", "p".repeat(64));
        nodes.extend(["my cloud!://x", "://x", &long, "aws:///a"].map(|id| node("b", id, "-north", "a b")));
        let Topology { provider, region, zones } = Topology::of(&nodes);
        assert_eq!((provider.as_str(), region.as_str(), zones.len()), ("aws", "", ZONES));
        let join = karmada_proto::v1::JoinRequest {
            cluster_name: "north".into(),
            cluster_uid: "u".into(),
            provider,
            region,
            zones,
            ..Default::default()
        };
        assert_eq!(karmada_proto::join::check(&join), Ok(()));
    }

    #[test]
    fn a_node_is_trimmed_to_what_it_says_of_its_place() {
        let mut whole = node("a", "aws:///x/1", "eu", "eu-1");
        whole["status"] = json!({"images": ["many"]});
        let kept = trimmed(&whole);
        assert!(kept.get("status").is_none());
        assert_eq!(Topology::of([&kept]), Topology::of([&whole]));
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
