//! What is noted on a binding of its last move, so that neither a restart nor a change of what clusters report makes it move to and fro.
//!
//! In: the note, and the moment. Out: whether the binding may be moved, and how; the note of the next step.
//!
//! A move that is larger than the budget goes on step by step, from and to the same clusters and never the other way. Once all of it is
//! done the binding rests for an hour; where it moves again as soon as it may, for twice as long each time, a week at most. What a step
//! changed is noted until all is ready where it went, so that it can be taken back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::ResourceBinding;
use karmada_api::strings::annotations;
use serde::{Deserialize, Serialize};

/// How long a binding rests after a move.
pub const REST: SignedDuration = SignedDuration::from_hours(1);

/// How long it rests at most.
pub const LONGEST_REST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What was placed a shorter while ago is not in all reports yet, and what was taken away may still be ending.
pub const SETTLES: SignedDuration = SignedDuration::from_mins(2);

/// Clusters that a note names. What is between more of them is not gone on with: it is decided anew after the rest.
const MOST_NAMES: usize = 256;

/// What is noted of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MoveNote {
    /// When.
    pub at: Timestamp,
    /// How many replicas are still to follow.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: i64,
    /// For how long the binding rests then; told by [`MoveNote::next`].
    pub rest_seconds: i64,
    /// Who gives replicas until then.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub from: BTreeSet<String>,
    /// Who gets them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub to: BTreeSet<String>,
    /// What the step changed, until it is whole: so it can be taken back. Of a step over very many clusters it is not noted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<String, Change>,
}

/// How many replicas a cluster had before a step, and has after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// Before it.
    #[serde(skip_serializing_if = "is_zero")]
    pub before: i64,
    /// After it.
    #[serde(skip_serializing_if = "is_zero")]
    pub after: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// How a binding may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// To wherever is better.
    Anew,
    /// As its last move went on: so many replicas, from and to the clusters that the note names.
    Onward(MoveNote),
}

impl MoveNote {
    /// The note that a binding bears; none where it was never moved, or nobody can read it.
    ///
    /// Anybody who may write bindings may write a note. So it only says of which clusters and how far a move goes on, never whether that is
    /// within the budget; no more is to follow than the workload has; and what cannot be what a step changed is nothing to take back.
    pub fn of(binding: &ResourceBinding) -> Option<Self> {
        let note: MoveNote = serde_json::from_str(binding.annotation(annotations::REBALANCED)?).ok()?;
        let left = note.left.clamp(0, i64::from(binding.spec.replicas.max(0)));
        let note = MoveNote { left, ..note };
        Some(if note.is_of_a_step() { note } else { MoveNote { changed: BTreeMap::new(), ..note } })
    }

    /// Whether what is changed keeps the sum, as every step does: taken back, it would else add replicas or take them away.
    fn is_of_a_step(&self) -> bool {
        let is_number = |number: i64| (0..=i64::from(i32::MAX)).contains(&number);
        let sum = |of: fn(&Change) -> i64| self.changed.values().map(of).fold(0, i64::saturating_add);
        self.changed.values().all(|change| is_number(change.before) && is_number(change.after))
            && sum(|change| change.before) == sum(|change| change.after)
    }

    /// How many replicas the step moved, as far as it is noted.
    pub fn moved(&self) -> i64 {
        let gets = self.changed.values().map(|change| (change.after - change.before).max(0));
        gets.fold(0, i64::saturating_add)
    }

    /// The binding that bears this note.
    pub fn written(&self, binding: &ResourceBinding) -> ResourceBinding {
        let mut wanted = binding.clone();
        if let Ok(text) = serde_json::to_string(self) {
            let notes = wanted.metadata.annotations.get_or_insert_default();
            notes.insert(annotations::REBALANCED.to_owned(), text);
        }
        wanted
    }

    fn rest(&self) -> SignedDuration {
        SignedDuration::from_secs(self.rest_seconds).clamp(REST, LONGEST_REST)
    }

    /// How the binding may be moved now, or how long it rests. A time that is still to come counts for nothing: the clock was ahead.
    ///
    /// # Errors
    /// It rests for so long.
    pub fn permit(note: Option<Self>, now: Timestamp) -> Result<Permit, SignedDuration> {
        let Some(note) = note.filter(|note| note.at <= now) else { return Ok(Permit::Anew) };
        let age = now.duration_since(note.at);
        if age >= note.rest() {
            return Ok(Permit::Anew);
        }
        let rests = if note.left > 0 { SETTLES } else { note.rest() } - age;
        if rests.is_positive() { Err(rests) } else { Ok(Permit::Onward(note)) }
    }

