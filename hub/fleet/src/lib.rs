//! What the hub makes of what sites say, and of what it knows of its links.
//!
//! In: reports, Clusters and Works as JSON, links as the gateway knows them, the moment. Out: objects as they shall be, or why not. Pure.

pub mod agent_note;
pub mod cluster_link;
pub mod cluster_metrics;
pub mod cluster_news;
pub mod cluster_report;
pub mod hub_starts;
pub mod identity;
pub mod pending_works;
pub mod token_allowance;
pub mod topology_answers;
pub mod work_report;
