//! Which object of the member belongs to which Work, and how it was last found right. Pure.
//!
//! In: the objects of a Work, each time they are read from the ledger. Out: for an object its Work, for a kind whether anything
//! of it is wanted. Where two Works name one object, the one that was read last has it.

use std::collections::BTreeMap;

use crate::member::{Gvk, ObjectId};

/// Where an object of the member belongs.
#[derive(Debug, Clone)]
pub struct Target {
    /// The Work.
    pub key: String,
    /// The manifest's place in it.
    pub ordinal: usize,
    /// Of the object as it was when last found right.
    pub digest: Option<u64>,
}

/// All targets.
#[derive(Debug, Default)]
pub struct Targets {
    by_id: BTreeMap<ObjectId, Target>,
    by_key: BTreeMap<String, Vec<ObjectId>>,
    kinds: BTreeMap<Gvk, usize>,
}

impl Targets {
    /// The objects of `key` are these from now on; what is known of those that stay is kept.
    pub fn set(&mut self, key: &str, ids: Vec<ObjectId>) {
        let mut known = BTreeMap::new();
        for id in self.by_key.remove(key).unwrap_or_default() {
            if self.by_id.get(&id).is_some_and(|target| target.key == key)
                && let Some(target) = self.by_id.remove(&id)
            {
                self.uncount(&id.gvk);
                known.insert(id, target.digest);
            }
        }
        for (ordinal, id) in ids.iter().enumerate() {
            let digest = known.get(id).copied().flatten();
            let target = Target { key: key.to_owned(), ordinal, digest };
            match self.by_id.insert(id.clone(), target) {
                Some(other) => self.set_digest(id, other.digest.or(digest)),
                None => *self.kinds.entry(id.gvk.clone()).or_default() += 1,
            }
        }
        if !ids.is_empty() {
            self.by_key.insert(key.to_owned(), ids);
        }
    }

    fn uncount(&mut self, gvk: &Gvk) {
        if let Some(count) = self.kinds.get_mut(gvk) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(gvk);
            }
        }
    }

    /// Where an object belongs.
    pub fn get(&self, id: &ObjectId) -> Option<&Target> {
        self.by_id.get(id)
    }

    /// Whether the Work has objects.
    pub fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// The Work's objects.
    pub fn of_work(&self, key: &str) -> &[ObjectId] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether any object of the kind is wanted.
    pub fn has_kind(&self, gvk: &Gvk) -> bool {
        self.kinds.contains_key(gvk)
    }

    /// The wanted objects of a kind.
    pub fn of_kind(&self, gvk: &Gvk) -> impl Iterator<Item = &ObjectId> {
        self.by_id.keys().filter(move |id| id.gvk == *gvk)
    }

    /// Notes how an object was found right, or that it is not known to be.
    pub fn set_digest(&mut self, id: &ObjectId, digest: Option<u64>) {
        if let Some(target) = self.by_id.get_mut(id) {
            target.digest = digest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new("v1", kind), namespace: "d".into(), name: name.into() }
    }

    #[test]
    fn objects_come_and_go_with_their_works_and_kinds_with_their_objects() {
        let (map, secret) = (id("ConfigMap", "a"), id("Secret", "a"));
        let mut targets = Targets::default();
        targets.set("w", vec![map.clone(), secret.clone()]);
        targets.set_digest(&secret, Some(7));
        assert_eq!(targets.get(&secret).map(|t| (t.key.as_str(), t.ordinal)), Some(("w", 1)));
        targets.set("w", vec![secret.clone()]);
        assert_eq!(
            targets.get(&secret).map(|t| (t.ordinal, t.digest)),
            Some((0, Some(7))),
            "what stays is known"
        );
        assert!(targets.get(&map).is_none() && !targets.has_kind(&map.gvk) && targets.has_kind(&secret.gvk));
        targets.set("other", vec![secret.clone()]);
        targets.set("w", Vec::new());
        assert_eq!(targets.get(&secret).map(|t| t.key.as_str()), Some("other"), "it is the other's now");
        assert!(!targets.has("w") && targets.has("other"));
        assert_eq!(targets.of_kind(&secret.gvk).count(), 1);
        targets.set("other", Vec::new());
        assert!(!targets.has_kind(&secret.gvk));
    }
}
