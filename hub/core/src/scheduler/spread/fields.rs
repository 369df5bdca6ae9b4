//! Spread over providers, zones and labels, beside or instead of clusters and regions.
//!
//! In: candidates in order of preference, which of them clusters and regions alone would choose, how many groups of each further field are
//! asked for. Out: a selection that has them all, or none found. A cluster in several zones counts for each of them; one without the label is
//! in no group of it.
//!
//! Finding the best selection of all would take a lifetime where fields cross each other. What is promised: a selection that already has
//! what is asked for stays as it is, what comes out always has it, and the work is bounded whatever the fleet and the policy are.

use std::collections::BTreeMap;

use karmada_api::cluster::Cluster;
use karmada_api::policy::SpreadConstraint;

use super::super::division::Candidate;
use super::{Bounds, SpreadError};

/// Constraints that are looked at.
const MOST_FIELDS: usize = 16;
/// How many choices of groups are tried, where there may not be all.
const MOST_CHOICES: usize = 16;
/// Comparisons that one repair may take.
const MOST_STEPS: usize = 5_000_000;

/// The further fields of a placement.
pub(super) struct Fields<'p>(Vec<(&'p SpreadConstraint, Bounds)>);

/// A field's value for a cluster, by the position of the field.
type Value<'a> = (usize, &'a str);

/// How many of the selected clusters stand in each group.
#[derive(Default)]
struct Counts<'a> {
    groups: BTreeMap<Value<'a>, usize>,
    /// By field: in how many of its groups any stands.
    filled: Vec<usize>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, values: &[Value<'a>]) {
        for value in values {
            let count = self.groups.entry(*value).or_default();
            *count += 1;
            self.filled[value.0] += usize::from(*count == 1);
        }
    }

    fn remove(&mut self, values: &[Value<'a>]) {
        for value in values {
            let count = self.groups.entry(*value).or_default();
            *count = count.saturating_sub(1);
            self.filled[value.0] -= usize::from(*count == 0);
        }
    }

    fn has(&self, value: &Value<'a>) -> bool {
        self.groups.get(value).is_some_and(|count| *count > 0)
    }
}

/// The groups of a field other than `cluster` in which a cluster stands.
pub fn values_of<'a>(constraint: &SpreadConstraint, cluster: &'a Cluster) -> Vec<&'a str> {
    let one = |text: &'a str| if text.is_empty() { Vec::new() } else { vec![text] };
    match constraint.spread_by_field.as_str() {
        "provider" => one(&cluster.spec.provider),
        "zone" => cluster.spec.zones.iter().map(String::as_str).collect(),
        "region" => one(&cluster.spec.region),
        _ => {
            let labels = cluster.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(&constraint.spread_by_label)).map_or(Vec::new(), |v| one(v))
        }
    }
}

impl<'p> Fields<'p> {
    /// The further fields among a placement's constraints; regions are among them, so that what is mended keeps theirs.
    pub(super) fn of(constraints: &'p [SpreadConstraint]) -> Result<Self, SpreadError> {
        let further = constraints.iter().filter(|c| c.spread_by_field != "cluster");
        let fields: Vec<_> = further.map(|constraint| (constraint, Bounds::of(Some(constraint)))).collect();
        if fields.len() > MOST_FIELDS {
            return Err(SpreadError(format!("at most {MOST_FIELDS} spread constraints can be looked at")));
        }
        Ok(Self(fields))
    }

    /// Whether any of them is neither clusters nor regions.
    pub(super) fn go_further(&self) -> bool {
        self.0.iter().any(|(constraint, _)| constraint.spread_by_field != "region")
    }

