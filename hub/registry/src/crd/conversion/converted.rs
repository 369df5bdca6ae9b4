//! What a conversion webhook gave back, judged: as many objects as were sent, each still the same, in the version asked for.
//!
//! In: an answer's bytes, what was sent. Out: the objects, their identity as it was; or why not, in kube-apiserver's words.

use karmada_definitions::status::Status;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, metadata};
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::refused;
use crate::webhook::Answer;

/// Objects as they came back: still bytes, read one after the other.
pub(super) struct Converted {
    pub(super) answer: Answer,
    /// Where each of them is in the answer.
    pub(super) places: Vec<std::ops::Range<usize>>,
    pub(super) wanted: String,
    pub(super) start: String,
}

impl Converted {
    /// The object at `index`, once it is the one that was sent.
    pub(super) fn take(&self, sent: &[u8], index: usize) -> Result<Value, Status> {
        let read = |bytes: &[u8]| {
            serde_json::from_slice::<Value>(bytes)
                .map_err(|error| format!("returned invalid object at index {index}: {error}"))
        };
        let object = read(sent).and_then(|sent| {
            let place = self.places.get(index).cloned().unwrap_or_default();
            checked(&sent, read(&self.answer[place])?, &self.wanted, index)
        });
        object.map_err(|why| refused(&self.start, &why))
    }
}

/// Where in `answer` the elements of the list `all`, a part of it, are: as many as were sent, none longer than an object may be.
pub(super) fn places(answer: &[u8], all: &str, sent: usize) -> Result<Vec<std::ops::Range<usize>>, String> {
    const LARGEST: usize = 3 << 20;
    struct Elements(usize);
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut elements: Vec<&RawValue> = Vec::with_capacity(self.0);
            while let Some(item) = items.next_element()? {
                if elements.len() == self.0 {
                    return Err(A::Error::custom(format!("{} objects were sent, more came back", self.0)));
                }
                elements.push(item);
            }
            Ok(elements)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(all);
    let elements = match all.starts_with('[') {
        true => reader.deserialize_seq(Elements(sent)).map_err(|error| error.to_string())?,
        false => return Err("the answer holds no convertedObjects".to_owned()),
    };
    if elements.len() != sent {
        return Err(format!("{sent} objects were sent, {} came back", elements.len()));
    }
    let place = |element: &&RawValue| {
        let text = element.get();
        let from = (text.as_ptr() as usize).wrapping_sub(answer.as_ptr() as usize);
        match text.len() <= LARGEST {
            true => Ok(from..from + text.len()),
            false => Err(format!("an object came back that is longer than {LARGEST} bytes")),
        }
    };
    elements.iter().map(place).collect()
}

/// A converted object, once it is what was asked for: in the version wanted, and still the same object.
fn checked(sent: &Value, mut got: Value, wanted: &str, index: usize) -> Result<Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let other = |what: &str, expected: &str, received: &Value| {
        let received = text(received);
        format!(
            "returned invalid object at index {index}: invalid {what} (expected {expected}, received {received})"
        )
    };
    if got["apiVersion"] != *wanted {
        return Err(other("groupVersion", wanted, &got["apiVersion"]));
    }
    if got["kind"] != sent["kind"] {
        return Err(other("kind", &text(&sent["kind"]), &got["kind"]));
    }
    for (field, what) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (is, comes) = (&sent["metadata"][field], &got["metadata"][field]);
        if is != comes {
            let (is, comes) = (text(is), text(comes));
            return Err(format!("returned invalid object: must have the same {what}: {is} != {comes}"));
        }
    }
    let metadata = restored(&sent["metadata"], &got["metadata"]);
    got["metadata"] = metadata.map_err(|why| format!("returned invalid metadata: {why}"))?;
    Ok(got)
}

/// The metadata of a converted object. Labels and annotations may be converted, to what an object may have; the rest is not the
/// webhook's to change.
fn restored(sent: &Value, got: &Value) -> Result<Value, String> {
    let mut metadata = sent.clone();
    for field in ["labels", "annotations"] {
        match got.get(field).filter(|value| !value.is_null()) {
            Some(value) => {
                texts(field, value)?;
                if sent.get(field) != Some(value) {
                    judge(field, value)?;
                }
                metadata[field] = value.clone();
            }
            None => {
                metadata.as_object_mut().and_then(|metadata| metadata.remove(field));
            }
        }
    }
    Ok(metadata)
}

