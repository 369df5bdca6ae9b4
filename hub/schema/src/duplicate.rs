//! Keys that a JSON body names twice: parsing to a map would lose them silently, strict field validation reports them.
//!
//! In: a body's bytes, or the sentences on its fields. Out: a sentence for each key that an object has twice, a hundred at most; or all
//! sentences in the order in which the body has the fields. Reads the bytes once more for each question.

use std::collections::BTreeSet;
use std::fmt;

use karmada_field::quote;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Strict decoding reports at most this many problems.
pub(super) const REPORT_LIMIT: usize = 100;

/// The paths of duplicate keys, each as `duplicate field "metadata.labels.a"`, in the order of the body.
/// A body that is no JSON has none: parsing reports it.
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    scan(json, &mut |path, again| {
        if again && found.len() < REPORT_LIMIT {
            let message = format!("duplicate field {}", quote(path));
            if !found.contains(&message) {
                found.push(message);
            }
        }
    });
    found
}

/// Puts unknown and duplicate fields in the order of the body, in which a Go decoder meets them.
pub fn in_order(json: &[u8], mut problems: Vec<String>) -> Vec<String> {
    let mut places = vec![usize::MAX; problems.len()];
    let mut at = 0;
    scan(json, &mut |path, again| {
        at += 1;
        let path = quote(path);
        let met = [Some(format!("unknown field {path}")), again.then(|| format!("duplicate field {path}"))];
        for message in met.into_iter().flatten() {
            if let Some(found) = problems.iter().position(|problem| *problem == message) {
                places[found] = places[found].min(at);
            }
        }
    });
    let mut placed: Vec<(usize, String)> = places.into_iter().zip(problems.drain(..)).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, problem)| problem).collect()
}

/// Tells of every key of a document: its path, and whether its object had it before.
fn scan(json: &[u8], met: &mut dyn FnMut(&str, bool)) {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let _ = deserializer.deserialize_any(Scan { path: "", met });
}

struct Scan<'a> {
    path: &'a str,
    met: &'a mut dyn FnMut(&str, bool),
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            (self.met)(&path, !seen.insert(key));
            map.next_value_seed(Scan { path: &path, met: self.met })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            if seq.next_element_seed(Scan { path: &path, met: self.met })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_newtype_struct<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(IgnoredAny).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_in_the_order_of_the_body() {
        let body = br#"{"spec": {"odd": 1, "replicas": 2, "replicas": 3, "list": [{}, {"strange": 1}], "late": 2, "late": 2}}"#;
        let duplicates = duplicate_fields(body);
        assert_eq!(duplicates, ["duplicate field \"spec.replicas\"", "duplicate field \"spec.late\""]);
        let unknown = ["late", "odd", "list[1].strange"].map(|path| format!("unknown field \"spec.{path}\""));
        let told = in_order(body, [duplicates, unknown.into()].concat());
        let wanted = [
            "unknown field \"spec.odd\"",
            "duplicate field \"spec.replicas\"",
            "unknown field \"spec.list[1].strange\"",
            "unknown field \"spec.late\"",
            "duplicate field \"spec.late\"",
        ];
        assert_eq!(told, wanted);
    }
}
