//! Patches: JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch. Server-side apply is [`crate::apply`].
//!
//! In: the live object and the request's body. Out: the patched object, still to be decoded, defaulted and validated;
//! or a [`PatchError`] with the status kube-apiserver gives.

mod order;
mod strategic;

use serde_json::Value;

pub use strategic::strategic;

#[cfg(test)]
mod tests;

/// Operations a JSON patch may hold (kube-apiserver's limit).
const MAX_OPERATIONS: usize = 10_000;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400 BadRequest with this message.
    #[error("{0}")]
    BadRequest(String),
    /// 413 RequestEntityTooLarge with this message.
    #[error("{0}")]
    TooLarge(String),
    /// 422, reason Invalid. kube-apiserver answers one sentence for all of them; what was wrong is here.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable {
        /// What was wrong; kube-apiserver does not send it.
        cause: String,
    },
    /// 500 with this message: kube-apiserver did not foresee the case.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    fn unprocessable(cause: &impl ToString) -> PatchError {
        PatchError::Unprocessable { cause: cause.to_string() }
    }
}

fn parse(body: &[u8]) -> Result<Value, PatchError> {
    serde_json::from_slice(body).map_err(|error| PatchError::BadRequest(error.to_string()))
}

/// Applies a JSON patch (`application/json-patch+json`).
///
/// # Errors
/// 400 for a body that is no patch, 413 for too many operations, 422 where an operation does not apply.
pub fn json_patch(live: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let body = parse(body)?;
    if !body.is_array() {
        let what = if body.is_object() { "object" } else { "value" };
        return Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )));
    }
    let operations = body.as_array().map_or(0, Vec::len);
    if operations > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {operations}"
        )));
    }
    let patch: json_patch::Patch =
        serde_json::from_value(body).map_err(|error| PatchError::BadRequest(error.to_string()))?;
    let mut object = live.clone();
    json_patch::patch(&mut object, &patch).map_err(|error| PatchError::unprocessable(&error))?;
    if object.is_object() {
        Ok(object)
    } else {
        Err(PatchError::unprocessable(&"the result is not an object"))
    }
}

/// Applies a merge patch (`application/merge-patch+json`).
///
/// # Errors
/// 400 for a body that is no JSON object.
pub fn merge_patch(live: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let patch = parse(body)?;
    if !patch.is_object() {
        return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned()));
    }
    let mut object = live.clone();
    json_patch::merge(&mut object, &patch);
    Ok(object)
}

/// Applies a strategic merge patch (`application/strategic-merge-patch+json`).
///
/// # Errors
/// 400 for a body that is no JSON object or misuses a directive, 422 where a merge key is missing.
pub fn strategic_patch(
    schema: crate::schema::SchemaRef<'_>,
    live: &Value,
    body: &[u8],
) -> Result<Value, PatchError> {
    let patch = parse(body)?;
    strategic(schema, live, patch)
}
