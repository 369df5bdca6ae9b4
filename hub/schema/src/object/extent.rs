//! How large and how deep a value is, before it is copied or taken over.
//!
//! In: a value. Out: about the bytes of its JSON, and how many levels it has. Both are found without recursion, so that the measuring
//! itself stands any depth.

use serde_json::Value;

/// What a request may make of an object on the way, in bytes of JSON: as much as a request may hold.
pub(crate) const MOST_BYTES: usize = 3 << 20;

/// Levels that an object may have: the reader of JSON, which reads it again from the store, takes no more.
pub(crate) const MOST_LEVELS: usize = 120;

/// How large and how deep a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// About the bytes of its JSON.
    pub bytes: usize,
    /// 1 for a number or a text, one more for each level around it.
    pub levels: usize,
}

impl Extent {
    /// Measures a value.
    pub fn of(value: &Value) -> Extent {
        let mut extent = Extent::default();
        let mut waiting = vec![(value, 1)];
        while let Some((value, level)) = waiting.pop() {
            extent.levels = extent.levels.max(level);
            extent.bytes += match value {
                Value::Null | Value::Bool(_) => 5,
                Value::Number(_) => 8,
                Value::String(text) => text.len() + 3,
                Value::Array(items) => {
                    waiting.extend(items.iter().map(|item| (item, level + 1)));
                    3
                }
                Value::Object(fields) => {
                    waiting.extend(fields.values().map(|item| (item, level + 1)));
                    3 + fields.keys().map(|key| key.len() + 3).sum::<usize>()
                }
            };
        }
        extent
    }
}
