//! karmada-hub: the wiring of one process. It knows every room and decides nothing itself.
//!
//! In: a [`Settings`]. Out: a running [`Hub`], which drains when told to stop.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

mod addresses;
mod admin_kubeconfig;
mod aggregated_apis;
mod at_rest;
mod certificate_requests;
pub mod certs_command;
mod cluster_info;
mod control;
mod controller_threads;
mod data_dir;
pub mod demo;
mod extension_apiserver_authentication;
pub mod flags;
pub mod fleet;
mod heavy_request_threads;
mod hub;
mod hub_certificates;
mod listener;
pub mod logging;
mod metrics;
mod randomness;
mod registry_api;
#[cfg(test)]
mod registry_in_memory;
mod server_certificate;
mod service_account_tokens;
mod settings;
mod write_options;

pub use data_dir::DataDir;
pub use fleet::Approval;
pub use hub::Hub;
pub use registry_api::RegistryApi;
pub use settings::{
    AccessSettings, AuditSettings, EncryptionSettings, LifecycleSettings, PortPatience, ProxySettings,
    Serves, Settings, StoreKind,
};
