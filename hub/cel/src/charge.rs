//! What a call costs in kube-apiserver's units: its rules for what depends on the size of what a function is given.
//!
//! In: a function's name and what it is called with, the receiver first. Out: its steps, charged before it runs; `None` for a
//! function that has no rule, which is then not called. `cost.rs` tells the same before anything runs.

use kube_cel::cel::{ExecutionError, Value};

use crate::meter::Meter;
use crate::weigh::{size, traversal};

/// A rule for what a call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The same, whatever it is given.
    Fixed(u64),
    /// So many times the letters of the first, by tenths.
    First(u64),
    /// The letters of the second, by tenths, so many times.
    Second(u64),
    /// The letters of the shorter of two, by tenths.
    Shorter,
    /// The letters of both, by tenths, where they are texts.
    Both,
    /// Each of one with each of the other, by tenths.
    Search,
    /// A text and a regular expression over it.
    Regex,
    /// The elements of the second.
    Elements,
    /// All that the first is made of.
    Traversal,
    /// Each element of one with each of the other, so many times.
    Pairs(u64),
    /// A list that is made, of as many elements as this says.
    Makes(Made),
}

/// How much goes into a list that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// The number that is given.
    Number,
    /// What lies between two numbers.
    Between,
    /// The elements of the first, as many times as it is deep where that is given.
    Elements,
    /// Each element of this argument with each other, twice, and a tenth more where they are texts.
    Compared(usize),
}

