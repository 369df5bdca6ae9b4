//! Validation by a structural schema, in the words kube-apiserver uses for CRDs.
//!
//! In: the schema, the object, on an update what stands, and what the request compiles. Out: field errors, bounded in number and in work.
//! May compile patterns, which blocks the thread.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use karmada_cel::{Compiling, Shape as _};
use serde_json::Value;

use super::arena::{Extra, Format, ListType, Type, flag};
use super::findings::Findings;
use super::formats;
use super::navigate::SchemaRef;
use super::path::Path;
use super::validation_rules::Correlated;
use karmada_field::FieldError;

/// Everything about `value` that the schema refuses: types, required fields, enums, formats, bounds, patterns, and
/// duplicates in keyed lists and sets. `apiVersion`, `kind` and `metadata` at the root are not looked at: they are
/// decoded into Go types before.
///
/// `compiling`: what the request compiles. Where that finds itself crowded in the end, nothing is known of the value.
pub fn validate(schema: SchemaRef<'_>, value: &Value, compiling: &Arc<Compiling>) -> Vec<FieldError> {
    let mut errors = Findings::new(compiling);
    check(schema, value, None, &Path::ROOT, &mut errors);
    errors.extend(embedded(schema, value));
    unique_lists(schema, value, &Path::ROOT, &mut errors);
    errors.told()
}

fn embedded(schema: SchemaRef<'_>, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    super::embedded::validate(schema, value, &Path::ROOT, &mut errors);
    errors
}

/// As [`validate`] for a change of `old`: what was wrong before and is as it was is let be, so that a definition that asks more
/// than it did does not lock its objects.
pub fn validate_update(
    schema: SchemaRef<'_>,
    value: &Value,
    old: &Value,
    compiling: &Arc<Compiling>,
) -> Vec<FieldError> {
    let mut errors = Findings::new(compiling);
    check(schema, value, Some(old), &Path::ROOT, &mut errors);
    errors.extend(embedded(schema, value));
    let mut before = Findings::new(compiling);
    unique_lists(schema, old, &Path::ROOT, &mut before);
    if before.told().is_empty() {
        unique_lists(schema, value, &Path::ROOT, &mut errors);
    }
    errors.told()
}

fn check(schema: SchemaRef<'_>, value: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Findings) {
    if old == Some(value) || !errors.step(1) {
        return;
    }
    if !type_fits(schema, value, path, errors) || value.is_null() {
        range(schema, value, path, errors);
        if let Some(extra) = schema.extra().filter(|_| !value.is_null()) {
            enumeration(extra, value, path, errors);
        }
        return;
    }
    range(schema, value, path, errors);
    if let Some(extra) = schema.extra() {
        enumeration(extra, value, path, errors);
        match value {
            Value::String(text) => string(extra, text, path, errors),
            Value::Number(number) => {
                bounds(schema, extra, number.as_f64().unwrap_or_default(), value, path, errors);
            }
            Value::Array(items) => sizes(schema, extra, items, path, errors),
            Value::Object(fields) => properties_count(extra, fields.len() as u64, path, errors),
            _ => {}
        }
    }
    match value {
        Value::String(text) => format(schema, text, path, errors),
        Value::Array(items) => {
            let before = Correlated::new(schema, old);
            for (index, item) in items.iter().enumerate() {
                if let Some(element) = schema.items() {
                    check(element, item, before.of(item), &path.index(index), errors);
                }
            }
        }
        Value::Object(fields) => object(schema, fields, old, path, errors),
        _ => {}
    }
    junctors(schema, value, path, errors);
}

