//! The twin's second encoding: what a generated client sends and asks for.
//!
//! In: a body of JSON, or the bytes of an answer. Out: the same in Kubernetes' protobuf, or as JSON to be compared. Objects are read and written
//! by the hub's own codec, which Go's judges (`tests/clients/codec.go`); lists and the events of watches are taken apart here.

use karmada_schema::protobuf::{CONTENT_TYPE, decode, encode};
use prost::Message;
use serde_json::{Value, json};

/// What generated clients say that they take.
pub const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";

const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
    #[prost(string, tag = "3")]
    content_encoding: String,
    #[prost(string, tag = "4")]
    content_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

#[derive(Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    next: String,
    #[prost(int64, optional, tag = "4")]
    remaining: Option<i64>,
}

#[derive(Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

/// A body in protobuf, where it is whole and right: what has a field or a value that its kind cannot have is sent as JSON alone, and so are
/// numbers of more than 32 bits, of which no Go client can put one into most fields.
pub fn body(object: &Value) -> Option<Vec<u8>> {
    if has_long_number(object) {
        return None;
    }
    let bytes = encode(object).ok()?;
    let back = decode(&bytes).ok()?;
    (filled(back) == filled(object.clone())).then_some(bytes)
}

fn has_long_number(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_none_or(|n| i32::try_from(n).is_err()),
        Value::Array(items) => items.iter().any(has_long_number),
        Value::Object(fields) => fields.values().any(has_long_number),
        _ => false,
    }
}

/// Whether an answer of this content type is read by [`answer`].
pub fn is_one(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|media| media.starts_with(CONTENT_TYPE))
}

/// An answer as JSON, without empty fields: Go writes those that are no pointers, JSON has shown already that they agree.
pub fn answer(bytes: &[u8]) -> Value {
    let read = match object(bytes) {
        Ok(read) => read,
        Err(why) => return json!(format!("not read: {why}")),
    };
    // A list is known by its items, empty or not.
    let items = read.get("items").filter(|items| items.is_array()).cloned();
    let mut read = filled(read);
    if let Some(items) = items {
        read["items"] = items.as_array().unwrap().iter().cloned().map(filled).collect();
    }
    read
}

/// The next event of a watch as JSON, once all of it has come: its length stands before it.
pub fn next_event(held: &mut Vec<u8>) -> Option<Value> {
    let length = usize::try_from(u32::from_be_bytes(*held.first_chunk()?)).unwrap();
    let end = 4 + length;
    if held.len() < end {
        return None;
    }
    let bytes: Vec<u8> = held.drain(..end).skip(4).collect();
    Some(match WatchEvent::decode(bytes.as_slice()) {
        Ok(event) => json!({"type": event.kind, "object": answer(&event.object.unwrap_or_default().raw)}),
        Err(why) => json!(format!("not read: {why}")),
    })
}

fn object(bytes: &[u8]) -> Result<Value, String> {
    let inner = bytes.strip_prefix(MAGIC).ok_or("it does not begin with k8s\\0")?;
    let unknown = Unknown::decode(inner).map_err(|why| why.to_string())?;
    let of = unknown.type_meta.clone().unwrap_or_default();
    match of.kind.strip_suffix("List").filter(|item| !matches!(*item, "APIGroup" | "APIResource")) {
        Some(item) => list(&of, item, &unknown.raw),
        None => decode(bytes).map_err(|why| why.to_string()),
    }
}

fn list(of: &TypeMeta, item: &str, raw: &[u8]) -> Result<Value, String> {
    let list = List::decode(raw).map_err(|why| why.to_string())?;
    // Metadata alone has a group of its own in the list, none in its items.
    let item = TypeMeta { api_version: of.api_version.clone(), kind: item.to_owned() };
    let mut items = Vec::new();
    for raw in list.items {
        let unknown = Unknown { type_meta: Some(item.clone()), raw, ..Unknown::default() };
        let bytes = [MAGIC, &unknown.encode_to_vec()].concat();
        let mut object = decode(&bytes).map_err(|why| why.to_string())?;
        let fields = object.as_object_mut().ok_or("an item that is no object")?;
        fields.remove("apiVersion");
        fields.remove("kind");
        items.push(object);
    }
    let meta = list.metadata.unwrap_or_default();
    Ok(json!({
        "apiVersion": of.api_version,
        "kind": of.kind,
        "metadata": {
            "resourceVersion": meta.resource_version, "continue": meta.next, "remainingItemCount": meta.remaining,
        },
        "items": items,
    }))
}

/// Without fields that are empty.
fn filled(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name, filled(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(filled).collect(),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
