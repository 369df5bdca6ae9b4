//! CustomResourceDefinitions: what they may say, and the kinds that they describe.
//!
//! In: CustomResourceDefinitions as the store holds them. Out: what they ask for judged ([`validate`]), the kinds they describe
//! ([`Custom`]), and which names they get.
//!
//! A definition's schema is compiled once and its JSON is not kept: texts for OpenAPI are read from the stored object, which
//! the watch cache holds anyway, when someone asks.

mod cel_rules;
mod columns;
mod conversion_rules;
mod custom;
mod default_rules;
pub mod names;
mod openapi_rules;
mod removal;
mod report;
mod schema_rules;
mod selectable_rules;
mod served;
mod stored_versions;
mod structural;
mod validate;

#[cfg(test)]
mod tests;

pub use custom::{Conversion, Crd, Custom, version_of};
pub use removal::mark_deleted;
pub use schema_rules::unknown_formats;
pub use stored_versions::{first_status, remember_storage_version};
pub use validate::validate;

use crate::resource::ResourceDefinition;

/// The group of CustomResourceDefinitions.
pub const GROUP: &str = "apiextensions.k8s.io";

/// Their plural name.
pub const PLURAL: &str = "customresourcedefinitions";

/// Holds a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether the definition of a resource is the one of CustomResourceDefinitions themselves.
pub fn is_definition(definition: &ResourceDefinition) -> bool {
    &*definition.group == GROUP && &*definition.plural == PLURAL
}
