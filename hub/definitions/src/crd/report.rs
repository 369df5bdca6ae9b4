//! Field errors at paths that are text, and internal Go structs as kube-apiserver's errors show them.
//!
//! In: paths and values. Out: [`FieldError`]s; texts in the form in which Go prints the internal types; fields of JSON, empty where they
//! are missing. Pure.

pub(super) use karmada_schema::fields::{list as items, text};
use karmada_schema::{ErrorType, FieldError, Shown, go_json};
use serde_json::{Map, Value, json};

/// Errors being gathered.
pub(super) type Errors = Vec<FieldError>;

fn error(kind: ErrorType, field: &str, value: Option<Shown>, detail: impl Into<String>) -> FieldError {
    FieldError { kind, field: field.to_owned(), value, detail: detail.into() }
}

pub(super) fn required(field: &str, detail: &str) -> FieldError {
    error(ErrorType::Required, field, None, detail)
}

pub(super) fn forbidden(field: &str, detail: impl Into<String>) -> FieldError {
    error(ErrorType::Forbidden, field, None, detail)
}

pub(super) fn invalid(field: &str, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
    error(ErrorType::Invalid, field, Some(Shown::Json(value.into())), detail)
}

pub(super) fn invalid_raw(field: &str, shown: String, detail: impl Into<String>) -> FieldError {
    error(ErrorType::Invalid, field, Some(Shown::Raw(shown)), detail)
}

pub(super) fn duplicate(field: &str, value: &str) -> FieldError {
    error(ErrorType::Duplicate, field, Some(Shown::Json(value.into())), "")
}

pub(super) fn not_supported(field: &str, value: &str, supported: &[&str]) -> FieldError {
    let list: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
    let detail = format!("supported values: {}", list.join(", "));
    error(ErrorType::NotSupported, field, Some(Shown::Json(value.into())), detail)
}

pub(super) fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Fields of a Go struct in its order.
fn go_struct(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn or_null(value: &Value) -> String {
    go_json(value)
}

/// Versions as the internal type prints them; what all versions share is printed elsewhere.
pub(super) fn versions(spec: &Value) -> String {
    let Some(list) = spec["versions"].as_array() else { return "null".to_owned() };
    let one = |version: &Value| {
        let flag = |field: &str| (version[field] == true).to_string();
        go_struct(&[
            ("Name", json!(text(version, "name")).to_string()),
            ("Served", flag("served")),
            ("Storage", flag("storage")),
            ("Deprecated", flag("deprecated")),
            ("DeprecationWarning", or_null(&version["deprecationWarning"])),
            ("Schema", "null".into()),
            ("Subresources", "null".into()),
            ("AdditionalPrinterColumns", "null".into()),
            ("SelectableFields", "null".into()),
        ])
    };
    format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
}

/// A CEL rule as the internal type prints it.
pub(super) fn rule(rule: &Value) -> String {
    let shown = |field: &str| go_json(&json!(text(rule, field)));
    go_struct(&[
        ("Rule", shown("rule")),
        ("Message", shown("message")),
        ("MessageExpression", shown("messageExpression")),
        ("Reason", or_null(&rule["reason"])),
        ("FieldPath", shown("fieldPath")),
        ("OptionalOldSelf", or_null(&rule["optionalOldSelf"])),
    ])
}

/// How a schema's field is printed when it is not set.
#[derive(Clone, Copy)]
enum Empty {
    Text,
    Flag,
    Null,
}

use Empty::{Flag, Null, Text};

/// The internal schema's fields in order: Go name, JSON name, what empty prints as.
const SCHEMA: [(&str, &str, Empty); 43] = [
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Null),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Flag),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Null),
    ("Maximum", "maximum", Null),
    ("ExclusiveMaximum", "exclusiveMaximum", Flag),
    ("Minimum", "minimum", Null),
    ("ExclusiveMinimum", "exclusiveMinimum", Flag),
    ("MaxLength", "maxLength", Null),
    ("MinLength", "minLength", Null),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Null),
    ("MinItems", "minItems", Null),
    ("UniqueItems", "uniqueItems", Flag),
    ("MultipleOf", "multipleOf", Null),
    ("Enum", "enum", Null),
    ("MaxProperties", "maxProperties", Null),
    ("MinProperties", "minProperties", Null),
    ("Required", "required", Null),
    ("Items", "items", Null),
    ("AllOf", "allOf", Null),
    ("OneOf", "oneOf", Null),
    ("AnyOf", "anyOf", Null),
    ("Not", "not", Null),
    ("Properties", "properties", Null),
    ("AdditionalProperties", "additionalProperties", Null),
    ("PatternProperties", "patternProperties", Null),
    ("Dependencies", "dependencies", Null),
    ("AdditionalItems", "additionalItems", Null),
    ("Definitions", "definitions", Null),
    ("ExternalDocs", "externalDocs", Null),
    ("Example", "example", Null),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Null),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Null),
    ("XListType", "x-kubernetes-list-type", Null),
    ("XMapType", "x-kubernetes-map-type", Null),
];

