//! Whether what was sent fits the path that it was sent to.
//!
//! In: what the path names, and what was sent. Out: nothing, or a 400; the object as its Go type has it. Looks at no stored object.

use bytes::Bytes;
use karmada_definitions::status::Status;
use karmada_schema::object::meta;
use karmada_schema::{Schemas, decode_go};
use serde_json::Value;

use super::target::ResourcePath;
use super::{Call, body};

/// Refuses to look for one object in every namespace.
pub(super) fn require_namespace(wanted: &ResourcePath) -> Result<(), Status> {
    match wanted.unnamed && !wanted.name.is_empty() {
        true => Err(Status::bad_request("Namespace parameter required.")),
        false => Ok(()),
    }
}

/// The same of an update, whose object has a name or is told so first.
pub(super) fn require_namespace_of_update(
    call: &Call<'_>,
    wanted: &ResourcePath,
    bytes: &Bytes,
) -> Result<(), Status> {
    if !wanted.unnamed {
        return Ok(());
    }
    let value = body::parse(body::media_type(call.headers), bytes)?;
    if meta::name(&value).is_empty() {
        return Err(Status::nameless(&wanted.name));
    }
    require_namespace(wanted)
}

/// Refuses what the kind's Go type cannot hold.
pub(super) fn check_type(sent: &mut Value, kind: &str, group: &str) -> Result<(), Status> {
    match Schemas::builtin().of(group, "v1", kind) {
        Some(schema) => {
            decode_go(schema, sent).map(drop).map_err(|problem| Status::bad_request(problem.wrap("v1", kind)))
        }
        None => Ok(()),
    }
}
