//! Functions over texts that search, or make something larger than what they are given.
//!
//! In: a function's name, its arguments, the meter. Out: its result; `None` for a function of another module, or one that the library may
//! carry out now. What would become too large is refused before it is made.

use std::sync::Arc;

use kube_cel::cel::{ExecutionError, Value};

use super::LARGEST;
use crate::meter::Meter;
use crate::operators::{Outcome, failed};
use crate::patterns;
use crate::weigh::{letters, many, weight};

/// What a text among many takes beside its letters.
const EACH: usize = 64;

/// The most digits behind the point that `format` may be asked for.
const DIGITS: usize = 1000;

pub(super) fn call(name: &str, args: &[Value], meter: &Meter) -> Option<Outcome> {
    let all: usize = args.iter().map(|arg| if let Value::String(text) = arg { text.len() } else { 0 }).sum();
    let walked = || meter.work(letters(all) + 1);
    Some(match (name, args) {
        ("contains", [Value::String(text), Value::String(part)]) => {
            walked().map(|()| Value::Bool(text.contains(part.as_str())))
        }
        ("startsWith", [Value::String(text), Value::String(part)]) => {
            walked().map(|()| Value::Bool(text.starts_with(part.as_str())))
        }
        ("endsWith", [Value::String(text), Value::String(part)]) => {
            walked().map(|()| Value::Bool(text.ends_with(part.as_str())))
        }
        ("contains" | "startsWith" | "endsWith", _) => Err(failed(name, "no such overload")),
        ("matches", [Value::String(text), Value::String(pattern)]) => {
            let regex = patterns::over("matches", pattern, text, meter);
            regex.map(|regex| Value::Bool(regex.is_match(text)))
        }
        ("find", [Value::String(text), Value::String(pattern)]) => {
            let regex = patterns::over("find", pattern, text, meter);
            regex.map(|regex| plain(regex.find(text).map_or("", |found| found.as_str())))
        }
        ("findAll", [Value::String(text), Value::String(pattern), limit @ ..]) => {
            find_all(text, pattern, limit, meter)
        }
        ("matches" | "find" | "findAll", _) => Err(failed(name, "no such overload")),
        ("indexOf", [Value::String(text), Value::String(part), from @ ..]) => {
            walked().and_then(|()| index_of(text, part, from))
        }
        ("lastIndexOf", [Value::String(text), Value::String(part), from @ ..]) => {
            walked().and_then(|()| last_index_of(text, part, from))
        }
        ("split", [Value::String(text), Value::String(by), limit @ ..]) => {
            walked().and_then(|()| split(text, by, limit, meter))
        }
        ("replace", [Value::String(text), rest @ ..]) => walked().and_then(|()| replace(text, rest, meter)),
        ("join", [Value::List(items), by @ ..]) => join(items, by, meter),
        ("split" | "replace" | "join", _) => Err(failed(name, "no such overload")),
        // The library's own, once its result is sure to be small enough.
        ("format", [Value::String(text), items]) => match formats(text, items, meter) {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        ("strings.quote", [Value::String(text)]) => match meter.hold(2 * many(text.len())) {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        _ => return None,
    })
}

fn plain(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn too_large(function: &str) -> ExecutionError {
    failed(function, "the result is too large")
}

/// An integer that may follow; `None` where nothing does.
fn whole(function: &str, rest: &[Value]) -> Result<Option<i64>, ExecutionError> {
    match rest {
        [] => Ok(None),
        [Value::Int(number)] => Ok(Some(*number)),
        _ => Err(failed(function, "no such overload")),
    }
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// The byte at which a character stands; the end for the one after the last, `None` beyond.
fn place(text: &str, character: i64) -> Option<usize> {
    let character = usize::try_from(character).ok()?;
    let ends = std::iter::once(text.len());
    text.char_indices().map(|(at, _)| at).chain(ends).nth(character)
}

/// Where a search begins that names a character; none is there before the first one.
fn offset(function: &str, from: i64) -> Result<i64, ExecutionError> {
    if from < 0 { Err(failed(function, &format!("index out of range: {from}"))) } else { Ok(from) }
}

fn index_of(text: &str, part: &str, from: &[Value]) -> Outcome {
    let from = whole("indexOf", from)?.unwrap_or(0);
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Some(start) = place(text, offset("indexOf", from)?) else { return Ok(Value::Int(-1)) };
    let found = text[start..].find(part).map_or(-1, |at| characters(&text[..start + at]));
    Ok(Value::Int(found))
}

/// The last place where a text stands, no further than a character; nowhere, where the text has no such character.
fn last_index_of(text: &str, part: &str, from: &[Value]) -> Outcome {
    let all = characters(text);
    let from = whole("lastIndexOf", from)?;
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(all)));
    }
    let most = from.map_or(Ok(all - 1), |from| offset("lastIndexOf", from))?;
    if most >= all {
        return Ok(Value::Int(-1));
    }
    let end = place(text, most.saturating_add(characters(part))).unwrap_or(text.len());
    Ok(Value::Int(text[..end].rfind(part).map_or(-1, |at| characters(&text[..at]))))
}

/// A list of texts, counted before it is made.
fn texts<'t>(parts: impl Iterator<Item = &'t str> + Clone, meter: &Meter) -> Outcome {
    let mut bytes = 0;
    for part in parts.clone() {
        bytes += EACH + part.len();
        if bytes > 8 * LARGEST {
            return Err(meter.refuse());
        }
    }
    meter.work(many(bytes) / 16)?;
    meter.hold(many(bytes))?;
    Ok(Value::List(Arc::new(parts.map(plain).collect())))
}