fn object(
    schema: SchemaRef<'_>,
    fields: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut Findings,
) {
    for (name, item) in fields {
        if path.is_root() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let Some(child) = schema.child(name) {
            check(child, item, old.and_then(|old| old.get(name)), &path.child(name), errors);
        }
    }
    let wanted = schema.extra().map_or(&[][..], |extra| &extra.required);
    if !errors.step(schema.properties().len() + wanted.len()) {
        return;
    }
    for (name, _, required) in schema.properties() {
        if required && !fields.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
    for name in wanted {
        if !fields.contains_key(&**name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}

/// The JSON type's name as the messages give it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_integer(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_integer(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64()
}

fn type_fits(schema: SchemaRef<'_>, value: &Value, path: &Path<'_>, errors: &mut Findings) -> bool {
    let expected = match schema.ty() {
        Type::Any if schema.int_or_string() => "integer,string",
        Type::Any => return true,
        _ => schema.json_type(),
    };
    let actual = type_of(value);
    let fits = match (value, schema.ty()) {
        (Value::Null, _) => schema.nullable(),
        (Value::Number(number), Type::Integer) => {
            is_integer(number) || number.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        (Value::Number(_), Type::Number) => true,
        _ => expected.split(',').any(|one| one == actual),
    };
    if !fits {
        let (expected, actual) = match (formatted(schema), value) {
            (Some(format), Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                (format, format_of(value))
            }
            _ => (expected, actual),
        };
        let detail = format!("{path} in body must be of type {expected}: \"{actual}\"");
        errors.push(FieldError::type_invalid(path, actual, detail));
    }
    fits
}

/// The name of a format that means something for the schema's type.
fn formatted(schema: SchemaRef<'_>) -> Option<&str> {
    let name = match schema.format() {
        Format::Int32 => "int32",
        Format::Int64 => "int64",
        Format::Float => "float",
        Format::Double => "double",
        Format::Byte => "byte",
        Format::DateTime | Format::MicroTime => "date-time",
        Format::Other => schema.format_name()?,
        _ => return None,
    };
    formats::is_known(schema.json_type(), name).then_some(name)
}

/// The format that a value has by itself, as Go's memory holds it.
fn format_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if is_integer(number) => "int64",
        Value::Number(_) => "float64",
        _ => "",
    }
}

fn enumeration(extra: &Extra, value: &Value, path: &Path<'_>, errors: &mut Findings) {
    if extra.enumeration.is_empty() || extra.enumerates(value) || !errors.step(extra.enumeration.len()) {
        return;
    }
    let supported: Vec<String> = extra
        .enumeration
        .iter()
        .map(|allowed| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned))
        .collect();
    let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
    errors.push(FieldError::not_supported(path, value.clone(), &supported));
}

fn string(extra: &Extra, text: &str, path: &Path<'_>, errors: &mut Findings) {
    let length = text.chars().count() as u64;
    if let Some(max) = extra.max_length.filter(|max| length > *max) {
        errors.push(FieldError::too_long(path, max));
        return;
    }
    if let Some(min) = extra.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        errors.push(FieldError::invalid(path, text, detail));
        return;
    }
    if let Some(pattern) = &extra.pattern
        && !errors.matches(pattern, text)
    {
        let detail = format!("{path} in body should match '{pattern}'");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn format(schema: SchemaRef<'_>, text: &str, path: &Path<'_>, errors: &mut Findings) {
    let name = match schema.format() {
        Format::DateTime | Format::MicroTime => "date-time",
        Format::Byte => "byte",
        Format::Other => schema.format_name().unwrap_or_default(),
        _ => return,
    };
    if !formats::is_of_format(name, text) {
        let detail = format!("{path} in body must be of type {name}: {}", karmada_field::quote(text));
        errors.push(FieldError::type_invalid(path, text, detail));
    }
}

/// A number beyond what its type and format hold. The message has no field, as there.
fn range(schema: SchemaRef<'_>, value: &Value, path: &Path<'_>, errors: &mut Findings) {
    let Value::Number(number) = value else { return };
    let whole = whole(number);
    let (fits, told) = match (schema.ty(), schema.format()) {
        (Type::Integer, Format::Int32) => {
            (whole.is_some_and(|number| i32::try_from(number).is_ok()), "integer with format int32")
        }
        (Type::Integer, Format::Int64) => (whole.is_some(), "integer with format int64"),
        (Type::Integer, _) => (whole.is_some(), "integer (default format)"),
        (Type::Number, Format::Float) => {
            let fits = number.as_f64().is_none_or(|number| number.abs() <= f64::from(f32::MAX));
            (fits, "number with format float")
        }
        _ => return,
    };
    if !fits {
        let detail = format!("Checked value must be of type {told} in {path}");
        errors.push(FieldError::invalid(&Path::ROOT, "", detail));
    }
}

/// A number without a part, as far as 64 bits hold it.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let held = |number: f64| (-BEYOND..BEYOND).contains(&number) && number.fract() == 0.0;
    match number.as_i64() {
        Some(number) => Some(number),
        // A float within these bounds that has no fraction converts without loss.
        None => number.as_f64().filter(|number| held(*number)).map(|number| number as i64),
    }
}

