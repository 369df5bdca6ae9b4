//! The functions that expressions may call.
//!
//! In: a name, what it is called with (the receiver first), a meter. Out: its value. A call is charged by [`charge`] before it
//! runs. Functions whose work can be more than a walk over what they are given, or whose result larger than that, are here and in
//! the modules below; the others are the library's ([`library`]), charged for the walk.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::objects::Map;
use kube_cel::cel::{ExecutionError, Value};

pub(crate) mod library;
mod rearranged;
mod sequences;
mod texts;

use crate::meter::Meter;
use crate::operators::{
    Outcome, compare, failed, insert, kept, key, maybe, negative, no_overload, sum, type_name, within,
};
use crate::weigh::{many, optional, same, weight};
use crate::{charge, lists};

/// The longest text or list that one function may make, in bytes or elements.
const LARGEST: usize = 8 << 20;

/// Calls a function.
pub(crate) fn call(name: &str, is_member: bool, args: Vec<Value>, meter: &Meter) -> Outcome {
    charge::charge(name, &args, meter)?;
    if let Some(outcome) = passing(name, &args) {
        // What is passed on was weighed when it was made.
        return outcome;
    }
    let outcome = own(name, &args, meter).unwrap_or_else(|| library::call(name, is_member, args, meter));
    match outcome? {
        // Texts that are gone at once need not be counted.
        Value::String(text) if text.len() < 1 << 10 => Ok(Value::String(text)),
        made @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Opaque(_)) => {
            kept(made, meter)
        }
        made => Ok(made),
    }
}

/// Functions that answer with a part of what they are given, or about its outside.
fn passing(name: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (name, args) {
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Value::String(Arc::new(type_name(value).to_owned()))),
        ("optional.none", []) => Ok(maybe(None)),
        ("hasValue", [of]) => held("hasValue", of).map(|held| Value::Bool(held.is_some())),
        ("value", [of]) => held("value", of)
            .and_then(|held| held.cloned().ok_or_else(|| failed("value", "optional.none() dereference"))),
        ("or", [of, other]) => held("or", of).and_then(|found| match found {
            Some(_) => Ok(of.clone()),
            None => held("or", other).map(|_| other.clone()),
        }),
        ("orValue", [of, other]) => {
            held("orValue", of).map(|held| held.cloned().unwrap_or_else(|| other.clone()))
        }
        ("first", [Value::List(items)]) => Ok(maybe(items.first().cloned())),
        ("last", [Value::List(items)]) => Ok(maybe(items.last().cloned())),
        ("@opt", [of]) => {
            held("optMap", of).map(|held| Value::List(Arc::new(held.cloned().into_iter().collect())))
        }
        _ => return None,
    })
}

fn held<'v>(function: &str, of: &'v Value) -> Result<Option<&'v Value>, ExecutionError> {
    optional(of).ok_or_else(|| failed(function, "no such overload"))
}

