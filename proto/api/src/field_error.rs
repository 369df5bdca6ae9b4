//! What is wrong with one field of an object, as kube-apiserver says it.
//!
//! The registry turns a list of these into the causes of a 422 `Status`.

use std::fmt;

use serde_json::Value;

/// What kind of wrong; decides the text and the cause's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The field must be there.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of a list; the list stands here.
    NotSupported(Vec<String>),
    /// The field may not be set here.
    Forbidden,
    /// The value stands twice.
    Duplicate,
    /// The value is longer than this many bytes.
    TooLong(usize),
}

/// One wrong field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path, as in `spec.placement.clusterTolerations[0].key`.
    pub path: String,
    /// What kind of wrong.
    pub kind: Kind,
    /// The value that was found; null where it does not matter.
    pub value: Value,
    /// What the rule is.
    pub detail: String,
}

impl FieldError {
    /// A field that must be there.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Required, value: Value::Null, detail: detail.into() }
    }

    /// A value that breaks a rule.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Invalid, value: value.into(), detail: detail.into() }
    }

    /// A value that is not one of `supported`.
    pub fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|s| (*s).to_owned()).collect();
        Self {
            path: path.into(),
            kind: Kind::NotSupported(supported),
            value: value.into(),
            detail: String::new(),
        }
    }

    /// A field that may not be set here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Forbidden, value: Value::Null, detail: detail.into() }
    }

    /// A value that stands twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { path: path.into(), kind: Kind::Duplicate, value: value.into(), detail: String::new() }
    }

    /// A value longer than `limit` bytes.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        Self { path: path.into(), kind: Kind::TooLong(limit), value: Value::Null, detail: String::new() }
    }

    /// The reason of the cause in a `Status`: `FieldValueInvalid`…
    pub fn reason(&self) -> &'static str {
        match self.kind {
            Kind::Required => "FieldValueRequired",
            Kind::Invalid => "FieldValueInvalid",
            Kind::NotSupported(_) => "FieldValueNotSupported",
            Kind::Forbidden => "FieldValueForbidden",
            Kind::Duplicate => "FieldValueDuplicate",
            Kind::TooLong(_) => "FieldValueTooLong",
        }
    }

    /// The message of the cause, which has no path: `Invalid value: "x": must be y`.
    pub fn message(&self) -> String {
        let head = match &self.kind {
            Kind::Required => "Required value".to_owned(),
            Kind::Invalid => format!("Invalid value: {}", self.value),
            Kind::NotSupported(supported) => {
                let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
                format!("Unsupported value: {}: supported values: {}", self.value, list.join(", "))
            }
            Kind::Forbidden => "Forbidden".to_owned(),
            Kind::Duplicate => format!("Duplicate value: {}", self.value),
            Kind::TooLong(limit) => format!("Too long: may not be more than {limit} bytes"),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}
