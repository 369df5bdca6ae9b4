//! CEL rules of a structural schema, run on an object: `x-kubernetes-validations` as kube-apiserver runs them.
//!
//! In: a schema, the new object and, on update, the old one. Out: what the rules refuse, and (as warnings) what they would refuse
//! had it not been so before. Rules are compiled when first needed and kept with the schema; all rules of one write share
//! one budget ([`Limits`]).

use super::rule::Rule;
use std::collections::HashMap;

use karmada_cel::{
    Crowded, Declarations, EvalError, Evaluator, Expected, Limits, Lists, Program, Shape as _,
    Type as CelType, Value as Cel,
};
use serde_json::Value;

use super::arena::ListType;
use super::navigate::SchemaRef;
use super::path::Path;
use karmada_field::{ErrorType, FieldError, Shown};

/// A schema's rules, compiled once.
fn rules_of(schema: SchemaRef<'_>) -> &[Rule] {
    let Some((written, compiled)) = schema.rules() else { return &[] };
    compiled.get_or_init(|| compile(schema, written))
}

/// Compiles a schema's rules. They were checked against the schema when the definition was taken, so types matter no more.
fn compile(schema: SchemaRef<'_>, rules: &Value) -> Box<[Rule]> {
    let lists = Lists::of(schema);
    let declared = Declarations::new()
        .with("self", CelType::Dyn)
        .with("oldSelf", CelType::Dyn)
        .listing("self", lists.clone())
        .listing("oldSelf", lists)
        .lenient();
    let one = |rule: &Value| {
        let text = |field: &str| rule[field].as_str().unwrap_or_default();
        let program = Program::compile(text("rule"), &declared, Expected::Bool).ok();
        let expression = text("messageExpression");
        Rule {
            transition: program.as_ref().is_some_and(|program| program.uses("oldSelf")),
            program,
            source: text("rule").to_owned(),
            message: text("message").to_owned(),
            message_expression: Program::compile(expression, &declared, Expected::Text)
                .ok()
                .filter(|_| !expression.is_empty()),
            reason: match text("reason") {
                "FieldValueForbidden" => ErrorType::Forbidden,
                "FieldValueRequired" => ErrorType::Required,
                "FieldValueDuplicate" => ErrorType::Duplicate,
                _ => ErrorType::Invalid,
            },
            field_path: steps(text("fieldPath")),
            optional_old: rule["optionalOldSelf"] == true,
        }
    };
    rules.as_array().into_iter().flatten().map(one).collect()
}

/// `.a['b'].c` as its fields.
fn steps(path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((name, left)) = rest.strip_prefix("['").and_then(|quoted| quoted.split_once("']")) {
            out.push(name.to_owned());
            rest = left;
        } else if let Some(plain) = rest.strip_prefix('.') {
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            out.push(plain[..end].to_owned());
            rest = &plain[end..];
        } else {
            break;
        }
    }
    out
}

/// What rules had to say.
#[derive(Debug, Default)]
pub struct RuleFindings {
    /// What they refuse.
    pub errors: Vec<FieldError>,
    /// What they would refuse, had it not been so before.
    pub warnings: Vec<FieldError>,
}

/// Runs every rule of the schema on `new`, which may take a while.
///
/// # Errors
/// Too many others were computing for the rules to be run to their end.
pub fn run_rules(schema: SchemaRef<'_>, new: &Value, old: Option<&Value>) -> Result<RuleFindings, Crowded> {
    let mut run =
        Run { evaluator: Evaluator::new(Limits::default()), verdict: RuleFindings::default(), over: false };
    run.walk(schema, new, old, &Path::ROOT);
    if run.evaluator.is_crowded() { Err(Crowded) } else { Ok(run.verdict) }
}

/// What a rule judges: a part of an object and what it was, also as expressions see that.
struct Values<'a> {
    schema: SchemaRef<'a>,
    new: &'a Value,
    old: Option<&'a Value>,
    old_cel: Option<&'a Cel>,
}

struct Run {
    evaluator: Evaluator,
    verdict: RuleFindings,
    over: bool,
}

