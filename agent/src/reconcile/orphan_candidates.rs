//! Objects of the member that bear our marks and whose Work nobody holds: a member that was restored from an older backup has what was
//! removed since. Pure.
//!
//! In: marked objects that a watch or a look at all kinds told of, and time. Out: when one was there for long enough that it is no
//! object on its way out, with the Work that it names; and when all kinds are to be looked at again. Nothing of that removes anything:
//! what is found is told to the hub, and a person decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karmada_api::object;
use karmada_api::strings::labels;
use serde_json::Value;

use super::member_body::{ClusterNames, owning_work};
use crate::member::{Gvk, ObjectId};

/// What is there for so long is neither ending nor of a Work that is still on its way from the hub.
const SETTLED_AFTER: Duration = Duration::from_secs(30);
/// Objects that are looked at at once. The others are found by the next look.
const MOST: usize = 4096;
/// No name is longer: what a mark of this length names is no Work.
const NAME: usize = 253;
/// All kinds are looked at no more often than this where a watch found that the member's history is another one...
const BETWEEN: Duration = Duration::from_secs(600);
/// ... and than this where connections to it broke and nothing more is known.
const BETWEEN_BREAKS: Duration = Duration::from_secs(3600);

/// The Work of `cluster` that `observed` names by our marks; `None` where it bears none, is on its way out, or was made by a controller
/// of the member, which may have copied the marks from its owner.
pub fn work_of<'a>(observed: &'a Value, cluster: &ClusterNames) -> Option<&'a str> {
    let is_managed = object::label(observed, labels::MANAGED) == Some(labels::MANAGED_VALUE);
    let owners = observed.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_controlled = owners.is_some_and(|all| all.iter().any(|owner| owner["controller"] == true));
    let is_candidate = is_managed && !is_controlled && !object::deleting(observed);
    owning_work(observed, cluster).filter(|key| is_candidate && !key.is_empty() && key.len() <= NAME)
}

/// The objects that wait to be judged.
#[derive(Debug, Default)]
pub struct Strays {
    seen: BTreeMap<ObjectId, (String, Duration)>,
}

impl Strays {
    /// `id` is there and names Work `key`, which nobody holds.
    pub fn seen(&mut self, id: ObjectId, key: &str, now: Duration) {
        if self.seen.len() < MOST || self.seen.contains_key(&id) {
            let (of, _) = self.seen.entry(id).or_insert_with(|| (key.to_owned(), now));
            key.clone_into(of);
        }
    }

    /// `id` is not there any more, or bears no marks.
    pub fn gone(&mut self, id: &ObjectId) {
        self.seen.remove(id);
    }

    /// A complete list of a kind named these.
    pub fn listed(&mut self, gvk: &Gvk, listed: &BTreeSet<ObjectId>) {
        self.seen.retain(|id, _| id.gvk != *gvk || listed.contains(id));
    }

    /// When some are to be judged.
    pub fn due(&self) -> Option<Duration> {
        self.seen.values().map(|(_, since)| *since + SETTLED_AFTER).min()
    }

    /// What the hub has to tell is not known yet: those that are due wait once more.
    pub fn later(&mut self, now: Duration) {
        self.seen
            .values_mut()
            .filter(|(_, since)| *since + SETTLED_AFTER <= now)
            .for_each(|(_, since)| *since = now);
    }

    /// Those that were there for long enough, by the Work that they name.
    pub fn take(&mut self, now: Duration) -> BTreeMap<String, Vec<ObjectId>> {
        let mut due: BTreeMap<String, Vec<ObjectId>> = BTreeMap::new();
        self.seen.retain(|id, (key, since)| {
            let stays = *since + SETTLED_AFTER > now;
            if !stays {
                due.entry(key.clone()).or_default().push(id.clone());
            }
            stays
        });
        due
    }
}

/// When all kinds are looked at: once after the start, and again after the member's history may have gone back. A kind of which nothing
/// is held has no watch that would tell.
#[derive(Debug, Default)]
pub struct OrphanScanSchedule {
    last: Option<Duration>,
    breaks: u64,
    has_gone_back: bool,
}

