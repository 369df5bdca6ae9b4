//! Admission of what is not stored: evictions, bindings, requests for tokens, reviews, and connections to a Pod.
//!
//! In: what was posted (or a connection's options), to which part of which object. Out: the same as webhooks changed it, or
//! their refusal. Nothing is written here; the caller acts on what comes back.

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_definitions::version::api_version;
use karmada_schema::object::ObjectKey;
use serde_json::Value;

use crate::registry::Registry;
use crate::request::{AdmissionRequest, Operation, WriteOptions};

/// What the path says, and the body may leave out.
fn name_type(definition: &ResourceDefinition, subresource: &str, object: &mut Value) {
    let (group, version, kind) = match definition.subresource(subresource) {
        Some(sub) => (&sub.group, &sub.version, &sub.kind),
        None => (&definition.group, &definition.version, &definition.kind),
    };
    for (field, text) in [("kind", kind.to_string()), ("apiVersion", api_version(group, version))] {
        if object[field].as_str().is_none_or(str::is_empty) {
            object[field] = Value::from(text);
        }
    }
}

impl Registry {
    /// Asks the gates, webhooks and policies about what goes to `options.subresource` of the object at `key`, or about a review.
    ///
    /// # Errors
    /// One of them said no, or could not be asked and must.
    pub async fn admit_unstored(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        operation: Operation,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let mut request = AdmissionRequest::unstored(definition, operation, key, object, options);
        self.admission.judge_unstored(self, &request)?;
        let Some(configured) = self.dynamic.for_request(&request) else { return Ok(()) };
        name_type(definition, request.subresource, request.object);
        self.dynamic.mutate(self, &self.admission, &configured, &mut request).await?;
        self.dynamic.judge(self, &configured, &mut request).await?;
        self.dynamic.validate(self, &configured, &mut request).await
    }
}
