//! A JSON value, read from any format, whose size is bounded while it grows.
//!
//! In: what a deserializer tells. Out: the value, or an error as soon as it would be larger than allowed. YAML's aliases repeat what was
//! written once: a hundred kilobytes of text may stand for gigabytes, of which a count of nodes says nothing.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What a value costs beside its text.
const NODE: usize = 4;

/// A value of at most `MOST` bytes: of its texts and keys, and four for each of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounded<const MOST: usize>(pub Value);

impl<'de, const MOST: usize> serde::Deserialize<'de> for Bounded<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let room = SizeBudget { left: Cell::new(MOST), most: MOST };
        Within(&room).deserialize(deserializer).map(Bounded)
    }
}

struct SizeBudget {
    left: Cell<usize>,
    most: usize,
}

impl SizeBudget {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes.saturating_add(NODE));
        let too_large = || E::custom(format!("the document stands for more than {} bytes", self.most));
        self.left.set(left.ok_or_else(too_large)?);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Within<'r>(&'r SizeBudget);

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value that JSON has")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.take(0).map(|()| Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.take(0).map(|()| Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.take(0).map(|()| Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.take(0).map(|()| Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.take(value.len()).map(|()| Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.0.take(value.len()).map(|()| Value::from(value))
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.take(0).map(|()| Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.take(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.take(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.take(key.len())?;
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_they_were_and_no_larger_than_allowed() {
        for text in [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5",
            "\"x\"",
            "[1,[2,{\"a\":null}]]",
            "{\"b\":{\"c\":[]}}",
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_str::<Bounded<1000>>(text).unwrap().0, plain, "{text}");
        }
        let ten = |text: &str| serde_json::from_str::<Bounded<10>>(text).map(|bounded| bounded.0);
        assert!(ten("\"123456\"").is_ok() && ten("[1]").is_ok());
        for text in ["\"1234567\"", "[1,2]", "{\"a\":1}", "{\"1234567\":1}"] {
            let error = ten(text).unwrap_err().to_string();
            assert!(error.starts_with("the document stands for more than 10 bytes"), "{text}: {error}");
        }
    }
}
