//! Loops, as macros make them: over a list or the keys of a map, gathering in a name of their own.
//!
//! In: a loop, the names around it. Out: what it gathered. A loop that only adds to what it has adds in place; all others name
//! what they have anew at each step.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{ExecutionError, Value};

use super::{Scope, Walk, truth};
use crate::operators::{Outcome, insert, kept, key, no_overload};
use crate::weigh::many;

/// What loops gather in.
enum Gathered {
    List(Vec<Value>),
    Map(HashMap<Key, Value>),
}

impl Walk<'_> {
    pub(super) fn comprehension(&self, one: &ComprehensionExpr, scope: Option<&Scope<'_>>) -> Outcome {
        let start = Ok(self.value(&one.accu_init, scope)?);
        if is_bind(one) {
            let inner = Scope { name: &one.accu_var, value: &start, outer: scope };
            return self.value(&one.result, Some(&inner));
        }
        let range = self.value(&one.iter_range, scope)?;
        let items = match range {
            Value::List(items) => items,
            Value::Map(map) => {
                self.meter.work(many(map.map.len()))?;
                Arc::new(map.map.keys().map(Value::from).collect())
            }
            _ => return Err(no_overload()),
        };
        let gathers = matches!(&one.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(on)) if *on.inner())
            && gathers(&one.loop_step, &one.accu_var);
        let outcome = match start {
            Ok(Value::List(list)) if gathers && list.is_empty() => {
                self.gathered(one, &items, Gathered::List(Vec::new()), scope)
            }
            Ok(Value::Map(map)) if gathers && map.map.is_empty() => {
                self.gathered(one, &items, Gathered::Map(HashMap::new()), scope)
            }
            start => self.looped(one, &items, start, scope)?,
        };
        let inner = Scope { name: &one.accu_var, value: &outcome, outer: scope };
        self.value(&one.result, Some(&inner))
    }

    fn looped(
        &self,
        one: &ComprehensionExpr,
        items: &[Value],
        mut outcome: Outcome,
        scope: Option<&Scope<'_>>,
    ) -> Result<Outcome, ExecutionError> {
        for item in items {
            let so_far = Scope { name: &one.accu_var, value: &outcome, outer: scope };
            if !truth(self.value(&one.loop_cond, Some(&so_far)))? {
                break;
            }
            let item = Ok(item.clone());
            let each = Scope { name: &one.iter_var, value: &item, outer: Some(&so_far) };
            outcome = self.value(&one.loop_step, Some(&each));
            if self.meter.is_over() {
                break;
            }
        }
        Ok(outcome)
    }

    /// A loop that only adds to what it made so far: that is added to in place.
    fn gathered(
        &self,
        one: &ComprehensionExpr,
        items: &[Value],
        mut so_far: Gathered,
        scope: Option<&Scope<'_>>,
    ) -> Outcome {
        for item in items {
            let item = Ok(item.clone());
            let each = Scope { name: &one.iter_var, value: &item, outer: scope };
            self.gather(&one.loop_step, Some(&each), &mut so_far)?;
        }
        Ok(match so_far {
            Gathered::List(items) => Value::List(Arc::new(items)),
            Gathered::Map(entries) => Value::Map(Map { map: Arc::new(entries) }),
        })
    }

    /// What one step adds. Its shape is one that [`gathers`] knows.
    fn gather(
        &self,
        step: &IdedExpr,
        scope: Option<&Scope<'_>>,
        so_far: &mut Gathered,
    ) -> Result<(), ExecutionError> {
        self.meter.step(1)?;
        self.meter.work(1)?;
        match &step.expr {
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice(), so_far) {
                (op::CONDITIONAL, [condition, yes, no], so_far) => {
                    let holds = truth(self.value(condition, scope))?;
                    self.gather(if holds { yes } else { no }, scope, so_far)
                }
                (op::ADD, [_, more], Gathered::List(items)) => match self.value(more, scope)? {
                    Value::List(more) => {
                        self.meter.work(many(more.len()))?;
                        items.extend(more.iter().cloned());
                        Ok(())
                    }
                    _ => Err(no_overload()),
                },
                ("@insert", [_, name, value], Gathered::Map(entries)) => {
                    let name = key(&self.value(name, scope)?)?;
                    insert(entries, name, kept(self.value(value, scope)?, self.meter)?)
                }
                ("@insert", [_, more], Gathered::Map(entries)) => match self.value(more, scope)? {
                    Value::Map(more) => {
                        self.meter.work(many(more.map.len()))?;
                        let mut more = more.map.iter();
                        more.try_for_each(|(key, value)| insert(entries, key.clone(), value.clone()))
                    }
                    _ => Err(no_overload()),
                },
                _ => Err(no_overload()),
            },
            Expr::Comprehension(one) => {
                let value = Ok(self.value(&one.accu_init, scope)?);
                let inner = Scope { name: &one.accu_var, value: &value, outer: scope };
                self.gather(&one.result, Some(&inner), so_far)
            }
            _ => Ok(()),
        }
    }
}

/// A loop over nothing, which only names a value.
fn is_bind(one: &ComprehensionExpr) -> bool {
    matches!(&one.iter_range.expr, Expr::List(list) if list.elements.is_empty())
        && matches!(&one.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(on)) if !*on.inner())
}

/// Whether a loop's step adds to what was made so far, or leaves it, and looks at it nowhere else.
fn gathers(step: &IdedExpr, into: &str) -> bool {
    let is_own = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if name == into);
    match &step.expr {
        Expr::Ident(_) => is_own(step),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (op::CONDITIONAL, [_, yes, no]) => gathers(yes, into) && gathers(no, into),
            (op::ADD, [own, more]) => is_own(own) && matches!(more.expr, Expr::List(_)),
            ("@insert", [own, ..]) => is_own(own),
            _ => false,
        },
        Expr::Comprehension(one) => is_bind(one) && one.accu_var != into && gathers(&one.result, into),
        _ => false,
    }
}
