//! The controllers' way to groups that other servers answer, over the API server's aggregation.
//!
//! In: a group, version, method and place. Out: what those servers serve, and which of them cannot tell; the status and JSON of one
//! request.

use std::sync::Arc;

use async_trait::async_trait;
use karmada_apiserver::aggregation::{self, Aggregator};
use karmada_kube_controller_manager::other_servers::{AggregatedResource, Discovered, OtherServers};
use serde_json::Value;

/// The aggregation, as controllers ask it.
pub struct Aggregated(pub Arc<Aggregator>);

#[async_trait]
impl OtherServers for Aggregated {
    fn discovered(&self) -> Discovered {
        discovered(&self.0.elsewhere())
    }

    async fn ask(
        &self,
        method: &str,
        resource: &AggregatedResource,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let mut below = format!("namespaces/{namespace}/{}", resource.plural);
        if !name.is_empty() {
            below = format!("{below}/{name}");
        }
        self.0.call((&resource.group, &resource.version), method, &below, body).await
    }
}

/// What aggregated discovery says. Pure.
fn discovered(all: &[aggregation::AggregatedVersion]) -> Discovered {
    let mut found = Discovered::default();
    for server in all {
        let place = format!("{}/{}", server.group, server.version);
        if !server.available {
            found.failed.push((place.clone(), format!("stale GroupVersion discovery: {place}")));
            continue;
        }
        for row in server.discovery["resources"].as_array().into_iter().flatten() {
            if row["scope"] != "Namespaced" {
                continue;
            }
            let verbs = row["verbs"].as_array().into_iter().flatten();
            found.resources.push(AggregatedResource {
                group: server.group.clone(),
                version: server.version.clone(),
                plural: row["resource"].as_str().unwrap_or_default().to_owned(),
                verbs: verbs.filter_map(|verb| verb.as_str().map(str::to_owned)).collect(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_does_not_answer_is_told_and_only_what_is_in_namespaces_counts() {
        let server = |group: &str, available: bool| aggregation::AggregatedVersion {
            group: group.into(),
            version: "v1".into(),
            available,
            discovery: json!({"resources": [
                {"resource": "things", "scope": "Namespaced", "verbs": ["list", "delete"]},
                {"resource": "wholes", "scope": "Cluster", "verbs": ["list", "delete"]}]}),
        };
        let found = discovered(&[server("a.org", true), server("b.org", false)]);
        assert_eq!(found.resources.iter().map(|one| one.plural.as_str()).collect::<Vec<_>>(), ["things"]);
        assert!(found.resources[0].can("delete") && !found.resources[0].can("deletecollection"));
        assert_eq!(found.failed, [("b.org/v1".into(), "stale GroupVersion discovery: b.org/v1".into())]);
    }
}
