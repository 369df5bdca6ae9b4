//! Times as they are recorded, read.

use jiff::Timestamp;
use serde_json::Value;

/// A time as it is recorded.
pub fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}
