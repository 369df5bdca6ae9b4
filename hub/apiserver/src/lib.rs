//! The Kubernetes API as a library: what a kube-apiserver knows, in the hub's one process.

pub mod apply;
pub mod defaults;
pub mod openapi;
pub mod patch;
pub mod schema;
pub mod table;
pub mod validation;
