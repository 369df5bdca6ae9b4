//! Calls to webhooks that interpret resources, by the client that calls admission's.
//!
//! In: a `clientConfig` and a body. Out: the answer's bytes. A service is reached as the hub knows it; certificates must come from `caBundle`, or
//! from whom the machine trusts where there is none.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use karmada_definitions::ca_bundle::Trust;
use karmada_registry::Registry;
use karmada_registry::webhook::{self, Purpose, Target};
use karmada_resource_interpreter::WebhookCaller;
use serde_json::Value;

/// Who calls.
pub struct InterpreterWebhookCalls(pub Arc<Registry>);

#[async_trait::async_trait]
impl WebhookCaller for InterpreterWebhookCalls {
    async fn post(
        &self,
        client: &Value,
        body: Bytes,
        within: Duration,
        most: usize,
    ) -> Result<Bytes, String> {
        let target = Target::of_client(self.0.cache(), client)?.with_timeout(within);
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        let bundle =
            STANDARD.decode(bundle).map_err(|error| format!("its caBundle is no base64: {error}"))?;
        let trust = Trust::of(bundle);
        let answer = webhook::post(Purpose::Interpretation, (&target, &trust), body, within).await?;
        if answer.len() > most {
            return Err(format!("Post {:?}: the answer is longer than {most} bytes", target.url));
        }
        Ok(Bytes::copy_from_slice(&answer))
    }
}
