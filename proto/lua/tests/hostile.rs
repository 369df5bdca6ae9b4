//! Scripts that mean harm, and what becomes of them: an error, soon, and nothing else.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test of how long this machine is held")]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use karmada_lua::machine::{Call, Limits, Returned, ScriptError, compile, run};
use proptest::prelude::*;
use serde_json::{Value, json};

const LIMITS: Limits = Limits { memory: 16 << 20, time: Duration::from_millis(200) };

fn eval(script: &str, arguments: &[&Value]) -> Result<Vec<Returned>, ScriptError> {
    let call =
        Call { script, function: "Eval", arguments, references: arguments, now: Timestamp::UNIX_EPOCH };
    run(&call, LIMITS)
}

fn body(body: &str) -> Result<Vec<Returned>, ScriptError> {
    eval(&format!("function Eval(v)\n{body}\nend"), &[&json!({"a": [1, 2, 3]})])
}

/// Ends with an error (or an answer that is none), well within what a worker can spare.
fn ends(script: &str) {
    let start = Instant::now();
    let answer = body(script);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{script} took {took:?}");
    match answer {
        Err(_) => {}
        Ok(returned) => assert!(returned.iter().any(|r| r.value.is_err()), "{script} answered"),
    }
}

#[test]
fn nothing_holds_a_thread_for_ever() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function again() pcall(again) while true do pcall(again) end end again()",
        "repeat xpcall(function() error('x') end, function() while true do end end) until false",
        "local s = 'a' for i = 1, 19 do s = s .. s end return string.find(s, string.sub('.-.-.-.-.-.-.-.-.-.-.-.-.-.-.-x', 1, -1))",
        "local s = 'a' for i = 1, 19 do s = s .. s end for i = 1, 1e9 do string.match(s, '(.-)(.-)(.-)(.-)(.-)b') end",
        "local s = 'a' for i = 1, 19 do s = s .. s end for w in string.gmatch(s, '.*.*.*.*b') do end",
        "local s = 'a' for i = 1, 19 do s = s .. s end while true do string.find(s, s .. 'b', 1, true) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function() return true end) end",
        "local s = 'a' for i = 1, 21 do s = s .. s end local t = {} for i = 1, 1000 do t[i] = i .. 'x' end table.sort(t, function(a, b) return s .. a < s .. b end) while true do end",
        "for k in pairs({1}) do while true do end end",
        "for i = 1, 1e300 do end",
        "local n = 0 while true do n = n + #tostring(n) end",
        "while true do local f = load end",
        "local s = 'x' for i = 1, 22 do s = s .. s end while true do local t = s .. 'y' end",
        "local s = 'x' for i = 1, 20 do s = s .. s end while true do local t = string.upper(s) .. string.reverse(s) end",
        "while true do string.format('%99.99f', 1e308) end",
        "while true do os.date('%c') end",
    ] {
        ends(script);
    }
}

#[test]
fn nothing_fills_the_memory() {
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e7 do t[i] = i end return t",
        "local s = string.format('%99d', 1) local t = {} for i = 1, 1e6 do t[i] = s .. i end return table.concat(t)",
        "local s = 'x' for i = 1, 20 do s = s .. s end local t = {} for i = 1, 1e6 do t[i] = s end return t",
        "local s = 'x' for i = 1, 20 do s = s .. s end local t = {} for i = 1, 1e6 do t[i] = string.gmatch(s, 'x') end return t",
        "local s = 'x' for i = 1, 20 do s = s .. s end local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
        "return string.char(unpack(v, 1, 1e8))",
        "local t = {} for i = 1, 1e5 do t[i] = i end return string.char(unpack(t))",
        "return select(-1, unpack({}, 1, 1e7))",
        "local function f(...) return f(1, ...) end return f()",
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end local a, b = f() error('deep')",
        "local t = {} for i = 1, 1e4 do t = {t} end return t",
        "local t = {} t.t = t return t",
        "local t = {1} for i = 1, 40 do t = {t, t} end return t",
        "return string.format(v)",
    ] {
        ends(script);
    }
    let nested = "(".repeat(100_000);
    ends(&format!("return {nested}"));
    ends(&format!("return {}1{}", "{".repeat(10_000), "}".repeat(10_000)));
    ends(&"x".repeat(2 << 20));
}