fn split(text: &str, by: &str, limit: &[Value], meter: &Meter) -> Outcome {
    let limit = whole("split", limit)?.filter(|limit| *limit >= 0);
    let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::List(Arc::default()));
    }
    if !by.is_empty() {
        return texts(text.splitn(most, by), meter);
    }
    // By nothing: each character, and the rest where there is a limit.
    let rest = place(text, i64::try_from(most - 1).unwrap_or(i64::MAX)).unwrap_or(text.len());
    let (each, rest) = text.split_at(rest);
    let each = each.char_indices().map(|(at, letter)| &text[at..at + letter.len_utf8()]);
    texts(each.chain(Some(rest).filter(|rest| !rest.is_empty())), meter)
}

fn find_all(text: &str, pattern: &str, limit: &[Value], meter: &Meter) -> Outcome {
    let limit = whole("findAll", limit)?.and_then(|limit| usize::try_from(limit).ok());
    let regex = patterns::over("findAll", pattern, text, meter)?;
    let mut bytes = 0;
    let mut found = Vec::new();
    for one in regex.find_iter(text).take(limit.unwrap_or(usize::MAX)) {
        meter.work(1)?;
        bytes += EACH + one.len();
        if bytes > 8 * LARGEST {
            return Err(meter.refuse());
        }
        found.push(plain(one.as_str()));
    }
    Ok(Value::List(Arc::new(found)))
}

fn replace(text: &str, rest: &[Value], meter: &Meter) -> Outcome {
    let [Value::String(from), Value::String(to), limit @ ..] = rest else {
        return Err(failed("replace", "no such overload"));
    };
    let limit = whole("replace", limit)?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let times = text.matches(from.as_str()).count().min(limit);
    let length = text.len().saturating_add(times.saturating_mul(to.len()));
    if length > LARGEST {
        return Err(too_large("replace"));
    }
    meter.work(letters(length))?;
    Ok(plain(&text.replacen(from.as_str(), to, times)))
}

fn join(items: &[Value], by: &[Value], meter: &Meter) -> Outcome {
    let separator = match by {
        [] => "",
        [Value::String(separator)] => separator.as_str(),
        _ => return Err(failed("join", "no such overload")),
    };
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let Value::String(part) = item else { return Err(failed("join", "no such overload")) };
        meter.work(1 + letters(part.len() + separator.len()))?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(part);
        if out.len() > LARGEST {
            return Err(too_large("join"));
        }
    }
    Ok(Value::String(Arc::new(out)))
}

/// Refuses a format whose result would be too large: each item is told once at most, numbers with as many digits as are asked for.
fn formats(text: &str, items: &Value, meter: &Meter) -> Result<(), ExecutionError> {
    let mut asked = 0usize;
    for part in text.split('%').skip(1) {
        let digits = part.strip_prefix('.').unwrap_or_default();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let wanted = if end == 0 { 0 } else { digits[..end].parse().unwrap_or(usize::MAX) };
        if wanted > DIGITS {
            return Err(failed("format", "more digits are asked for than can be told"));
        }
        asked += wanted + 1;
    }
    meter.work(many(asked) + letters(text.len()))?;
    let told = weight(items, meter)?.saturating_mul(2);
    if told > many(LARGEST) * 4 {
        return Err(too_large("format"));
    }
    meter.hold(told + many(asked))
}
