//! The functions that expressions may call: CEL's, the Kubernetes libraries, and bounded versions of those that could run away.

use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use crate::authorizer;
use crate::evaluate::Meter;
use crate::lists;

/// The longest text or list that one function may make, in bytes or elements.
const LARGEST: usize = 8 << 20;

/// A context with every function, counting on `meter`.
pub(crate) fn context(meter: &Arc<Meter>) -> Context<'static> {
    let mut context = Context::default().with_all();
    authorizer::register(&mut context);
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    context.add_function("type", |value: Value| -> ResolveResult { text(type_name(&value)) });
    context.add_function("bool", |value: Value| to_bool(&value));
    context.add_function("size", size);
    context.add_function("replace", replace);
    context.add_function("join", join);
    context.add_function("lists.range", range);
    context.add_function("@opt", |optional: Value| one_or_none(&optional));
    context.add_function("@keys", |range: Value| keys(&range));
    let inserting = meter.clone();
    context.add_function("@insert", move |Arguments(args): Arguments| -> ResolveResult {
        let whole = insert(args.as_slice())?;
        inserting.hold(weight(&whole))?;
        Ok(whole)
    });
    let ticking = meter.clone();
    context.add_function("@tick", move |steps: i64| -> ResolveResult {
        ticking.tick(steps.unsigned_abs()).map(Value::Bool)
    });
    let holding = meter.clone();
    context.add_function("@held", move |value: Value| -> ResolveResult {
        holding.hold(weight(&value))?;
        Ok(value)
    });
    let (comparing, looking, merging) = (meter.clone(), meter.clone(), meter.clone());
    context.add_function("@equal", move |a: Value, b: Value, how: Arc<String>| -> ResolveResult {
        lists::equal(&a, &b, &lists::read(&how), &comparing).map(Value::Bool)
    });
    context.add_function("@within", move |a: Value, b: Value, how: Arc<String>| -> ResolveResult {
        lists::within(&a, &b, &lists::read(&how), &looking).map(Value::Bool)
    });
    context.add_function("@merge", move |a: Value, b: Value, how: Arc<String>| -> ResolveResult {
        let sum = lists::merge(&a, &b, &lists::read(&how), &merging)?;
        merging.hold(weight(&sum))?;
        Ok(sum)
    });
    let adding = meter.clone();
    context.add_function("@add", move |left: Value, right: Value| -> ResolveResult {
        let grows = matches!(left, Value::String(_) | Value::List(_) | Value::Bytes(_));
        let sum = (left + right)?;
        if grows {
            adding.hold(weight(&sum))?;
        }
        Ok(sum)
    });
    context
}

fn text(text: &str) -> ResolveResult {
    Ok(Value::String(Arc::new(text.to_owned())))
}

/// Bytes that a value takes, roughly.
fn weight(value: &Value) -> u64 {
    24 + match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Map(map) => map.map.values().map(|value| 48 + weight(value)).sum(),
        _ => 0,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        _ => "dyn",
    }
}

fn to_bool(value: &Value) -> ResolveResult {
    match value {
        Value::Bool(truth) => Ok(Value::Bool(*truth)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(ExecutionError::function_error("bool", "type conversion error")),
        },
        _ => Err(ExecutionError::function_error("bool", "no such overload")),
    }
}

/// Texts count in characters.
fn size(This(this): This<Value>) -> ResolveResult {
    let size = match &this {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::function_error("size", "no such overload")),
    };
    Ok(Value::Int(size as i64))
}

fn too_large(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "the result is too large")
}

fn replace(This(this): This<Arc<String>>, Arguments(args): Arguments) -> ResolveResult {
    let (from, to, limit) = match args.as_slice() {
        [Value::String(from), Value::String(to)] => (from, to, usize::MAX),
        [Value::String(from), Value::String(to), Value::Int(limit)] => {
            (from, to, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        _ => return Err(ExecutionError::function_error("replace", "no such overload")),
    };
    let times = this.matches(from.as_str()).count().min(limit);
    if this.len().saturating_add(times.saturating_mul(to.len())) > LARGEST {
        return Err(too_large("replace"));
    }
    text(&this.replacen(from.as_str(), to, times))
}

fn join(This(this): This<Arc<Vec<Value>>>, Arguments(args): Arguments) -> ResolveResult {
    let separator = match args.as_slice() {
        [] => "",
        [Value::String(separator)] => separator.as_str(),
        _ => return Err(ExecutionError::function_error("join", "no such overload")),
    };
    let mut out = String::new();
    for (index, item) in this.iter().enumerate() {
        let Value::String(part) = item else {
            return Err(ExecutionError::function_error("join", "no such overload"));
        };
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(part);
        if out.len() > LARGEST {
            return Err(too_large("join"));
        }
    }
    text(&out)
}

/// An optional as a list.
fn one_or_none(optional: &Value) -> ResolveResult {
    let held = match optional {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>(),
        _ => None,
    };
    let held = held.ok_or_else(|| ExecutionError::function_error("optMap", "no such overload"))?;
    Ok(Value::List(Arc::new(held.value().cloned().into_iter().collect())))
}

/// The indices of a list, the keys of a map in order.
fn keys(range: &Value) -> ResolveResult {
    let keys = match range {
        Value::List(items) => (0..items.len() as i64).map(Value::Int).collect(),
        Value::Map(map) => {
            let mut keys: Vec<_> = map.map.keys().cloned().collect();
            keys.sort();
            keys.into_iter().map(Value::from).collect::<Vec<Value>>()
        }
        _ => return Err(ExecutionError::function_error("all", "no such overload")),
    };
    Ok(Value::List(Arc::new(keys)))
}

/// A map with one more entry, or those of another map; no key twice.
fn insert(args: &[Value]) -> ResolveResult {
    let refused = |why: &str| ExecutionError::function_error("transformMap", why);
    let (Some(Value::Map(map)), Some(rest)) = (args.first(), args.get(1..)) else {
        return Err(refused("no such overload"));
    };
    let entries: Vec<(Key, Value)> = match rest {
        [Value::Map(more)] => more.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        [key, value] => {
            let key = match key {
                Value::String(text) => Key::String(text.clone()),
                Value::Int(number) => Key::Int(*number),
                Value::UInt(number) => Key::Uint(*number),
                Value::Bool(truth) => Key::Bool(*truth),
                _ => return Err(refused("unsupported key type")),
            };
            vec![(key, value.clone())]
        }
        _ => return Err(refused("no such overload")),
    };
    let mut whole = (*map.map).clone();
    for (key, value) in entries {
        if whole.insert(key, value).is_some() {
            return Err(refused("insert failed: key already exists"));
        }
    }
    Ok(Value::Map(Map { map: Arc::new(whole) }))
}

fn range(count: i64) -> ResolveResult {
    match usize::try_from(count) {
        Ok(n) if n <= LARGEST / 64 => Ok(Value::List(Arc::new((0..count).map(Value::Int).collect()))),
        _ => Err(too_large("lists.range")),
    }
}
