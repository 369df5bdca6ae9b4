//! What of a member's objects stays where an interpreter webhook decides it, asked by the hub for an agent.
//!
//! In: a manifest, and the object as an agent says that its member has it. Out: the manifest with what is to stay in it; in words why there is none.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_api::object;
use karmada_gateway::ports::Retention;
use karmada_resource_interpreter::Customizations;
use serde_json::Value;

/// Asks the webhooks that there are now.
pub struct WebhookRetention(pub Arc<Customizations>);

#[async_trait]
impl Retention for WebhookRetention {
    async fn retained(&self, manifest: Bytes, observed: Bytes) -> Result<Bytes, String> {
        let read = |json: &Bytes| serde_json::from_slice::<Value>(json).map_err(|error| error.to_string());
        let manifest = read(&manifest)?;
        let observed = read(&observed).map_err(|why| format!("what the member has cannot be read: {why}"))?;
        // A webhook is asked about what was placed, and an agent can have it asked about nothing else.
        if identity(&manifest) != identity(&observed) {
            return Err("what the member has is another object than the manifest's".to_owned());
        }
        let retained = self.0.retain(&manifest, &observed).await.map_err(|error| error.to_string())?;
        Ok(Bytes::from(retained.to_string()))
    }
}

fn identity(of: &Value) -> [&str; 4] {
    [object::api_version(of), object::kind(of), object::namespace(of), object::name(of)]
}
