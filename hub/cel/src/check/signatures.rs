//! What functions there are, of which types they are and what they yield.
//!
//! In: a function's name. Out: its overloads in order. The table is what kube-apiserver takes in new expressions:
//! what its version before knew too.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

/// The names of all functions.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name)
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallStyle {
    /// `name(arguments)`.
    Function,
    /// `receiver.name(arguments)`.
    Member,
}

/// One way to call a function. Open types are numbered within it.
#[derive(Debug)]
pub(crate) struct Overload {
    pub style: CallStyle,
    /// The receiver first, where there is one.
    pub args: Vec<Type>,
    pub yields: Type,
    /// How many open types it has.
    pub open: usize,
}

/// The overloads of a function; `None` where there is no such function.
pub(crate) fn overloads_of(name: &str) -> Option<&'static [Overload]> {
    static ALL: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(read);
    ALL.get(name).map(Vec::as_slice)
}

/// `NAME: (ARGUMENTS) RESULT; RECEIVER.(ARGUMENTS) RESULT`. Capitals alone are open types.
const TABLE: &str = "
_?_:_: (bool,A,A) A
!_: (bool) bool
@not_strictly_false: (bool) bool
_==_: (A,A) bool
_!=_: (A,A) bool
_<_: (bool,bool) bool; (int,int) bool; (int,double) bool; (int,uint) bool; (uint,uint) bool; (uint,double) bool; (uint,int) bool; (double,double) bool; (double,int) bool; (double,uint) bool; (string,string) bool; (bytes,bytes) bool; (timestamp,timestamp) bool; (duration,duration) bool
_<=_: (bool,bool) bool; (int,int) bool; (int,double) bool; (int,uint) bool; (uint,uint) bool; (uint,double) bool; (uint,int) bool; (double,double) bool; (double,int) bool; (double,uint) bool; (string,string) bool; (bytes,bytes) bool; (timestamp,timestamp) bool; (duration,duration) bool
_>_: (bool,bool) bool; (int,int) bool; (int,double) bool; (int,uint) bool; (uint,uint) bool; (uint,double) bool; (uint,int) bool; (double,double) bool; (double,int) bool; (double,uint) bool; (string,string) bool; (bytes,bytes) bool; (timestamp,timestamp) bool; (duration,duration) bool
_>=_: (bool,bool) bool; (int,int) bool; (int,double) bool; (int,uint) bool; (uint,uint) bool; (uint,double) bool; (uint,int) bool; (double,double) bool; (double,int) bool; (double,uint) bool; (string,string) bool; (bytes,bytes) bool; (timestamp,timestamp) bool; (duration,duration) bool
_+_: (bytes,bytes) bytes; (double,double) double; (duration,duration) duration; (duration,timestamp) timestamp; (timestamp,duration) timestamp; (int,int) int; (list(A),list(A)) list(A); (string,string) string; (uint,uint) uint
_/_: (double,double) double; (int,int) int; (uint,uint) uint
_%_: (int,int) int; (uint,uint) uint
_*_: (double,double) double; (int,int) int; (uint,uint) uint
-_: (double) double; (int) int
_-_: (double,double) double; (duration,duration) duration; (int,int) int; (timestamp,duration) timestamp; (timestamp,timestamp) duration; (uint,uint) uint
_[_]: (list(A),int) A; (map(A,B),A) B; (optional(list(V)),int) optional(V); (optional(map(K,V)),K) optional(V)
_[?_]: (list(V),int) optional(V); (optional(list(V)),int) optional(V); (map(K,V),K) optional(V); (optional(map(K,V)),K) optional(V)
@in: (A,list(A)) bool; (A,map(A,B)) bool
size: (bytes) int; bytes.() int; (list(A)) int; list(A).() int; (map(A,B)) int; map(A,B).() int; (string) int; string.() int
type: (A) type(A)
bool: (bool) bool; (string) bool
bytes: (bytes) bytes; (string) bytes
double: (double) double; (int) double; (string) double; (uint) double
duration: (duration) duration; (int) duration; (string) duration
dyn: (A) dyn
int: (int) int; (double) int; (duration) int; (string) int; (timestamp) int; (uint) int
string: (string) string; (bool) string; (bytes) string; (double) string; (duration) string; (int) string; (timestamp) string; (uint) string; (net.IP) string; (net.CIDR) string
timestamp: (timestamp) timestamp; (int) timestamp; (string) timestamp
uint: (uint) uint; (double) uint; (int) uint; (string) uint
contains: string.(string) bool
endsWith: string.(string) bool
startsWith: string.(string) bool
matches: (string,string) bool; string.(string) bool
getFullYear: timestamp.() int; timestamp.(string) int
getMonth: timestamp.() int; timestamp.(string) int
getDayOfYear: timestamp.() int; timestamp.(string) int
getDayOfMonth: timestamp.() int; timestamp.(string) int
getDate: timestamp.() int; timestamp.(string) int
getDayOfWeek: timestamp.() int; timestamp.(string) int
getHours: timestamp.() int; timestamp.(string) int; duration.() int
getMinutes: timestamp.() int; timestamp.(string) int; duration.() int
getSeconds: timestamp.() int; timestamp.(string) int; duration.() int
getMilliseconds: timestamp.() int; timestamp.(string) int; duration.() int
url: (string) kubernetes.URL
getScheme: kubernetes.URL.() string
getHost: kubernetes.URL.() string
getHostname: kubernetes.URL.() string
getPort: kubernetes.URL.() string
getEscapedPath: kubernetes.URL.() string
getQuery: kubernetes.URL.() map(string,list(string))
isURL: (string) bool
find: string.(string) string
findAll: string.(string) list(string); string.(string,int) list(string)
isSorted: list(int).() bool; list(uint).() bool; list(double).() bool; list(bool).() bool; list(duration).() bool; list(timestamp).() bool; list(string).() bool; list(bytes).() bool
sum: list(int).() int; list(uint).() uint; list(double).() double; list(duration).() duration
max: list(int).() int; list(uint).() uint; list(double).() double; list(bool).() bool; list(duration).() duration; list(timestamp).() timestamp; list(string).() string; list(bytes).() bytes
min: list(int).() int; list(uint).() uint; list(double).() double; list(bool).() bool; list(duration).() duration; list(timestamp).() timestamp; list(string).() string; list(bytes).() bytes
indexOf: list(A).(A) int; string.(string) int; string.(string,int) int
slice: list(T).(int,int) list(T)
flatten: list(list(T)).() list(T); list(dyn).(int) list(dyn)
sort: list(int).() list(int); list(uint).() list(uint); list(double).() list(double); list(bool).() list(bool); list(duration).() list(duration); list(timestamp).() list(timestamp); list(string).() list(string); list(bytes).() list(bytes)
@sortByAssociatedKeys: list(T).(list(int)) list(T); list(T).(list(uint)) list(T); list(T).(list(double)) list(T); list(T).(list(bool)) list(T); list(T).(list(duration)) list(T); list(T).(list(timestamp)) list(T); list(T).(list(string)) list(T); list(T).(list(bytes)) list(T)
lists.range: (int) list(int)
reverse: list(T).() list(T)
distinct: list(T).() list(T)
lastIndexOf: list(A).(A) int; string.(string) int; string.(string,int) int
path: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.PathCheck
group: kubernetes.authorization.Authorizer.(string) kubernetes.authorization.GroupCheck
serviceAccount: kubernetes.authorization.Authorizer.(string,string) kubernetes.authorization.Authorizer
resource: kubernetes.authorization.GroupCheck.(string) kubernetes.authorization.ResourceCheck
subresource: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
namespace: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
name: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
fieldSelector: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
labelSelector: kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.ResourceCheck
check: kubernetes.authorization.PathCheck.(string) kubernetes.authorization.Decision; kubernetes.authorization.ResourceCheck.(string) kubernetes.authorization.Decision
errored: kubernetes.authorization.Decision.() bool
error: kubernetes.authorization.Decision.() string
allowed: kubernetes.authorization.Decision.() bool
reason: kubernetes.authorization.Decision.() string
quantity: (string) kubernetes.Quantity
isQuantity: (string) bool
sign: (kubernetes.Quantity) int
isGreaterThan: kubernetes.Quantity.(kubernetes.Quantity) bool; kubernetes.Semver.(kubernetes.Semver) bool
isLessThan: kubernetes.Quantity.(kubernetes.Quantity) bool; kubernetes.Semver.(kubernetes.Semver) bool
compareTo: kubernetes.Quantity.(kubernetes.Quantity) int; kubernetes.Semver.(kubernetes.Semver) int
asApproximateFloat: kubernetes.Quantity.() double
asInteger: kubernetes.Quantity.() int
isInteger: kubernetes.Quantity.() bool
add: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity; kubernetes.Quantity.(int) kubernetes.Quantity
sub: kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity; kubernetes.Quantity.(int) kubernetes.Quantity
charAt: string.(int) string
lowerAscii: string.() string
upperAscii: string.() string
replace: string.(string,string) string; string.(string,string,int) string
split: string.(string) list(string); string.(string,int) list(string)
substring: string.(int) string; string.(int,int) string
trim: string.() string
format: string.(list(dyn)) string
strings.quote: (string) string
join: list(string).() string; list(string).(string) string
sets.contains: (list(T),list(T)) bool
sets.equivalent: (list(T),list(T)) bool
sets.intersects: (list(T),list(T)) bool
ip: (string) net.IP; net.CIDR.() net.IP
family: net.IP.() int
ip.isCanonical: (string) bool
isUnspecified: net.IP.() bool
isLoopback: net.IP.() bool
isLinkLocalMulticast: net.IP.() bool
isLinkLocalUnicast: net.IP.() bool
isGlobalUnicast: net.IP.() bool
isIP: (string) bool
cidr: (string) net.CIDR
containsIP: net.CIDR.(string) bool; net.CIDR.(net.IP) bool
containsCIDR: net.CIDR.(string) bool; net.CIDR.(net.CIDR) bool
prefixLength: net.CIDR.() int
masked: net.CIDR.() net.CIDR
isCIDR: (string) bool
validate: kubernetes.NamedFormat.(string) optional(list(string))
format.named: (string) optional(kubernetes.NamedFormat)
format.dns1123Label: () kubernetes.NamedFormat
format.dns1123Subdomain: () kubernetes.NamedFormat
format.dns1035Label: () kubernetes.NamedFormat
format.qualifiedName: () kubernetes.NamedFormat
format.dns1123LabelPrefix: () kubernetes.NamedFormat
format.dns1123SubdomainPrefix: () kubernetes.NamedFormat
format.dns1035LabelPrefix: () kubernetes.NamedFormat
format.labelValue: () kubernetes.NamedFormat
format.uri: () kubernetes.NamedFormat
format.uuid: () kubernetes.NamedFormat
format.byte: () kubernetes.NamedFormat
format.date: () kubernetes.NamedFormat
format.datetime: () kubernetes.NamedFormat
semver: (string) kubernetes.Semver; (string,bool) kubernetes.Semver
isSemver: (string) bool; (string,bool) bool
major: kubernetes.Semver.() int
minor: kubernetes.Semver.() int
patch: kubernetes.Semver.() int
optional.of: (V) optional(V)
optional.ofNonZeroValue: (V) optional(V)
optional.none: () optional(V)
value: optional(V).() V
hasValue: optional(V).() bool
or: optional(V).(optional(V)) optional(V)
orValue: optional(V).(V) V
cel.@mapInsert: (map(K,V),K,V) map(K,V); (map(K,V),map(K,V)) map(K,V)
first: list(V).() optional(V)
last: list(V).() optional(V)
";

