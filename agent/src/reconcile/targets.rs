//! Which object of the member belongs to which Works, and how it was last found right. Pure.
//!
//! In: the objects of a Work, each time they are read from the ledger; how objects were found. Out: for an object all Works that name it,
//! and the one that has it; for a kind whether anything of it is wanted. A Work has one claim to an object, however often it names it: what
//! is kept, and what is looked through for an event, grows with the objects and not with their square. Where several Works name one object, that one has it which
//! applied it last, as the object's marks tell; while it is away, the one of which it was found right last.

use std::collections::{BTreeMap, BTreeSet};

use crate::member::{Gvk, ObjectId};

/// A Work's claim to an object of the member.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The Work.
    pub key: String,
    /// The manifest's place in it.
    pub ordinal: usize,
    /// As the manifest names it.
    pub id: ObjectId,
    /// Whether it is brought back: not by a Work that is suspended, which names it all the same.
    pub is_enforced: bool,
    /// Of the object as it was when last found right for this Work.
    pub digest: Option<u64>,
}

/// The objects of one Work.
#[derive(Debug, Default)]
struct OfWork {
    ids: Vec<ObjectId>,
    is_enforced: bool,
}

/// All targets.
#[derive(Debug, Default)]
pub struct Targets {
    /// By group, kind and name: [`ObjectId::means`] tells which of them are of an object.
    by_name: BTreeMap<ObjectId, Vec<Target>>,
    by_key: BTreeMap<String, OfWork>,
    kinds: BTreeMap<Gvk, usize>,
}

/// What the names of an object have in common, whatever version or namespace they say.
fn name_of(id: &ObjectId) -> ObjectId {
    ObjectId { namespace: String::new(), ..id.unversioned() }
}

impl Targets {
    /// Work `key` names these from now on; what is known of those that stay is kept. Out: those that it does not name any more.
    pub fn set(&mut self, key: &str, ids: Vec<ObjectId>, is_enforced: bool) -> Vec<ObjectId> {
        let before = self.by_key.remove(key).unwrap_or_default();
        let mut known = BTreeMap::new();
        for id in before.ids.iter().rev() {
            if let Some(digest) = self.withdraw(key, id) {
                known.insert(id.clone(), digest);
            }
        }
        let mut claimed = BTreeSet::new();
        for (ordinal, id) in ids.iter().enumerate().filter(|(_, id)| claimed.insert(*id)) {
            let digest = known.get(id).copied().flatten();
            let target = Target { key: key.to_owned(), ordinal, id: id.clone(), is_enforced, digest };
            let named = self.by_name.entry(name_of(id)).or_default();
            let at = named.partition_point(|other| (other.key.as_str(), other.ordinal) < (key, ordinal));
            named.insert(at, target);
            if is_enforced {
                *self.kinds.entry(id.gvk.clone()).or_default() += 1;
            }
        }
        let before: BTreeSet<ObjectId> = before.ids.into_iter().filter(|id| !claimed.contains(id)).collect();
        let left = before.into_iter().filter(|id| !ids.iter().any(|named| named.may_be(id)));
        let left = left.collect();
        if !ids.is_empty() {
            self.by_key.insert(key.to_owned(), OfWork { ids, is_enforced });
        }
        left
    }