/// Fields that a root schema beside a status subresource may have.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Whether a root schema beside a status subresource has a field that it may not have: the message.
pub(super) fn refused_at_root(schema: &Value) -> Option<String> {
    let set = |json_name: &str| match &schema[json_name] {
        Value::Null => false,
        Value::Bool(on) => {
            *on || matches!(
                json_name,
                "additionalProperties" | "additionalItems" | "x-kubernetes-preserve-unknown-fields"
            )
        }
        Value::String(text) => {
            !text.is_empty()
                || matches!(json_name, "$ref" | "x-kubernetes-list-type" | "x-kubernetes-map-type")
        }
        _ => true,
    };
    let refused = SCHEMA.iter().any(|(name, json_name, _)| !AT_ROOT.contains(name) && set(json_name));
    refused.then(|| {
        format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            AT_ROOT.join(" ")
        )
    })
}

/// Schemas as the internal type prints them.
pub(super) fn schemas(list: &Value) -> String {
    let Some(list) = list.as_array() else { return "null".to_owned() };
    format!("[{}]", list.iter().map(schema).collect::<Vec<_>>().join(","))
}

/// A schema as the internal type prints it.
pub(super) fn schema(value: &Value) -> String {
    let Some(map) = value.as_object() else { return "null".to_owned() };
    let mut out: Vec<(&str, String)> =
        SCHEMA.iter().map(|(name, json_name, empty)| (*name, schema_field(map, json_name, *empty))).collect();
    let rules = items(value, "x-kubernetes-validations");
    let rules = match rules {
        [] => "null".to_owned(),
        rules => format!("[{}]", rules.iter().map(rule).collect::<Vec<_>>().join(",")),
    };
    out.push(("XValidations", rules));
    go_struct(&out)
}

fn schema_field(map: &Map<String, Value>, name: &str, empty: Empty) -> String {
    let named = |value: &Value| {
        let entries: Vec<String> =
            fields(value).map(|(k, v)| format!("{}:{}", json!(k), schema(v))).collect();
        format!("{{{}}}", entries.join(","))
    };
    match (map.get(name), name) {
        (None | Some(Value::Null), _) => match empty {
            Text => "\"\"".to_owned(),
            Flag => "false".to_owned(),
            Null => "null".to_owned(),
        },
        (Some(list @ Value::Array(_)), "allOf" | "anyOf" | "oneOf") => schemas(list),
        (Some(list @ Value::Array(_)), "items") => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", schemas(list))
        }
        (Some(value), "properties" | "patternProperties" | "definitions") => named(value),
        (Some(value), "not") => schema(value),
        (Some(value), "items") => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        (Some(value), "additionalProperties" | "additionalItems") => match value {
            Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            value => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        },
        (Some(value), _) => go_json(value),
    }
}
