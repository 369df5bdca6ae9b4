//! Indexes: which keys a change concerns, and what belongs to what, without reading every object.
//!
//! In: changes, as watches bring them. Out: keys. Each keeps in memory no more than it is asked for.

mod binding_edits;
pub mod bindings;
mod bindings_by_template;
pub mod claims;
pub mod dependencies;
pub mod namespaces;
pub mod owned_works;
pub mod works;