    /// Takes a claim back, where there is one. Out: its digest.
    fn withdraw(&mut self, key: &str, id: &ObjectId) -> Option<Option<u64>> {
        let name = name_of(id);
        let named = self.by_name.get_mut(&name)?;
        let at = named.iter().rposition(|target| target.key == key && target.id == *id)?;
        let target = named.remove(at);
        if named.is_empty() {
            self.by_name.remove(&name);
        }
        if target.is_enforced
            && let Some(count) = self.kinds.get_mut(&id.gvk)
        {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&id.gvk);
            }
        }
        Some(target.digest)
    }

    /// All claims that may be to `id`, be it named by a manifest or found in the member.
    pub fn of_name(&self, id: &ObjectId) -> &[Target] {
        self.by_name.get(&name_of(id)).map_or(&[], Vec::as_slice)
    }

    /// Of what a Work names or lets go of, what Works name now: each claim once, whatever is named how often.
    pub fn naming(&self, ids: impl Iterator<Item = ObjectId>) -> Vec<(ObjectId, String)> {
        let names: BTreeSet<ObjectId> = ids.map(|id| name_of(&id)).collect();
        let named = names.iter().filter_map(|name| self.by_name.get(name)).flatten();
        named.map(|target| (target.id.clone(), target.key.clone())).collect()
    }

    /// Whether manifest `ordinal` of Work `key` is the first there that names `id`: how the object is, is told of that one.
    pub fn is_first(&self, key: &str, ordinal: usize, id: &ObjectId) -> bool {
        let mut claims = self.of_name(id).iter().filter(|target| target.key == key && target.id == *id);
        claims.next().is_none_or(|target| target.ordinal == ordinal)
    }

    /// The claims to the member's object `there`.
    pub fn of(&self, there: &ObjectId) -> impl Iterator<Item = &Target> {
        self.of_name(there).iter().filter(move |target| target.id.means(there))
    }

    /// The claim of the Work that has the member's object `there`, whose marks name the Work `marked`.
    pub fn owner(&self, there: &ObjectId, marked: Option<&str>) -> Option<&Target> {
        let enforced = || self.of(there).filter(|target| target.is_enforced);
        let by_mark = enforced().find(|target| Some(target.key.as_str()) == marked);
        by_mark.or_else(|| enforced().find(|target| target.digest.is_some())).or_else(|| enforced().next())
    }

    /// Whether the Work has objects that are enforced.
    pub fn has(&self, key: &str) -> bool {
        self.by_key.get(key).is_some_and(|work| work.is_enforced)
    }

    /// Whether the Work names any, enforced or not.
    pub fn is_known(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// The Work's objects, where they are enforced.
    pub fn of_work(&self, key: &str) -> &[ObjectId] {
        let work = self.by_key.get(key).filter(|work| work.is_enforced);
        work.map_or(&[], |work| work.ids.as_slice())
    }

    /// Whether any object of the kind is wanted.
    pub fn has_kind(&self, gvk: &Gvk) -> bool {
        self.kinds.contains_key(gvk)
    }

    /// The wanted objects of a kind, as manifests name them.
    pub fn of_kind(&self, gvk: &Gvk) -> impl Iterator<Item = &ObjectId> {
        let all = self.by_name.values().flatten();
        all.filter(move |target| target.is_enforced && target.id.gvk == *gvk).map(|target| &target.id)
    }

    /// The object that Work `key` names `id` was found right for it, and so for no other; or it is not known to be right for anybody.
    pub fn set_digest(&mut self, key: &str, id: &ObjectId, digest: Option<u64>) {
        for target in self.by_name.get_mut(&name_of(id)).into_iter().flatten() {
            if target.key == key && target.id == *id {
                target.digest = digest;
            } else if target.id.may_be(id) {
                target.digest = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new("v1", kind), namespace: "d".into(), name: name.into() }
    }

    fn owner<'a>(targets: &'a Targets, there: &ObjectId, marked: &str) -> Option<(&'a str, usize)> {
        targets.owner(there, Some(marked)).map(|target| (target.key.as_str(), target.ordinal))
    }

    #[test]
    fn objects_come_and_go_with_their_works_and_kinds_with_their_objects() {
        let (map, secret) = (id("ConfigMap", "a"), id("Secret", "a"));
        let mut targets = Targets::default();
        targets.set("w", vec![map.clone(), secret.clone()], true);
        targets.set_digest("w", &secret, Some(7));
        assert_eq!(owner(&targets, &secret, ""), Some(("w", 1)));
        assert_eq!(targets.set("w", vec![secret.clone()], true), std::slice::from_ref(&map));
        assert_eq!(
            targets.owner(&secret, None).map(|t| (t.ordinal, t.digest)),
            Some((0, Some(7))),
            "what stays is known"
        );
        assert!(
            targets.owner(&map, None).is_none()
                && !targets.has_kind(&map.gvk)
                && targets.has_kind(&secret.gvk)
        );
        targets.set("w", Vec::new(), true);
        assert!(!targets.has_kind(&secret.gvk) && !targets.has("w") && targets.of_name(&secret).is_empty());
    }

    #[test]
    fn of_several_works_that_name_an_object_one_has_it() {
        let secret = id("Secret", "a");
        let mut targets = Targets::default();
        for key in ["b", "a", "suspended"] {
            targets.set(key, vec![secret.clone()], key != "suspended");
        }
        assert_eq!(owner(&targets, &secret, "b"), Some(("b", 0)), "its marks tell");
        assert_eq!(owner(&targets, &secret, "suspended"), Some(("a", 0)), "a suspended one is not enforced");
        targets.set_digest("b", &secret, Some(1));
        assert_eq!(owner(&targets, &secret, ""), Some(("b", 0)), "it was found right for it");
        targets.set_digest("a", &secret, Some(2));
        assert_eq!(owner(&targets, &secret, ""), Some(("a", 0)), "and for one at a time");
        targets.set("a", Vec::new(), true);
        targets.set("b", Vec::new(), true);
        assert!(targets.owner(&secret, None).is_none() && !targets.has_kind(&secret.gvk));
        assert_eq!(targets.of(&secret).count(), 1, "the suspended one names it still");
    }

    #[test]
    fn versions_of_a_kind_and_needless_namespaces_are_names_of_one_object() {
        let named =
            ObjectId { gvk: Gvk::new("x/v1", "Role"), namespace: "needless".into(), name: "r".into() };
        let there = ObjectId { namespace: String::new(), gvk: Gvk::new("x/v2", "Role"), name: "r".into() };
        let mut targets = Targets::default();
        targets.set("w", vec![named.clone()], true);
        assert_eq!(owner(&targets, &there, "w"), Some(("w", 0)));
        assert_eq!(targets.set("w", vec![there.clone()], true), [], "it is named otherwise");
        let elsewhere = ObjectId { namespace: "other".into(), ..named };
        targets.set("w", vec![elsewhere], true);
        let there = ObjectId { namespace: "n".into(), ..there };
        assert!(
            targets.owner(&there, None).is_none(),
            "of a kind that is in namespaces, it is another object"
        );
    }

    #[test]
    fn what_is_named_by_a_thousand_manifests_is_known_once() {
        let mut targets = Targets::default();
        targets.set("w", vec![id("Secret", "a"); 1000], true);
        assert_eq!(targets.of(&id("Secret", "a")).count(), 1, "one claim, of the first");
        assert_eq!(targets.of_work("w").len(), 1000, "each manifest has its place");
        assert_eq!(
            targets.naming(targets.of_work("w").iter().cloned()),
            [(id("Secret", "a"), "w".to_owned())]
        );
        assert_eq!(targets.set("w", Vec::new(), true), [id("Secret", "a")]);
        assert!(!targets.has_kind(&id("Secret", "a").gvk));
        let elsewhere = (0..1000).map(|at| ObjectId { namespace: format!("n{at}"), ..id("Secret", "a") });
        let elsewhere: Vec<ObjectId> = elsewhere.collect();
        targets.set("other", vec![id("Secret", "a")], true);
        targets.set("w", elsewhere.clone(), true);
        assert_eq!(targets.naming(elsewhere.into_iter()).len(), 1001);
    }
}
