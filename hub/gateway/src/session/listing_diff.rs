//! A listing of which only the differences are sent: what the agent holds is compared with what it is to hold, by digests.
//!
//! In: the rows that a listing brings; the agent's root, the sums of its buckets, its rows in those that differ. Out: what to ask the agent
//! next, and in the end which rows it holds, which it holds otherwise, which it lacks, and what it holds beyond them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::body;
use karmada_proto::digest::{self, Buckets, Content, Root, Seed, WorkHeader, bucket};
use karmada_proto::v1;

use super::bounds::NAME;
use crate::ports::Work;
use crate::work_body;

/// Rows that one agent may name: more Works than any site has.
const ROWS: usize = 200_000;

/// Bytes of all the keys in them: of a million agents' sites none has so many.
const KEYS: usize = 16 << 20;

/// Bytes of a body's hash in a row.
const HASH: usize = 4;

/// What the agent is to hold of a Work.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The Work.
    pub(super) work: Work,
    /// The hash of its body; empty where it is being deleted.
    pub(super) hash: Bytes,
    pub(super) content: Content,
}

impl Row {
    /// Of a Work; `None` where it cannot be read.
    pub(super) fn of(work: &Work) -> Option<Self> {
        let (hash, content) = if work.deleting {
            (Bytes::new(), digest::deleting(&work.uid, work.preserve, &work.retry))
        } else {
            let hash = body::hash(&work_body::manifests(&work.body.json()).ok()?);
            let Work { ref uid, suspended, preserve, generation, ref retry, .. } = *work;
            let header = WorkHeader { uid, suspended, preserve, generation, retry };
            let content = digest::work_row(header, &hash);
            (hash, content)
        };
        Some(Self { work: work.clone(), hash, content })
    }
}

/// The root over what the agent of these Works is to hold.
pub fn root(seed: &Seed, works: &[Work]) -> Root {
    let mut root = Root::default();
    for (work, row) in works.iter().filter_map(|work| Some((work, Row::of(work)?))) {
        root.add(seed, &work.key, &row.content);
    }
    root
}

/// What one row came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// The agent holds it so.
    Same,
    /// The agent holds it with other marks, and perhaps the same body.
    Marks,
    /// The agent holds something else under this name.
    Other,
    /// The agent holds nothing under this name.
    Nothing,
}

/// What is asked of the agent, or the outcome.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// For the sums of its buckets.
    AskSums,
    /// For its rows in these.
    AskRows(Vec<u32>),
    /// More is to come.
    Wait,
    /// Nothing differs.
    Equal,
    /// What differs is known.
    Known,
    /// What the agent says is no answer to what was asked.
    Nonsense,
}

#[derive(Debug)]
enum Outstanding {
    Nothing,
    Sums,
    Rows(BTreeSet<u32>),
}

/// One comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    seed: Seed,
    rows: BTreeMap<Arc<str>, Row>,
    asked: Outstanding,
    theirs: BTreeMap<String, (Content, Bytes)>,
    /// Bytes of the keys in `theirs`.
    keys: usize,
}

impl Comparison {
    /// Of what an agent is to hold.
    pub(super) fn new(seed: Seed, rows: BTreeMap<Arc<str>, Row>) -> Self {
        Self { seed, rows, asked: Outstanding::Nothing, theirs: BTreeMap::new(), keys: 0 }
    }

    fn contents(&self) -> impl Iterator<Item = (&str, Content)> {
        self.rows.iter().map(|(key, row)| (&**key, row.content))
    }

    /// With the agent's root, where it told one.
    pub(super) fn begin(&mut self, theirs: Option<Root>) -> Step {
        if theirs == Some(Root::of(&self.seed, self.contents())) {
            return Step::Equal;
        }
        self.theirs.clear();
        self.keys = 0;
        self.asked = Outstanding::Sums;
        Step::AskSums
    }

    /// The agent answers with the sums of its buckets.
    pub(super) fn sums(&mut self, sums: &[u8]) -> Step {
        let (Outstanding::Sums, Some(theirs)) = (&self.asked, Buckets::read(sums)) else {
            return Step::Nonsense;
        };
        let differing = Buckets::of(&self.seed, self.contents()).differing(&theirs);
        if differing.is_empty() {
            return Step::Equal;
        }
        self.asked = Outstanding::Rows(differing.iter().copied().collect());
        Step::AskRows(differing)
    }

    /// The agent answers with rows.
    pub(super) fn rows(&mut self, answer: v1::Rows) -> Step {
        let Outstanding::Rows(asked) = &self.asked else { return Step::Nonsense };
        for row in answer.rows {
            let Ok(content) = Content::try_from(&*row.content) else { return Step::Nonsense };
            self.keys += row.key.len();
            if row.hash.len() > HASH
                || row.key.len() > NAME
                || self.keys > KEYS
                || !asked.contains(&(bucket(&row.key) as u32))
                || self.theirs.len() >= ROWS
            {
                return Step::Nonsense;
            }
            self.theirs.insert(row.key, (content, Bytes::copy_from_slice(&row.hash)));
        }
        if answer.last { Step::Known } else { Step::Wait }
    }

    /// What each row came to. All are the same that are in no bucket which differs.
    pub(super) fn outcome(&mut self) -> Vec<(Row, Holds)> {
        let rows = std::mem::take(&mut self.rows);
        let judged = rows.into_iter().map(|(key, row)| {
            let differs =
                matches!(&self.asked, Outstanding::Rows(asked) if asked.contains(&(bucket(&key) as u32)));
            let holds = match self.theirs.get(&*key) {
                _ if !differs => Holds::Same,
                Some((content, _)) if *content == row.content => Holds::Same,
                Some((_, hash)) if hash.len() == HASH && row.hash.starts_with(hash) => Holds::Marks,
                Some(_) => Holds::Other,
                None => Holds::Nothing,
            };
            self.theirs.remove(&*key);
            (row, holds)
        });
        judged.collect()
    }

    /// After the outcome: what the agent holds beyond it.
    pub(super) fn beyond(self) -> Vec<String> {
        self.theirs.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Comparison {
        let mut comparison = Comparison::new(Seed::default(), BTreeMap::new());
        comparison.asked = Outstanding::Rows((0..1 << 16).collect());
        comparison
    }

    fn rows(keys: impl Iterator<Item = String>) -> v1::Rows {
        let row = |key| v1::Row { key, content: vec![0; 16].into(), ..v1::Row::default() };
        v1::Rows { rows: keys.map(row).collect(), ..v1::Rows::default() }
    }

    #[test]
    fn what_an_agent_says_that_it_holds_is_bounded() {
        let named = |length: usize| rows(std::iter::once("x".repeat(length)));
        assert_eq!(asked().rows(named(NAME)), Step::Wait);
        assert_eq!(asked().rows(named(NAME + 1)), Step::Nonsense);
        let mut comparison = asked();
        let many = |from: usize| rows((from..from + 1000).map(|at| format!("{at:0>250}")));
        let until = (0..ROWS).step_by(1000).find(|from| comparison.rows(many(*from)) == Step::Nonsense);
        assert!(until.is_some_and(|rows| rows <= KEYS / 250), "{until:?}");
    }
}
