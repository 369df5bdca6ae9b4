//! What is asked of agents in the course of a decision: ports, which the hub's sessions carry out.
//!
//! In: clusters, and a question. Out: what each of them answered in time; how long the questions took.

pub mod estimator;
pub mod measured_questions;
pub mod pod_metrics;