fn bounds(
    schema: SchemaRef<'_>,
    extra: &Extra,
    number: f64,
    value: &Value,
    path: &Path<'_>,
    errors: &mut Findings,
) {
    let whole = value.as_i64().is_some();
    if let Some(factor) = extra.multiple_of.filter(|factor| whole && factor.trunc() <= 0.0) {
        // A whole number is divided by the factor's whole part, which is zero here.
        let factor = factor.trunc() as i64;
        let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        errors.push(FieldError::invalid(path, factor, detail));
    } else if let Some(factor) = extra.multiple_of.filter(|factor| *factor > 0.0)
        && (number / factor).fract() != 0.0
    {
        let detail = format!("{path} in body should be a multiple of {factor}");
        errors.push(FieldError::invalid(path, value.clone(), detail));
    }
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, value.clone(), detail));
    if let Some(max) = extra.maximum {
        let exclusive = schema.has(flag::EXCLUSIVE_MAX);
        if number > max || (exclusive && number == max) {
            let or_equal = if exclusive { "" } else { " or equal to" };
            refuse(format!("{path} in body should be less than{or_equal} {max}"));
        }
    }
    if let Some(min) = extra.minimum {
        let exclusive = schema.has(flag::EXCLUSIVE_MIN);
        if number < min || (exclusive && number == min) {
            let or_equal = if exclusive { "" } else { " or equal to" };
            refuse(format!("{path} in body should be greater than{or_equal} {min}"));
        }
    }
}

fn sizes(schema: SchemaRef<'_>, extra: &Extra, items: &[Value], path: &Path<'_>, errors: &mut Findings) {
    let count = items.len() as u64;
    if let Some(min) = extra.min_items.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(max) = extra.max_items.filter(|max| count > *max) {
        errors.push(FieldError::too_many(path, count, max));
    }
    if schema.has(flag::UNIQUE)
        && items.iter().map(Value::to_string).collect::<BTreeSet<_>>().len() < items.len()
    {
        errors.push(FieldError::invalid(path, "", format!("{path} in body shouldn't contain duplicates")));
    }
}

fn properties_count(extra: &Extra, count: u64, path: &Path<'_>, errors: &mut Findings) {
    if let Some(min) = extra.min_properties.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(max) = extra.max_properties.filter(|max| count > *max) {
        errors.push(FieldError::too_many(path, count, max));
    }
}

fn junctors(schema: SchemaRef<'_>, value: &Value, path: &Path<'_>, errors: &mut Findings) {
    let Some(junctors) = schema.junctors() else { return };
    let problems = |schema: SchemaRef<'_>, errors: &mut Findings| {
        errors.apart(|apart| check(schema, value, None, path, apart))
    };
    let refuse = |errors: &mut Findings, detail: String| {
        errors.push(FieldError::invalid(&Path::ROOT, "", detail));
    };
    let place = karmada_field::quote(&path.to_string());
    if !junctors.any_of.is_empty() {
        let tried: Vec<Vec<FieldError>> = junctors.any_of.iter().map(|one| problems(*one, errors)).collect();
        if !tried.iter().any(Vec::is_empty) {
            refuse(errors, format!("{place} must validate at least one schema (anyOf)"));
            errors.extend(nearest(&junctors.any_of, tried, value));
        }
    }
    if !junctors.one_of.is_empty() {
        let tried: Vec<Vec<FieldError>> = junctors.one_of.iter().map(|one| problems(*one, errors)).collect();
        let valid = tried.iter().filter(|errors| errors.is_empty()).count();
        if valid != 1 {
            let found = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            refuse(errors, format!("{place} must validate one and only one schema (oneOf). {found}"));
            if valid == 0 {
                errors.extend(nearest(&junctors.one_of, tried, value));
            }
        }
    }
    if !junctors.all_of.is_empty() {
        let tried: Vec<Vec<FieldError>> = junctors.all_of.iter().map(|one| problems(*one, errors)).collect();
        if tried.iter().any(|errors| !errors.is_empty()) {
            let none = if tried.iter().any(Vec::is_empty) { "" } else { ". None validated" };
            errors.extend(tried.into_iter().flatten());
            refuse(errors, format!("{place} must validate all the schemas (allOf){none}"));
        }
    }
    if junctors.not.is_some_and(|not| problems(not, errors).is_empty()) {
        refuse(errors, format!("{place} must not validate the schema (not)"));
    }
}

