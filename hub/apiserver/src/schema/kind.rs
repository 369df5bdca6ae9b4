//! One kind and its rules: how a body is read, defaulted and checked, in kube-apiserver's order.

use serde_json::Value;

use super::builtin::Schemas;
use super::catalogue;
use super::decode::{DecodeError, decode_go};
use super::field_error::FieldError;
use super::navigate::SchemaRef;
use crate::validation::{NameRule, validate_metadata};

/// How a kind's bodies are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A built-in Go type.
    Go,
    /// A Go type of Karmada's own API server (`Cluster`): no built-in defaults or validation.
    Aggregated,
    /// A structural schema, as CRDs have: no strategic merge patch.
    Crd,
}

/// One kind in one version.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'a> {
    /// The group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// How its bodies are treated.
    pub style: Style,
    /// Its schema.
    pub schema: SchemaRef<'a>,
    /// Where a custom kind keeps its replicas, as `.spec.replicas`.
    pub scale: Option<&'a str>,
}

impl<'a> Kind<'a> {
    /// A shipped kind.
    pub fn builtin(group: &'a str, version: &'a str, kind: &'a str) -> Option<Kind<'a>> {
        let schema = Schemas::builtin().of(group, version, kind)?;
        let style = catalogue::style(group, version, kind);
        Some(Kind { group, version, kind, style, schema, scale: None })
    }

    /// `group/version`, or the version alone for core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether strategic merge patches are understood (415 otherwise).
    pub fn has_strategic_merge(&self) -> bool {
        self.style != Style::Crd
    }

    /// Reads a parsed body in place: types checked, unknown fields dropped and answered
    /// (`unknown field "spec.foo"`), the rest in stored form. Does not default.
    ///
    /// # Errors
    /// The body does not fit the kind's Go types: 400, message by [`DecodeError::wrap`].
    pub fn decode(&self, value: &mut Value) -> Result<Vec<String>, DecodeError> {
        if self.style != Style::Crd {
            return decode_go(self.schema, value);
        }
        let mut unknown = super::prune::prune(self.schema, value);
        if let Some(metadata) = value.get_mut("metadata") {
            let fields = decode_go(Schemas::builtin().object_meta(), metadata)?;
            unknown.extend(
                fields.iter().map(|f| f.replacen("unknown field \"", "unknown field \"metadata.", 1)),
            );
        }
        unknown.extend(super::embedded::decode(self.schema, value)?);
        super::prune::whole_numbers(value);
        Ok(unknown)
    }

    /// Lays in the kind's defaults: Go's for built-in kinds, the schema's for the others.
    pub fn default(&self, value: &mut Value) {
        match self.style {
            Style::Go => {
                crate::defaults::default_builtin(self.group, self.version, self.kind, value);
                // What defaulting added is brought into the encoder's form; it always fits.
                let _ = decode_go(self.schema, value);
            }
            Style::Aggregated => {}
            Style::Crd => {
                super::default::apply_defaults(self.schema, value);
                super::default::drop_nulls(self.schema, value);
            }
        }
    }

    /// Replicas that can be scaled are a number, and not below nothing.
    fn replicas(&self, new: &Value, errors: &mut Vec<FieldError>) {
        let Some(path) = self.scale else { return };
        let found =
            path.split('.').filter(|part| !part.is_empty()).try_fold(new, |value, part| value.get(part));
        let detail = match found {
            None => return,
            Some(value) if value.as_i64().is_some() => {
                let Some(count) = value.as_i64().filter(|count| *count < 0) else { return };
                (count, "should be a non-negative integer".to_owned())
            }
            Some(value) => {
                let (shown, ty) = match value {
                    Value::String(text) => (text.clone(), "string"),
                    Value::Bool(truth) => (truth.to_string(), "bool"),
                    Value::Number(number) => (number.to_string(), "float64"),
                    Value::Null => return,
                    Value::Array(_) => (value.to_string(), "[]interface {}"),
                    Value::Object(_) => (value.to_string(), "map[string]interface {}"),
                };
                (0, format!("{path} accessor error: {shown} is of the type {ty}, expected int64"))
            }
        };
        let mut error = FieldError::invalid(&super::path::Path::ROOT, detail.0, detail.1);
        error.field = path.to_owned();
        errors.push(error);
    }

    /// Runs the schema's CEL rules, unless what is wrong already would make them stumble.
    fn rules(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if self.style != Style::Crd || !self.schema.has_rules() {
            return;
        }
        let blocks = |error: &FieldError| {
            use super::field_error::ErrorType;
            matches!(
                error.kind,
                ErrorType::Required
                    | ErrorType::NotSupported
                    | ErrorType::TooLong
                    | ErrorType::TooMany
                    | ErrorType::TypeInvalid
            )
        };
        if errors.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid(&super::path::Path::ROOT, Value::Null, why));
            return;
        }
        errors.extend(super::rules::run_rules(self.schema, new, old).errors);
    }

    /// What the schema's CEL rules would refuse of a change, had it not been so before.
    pub fn tolerated(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        if self.style != Style::Crd || !self.schema.has_rules() {
            return Vec::new();
        }
        super::rules::run_rules(self.schema, new, Some(old)).warnings
    }

    /// Everything that is wrong with `new`, beside `old` on update: metadata, then schema or built-in rules.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match self.style {
            Style::Go => crate::validation::validate_builtin(self.group, self.kind, new, old),
            Style::Aggregated => validate_metadata(NameRule::Subdomain, new, old),
            Style::Crd => {
                let mut errors = validate_metadata(NameRule::Subdomain, new, old);
                errors.extend(match old {
                    None => super::validate::validate(self.schema, new),
                    Some(old) => super::validate::validate_update(self.schema, new, old),
                });
                self.replicas(new, &mut errors);
                self.rules(new, old, &mut errors);
                errors
            }
        }
    }
}
