//! The clients that people use, unchanged, against `karmada-hub serve`: client-go and what is built on it (controller-runtime,
//! Argo CD's engine, Flux's apply), Helm, kube-rs, Python's client and kopf, and kubectl's whole command set.
//!
//! The demo, followed as it says. In: the built hub (tests share one and keep to namespaces of their own), and the clients, which are built on first use. Out:
//! each does what it does against kube-apiserver, or a failure in the client's own words. What kubectl prints is compared with
//! what it prints of a real kube-apiserver. With `SUBJECT=kube-apiserver` the others run against one too, which is how
//! their expectations were checked.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
#![allow(clippy::unwrap_used)]

mod demo;
mod go;
mod helm;
mod kubectl;
mod operators;
mod protobuf;
mod python;
