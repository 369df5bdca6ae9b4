//! Values as they are recorded, read.

use jiff::Timestamp;
use serde_json::Value;

/// A time as it is recorded.
pub fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

/// `null` members left out, as in objects that were read.
pub fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for field in fields.values_mut() {
                *field = without_nulls(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        _ => {}
    }
    value
}
