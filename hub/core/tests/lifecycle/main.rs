//! Recorded cases of the reference implementation, and tables beside them: how clusters are tainted and remedied, how workloads leave them,
//! what follows them, and how they are placed anew.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../../proto/api/tests/recorded/mod.rs"]
mod recorded;

mod clusters;
mod dependencies;
mod eviction;
mod failover;
mod multi_cluster_service;
mod quota;
mod rebalancer;
mod replicas;
mod service_export;
mod service_import;
mod taints;
mod unified_auth;
mod values;
mod without_nulls;

use jiff::SignedDuration;

use self::values::time;
use self::without_nulls::without_nulls;

/// Seconds as they are recorded: 0 where nothing is to be waited for.
fn seconds(wait: Option<SignedDuration>) -> i64 {
    wait.map_or(0, |wait| wait.as_secs())
}
