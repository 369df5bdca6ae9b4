//! Who reads the recorded cases of the reference implementation: `proto/api/tests/recorded/readers.tsv`.
//!
//! That a test looks at the cases that stand beside it there, it says itself; that it is a test, and reads that file, is held here.

use regex::Regex;

use crate::sources::{all_rust_files, tests_of};

#[test]
fn every_reader_of_recordings_is_a_test_that_reads_them() {
    let texts = all_rust_files();
    let lines = include_str!("../../../proto/api/tests/recorded/readers.tsv").lines().skip(1);
    for line in lines {
        let mut fields = line.split('\t');
        let (file, reader) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        if reader == "-" {
            continue;
        }
        let call = format!(r#"run\(\s*"{}",\s*"{reader}","#, regex::escape(file));
        let call = Regex::new(&call).expect("an expression");
        // Few files name both: of those alone the tests are looked for.
        let names = |text: &str| text.contains(reader) && text.contains(file);
        let reads = |text: &str| names(text) && call.is_match(text) && tests_of(text).contains(reader);
        assert!(texts.iter().any(|(_, text)| reads(text)), "{file}: no test {reader} reads it");
    }
}

#[test]
fn a_function_is_a_test_by_what_stands_above_it() {
    let text = "#[test]\nfn one() {}\nfn two() {}\n#[tokio::test(start_paused = true)]\n// why\nasync fn three() {}\n#[test]\n#[ignore = \"long\"]\nfn four() {}";
    assert_eq!(tests_of(text).into_iter().collect::<Vec<_>>(), ["four", "one", "three"]);
}
