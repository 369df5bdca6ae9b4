//! What Karmada does, statement by statement, and the tests that hold the hub to it: `statements.tsv`.
//!
//! A statement has tests, by their names, or says why it has none. A test whose name begins with `statement_` and a number stands in that number's
//! row, so that who reads the name finds what it is about.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::sources::{all_rust_files, functions_of, tests_of};

/// How many statements there are, numbered from one.
const STATEMENTS: usize = 80;

/// A statement's tests, and why it has none.
struct Row<'a> {
    tests: Vec<&'a str>,
    why_not: &'a str,
}

fn rows() -> BTreeMap<usize, Row<'static>> {
    let lines = include_str!("statements.tsv").lines().skip(1);
    let row = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_else(|| panic!("four columns: {line}"));
        let (number, statement, tests, why_not) = (next(), next(), next(), next());
        assert!(statement.ends_with('.'), "a statement is a sentence: {line}");
        let tests = tests.split(' ').filter(|test| *test != "-" && !test.is_empty()).collect();
        (number.parse().expect("a number"), Row { tests, why_not })
    };
    lines.map(row).collect()
}

#[test]
fn every_statement_has_its_tests_or_says_why_not() {
    let texts = all_rust_files();
    let functions: BTreeSet<&str> = texts.iter().flat_map(|(_, text)| tests_of(text)).collect();
    let rows = rows();
    assert!(rows.keys().copied().eq(1..=STATEMENTS), "each number once");
    for (number, Row { tests, why_not }) in &rows {
        assert_ne!(tests.is_empty(), why_not.is_empty(), "statement {number} has tests or says why not");
        for test in tests {
            assert!(functions.contains(test), "statement {number}: there is no test {test}");
        }
    }
    let numbered = Regex::new("^statement_([0-9]+)_").expect("an expression");
    let helpers = texts.iter().flat_map(|(_, text)| functions_of(text));
    for function in helpers.chain(functions.iter().copied()) {
        let Some(found) = numbered.captures(function) else { continue };
        let number: usize = found[1].parse().expect("digits");
        let listed = rows.get(&number).is_some_and(|row| row.tests.contains(&function));
        assert!(functions.contains(function), "{function} is no test");
        assert!(listed, "{function} does not stand in the row of statement {number}");
    }
}
