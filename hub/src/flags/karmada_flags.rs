//! Karmada's flags, as they were recorded: each is here with its default, or is documented with the reason why it is not.

use std::collections::BTreeSet;

use clap::{Args as _, Command};

use super::Serve;

const RECORDED: &str = include_str!("../../data/karmada_flags.tsv");
const PAGE: &str = include_str!("../../README.md");

fn recorded() -> Vec<(&'static str, &'static str, &'static str)> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap();
        (next(), next(), next())
    };
    lines.map(row).collect()
}

/// The default of a flag of `serve`; none where there is no such flag.
fn default_of(command: &Command, flag: &str) -> Option<String> {
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    let values = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    Some(values.collect::<Vec<_>>().join(","))
}

#[test]
fn each_flag_is_here_with_its_default_or_documented_with_the_reason_why_it_is_not() {
    let command = Serve::augment_args(Command::new("serve"));
    for (flag, default, place) in recorded() {
        let wanted = (place == "here").then(|| default.to_owned());
        assert_eq!(default_of(&command, flag), wanted, "--{flag}");
        let rows =
            PAGE.lines().filter(|line| line.starts_with("| `--") && line.contains(&format!("`--{flag}`")));
        assert_eq!(
            rows.count(),
            usize::from(place != "here"),
            "--{flag} in the table of flags that are none here"
        );
    }
}

#[test]
fn each_flag_is_recorded_once() {
    let names: BTreeSet<&str> = recorded().iter().map(|row| row.0).collect();
    assert_eq!(names.len(), recorded().len());
    assert!(recorded().iter().all(|row| ["here", "agent", "none"].contains(&row.2)));
}