    fn values<'a>(&self, candidate: &Candidate<'a>) -> Vec<Value<'a>> {
        let of = |(at, (constraint, _)): (usize, &(&SpreadConstraint, Bounds))| {
            values_of(constraint, candidate.cluster).into_iter().map(move |value| (at, value))
        };
        self.0.iter().enumerate().flat_map(of).collect()
    }

    fn counts<'a>(&self, selected: &[Candidate<'a>]) -> Counts<'a> {
        let mut counts = Counts { groups: BTreeMap::new(), filled: vec![0; self.0.len()] };
        selected.iter().for_each(|candidate| counts.add(&self.values(candidate)));
        counts
    }

    fn within(&self, counts: &Counts<'_>) -> bool {
        self.0.iter().zip(&counts.filled).all(|((_, b), filled)| (b.min..=b.max).contains(filled))
    }

    /// Whether a selection has what all of them ask for.
    pub(super) fn hold(&self, selected: &[Candidate<'_>]) -> bool {
        self.within(&self.counts(selected))
    }

    /// Refuses where there are too few groups, whatever is selected.
    pub(super) fn enough(&self, candidates: &[Candidate<'_>]) -> Result<(), SpreadError> {
        let counts = self.counts(candidates);
        let few = self.0.iter().zip(&counts.filled).find(|((_, bounds), filled)| **filled < bounds.min);
        few.map_or(Ok(()), |((constraint, _), _)| {
            let field = [&constraint.spread_by_field, &constraint.spread_by_label];
            let field = field.into_iter().find(|text| !text.is_empty()).map_or("", String::as_str);
            let text = format!("the number of feasible {field} is less than spreadConstraint.MinGroups");
            Err(SpreadError(text))
        })
    }

    /// Lists of candidates that stay within what groups there may be, each beginning with another preferred cluster.
    pub(super) fn choices<'a>(&self, candidates: &[Candidate<'a>]) -> Vec<Vec<Candidate<'a>>> {
        let mut begun: Vec<Vec<Value<'a>>> = Vec::new();
        let mut choices = Vec::new();
        for candidate in candidates {
            let values = self.values(candidate);
            if begun.contains(&values) {
                continue;
            }
            choices.push(self.allowed(*candidate, candidates));
            begun.push(values);
            if begun.len() == MOST_CHOICES {
                break;
            }
        }
        choices
    }

    /// The candidates whose groups may all be used, where those of `first` are.
    fn allowed<'a>(&self, first: Candidate<'a>, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
        let mut counts = self.counts(&[first]);
        let mut takes = |candidate: &Candidate<'a>| {
            let values = self.values(candidate);
            let mut filled = counts.filled.clone();
            values.iter().filter(|value| !counts.has(value)).for_each(|value| filled[value.0] += 1);
            let fits = self.0.iter().zip(&filled).all(|((_, bounds), filled)| *filled <= bounds.max);
            if fits {
                counts.add(&values);
            }
            fits
        };
        candidates.iter().filter(|candidate| takes(candidate)).copied().collect()
    }

    /// The selection with clusters added or exchanged until every field has its fewest groups; none where that was not found. At most `most`
    /// clusters are selected. `candidates` keep within the most groups.
    pub(super) fn mended<'a>(
        &self,
        mut selected: Vec<Candidate<'a>>,
        candidates: &[Candidate<'a>],
        most: usize,
    ) -> Option<Vec<Candidate<'a>>> {
        let mut counts = self.counts(&selected);
        if self.within(&counts) {
            return Some(selected);
        }
        let mut steps = 0;
        for candidate in candidates {
            let values = self.values(candidate);
            let lacks = |value: &Value<'_>| counts.filled[value.0] < self.0[value.0].1.min;
            if !values.iter().any(|value| lacks(value) && !counts.has(value)) {
                continue;
            }
            if selected.len() >= most {
                steps += selected.len();
                let gives_way = selected.iter().rposition(|other| {
                    let theirs = self.values(other);
                    theirs.iter().all(|v| counts.groups.get(v).is_some_and(|n| *n > 1) || values.contains(v))
                });
                let Some(gives_way) = gives_way.filter(|_| steps <= MOST_STEPS) else { continue };
                counts.remove(&self.values(&selected.remove(gives_way)));
            }
            counts.add(&values);
            selected.push(*candidate);
        }
        self.within(&counts).then_some(selected)
    }
}
