//! What of a member's objects stays where an interpreter webhook decides it, asked by the hub for an agent.
//!
//! In: a manifest, and the object as an agent says that its member has it. Out: the manifest with what is to stay in it; in words why there is none.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_api::object;
use karmada_gateway::ports::{NotRetained, Retention};
use karmada_interpreter::retain_metadata;
use karmada_resource_interpreter::Customizations;
use karmada_resource_interpreter::customizations::RetainError;
use serde_json::Value;

/// Asks the webhooks that there are now.
pub struct WebhookRetention(pub Arc<Customizations>);

#[async_trait]
impl Retention for WebhookRetention {
    async fn retained(&self, manifest: Bytes, observed: Bytes) -> Result<Bytes, NotRetained> {
        let read = |json: Bytes, whose: &str| {
            let read = serde_json::from_slice::<Value>(&json);
            read.map_err(|error| NotRetained::Failed(format!("{whose} cannot be read: {error}")))
        };
        let manifest = read(manifest, "the manifest")?;
        let mut observed = read(observed, "what the member has")?;
        // A webhook is asked about what was placed, and an agent can have it asked about nothing else.
        if object::identity(&manifest) != object::identity(&observed) {
            let why = "what the member has is another object than the manifest's";
            return Err(NotRetained::Failed(why.to_owned()));
        }
        // As agents leave it out, and it makes no other question.
        retain_metadata::drop_counted(&mut observed);
        match self.0.retain(&manifest, &observed).await {
            Ok(retained) => Ok(Bytes::from(retained.to_string())),
            Err(RetainError::Busy) => Err(NotRetained::Busy),
            Err(RetainError::Failed(error)) => Err(NotRetained::Failed(error.to_string())),
        }
    }
}
