//! Who looks at which recorded case, and what we answer where we differ.
//!
//! In: `readers.tsv` (file, test, cases, why nobody does where the test is `-`) and `answers.tsv` (file, test, case,
//! digest of the difference). Out: the rows of one test and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{BESIDE, Differences};

const READERS: &str = include_str!("readers.tsv");
const ANSWERS: &str = include_str!("answers.tsv");

/// A line's fields, where it is one of `file`.
fn lines(text: &'static str, file: &str) -> impl Iterator<Item = [&'static str; 4]> {
    text.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_else(|| panic!("four columns: {line}"));
        Some([next(), next(), next(), next()]).filter(|fields| fields[0] == file)
    })
}

/// The files that `readers.tsv` names.
#[allow(dead_code, reason = "one test compares them with the folder")]
pub fn files() -> BTreeSet<&'static str> {
    READERS.lines().skip(1).filter_map(|line| line.split('\t').next()).collect()
}

/// `0-3,7` as the numbers that it means.
fn numbers(text: &str) -> BTreeSet<usize> {
    let number = |text: &str| text.parse::<usize>().unwrap_or_else(|_| panic!("{text} is no number"));
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            number(first)..=number(last)
        })
        .collect()
}

/// Numbers as they stand in the table.
fn text(numbers: &BTreeSet<usize>) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for number in numbers.iter().copied() {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let span = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    spans.iter().map(span).collect::<Vec<_>>().join(",")
}

/// A short name for a text: 64 bits of FNV-1a.
pub fn digest(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// What the tables say of one file, for one of its readers.
pub struct Rows<'a> {
    file: &'a str,
    reader: &'a str,
    /// The cases that this test looks at, and that others do.
    own: BTreeSet<usize>,
    others: BTreeSet<usize>,
    /// The cases that nobody looks at, and why.
    unread: BTreeMap<usize, &'static str>,
    /// Digests of what we answer where we differ.
    pub answers: BTreeMap<usize, &'static str>,
}

impl<'a> Rows<'a> {
    pub fn of(file: &'a str, reader: &'a str) -> Rows<'a> {
        let mut rows = Rows {
            file,
            reader,
            own: BTreeSet::new(),
            others: BTreeSet::new(),
            unread: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        for [_, who, cases, why] in lines(READERS, file) {
            match who {
                "-" => rows.unread.extend(numbers(cases).into_iter().map(|case| (case, why))),
                _ if who == reader => rows.own.extend(numbers(cases)),
                _ => rows.others.extend(numbers(cases)),
            }
        }
        let of_reader = lines(ANSWERS, file).filter(|[_, who, ..]| *who == reader);
        rows.answers = of_reader.map(|[_, _, case, digest]| (case.parse().unwrap(), digest)).collect();
        rows
    }

    /// The line for what we answer to a case.
    pub fn answer(&self, case: usize, digest: &str) -> String {
        format!("{}\t{}\t{case}\t{digest}", self.file, self.reader)
    }

    /// Whether that is why this test leaves out a case.
    pub fn is_left(&self, case: usize, why: &str) -> bool {
        match why {
            BESIDE => self.others.contains(&case) || self.unread.contains_key(&case),
            _ => self.unread.get(&case) == Some(&why),
        }
    }

    /// What is wrong with the tables, now that these of so many cases were looked at.
    pub fn complaints(
        &self,
        count: usize,
        looked_at: &BTreeSet<usize>,
        differences: Differences,
    ) -> Vec<String> {
        let mut complaints = Vec::new();
        if looked_at != &self.own || looked_at.is_empty() {
            complaints.push(format!(
                "readers.tsv would say\n{}\t{}\t{}\t",
                self.file,
                self.reader,
                text(looked_at)
            ));
        }
        let read: BTreeSet<usize> = self.own.union(&self.others).copied().collect();
        let unread: BTreeSet<usize> = self.unread.keys().copied().collect();
        let known: BTreeSet<usize> = read.union(&unread).copied().collect();
        let all: BTreeSet<usize> = (0..count).collect();
        if known != all {
            let odd: BTreeSet<usize> = known.symmetric_difference(&all).copied().collect();
            complaints.push(format!("cases that nobody looks at, or that are not there: {}", text(&odd)));
        }
        if let Some(case) = read.intersection(&unread).next() {
            complaints.push(format!("#{case} is looked at, and said not to be"));
        }
        let listed = |case: &&usize| !differences.iter().any(|(listed, _)| listed == *case);
        complaints.extend(
            self.answers
                .keys()
                .filter(listed)
                .map(|case| format!("#{case} has an answer, and is not listed")),
        );
        complaints
    }
}
