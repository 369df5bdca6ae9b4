//! Which objects the Works that are being worked on name or take away, so that no two at once decide what becomes of one object. Pure.
//!
//! In: a Work that begins, with its objects and whether it takes any away; a Work that ended. Out: whether one that is to begin has to wait.
//!
//! Who takes an object away decides by who names it when it begins: whether it is deleted, or goes over to another Work. Were another Work of the
//! same object applied, removed or changed meanwhile, that was decided by what is no longer so: the object would be deleted though it is wanted, or
//! handed to a Work that is gone and stay for ever.

use std::collections::BTreeMap;

use crate::member::ObjectId;

/// The objects of one Work.
#[derive(Debug, Default, Clone)]
pub(super) struct Objects {
    /// By group, kind and name; which of them may be one object, [`ObjectId::may_be`] tells.
    by_name: BTreeMap<ObjectId, Vec<ObjectId>>,
    takes_away: bool,
}

impl Objects {
    /// What a Work names, and what earlier bodies of it named that is to go.
    pub(super) fn new(ids: impl Iterator<Item = ObjectId>, takes_away: bool) -> Self {
        let mut by_name: BTreeMap<ObjectId, Vec<ObjectId>> = BTreeMap::new();
        for id in ids {
            let name = ObjectId { namespace: String::new(), ..id.unversioned() };
            by_name.entry(name).or_default().push(id);
        }
        Self { by_name, takes_away }
    }

    /// Whether one of the two takes away what the other one may name.
    fn contend_with(&self, other: &Self) -> bool {
        let is_one = |(name, ids): (&ObjectId, &Vec<ObjectId>)| {
            let others = other.by_name.get(name).into_iter().flatten();
            others.into_iter().any(|there| ids.iter().any(|here| here.may_be(there)))
        };
        (self.takes_away || other.takes_away) && self.by_name.iter().any(is_one)
    }
}

/// The Works that are being worked on.
#[derive(Debug, Default)]
pub(super) struct UnderWay(BTreeMap<String, Objects>);

impl UnderWay {
    /// Whether a Work of these objects waits for one that has begun.
    pub(super) fn contends(&self, objects: &Objects) -> bool {
        self.0.values().any(|other| objects.contend_with(other))
    }

    /// Work `key` begins.
    pub(super) fn begins(&mut self, key: &str, objects: Objects) {
        self.0.insert(key.to_owned(), objects);
    }

    /// Work `key` is no longer worked on.
    pub(super) fn ended(&mut self, key: &str) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Gvk;

    fn id(version: &str, namespace: &str, name: &str) -> ObjectId {
        let gvk = Gvk { group: "example.com".into(), version: version.into(), kind: "Thing".into() };
        ObjectId { gvk, namespace: namespace.into(), name: name.into() }
    }

    fn objects(ids: &[ObjectId], takes_away: bool) -> Objects {
        Objects::new(ids.iter().cloned(), takes_away)
    }

    #[test]
    fn who_takes_an_object_away_and_who_names_it_are_not_under_way_together() {
        let mut under_way = UnderWay::default();
        under_way.begins("a", objects(&[id("v1", "x", "one"), id("v1", "x", "two")], true));
        assert!(under_way.contends(&objects(&[id("v1", "x", "two")], false)));
        assert!(under_way.contends(&objects(&[id("v2", "x", "two")], true)), "another version of it");
        assert!(!under_way.contends(&objects(&[id("v1", "y", "two")], true)), "in another namespace");
        assert!(!under_way.contends(&objects(&[id("v1", "x", "three")], true)));
        under_way.ended("a");
        assert!(!under_way.contends(&objects(&[id("v1", "x", "two")], true)));
        under_way.begins("b", objects(&[id("v1", "x", "one")], false));
        assert!(!under_way.contends(&objects(&[id("v1", "x", "one")], false)), "both apply it");
        assert!(under_way.contends(&objects(&[id("v1", "x", "one")], true)));
    }
}
