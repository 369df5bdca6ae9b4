//! Every function that expressions may call costs what it does: a table of all of them, by what they do with large values.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;
use crate::check::signatures as declared;

/// What each function is called with: `s` is a text of many letters, `t` another, `l` and `m` lists of texts, `o` an object, each as
/// large as the test makes it. Functions over values that cannot be large stand with small ones.
const CALLS: &[(&str, &str)] = &[
    ("_?_:_", "self.s == '' ? 1 : 2"),
    ("!_", "!(self.s == self.t)"),
    ("@not_strictly_false", "self.l.all(x, x != '')"),
    ("_==_", "self.o == self.p"),
    ("_!=_", "self.l != self.m"),
    ("_<_", "self.s < self.t"),
    ("_<=_", "self.s <= self.t"),
    ("_>_", "self.s > self.t"),
    ("_>=_", "self.s >= self.t"),
    ("_+_", "self.l + self.m"),
    ("_/_", "self.n / 2"),
    ("_%_", "self.n % 2"),
    ("_*_", "self.n * 2"),
    ("-_", "-self.n"),
    ("_-_", "self.n - 2"),
    ("_[_]", "self.l[0]"),
    ("_[?_]", "self.l[?0]"),
    ("@in", "'none' in self.l"),
    ("size", "size(self.s)"),
    ("type", "type(self.o) == map"),
    ("bool", "bool('true')"),
    ("bytes", "bytes(self.s)"),
    ("double", "double(self.digits)"),
    ("duration", "duration(self.spans)"),
    ("dyn", "dyn(self.o)"),
    ("int", "int(self.digits)"),
    ("string", "string(bytes(self.s))"),
    ("timestamp", "timestamp(self.digits)"),
    ("uint", "uint(self.digits)"),
    ("contains", "self.s.contains('zzzz')"),
    ("endsWith", "self.s.endsWith(self.t)"),
    ("startsWith", "self.s.startsWith(self.t)"),
    ("matches", "self.s.matches('(a|aa)+z')"),
    ("getFullYear", "timestamp('2020-01-01T00:00:00Z').getFullYear()"),
    ("getMonth", "timestamp('2020-01-01T00:00:00Z').getMonth()"),
    ("getDayOfYear", "timestamp('2020-01-01T00:00:00Z').getDayOfYear()"),
    ("getDayOfMonth", "timestamp('2020-01-01T00:00:00Z').getDayOfMonth()"),
    ("getDate", "timestamp('2020-01-01T00:00:00Z').getDate()"),
    ("getDayOfWeek", "timestamp('2020-01-01T00:00:00Z').getDayOfWeek()"),
    ("getHours", "timestamp('2020-01-01T00:00:00Z').getHours()"),
    ("getMinutes", "timestamp('2020-01-01T00:00:00Z').getMinutes()"),
    ("getSeconds", "timestamp('2020-01-01T00:00:00Z').getSeconds()"),
    ("getMilliseconds", "timestamp('2020-01-01T00:00:00Z').getMilliseconds()"),
    ("url", "url('https://a/' + self.s)"),
    ("getScheme", "url('https://a/' + self.s).getScheme()"),
    ("getHost", "url('https://a/' + self.s).getHost()"),
    ("getHostname", "url('https://a/' + self.s).getHostname()"),
    ("getPort", "url('https://a/' + self.s).getPort()"),
    ("getEscapedPath", "url('https://a/' + self.s).getEscapedPath()"),
    ("getQuery", "url('https://a/?' + self.l.join('&')).getQuery()"),
    ("isURL", "isURL('https://a/' + self.s)"),
    ("find", "self.s.find('(a|aa)+z')"),
    ("findAll", "self.s.findAll('a|b')"),
    ("isSorted", "self.l.isSorted()"),
    ("sum", "self.numbers.sum()"),
    ("max", "self.l.max()"),
    ("min", "self.l.min()"),
    ("slice", "self.l.slice(1, 3)"),
    ("flatten", "[self.l, self.m].flatten()"),
    ("flatten", "[[self.l, self.m]].flatten(2)"),
    ("sort", "self.l.sort()"),
    ("@sortByAssociatedKeys", "self.l.sortBy(x, size(x))"),
    ("lists.range", "lists.range(1000000)"),
    ("reverse", "self.l.reverse()"),
    ("distinct", "self.l.distinct()"),
    ("indexOf", "self.l.indexOf('none')"),
    ("indexOf", "self.s.indexOf('zzzz')"),
    ("lastIndexOf", "self.l.lastIndexOf('none')"),
    ("lastIndexOf", "self.s.lastIndexOf('zzzz')"),
    ("path", "authorizer.path(self.s)"),
    ("group", "authorizer.group(self.s)"),
    ("serviceAccount", "authorizer.serviceAccount(self.s, self.t)"),
    ("resource", "authorizer.group('').resource(self.s)"),
    ("subresource", "authorizer.group('').resource('a').subresource(self.s)"),
    ("namespace", "authorizer.group('').resource('a').namespace(self.s)"),
    ("name", "authorizer.group('').resource('a').name(self.s)"),
    ("fieldSelector", "authorizer.group('').resource('a').fieldSelector(self.s)"),
    ("labelSelector", "authorizer.group('').resource('a').labelSelector(self.s)"),
    ("check", "authorizer.group('').resource('a').check(self.s)"),
    ("errored", "authorizer.group('').resource('a').check('get').errored()"),
    ("error", "authorizer.group('').resource('a').check('get').error()"),
    ("allowed", "authorizer.group('').resource('a').check('get').allowed()"),
    ("reason", "authorizer.group('').resource('a').check('get').reason()"),
    ("quantity", "quantity(self.digits)"),
    ("isQuantity", "isQuantity(self.digits)"),
    ("sign", "sign(quantity('1'))"),
    ("isGreaterThan", "quantity('1').isGreaterThan(quantity('2'))"),
    ("isLessThan", "quantity('1').isLessThan(quantity('2'))"),
    ("compareTo", "quantity('1').compareTo(quantity('2'))"),
    ("asApproximateFloat", "quantity('1').asApproximateFloat()"),
    ("asInteger", "quantity('1').asInteger()"),
    ("isInteger", "quantity('1').isInteger()"),
    ("add", "quantity('1').add(quantity('2'))"),
    ("sub", "quantity('1').sub(quantity('2'))"),
    ("charAt", "self.s.charAt(3)"),
    ("lowerAscii", "self.s.lowerAscii()"),
    ("upperAscii", "self.s.upperAscii()"),
    ("replace", "self.s.replace('a', 'bc')"),
    ("split", "self.s.split('')"),
    ("split", "self.s.split('a')"),
    ("substring", "self.s.substring(3)"),
    ("trim", "self.s.trim()"),
    ("format", "'%s %s'.format([self.o, self.l])"),
    ("strings.quote", "strings.quote(self.s)"),
    ("join", "self.l.join(self.short)"),
    ("sets.contains", "sets.contains(self.l, self.m)"),
    ("sets.equivalent", "sets.equivalent(self.l, self.m)"),
    ("sets.intersects", "sets.intersects(self.l, self.m)"),
    ("ip", "ip(self.digits)"),
    ("family", "ip('1.2.3.4').family()"),
    ("ip.isCanonical", "ip.isCanonical(self.digits)"),
    ("isUnspecified", "ip('1.2.3.4').isUnspecified()"),
    ("isLoopback", "ip('1.2.3.4').isLoopback()"),
    ("isLinkLocalMulticast", "ip('1.2.3.4').isLinkLocalMulticast()"),
    ("isLinkLocalUnicast", "ip('1.2.3.4').isLinkLocalUnicast()"),
    ("isGlobalUnicast", "ip('1.2.3.4').isGlobalUnicast()"),
    ("isIP", "isIP(self.digits)"),
    ("cidr", "cidr(self.digits)"),
    ("containsIP", "cidr('10.0.0.0/8').containsIP(self.digits)"),
    ("containsCIDR", "cidr('10.0.0.0/8').containsCIDR(self.digits)"),
    ("prefixLength", "cidr('10.0.0.0/8').prefixLength()"),
    ("masked", "cidr('10.0.0.0/8').masked()"),
    ("isCIDR", "isCIDR(self.digits)"),
    ("validate", "format.dns1123Subdomain().validate(self.s)"),
    ("validate", "format.qualifiedName().validate(self.s)"),
    ("validate", "format.uri().validate(self.s)"),
    ("validate", "format.byte().validate(self.s)"),
    ("validate", "format.datetime().validate(self.digits)"),
    ("format.named", "format.named('uri')"),
    ("format.dns1123Label", "format.dns1123Label().validate(self.s)"),
    ("format.dns1123Subdomain", "format.dns1123Subdomain().validate(self.s)"),
    ("format.dns1035Label", "format.dns1035Label().validate(self.s)"),
    ("format.qualifiedName", "format.qualifiedName().validate(self.s)"),
    ("format.dns1123LabelPrefix", "format.dns1123LabelPrefix().validate(self.s)"),
    ("format.dns1123SubdomainPrefix", "format.dns1123SubdomainPrefix().validate(self.s)"),
    ("format.dns1035LabelPrefix", "format.dns1035LabelPrefix().validate(self.s)"),
    ("format.labelValue", "format.labelValue().validate(self.s)"),
    ("format.uri", "format.uri().validate(self.s)"),
    ("format.uuid", "format.uuid().validate(self.s)"),
    ("format.byte", "format.byte().validate(self.s)"),
    ("format.date", "format.date().validate(self.digits)"),
    ("format.datetime", "format.datetime().validate(self.digits)"),
    ("semver", "semver('1.2.3-' + self.s)"),
    ("isSemver", "isSemver('1.2.3-' + self.s)"),
    ("major", "semver('1.2.3').major()"),
    ("minor", "semver('1.2.3').minor()"),
    ("patch", "semver('1.2.3').patch()"),
    ("optional.of", "optional.of(self.o)"),
    ("optional.ofNonZeroValue", "optional.ofNonZeroValue(self.o)"),
    ("optional.none", "optional.none()"),
    ("value", "optional.of(self.o).value()"),
    ("hasValue", "optional.of(self.o).hasValue()"),
    ("or", "optional.of(self.o).or(optional.none())"),
    ("orValue", "optional.of(self.o).orValue(self.p)"),
    ("cel.@mapInsert", "self.o.transformMap(k, v, v)"),
    ("cel.@mapInsert", "self.l.map(x, x + 'a')"),
    ("cel.@mapInsert", "self.o.transformMapEntry(k, v, {v: k})"),
    ("first", "self.l.first()"),
    ("last", "self.l.last()"),
];

