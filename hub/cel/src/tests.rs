//! The table of expressions: what each yields, what is refused, and that bombs end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

mod costs;
mod crowds;

fn run(source: &str, object: &serde_json::Value) -> Result<Value, String> {
    let declarations = Declarations::new().with("self", Type::Dyn);
    let program = Program::compile(source, &declarations, Expected::Any).map_err(|e| e.to_string())?;
    let mut evaluator = Evaluator::new(Limits::default());
    evaluator.set("self", Value::from_json(object));
    evaluator.value(&program).map_err(|e| e.to_string())
}

#[test]
fn expressions_yield_what_cel_says() {
    let object = json!({"n": 3, "s": "grün", "list": [1, 2, 3], "map": {"a-b": 1}, "null": null});
    for (source, wanted) in [
        ("self.n + 1 == 4", json!(true)),
        ("size(self.s)", json!(4)),
        ("self.s.size() == 4 && self.s.startsWith('gr')", json!(true)),
        ("self.list.all(x, x > 0)", json!(true)),
        ("self.list.exists_one(x, x == 2)", json!(true)),
        ("self.list.map(x, x * 2)", json!([2, 4, 6])),
        ("self.list.filter(x, x > 1)", json!([2, 3])),
        ("self.map['a-b']", json!(1)),
        ("'a-b' in self.map", json!(true)),
        ("has(self.gone)", json!(false)),
        ("self.n == 3 ? 'three' : 'other'", json!("three")),
        ("'%d of %s'.format([self.n, 'x'])", json!("3 of x")),
        ("['a', 'b'].join('-')", json!("a-b")),
        (
            "['äbäb'.indexOf('b'), 'äbäb'.indexOf('b', 2), 'ab'.indexOf('b', 2), 'ab'.indexOf('', 7)]",
            json!([1, 3, -1, 7]),
        ),
        (
            "['äbäb'.lastIndexOf('b'), 'äbäb'.lastIndexOf('b', 2), 'ab'.lastIndexOf('a', 2)]",
            json!([3, 1, -1]),
        ),
        (
            "['ab'.lastIndexOf(''), 'ab'.lastIndexOf('', 7), ''.lastIndexOf('a'), 'a'.lastIndexOf('ab')]",
            json!([2, 7, -1, -1]),
        ),
        ("'aXbX'.replace('X', '.')", json!("a.b.")),
        ("quantity('1Gi').isGreaterThan(quantity('1M'))", json!(true)),
        ("isURL('https://a.b/')", json!(true)),
        ("cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))", json!(true)),
        ("self.?gone.orValue(7)", json!(7)),
        ("duration('1h') > duration('1m')", json!(true)),
        ("sets.contains([1, 2], [2])", json!(true)),
        ("dyn(1) == 1", json!(true)),
        ("[!!true, !!(1 == 2), !!!true, ! ! !false]", json!([true, false, false, true])),
        ("[--1, ---1, 1 - -1, 1 --1, 3 - - -2]", json!([1, -1, 2, 2, 1])),
        ("'!!' + '--'", json!("!!--")),
        ("self.?n.optMap(x, x + 1).orValue(0)", json!(4)),
        ("self.?gone.optMap(x, x + 1).orValue(0)", json!(0)),
        ("self.?map.optFlatMap(m, m[?'a-b']).orValue(0)", json!(1)),
        ("self.list.all(i, v, v == i + 1)", json!(true)),
        ("self.map.exists(k, v, k == 'a-b' && v == 1)", json!(true)),
        ("self.list.existsOne(i, v, i == 1 && v == 2)", json!(true)),
        ("self.list.transformList(i, v, i * v)", json!([0, 2, 6])),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v * 2)", json!({"a": 2, "b": 4})),
        ("{'a': 1, 'b': 2}.transformMap(k, v, k != 'a', v * 2)", json!({"b": 4})),
        ("{'a': 'x', 'b': 'y'}.transformMapEntry(k, v, {v: k})", json!({"x": "a", "y": "b"})),
        (
            "self.list.transformList(i, v, i > 0, self.list.transformList(j, w, w * v))",
            json!([[2, 4, 6], [3, 6, 9]]),
        ),
    ] {
        let got = run(source, &object).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(got.to_json(), Some(wanted), "{source}");
    }
}

