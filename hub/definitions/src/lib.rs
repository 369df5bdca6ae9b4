//! What is served: resources as they describe themselves, the table of them all, and those that users bring.
//!
//! In: descriptions of shipped kinds, and CustomResourceDefinitions. Out: [`resource::ResourceDefinition`]s, what is wrong with a
//! CustomResourceDefinition, and the API's refusals ([`status::Status`]), which name resources. Pure.

pub mod ca_bundle;
pub mod crd;
pub mod description;
pub mod kind_row;
pub mod resource;
pub mod status;
pub mod version;
