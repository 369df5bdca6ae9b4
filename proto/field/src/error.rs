//! What is wrong with a field, in kube-apiserver's words (`k8s.io/apimachinery/pkg/util/validation/field`).
//!
//! In: the path of a field, its value and what is wrong. Out: an error, its message, and the entry of a Status that tells it. Pure.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorType {
    /// A referenced value is not there.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique appears twice.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is not among those allowed.
    NotSupported,
    /// A value is well formed, but not permitted here.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A list has too many items.
    TooMany,
    /// The value's type is not the schema's.
    TypeInvalid,
    /// Something failed that the user did not cause.
    Internal,
}

impl ErrorType {
    /// The `reason` of the status cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
            ErrorType::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooMany => "Too many",
            ErrorType::Internal => "Internal error",
        }
    }
}

/// A value as an error shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A JSON value.
    Json(Value),
    /// Text that stands as it is: structs whose fields kube-apiserver writes in its own order.
    Raw(String),
}

impl<V: Into<Value>> From<V> for Shown {
    fn from(value: V) -> Shown {
        Shown::Json(value.into())
    }
}

/// One refused field. Paths come as [`Path`](crate::path::Path)s or as text; the object itself is shown as `<nil>`. `Display` is the whole message: `spec.replicas: Invalid value: -1: must be …`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Why.
    pub kind: ErrorType,
    /// The path, such as `spec.containers[0].name`.
    pub field: String,
    /// The value that is shown; `None` shows none.
    pub value: Option<Shown>,
    /// What more there is to say; may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(
        kind: ErrorType,
        field: &(impl fmt::Display + ?Sized),
        value: Option<Shown>,
        detail: impl Into<String>,
    ) -> FieldError {
        let mut field = field.to_string();
        if field.is_empty() {
            field.push_str("<nil>");
        }
        FieldError { kind, field, value, detail: detail.into() }
    }

    /// A value is missing.
    pub fn required(field: &(impl fmt::Display + ?Sized), detail: impl Into<String>) -> FieldError {
        Self::new(ErrorType::Required, field, None, detail)
    }

    /// A value is malformed or out of bounds.
    pub fn invalid(
        field: &(impl fmt::Display + ?Sized),
        value: impl Into<Shown>,
        detail: impl Into<String>,
    ) -> FieldError {
        Self::new(ErrorType::Invalid, field, Some(value.into()), detail)
    }

    /// A value's type is not the schema's.
    pub fn type_invalid(
        field: &(impl fmt::Display + ?Sized),
        value: impl Into<Shown>,
        detail: impl Into<String>,
    ) -> FieldError {
        Self::new(ErrorType::TypeInvalid, field, Some(value.into()), detail)
    }

    /// A value is not among `supported`.
    pub fn not_supported(
        field: &(impl fmt::Display + ?Sized),
        value: impl Into<Shown>,
        supported: &[&str],
    ) -> FieldError {
        let list: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail =
            if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        Self::new(ErrorType::NotSupported, field, Some(value.into()), detail)
    }

    /// A value that must be unique appears twice.
    pub fn duplicate(field: &(impl fmt::Display + ?Sized), value: impl Into<Shown>) -> FieldError {
        Self::new(ErrorType::Duplicate, field, Some(value.into()), "")
    }

    /// A value is not permitted here.
    pub fn forbidden(field: &(impl fmt::Display + ?Sized), detail: impl Into<String>) -> FieldError {
        Self::new(ErrorType::Forbidden, field, None, detail)
    }

    /// A referenced value is not there.
    pub fn not_found(field: &(impl fmt::Display + ?Sized), value: impl Into<Shown>) -> FieldError {
        Self::new(ErrorType::NotFound, field, Some(value.into()), "")
    }

    /// A value is longer than `max` bytes.
    pub fn too_long(field: &(impl fmt::Display + ?Sized), max: u64) -> FieldError {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorType::TooLong, field, None, format!("may not be more than {max} {unit}"))
    }

    /// A list has more than `max` items.
    pub fn too_many(field: &(impl fmt::Display + ?Sized), actual: u64, max: u64) -> FieldError {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            ErrorType::TooMany,
            field,
            Some(Value::from(actual).into()),
            format!("must have at most {max} {unit}"),
        )
    }

    /// The message without the field.
    pub fn body(&self) -> String {
        let mut out = self.kind.title().to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            match value {
                Shown::Json(value) => out.push_str(&render(value)),
                Shown::Raw(text) => out.push_str(text),
            }
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }

    /// The entry of a Status's `details.causes`.
    pub fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.body(), "field": self.field})
    }

    /// Several errors as one message, as an aggregate of Go errors prints: one alone bare, more in brackets, equal
    /// messages once.
    pub fn aggregate(errors: &[FieldError]) -> String {
        let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let mut seen = HashSet::new();
        messages.retain(|message| seen.insert(message.clone()));
        if messages.len() == 1 { messages.remove(0) } else { format!("[{}]", messages.join(", ")) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Text in Go's `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii() && !is_printable(c) => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_printable(c) => out.push(c),
            c if (c as u32) <= 0xffff => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Texts as Go prints a list of strings with `%q`: each quoted, in brackets, with blanks between.
pub fn quote_list<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// Whether a character leaves a mark, or is a plain space: Go's `unicode.IsPrint`, by the Unicode version of this compiler.
pub fn is_printable(c: char) -> bool {
    let is_blank = c.is_whitespace() || c.is_control();
    // What Rust escapes though it leaves a mark: marks that join the character before.
    let is_escaped = |c: char| c.escape_debug().len() > 2 && c.escape_debug().to_string().starts_with("\\u");
    c == ' ' || (!is_blank && (c.is_ascii() || c.is_alphanumeric() || !is_escaped(c)))
}

/// A value as a field error shows it: scalars bare, text quoted, the rest as Go's JSON.
pub fn render(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => float.to_string(),
            _ => number.to_string(),
        },
        Value::Bool(_) => value.to_string(),
        other => go_json(other),
    }
}

/// JSON as Go writes it: `<`, `>`, `&` and the two separators that JavaScript takes for line ends escaped.
pub fn go_json(value: &Value) -> String {
    let mut text = value.to_string();
    for (sign, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(sign) {
            text = text.replace(sign, escaped);
        }
    }
    text
}

/// About what Go's encoder makes of a struct without names for JSON: fields by their Go names.
pub fn go_struct(value: &Value) -> Value {
    let upper = |name: &str| {
        let mut letters = name.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, item)| (upper(name), go_struct(item))).collect())
        }
        Value::Array(items) => items.iter().map(go_struct).collect(),
        other => other.clone(),
    }
}
