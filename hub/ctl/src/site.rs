//! The cluster that a command is about, and whether its site hears of it now. In: the hub, a name. Out: the Cluster, or why not; words.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::connection::Connection;

/// The Cluster of this name.
pub async fn found(hub: &Connection, name: &str) -> Result<Value> {
    match hub.find(&path(name)).await? {
        Some(cluster) => Ok(cluster),
        None => {
            bail!(
                "there is no cluster {name} on {}: karmadactl get clusters lists those there are",
                hub.server
            )
        }
    }
}

/// Where it is.
pub fn path(name: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}")
}

/// Whether the hub has not heard the cluster's agent for a while.
pub fn is_silent(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "Unknown")
}

/// What is said of a word that the site must hear of.
pub fn when_heard(cluster: &Value) -> &'static str {
    if is_silent(cluster) { "; the hub does not hear the site now: it is told once it is back" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_site_that_is_away_hears_of_it_later() {
        let cluster = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(when_heard(&cluster("Unknown")).contains("once it is back"));
        for heard in ["True", "False"] {
            assert_eq!(when_heard(&cluster(heard)), "");
        }
    }
}