/// The functions that are charged while they run; `None` for those of the library.
fn own(name: &str, args: &[Value], meter: &Meter) -> Option<Outcome> {
    let truth = |outcome: Result<bool, ExecutionError>| outcome.map(Value::Bool);
    Some(match (name, args) {
        ("_==_", [a, b]) => truth(same(a, b, meter)),
        ("_!=_", [a, b]) => truth(same(a, b, meter).map(|same| !same)),
        ("_<_", [a, b]) => truth(compare(a, b, meter).map(Ordering::is_lt)),
        ("_<=_", [a, b]) => truth(compare(a, b, meter).map(Ordering::is_le)),
        ("_>_", [a, b]) => truth(compare(a, b, meter).map(Ordering::is_gt)),
        ("_>=_", [a, b]) => truth(compare(a, b, meter).map(Ordering::is_ge)),
        ("_+_", [a, b]) => sum(a, b, meter),
        ("_-_", [a, b]) => a.clone() - b.clone(),
        ("_*_", [a, b]) => a.clone() * b.clone(),
        ("_/_", [a, b]) => a.clone() / b.clone(),
        ("_%_", [a, b]) => a.clone() % b.clone(),
        ("-_", [value]) => negative(value),
        ("!_", [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        ("!_", _) => Err(no_overload()),
        ("@in", [one, of]) => truth(within(one, of, meter)),
        ("size", [value]) => size(value, meter),
        ("bool", [value]) => to_bool(value),
        ("optional.of", [value]) => Ok(maybe(Some(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(maybe(Some(value).filter(|value| !value.is_zero()).cloned()))
        }
        ("@keys", [range]) => keys(range, meter),
        ("@insert" | "cel.@mapInsert", [map, more @ ..]) => inserted(map, more, meter),
        ("@equal", [a, b, Value::String(how)]) => {
            truth(described(how, meter).and_then(|how| lists::equal(a, b, &how, meter)))
        }
        ("@within", [a, b, Value::String(how)]) => {
            truth(described(how, meter).and_then(|how| lists::within(a, b, &how, meter)))
        }
        ("@merge", [a, b, Value::String(how)]) => {
            described(how, meter).and_then(|how| lists::merge(a, b, &how, meter))
        }
        _ => {
            return texts::call(name, args, meter)
                .or_else(|| sequences::call(name, args, meter))
                .or_else(|| rearranged::call(name, args, meter));
        }
    })
}

fn described(how: &str, meter: &Meter) -> Result<lists::Lists, ExecutionError> {
    meter.work(many(how.len()))?;
    Ok(lists::read(how))
}

fn to_bool(value: &Value) -> Outcome {
    match value {
        Value::Bool(truth) => Ok(Value::Bool(*truth)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed("bool", "type conversion error")),
        },
        _ => Err(failed("bool", "no such overload")),
    }
}

/// Texts count in characters.
fn size(value: &Value, meter: &Meter) -> Outcome {
    match value {
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
            let size = crate::weigh::size(value, meter)?;
            Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
        }
        _ => Err(failed("size", "no such overload")),
    }
}

/// The indices of a list, the keys of a map in order.
fn keys(range: &Value, meter: &Meter) -> Outcome {
    let keys = match range {
        Value::List(items) => {
            meter.work(many(items.len()))?;
            (0..items.len() as i64).map(Value::Int).collect()
        }
        Value::Map(map) => {
            let count = map.map.len();
            meter.work(many(count).saturating_mul(u64::from(count.max(1).ilog2()) + 1))?;
            let mut keys: Vec<_> = map.map.keys().cloned().collect();
            keys.sort();
            keys.into_iter().map(Value::from).collect::<Vec<Value>>()
        }
        _ => return Err(failed("all", "no such overload")),
    };
    Ok(Value::List(Arc::new(keys)))
}

/// A map with more entries.
fn inserted(map: &Value, more: &[Value], meter: &Meter) -> Outcome {
    let Value::Map(map) = map else { return Err(failed("transformMap", "no such overload")) };
    meter.work(many(map.map.len()))?;
    let mut whole = (*map.map).clone();
    match more {
        [Value::Map(more)] => {
            meter.work(many(more.map.len()))?;
            for (key, value) in more.map.iter() {
                insert(&mut whole, key.clone(), value.clone())?;
            }
        }
        [name, value] => insert(&mut whole, key(name)?, value.clone())?,
        _ => return Err(failed("transformMap", "no such overload")),
    }
    Ok(Value::Map(Map { map: Arc::new(whole) }))
}

/// What the library is given is copied for it: that is charged as a walk.
fn walked(args: &[Value], meter: &Meter) -> Result<(), ExecutionError> {
    let bytes: u64 = args.iter().try_fold(0, |sum: u64, arg| Ok(sum.saturating_add(weight(arg, meter)?)))?;
    meter.work(bytes / 16)
}
