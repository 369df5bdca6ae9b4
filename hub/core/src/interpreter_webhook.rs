//! Webhooks that interpret resources: who is asked of a kind, what is sent, what is believed of the answer.
//!
//! In: ResourceInterpreterWebhookConfigurations, answers that are in hand. Out: one more layer of the interpreter ([`Layer`]), which
//! answers by them, or says which question is to be asked. Nothing is sent here.

pub mod answer;
pub mod configuration;
pub mod layer;
pub mod observed;
mod request;

pub use answer::Said;
pub use configuration::{Webhook, WebhookConfiguration};
pub use layer::{Answers, InHand, Layer};