/// What is wrong by the alternative that came nearest: the one that looked at most of the value.
fn nearest(alternatives: &[SchemaRef<'_>], tried: Vec<Vec<FieldError>>, value: &Value) -> Vec<FieldError> {
    let looked = alternatives.iter().map(|one| reach(*one, value));
    let ranked = looked.zip(tried).min_by_key(|(reach, wrong)| (std::cmp::Reverse(*reach), wrong.len()));
    ranked.map(|(_, wrong)| wrong).unwrap_or_default()
}

/// How many schemas have a say in a value.
fn reach(schema: SchemaRef<'_>, value: &Value) -> usize {
    let below: usize = match value {
        Value::Object(fields) => {
            fields.iter().filter_map(|(name, item)| Some(reach(schema.child(name)?, item))).sum()
        }
        Value::Array(items) => {
            schema.items().map_or(0, |element| items.iter().map(|item| reach(element, item)).sum())
        }
        _ => 0,
    };
    let beside = schema.junctors().map_or(0, |junctors| {
        let all = junctors.any_of.iter().chain(&junctors.one_of).chain(&junctors.all_of).chain(&junctors.not);
        all.map(|one| reach(*one, value)).sum()
    });
    1 + below + beside
}

/// Duplicates in sets and keyed lists, but for the object's own metadata: clients add a finalizer or an owner twice, and are let.
fn unique_lists(schema: SchemaRef<'_>, value: &Value, path: &Path<'_>, errors: &mut Findings) {
    if !errors.step(1) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, item) in fields.iter().filter(|(name, _)| !(path.is_root() && *name == "metadata")) {
                if let Some(child) = schema.child(name) {
                    unique_lists(child, item, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let identity = |item: &Value| match schema.list_type() {
                ListType::Set => Some(item.clone()),
                ListType::Map => {
                    let keys = schema.list_keys().iter();
                    let named = keys.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
                    Some(Value::Object(named.collect()))
                }
                _ => None,
            };
            let mut seen: HashMap<String, u32> = HashMap::new();
            for (index, item) in items.iter().enumerate() {
                if schema.list_type() == ListType::Map && !item.is_object() {
                    let why = "must be an object for an array of list-type map";
                    errors.push(FieldError::invalid(&path.index(index), item.clone(), why));
                    continue;
                }
                if let Some(identity) = identity(item) {
                    let times = seen.entry(identity.to_string()).or_default();
                    *times += 1;
                    if *times == 2 {
                        errors.push(FieldError::duplicate(&path.index(index), identity));
                    }
                }
                if let Some(element) = schema.items() {
                    unique_lists(element, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Schema;
    use super::*;

    fn problems(schema: &Value, value: &Value) -> Vec<FieldError> {
        let compiled = Schema::from_openapi(schema).expect("the schema compiles");
        validate(compiled.root(), value, &Arc::default())
    }

    #[test]
    fn a_schema_and_an_object_that_are_both_large_are_not_multiplied() {
        let names: Vec<String> = (0..20_000).map(|at| format!("p{at}")).collect();
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
        let of = |items: Value| json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}});
        let list = |item: Value| json!({"list": vec![item; 50_000]});
        let wanted = of(json!({"type": "object", "properties": properties, "required": names}));
        let mut branches = vec![json!({"type": "object", "required": ["b"]}); 20_000];
        branches.push(json!({"type": "object", "required": ["a"]}));
        for (schema, value, why) in [
            (wanted.clone(), list(json!({})), "more may be wrong"),
            (of(json!({"type": "string", "enum": names})), list(json!("x")), "more may be wrong"),
            (of(json!({"type": "object", "anyOf": branches})), list(json!({"a": 1})), "too many steps"),
        ] {
            let told = problems(&schema, &value);
            assert!(told.last().unwrap().detail.contains(why), "{}", told.last().unwrap().detail);
            assert!(told.iter().map(|error| error.detail.len()).sum::<usize>() < 3 << 20);
        }
        let all: Value =
            names.iter().map(|name| (name.clone(), json!("x"))).collect::<serde_json::Map<_, _>>().into();
        assert_eq!(problems(&wanted, &json!({"list": vec![all; 10]})), []);
    }

    #[test]
    fn a_long_enumeration_is_looked_up() {
        let values: Vec<Value> = (0..20_000).map(|at| json!(format!("v{at}"))).collect();
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string", "enum": values}}}});
        assert_eq!(problems(&schema, &json!({"list": values})), []);
        let mut wrong = values;
        wrong.push(json!("w"));
        let told = problems(&schema, &json!({"list": wrong}));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].field, "list[20000]");
    }
}