impl OrphanScanSchedule {
    /// A watch had to list anew.
    pub fn went_back(&mut self) {
        self.has_gone_back = true;
    }

    /// When to ask [`OrphanScanSchedule::is_due`] again.
    pub fn due(&self) -> Duration {
        match self.last {
            None => SETTLED_AFTER,
            Some(last) if self.has_gone_back => last + BETWEEN,
            Some(last) => last + BETWEEN_BREAKS,
        }
    }

    /// Whether to look at all kinds at `now`, of a member to which so many connections broke so far.
    pub fn is_due(&mut self, now: Duration, breaks: u64) -> bool {
        if now < self.due() {
            return false;
        }
        let is_news = self.last.is_none() || self.has_gone_back || self.breaks != breaks;
        *self = Self { last: Some(now), breaks, has_gone_back: false };
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::strings::annotations;
    use serde_json::json;

    fn marked(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "d",
            "labels": {labels::MANAGED: labels::MANAGED_VALUE},
            "annotations": {annotations::WORK_NAMESPACE: "karmada-es-m", annotations::WORK_NAME: "w"}}})
    }

    #[test]
    fn what_a_controller_copied_or_another_hub_marked_names_no_work_of_ours() {
        assert_eq!(work_of(&marked("a"), &"m".into()), Some("w"));
        assert_eq!(work_of(&marked("a"), &"n".into()), None);
        let renamed = ClusterNames { now: "n".into(), before: vec!["l".into(), "m".into()] };
        assert_eq!(work_of(&marked("a"), &renamed), Some("w"), "of the name before");
        let without = |path: &str, value: Value| {
            let mut object = marked("a");
            object["metadata"][path] = value;
            object
        };
        for object in [
            without("labels", json!({})),
            without("annotations", json!({annotations::WORK_NAMESPACE: "karmada-es-m"})),
            without(
                "annotations",
                json!({annotations::WORK_NAMESPACE: "karmada-es-m", annotations::WORK_NAME: "w".repeat(254)}),
            ),
            without("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            without("ownerReferences", json!([{"controller": true}])),
        ] {
            assert_eq!(work_of(&object, &"m".into()), None, "{object}");
        }
        assert_eq!(work_of(&without("ownerReferences", json!([{"name": "x"}])), &"m".into()), Some("w"));
    }

    #[test]
    fn an_object_is_judged_when_it_stayed() {
        let at = Duration::from_secs;
        let id = |name: &str| ObjectId::of(&marked(name));
        let mut strays = Strays::default();
        for (name, since) in [("gone", 0), ("unlisted", 0), ("stays", 5), ("late", 20)] {
            strays.seen(id(name), "w", at(since));
        }
        strays.seen(id("stays"), "w", at(25));
        strays.gone(&id("gone"));
        strays.listed(&id("x").gvk, &[id("stays"), id("late")].into());
        assert_eq!((strays.due(), strays.take(at(34))), (Some(at(35)), BTreeMap::new()));
        strays.later(at(35));
        assert_eq!(strays.due(), Some(at(50)), "the other has its own time");
        assert_eq!(strays.take(at(50)), [("w".to_owned(), vec![id("late")])].into());
        assert_eq!(strays.take(at(65)), [("w".to_owned(), vec![id("stays")])].into());
        assert_eq!(strays.due(), None);
        (0..5000).for_each(|at| strays.seen(id(&at.to_string()), "w", Duration::ZERO));
        assert_eq!(strays.seen.len(), MOST);
    }

    #[test]
    fn all_kinds_are_looked_at_once_and_after_what_may_have_been_a_restore() {
        let at = Duration::from_secs;
        let mut looks = OrphanScanSchedule::default();
        assert!(!looks.is_due(at(29), 0) && looks.is_due(at(30), 0) && !looks.is_due(at(30), 0));
        assert!(!looks.is_due(at(3630), 0), "nothing happened");
        assert!(!looks.is_due(at(3700), 1) && looks.is_due(at(7230), 1), "a connection broke");
        looks.went_back();
        assert!(!looks.is_due(at(7800), 1) && looks.is_due(at(7830), 1));
        assert!(!looks.is_due(at(12_000), 1));
    }
}
