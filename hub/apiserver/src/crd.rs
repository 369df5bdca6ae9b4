//! CustomResourceDefinitions: kinds that users bring.
//!
//! In: CustomResourceDefinitions as the store holds them. Out: what they ask for judged ([`validate`]), the kinds they describe
//! ([`Custom`]), and a [`Keeper`] that serves those kinds, tells their conditions and clears away after them.
//!
//! A definition's schema is compiled once and its JSON is not kept: texts for OpenAPI are read from the stored object, which
//! the watch cache holds anyway, when someone asks.

mod cel_rules;
mod columns;
mod conversion;
mod conversion_rules;
mod custom;
mod default_rules;
mod keeper;
mod names;
mod openapi_rules;
mod removal;
mod report;
mod schema_rules;
mod selectable_rules;
mod stored_versions;
mod structural;
mod validate;

#[cfg(test)]
mod tests;

pub use custom::{Crd, Custom};
pub use keeper::{Keeper, is_definition};
pub use removal::mark_deleted;
pub use schema_rules::unknown_formats;
pub use stored_versions::{first_status, remember_storage_version};
pub use validate::validate;

/// The group of CustomResourceDefinitions.
pub const GROUP: &str = "apiextensions.k8s.io";

/// Their plural name.
pub const PLURAL: &str = "customresourcedefinitions";

/// Holds a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
