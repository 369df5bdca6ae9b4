//! The reader against what Go's sigs.k8s.io/yaml 1.6 makes of the same texts.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MOST: usize = 12 << 20;

fn value(text: &str) -> Value {
    read::<MOST>(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// A scalar as it is written, and the JSON that Go makes of it.
#[rustfmt::skip]
const NUMBERS: &[(&str, &str)] = &[
    ("0", "0"), ("00", "0"), ("0644", "420"), ("0400", "256"), ("01234", "668"), ("0_7", "7"), ("-0644", "-420"), ("+0644", "420"),
    ("0899", "899"), ("08", "8"), ("09.5", "9.5"), ("010.5", "10.5"), ("0o17", "15"), ("0x1F", "31"), ("0b101", "5"), ("-0x10", "-16"),
    ("1_000", "1000"), ("+5", "5"), ("1e3", "1000"), ("1E3", "1000"), ("1e+3", "1000"), ("1e-3", "0.001"), ("0e0", "0"), ("5.e2", "500"),
    ("1.0", "1"), ("1.", "1"), ("-.5", "-0.5"), ("1.5", "1.5"), ("0.1", "0.1"), ("0.30000000000000004", "0.30000000000000004"),
    ("9007199254740993", "9007199254740993"), ("9007199254740993.0", "9007199254740992"), ("1e16", "10000000000000000"),
    ("9223372036854775807", "9223372036854775807"), ("18446744073709551615", "18446744073709551615"),
    ("-9223372036854775808", "-9223372036854775808"), ("0777777777777777777777", "9223372036854775807"), ("1e21", "1e+21"),
    ("123456789012345678901234567890", "1.2345678901234568e+29"), ("1.7976931348623157e308", "1.7976931348623157e+308"),
];

#[rustfmt::skip]
const BOOLEANS: &[(&str, bool)] = &[
    ("true", true), ("True", true), ("TRUE", true), ("yes", true), ("Yes", true), ("YES", true), ("on", true), ("On", true),
    ("ON", true), ("y", true), ("Y", true), ("false", false), ("no", false), ("No", false), ("NO", false), ("off", false),
    ("Off", false), ("OFF", false), ("n", false), ("N", false),
];

#[rustfmt::skip]
const TEXTS: &[&str] = &[
    "0b12", "_1", "inf", "nan", "NaN", "Infinity", "12:30:45", "2001-01-01", "2001-01-01T00:00:00Z", "1,000", "0x", "0o8", "1.2.3",
    "127.0.0.1", "1e", "e3", "1e3e3", "nULL", "100m", "1Gi",
];

#[test]
fn scalars_are_what_they_are_to_go() {
    for (written, wanted) in NUMBERS {
        assert_eq!(value(&format!("a: {written}\n"))["a"].to_string(), *wanted, "{written}");
    }
    for (written, wanted) in BOOLEANS {
        assert_eq!(value(&format!("a: {written}\n"))["a"], *wanted, "{written}");
    }
    for written in TEXTS {
        assert_eq!(value(&format!("a: {written}\n"))["a"], *written);
    }
    for written in ["", "~", "null", "Null", "NULL"] {
        assert_eq!(value(&format!("a: {written}\n"))["a"], Value::Null, "{written}");
    }
    for written in ["0644", "yes", "1e3", "null", "~"] {
        for quoted in [format!("'{written}'"), format!("\"{written}\""), format!("!!str {written}")] {
            assert_eq!(value(&format!("a: {quoted}\n"))["a"], written, "{quoted}");
        }
    }
    assert!(read::<MOST>("a: .inf").is_err() && read::<MOST>("a: .nan").is_err());
}

/// Beyond 64 bits Go writes all digits, and this an exponent: it is the same number.
#[test]
fn large_numbers_keep_their_worth() {
    for (written, worth) in [("1e20", 1e20), ("18446744073709551616", 18446744073709551616.0)] {
        assert_eq!(value(written).as_f64(), Some(worth));
    }
}

#[test]
fn keys_stay_as_they_are_written() {
    assert_eq!(value("on: 1\n0644: 2\nyes: 3"), json!({"on": 1, "0644": 2, "yes": 3}));
}

#[test]
fn anchors_repeat_what_was_read() {
    let text = "x: &d {m: 0644, k: on}\nz:\n  <<: *d\n  k: off\nl: [*d, &e 1e3, *e]\n";
    let d = json!({"m": 420, "k": true});
    assert_eq!(value(text), json!({"x": d, "z": {"m": 420, "k": false}, "l": [d, 1000, 1000]}));
    assert!(read::<MOST>("a: *nope").is_err() && read::<MOST>("a: &a [*a]").is_err());
}

#[test]
fn documents_are_read_each_and_empty_ones_left_out() {
    let text = "mode: 0644\n---\n---\n# nothing\n---\nmode: 1e3\n...\n---\n[yes]\n";
    let all = read_all::<MOST>(text).unwrap();
    assert_eq!(Value::from(all).to_string(), r#"[{"mode":420},{"mode":1000},[true]]"#);
    assert!(read::<MOST>(text).is_err() && read_all::<MOST>("a: 1\n---\na: [").is_err());
    // As many documents as a folder of manifests may have, joined.
    assert_eq!(read_all::<MOST>(&"a: 1\n---\n".repeat(5000)).unwrap().len(), 5000);
    let long = "x".repeat(1000);
    assert!(read_all::<1000>(&format!("a: 1\n---\na: {long}\n")).is_err());
}

#[test]
fn what_is_read_into_a_type_is_read_alike() {
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct File {
        mode: u32,
        on: bool,
    }
    assert_eq!(read_as::<File>("mode: 0644\non: yes\n").unwrap(), File { mode: 420, on: true });
    let error = read_as::<File>("mode: 0644\non: maybe\n").unwrap_err();
    assert_eq!(error.place.unwrap().to_string(), "line 2, column 5");
}

#[test]
fn lines_end_as_they_did_in_yaml_1_1() {
    for end in ["\u{85}", "\u{2028}", "\u{2029}"] {
        assert_eq!(
            value(&format!("a: 1{end}b: it's{end}c: {{d: e}}{end}")),
            json!({"a": 1, "b": "it's", "c": {"d": "e"}})
        );
    }
    assert_eq!(value("a: \"x\u{2028}y\"\nb: 'x\u{2028}y'"), json!({"a": "x\u{2028}y", "b": "x\u{2028}y"}));
    assert_eq!(value("{\"a\": \"x\u{85}y\"}"), json!({"a": "x\u{85}y"}));
}

#[test]
fn the_last_of_two_keys_counts_and_is_told_of() {
    let read = |text: &str| read_twice_given::<MOST>(text);
    let document = read("a:\n  k: 0644\n  k: 1e3\n").unwrap();
    assert_eq!(document.value.to_string(), r#"{"a":{"k":1000}}"#);
    assert_eq!(document.twice.as_deref(), Some("line 3: key \"k\" already set in map"));
    assert_eq!(read("a: {k: 1}\nb: {k: 1}").unwrap().twice, None);
    // What is no YAML further on is told of first: the whole is read before keys are looked at.
    read("a: 1\na: 2\nb: [").unwrap_err();
    assert!(super::read::<MOST>("a: 1\na: 2").is_err());
}

/// Nine lines, each nine times the one before: half a kilobyte that stands for 3.5 billion texts.
#[test]
fn aliases_of_aliases_stand_for_no_more_than_a_text_of_their_length_may() {
    let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (before, name) in ('a'..='i').zip('b'..='j') {
        let nine = vec![format!("*{before}"); 9].join(",");
        text.push_str(&format!("{name}: &{name} [{nine}]\n"));
    }
    read::<MOST>(&text).unwrap_err();
    // One long text, each alias of it a node, and as many anchors as the reader wants beside them.
    let aliases: String = (0..600).map(|at| format!("&n{at} 1, {}", "*a, ".repeat(8))).collect();
    let refused = read::<MOST>(&format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(100_000))).unwrap_err();
    assert!(refused.to_string().contains("stands for more than 12582912 bytes"), "{refused}");
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a, ".repeat(5000));
    read::<MOST>(&long).unwrap_err();
    assert_eq!(value("a: &a {x: z}\nb: *a\nc: [*a, *a, *a]\n")["c"][2]["x"], "z");
    let long = format!("data: [{}]\n", vec!["x"; 100_000].join(","));
    assert_eq!(value(&long)["data"].as_array().unwrap().len(), 100_000);
    read::<MOST>(&format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000))).unwrap_err();
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalars = NUMBERS.iter().map(|(text, _)| *text).chain(BOOLEANS.iter().map(|(text, _)| *text));
    let treacherous: Vec<&str> =
        scalars.chain(TEXTS.iter().copied()).chain(["", "~", "null", "<<"]).collect();
    let text = prop_oneof![proptest::sample::select(treacherous).prop_map(str::to_owned), ".{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(value in any_value()) {
        let text = write(&value).unwrap();
        prop_assert_eq!(read::<MOST>(&text).unwrap(), value, "{}", text);
    }
}
