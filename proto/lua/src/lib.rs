//! Customizations: how to read and change kinds that users teach the fleet, in Lua.
//!
//! In: ResourceInterpreterCustomizations, objects as JSON. Out: what their scripts answer, as one more layer of the interpreter
//! ([`Scripts`]); in front of what is known without them, as they are now ([`Customized`]); and whether a customization may be written ([`validation`]).
//!
//! Scripts are untrusted: they reach nothing outside of their machine ([`machine`]), survive in nothing, and cannot hold a thread,
//! fill the memory or end the process.

mod budget;
mod clock;
mod convert;
pub mod customization;
mod customized;
mod for_lists;
mod kube;
mod library;
pub mod machine;
pub mod pattern;
mod script_slot;
mod scripts;
pub mod validation;

pub use crate::customization::Customization;
pub use crate::customized::Customized;
pub use crate::scripts::{Clock, Scripts};
