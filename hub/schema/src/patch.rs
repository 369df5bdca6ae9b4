//! Patches: JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch. Server-side apply is [`crate::apply`].
//!
//! In: the live object and the request's body. Out: the patched object, still to be decoded, defaulted and validated;
//! or a [`PatchError`] with the status kube-apiserver gives.

mod growth;
mod order;
mod strategic;

use serde_json::Value;

pub use strategic::strategic;

/// A value as Go's `%v` prints it.
pub fn go_print(value: &Value) -> String {
    let joined = |texts: Vec<String>| texts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(go_print).collect())),
        Value::Object(members) => {
            let sorted: std::collections::BTreeMap<_, _> = members.iter().collect();
            let texts = sorted.into_iter().map(|(key, value)| format!("{key}:{}", go_print(value)));
            format!("map[{}]", joined(texts.collect()))
        }
        other => other.to_string(),
    }
}

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
    let bad = |why: String| PatchError::BadRequest(format!("error decoding patch: {why}"));
    if let Some(why) = crate::json_error::syntax_error(body) {
        return Err(bad(why));
    }
    serde_json::from_slice(body).map_err(|error| bad(error.to_string()))
}

/// A body that must be an object.
fn parse_object(body: &[u8]) -> Result<Value, PatchError> {
    let patch = parse(body)?;
    match &patch {
        Value::Object(_) | Value::Null => Ok(patch),
        other => Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::go_kind(other)
        ))),
    }
}

/// Applies a JSON patch (`application/json-patch+json`).
///
/// # Errors
/// 400 for a body that is no patch, 413 for too many operations, 422 where an operation does not apply.
pub fn json_patch(live: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let body = parse(body)?;
    let operations = match &body {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                crate::go_kind(other)
            )));
        }
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    if let Some(other) = operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
        return Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
            crate::go_kind(other)
        )));
    }
    let patch = Value::Array(operations.to_vec());
    let patch: json_patch::Patch =
        serde_json::from_value(patch).map_err(|error| PatchError::unprocessable(&error))?;
    let mut object = live.clone();
    let mut growth = growth::Growth::default();
    for operation in patch.0 {
        let Some(operation) = lenient(&object, operation) else { continue };
        growth.take(&object, &operation)?;
        json_patch::patch(&mut object, &[operation]).map_err(|error| PatchError::unprocessable(&error))?;
    }
    growth::whole(&object)?;
    if object.is_object() {
        Ok(object)
    } else {
        Err(PatchError::unprocessable(&"the result is not an object"))
    }
}

/// What the patches of one object may make of it, taken together.
#[derive(Debug, Default)]
pub struct PatchBudget(growth::Growth);

impl PatchBudget {
    /// Applies operations one after the other, each as RFC 6902 has it. After a refusal the object is to be thrown away.
    ///
    /// # Errors
    /// Too many operations; one that does not apply; an object that becomes too deep or too large, or lists of which too much is moved.
    pub fn apply(
        &mut self,
        object: &mut Value,
        operations: Vec<json_patch::PatchOperation>,
    ) -> Result<(), PatchError> {
        if operations.len() > MAX_OPERATIONS {
            let count = operations.len();
            return Err(PatchError::TooLarge(format!("{count} operations are more than {MAX_OPERATIONS}")));
        }
        for operation in operations {
            self.0.take(object, &operation)?;
            json_patch::patch(object, &[operation]).map_err(|error| PatchError::unprocessable(&error))?;
        }
        growth::fits(object)
    }
}

/// kube-apiserver's library replaces a field that is not there by adding it, and finds one that is not there to be null; `None`
/// where that leaves nothing to be done.
fn lenient(object: &Value, operation: json_patch::PatchOperation) -> Option<json_patch::PatchOperation> {
    use json_patch::{AddOperation, PatchOperation};
    let absent = |path: &jsonptr::PointerBuf| {
        let parent = path.parent().map(|path| path.to_string());
        let in_object = parent.is_some_and(|path| object.pointer(&path).is_some_and(Value::is_object));
        in_object && object.pointer(path.as_str()).is_none()
    };
    Some(match operation {
        PatchOperation::Replace(replace) if absent(&replace.path) => {
            PatchOperation::Add(AddOperation { path: replace.path, value: replace.value })
        }
        PatchOperation::Test(test) if test.value.is_null() && absent(&test.path) => return None,
        other => other,
    })
}

/// Applies a merge patch (`application/merge-patch+json`).
///
/// # Errors
/// 400 for a body that is no JSON object.
pub fn merge_patch(live: &Value, body: &[u8]) -> Result<Value, PatchError> {
    let patch = parse_object(body)?;
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
pub fn strategic_patch(schema: crate::SchemaRef<'_>, live: &Value, body: &[u8]) -> Result<Value, PatchError> {
    // Without the words that the other forms' refusals begin with.
    let plain = |error| match error {
        PatchError::BadRequest(why) => {
            PatchError::BadRequest(why.trim_start_matches("error decoding patch: ").to_owned())
        }
        other => other,
    };
    let patch = parse_object(body).map_err(plain)?;
    strategic(schema, live, patch)
}
