//! The Kubernetes API of the hub, as a service over the store, indistinguishable from kube-apiserver to its clients.
//!
//! In: HTTP requests with the client's certificate beside them. Out: responses, watches among them. Controllers and the gateway
//! use the [`registry`] below HTTP directly, so that every writer passes the same admission, validation and concurrency.
//! This crate knows the store and no fleet: not the scheduler, not the agents.

pub mod admission;
pub mod aggregation;
pub mod apply;
pub mod audit;
pub mod auth;
pub mod cache;
pub mod conversion;
pub mod crd;
pub mod defaults;
pub mod fairness;
pub mod http;
pub mod kinds;
pub mod kubernetes_service;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod registry;
pub mod request_metrics;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod validation;
pub mod webhook;
