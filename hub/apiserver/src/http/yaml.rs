//! Bodies in YAML, read as kube-apiserver reads them: as YAML 1.1 where that differs and clients may meet it.
//!
//! In: a body. Out: the JSON it stands for; of keys that are given twice the last counts, and the first such is told of apart. Its
//! reader of YAML 1.2 sees the line ends of 1.1 as line ends, but for those in block texts.

use std::borrow::Cow;

use bytes::Bytes;
use karmada_definitions::status::Status;
use karmada_schema::bounded::Bounded;
use serde_json::Value;

/// What a body may stand for, once its aliases are followed: four times what a body may have.
const MOST: usize = 12 << 20;

/// A body that was read.
#[derive(Debug)]
pub(super) struct Document {
    /// What it holds.
    pub value: Value,
    /// What is said of the first key that is given twice in one map.
    pub twice: Option<String>,
}

/// Reads a body.
pub(super) fn parse(bytes: &Bytes) -> Result<Value, Status> {
    read(bytes).map(|document| document.value)
}

/// Reads a body, and looks for keys given twice: seldom, so that it is read again only where there are any.
pub(super) fn read(bytes: &Bytes) -> Result<Document, Status> {
    let text = text(bytes)?;
    let nodes = most_nodes(text.len());
    let once = serde_saphyr::options! {
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! { max_nodes: nodes, max_events: 4 * nodes },
    };
    let (Bounded::<MOST>(mut value), twice) = match serde_saphyr::from_str_with_options(&text, once) {
        Ok(value) => (value, None),
        Err(error) => {
            let last = serde_saphyr::options! {
                legacy_octal_numbers: true,
                budget: serde_saphyr::budget! { max_nodes: nodes, max_events: 4 * nodes },
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            };
            let told = duplicate(&error.to_string());
            let read =
                if told.is_some() { serde_saphyr::from_str_with_options(&text, last) } else { Err(error) };
            let bad = |error| Status::bad_request(format!("error converting YAML to JSON: {error}"));
            (read.map_err(bad)?, told)
        }
    };
    whole_numbers(&mut value);
    Ok(Document { value, twice })
}

/// Nodes that a text of so many bytes may stand for: an alias repeats what was written once, and aliases of aliases multiply.
fn most_nodes(bytes: usize) -> usize {
    10_000 + 2 * bytes
}

/// The reader's error in kube-apiserver's words, where it is of a key that is given twice.
fn duplicate(error: &str) -> Option<String> {
    let (before, rest) = error.split_once(": duplicate mapping key: ")?;
    let line = before.split_once("line ")?.1.split(' ').next()?;
    let key = rest.split(", set ").next()?;
    Some(format!("line {line}: key {key:?} already set in map"))
}

fn text(bytes: &Bytes) -> Result<Cow<'_, str>, Status> {
    let text = std::str::from_utf8(bytes).map_err(|_| Status::bad_request("yaml: invalid UTF-8"))?;
    Ok(old_line_ends(text))
}

/// The text with the line ends of YAML 1.1 alone in those that YAML 1.2 knows too. In quotes only the one is changed that means
/// the same there; JSON has no lines.
fn old_line_ends(text: &str) -> Cow<'_, str> {
    const OLD: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    if text.trim_start().starts_with('{') || !text.contains(OLD) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let (mut quote, mut escaped, mut last) = (None, false, '\n');
    for c in text.chars() {
        match quote {
            Some('"') if c == '\\' => escaped = !escaped,
            Some(open) if c == open && !escaped => quote = None,
            Some(_) => escaped = false,
            // A quote opens only where a text may begin.
            None if matches!(c, '"' | '\'') && matches!(last, '\n' | ':' | ',' | '[' | '{' | '-' | '?') => {
                quote = Some(c);
            }
            None => {}
        }
        let ends = c == '\u{85}' || (quote.is_none() && OLD.contains(&c));
        let shown = if ends { '\n' } else { c };
        out.push(shown);
        if !matches!(shown, ' ' | '\t') {
            last = shown;
        }
    }
    out.into()
}