#[test]
fn nothing_is_reached_outside() {
    for script in [
        "return io.open('/etc/passwd')",
        "return os.execute('true')",
        "return os.getenv('HOME')",
        "return debug.getregistry()",
        "return coroutine.create(print)",
        "return require('os').execute('true')",
        "return package.loadlib('libc.so', '*')",
        "return load('return 1')()",
        "return loadstring('return 1')()",
        "return string.dump(Eval)",
        "return getmetatable('').__index.rep('x', 10)",
        "return setmetatable({}, {__index = _G})",
        "return ('x'):rep(1e9)",
        "return dofile('/etc/passwd')",
        "return collectgarbage('stop')",
        "return newproxy(true)",
    ] {
        assert!(body(script).is_err(), "{script}");
    }
    assert!(eval("\u{1b}Lua", &[]).is_err(), "compiled code is not read");
}

/// Lua 5.2 compiles it to what writes beyond its stack.
#[test]
fn a_loop_over_a_long_list_is_refused_before_lua_reads_it() {
    for length in [4, 10, 100, 240] {
        let list = vec!["_"; length].join(",");
        let one = format!("function g() for _ in {list} do local function _() end end end\n");
        let script = format!("function Eval() return 1 end\n{}", one.repeat(200));
        assert!(matches!(compile(&script), Err(ScriptError::Syntax(_))), "{length}");
        assert!(matches!(eval(&script, &[]), Err(ScriptError::Syntax(_))), "{length}");
    }
}

/// Reading a script looks at no clock: a name is looked for in all functions around it.
#[test]
fn what_takes_long_to_read_is_too_large() {
    let script = |uses: usize| {
        let functions: String = (0..150)
            .map(|level| {
                let names: Vec<String> =
                    (0..60).map(|n| format!("{}{n}", char::from(b'b' + level % 20))).collect();
                format!("local function f() local {}\n", names.join(","))
            })
            .collect();
        format!("function Eval() return 1 end\n{functions}{}{}", "z()\n".repeat(uses), "end ".repeat(150))
    };
    let begun = Instant::now();
    let largest = script((65_536 - script(0).len()) / 4);
    assert!(largest.len() > 65_000 && compile(&largest).is_ok());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(matches!(compile(&script(17_000)), Err(ScriptError::Syntax(_))));
}

#[test]
fn what_a_script_does_not_touch_stays_as_it_is() {
    let object = json!({"spec": {"big": 9_007_199_254_740_993_i64, "none": null, "map": {}, "list": [],
        "items": [{"n": 9_223_372_036_854_775_807_i64, "e": []}, null, {"m": {}}], "f": 0.1, "u": u64::MAX}});
    let same = eval("function Eval(v) return v end", &[&object]).unwrap();
    assert_eq!(same[0].value, Ok(object.clone()));
    let moved =
        eval("function Eval(v) return {copy = v.spec.items, big = v.spec.big} end", &[&object]).unwrap();
    assert_eq!(moved[0].value.as_ref().unwrap()["copy"], object["spec"]["items"]);
    let changed =
        eval("function Eval(v) v.spec.f = 2 v.spec.items[1].n = 5 return v end", &[&object]).unwrap();
    let mut wanted = object.clone();
    wanted["spec"]["f"] = json!(2);
    wanted["spec"]["items"][0]["n"] = json!(5);
    assert_eq!(changed[0].value, Ok(wanted));
    let less = eval("function Eval(v) table.remove(v.spec.items, 1) return v end", &[&object]).unwrap();
    assert_eq!(less[0].value.as_ref().unwrap()["spec"]["items"], json!([{"m": {}}]));
}

#[test]
fn the_same_facts_give_the_same_answer() {
    let script = "function Eval(v)
        local t = {}
        for k in pairs(v) do t[#t + 1] = k end
        t[#t + 1] = math.random(1, 1000000)
        t[#t + 1] = os.time()
        t[#t + 1] = next(v)
        return t
    end";
    let object: Value =
        (0..50).map(|n| (format!("key-{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let first = eval(script, &[&object]).unwrap();
    for _ in 0..5 {
        assert_eq!(eval(script, &[&object]).unwrap(), first);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z.*|# ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z.]{0,4}", inner, 0..5).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_object_passes_through_unchanged(value in any_json()) {
        let object = json!({"spec": value});
        let same = eval("function Eval(v) return v end", &[&object]).unwrap();
        prop_assert_eq!(same[0].value.clone(), Ok(object));
    }

    #[test]
    fn any_text_is_answered(script in "\\PC{0,60}") {
        let _ = eval(&script, &[]);
        let _ = body(&script);
    }
}
