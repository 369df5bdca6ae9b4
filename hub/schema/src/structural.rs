//! How the body of a kind with a structural schema is read: pruned, its metadata and that of objects inside it as their Go type has them.
//!
//! In: the schema and a parsed body. Out: the body changed in place, and the unknown fields; an error only where metadata does not fit its
//! Go type. Types of other fields are judged later, by `validate`.

use serde_json::Value;

use crate::builtin::Schemas;
use crate::decode::{Read, decode_go};
use crate::embedded;
use crate::go_type_errors::DecodeError;
use crate::navigate::SchemaRef;
use crate::prune::{prune, whole_numbers};

/// Reads a parsed body in place; what its schema does not have is dropped and answered, a sentence for each field.
///
/// # Errors
/// Metadata that its Go type cannot hold.
pub fn read_structural(schema: SchemaRef<'_>, value: &mut Value) -> Result<Read, DecodeError> {
    let mut unknown = prune(schema, value);
    if let Some(metadata) = value.get_mut("metadata") {
        let fields = decode_go(Schemas::builtin().object_meta(), metadata)?;
        unknown.extend(fields.iter().map(|f| f.replacen("unknown field \"", "unknown field \"metadata.", 1)));
    }
    unknown.extend(embedded::decode(schema, value)?);
    whole_numbers(value);
    Ok(Read { unknown, ..Read::default() })
}
