//! CustomResourceDefinitions: kinds that users bring.
//!
//! In: CustomResourceDefinitions as the store holds them. Out: what they ask for judged ([`validate`]), the kinds they describe
//! ([`Custom`]), and a [`Keeper`] that serves those kinds, tells their conditions and clears away after them.
//!
//! A definition's schema is compiled once and its JSON is not kept: texts for OpenAPI are read from the stored object, which
//! the watch cache holds anyway, when someone asks.

mod columns;
mod custom;
mod defaults;
mod keeper;
mod names;
mod removal;

pub use custom::{Crd, Custom};
pub use defaults::{default, first_status, remember_storage_version};
pub use keeper::{Keeper, is_definition};
pub use removal::mark_deleted;

/// The group of CustomResourceDefinitions.
pub const GROUP: &str = "apiextensions.k8s.io";

/// Their plural name.
pub const PLURAL: &str = "customresourcedefinitions";

/// Holds a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
