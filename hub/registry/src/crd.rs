//! Kinds that users bring, while they are served.
//!
//! In: CustomResourceDefinitions as the store holds them. Out: a [`Keeper`] that serves their kinds, tells their conditions and
//! clears away after them; and objects brought from one version to another by the definition's own server.

pub(crate) mod conversion;
mod keeper;

pub use keeper::Keeper;