/// Functions that loops and logic are made of, which are no calls.
const LOGIC: [&str; 1] = ["_?_:_"];

struct Nobody;

impl Authorizer for Nobody {
    fn check(&self, _question: &Question) -> Decision {
        Decision::default()
    }
}

/// An object whose parts have so many letters, elements, fields each.
fn object(size: usize) -> serde_json::Value {
    let texts = |prefix: &str| -> Vec<String> { (0..size / 8).map(|n| format!("{prefix}{n:06}")).collect() };
    let fields = |last: &str| -> serde_json::Value {
        let all =
            texts("f").into_iter().map(|name| (name.clone(), json!(name))).chain([("z".into(), json!(last))]);
        serde_json::Value::Object(all.collect())
    };
    json!({
        "s": "ab".repeat(size / 2) + "c", "t": "ab".repeat(size / 2) + "d", "l": texts("l"), "m": texts("m"),
        "o": fields("o"), "p": fields("p"), "digits": "1".repeat(size), "spans": "1h".repeat(size / 2),
        "numbers": vec![0; size / 8], "n": 7, "short": "-",
    })
}

struct Ran {
    outcome: Result<Value, EvalError>,
    steps: u64,
    work: u64,
    took: Duration,
}

fn ran(source: &str, of: &Value, limits: Limits) -> Ran {
    let declarations = Declarations::new().with("self", Type::Dyn);
    let declarations = declarations.with("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"));
    let program =
        Program::compile(source, &declarations, Expected::Any).unwrap_or_else(|e| panic!("{source}: {e}"));
    let mut evaluator = Evaluator::new(limits);
    evaluator.set("self", of.clone());
    evaluator.set("authorizer", Value::authorizer(Arc::new(Nobody), Question::default()));
    let started = Instant::now();
    let outcome = evaluator.value(&program);
    let (steps, work) = evaluator.cost();
    Ran { outcome, steps, work, took: started.elapsed() }
}

