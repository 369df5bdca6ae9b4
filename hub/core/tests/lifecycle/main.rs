//! Recorded cases of the reference implementation, and tables beside them: how clusters are tainted and remedied, how workloads leave them,
//! what follows them, and how they are placed anew.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../../proto/api/tests/recorded/mod.rs"]
mod recorded;

mod clusters;
mod cron;
mod dependencies;
mod eviction;
mod failover;
mod federated_hpa;
mod multi_cluster_service;
mod quota;
mod rebalancer;
mod replicas;
mod service_export;
mod service_import;
mod taints;
mod unified_auth;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A time as it is recorded.
fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// Seconds as they are recorded: 0 where nothing is to be waited for.
fn seconds(wait: Option<SignedDuration>) -> i64 {
    wait.map_or(0, |wait| wait.as_secs())
}

/// `null` members left out, as in objects that were read.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for field in fields.values_mut() {
                *field = without_nulls(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        _ => {}
    }
    value
}
