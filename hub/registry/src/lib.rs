//! Where every write of a Kubernetes object passes, whoever makes it, and where every read is served from.
//!
//! In: a resource, an object or a way to change one, and who asks. Out: the object as stored, or the `Status` that says why
//! not. This crate knows the store, and neither a server of HTTP nor who may do what: that is asked of an [`Authorize`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod admission;
pub mod authorize;
mod block_in_place;
pub mod cache;
pub mod crd;
mod create;
mod delete;
pub mod field_validation;
mod generated_name;
mod object_identity;
pub mod preconditions;
pub mod prepare;
pub mod reconciler;
mod registry;
mod registry_context;
mod request;
pub mod services;
pub mod storage;
mod unstored_admission;
mod update;
pub mod user;
mod virtual_resource;
pub mod webhook;
mod write_steps;

pub use authorize::{Attributes, Authorize, Decision};
pub use block_in_place::apart;
pub use delete::Deleted;
pub use preconditions::resource_version;
pub use registry::{Parts, Registry, Written};
pub use registry_context::{Clock, Ids, RegistryContext};
pub use request::{
    AdmissionRequest, DeleteOptions, DeletionPropagation, FieldValidation, How, Operation, PatchShown,
    Preconditions, Warnings, WriteOptions,
};
pub use user::{Origin, User};
pub use virtual_resource::{VirtualRequest, VirtualResource};