impl Run {
    fn walk(&mut self, schema: SchemaRef<'_>, new: &Value, old: Option<&Value>, path: &Path<'_>) {
        if self.over {
            return;
        }
        let rules = rules_of(schema);
        if !rules.is_empty() && !new.is_null() {
            let old_cel = old.filter(|old| !old.is_null()).map(|old| Cel::from_json_as(old, schema));
            self.evaluator.set("self", Cel::from_json_as(new, schema));
            let values = Values { schema, new, old, old_cel: old_cel.as_ref() };
            for rule in rules {
                self.judge(rule, &values, path);
            }
        }
        match new {
            Value::Object(fields) => {
                for (name, item) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(property) = schema.property(name) {
                        self.walk(property, item, old, &path.child(name));
                    } else if let Some(more) = schema.additional() {
                        self.walk(more, item, old, &path.key(name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(element) = schema.items() else { return };
                let before = Correlated::new(schema, old);
                for (index, item) in items.iter().enumerate() {
                    self.walk(element, item, before.of(item), &path.index(index));
                }
            }
            _ => {}
        }
    }

    fn judge(&mut self, rule: &Rule, values: &Values<'_>, path: &Path<'_>) {
        let Values { schema, new, old, old_cel } = *values;
        let Some(program) = rule.program.as_ref().filter(|_| !self.over) else { return };
        if rule.transition {
            match (rule.optional_old, old_cel) {
                (true, old) => self.evaluator.set("oldSelf", Cel::optional(old.cloned())),
                (false, Some(old)) => self.evaluator.set("oldSelf", old.clone()),
                (false, None) => return,
            }
        }
        let detail = match self.evaluator.bool(program) {
            Ok(true) => return,
            Ok(false) => self.message(rule),
            Err(EvalError::Budget) => {
                self.over = true;
                let detail = EvalError::Budget.to_string();
                self.verdict.errors.push(FieldError::invalid(path, schema.json_type(), detail));
                return;
            }
            // Nobody is told what was found so far.
            Err(EvalError::Crowded) => {
                self.over = true;
                return;
            }
            Err(error) => {
                let what = if rule.message.is_empty() { &rule.source } else { &rule.message }.trim();
                self.over = error == EvalError::Call;
                let detail = if self.over {
                    format!(
                        "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {what}"
                    )
                } else {
                    format!("{error} evaluating rule: {what}")
                };
                // A rule that cannot be answered says nothing of the field it is about.
                self.verdict.errors.push(FieldError::invalid(path, schema.json_type(), detail));
                return;
            }
        };
        let error = error(rule, schema, new, path, detail);
        // What was so before and is no transition is only mentioned.
        let stayed = !rule.transition && old.is_some_and(|old| unchanged(schema, old, new));
        if stayed {
            self.verdict.warnings.push(error);
        } else {
            self.verdict.errors.push(error);
        }
    }

    fn message(&self, rule: &Rule) -> String {
        let said = rule.message_expression.as_ref().and_then(|program| self.evaluator.text(program).ok());
        let said = said.filter(|said| {
            let said = said.trim();
            !said.is_empty() && !said.contains('\n') && said.len() <= 5120
        });
        match said {
            Some(said) => said.trim().to_owned(),
            None if rule.message.is_empty() => format!("failed rule: {}", rule.source.trim()),
            None => rule.message.clone(),
        }
    }
}

fn error(rule: &Rule, schema: SchemaRef<'_>, of: &Value, path: &Path<'_>, detail: String) -> FieldError {
    let mut field = if path.is_root() { String::new() } else { path.to_string() };
    for step in &rule.field_path {
        if !field.is_empty() {
            field.push('.');
        }
        field.push_str(step);
    }
    if field.is_empty() {
        field.push_str("<nil>");
    }
    let value = match rule.reason {
        ErrorType::Forbidden | ErrorType::Required => None,
        // What is no scalar is not shown.
        _ if matches!(schema.json_type(), "object" | "array") => None,
        _ => Some(Shown::Json(of.clone())),
    };
    // A duplicate says no more than its value.
    let detail = if rule.reason == ErrorType::Duplicate { String::new() } else { detail };
    FieldError { kind: rule.reason, field, value, detail }
}

/// Whether a value is what it was, as kube-apiserver tells it: a list by key may be turned round.
fn unchanged(schema: SchemaRef<'_>, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(before), Value::Array(after)) if schema.list_type() == ListType::Map => {
            let Some(element) = schema.items() else { return before == after };
            let correlated = Correlated::new(schema, Some(old));
            let stayed =
                |item: &Value| correlated.of(item).is_some_and(|before| unchanged(element, before, item));
            before.len() == after.len() && after.iter().all(stayed)
        }
        (Value::Object(before), Value::Object(after)) => {
            let stayed = |(name, item): (&String, &Value)| {
                let part = schema.property(name).or_else(|| schema.additional());
                let same = |before: &Value| part.map_or(before == item, |part| unchanged(part, before, item));
                before.get(name).is_some_and(same)
            };
            before.len() == after.len() && after.iter().all(stayed)
        }
        _ => old == new,
    }
}

/// The elements of an old list, by their keys: what each of a new list was. Empty where the list has no keys.
pub(super) struct Correlated<'s, 'v> {
    schema: SchemaRef<'s>,
    elements: HashMap<Vec<Option<&'v Value>>, &'v Value>,
}

impl<'s, 'v> Correlated<'s, 'v> {
    pub(super) fn new(schema: SchemaRef<'s>, old: Option<&'v Value>) -> Self {
        let keyed = schema.list_type() == ListType::Map;
        let old = old.and_then(Value::as_array).filter(|_| keyed);
        let mut elements = HashMap::new();
        // Of several of the same keys the first one counts.
        for one in old.into_iter().flatten() {
            elements.entry(keys(schema, one)).or_insert(one);
        }
        Correlated { schema, elements }
    }

    /// The element that `item` was.
    pub(super) fn of(&self, item: &Value) -> Option<&'v Value> {
        if self.elements.is_empty() {
            return None;
        }
        self.elements.get(&keys(self.schema, item)).copied()
    }
}

fn keys<'v>(schema: SchemaRef<'_>, one: &'v Value) -> Vec<Option<&'v Value>> {
    schema.list_keys().iter().map(|key| one.get(&**key)).collect()
}