/// A map of texts, or why it is none.
fn texts(field: &str, value: &Value) -> Result<(), String> {
    let map = value.as_object();
    let map = map
        .ok_or_else(|| format!("invalid metadata.{field} of type {} in converted object", go_type(value)))?;
    match map.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((key, value)) => Err(format!(
            "metadata.{field}[{key}] must be a string, but is {} in converted object",
            go_type(value)
        )),
    }
}

/// What labels and annotations are that an object may have.
fn judge(field: &str, value: &Value) -> Result<(), String> {
    let (metadata, mut errors) = (Path::field("metadata"), Vec::new());
    match field {
        "labels" => metadata::labels(value, &metadata.child("labels"), &mut errors),
        // So kube-apiserver names the field here.
        _ => {
            metadata::annotations(&json!({"annotations": value}), &metadata.child("annotation"), &mut errors);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(FieldError::aggregate(&errors)) }
}

/// The type that a value has in Go, decoded as whatever it is.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_objects_come_back_as_were_sent_and_none_is_read_before() {
        let of = |all: &str, sent| {
            let answer = format!("xx{all}yy");
            let all = &answer[2..answer.len() - 2];
            places(answer.as_bytes(), all, sent)
                .map(|places| places.into_iter().map(|place| answer[place].to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(r#"[{"a":1}, {"b":2}]"#, 2).unwrap(), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(of(r#"[{"a":1}]"#, 2).unwrap_err(), "2 objects were sent, 1 came back");
        let many = format!("[{}0]", "0,".repeat(100_000));
        assert!(of(&many, 11).unwrap_err().starts_with("11 objects were sent, more came back"));
        assert!(of("null", 1).unwrap_err().contains("no convertedObjects"));
        let long = format!("[\"{}\"]", "x".repeat(4 << 20));
        assert!(of(&long, 1).unwrap_err().contains("longer than"));
    }

    #[test]
    fn what_comes_back_must_be_the_same_object() {
        let sent = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "generation": 3}});
        let good = json!({"apiVersion": "a/v2", "kind": "K", "metadata": {"name": "n", "uid": "u", "generation": 9}, "spec": {}});
        let checked_good = checked(&sent, good.clone(), "a/v2", 0).unwrap();
        assert_eq!(checked_good["metadata"], json!({"name": "n", "uid": "u", "generation": 3}));
        for (pointer, value) in
            [("/apiVersion", "a/v1"), ("/kind", "L"), ("/metadata/name", "m"), ("/metadata/uid", "w")]
        {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = json!(value);
            assert!(checked(&sent, bad, "a/v2", 0).is_err(), "{pointer}");
        }
    }

    #[test]
    fn labels_and_annotations_come_back_as_an_object_may_have_them() {
        let sent = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "labels": {"not valid": "b"}}});
        let answer = |field: &str, value: Value| {
            let mut got = json!({"apiVersion": "a/v2", "kind": "K", "metadata": {"name": "n"}});
            got["metadata"][field] = value;
            checked(&sent, got, "a/v2", 0)
        };
        for (field, value, wanted) in [
            ("labels", json!("foo"), "invalid metadata.labels of type string in converted object"),
            (
                "labels",
                json!({"a": {"b": 1}}),
                "metadata.labels[a] must be a string, but is map[string]interface {} in converted object",
            ),
            (
                "labels",
                json!({"a": 1}),
                "metadata.labels[a] must be a string, but is int64 in converted object",
            ),
            (
                "annotations",
                json!([]),
                "invalid metadata.annotations of type []interface {} in converted object",
            ),
            (
                "annotations",
                json!({"a": null}),
                "metadata.annotations[a] must be a string, but is <nil> in converted object",
            ),
            (
                "annotations",
                json!({"a": "z".repeat(1 << 20)}),
                "metadata.annotation: Too long: may not be more than 262144 bytes",
            ),
        ] {
            assert_eq!(answer(field, value).unwrap_err(), format!("returned invalid metadata: {wanted}"));
        }
        let why = answer("labels", json!({"a b": "x"})).unwrap_err();
        assert!(
            why.starts_with("returned invalid metadata: metadata.labels: Invalid value: \"a b\": "),
            "{why}"
        );
        let why = answer("labels", json!({"a": "y".repeat(64)})).unwrap_err();
        assert!(why.contains("must be no more than 63"), "{why}");
        assert_eq!(answer("labels", json!({"a": "b"})).unwrap()["metadata"]["labels"], json!({"a": "b"}));
        // What was there before and stays is not the webhook's fault.
        assert!(answer("labels", json!({"not valid": "b"})).is_ok());
    }
}
