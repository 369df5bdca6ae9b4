//! Objects on their way into the store and out of it: versions, and how large one may be.
//!
//! In: an object as its kind has it. Out: the same in the version it is stored in, and back.

use std::sync::Arc;

use bytes::Bytes;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::conversion;
use karmada_schema::object::Stored;
use karmada_schema::object::extent::is_too_deep;
use serde_json::Value;

use crate::registry_context::RegistryContext;

/// The object in the version it is stored in.
pub(crate) fn to_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.to_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::to_storage(definition, object) }
}

/// The object in the version it is stored in, by the kind's webhook where it has one.
pub(crate) async fn store(
    context: &RegistryContext,
    definition: &ResourceDefinition,
    object: Value,
) -> Result<Value, Status> {
    match &definition.custom {
        Some(custom) => crate::crd::conversion::store(custom, context.cache(), object).await,
        None => Ok(to_storage(definition, object)),
    }
}

/// The object to be answered with, where what is stored could only be shown by asking a webhook again.
pub(crate) fn shown(definition: &ResourceDefinition, object: &Value) -> Option<Value> {
    let asks = definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook());
    asks.then(|| object.clone())
}

/// What a write is answered with: the stored bytes, or what [`shown`] kept.
pub(crate) fn answer(
    definition: &ResourceDefinition,
    shown: Option<Value>,
    bytes: &Bytes,
    revision: u64,
) -> Result<Arc<Stored>, Status> {
    match (&definition.custom, shown) {
        (Some(custom), Some(object)) => crate::crd::conversion::shown(custom, &object, revision),
        _ => RegistryContext::stored(bytes, revision),
    }
}

/// Whether an object is stored in the version that is stored now: if not, writing it unchanged brings it there.
pub(crate) fn is_stored_as_now(definition: &ResourceDefinition, live: &Stored) -> bool {
    let Some(_) = &definition.custom else { return true };
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        definition.kind,
        definition.storage_api_version()
    );
    live.starts_with(head.as_bytes())
}

/// A stored object in the version the client speaks.
pub(crate) fn from_storage(definition: &ResourceDefinition, object: Value) -> Value {
    if let Some(custom) = &definition.custom {
        return custom.from_storage(object);
    }
    if definition.is_storage_version() { object } else { conversion::from_storage(definition, object) }
}

/// Refuses what is larger than an object of its kind may be, or deeper than any: it could be stored, and not read again by everybody. (kube-apiserver
/// takes objects that are deeper.)
pub(crate) fn check_size(definition: &ResourceDefinition, bytes: &[u8]) -> Result<(), Status> {
    let largest = definition.row.largest;
    if bytes.len() > largest {
        return Err(Status::too_large(largest));
    }
    if is_too_deep(bytes) {
        return Err(Status::bad_request("the object has more levels of lists and fields than can be stored"));
    }
    Ok(())
}
