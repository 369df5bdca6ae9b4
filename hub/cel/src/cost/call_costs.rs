//! What calls cost beside their operands, how large their results are, and what stands in these: operators, texts, lists, and the functions that
//! Kubernetes adds, by the weights of cel-go and of Kubernetes' own library.
//!
//! In: a call's name, what is guessed of its target and arguments. Out: its own cost, and the size of its result where that is known.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};

use super::{At, Entry, Extent, Guess, Inner, REGEX, Range, TRAVERSAL, is_scalar, scaled};
use crate::types::Type;

/// A call's own cost, the size of its result, and what stands in it.
type Own = (u64, Option<Range>, Option<Entry>);

/// What a call costs beside its operands, how large its result is, and what stands in it.
pub(super) fn call_cost(name: &str, target: Option<&Guess<'_>>, args: &[Guess<'_>], call: &CallExpr) -> Own {
    operator(name, args)
        .or_else(|| text(name, target, args))
        .or_else(|| part_of_a_text(name, target, args, call))
        .or_else(|| list(name, target, args))
        .or_else(|| of_kubernetes(name, target, args))
        .or_else(|| rearranged(name, target, args, call))
        .unwrap_or(plain(1))
}

fn plain(cost: u64) -> Own {
    (cost, None, None)
}

/// Of operators.
fn operator(name: &str, args: &[Guess<'_>]) -> Option<Own> {
    let textual = |ty: &Type| matches!(ty, Type::String | Type::Bytes | Type::Dyn);
    Some(match (name, args) {
        (op::LOGICAL_AND | op::LOGICAL_OR, _) => plain(0),
        (op::CONDITIONAL, [_, yes, no]) => (0, Some(yes.size().or(no.size())), both(yes.entry, no.entry)),
        (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
            let opaque = |guess: &Guess<'_>| matches!(guess.ty, Type::Opaque(_));
            if opaque(left) && opaque(right) {
                return Some(plain(1));
            }
            plain(scaled(left.size().max.min(right.size().max), TRAVERSAL))
        }
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [left, right])
            if textual(&left.ty) && textual(&right.ty) =>
        {
            plain(scaled(left.size().max.min(right.size().max), TRAVERSAL).max(1))
        }
        (op::ADD, [left, right]) => {
            let (size, entry) = (left.size().plus(right.size()), both(left.entry, right.entry));
            match (&left.ty, &right.ty) {
                (Type::List(_), _) | (_, Type::List(_)) => (1, Some(size), entry),
                (Type::String | Type::Bytes, _)
                | (_, Type::String | Type::Bytes)
                | (Type::Dyn, Type::Dyn) => (size.at(TRAVERSAL), Some(size), entry),
                _ => plain(1),
            }
        }
        (op::IN, [_, container]) => match container.ty {
            Type::Map(..) | Type::Object(_) => plain(1),
            _ => plain(container.size().max),
        },
        _ => return None,
    })
}

/// Of what makes texts and looks into them.
fn text(name: &str, target: Option<&Guess<'_>>, args: &[Guess<'_>]) -> Option<Own> {
    Some(match (name, target, args) {
        ("string" | "bytes", None, [from]) => {
            let size = from.size();
            match (name, &from.ty) {
                ("bytes", Type::String | Type::Dyn) => {
                    let size = Range { min: size.min, max: size.max.saturating_mul(4) };
                    (from.size().at(TRAVERSAL), Some(size), None)
                }
                ("string", Type::Bytes) => {
                    (size.at(TRAVERSAL), Some(Range { min: size.min / 4, max: size.max }), None)
                }
                _ => plain(1),
            }
        }
        ("strings.quote", _, [text]) => {
            let size = text.size();
            let quoted =
                Range { min: size.min.saturating_add(2), max: size.max.saturating_mul(2).saturating_add(2) };
            (size.at(TRAVERSAL), Some(quoted), None)
        }
        ("startsWith" | "endsWith", Some(_), [part]) => plain(part.size().at(TRAVERSAL)),
        ("matches" | "find" | "findAll", Some(text), [pattern, ..]) | ("matches", None, [text, pattern]) => {
            let walked = text.size().plus(Range::exactly(1)).at(TRAVERSAL);
            let cost = walked.saturating_mul(pattern.size().at(REGEX));
            let found = Range { min: 0, max: text.size().max };
            (cost, (name != "matches").then_some(found), None)
        }
        ("contains", Some(text), [part]) => {
            plain(text.size().at(TRAVERSAL).saturating_mul(part.size().at(TRAVERSAL)))
        }
        ("format", Some(text), _) => plain(text.size().at(TRAVERSAL)),
        _ => return None,
    })
}

