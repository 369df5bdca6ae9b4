//! Indexes: which keys a change concerns, and what belongs to what, without reading every object.
//!
//! In: changes, as watches bring them. Out: keys. Each keeps in memory no more than it is asked for.

pub(crate) mod bindings;
pub(crate) mod claims;
pub(crate) mod dependencies;
pub(crate) mod namespaces;
pub(crate) mod owned_works;
pub(crate) mod works;
