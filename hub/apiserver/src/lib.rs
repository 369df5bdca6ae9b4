//! The Kubernetes API of the hub, as a service over the store, indistinguishable from kube-apiserver to its clients.
//!
//! In: HTTP requests with the client's certificate beside them. Out: responses, watches among them. Controllers and the gateway
//! use the registry below it (`karmada-registry`) directly, so that every writer passes the same admission, validation and concurrency.
//! This crate knows the store, and nothing of what its objects are for: what is not stored is answered through two ports (`VirtualResource`
//! of the registry, [`connect`]).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod aggregation;
pub mod audit;
pub mod connect;
pub mod fairness;
pub mod http;
pub mod kubernetes_service;
pub mod openapi;
pub mod request_metrics;
