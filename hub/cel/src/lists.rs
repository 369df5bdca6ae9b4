//! Lists that are sets or have keys: compared without minding the order, and merged where they are added, as kube-apiserver's
//! rules see `x-kubernetes-list-type`.
//!
//! In: what of `self` is such a list, an expression. Out: the expression with `==`, `!=`, `in` and `+` replaced where what stands
//! left of them is, or holds, such a list. What stands left decides, as in kube-apiserver.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::operators::{ADD, CONDITIONAL, EQUALS, IN, INDEX, LOGICAL_NOT, NOT_EQUALS};
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{ExecutionError, Value};
use serde_json::{Value as Json, json};

use crate::meter::Meter;
use crate::operators;
use crate::types::Shape;
use crate::weigh::{many, same};
use crate::{escape, types::Elements};

/// How deep a schema is looked at.
const DEPTH: usize = 32;

/// What of a value is a list of its own kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// Nothing.
    #[default]
    Plain,
    /// It is a list itself.
    List(Elements, Box<Lists>),
    /// Some of its fields, by their (escaped) names.
    Fields(BTreeMap<String, Lists>),
    /// Each of its values.
    Values(Box<Lists>),
}

impl Lists {
    /// What a schema says.
    pub fn of<S: Shape>(shape: S) -> Lists {
        Lists::at(shape, DEPTH)
    }

    fn at<S: Shape>(shape: S, depth: usize) -> Lists {
        if depth == 0 {
            return Lists::Plain;
        }
        if let Some(items) = shape.items() {
            let (elements, items) = (shape.elements(), Lists::at(items, depth - 1));
            let plain = elements == Elements::Ordered && items == Lists::Plain;
            return if plain { Lists::Plain } else { Lists::List(elements, Box::new(items)) };
        }
        if let Some(values) = shape.additional() {
            let values = Lists::at(values, depth - 1);
            return if values == Lists::Plain { values } else { Lists::Values(Box::new(values)) };
        }
        let fields = shape.properties().into_iter().filter_map(|(name, shape)| {
            let lists = Lists::at(shape, depth - 1);
            (lists != Lists::Plain).then_some((escape(&name)?, lists))
        });
        let fields: BTreeMap<String, Lists> = fields.collect();
        if fields.is_empty() { Lists::Plain } else { Lists::Fields(fields) }
    }

    fn field(&self, name: &str) -> Lists {
        match self {
            Lists::Fields(fields) => fields.get(name).cloned().unwrap_or_default(),
            Lists::Values(values) => (**values).clone(),
            _ => Lists::Plain,
        }
    }

    fn element(&self) -> Lists {
        match self {
            Lists::List(_, items) => (**items).clone(),
            Lists::Values(values) => (**values).clone(),
            _ => Lists::Plain,
        }
    }

    /// As text that an expression can hold.
    fn encoded(&self) -> Json {
        match self {
            Lists::Plain => Json::Null,
            Lists::List(Elements::Ordered, items) => json!(["list", items.encoded()]),
            Lists::List(Elements::Set, items) => json!(["set", items.encoded()]),
            Lists::List(Elements::Keyed(keys), items) => json!(["keyed", items.encoded(), keys]),
            Lists::Values(values) => json!(["values", values.encoded()]),
            Lists::Fields(fields) => {
                let fields = fields.iter().map(|(name, lists)| (name.clone(), lists.encoded()));
                Json::Object(fields.collect())
            }
        }
    }

    fn decoded(json: &Json) -> Lists {
        if let Some(fields) = json.as_object() {
            return Lists::Fields(
                fields.iter().map(|(name, one)| (name.clone(), Lists::decoded(one))).collect(),
            );
        }
        let inner = || Box::new(Lists::decoded(&json[1]));
        match json[0].as_str() {
            Some("list") => Lists::List(Elements::Ordered, inner()),
            Some("set") => Lists::List(Elements::Set, inner()),
            Some("keyed") => {
                let keys = json[2].as_array().into_iter().flatten().filter_map(Json::as_str);
                Lists::List(Elements::Keyed(keys.map(str::to_owned).collect()), inner())
            }
            Some("values") => Lists::Values(inner()),
            _ => Lists::Plain,
        }
    }
}

/// Replaces what must mind no order. `names`: what is known of the names in scope. Answers what is known of the value.
pub(crate) fn weave(expr: &mut IdedExpr, names: &mut Vec<(String, Lists)>) -> Lists {
    match &mut expr.expr {
        Expr::Ident(name) => {
            let known = names.iter().rev().find(|(known, _)| known == name);
            known.map(|(_, lists)| lists.clone()).unwrap_or_default()
        }
        Expr::Select(select) => {
            let lists = weave(&mut select.operand, names);
            if select.test { Lists::Plain } else { lists.field(&select.field) }
        }
        Expr::Call(_) => called(expr, names),
        Expr::Comprehension(one) => {
            let element = weave(&mut one.iter_range, names).element();
            let held = weave(&mut one.accu_init, names);
            let depth = names.len();
            names.push((one.iter_var.clone(), element));
            names.extend(one.iter_var2.iter().map(|name| (name.clone(), Lists::Plain)));
            names.push((one.accu_var.clone(), held));
            weave(&mut one.loop_cond, names);
            weave(&mut one.loop_step, names);
            let lists = weave(&mut one.result, names);
            names.truncate(depth);
            lists
        }
        Expr::List(list) => {
            list.elements.iter_mut().for_each(|element| drop(weave(element, names)));
            Lists::Plain
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    weave(&mut entry.key, names);
                    weave(&mut entry.value, names);
                }
            }
            Lists::Plain
        }
        Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Lists::Plain,
    }
}

