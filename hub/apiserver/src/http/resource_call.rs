//! What every verb of a resource is handed: the call, what it is about, and the form of the answer.
//!
//! A type alone: made when a request is routed, and read by the handlers of every verb.

use std::sync::Arc;

use karmada_definitions::resource::ResourceDefinition;

use super::Call;
use super::negotiation::AnswerFormat;
use super::target::ResourcePath;

/// A request on a resource that is served, and the form that its answer has.
#[derive(Clone, Copy)]
pub(super) struct ResourceCall<'a, 'c> {
    pub call: &'a Call<'c>,
    pub definition: &'a Arc<ResourceDefinition>,
    pub wanted: &'a ResourcePath,
    pub format: AnswerFormat,
}