/// A function that is declared later and stands in no line of this table, or has no rule for what it costs, is told here.
#[test]
fn every_declared_function_is_charged_and_tried() {
    let tried: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    for name in declared::names() {
        assert!(tried.contains(name), "{name} is not tried");
        assert!(LOGIC.contains(&name) || charge::is_known(name), "{name} has no cost");
    }
}

/// The same, and where it took long, the least that it took of several: what else the machine did is not what it costs.
fn fastest(source: &str, of: &Value, limits: Limits) -> Ran {
    let mut best = ran(source, of, limits);
    for _ in 0..4 {
        if best.took < Duration::from_millis(20) {
            break;
        }
        let again = ran(source, of, limits);
        best.took = best.took.min(again.took);
    }
    best
}

/// Charges grow as what is done does. What is charged in full is work; steps are as kube-apiserver counts them.
#[test]
fn what_is_four_times_as_large_is_charged_for_it() {
    let unbounded = || Limits {
        steps: u64::MAX,
        call: u64::MAX,
        work: u64::MAX,
        bytes: u64::MAX,
        time: Duration::from_secs(600),
    };
    let (few, many) = (Value::from_json(&object(4_000)), Value::from_json(&object(16_000)));
    for (_, source) in CALLS {
        let (once, four) = (fastest(source, &few, unbounded()), fastest(source, &many, unbounded()));
        let slow = four.took > Duration::from_millis(20) && four.took > once.took * 3;
        if slow {
            assert!(four.work >= once.work * 3, "{source}: {} and {} of work", once.work, four.work);
        }
        // No piece of work lasts long, as there may be a hundred million of them.
        let each = four.took.as_nanos() / u128::from(four.work + four.steps).max(1);
        let told = || format!("{source}: {each} ns for each of {} work, {} steps", four.work, four.steps);
        assert!(each < 10_000 || four.took < Duration::from_millis(20), "{}", told());
    }
}

/// The largest values that a request can bring, with the budget that there is.
#[test]
fn the_largest_values_end_within_the_budget() {
    let largest = Value::from_json(&object(250_000));
    for (_, source) in CALLS {
        let one = ran(source, &largest, Limits::default());
        assert!(
            one.took < Duration::from_secs(10),
            "{source} took {:?} ({:?})",
            one.took,
            one.outcome.is_ok()
        );
    }
}