fn called(expr: &mut IdedExpr, names: &mut Vec<(String, Lists)>) -> Lists {
    let Expr::Call(call) = &mut expr.expr else { return Lists::Plain };
    let target = call.target.as_mut().map(|target| weave(target, names));
    let args: Vec<Lists> = call.args.iter_mut().map(|arg| weave(arg, names)).collect();
    let first = args.first().cloned().unwrap_or_default();
    match (call.func_name.as_str(), args.len()) {
        (INDEX, 2) => return first.element(),
        (CONDITIONAL, 3) if args[1] == args[2] => return args[1].clone(),
        // The past that may be none.
        ("value", 0) => return target.unwrap_or_default(),
        (EQUALS | NOT_EQUALS | IN, 2) if first != Lists::Plain => {
            let negated = call.func_name == NOT_EQUALS;
            let function = if call.func_name == IN { "@within" } else { "@equal" };
            with_lists(call, function, &first);
            if negated {
                let inner = std::mem::take(expr);
                *expr = node(Expr::Call(CallExpr {
                    func_name: LOGICAL_NOT.to_owned(),
                    target: None,
                    args: vec![inner],
                }));
            }
        }
        (ADD, 2) if matches!(first, Lists::List(Elements::Set | Elements::Keyed(_), _)) => {
            with_lists(call, "@merge", &first);
            return first;
        }
        _ => {}
    }
    Lists::Plain
}

fn with_lists(call: &mut CallExpr, function: &str, lists: &Lists) {
    call.func_name = function.to_owned();
    call.args.push(node(Expr::Literal(LiteralValue::String(lists.encoded().to_string().into()))));
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// Reads what [`weave`] wrote.
pub(crate) fn read(text: &str) -> Lists {
    Lists::decoded(&serde_json::from_str(text).unwrap_or_default())
}

/// Whether two values are equal.
pub(crate) fn equal(a: &Value, b: &Value, lists: &Lists, meter: &Meter) -> Result<bool, ExecutionError> {
    match (lists, a, b) {
        (Lists::List(elements, items), Value::List(x), Value::List(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            let pairs = if *elements == Elements::Ordered { x.len() } else { x.len() * y.len() };
            meter.step(many(pairs))?;
            meter.work(many(pairs))?;
            let alike = |one: &Value, other: &Value| equal(one, other, items, meter);
            match elements {
                Elements::Ordered => all(x.iter().zip(y.iter()), |(one, other)| alike(one, other)),
                Elements::Set => all(x.iter(), |one| Ok(!all(y.iter(), |other| Ok(!alike(one, other)?))?)),
                Elements::Keyed(keys) => all(y.iter(), |other| {
                    let own = x.iter().find(|one| same_key(one, other, keys));
                    own.map_or(Ok(false), |one| alike(one, other))
                }),
            }
        }
        (Lists::Fields(_) | Lists::Values(_), Value::Map(x), Value::Map(y)) => {
            meter.work(many(x.map.len()))?;
            let alike = |(key, one): (&Key, &Value)| match y.map.get(key) {
                Some(other) => equal(one, other, &lists.field(&key.to_string()), meter),
                None => Ok(false),
            };
            Ok(x.map.len() == y.map.len() && all(x.map.iter(), alike)?)
        }
        _ => same(a, b, meter),
    }
}

/// Whether `a` is one of those in `b`.
pub(crate) fn within(a: &Value, b: &Value, lists: &Lists, meter: &Meter) -> Result<bool, ExecutionError> {
    match b {
        Value::List(items) => Ok(!all(items.iter(), |one| Ok(!equal(a, one, lists, meter)?))?),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn all<T>(
    mut items: impl Iterator<Item = T>,
    holds: impl Fn(T) -> Result<bool, ExecutionError>,
) -> Result<bool, ExecutionError> {
    items.try_fold(true, |so_far, item| Ok(so_far && holds(item)?))
}

fn same_key(a: &Value, b: &Value, keys: &[String]) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else { return false };
    keys.iter().filter_map(|key| escape(key)).all(|key| {
        let key = Key::String(std::sync::Arc::new(key));
        a.map.get(&key) == b.map.get(&key)
    })
}

/// A set with what it lacks of `b`; a list by key with the elements of `b` in place of its own.
pub(crate) fn merge(a: &Value, b: &Value, lists: &Lists, meter: &Meter) -> Result<Value, ExecutionError> {
    let (Lists::List(elements, items), Value::List(x), Value::List(y)) = (lists, a, b) else {
        return operators::sum(a, b, meter);
    };
    meter.step(many((x.len() + y.len()) * y.len()))?;
    meter.work(many((x.len() + y.len()) * y.len()))?;
    let mut sum = (**x).clone();
    for one in y.iter() {
        let place = match elements {
            Elements::Keyed(keys) => sum.iter().position(|own| same_key(own, one, keys)),
            _ => {
                let mut found = None;
                for (index, own) in sum.iter().enumerate() {
                    if equal(own, one, items, meter)? {
                        found = Some(index);
                        break;
                    }
                }
                found
            }
        };
        match place {
            Some(index) => sum[index] = one.clone(),
            None => sum.push(one.clone()),
        }
    }
    Ok(Value::List(std::sync::Arc::new(sum)))
}
