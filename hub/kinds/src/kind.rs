//! One kind and its rules: how a body is read, defaulted and checked, in kube-apiserver's order.
//!
//! In: a kind's names, style, schema and row, and an object as JSON. Out: the object read in place, with the sentences on unknown fields;
//! defaulted; and everything that is wrong with it. Blocks the thread while patterns and expressions are compiled, and answers [`Crowded`]
//! where too many others do the same.

use std::sync::Arc;

use karmada_cel::{Compiling, Crowded};
use karmada_definitions::description::Style;
use karmada_definitions::kind_row::{KindRow, Rules};
use karmada_schema::metadata::{NameRule, validate_metadata, validate_metadata_update};
use karmada_schema::path::Path;
use karmada_schema::{
    DecodeError, ErrorType, FieldError, Read, SchemaRef, Schemas, apply_defaults, decode_go, drop_nulls,
    read_go, read_structural, run_rules,
};
use serde_json::Value;

use crate::{catalogue, rows};

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
    /// What it does.
    pub row: &'static KindRow,
    /// Where a custom kind keeps wanted replicas, those there are, and the selector of what is counted (empty for none).
    pub scale: Option<(&'a str, &'a str, &'a str)>,
}

impl<'a> Kind<'a> {
    /// A shipped kind.
    pub fn builtin(group: &'a str, version: &'a str, kind: &'a str) -> Option<Kind<'a>> {
        let schema = Schemas::builtin().of(group, version, kind)?;
        let style = catalogue::style(group, version, kind);
        let row = rows::find(group, version, kind, style);
        Some(Kind { group, version, kind, style, schema, row, scale: None })
    }

    /// `group/version`, or the version alone for core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Reads a parsed body in place: types checked, unknown fields dropped and answered
    /// (`unknown field "spec.foo"`), the rest in stored form. Does not default.
    ///
    /// # Errors
    /// The body does not fit the kind's Go types: 400, message by [`DecodeError::wrap`].
    pub fn decode(&self, value: &mut Value) -> Result<Vec<String>, DecodeError> {
        Ok(self.read(value)?.unknown)
    }

    /// The same, with what was sent empty told too.
    ///
    /// # Errors
    /// As [`Kind::decode`].
    pub fn read(&self, value: &mut Value) -> Result<Read, DecodeError> {
        if self.style != Style::Crd {
            return read_go(self.schema, value);
        }
        read_structural(self.schema, value)
    }

    /// Lays in the kind's defaults: Go's for built-in kinds, the schema's for the others.
    pub fn default(&self, value: &mut Value) {
        match self.style {
            Style::Go => {
                crate::defaults::lay_in(self.schema, value);
                // What defaulting added is brought into the encoder's form; it always fits.
                let _ = decode_go(self.schema, value);
            }
            Style::Aggregated => {}
            Style::Crd => {
                apply_defaults(self.schema, value);
                drop_nulls(self.schema, value);
            }
        }
    }

    /// What a scale reads from a custom object: replicas are whole numbers from 0 to the largest of 32 bits, and the selector is a text.
    fn replicas(&self, new: &Value, errors: &mut Vec<FieldError>) {
        let Some((wanted, there, selector)) = self.scale else { return };
        let mut refuse = |path: &str, shown: Value, detail: String| {
            let mut error = FieldError::invalid(&Path::ROOT, shown, detail);
            error.field = path.to_owned();
            errors.push(error);
        };
        for path in [wanted, there] {
            match reach(new, path, |value| value.as_i64().is_some(), "int64") {
                Err(detail) => refuse(path, Value::from(0), detail),
                Ok(found) => match found.and_then(Value::as_i64) {
                    Some(count) if count < 0 => {
                        refuse(path, count.into(), "should be a non-negative integer".to_owned());
                    }
                    Some(count) if count > i64::from(i32::MAX) => {
                        refuse(path, count.into(), format!("should be less than or equal to {}", i32::MAX));
                    }
                    _ => {}
                },
            }
        }
        if !selector.is_empty()
            && let Err(detail) = reach(new, selector, Value::is_string, "string")
        {
            refuse(selector, Value::from(""), detail);
        }
    }

    /// Runs the schema's CEL rules, unless what is wrong already would make them stumble.
    fn rules(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) -> Result<(), Crowded> {
        if self.style != Style::Crd || !self.schema.has_rules() {
            return Ok(());
        }
        let blocks = |error: &FieldError| {
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
            errors.push(FieldError::invalid(&Path::ROOT, Value::Null, why));
            return Ok(());
        }
        errors.extend(run_rules(self.schema, new, old)?.errors);
        Ok(())
    }

    /// What the schema's CEL rules would refuse of a change, had it not been so before: nothing where they could not be run.
    pub fn tolerated(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        if self.style != Style::Crd || !self.schema.has_rules() {
            return Vec::new();
        }
        run_rules(self.schema, new, Some(old)).map(|verdict| verdict.warnings).unwrap_or_default()
    }

    /// Everything that is wrong with `new`, beside `old` on update: metadata, then schema or built-in rules.
    ///
    /// # Errors
    /// Too many long expressions are being evaluated for its own to be.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Result<Vec<FieldError>, Crowded> {
        match self.style {
            Style::Go => {
                compiling(|compiling| crate::validation::validate_builtin(self.row, new, old, compiling))
            }
            Style::Aggregated => Ok(validate_metadata(NameRule::Subdomain, new, old)),
            Style::Crd => {
                let mut errors = match old {
                    None => validate_metadata(NameRule::Subdomain, new, None),
                    Some(old) => validate_metadata_update(new, old),
                };
                errors.extend(self.by_schema(new, old)?);
                // What a row says beside the schema reads what the schema has let in.
                if errors.is_empty() {
                    compiling(|compiling| self.row.rules.judge(new, old, compiling, &mut errors))?;
                }
                self.replicas(new, &mut errors);
                self.rules(new, old, &mut errors)?;
                Ok(errors)
            }
        }
    }

