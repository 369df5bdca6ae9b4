//! The interpreter of a hub: customizations, webhooks, and what is known without either, as they are now.
//!
//! In: changes of ResourceInterpreterCustomizations and of ResourceInterpreterWebhookConfigurations ([`Customizations`]). Out: one interpreter; webhooks
//! are asked beside it ([`InterpreterWebhooks`]), and who asked it is told when they answered.

pub mod customizations;
mod kept;
mod noting;
pub mod webhooks;

pub use customizations::Customizations;
pub use noting::Noting;
pub use webhooks::{InterpreterWebhooks, WebhookCaller};
