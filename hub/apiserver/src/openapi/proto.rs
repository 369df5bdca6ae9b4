//! OpenAPI v2 as gnostic's protobuf (`openapi.v2.Document`), written from the JSON pieces. Only the fields that our
//! documents use; numbers are those of gnostic-models' OpenAPIv2.proto.
//!
//! In: paths and schemas as JSON, one at a time. Out: bytes, added to those of the document; fields that are not known here are left out.
//! Pure.

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

/// A message being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u32, value: &Value) {
        for text in value.as_array().into_iter().flatten() {
            self.text(field, text);
        }
    }

    fn flag(&mut self, field: u32, value: &Value) {
        if value.as_bool() == Some(true) {
            encode_key(field, WireType::Varint, &mut self.0);
            encode_varint(1, &mut self.0);
        }
    }

    fn count(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_i64() {
            encode_key(field, WireType::Varint, &mut self.0);
            encode_varint(number as u64, &mut self.0);
        }
    }

    fn double(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_f64() {
            encode_key(field, WireType::SixtyFourBit, &mut self.0);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// `NamedX{name = 1, value = 2}`.
    fn named(&mut self, field: u32, name: &str, write: impl FnOnce(&mut Message)) {
        self.message(field, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.message(2, write);
        });
    }

    /// `Any{yaml = 2}`; JSON is YAML.
    fn any(&mut self, field: u32, value: &Value) {
        self.message(field, |any| any.bytes(2, format!("{value}\n").as_bytes()));
    }

    fn extensions(&mut self, field: u32, fields: &Map<String, Value>) {
        for (name, value) in fields.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.named(field, name, |any| any.bytes(2, format!("{value}\n").as_bytes()));
        }
    }
}

const EMPTY: &Value = &Value::Null;

fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a Value {
    fields.get(name).unwrap_or(EMPTY)
}

/// The whole document from its parts, as [`path`] and [`definition`] wrote them.
pub(super) fn document(info: &Value, paths: &[u8], definitions: &[u8]) -> Bytes {
    let mut out = Message::default();
    out.bytes(1, b"2.0");
    out.message(2, |message| {
        message.text(1, &info["title"]);
        message.text(2, &info["version"]);
    });
    out.bytes(8, paths);
    out.bytes(9, definitions);
    out.0.into()
}

/// Adds a path to `Paths`.
pub(super) fn path(out: &mut Vec<u8>, name: &str, item: &Value) {
    let mut message = Message(std::mem::take(out));
    let Some(fields) = item.as_object() else { return };
    message.named(2, name, |item| {
        for (method, field) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
            if let Some(operation) = get(fields, method).as_object() {
                item.message(field, |message| write_operation(message, operation));
            }
        }
        parameters(item, 9, get(fields, "parameters"));
    });
    *out = message.0;
}

/// Adds a schema to `Definitions`.
pub(super) fn definition(out: &mut Vec<u8>, name: &str, schema: &Value) {
    let mut message = Message(std::mem::take(out));
    message.named(1, name, |value| write_schema(value, schema));
    *out = message.0;
}

fn write_operation(out: &mut Message, operation: &Map<String, Value>) {
    out.texts(1, get(operation, "tags"));
    out.text(5, get(operation, "operationId"));
    out.texts(6, get(operation, "produces"));
    out.texts(7, get(operation, "consumes"));
    parameters(out, 8, get(operation, "parameters"));
    out.message(9, |responses| {
        for (code, response) in get(operation, "responses").as_object().into_iter().flatten() {
            responses.named(1, code, |value| {
                value.message(1, |message| {
                    message.text(1, &response["description"]);
                    if response["schema"].is_object() {
                        message.message(2, |item| {
                            item.message(1, |schema| write_schema(schema, &response["schema"]));
                        });
                    }
                });
            });
        }
    });
    out.extensions(13, operation);
}

fn parameters(out: &mut Message, field: u32, list: &Value) {
    for parameter in list.as_array().into_iter().flatten() {
        out.message(field, |item| {
            item.message(1, |message| match parameter["in"].as_str() {
                Some("body") => message.message(1, |body| {
                    body.text(2, &parameter["name"]);
                    body.text(3, &parameter["in"]);
                    body.flag(4, &parameter["required"]);
                    body.message(5, |schema| write_schema(schema, &parameter["schema"]));
                }),
                Some("path") => message.message(2, |other| {
                    other.message(4, |path| {
                        path.flag(1, &parameter["required"]);
                        path.text(2, &parameter["in"]);
                        path.text(4, &parameter["name"]);
                        path.text(5, &parameter["type"]);
                        path.flag(19, &parameter["uniqueItems"]);
                    });
                }),
                _ => message.message(2, |other| {
                    other.message(3, |query| {
                        query.text(2, &parameter["in"]);
                        query.text(4, &parameter["name"]);
                        query.text(6, &parameter["type"]);
                        query.flag(20, &parameter["uniqueItems"]);
                    });
                }),
            });
        });
    }
}

fn write_schema(out: &mut Message, schema: &Value) {
    let Some(fields) = schema.as_object() else { return };
    out.text(1, get(fields, "$ref"));
    out.text(2, get(fields, "format"));
    out.text(3, get(fields, "title"));
    out.text(4, get(fields, "description"));
    out.double(7, get(fields, "maximum"));
    out.double(9, get(fields, "minimum"));
    out.count(11, get(fields, "maxLength"));
    out.count(12, get(fields, "minLength"));
    out.text(13, get(fields, "pattern"));
    out.count(14, get(fields, "maxItems"));
    out.count(15, get(fields, "minItems"));
    out.texts(19, get(fields, "required"));
    for value in get(fields, "enum").as_array().into_iter().flatten() {
        out.any(20, value);
    }
    match get(fields, "additionalProperties") {
        Value::Bool(true) => out.message(21, |item| item.flag(2, &Value::Bool(true))),
        Value::Null | Value::Bool(false) => {}
        element => out.message(21, |item| item.message(1, |schema| write_schema(schema, element))),
    }
    if get(fields, "type").is_string() {
        out.message(22, |item| item.text(1, get(fields, "type")));
    }
    if get(fields, "items").is_object() {
        out.message(23, |item| item.message(1, |schema| write_schema(schema, get(fields, "items"))));
    }
    if let Some(properties) = get(fields, "properties").as_object() {
        out.message(25, |message| {
            for (name, property) in properties {
                message.named(1, name, |value| write_schema(value, property));
            }
        });
    }
    out.extensions(31, fields);
}