/// Every function there is, by its rule. A function that stands in no line cannot be called.
const RULES: &[(Rule, &[&str])] = &[
    (
        Rule::Fixed(1),
        &[
            "!_",
            "@not_strictly_false",
            "_/_",
            "_%_",
            "_*_",
            "-_",
            "_-_",
            "_[_]",
            "_[?_]",
            "size",
            "type",
            "dyn",
            "getFullYear",
            "getMonth",
            "getDayOfYear",
            "getDayOfMonth",
            "getDate",
            "getDayOfWeek",
            "getHours",
            "getMinutes",
            "getSeconds",
            "getMilliseconds",
            "getScheme",
            "getHost",
            "getHostname",
            "getPort",
            "getEscapedPath",
            "getQuery",
            "path",
            "group",
            "serviceAccount",
            "resource",
            "subresource",
            "namespace",
            "name",
            "fieldSelector",
            "labelSelector",
            "errored",
            "error",
            "allowed",
            "reason",
            "sign",
            "isGreaterThan",
            "isLessThan",
            "compareTo",
            "asApproximateFloat",
            "asInteger",
            "isInteger",
            "add",
            "sub",
            "family",
            "isUnspecified",
            "isLoopback",
            "isLinkLocalMulticast",
            "isLinkLocalUnicast",
            "isGlobalUnicast",
            "prefixLength",
            "masked",
            "format.named",
            "format.dns1123Label",
            "format.dns1123Subdomain",
            "format.dns1035Label",
            "format.qualifiedName",
            "format.dns1123LabelPrefix",
            "format.dns1123SubdomainPrefix",
            "format.dns1035LabelPrefix",
            "format.labelValue",
            "format.uri",
            "format.uuid",
            "format.byte",
            "format.date",
            "format.datetime",
            "major",
            "minor",
            "patch",
            "optional.of",
            "optional.ofNonZeroValue",
            "optional.none",
            "value",
            "hasValue",
            "or",
            "orValue",
            "first",
            "last",
            "@opt",
            "@keys",
            "@insert",
            "cel.@mapInsert",
            "@equal",
            "@within",
            "@merge",
        ],
    ),
    // kube-apiserver's: two in one expression.
    (Rule::Fixed(350_000), &["check"]),
    (
        Rule::First(1),
        &[
            "startsWith",
            "endsWith",
            "bytes",
            "string",
            "strings.quote",
            "format",
            "bool",
            "double",
            "duration",
            "int",
            "uint",
            "timestamp",
            "url",
            "isURL",
            "charAt",
            "lowerAscii",
            "upperAscii",
            "substring",
            "trim",
            "ip",
            "isIP",
            "cidr",
            "isCIDR",
            "quantity",
            "isQuantity",
            "semver",
            "isSemver",
        ],
    ),
    (Rule::First(2), &["replace", "split", "ip.isCanonical"]),
    (Rule::Second(1), &["containsIP", "containsCIDR"]),
    (Rule::Second(32), &["validate"]),
    (Rule::Shorter, &["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"]),
    (Rule::Both, &["_+_"]),
    (Rule::Search, &["contains"]),
    (Rule::Regex, &["matches", "find", "findAll"]),
    (Rule::Elements, &["@in"]),
    (Rule::Traversal, &["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "join"]),
    (Rule::Pairs(1), &["sets.contains", "sets.intersects"]),
    (Rule::Pairs(2), &["sets.equivalent"]),
    (Rule::Makes(Made::Number), &["lists.range"]),
    (Rule::Makes(Made::Between), &["slice"]),
    (Rule::Makes(Made::Elements), &["reverse", "flatten"]),
    (Rule::Makes(Made::Compared(0)), &["sort", "distinct"]),
    (Rule::Makes(Made::Compared(1)), &["@sortByAssociatedKeys"]),
];

fn rule(name: &str) -> Option<Rule> {
    static BY_NAME: std::sync::LazyLock<std::collections::HashMap<&str, Rule>> =
        std::sync::LazyLock::new(|| {
            RULES.iter().flat_map(|(rule, names)| names.iter().map(|name| (*name, *rule))).collect()
        });
    BY_NAME.get(name).copied()
}

/// Whether a function of this name can be called.
pub(crate) fn is_known(name: &str) -> bool {
    rule(name).is_some()
}

/// Charges a call before it runs.
///
/// # Errors
/// There is no such function, or a bound is passed.
pub(crate) fn charge(name: &str, args: &[Value], meter: &Meter) -> Result<(), ExecutionError> {
    let unknown = || ExecutionError::UndeclaredReference(std::sync::Arc::new(name.to_owned()));
    let steps = steps(rule(name).ok_or_else(unknown)?, args, meter)?;
    meter.step(steps.max(1))
}

fn steps(rule: Rule, args: &[Value], meter: &Meter) -> Result<u64, ExecutionError> {
    let of = |at: usize| args.get(at).map_or(Ok(1), |value| size(value, meter));
    Ok(match rule {
        Rule::Fixed(steps) => steps,
        Rule::First(times) => of(0)?.saturating_mul(times).div_ceil(10),
        Rule::Second(times) => of(1)?.div_ceil(10).saturating_mul(times),
        Rule::Shorter => of(0)?.min(of(1)?).div_ceil(10),
        Rule::Both => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => of(0)?.saturating_add(of(1)?).div_ceil(10),
            _ => 1,
        },
        Rule::Search => of(0)?.div_ceil(10).saturating_mul(of(1)?.div_ceil(10)),
        Rule::Regex => of(0)?.saturating_add(1).div_ceil(10).saturating_mul(of(1)?.div_ceil(4)),
        Rule::Elements => match args.get(1) {
            Some(Value::List(items)) => crate::weigh::many(items.len()),
            _ => 1,
        },
        Rule::Traversal => args.first().map_or(Ok(1), |value| traversal(value, meter))?,
        Rule::Pairs(times) => of(0)?.saturating_mul(of(1)?).saturating_mul(times).saturating_add(1),
        Rule::Makes(made) => elements(made, args, meter)?.saturating_add(11),
    })
}

fn elements(made: Made, args: &[Value], meter: &Meter) -> Result<u64, ExecutionError> {
    let of = |at: usize| args.get(at).map_or(Ok(1), |value| size(value, meter));
    let number = |at: usize| match args.get(at) {
        Some(Value::Int(number)) => Some(u64::try_from(*number).unwrap_or(0)),
        _ => None,
    };
    Ok(match made {
        Made::Number => number(0).unwrap_or(0),
        Made::Between => number(2).unwrap_or(0).saturating_sub(number(1).unwrap_or(0)),
        Made::Elements => of(0)?.saturating_mul(number(1).unwrap_or(1)),
        Made::Compared(at) => {
            let texts = matches!(args.get(at), Some(Value::List(items))
                if matches!(items.first(), Some(Value::String(_) | Value::Bytes(_))));
            let pairs = of(at)?.saturating_mul(of(at)?);
            pairs.saturating_mul(2).saturating_add(if texts { pairs / 10 } else { 0 })
        }
    })
}