    /// What the schema of a custom kind refuses. Its patterns may have to be compiled.
    fn by_schema(&self, new: &Value, old: Option<&Value>) -> Result<Vec<FieldError>, Crowded> {
        compiling(|compiling| match old {
            None => karmada_schema::validate(self.schema, new, compiling),
            Some(old) => karmada_schema::validate_update(self.schema, new, old, compiling),
        })
    }

    /// Whether patterns may have to be compiled, or expressions run, to judge an object.
    pub fn may_take_long(&self) -> bool {
        let by_schema = self.style == Style::Crd && (self.schema.has_patterns() || self.schema.has_rules());
        by_schema || matches!(self.row.rules, Rules::Compiling(_))
    }
}

/// Judges with a fresh [`Compiling`]. Where that took one of the process's turns for long computations, the turn ends here; where it got
/// none, nothing is known of the object.
fn compiling<T>(judge: impl FnOnce(&Arc<Compiling>) -> T) -> Result<T, Crowded> {
    let compiling = Arc::default();
    let judged = judge(&compiling);
    if compiling.is_crowded() { Err(Crowded) } else { Ok(judged) }
}

/// What stands at a path such as `.spec.replicas`; what Go says where the way there, or what is there, is of another type.
fn reach<'v>(
    object: &'v Value,
    path: &str,
    fits: impl Fn(&Value) -> bool,
    wanted: &str,
) -> Result<Option<&'v Value>, String> {
    let stumbled = |value: &Value, wanted: &str| {
        let (shown, ty) = match value {
            Value::String(text) => (text.clone(), "string"),
            Value::Bool(truth) => (truth.to_string(), "bool"),
            Value::Number(number) if number.is_f64() => (number.to_string(), "float64"),
            Value::Number(number) => (number.to_string(), "int64"),
            Value::Null => ("<nil>".to_owned(), "<nil>"),
            Value::Array(_) => (value.to_string(), "[]interface {}"),
            Value::Object(_) => (value.to_string(), "map[string]interface {}"),
        };
        format!("{path} accessor error: {shown} is of the type {ty}, expected {wanted}")
    };
    let mut at = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        match at {
            Value::Object(fields) => match fields.get(part) {
                Some(next) => at = next,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(stumbled(other, "map[string]interface{}")),
        }
    }
    if fits(at) { Ok(Some(at)) } else { Err(stumbled(at, wanted)) }
}
