//! Functions that make a list of the elements of another: in order, turned round, cut, flat, each once; and a list of numbers.
//!
//! In: a list, and how. Out: the new list. What is compared is charged while it is.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::{ExecutionError, Value};

use crate::meter::Meter;
use crate::operators::{Outcome, compare, failed, type_name};
use crate::weigh::{many, same};

/// How deep lists stand in lists at most: what flattens them recurses as deep.
const DEEPEST: i64 = 300;

pub(super) fn call(name: &str, args: &[Value], meter: &Meter) -> Option<Outcome> {
    Some(match (name, args) {
        ("lists.range", [Value::Int(count)]) => made((0..*count).map(Value::Int).collect(), meter),
        ("reverse", [Value::List(items)]) => made(items.iter().rev().cloned().collect(), meter),
        ("slice", [Value::List(items), Value::Int(start), Value::Int(end)]) => {
            cut(items, *start, *end).and_then(|part| made(part.to_vec(), meter))
        }
        ("flatten", [Value::List(items)]) => flat(items, 1, meter),
        ("flatten", [Value::List(items), Value::Int(depth)]) => flat(items, *depth, meter),
        ("distinct", [Value::List(items)]) => once(items, meter),
        ("sort", [Value::List(items)]) => sorted(items, items, meter),
        ("@sortByAssociatedKeys", [Value::List(items), Value::List(keys)]) => sorted(items, keys, meter),
        ("lists.range" | "reverse" | "slice" | "flatten" | "distinct" | "sort", _) => {
            Err(failed(name, "no such overload"))
        }
        _ => return None,
    })
}

fn made(items: Vec<Value>, meter: &Meter) -> Outcome {
    meter.work(many(items.len()))?;
    Ok(Value::List(Arc::new(items)))
}

fn cut(items: &[Value], start: i64, end: i64) -> Result<&[Value], ExecutionError> {
    let why = match (usize::try_from(start), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from <= to => match items.get(from..to) {
            Some(part) => return Ok(part),
            None => format!("list is length {}", items.len()),
        },
        (Ok(_), Ok(_)) => "start index must be less than or equal to end index".to_owned(),
        _ => "negative indexes not supported".to_owned(),
    };
    Err(failed("slice", &format!("cannot slice({start}, {end}), {why}")))
}

fn flat(items: &[Value], depth: i64, meter: &Meter) -> Outcome {
    if depth < 0 {
        return Err(failed("flatten", "level must be non-negative"));
    }
    let mut all = Vec::new();
    pour(items, depth.min(DEEPEST), &mut all, meter)?;
    Ok(Value::List(Arc::new(all)))
}

fn pour(items: &[Value], depth: i64, all: &mut Vec<Value>, meter: &Meter) -> Result<(), ExecutionError> {
    for item in items {
        meter.work(1)?;
        match item {
            Value::List(inner) if depth > 0 => pour(inner, depth - 1, all, meter)?,
            other => all.push(other.clone()),
        }
    }
    Ok(())
}

fn once(items: &[Value], meter: &Meter) -> Outcome {
    let mut all: Vec<Value> = Vec::new();
    'items: for item in items {
        for other in &all {
            if same(item, other, meter)? {
                continue 'items;
            }
        }
        all.push(item.clone());
    }
    Ok(Value::List(Arc::new(all)))
}

/// `items` in the order of their keys, of which each belongs to one. Those of one key stay in their order.
fn sorted(items: &[Value], keys: &[Value], meter: &Meter) -> Outcome {
    let refuse = |why: &str| Err(failed("sort", why));
    let Some(first) = keys.first() else { return Ok(Value::List(Arc::new(Vec::new()))) };
    let has_order = !matches!(first, Value::List(_) | Value::Map(_) | Value::Null | Value::Opaque(_));
    if !has_order || items.len() != keys.len() {
        return refuse("list elements must be comparable");
    }
    if keys.iter().any(|key| type_name(key) != type_name(first)) {
        return refuse("list elements must have the same type");
    }
    let order =
        merged((0..keys.len()).collect(), &mut |a: usize, b: usize| match (keys.get(a), keys.get(b)) {
            // What is no number has no place among numbers.
            (Some(Value::Float(a)), Some(Value::Float(b))) => Ok(a.partial_cmp(b).unwrap_or(Ordering::Equal)),
            (Some(a), Some(b)) => compare(a, b, meter),
            _ => Ok(Ordering::Equal),
        })?;
    made(order.into_iter().filter_map(|at| items.get(at).cloned()).collect(), meter)
}

/// Sorts by merging. A comparison may end it, and one that contradicts others does no harm.
fn merged(
    mut left: Vec<usize>,
    compare: &mut impl FnMut(usize, usize) -> Result<Ordering, ExecutionError>,
) -> Result<Vec<usize>, ExecutionError> {
    if left.len() < 2 {
        return Ok(left);
    }
    let right = left.split_off(left.len() / 2);
    let (left, right) = (merged(left, compare)?, merged(right, compare)?);
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let next = if compare(*one, *other)?.is_gt() { right.next() } else { left.next() };
        all.extend(next);
    }
    all.extend(left);
    all.extend(right);
    Ok(all)
}
