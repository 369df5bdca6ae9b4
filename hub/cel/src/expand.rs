//! Macros that the parser below does not know, written in terms of those it does: optionals that are mapped, loops with two
//! variables, and lists that are sorted by something.
//!
//! In: a tree. Out: the same with such calls replaced. `bind` is a loop over nothing whose accumulator is the variable.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr,
};

/// What is looped over, and the optional that is mapped: names that no user can write.
const RANGE: &str = "@range";
const OPTIONAL: &str = "@optional";
const RESULT: &str = "@result";
/// The list that is sorted by something.
const SORTED: &str = "@sorted";

/// Expands every such macro, innermost first.
pub(crate) fn expand(expr: &mut IdedExpr) {
    for child in children(expr) {
        expand(child);
    }
    let Expr::Call(call) = &mut expr.expr else { return };
    let names: Vec<String> = call.args.iter().map_while(name).take(2).collect();
    let CallExpr { func_name, target: Some(_), args } = call else { return };
    let expansion: fn(IdedExpr, &[String], Vec<IdedExpr>) -> IdedExpr =
        match (func_name.as_str(), args.len(), names.len()) {
            ("optMap", 2, 1..) => opt_map,
            ("optFlatMap", 2, 1..) => opt_flat_map,
            ("all", 3, 2) => all,
            ("exists", 3, 2) => exists,
            ("existsOne" | "exists_one", 3, 2) => exists_one,
            ("transformList", 3 | 4, 2) => transform_list,
            ("transformMap", 3 | 4, 2) => transform_map,
            ("transformMapEntry", 3 | 4, 2) => transform_map_entry,
            ("sortBy", 2, 1..) => sort_by,
            _ => return,
        };
    let args = std::mem::take(args);
    let Some(target) = call.target.take() else { return };
    *expr = expansion(*target, &names, args);
}

fn children(expr: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expr.expr {
        Expr::Call(call) => {
            call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut().filter_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => Some([&mut entry.key, &mut entry.value]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Comprehension(one) => {
            let one = &mut **one;
            vec![
                &mut one.iter_range,
                &mut one.accu_init,
                &mut one.loop_cond,
                &mut one.loop_step,
                &mut one.result,
            ]
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
    }
}

fn name(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    node(Expr::Ident(name.to_owned()))
}

fn truth(value: bool) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn whole(value: i64) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Int(value.into())))
}

fn list(elements: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::List(ListExpr::new(elements)))
}

fn call(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }))
}

fn method(target: IdedExpr, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: function.to_owned(), target: Some(Box::new(target)), args }))
}

fn bind(name: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
    node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: list(Vec::new()),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: truth(false),
        loop_step: ident(name),
        result: body,
    })))
}

fn opt_map(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    mapped(target, names, args, true)
}

fn opt_flat_map(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    mapped(target, names, args, false)
}

fn mapped(target: IdedExpr, names: &[String], mut args: Vec<IdedExpr>, wrap: bool) -> IdedExpr {
    let (name, body) = (names.first().cloned().unwrap_or_default(), args.pop().unwrap_or_default());
    // As a list of one or none: the interpreter loses the optional when a variable holds it.
    let value = call(op::INDEX, vec![ident(OPTIONAL), whole(0)]);
    let bound = bind(&name, value, body);
    let there = if wrap { method(ident("optional"), "of", vec![bound]) } else { bound };
    let none = method(ident("optional"), "none", Vec::new());
    let has = call(op::GREATER, vec![call("size", vec![ident(OPTIONAL)]), whole(0)]);
    bind(OPTIONAL, call("@opt", vec![target]), call(op::CONDITIONAL, vec![has, there, none]))
}

/// A loop over the keys of `target` (indices of a list), with both variables bound in the step.
struct Loop {
    init: IdedExpr,
    condition: IdedExpr,
    step: fn(Vec<IdedExpr>) -> IdedExpr,
    result: IdedExpr,
}

fn over(target: IdedExpr, names: &[String], args: Vec<IdedExpr>, shape: Loop) -> IdedExpr {
    let (Some(key), Some(value)) = (names.first().cloned(), names.get(1).cloned()) else { return target };
    let element = call(op::INDEX, vec![ident(RANGE), ident(&key)]);
    let step = bind(&value, element, (shape.step)(args.into_iter().skip(2).collect()));
    let looped = node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: call("@keys", vec![ident(RANGE)]),
        iter_var: key,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: shape.init,
        loop_cond: shape.condition,
        loop_step: step,
        result: shape.result,
    })));
    bind(RANGE, target, looped)
}

