//! CEL rules of a definition's schema: written, compiled against the schema they stand in, or refused.
//!
//! In: the schema as JSON with its path, what is wrong with it so far, and what the request compiles. Out: field errors: rules that are
//! badly written, do not compile, or may cost too much, each alone or all together. Rules of a part whose schema is wrong are not compiled.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use karmada_cel::{CompileError, Compiling, Declarations, Expected, Extent, Inner, Program, Type};
use karmada_schema::JsonShape;
use serde_json::Value;

use super::report::{
    Errors, fields, forbidden, invalid, invalid_raw, items, not_supported, required, rule as shown, text,
};
use super::structural::property;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The most that one rule may cost, wherever it may be run in one object, and all rules together.
const RULE_LIMIT: u64 = 10_000_000;
const TOTAL_LIMIT: u64 = 100_000_000;

/// The largest object there is, in bytes.
const LARGEST: u64 = 3 << 20;

/// Checks every rule of the schema. `bounded`: whether what rules cost is looked at, which it is not where they stood before.
/// `errors` has what is wrong with the schema.
pub(super) fn validate(
    schema: &Value,
    path: &str,
    bounded: bool,
    compiling: &Compiling,
    errors: &mut Errors,
) {
    let wrong = errors.iter().map(|error| error.field.clone()).collect();
    let mut costs = Costs { bounded, wrong, total: 0, dearest: Vec::new(), compiling };
    walk(schema, CostPosition { path, lost: None, times: Some(1), root: true }, &mut costs, errors);
    costs.total_told(path, errors);
}

/// Where in a schema this is.
#[derive(Clone, Copy)]
struct CostPosition<'a> {
    path: &'a str,
    /// The list above, elements of which are not the same from one write to the next.
    lost: Option<&'a str>,
    /// How often such a value may be in one object; `None` where only the object's size bounds it.
    times: Option<u64>,
    root: bool,
}

/// What rules cost.
struct Costs<'c> {
    bounded: bool,
    /// Where the schema itself is wrong.
    wrong: BTreeSet<String>,
    total: u64,
    dearest: Vec<(u64, String)>,
    /// What the definition compiles.
    compiling: &'c Compiling,
}