#[test]
fn no_place_is_before_the_first_character() {
    for source in ["'ab'.indexOf('b', -1)", "'ab'.lastIndexOf('b', -1)"] {
        let failed = run(source, &json!({})).unwrap_err();
        assert!(failed.contains("index out of range: -1"), "{source}: {failed}");
    }
}

#[test]
fn lists_are_sorted_cut_and_made_flat() {
    let object =
        json!({"l": [3, 1, 2, 1], "o": [{"a": "y", "n": 1}, {"a": "x", "n": 2}, {"a": "x", "n": 3}]});
    for (source, wanted) in [
        ("self.l.sort()", json!([1, 1, 2, 3])),
        ("self.o.sortBy(e, e.a).map(e, e.n)", json!([2, 3, 1])),
        ("self.o.sortBy(e, self.o.sortBy(f, f.n)[0].n - e.n)[0].n", json!(3)),
        ("self.l.reverse()", json!([1, 2, 1, 3])),
        ("self.l.distinct()", json!([3, 1, 2])),
        ("self.l.slice(1, 3)", json!([1, 2])),
        ("[self.l, dyn([4])].flatten()", json!([3, 1, 2, 1, 4])),
        ("[[dyn(1), dyn([dyn(2), dyn([3])])]].flatten(2)", json!([1, 2, [3]])),
        ("lists.range(3) + lists.range(-1)", json!([0, 1, 2])),
        ("[].sort()", json!([])),
    ] {
        let got = run(source, &object).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(got.to_json(), Some(wanted), "{source}");
    }
    for (source, wanted) in [
        ("self.l.slice(1, 9)", "cannot slice(1, 9), list is length 4"),
        ("self.l.slice(2, 1)", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("self.l.slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("self.l.flatten(-1)", "level must be non-negative"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
    ] {
        assert_eq!(run(source, &object).unwrap_err(), wanted, "{source}");
    }
}

#[test]
fn what_fails_says_so_in_the_words_of_cel_go() {
    for (source, wanted) in [
        ("self.gone", "no such key: gone"),
        ("1 / (self.n - 3)", "division by zero"),
        ("self.list[9]", "index out of bounds: 9"),
        ("self.n + 9223372036854775807", "integer overflow"),
    ] {
        let object = json!({"n": 3, "list": [1]});
        assert_eq!(run(source, &object).unwrap_err(), wanted, "{source}");
    }
}

fn typed() -> Declarations {
    let fields = [("n", Type::Int), ("s", Type::String), ("l", Type::List(Box::new(Type::Int)))];
    let fields = fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    Declarations::new().with("self", Type::Object(Arc::new(Object { name: "object".into(), fields })))
}

#[test]
fn what_cannot_work_is_refused_before_it_runs() {
    let refused = |source: &str| {
        Program::compile(source, &typed(), Expected::Bool).map(|_| ()).expect_err(source).to_string()
    };
    assert_eq!(
        refused("self.gone > 1"),
        "ERROR: <input>:1:5: undefined field 'gone'\n | self.gone > 1\n | ....^"
    );
    assert_eq!(
        refused("other == 1"),
        "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other == 1\n | ^"
    );
    assert_eq!(
        refused("self.n == 'a'"),
        "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.n == 'a'\n | .......^"
    );
    assert_eq!(refused("self.n"), "must evaluate to bool but got int");
    assert!(refused("self.n ==").starts_with("ERROR: <input>:1:"));
    assert!(refused("self.s.nonsense()").contains("undeclared reference to 'nonsense'"));
    assert!(refused("Message{field: 1} == 1").contains("undeclared reference"));
    for fine in
        ["self.l.all(x, x > self.n)", "self.s.matches('^a')", "has(self.s) && self.l.map(x, x + 1)[0] == 2"]
    {
        Program::compile(fine, &typed(), Expected::Bool).unwrap_or_else(|e| panic!("{fine}: {e}"));
    }
}

#[test]
fn patterns_are_of_gos_syntax() {
    let object = json!({"e": "\u{e9}", "digit": "\u{661}", "space": "\u{a0}"});
    for (source, wanted) in [
        (r"self.e.matches(r'^\w$')", false),
        (r"self.e.matches(r'^[\w]$')", false),
        (r"self.e.matches(r'^\W$')", true),
        (r"self.e.matches(r'^\pL$')", true),
        (r"self.e.matches(r'^.$')", true),
        (r"self.digit.matches(r'^\d$')", false),
        (r"self.digit.find(r'\D') == self.digit", true),
        (r"self.space.matches(r'^\s$')", false),
        (r"('a' + self.e).matches(r'a\b')", true),
        (r"('a' + self.e).findAll(r'\w') == ['a']", true),
        (r"'a{'.matches('a{$')", true),
    ] {
        assert_eq!(run(source, &object).unwrap().as_bool(), Some(wanted), "{source}");
    }
}

/// Each would take ages or all memory without the bounds.
#[test]
fn bombs_end() {
    let long: Vec<i64> = (0..2000).collect();
    let object = json!({"list": long, "s": "a".repeat(1 << 20), "quotes": "\"".repeat(1 << 16)});
    let doubled = (0..40).fold("[self.s]".to_owned(), |source, _| format!("{source}.map(a, a + a)"));
    let nested = (0..40).fold("[self.s]".to_owned(), |source, _| format!("{source}.map(a, [a, a])"));
    let quoted = (0..30).fold("self.quotes".to_owned(), |source, _| format!("strings.quote({source})"));
    for source in [
        "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
        "self.s.replace('a', self.s) == ''",
        "lists.range(100000000000).size() == 0",
        &format!("{doubled}.size() == 0"),
        &format!("{nested}.size() == 0"),
        &format!("{quoted}.size() == 0"),
    ] {
        let started = Instant::now();
        let outcome = run(source, &object);
        assert!(outcome.is_err(), "{source}");
        assert!(started.elapsed() < Duration::from_secs(20), "{source} took {:?}", started.elapsed());
    }
}

#[test]
fn absurd_texts_are_refused_and_do_not_overflow_a_stack() {
    for source in [
        "(".repeat(5000),
        vec!["1"; 5000].join("+"),
        "[".repeat(3000) + &"]".repeat(3000),
        format!("self{}", ".a".repeat(5000)),
        "a".repeat(MAX_SOURCE + 1),
        "\u{0}\u{1}'".to_owned(),
    ] {
        assert!(
            Program::compile(&source, &typed(), Expected::Any).is_err(),
            "{}…",
            &source[..8.min(source.len())]
        );
    }
}

#[test]
fn a_budget_is_shared_by_all_expressions_of_one_evaluator() {
    let declarations = Declarations::new().with("self", Type::Dyn);
    let program =
        Program::compile("self.all(a, self.all(b, a >= 0))", &declarations, Expected::Bool).unwrap();
    let limits = Limits { steps: 30_000, ..Limits::default() };
    let mut evaluator = Evaluator::new(limits);
    evaluator.set("self", Value::from_json(&json!((0..60).collect::<Vec<i64>>())));
    assert_eq!(evaluator.bool(&program), Ok(true));
    assert_eq!(evaluator.bool(&program), Err(EvalError::Budget));
    assert_eq!(evaluator.bool(&program), Err(EvalError::Budget));
}

#[test]
fn one_expression_may_cost_a_part_of_the_budget_alone() {
    let declarations = Declarations::new().with("self", Type::Dyn);
    let compile = |text: &str| Program::compile(text, &declarations, Expected::Bool).unwrap();
    let mut evaluator = Evaluator::new(Limits { call: 50_000, ..Limits::default() });
    evaluator.set("self", Value::from_json(&json!((0..60).collect::<Vec<i64>>())));
    for _ in 0..3 {
        assert_eq!(evaluator.bool(&compile("self.all(a, self.all(b, a >= 0))")), Ok(true));
    }
    assert_eq!(
        evaluator.bool(&compile("self.all(a, self.all(b, self.exists(c, c == 59)))")),
        Err(EvalError::Call)
    );
    assert_eq!(evaluator.bool(&compile("true")), Err(EvalError::Budget), "nothing runs after it");
    // The suite of Kubernetes has such a rule.
    let mut evaluator = Evaluator::new(Limits { time: Duration::from_secs(600), ..Limits::default() });
    evaluator.set("self", Value::from_json(&json!(vec![20; 725])));
    assert_eq!(evaluator.bool(&compile("self.all(x, self.all(y, y == x))")), Err(EvalError::Call));
}

#[test]
fn an_authorizer_is_asked_what_the_expression_asks() {
    struct OnlyPods;
    impl Authorizer for OnlyPods {
        fn check(&self, question: &Question) -> Decision {
            Decision {
                allowed: question.resource == "pods" && question.verb == "create",
                ..Decision::default()
            }
        }
    }
    let mut evaluator = Evaluator::new(Limits::default());
    evaluator.set("authorizer", Value::authorizer(Arc::new(OnlyPods), Question::default()));
    let ask = |evaluator: &Evaluator, source: &str| {
        let program = Program::compile(source, &Declarations::admission(), Expected::Bool).unwrap();
        evaluator.bool(&program)
    };
    assert_eq!(ask(&evaluator, "authorizer.group('').resource('pods').check('create').allowed()"), Ok(true));
    assert_eq!(
        ask(&evaluator, "authorizer.group('').resource('nodes').check('create').allowed()"),
        Ok(false)
    );
}

#[test]
fn names_that_are_no_identifiers_are_escaped() {
    for (name, escaped) in [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
    ] {
        assert_eq!(escape(name).as_deref(), Some(escaped));
        assert_eq!(unescape(escaped), name);
    }
    assert_eq!((escape("a b"), escape("1a"), escape("")), (None, None, None));
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// No text makes the reader, the checker or the interpreter do more than answer.
        #[test]
        fn any_text_is_answered(parts in prop::collection::vec(prop::sample::select(vec![
            "self", "oldSelf", ".a", "[0]", "?", ":", "(", ")", "1", "'x'", " + ", " - ", " == ", " && ", " in ", ".map(x, ",
            ".all(x, ", "has(", "x", "{", "}", ",", "[", "]", "!", "size(", ".matches('(a+)+$')", "duration('1h')", "null", "1.5",
            "b'a'", "u", ".?b", "optional.of(", ".format([", "quantity('1')", "timestamp(", "type(", "dyn(", "%", "/ 0", "/",
        ]), 0..24)) {
            let source = parts.concat();
            let declared = Declarations::new().with("self", Type::Dyn).with("oldSelf", Type::Dyn);
            if let Ok(program) = Program::compile(&source, &declared, Expected::Any) {
                let mut evaluator = Evaluator::new(Limits::default());
                evaluator.set("self", Value::from_json(&json!({"a": [1, "b", {"c": null}]})));
                evaluator.set("oldSelf", Value::null());
                let _ = evaluator.value(&program);
            }
        }
    }
}

#[test]
fn sets_and_lists_by_key_mind_no_order() {
    let set = || Lists::List(Elements::Set, Box::default());
    let keyed = || Lists::List(Elements::Keyed(vec!["k".into()]), Box::default());
    let fields = [("s", set()), ("m", keyed()), ("m2", keyed())];
    let lists = Lists::Fields(fields.map(|(name, lists)| (name.to_owned(), lists)).into());
    let declared = Declarations::new().with("self", Type::Dyn).listing("self", lists);
    let object = json!({"s": ["a", "b"], "l": ["a", "b"],
        "m": [{"k": "one", "v": 1}, {"k": "two", "v": 2}], "m2": [{"k": "two", "v": 2}, {"k": "one", "v": 2}]});
    for (source, wanted) in [
        ("self.s == ['b', 'a']", true),
        ("self.s != ['b', 'a']", false),
        ("['b', 'a'] == self.s", false),
        ("self.l == ['b', 'a']", false),
        ("self.s in [['b', 'a']]", true),
        ("self.s + ['a', 'c'] == ['c', 'a', 'b']", true),
        ("size(self.s + ['a', 'c']) == 3 && (self.s + ['c'])[2] == 'c'", true),
        ("size(self.l + ['a', 'c']) == 4", true),
        ("self.m == self.m2", false),
        ("size(self.m + self.m2) == 2 && (self.m + self.m2).all(x, x.v == 2)", true),
        ("(self.m + self.m2) == self.m2", true),
        ("[self].all(x, x.s == ['b', 'a'])", false),
    ] {
        let program = Program::compile(source, &declared, Expected::Bool).unwrap();
        let mut evaluator = Evaluator::new(Limits::default());
        evaluator.set("self", Value::from_json(&object));
        assert_eq!(evaluator.bool(&program).unwrap(), wanted, "{source}");
    }
}

/// What is compiled when somebody writes an expression must not take long either, nor tell of it at any length.
#[test]
fn the_largest_expressions_are_read_quickly_and_told_of_briefly() {
    let fill = |part: &str, join: &str| vec![part; MAX_SOURCE / (part.len() + join.len())].join(join);
    for source in [
        fill("true", "||"),
        fill("self.a", "&&"),
        format!("[{}0]", fill("[]", ",").split_off(64)),
        fill("[1].all(x,x>0)", "&&"),
        "!".repeat(8000) + "true",
        "in ".repeat(5000),
        fill("none", "&&"),
        "\"\\".repeat(8000),
        fill("'x'.matches('((a?){100}){100}')", "&&"),
    ] {
        let started = Instant::now();
        let outcome = Program::compile(&source, &typed(), Expected::Any);
        let (took, shown) = (started.elapsed(), &source[..24]);
        assert!(took < Duration::from_secs(5), "{shown} took {took:?}");
        if let Err(error) = outcome {
            let told = error.to_string().len();
            assert!(told < 256 << 10, "{shown} is told of in {told} bytes");
        }
    }
}

#[test]
fn values_that_are_taken_count_and_can_be_used() {
    let program =
        Program::compile("self.a == 1", &Declarations::new().with("self", Type::Dyn), Expected::Bool);
    let program = program.unwrap();
    let budget = Budget::new(Limits { work: 1_000, ..Limits::of_a_request() });
    let taken = |object: &serde_json::Value| {
        let mut evaluator = Evaluator::within(Limits::default(), &budget);
        evaluator.take("self", Value::from_json(object));
        evaluator.bool(&program)
    };
    assert_eq!(taken(&json!({"a": 1})), Ok(true));
    assert_eq!(taken(&json!({"a": 1, "b": vec![0; 2000]})), Err(EvalError::Budget));
    assert_eq!(taken(&json!({"a": 1})), Err(EvalError::Budget), "the budget is everybody's");
}

/// Calls without a loop whose work grows with what they are given.
#[test]
fn a_call_costs_what_it_does() {
    let letters = |first: &str, last: &str| first.repeat(30_000) + last;
    let object = json!({"x": letters("a", "b"), "y": letters("b", "c")});
    for source in [
        "sets.contains(self.x.split(''), self.y.split(''))",
        "self.x.split('').exists(one, sets.intersects(self.y.split(''), ['d', one]))",
        "'%.2000000000f'.format([1.0]) == ''",
        "self.x.matches('((a?){200}){200}c')",
    ] {
        let started = Instant::now();
        let outcome = run(source, &object);
        assert!(outcome.is_err(), "{source}");
        assert!(started.elapsed() < Duration::from_secs(5), "{source} took {:?}", started.elapsed());
    }
}

/// The parser looked at what stands behind two signs twice: forty of these took it years.
#[test]
fn nested_signs_are_read_once() {
    let nested = |open: &str, times: usize| {
        let closed = open.matches('(').count() * times;
        format!("{}1{} == 1", open.repeat(times), ")".repeat(closed))
    };
    for (open, times, is_expression) in [
        ("-(-", 20, true),
        ("!(!", 20, false),
        ("-|-(", 30, false),
        ("-)-(", 30, false),
        ("'\\q -(-", 30, false),
        ("'\n-(-", 30, false),
        ("-(-", 400, false),
    ] {
        let (begun, source) = (Instant::now(), nested(open, times));
        let came = run(&source, &json!(null));
        assert_eq!(came.is_ok(), is_expression, "{source}: {came:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{source}");
    }
}