fn all(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    let shape = Loop {
        init: truth(true),
        condition: call(op::NOT_STRICTLY_FALSE, vec![ident(RESULT)]),
        step: |mut body| call(op::LOGICAL_AND, vec![ident(RESULT), body.pop().unwrap_or_default()]),
        result: ident(RESULT),
    };
    over(target, names, args, shape)
}

fn exists(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    let not_yet = call(op::LOGICAL_NOT, vec![ident(RESULT)]);
    let shape = Loop {
        init: truth(false),
        condition: call(op::NOT_STRICTLY_FALSE, vec![not_yet]),
        step: |mut body| call(op::LOGICAL_OR, vec![ident(RESULT), body.pop().unwrap_or_default()]),
        result: ident(RESULT),
    };
    over(target, names, args, shape)
}

fn exists_one(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    let shape = Loop {
        init: whole(0),
        condition: truth(true),
        step: |mut body| {
            let more = call(op::ADD, vec![ident(RESULT), whole(1)]);
            call(op::CONDITIONAL, vec![body.pop().unwrap_or_default(), more, ident(RESULT)])
        },
        result: call(op::EQUALS, vec![ident(RESULT), whole(1)]),
    };
    over(target, names, args, shape)
}

/// The same keys, other values.
fn transform_map(target: IdedExpr, names: &[String], mut args: Vec<IdedExpr>) -> IdedExpr {
    // The key goes along as the last of what the step is made of.
    args.push(ident(names.first().map_or("", String::as_str)));
    collect(target, names, args, |mut body| {
        let key = body.pop().unwrap_or_default();
        let value = body.pop().unwrap_or_default();
        (call("@insert", vec![ident(RESULT), key, value]), body.pop())
    })
}

/// Keys and values of one map for each step.
fn transform_map_entry(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    collect(target, names, args, |mut body| {
        let entries = body.pop().unwrap_or_default();
        (call("@insert", vec![ident(RESULT), entries]), body.pop())
    })
}

fn collect(
    target: IdedExpr,
    names: &[String],
    args: Vec<IdedExpr>,
    more: fn(Vec<IdedExpr>) -> (IdedExpr, Option<IdedExpr>),
) -> IdedExpr {
    let (more, filter) = more(args.into_iter().skip(2).collect());
    let step = match filter {
        Some(filter) => call(op::CONDITIONAL, vec![filter, more, ident(RESULT)]),
        None => more,
    };
    let shape = Loop {
        init: node(Expr::Map(MapExpr { entries: Vec::new() })),
        condition: truth(true),
        step: |mut body| body.pop().unwrap_or_default(),
        result: ident(RESULT),
    };
    // What comes before the step is what `over` skips.
    over(target, names, vec![IdedExpr::default(), IdedExpr::default(), step], shape)
}

/// A list and the key of each of its elements.
fn sort_by(target: IdedExpr, names: &[String], mut args: Vec<IdedExpr>) -> IdedExpr {
    let keys = node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: ident(SORTED),
        iter_var: names.first().cloned().unwrap_or_default(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: list(Vec::new()),
        loop_cond: truth(true),
        loop_step: call(op::ADD, vec![ident(RESULT), list(vec![args.pop().unwrap_or_default()])]),
        result: ident(RESULT),
    })));
    bind(SORTED, target, method(ident(SORTED), "@sortByAssociatedKeys", vec![keys]))
}

fn transform_list(target: IdedExpr, names: &[String], args: Vec<IdedExpr>) -> IdedExpr {
    let shape = Loop {
        init: list(Vec::new()),
        condition: truth(true),
        step: |mut body| {
            let element = body.pop().unwrap_or_default();
            let more = call(op::ADD, vec![ident(RESULT), list(vec![element])]);
            match body.pop() {
                Some(filter) => call(op::CONDITIONAL, vec![filter, more, ident(RESULT)]),
                None => more,
            }
        },
        result: ident(RESULT),
    };
    over(target, names, args, shape)
}