impl Costs<'_> {
    fn is_wrong_below(&self, path: &str) -> bool {
        let first = self.wrong.range::<str, _>((Bound::Included(path), Bound::Unbounded)).next();
        first.is_some_and(|field| field.starts_with(path))
    }

    fn add(&mut self, path: String, what: &str, cost: u64, errors: &mut Errors) {
        if cost > RULE_LIMIT && self.bounded {
            errors.push(forbidden(&path, exceeds(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.dearest.push((cost, path));
            self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.dearest.truncate(4);
        }
    }

    fn total_told(&self, path: &str, errors: &mut Errors) {
        if self.total <= TOTAL_LIMIT || !self.bounded {
            return;
        }
        for (_, rule) in &self.dearest {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(forbidden(rule, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(forbidden(path, exceeds(what, self.total, TOTAL_LIMIT)));
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        100.0.. if factor > 100.0 => "more than 100x".to_owned(),
        ..1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

fn walk(schema: &Value, place: CostPosition<'_>, costs: &mut Costs<'_>, errors: &mut Errors) {
    let (path, lost) = (place.path, place.lost);
    let more = |bound: &Value| {
        place.times.and_then(|times| Some(times.saturating_mul(bound.as_i64()?.max(0).unsigned_abs())))
    };
    // Children first: what is within is told before what holds it.
    for (name, child) in fields(&schema["properties"]) {
        let times = if schema["additionalProperties"].is_object() {
            more(&schema["maxProperties"])
        } else {
            place.times
        };
        let within = property(path, name);
        walk(child, CostPosition { path: &within, lost, times, root: false }, costs, errors);
    }
    if schema["additionalProperties"].is_object() {
        let within = format!("{path}.additionalProperties");
        let times = more(&schema["maxProperties"]);
        walk(
            &schema["additionalProperties"],
            CostPosition { path: &within, lost, times, root: false },
            costs,
            errors,
        );
    }
    if schema["items"].is_object() {
        let keyed = text(schema, "x-kubernetes-list-type") == "map";
        let lost = lost.or(if keyed { None } else { Some(path) });
        let within = format!("{path}.items");
        let times = more(&schema["maxItems"]);
        walk(&schema["items"], CostPosition { path: &within, lost, times, root: false }, costs, errors);
    }
    let rules = items(schema, "x-kubernetes-validations");
    // Where the schema is wrong, here or below, its rules are not read.
    if rules.is_empty() || costs.is_wrong_below(path) {
        return;
    }
    // Messages speak of the types within it by this name and a number, which says nothing.
    let name = format!("selfType{}", 100_000_000 + path.len());
    let ty = Type::of(JsonShape { schema, root: place.root }, &name);
    let extent = extent(schema, place.root).unwrap_or_default();
    let times = place.times.unwrap_or(LARGEST / (extent.smallest + 1));
    for (at, rule) in rules.iter().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{at}]");
        let judged = Judged { ty: &ty, extent: &extent, times };
        check(&judged, rule, &path, lost, costs, errors);
    }
}

/// How large values of a schema can be; `None` for what rules cannot see.
fn extent(schema: &Value, root: bool) -> Option<Extent> {
    let bound = |field: &str| schema[field].as_i64().map(|most| most.max(0).unsigned_abs());
    let of = |schema: &Value| extent(schema, schema["x-kubernetes-embedded-resource"] == true);
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Extent::plain(1, bound("maxLength").map_or(LARGEST - 2, |most| most.saturating_mul(4))));
    }
    Some(match text(schema, "type") {
        "array" => {
            let item = of(&schema["items"])?;
            let most = bound("maxItems").unwrap_or((LARGEST - 2) / (item.smallest + 1));
            Extent { smallest: 2, most, inner: Inner::List(Box::new(item)) }
        }
        "object" if schema["additionalProperties"].is_object() => {
            let value = of(&schema["additionalProperties"])?;
            let most = bound("maxProperties").unwrap_or((LARGEST - 2) / (value.smallest + 6));
            Extent { smallest: 2, most, inner: Inner::Map(Box::new(value)) }
        }
        "object" => object_extent(schema, root),
        "string" => text_extent(schema),
        "boolean" => Extent::plain(4, 0),
        "number" | "integer" => Extent::plain(1, 0),
        _ => return None,
    })
}

fn object_extent(schema: &Value, root: bool) -> Extent {
    let needed: HashSet<&str> = items(schema, "required").iter().filter_map(Value::as_str).collect();
    let mut all = std::collections::BTreeMap::new();
    // At least the braces.
    let mut smallest = 2;
    for (name, child) in fields(&schema["properties"]) {
        let Some(of) = extent(child, child["x-kubernetes-embedded-resource"] == true) else { continue };
        if child["default"].is_null() && needed.contains(name.as_str()) {
            smallest += name.len() as u64 + of.smallest + 4;
        }
        if let Some(name) = karmada_cel::escape(name) {
            all.insert(name, of);
        }
    }
    if root {
        let word = || Extent::plain(2, LARGEST - 2);
        let names = [("name".to_owned(), word()), ("generateName".to_owned(), word())];
        let metadata = Extent { smallest: 2, most: 0, inner: Inner::Object(names.into()) };
        all.extend([
            ("kind".to_owned(), word()),
            ("apiVersion".to_owned(), word()),
            ("metadata".to_owned(), metadata),
        ]);
    }
    Extent { smallest, most: 0, inner: Inner::Object(all) }
}

fn text_extent(schema: &Value) -> Extent {
    let bound = schema["maxLength"].as_i64().map(|most| most.max(0).unsigned_abs());
    match text(schema, "format") {
        "byte" => Extent::plain(2, bound.unwrap_or(LARGEST - 2)),
        "duration" => Extent::plain(3, 32),
        "date" => Extent::plain(12, 12),
        "date-time" => Extent::plain(21, 32),
        _ => {
            let longest = items(schema, "enum").iter().filter_map(Value::as_str).map(str::len).max();
            let most = bound.map(|most| most.saturating_mul(4)).or(longest.map(|most| most as u64));
            Extent::plain(2, most.unwrap_or(LARGEST - 2))
        }
    }
}

/// What a rule is judged by.
struct Judged<'a> {
    ty: &'a Type,
    extent: &'a Extent,
    times: u64,
}

fn check(
    of: &Judged<'_>,
    rule: &Value,
    path: &str,
    lost: Option<&str>,
    costs: &mut Costs<'_>,
    errors: &mut Errors,
) {
    let ty = of.ty;
    let at = |field: &str| format!("{path}.{field}");
    let optional = rule["optionalOldSelf"] == true;
    let old = if optional { Type::Optional(Box::new(ty.clone())) } else { ty.clone() };
    let declared = Declarations::new().with("self", ty.clone()).with("oldSelf", old);
    let compiled = Program::compile_within(text(rule, "rule"), &declared, Expected::Bool, costs.compiling);
    let once = compiled.as_ref().map_or(0, |_| Program::worst_cost(text(rule, "rule"), &declared, of.extent));
    costs.add(at("rule"), "estimated rule cost", once.saturating_mul(of.times), errors);
    match compiled {
        Err(error) => {
            errors.push(invalid_raw(&at("rule"), shown(rule), refusal(&error, "cel expression", "")));
            if !rule["optionalOldSelf"].is_null() {
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(invalid(&at("optionalOldSelf"), rule["optionalOldSelf"].clone(), why));
            }
            return;
        }
        Ok(program) => {
            let uses_old = program.uses("oldSelf");
            if let (true, Some(list)) = (uses_old, lost) {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                errors.push(invalid(&at("rule"), text(rule, "rule"), why));
            }
            if !rule["optionalOldSelf"].is_null() && !uses_old {
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(invalid(&at("optionalOldSelf"), rule["optionalOldSelf"].clone(), why));
            }
        }
    }
    let message = text(rule, "messageExpression");
    if message.is_empty() {
        return;
    }
    match Program::compile_within(message, &declared, Expected::Text, costs.compiling) {
        Err(error) => {
            let why = refusal(&error, "messageExpression", "messageExpression ");
            errors.push(invalid_raw(&at("messageExpression"), shown(rule), why));
        }
        Ok(_) => {
            let cost = Program::worst_cost(message, &declared, of.extent);
            costs.add(at("messageExpression"), "estimated messageExpression cost", cost, errors);
        }
    }
}

fn refusal(error: &CompileError, what: &str, prefix: &str) -> String {
    match error {
        CompileError::Invalid(message) => format!("{prefix}compilation failed: {message}"),
        CompileError::Result { wanted, .. } => format!("{what} must evaluate to a {wanted}"),
    }
}

/// What is wrong with how a rule is written, before it is read.
pub(super) fn words(schema: &Value, rule: &Value, path: &str, errors: &mut Errors) {
    let at = |field: &str| format!("{path}.{field}");
    let (source, message) = (text(rule, "rule"), text(rule, "message"));
    let has_lines = |text: &str| text.trim().contains('\n');
    if source.trim().is_empty() {
        errors.push(required(&at("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(invalid(&at("message"), message, "must be non-empty if specified"));
    } else if has_lines(message) {
        errors.push(invalid(&at("message"), message, "must not contain line breaks"));
    } else if has_lines(source) && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        errors.push(required(&at("message"), why));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(required(&at("messageExpression"), why));
    }
    if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
        errors.push(not_supported(&at("reason"), reason, &REASONS));
    }
    let Some(field) = rule["fieldPath"].as_str().filter(|field| !field.is_empty()) else { return };
    if field.trim().is_empty() {
        errors.push(invalid(&at("fieldPath"), field, "must be non-empty if specified"));
    }
    if field.contains('\n') {
        errors.push(invalid(&at("fieldPath"), field, "must not contain line breaks"));
    }
    if !leads_somewhere(schema, field) {
        errors.push(invalid(&at("fieldPath"), field, "must be a valid path"));
    }
}

/// Whether a path such as `.spec.a['b']` names a declared field.
fn leads_somewhere(schema: &Value, path: &str) -> bool {
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, left) = if let Some(quoted) = rest.strip_prefix("['") {
            let Some((name, left)) = quoted.split_once("']") else { return false };
            (name, left)
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            plain.split_at(end)
        } else {
            return false;
        };
        let next =
            at["properties"].get(name).or_else(|| at.get("additionalProperties").filter(|a| a.is_object()));
        let Some(next) = next else { return false };
        (at, rest) = (next, left);
    }
    true
}
