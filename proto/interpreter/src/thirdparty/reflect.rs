//! What of a member object's status is reported, as a list of fields.
//!
//! In: the object as the member has it. Out: those fields of its status that say something; nothing where it has no status, as of every
//! native kind.

use karmada_api::object;
use karmada_api::strings::annotations::TEMPLATE_GENERATION;
use serde_json::{Map, Value};

use super::read::present;
use crate::Answer;

/// Whether a report tells which generations it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// It does, so that the hub can tell an old report from a new one.
    Told,
    /// The kind counts none.
    Untold,
}

/// What is reported of a kind.
pub struct Reflection {
    /// Fields taken over as they are.
    pub fields: &'static [&'static str],
    /// Counts that are 0 where they are absent.
    pub counts: &'static [&'static str],
    /// Whether the generations are told.
    pub generations: Generations,
}

/// Whether a value says nothing.
fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Reports what `of` says.
pub fn reflect(object: &Value, of: &Reflection) -> Answer<Option<Value>> {
    let Some(status) = present(object, &["status"]) else { return Ok(None) };
    let mut out = Map::new();
    for field in of.fields {
        if let Some(value) = status.get(*field).filter(|value| !empty(value)) {
            out.insert((*field).to_owned(), value.clone());
        }
    }
    for field in of.counts {
        let value = status.get(*field).filter(|value| !value.is_null());
        out.insert((*field).to_owned(), value.cloned().unwrap_or_else(|| Value::from(0)));
    }
    if of.generations == Generations::Told {
        let template = object::annotation(object, TEMPLATE_GENERATION).and_then(|text| text.parse().ok());
        for (field, value) in [
            ("generation", object::generation(object)),
            ("resourceTemplateGeneration", template.unwrap_or(0)),
        ] {
            if value != 0 {
                out.insert(field.to_owned(), Value::from(value));
            }
        }
    }
    Ok(Some(Value::Object(out)))
}
