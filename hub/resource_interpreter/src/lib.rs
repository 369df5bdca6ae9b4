//! The interpreter of a hub: customizations, webhooks, and what is known without either, as they are now.
//!
//! In: changes of ResourceInterpreterCustomizations and of ResourceInterpreterWebhookConfigurations ([`Customizations`]). Out: one interpreter; webhooks
//! are asked beside it ([`InterpreterWebhooks`]), and who asked it is told when they answered.

mod answer_cache;
mod collect_questions;
pub mod customizations;
pub mod webhook_questions;

pub use collect_questions::Noting;
pub use customizations::Customizations;
pub use webhook_questions::{InterpreterWebhooks, WebhookCaller};
