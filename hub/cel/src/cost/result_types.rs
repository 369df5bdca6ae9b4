//! What each function yields, so that the type of what it is applied to, and with it the cost, is known before an expression runs.
//!
//! In: a function's name and the types of its arguments. Out: the type of what it yields.

use crate::types::Type;

const QUANTITY: Type = Type::Opaque("kubernetes.Quantity");
const IP: Type = Type::Opaque("net.IP");
const CIDR: Type = Type::Opaque("net.CIDR");
const URL: Type = Type::Opaque("kubernetes.URL");
const SEMVER: Type = Type::Opaque("kubernetes.Semver");
const NAMED_FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");
const AUTHORIZER: Type = Type::Opaque("kubernetes.authorization.Authorizer");
const DECISION: Type = Type::Opaque("kubernetes.authorization.Decision");

/// What a function called by its bare name yields; `None` where there is no such function.
pub(super) fn global(name: &str, args: &[Type]) -> Option<Type> {
    Some(match name {
        "size" | "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bool" | "isURL" | "isIP" | "isCIDR" | "isQuantity" | "isSemver" | "matches" => Type::Bool,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "dyn" | "type" => Type::Dyn,
        "url" => URL,
        "ip" => IP,
        "cidr" => CIDR,
        "quantity" => QUANTITY,
        "semver" => SEMVER,
        "has" => Type::Bool,
        "@opt" => match args.first() {
            Some(Type::Optional(inner)) => Type::List(inner.clone()),
            _ => Type::List(Box::new(Type::Dyn)),
        },
        "@keys" => match args.first() {
            Some(Type::List(_)) => Type::List(Box::new(Type::Int)),
            Some(Type::Map(key, _)) => Type::List(key.clone()),
            _ => Type::List(Box::new(Type::Dyn)),
        },
        "@insert" => match args {
            [_, key, value] => Type::Map(Box::new(key.clone()), Box::new(value.clone())),
            [_, entries] => entries.clone(),
            _ => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
        },
        "max" | "min" => args.first().cloned().unwrap_or(Type::Dyn),
        _ => return None,
    })
}

/// What a function of a namespace (`sets.contains`) yields; `None` where there is no such function.
pub(super) fn qualified(namespace: &str, name: &str, args: &[Type]) -> Option<Type> {
    let first = || args.first().cloned().unwrap_or(Type::Dyn);
    Some(match (namespace, name) {
        ("sets", "contains" | "equivalent" | "intersects") => Type::Bool,
        ("optional", "of" | "ofNonZeroValue") => Type::Optional(Box::new(first())),
        ("optional", "none") => Type::Optional(Box::new(Type::Dyn)),
        ("strings", "quote") => Type::String,
        ("base64", "encode") => Type::String,
        ("base64", "decode") => Type::Bytes,
        ("lists", "range") => Type::List(Box::new(Type::Int)),
        ("ip", "isCanonical") => Type::Bool,
        ("format", "named") => Type::Optional(Box::new(NAMED_FORMAT)),
        ("format", _) => NAMED_FORMAT,
        ("math", "isInf" | "isNaN" | "isFinite") => Type::Bool,
        ("math", "ceil" | "floor" | "round" | "trunc" | "sqrt") => Type::Double,
        ("math", "abs" | "sign") => first(),
        ("math", "bitAnd" | "bitOr" | "bitXor" | "bitNot" | "bitShiftLeft" | "bitShiftRight") => first(),
        ("math", "greatest" | "least") => Type::Dyn,
        _ => return None,
    })
}

/// What a function of a value (`self.matches(…)`) yields; `None` where no value has such a function.
pub(super) fn member(name: &str, target: &Type, args: &[Type]) -> Option<Type> {
    let element = || match target {
        Type::List(element) => (**element).clone(),
        _ => Type::Dyn,
    };
    Some(match name {
        "size" | "indexOf" | "lastIndexOf" | "asInteger" | "sign" | "compareTo" | "family"
        | "prefixLength" | "major" | "minor" | "patch" => Type::Int,
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek"
        | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => Type::Int,
        "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "isSorted"
        | "hasValue"
        | "isInteger"
        | "isGreaterThan"
        | "isLessThan"
        | "isLoopback"
        | "isUnspecified"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "containsIP"
        | "containsCIDR"
        | "allowed"
        | "errored" => Type::Bool,
        "charAt" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "join" | "find"
        | "format" | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" | "reason"
        | "error" => Type::String,
        "split" | "findAll" => Type::List(Box::new(Type::String)),
        "getQuery" => Type::Map(Box::new(Type::String), Box::new(Type::List(Box::new(Type::String)))),
        "asApproximateFloat" => Type::Double,
        "sum" | "min" | "max" => element(),
        "slice" | "sort" | "@sortByAssociatedKeys" | "distinct" | "reverse" => target.clone(),
        "flatten" => match element() {
            inner @ Type::List(_) if args.is_empty() => inner,
            _ => Type::List(Box::new(Type::Dyn)),
        },
        "first" | "last" => Type::Optional(Box::new(element())),
        "value" => match target {
            Type::Optional(inner) => (**inner).clone(),
            _ => Type::Dyn,
        },
        "orValue" => args.first().cloned().unwrap_or(Type::Dyn),
        "or" => target.clone(),
        "add" | "sub" => QUANTITY,
        "ip" => IP,
        "masked" => CIDR,
        "validate" => Type::Optional(Box::new(Type::List(Box::new(Type::String)))),
        "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "serviceAccount" => AUTHORIZER,
        "check" => DECISION,
        _ => return None,
    })
}
