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
                Value::Number(number) => match number.as_u64() {
                    Some(whole) => whole.checked_ilog10().unwrap_or(0) as usize + 2,
                    None => 8,
                },
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

/// Whether an object in JSON has more levels than can be read again, or served in every form.
pub fn is_too_deep(json: &[u8]) -> bool {
    let (mut levels, mut in_text, mut escaped) = (1_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                levels += 1;
                if levels > MOST_LEVELS {
                    return true;
                }
            }
            b'}' | b']' if !in_text => levels = levels.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_alike_in_a_value_and_in_its_json() {
        for (levels, is_deep) in [(1, false), (119, false), (120, true), (500, true)] {
            let value = (0..levels).fold(Value::from("{[\\\"{[{["), |value, at| {
                if at % 2 == 0 {
                    Value::from(vec![value])
                } else {
                    serde_json::json!({"{": value, "b": "]]"})
                }
            });
            assert_eq!(is_too_deep(value.to_string().as_bytes()), is_deep, "{levels}");
            assert_eq!(Extent::of(&value).levels > MOST_LEVELS, is_deep, "{levels}");
        }
    }
}