/// Of what takes texts apart.
fn part_of_a_text(
    name: &str,
    target: Option<&Guess<'_>>,
    args: &[Guess<'_>],
    call: &CallExpr,
) -> Option<Own> {
    Some(match (name, target, args) {
        ("url" | "jsonpatch.escapeKey", None, [text]) => (text.size().at(TRAVERSAL), Some(text.size()), None),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            (text.size().at(TRAVERSAL), Some(text.size()), None)
        }
        ("replace", Some(text), [from, to, ..]) => {
            (text.size().at(2.0 * TRAVERSAL), Some(replaced(text.size(), from.size(), to.size())), None)
        }
        ("split", Some(text), _) => {
            let limit = call.args.get(1).and_then(|limit| match &limit.expr {
                Expr::Literal(LiteralValue::Int(limit)) => u64::try_from(*limit.inner()).ok(),
                _ => None,
            });
            let size = Range { min: 0, max: limit.unwrap_or(text.size().max) };
            (text.size().at(2.0 * TRAVERSAL), Some(size), None)
        }
        _ => return None,
    })
}

/// Of what goes through lists.
fn list(name: &str, target: Option<&Guess<'_>>, args: &[Guess<'_>]) -> Option<Own> {
    Some(match (name, target, args) {
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => match &list.ty {
            Type::List(element) => {
                let each = match (&**element, list.at) {
                    (Type::String | Type::Bytes, At::Node(Extent { inner: Inner::List(inner), .. })) => {
                        scaled(inner.most, TRAVERSAL).saturating_add(1)
                    }
                    (Type::String | Type::Bytes, _) => u64::MAX,
                    _ => 1,
                };
                plain(list.size().max.saturating_mul(each))
            }
            _ => plain(list.size().at(TRAVERSAL)),
        },
        ("join", Some(list), _) => {
            let element = match list.at {
                At::Node(Extent { inner: Inner::List(inner), .. }) => Range { min: 0, max: inner.most },
                At::Nowhere => Range { min: 0, max: 0 },
                _ => Range::UNKNOWN,
            };
            let mut size = list.size().times(element);
            if let [separator, ..] = args {
                let gaps =
                    Range { min: list.size().min.saturating_sub(1), max: list.size().max.saturating_sub(1) };
                size = size.plus(separator.size().times(gaps));
            }
            (size.at(TRAVERSAL), Some(size), None)
        }
        _ => return None,
    })
}

/// Of the functions that Kubernetes adds.
fn of_kubernetes(name: &str, target: Option<&Guess<'_>>, args: &[Guess<'_>]) -> Option<Own> {
    Some(match (name, target, args) {
        (
            "ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver",
            None,
            [text, ..],
        ) => plain(text.size().at(TRAVERSAL)),
        ("ip.isCanonical", _, [text]) => plain(text.size().at(2.0 * TRAVERSAL)),
        ("containsIP" | "containsCIDR", Some(_), [other]) => {
            let base = if name == "containsIP" { 4 } else { 7 };
            let parsed = if matches!(other.ty, Type::String) { other.size().at(TRAVERSAL) } else { 0 };
            plain(parsed.saturating_add(base))
        }
        ("validate", Some(_), [text, ..]) => plain(scaled(text.size().at(TRAVERSAL), 128.0 * REGEX)),
        ("sets.contains" | "sets.intersects" | "sets.equivalent", _, [left, right]) => {
            let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            plain(left.size().times(right.size()).at(factor).saturating_add(1))
        }
        ("check", Some(_), _) => plain(350_000),
        _ => return None,
    })
}

/// What a call costs that makes a list of the elements of another, and how large that is, as cel-go has it: of what is compared
/// the square.
fn rearranged(name: &str, target: Option<&Guess<'_>>, args: &[Guess<'_>], call: &CallExpr) -> Option<Own> {
    let number = |at: usize| match &call.args.get(at)?.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
        _ => None,
    };
    let square = |list: &Guess<'_>| {
        let texts = !matches!(&list.ty, Type::List(element) if is_scalar(element));
        (if texts && name != "distinct" { 2.0 + TRAVERSAL } else { 2.0 }, list.size().times(list.size()))
    };
    let (factor, size) = match (name, target, args) {
        ("lists.range", _, [_]) => (1.0, Range::exactly(number(0).unwrap_or(u64::MAX))),
        ("slice", Some(list), [_, _]) => {
            let end = number(1).unwrap_or(list.size().max);
            (1.0, Range::exactly(end.wrapping_sub(number(0).unwrap_or(0))))
        }
        ("reverse", Some(list), []) => (1.0, list.size()),
        ("flatten", Some(list), []) => (1.0, list.size()),
        ("flatten", Some(list), [_]) => (number(0).unwrap_or(u64::MAX) as f64, list.size()),
        ("sort" | "distinct", Some(list), []) => square(list),
        ("@sortByAssociatedKeys", Some(_), [keys]) => square(keys),
        _ => return None,
    };
    Some((size.at(factor).saturating_add(11), Some(size), None))
}

fn both(one: Option<Entry>, other: Option<Entry>) -> Option<Entry> {
    let (one, other) = (one?, other?);
    Some(Entry { list: one.list, key: one.key.or(other.key), value: one.value.or(other.value) })
}

/// How long a text is once parts of it were replaced.
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let times = |length: u64, part: u64| (length as f64 / part as f64).ceil() as u64;
    let (mut count, mut kept) = (Range::exactly(0), Range::exactly(0));
    if from.min == 0 {
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = times(text.max, from.min);
    }
    if from.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = times(text.min, from.max);
    }
    count.times(to).plus(kept)
}
