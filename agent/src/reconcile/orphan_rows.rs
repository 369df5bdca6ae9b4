//! The objects that are told as orphans, by the rows of the ledger that note them. Pure.
//!
//! In: what a row notes, each time it is read. Out: which row notes an object, and whether a kind has any: it is watched for as long, so
//! that what goes from the member goes out of the report.

use std::collections::{BTreeMap, BTreeSet};

pub use crate::ledger::{former_key, work_of_row};
use crate::member::{Gvk, ObjectId};

/// All that are told.
#[derive(Debug, Default)]
pub struct Orphans {
    by_key: BTreeMap<String, BTreeSet<ObjectId>>,
    /// Whatever version of its kind an object was seen in.
    by_id: BTreeMap<ObjectId, String>,
}

impl Orphans {
    /// Row `key` notes these from now on. Out: what it noted before and does not now.
    pub fn set(&mut self, key: &str, ids: &[ObjectId]) -> Vec<ObjectId> {
        let before = self.by_key.remove(key).unwrap_or_default();
        for id in &before {
            // Where two rows note one object, it is the last one's.
            if self.row(id) == Some(key) {
                self.by_id.remove(&id.unversioned());
            }
        }
        let now: BTreeSet<ObjectId> = ids.iter().cloned().collect();
        self.by_id.extend(ids.iter().map(|id| (id.unversioned(), key.to_owned())));
        let dropped = before.difference(&now).cloned().collect();
        if !now.is_empty() {
            self.by_key.insert(key.to_owned(), now);
        }
        dropped
    }

    /// The row that notes `id`.
    pub fn row(&self, id: &ObjectId) -> Option<&str> {
        self.by_id.get(&id.unversioned()).map(String::as_str)
    }

    /// Whether any object of the kind is noted.
    pub fn has_kind(&self, gvk: &Gvk) -> bool {
        self.of_kind(gvk).next().is_some()
    }

    /// The noted objects of a kind.
    pub fn of_kind<'a>(&'a self, gvk: &'a Gvk) -> impl Iterator<Item = &'a ObjectId> {
        self.by_key.values().flatten().filter(move |id| id.gvk == *gvk)
    }

    /// The noted objects that one of these manifests is of.
    pub fn meant_by(&self, named: &[ObjectId]) -> Vec<ObjectId> {
        let all = self.by_key.values().flatten();
        all.filter(|id| named.iter().any(|named| named.means(id))).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(api_version: &str, namespace: &str, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new(api_version, "Thing"), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn rows_and_kinds_follow_what_is_noted() {
        let (a, b, other) = (id("x/v1", "n", "a"), id("x/v1", "n", "b"), id("y/v1", "", "c"));
        let mut orphans = Orphans::default();
        assert_eq!(orphans.set("w", &[a.clone(), b.clone()]), []);
        orphans.set("v/former", std::slice::from_ref(&other));
        assert_eq!((orphans.row(&a), orphans.row(&other)), (Some("w"), Some("v/former")));
        assert_eq!(orphans.of_kind(&a.gvk).collect::<Vec<_>>(), [&a, &b]);
        assert_eq!(orphans.set("w", std::slice::from_ref(&b)), std::slice::from_ref(&a));
        assert!(orphans.row(&a).is_none() && orphans.has_kind(&b.gvk));
        orphans.set("another", std::slice::from_ref(&b));
        assert_eq!(orphans.set("w", &[]), std::slice::from_ref(&b));
        assert_eq!(orphans.row(&b), Some("another"), "it is the last one's");
        orphans.set("another", &[]);
        assert!(!orphans.has_kind(&a.gvk) && orphans.has_kind(&other.gvk));
    }

    #[test]
    fn an_orphan_is_the_same_in_another_version() {
        let (old, new) = (id("x/v1", "n", "a"), id("x/v2", "n", "a"));
        let mut orphans = Orphans::default();
        orphans.set("w", std::slice::from_ref(&old));
        assert_eq!(orphans.row(&new), Some("w"));
        assert_eq!(orphans.meant_by(std::slice::from_ref(&new)), std::slice::from_ref(&old));
        assert_eq!(orphans.meant_by(&[id("x/v1", "m", "a")]), []);
    }

    #[test]
    fn the_row_of_a_held_work_has_a_name_that_no_work_has() {
        assert_eq!(former_key("web-1").as_deref(), Some("web-1/former"));
        assert_eq!((work_of_row("web-1/former"), work_of_row("web-1")), ("web-1", "web-1"));
        assert_eq!(former_key(&"w".repeat(250)), None);
    }
}
