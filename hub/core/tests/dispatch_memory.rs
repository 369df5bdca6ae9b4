//! One MultiClusterService between a hundred clusters takes no more memory than one of them. A program of its own: the peak of this process is what is
//! looked at.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it made it")]

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::multi_cluster_service::{MultiClusterService, ServiceEndpoints};
use karmada_core::multi_cluster_service::dispatch::ServiceClusters;
use serde_json::{Value, json};

const CLUSTERS: usize = 100;

/// KiB by which the peak may grow: all Works as trees are more than a hundred times as much.
const MOST_MEMORY: usize = 32 << 10;

/// The most memory that this process had so far, in KiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn cluster(at: usize) -> Arc<Cluster> {
    let ready = json!([{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let serves = json!([{"groupVersion": "discovery.k8s.io/v1", "resources": [{"name": "endpointslices", "kind": "EndpointSlice"}]}]);
    let value = json!({"metadata": {"name": format!("site-{at:03}")}, "spec": {"syncMode": "Pull"},
        "status": {"conditions": ready, "apiEnablements": serves}});
    Arc::new(serde_json::from_value(value).unwrap())
}

/// 27 KB of a slice.
fn told() -> ServiceEndpoints {
    let endpoint = |at: usize| json!({"addresses": [format!("10.0.{}.{}", at / 250, at % 250)], "conditions": {"ready": true, "serving": true, "terminating": false}});
    let endpoints: Vec<Value> = (0..300).map(endpoint).collect();
    let slice = json!({"name": "web-abcde", "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]});
    serde_json::from_value(json!({"endpointSlices": [slice]})).unwrap()
}

#[test]
fn the_works_between_a_hundred_clusters_are_in_memory_one_at_a_time() {
    let clusters: Vec<_> = (0..CLUSTERS).map(cluster).collect();
    let mcs = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {"types": ["CrossCluster"]}});
    let mcs: MultiClusterService = serde_json::from_value(mcs).unwrap();
    let crossing = ServiceClusters::of(&mcs, &clusters);
    let before = peak();
    // As an answer is read when its turn comes.
    let outlines = clusters.iter().map(|one| (one.name().to_owned(), crossing.outline(one.name(), &told())));
    let plan = crossing.plan(&outlines.collect(), &Default::default());
    assert_eq!((plan.give.len(), plan.left_out.len()), (CLUSTERS, 0));
    let works = plan.give.iter().flat_map(|provider| crossing.works(provider, &told(), |_| true));
    let bytes = works.map(|work| serde_json::to_vec(&work).unwrap().len());
    let (count, bytes) = bytes.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes));
    assert_eq!(count, CLUSTERS * (CLUSTERS - 1));
    assert!(bytes > 250 << 20, "{bytes}");
    let grown = peak() - before;
    assert!(grown < MOST_MEMORY, "{grown} KiB for {bytes} bytes of Works");
}
