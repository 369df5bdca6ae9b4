//! Which objects the Works that are being worked on name or take away, so that no two at once decide what becomes of one object. Pure.
//!
//! In: a Work that is to begin, with its objects and whether it takes any away; a Work that ended. Out: whether one has to wait; those that waited, once
//! what they waited for may be over.
//!
//! Who takes an object away decides by who names it when it begins: whether it is deleted, or goes over to another Work. Were another Work of the
//! same object applied, removed or changed meanwhile, that was decided by what is no longer so: the object would be deleted though it is wanted, or
//! handed to a Work that is gone and stay for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::member::ObjectId;
use crate::reconcile::workqueue::SetAside;

/// The objects of one Work.
#[derive(Debug, Default, Clone)]
pub(super) struct Objects {
    /// Their namespaces by group, kind and name. Without one is an object of any: its kind may need none, or the manifest left it out.
    by_name: BTreeMap<ObjectId, BTreeSet<String>>,
    takes_away: bool,
}

impl Objects {
    /// What a Work names, and what earlier bodies of it named that is to go.
    pub(super) fn new(ids: impl Iterator<Item = ObjectId>, takes_away: bool) -> Self {
        let mut by_name: BTreeMap<ObjectId, BTreeSet<String>> = BTreeMap::new();
        for id in ids {
            let mut name = id.unversioned();
            let namespace = std::mem::take(&mut name.namespace);
            by_name.entry(name).or_default().insert(namespace);
        }
        Self { by_name, takes_away }
    }

    /// Whether one of the two takes away what the other one may name.
    fn contend_with(&self, other: &Self) -> bool {
        let (few, many) = match self.by_name.len() <= other.by_name.len() {
            true => (self, other),
            false => (other, self),
        };
        let may_be_one = |here: &BTreeSet<String>, there: &BTreeSet<String>| {
            here.contains("") || there.contains("") || !here.is_disjoint(there)
        };
        (self.takes_away || other.takes_away)
            && few
                .by_name
                .iter()
                .any(|(name, here)| many.by_name.get(name).is_some_and(|there| may_be_one(here, there)))
    }
}

/// The Works that are being worked on, and those that wait for one of them.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    running: BTreeMap<String, Objects>,
    waiting: BTreeMap<String, (Objects, SetAside)>,
}

impl UnderWay {
    /// Whether Work `key` of these objects waits for one that has begun; or for one that waits itself to take something away, which others would keep
    /// from ever beginning.
    pub(super) fn contends(&self, key: &str, objects: &Objects) -> bool {
        let waits_for = |(other, (of, _)): (&String, &(Objects, SetAside))| {
            other != key && of.takes_away && objects.contend_with(of)
        };
        self.running.values().any(|other| objects.contend_with(other))
            || (!objects.takes_away && self.waiting.iter().any(waits_for))
    }

    /// Work `key` waits.
    pub(super) fn waits(&mut self, key: &str, objects: Objects, task: SetAside) {
        self.waiting.insert(key.to_owned(), (objects, task));
    }

    /// Work `key` begins.
    pub(super) fn begins(&mut self, key: &str, objects: Objects) {
        self.waiting.remove(key);
        self.running.insert(key.to_owned(), objects);
    }

    /// Work `key` is no longer worked on. Out: all that waited, of which some wait once more.
    pub(super) fn ended(&mut self, key: &str) -> impl Iterator<Item = (String, SetAside)> {
        self.running.remove(key);
        std::mem::take(&mut self.waiting).into_iter().map(|(key, (_, task))| (key, task))
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::member::Gvk;
    use crate::reconcile::workqueue::{WorkReason, Workqueue};

    fn id(version: &str, namespace: &str, name: &str) -> ObjectId {
        let gvk = Gvk { group: "example.com".into(), version: version.into(), kind: "Thing".into() };
        ObjectId { gvk, namespace: namespace.into(), name: name.into() }
    }

    fn objects(ids: &[ObjectId], takes_away: bool) -> Objects {
        Objects::new(ids.iter().cloned(), takes_away)
    }

    fn set_aside() -> SetAside {
        let mut queue = Workqueue::new(1.0);
        queue.push("w", 3, WorkReason::New);
        queue.take(Duration::ZERO, 1);
        queue.set_aside("w").unwrap()
    }

    #[test]
    fn who_takes_an_object_away_and_who_names_it_are_not_under_way_together() {
        let mut under_way = UnderWay::default();
        under_way.begins("a", objects(&[id("v1", "x", "one"), id("v1", "x", "two")], true));
        assert!(under_way.contends("b", &objects(&[id("v1", "x", "two")], false)));
        assert!(under_way.contends("b", &objects(&[id("v2", "x", "two")], true)), "another version of it");
        assert!(under_way.contends("b", &objects(&[id("v1", "", "two")], true)), "perhaps in that namespace");
        assert!(!under_way.contends("b", &objects(&[id("v1", "y", "two")], true)), "in another namespace");
        assert!(!under_way.contends("b", &objects(&[id("v1", "x", "three")], true)));
        assert_eq!(under_way.ended("a").count(), 0);
        assert!(!under_way.contends("b", &objects(&[id("v1", "x", "two")], true)));
        under_way.begins("b", objects(&[id("v1", "x", "one")], false));
        assert!(!under_way.contends("c", &objects(&[id("v1", "x", "one")], false)), "both apply it");
        assert!(under_way.contends("c", &objects(&[id("v1", "x", "one")], true)));
    }

    /// Else those that come again and again would keep it from ever beginning.
    #[test]
    fn who_waits_to_take_something_away_is_passed_by_nobody() {
        let mut under_way = UnderWay::default();
        let (applies, takes) =
            (objects(&[id("v1", "x", "one")], false), objects(&[id("v1", "x", "one")], true));
        under_way.begins("a", applies.clone());
        assert!(under_way.contends("gone", &takes));
        under_way.waits("gone", takes.clone(), set_aside());
        assert!(under_way.contends("b", &applies), "it is applied, as a is, and comes after what waits");
        under_way.waits("b", applies.clone(), set_aside());
        assert!(!under_way.contends("c", &objects(&[id("v1", "x", "two")], false)));
        let back: Vec<String> = under_way.ended("a").map(|(key, _)| key).collect();
        assert_eq!(back, ["b", "gone"]);
        assert!(!under_way.contends("gone", &takes));
        under_way.begins("gone", takes);
        assert!(under_way.contends("b", &applies));
    }
}
