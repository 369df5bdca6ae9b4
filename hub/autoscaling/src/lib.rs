//! How many replicas a workload is to have by what its Pods use, and by the clock: decisions of FederatedHPAs and CronFederatedHPAs. Pure.
//!
//! In: rules, bounds, what was scaled before, what Pods use in all clusters, the moment. Out: replicas of the template, what held them back, what is
//! told in the status, when to look again.
//!
//! ```text
//! rules + the moment    ── cron_federated_hpa ▶ what is scaled now, how it went, when the next run comes
//! what Pods use, bounds ── federated_hpa ─────▶ replicas of the template, what held them back
//! ```

pub mod cron_federated_hpa;
pub mod federated_hpa;
