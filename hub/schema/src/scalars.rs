//! Values of one piece as a Go decoder reads them: numbers, amounts, times, bytes.
//!
//! In: a value and where it stands. Out: the value as a Go encoder writes it, or what Go says of it.

use base64::Engine as _;
use serde_json::{Value, json};

use super::arena::Format;
use super::go_type_errors::{DecodeError, GoPosition, what};
use super::navigate::SchemaRef;
use super::time;
use karmada_quantity::Quantity;

pub(super) fn integer(schema: SchemaRef<'_>, value: &Value, at: GoPosition<'_>) -> Result<(), DecodeError> {
    let Value::Number(number) = value else { return Err(at.mismatch(what(value))) };
    let fits = match (schema.format(), number.as_i64()) {
        (_, None) => false,
        (Format::Int32, Some(n)) => i32::try_from(n).is_ok(),
        _ => true,
    };
    if fits { Ok(()) } else { Err(at.mismatch(&format!("number {number}"))) }
}

pub(super) fn quantity(value: &mut Value) -> Result<(), DecodeError> {
    if value.is_null() {
        *value = json!("0");
        return Ok(());
    }
    let text = match &*value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    *value = Value::String(Quantity::written(text.trim()).map_err(|why| DecodeError(why.to_owned()))?);
    Ok(())
}

pub(super) fn int_or_string(value: &Value, at: GoPosition<'_>) -> Result<(), DecodeError> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
        Value::Number(number) => {
            Err(GoPosition { go_type: "int32", ..at }.mismatch(&format!("number {number}")))
        }
        other => Err(GoPosition { go_type: "int32", ..at }.mismatch(what(other))),
    }
}

pub(super) fn timestamp(
    value: &mut Value,
    layout: &str,
    write: fn(jiff::Timestamp) -> String,
    at: GoPosition<'_>,
) -> Result<(), DecodeError> {
    let Value::String(text) = value else {
        return Err(GoPosition { go_type: "string", ..at }.mismatch(what(value)));
    };
    if let Some(why) = time::problem(text, layout) {
        return Err(DecodeError(why));
    }
    let refuse = || DecodeError(format!("parsing time {text:?}: day out of range"));
    let parsed = time::parse(text).ok_or_else(refuse)?;
    *value = Value::String(write(parsed));
    Ok(())
}

pub(super) fn bytes(value: &mut Value, at: GoPosition<'_>) -> Result<(), DecodeError> {
    let engine = base64::engine::general_purpose::STANDARD;
    if let Value::Array(items) = value {
        let place = GoPosition { go_type: "uint8", ..at };
        let byte = |item: &Value| match item {
            Value::Null => Ok(0),
            Value::Number(number) => number
                .as_u64()
                .and_then(|number| u8::try_from(number).ok())
                .ok_or_else(|| place.mismatch(&format!("number {number}"))),
            other => Err(place.mismatch(what(other))),
        };
        let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
        *value = Value::String(engine.encode(bytes));
        return Ok(());
    }
    let Value::String(text) = value else { return Err(at.mismatch(what(value))) };
    // Go skips line breaks inside base64.
    let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    engine.decode(&clean).map(|_| ()).map_err(|error| {
        let offset = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                clean.len() / 4 * 4
            }
        };
        DecodeError(format!("illegal base64 data at input byte {offset}"))
    })
}