    /// The note of a step with which a binding that bears `before` moves now.
    pub fn next(before: Option<&Self>, permit: &Permit, step: Self) -> Self {
        let rest = match (permit, before) {
            (Permit::Onward(note), _) => note.rest(),
            (Permit::Anew, Some(last)) => {
                let age = step.at.duration_since(last.at);
                let is_soon = !age.is_negative() && age < last.rest() * 2;
                if is_soon { (last.rest() * 2).min(LONGEST_REST) } else { REST }
            }
            (Permit::Anew, None) => REST,
        };
        let mut note = MoveNote { rest_seconds: rest.as_secs(), ..step };
        if note.from.len() + note.to.len() > MOST_NAMES {
            note.left = 0;
        }
        if note.changed.len() > MOST_NAMES {
            note.changed = BTreeMap::new();
        }
        if note.left == 0 {
            (note.from, note.to) = Default::default();
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-05-{text}:00Z").parse().unwrap()
    }

    fn step(moment: &str, left: i64) -> MoveNote {
        let (from, to) = (["a".to_owned()].into(), ["b".to_owned()].into());
        MoveNote { at: at(moment), left, rest_seconds: 0, from, to, ..MoveNote::default() }
    }

    #[test]
    fn a_move_goes_on_after_a_while_and_rests_when_it_is_done() {
        let permit = |note: &MoveNote, moment: &str| MoveNote::permit(Some(note.clone()), at(moment));
        assert_eq!(MoveNote::permit(None, at("01T12:00")), Ok(Permit::Anew));
        let note = MoveNote::next(None, &Permit::Anew, step("01T12:00", 3));
        assert_eq!(permit(&note, "01T12:01"), Err(SignedDuration::from_mins(1)));
        assert_eq!(permit(&note, "01T12:02"), Ok(Permit::Onward(note.clone())));
        assert_eq!(permit(&note, "01T13:00"), Ok(Permit::Anew), "it did not go on for so long");
        let done = MoveNote::next(Some(&note), &permit(&note, "01T12:02").unwrap(), step("01T12:02", 0));
        assert_eq!((done.from.len(), done.to.len()), (0, 0));
        assert_eq!(permit(&done, "01T12:04"), Err(SignedDuration::from_mins(58)));
        assert_eq!(permit(&done, "01T13:02"), Ok(Permit::Anew));
        assert_eq!(permit(&done, "01T11:00"), Ok(Permit::Anew), "the clock was ahead");
    }

    #[test]
    fn what_moves_as_soon_as_it_may_rests_twice_as_long_a_week_at_most() {
        let mut note = MoveNote::next(None, &Permit::Anew, step("01T00:00", 0));
        let mut rests = Vec::new();
        for _ in 0..9 {
            rests.push(note.rest().as_hours());
            let at = note.at + note.rest();
            note = MoveNote::next(Some(&note), &Permit::Anew, MoveNote { at, ..MoveNote::default() });
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 128, 168]);
        let much_later = MoveNote { at: note.at + LONGEST_REST * 2, ..MoveNote::default() };
        assert_eq!(MoveNote::next(Some(&note), &Permit::Anew, much_later).rest(), REST);
    }

    fn noted(text: &str) -> MoveNote {
        let binding = serde_json::json!({"metadata": {"annotations": {annotations::REBALANCED: text}},
            "spec": {"replicas": 10, "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        MoveNote::of(&serde_json::from_value(binding).unwrap()).unwrap()
    }

    #[test]
    fn what_no_step_would_note_is_not_believed() {
        let good = r#"{"left": 3, "changed": {"a": {"before": 7, "after": 4}, "b": {"after": 3}}}"#;
        assert_eq!((noted(good).left, noted(good).changed.len(), noted(good).moved()), (3, 2, 3));
        let most = i64::MAX;
        assert_eq!(noted(&format!(r#"{{"left": {most}}}"#)).left, 10, "no more than it has");
        assert_eq!(noted(r#"{"left": -4}"#).left, 0);
        for changed in [
            r#"{"a": {"before": 99}, "b": {"after": 3}}"#,
            r#"{"a": {"before": -3}, "b": {"after": -3}}"#,
            r#"{"a": {"before": -9223372036854775808}, "b": {"after": 9223372036854775807}}"#,
            r#"{"a": {"before": 4000000000}, "b": {"after": 4000000000}}"#,
        ] {
            assert_eq!(noted(&format!(r#"{{"changed": {changed}}}"#)).changed.len(), 0, "{changed}");
        }
    }

    #[test]
    fn a_note_that_somebody_else_wrote_holds_nothing_up_for_long() {
        let note: MoveNote = serde_json::from_str(r#"{"restSeconds": 99999999999}"#).unwrap();
        assert_eq!(note.rest(), LONGEST_REST);
        let many = |of: &str| (0..200).map(|n| format!("{of}{n}")).collect();
        let changed = (0..300).map(|n| (n.to_string(), Change::default())).collect();
        let wide = MoveNote { from: many("a"), to: many("b"), changed, ..step("01T12:00", 9) };
        let next = MoveNote::next(None, &Permit::Anew, wide);
        assert_eq!((next.left, next.changed.len()), (0, 0), "it is bounded");
    }
}
