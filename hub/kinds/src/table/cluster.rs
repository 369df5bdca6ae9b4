//! Karmada's `Cluster`, as its own API server prints it.
//!
//! In: the Cluster. Out: ten cells in the order of its columns; `Ready` is `Unknown` where there is no such condition.

use serde_json::Value;

use super::Row;
use super::cells::{Fields as _, NONE, texts};

/// Name, version, mode, ready, age; wide: zones, region, provider, endpoint, proxy.
pub(crate) fn cluster(row: Row<'_>) -> Vec<Value> {
    let ready = row.condition("Ready").and_then(|c| c["status"].as_str()).unwrap_or("Unknown");
    let zones = texts(row.list("/spec/zones"), ",");
    vec![
        row.name(),
        row.text_or("/status/kubernetesVersion", NONE),
        row.text_or("/spec/syncMode", NONE),
        ready.into(),
        row.age(),
        if zones.is_empty() { NONE.into() } else { zones.into() },
        row.text_or("/spec/region", NONE),
        row.text_or("/spec/provider", NONE),
        row.text_or("/spec/apiEndpoint", NONE),
        row.text_or("/spec/proxyURL", NONE),
    ]
}
