//! Functions over lists that compare their elements.
//!
//! In: a function's name, its arguments, the meter that every comparison is charged to. Out: its result; `None` for a function of another
//! module.

use std::cmp::Ordering;

use kube_cel::cel::{ExecutionError, Value};

use crate::meter::Meter;
use crate::operators::{Outcome, compare, failed, sum};
use crate::weigh::same;

pub(super) fn call(name: &str, args: &[Value], meter: &Meter) -> Option<Outcome> {
    Some(match (name, args) {
        ("sets.contains", [Value::List(all), Value::List(some)]) => {
            contains(all, some, meter).map(Value::Bool)
        }
        ("sets.equivalent", [Value::List(one), Value::List(other)]) => contains(one, other, meter)
            .and_then(|contained| Ok(contained && contains(other, one, meter)?))
            .map(Value::Bool),
        ("sets.intersects", [Value::List(one), Value::List(other)]) => {
            intersects(one, other, meter).map(Value::Bool)
        }
        ("indexOf", [Value::List(items), one]) => {
            position(items.iter(), one, meter).map(|at| index_or_none(at, items.len(), false))
        }
        ("lastIndexOf", [Value::List(items), one]) => {
            position(items.iter().rev(), one, meter).map(|at| index_or_none(at, items.len(), true))
        }
        ("isSorted", [Value::List(items)]) => is_sorted(items, meter).map(Value::Bool),
        ("sum", [Value::List(items)]) => total(items, meter),
        ("min", [Value::List(items)]) => extreme("min", items, Ordering::Less, meter),
        ("max", [Value::List(items)]) => extreme("max", items, Ordering::Greater, meter),
        ("sets.contains" | "sets.equivalent" | "sets.intersects" | "isSorted" | "sum" | "min" | "max", _)
        | ("indexOf" | "lastIndexOf", _) => Err(failed(name, "no such overload")),
        _ => return None,
    })
}

fn position<'v>(
    mut items: impl Iterator<Item = &'v Value>,
    one: &Value,
    meter: &Meter,
) -> Result<Option<usize>, ExecutionError> {
    let mut at = 0;
    items
        .try_fold((), |(), item| match same(item, one, meter) {
            Ok(true) => Err(Ok(at)),
            Ok(false) => {
                at += 1;
                Ok(())
            }
            Err(error) => Err(Err(error)),
        })
        .map_or_else(|found| found.map(Some), |()| Ok(None))
}

fn index_or_none(at: Option<usize>, length: usize, from_the_end: bool) -> Value {
    let at = at.map(|at| if from_the_end { length - 1 - at } else { at });
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn contains(all: &[Value], some: &[Value], meter: &Meter) -> Result<bool, ExecutionError> {
    for one in some {
        if position(all.iter(), one, meter)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects(one: &[Value], other: &[Value], meter: &Meter) -> Result<bool, ExecutionError> {
    for item in one {
        if position(other.iter(), item, meter)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_sorted(items: &[Value], meter: &Meter) -> Result<bool, ExecutionError> {
    for pair in items.windows(2) {
        if let [one, next] = pair
            && compare(one, next, meter)?.is_gt()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The sum of numbers or durations; of none it is 0.
fn total(items: &[Value], meter: &Meter) -> Outcome {
    let Some((first, rest)) = items.split_first() else { return Ok(Value::Int(0)) };
    if matches!(first, Value::String(_) | Value::Bytes(_) | Value::List(_)) {
        return Err(failed("sum", "no such overload"));
    }
    rest.iter().try_fold(first.clone(), |so_far, item| {
        meter.work(1)?;
        sum(&so_far, item, meter)
    })
}

fn extreme(name: &str, items: &[Value], wanted: Ordering, meter: &Meter) -> Outcome {
    let Some((first, rest)) = items.split_first() else {
        return Err(failed(name, &format!("{name} called on empty list")));
    };
    let found = rest.iter().try_fold(first, |best, item| {
        Ok::<_, ExecutionError>(if compare(item, best, meter)? == wanted { item } else { best })
    });
    found.cloned()
}