/// Numbers without a fraction are written without one, however they were given: `1e3` is 1000.
fn whole_numbers(value: &mut Value) {
    const LARGEST: f64 = 9.0e15;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < LARGEST);
            if let Some(whole) = whole {
                *number = serde_json::Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine lines, each nine times the one before: half a kilobyte that stands for 3.5 billion texts.
    #[test]
    fn aliases_of_aliases_stand_for_no_more_than_a_text_of_their_length_may() {
        let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
        for (before, name) in ('a'..='i').zip('b'..='j') {
            let nine = vec![format!("*{before}"); 9].join(",");
            text.push_str(&format!("{name}: &{name} [{nine}]\n"));
        }
        assert_eq!(parse(&text.into()).unwrap_err().code, 400);
        // One long text, each alias of it a node, and as many anchors as the reader wants beside them.
        let aliases: String = (0..600).map(|at| format!("&n{at} 1, {}", "*a, ".repeat(8))).collect();
        let long = format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(100_000));
        let refused = parse(&long.into()).unwrap_err();
        assert_eq!(refused.code, 400);
        assert!(refused.message.contains("stands for more than 12582912 bytes"), "{}", refused.message);
        let plain = "a: &a {x: z}\nb: *a\nc: [*a, *a, *a]\n";
        assert_eq!(parse(&plain.into()).unwrap()["c"][2]["x"], "z");
        let long = format!("data: [{}]\n", vec!["x"; 100_000].join(","));
        assert_eq!(parse(&long.into()).unwrap()["data"].as_array().unwrap().len(), 100_000);
    }
    use serde_json::json;

    fn read(text: &str) -> Value {
        parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn lines_end_as_they_did_in_yaml_1_1() {
        for end in ["\u{85}", "\u{2028}", "\u{2029}"] {
            assert_eq!(
                read(&format!("a: 1{end}b: it's{end}c: {{d: e}}{end}")),
                json!({"a": 1, "b": "it's", "c": {"d": "e"}})
            );
        }
        assert_eq!(read("a: \"x\u{2028}y\"\nb: 'x\u{2028}y'"), json!({"a": "x\u{2028}y", "b": "x\u{2028}y"}));
        assert_eq!(read("{\"a\": \"x\u{85}y\"}"), json!({"a": "x\u{85}y"}));
    }

    #[test]
    fn the_last_of_two_keys_counts_and_is_told_of() {
        let body = Bytes::from_static(b"a:\n  k: 1\n  k: 2\n");
        let document = super::read(&body).unwrap();
        assert_eq!(document.value, json!({"a": {"k": 2}}));
        assert_eq!(document.twice.as_deref(), Some("line 3: key \"k\" already set in map"));
        assert_eq!(super::read(&Bytes::from_static(b"a: {k: 1}\nb: {k: 1}")).unwrap().twice, None);
        // What is no YAML further on is told of first: the whole is read before keys are looked at.
        super::read(&Bytes::from_static(b"a: 1\na: 2\nb: [")).unwrap_err();
    }

    #[test]
    fn numbers_without_a_fraction_are_whole() {
        let text = read("[1e3, 5., 1.0, 1.5, 1e21, 0777]").to_string();
        assert_eq!(text, "[1000,5,1,1.5,1e+21,511]");
    }

    #[test]
    fn aliases_that_multiply_are_refused_before_they_do() {
        let mut text = String::from("l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
            text.push_str(&format!("l{level}: &l{level} [{aliases}]\n"));
        }
        let refused = parse(&Bytes::from(text)).unwrap_err();
        assert_eq!(refused.code, 400, "{}", refused.message);
        // One long text, named often.
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a, ".repeat(5000));
        let refused = parse(&Bytes::from(long)).unwrap_err();
        assert_eq!(refused.code, 400, "{}", refused.message);
        let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse(&Bytes::from(deep)).unwrap_err().code, 400);
    }
}
