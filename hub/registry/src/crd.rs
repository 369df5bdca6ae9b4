//! Kinds that users bring, while they are served.
//!
//! In: CustomResourceDefinitions as the store holds them. Out: a [`DefinitionController`] that serves their kinds, tells their conditions and
//! clears away after them; and objects brought from one version to another by the definition's own server.

mod controller;
pub(crate) mod conversion;

pub use controller::DefinitionController;
