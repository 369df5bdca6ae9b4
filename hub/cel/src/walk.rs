//! Walks an expression: every part is charged for before it is worked on.
//!
//! In: an expression, the values of its names, a meter. Out: its value, or why there is none. Values are shared, not copied, so
//! what a part costs does not depend on how large the values are that it only passes on. Operators are here, loops in
//! `loops`, functions in [`functions`].

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
};
use kube_cel::cel::objects::{KeyRef, Map};
use kube_cel::cel::{ExecutionError, Value};

mod loops;

use crate::check::NAMESPACES;
use crate::meter::Meter;
use crate::operators::{Outcome, TYPES, kept, key, maybe, no_overload};
use crate::weigh::{letters, optional};
use crate::{charge, functions};

/// What an expression is walked with.
pub(crate) struct Walk<'e> {
    pub names: &'e HashMap<String, Value>,
    pub meter: &'e Meter,
}

/// A name that a loop brings, and those around it.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    name: &'s str,
    value: &'s Outcome,
    outer: Option<&'s Scope<'s>>,
}

fn truth(outcome: Outcome) -> Result<bool, ExecutionError> {
    match outcome? {
        Value::Bool(truth) => Ok(truth),
        _ => Err(no_overload()),
    }
}

impl Walk<'_> {
    pub(crate) fn value(&self, expr: &IdedExpr, scope: Option<&Scope<'_>>) -> Outcome {
        self.meter.work(1)?;
        match &expr.expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Ident(name) => self.name(name, scope),
            Expr::Select(select) => self.select(select, scope),
            Expr::Call(call) => self.call(call, scope),
            Expr::List(list) => self.list(list, scope),
            Expr::Map(map) => self.map(map, scope),
            Expr::Comprehension(one) => self.comprehension(one, scope),
            Expr::Struct(_) | Expr::Unspecified => Err(no_overload()),
        }
    }

    fn literal(&self, literal: &LiteralValue) -> Outcome {
        Ok(match literal {
            LiteralValue::Boolean(truth) => Value::Bool(*truth.inner()),
            LiteralValue::Int(number) => Value::Int(*number.inner()),
            LiteralValue::UInt(number) => Value::UInt(*number.inner()),
            LiteralValue::Double(number) => Value::Float(*number.inner()),
            LiteralValue::Null => Value::Null,
            LiteralValue::String(text) => {
                self.meter.work(letters(text.inner().len()))?;
                Value::String(Arc::new(text.inner().to_owned()))
            }
            LiteralValue::Bytes(bytes) => {
                self.meter.work(letters(bytes.inner().len()))?;
                Value::Bytes(Arc::new(bytes.inner().to_vec()))
            }
        })
    }

    fn name(&self, name: &str, scope: Option<&Scope<'_>>) -> Outcome {
        self.meter.step(1)?;
        let mut at = scope;
        while let Some(one) = at {
            if one.name == name {
                return one.value.clone();
            }
            self.meter.work(1)?;
            at = one.outer;
        }
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        if TYPES.contains(&name) {
            return Ok(Value::String(Arc::new(name.to_owned())));
        }
        Err(ExecutionError::UndeclaredReference(Arc::new(name.to_owned())))
    }

    fn select(&self, select: &SelectExpr, scope: Option<&Scope<'_>>) -> Outcome {
        self.meter.step(1)?;
        let whose = matches!(&select.operand.expr, Expr::Ident(name) if name == "authorizer");
        if whose && select.field == "requestResource" {
            // A name of its own, not a field: its value is given under its whole name.
            return self.name("authorizer.requestResource", scope);
        }
        let operand = self.value(&select.operand, scope)?;
        let field = |value: &Value| match value {
            Value::Map(map) => map.get(&KeyRef::String(&select.field)).cloned(),
            _ => None,
        };
        let found = match optional(&operand) {
            Some(held) if select.test => return Ok(Value::Bool(held.and_then(field).is_some())),
            Some(held) => return Ok(maybe(held.and_then(field))),
            None => field(&operand),
        };
        if select.test {
            return Ok(Value::Bool(found.is_some()));
        }
        found.ok_or_else(|| ExecutionError::NoSuchKey(Arc::new(select.field.clone())))
    }

    fn list(&self, list: &ListExpr, scope: Option<&Scope<'_>>) -> Outcome {
        self.meter.step(10)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let value = self.value(element, scope)?;
            match optional(&value).filter(|_| list.optional_indices.contains(&at)) {
                Some(None) => {}
                Some(Some(held)) => items.push(kept(held.clone(), self.meter)?),
                None => items.push(kept(value, self.meter)?),
            }
        }
        Ok(Value::List(Arc::new(items)))
    }

    fn map(&self, map: &MapExpr, scope: Option<&Scope<'_>>) -> Outcome {
        self.meter.step(30)?;
        let mut entries = HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(no_overload()) };
            let key = key(&self.value(&entry.key, scope)?)?;
            let value = self.value(&entry.value, scope)?;
            match optional(&value).filter(|_| entry.optional) {
                Some(None) => {}
                Some(Some(held)) => drop(entries.insert(key, kept(held.clone(), self.meter)?)),
                None => drop(entries.insert(key, kept(value, self.meter)?)),
            }
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    fn call(&self, call: &CallExpr, scope: Option<&Scope<'_>>) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (op::CONDITIONAL, [condition, yes, no]) => {
                let holds = truth(self.value(condition, scope))?;
                self.value(if holds { yes } else { no }, scope)
            }
            (op::LOGICAL_AND, [left, right]) => self.logic(left, right, false, scope),
            (op::LOGICAL_OR, [left, right]) => self.logic(left, right, true, scope),
            (op::NOT_STRICTLY_FALSE, [inner]) => {
                self.meter.step(1)?;
                Ok(Value::Bool(truth(self.value(inner, scope)).unwrap_or(true)))
            }
            (op::INDEX, [of, at]) => {
                self.meter.step(1)?;
                self.index(&self.value(of, scope)?, &self.value(at, scope)?, false)
            }
            (op::OPT_INDEX | op::OPT_SELECT, [of, at]) => {
                self.meter.step(1)?;
                self.index(&self.value(of, scope)?, &self.value(at, scope)?, true)
            }
            _ => self.function(call, scope),
        }
    }

    /// `&&`, or `||` where `decides`: one side that decides counts more than one that fails.
    fn logic(&self, left: &IdedExpr, right: &IdedExpr, decides: bool, scope: Option<&Scope<'_>>) -> Outcome {
        let left = truth(self.value(left, scope));
        if left == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        let right = truth(self.value(right, scope));
        if right == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        left.and(right).map(Value::Bool)
    }

    /// An element or an entry; of an optional, or where `maybe_none`, one that may be missing.
    fn index(&self, of: &Value, at: &Value, maybe_none: bool) -> Outcome {
        if let Some(held) = optional(of) {
            return Ok(maybe(held.and_then(|held| self.entry(held, at).ok())));
        }
        let found = self.entry(of, at);
        match found {
            Err(ExecutionError::NoSuchOverload) => Err(no_overload()),
            found if maybe_none => Ok(maybe(found.ok())),
            found => found,
        }
    }

    fn entry(&self, of: &Value, at: &Value) -> Outcome {
        match (of, at) {
            (Value::List(items), Value::Int(_) | Value::UInt(_)) => {
                let index = match at {
                    Value::Int(index) => usize::try_from(*index).ok(),
                    Value::UInt(index) => usize::try_from(*index).ok(),
                    _ => None,
                };
                let found = index.and_then(|index| items.get(index)).cloned();
                found.ok_or_else(|| ExecutionError::IndexOutOfBounds(at.clone()))
            }
            (Value::Map(map), at) => {
                let wanted = KeyRef::try_from(at).map_err(|_| no_overload())?;
                if let KeyRef::String(name) = wanted {
                    self.meter.work(letters(name.len()))?;
                }
                let missing =
                    || key(at).map_or_else(|e| e, |key| ExecutionError::NoSuchKey(Arc::new(key.to_string())));
                map.get(&wanted).cloned().ok_or_else(missing)
            }
            _ => Err(no_overload()),
        }
    }

    fn function(&self, call: &CallExpr, scope: Option<&Scope<'_>>) -> Outcome {
        let whole = match call.target.as_ref().map(|target| &target.expr) {
            Some(Expr::Ident(space)) if NAMESPACES.contains(&space.as_str()) => {
                Some(format!("{space}.{}", call.func_name)).filter(|name| charge::is_known(name))
            }
            _ => None,
        };
        let mut args = Vec::with_capacity(call.args.len() + 1);
        let receiver = call.target.as_ref().filter(|_| whole.is_none());
        if let Some(receiver) = receiver {
            args.push(self.value(receiver, scope)?);
        }
        for arg in &call.args {
            args.push(self.value(arg, scope)?);
        }
        let name = whole.as_deref().unwrap_or(&call.func_name);
        functions::call(name, receiver.is_some(), args, self.meter)
    }
}