fn read() -> HashMap<&'static str, Vec<Overload>> {
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    let each = |line: &'static str| {
        let (name, rest) = line.split_once(": ")?;
        Some((name, rest.split("; ").filter_map(overload).collect()))
    };
    lines.filter_map(each).collect()
}

fn overload(text: &str) -> Option<Overload> {
    let (before, yields) = text.rsplit_once(") ")?;
    let open = if before.starts_with('(') { 0 } else { before.find(".(")? + 1 };
    let mut names = Vec::new();
    let receiver = (open > 0).then(|| &before[..open - 1]);
    let args = split(&before[open + 1..]);
    let all = receiver.into_iter().chain(args);
    let args = all.map(|text| ty(text, &mut names)).collect::<Option<Vec<Type>>>()?;
    let yields = ty(yields, &mut names)?;
    let style = if open > 0 { CallStyle::Member } else { CallStyle::Function };
    Some(Overload { style, args, yields, open: names.len() })
}

/// The parts between commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                all.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        all.push(&text[start..]);
    }
    all
}

fn ty<'t>(text: &'t str, names: &mut Vec<&'t str>) -> Option<Type> {
    if let Some((outer, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut parts = split(inner).into_iter().map(|part| ty(part, names).map(Box::new));
        let first = parts.next()??;
        return Some(match outer {
            "list" => Type::List(first),
            "map" => Type::Map(first, parts.next()??),
            "optional" => Type::Optional(first),
            _ => Type::TypeOf(first),
        });
    }
    Some(match text {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "string" => Type::String,
        "timestamp" => Type::Timestamp,
        "uint" => Type::Uint,
        _ if text.len() == 1 => {
            let at = names.iter().position(|name| *name == text).unwrap_or_else(|| {
                names.push(text);
                names.len() - 1
            });
            Type::Var(at)
        }
        _ => Type::Opaque(OPAQUE.into_iter().find(|name| *name == text)?),
    })
}

/// Types that the libraries bring.
pub(super) const OPAQUE: [&str; 11] = [
    "kubernetes.Quantity",
    "kubernetes.URL",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
    "net.IP",
    "net.CIDR",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            let (name, rest) = line.split_once(": ").unwrap();
            assert_eq!(overloads_of(name).map(<[_]>::len), Some(rest.split("; ").count()), "{line}");
        }
        let index = &overloads_of("_[_]").unwrap()[1];
        let map = Type::Map(Box::new(Type::Var(0)), Box::new(Type::Var(1)));
        assert_eq!((&index.args[..], &index.yields), (&[map, Type::Var(0)][..], &Type::Var(1)));
        assert_eq!(
            overloads_of("check").unwrap()[1].args[0],
            Type::Opaque("kubernetes.authorization.ResourceCheck")
        );
        assert!(overloads_of("none").is_none());
    }
}
