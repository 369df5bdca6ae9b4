//! Which clusters were said to share addresses, by Service: a warning of them is told once, and not again each time that one of their Pods goes.
//!
//! In: what clusters share now. Out: whether that is to be told. It lives in memory: a hub that starts anew tells it once more.

use std::collections::{BTreeMap, BTreeSet};

use karmada_core::multi_cluster_service::shared_addresses::Overlap;
use parking_lot::Mutex;

use crate::port::Key;

/// What was told: of each Service no more than the clusters that tell of it.
#[derive(Default)]
pub struct OverlapWarnings(Mutex<BTreeMap<Key, BTreeSet<String>>>);

impl OverlapWarnings {
    /// Whether clusters share addresses of a Service of whom that was not told. From now on it was.
    pub fn is_news(&self, service: &Key, overlap: &Overlap) -> bool {
        if overlap.clusters.is_empty() {
            return false;
        }
        let mut told = self.0.lock();
        let told = told.entry(service.clone()).or_default();
        let before = told.len();
        told.extend(overlap.clusters.iter().cloned());
        told.len() > before
    }

    /// The Service is not reached from other clusters any more.
    pub fn forget(&self, service: &Key) {
        self.0.lock().remove(service);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    #[test]
    fn it_is_told_once_and_again_of_another_cluster() {
        let of = |names: &[&str]| {
            let mut overlap = Overlap::default();
            overlap.clusters.extend(names.iter().map(|name| (*name).to_owned()));
            overlap
        };
        let (warnings, web) = (OverlapWarnings::default(), key("shop", "web"));
        assert!(!warnings.is_news(&web, &of(&[])));
        assert!(warnings.is_news(&web, &of(&["a", "b"])));
        assert!(!warnings.is_news(&web, &of(&["a", "b"])) && !warnings.is_news(&web, &of(&[])));
        assert!(!warnings.is_news(&web, &of(&["a", "b"])), "it went and came again");
        assert!(warnings.is_news(&web, &of(&["a", "b", "c"])));
        assert!(warnings.is_news(&key("shop", "db"), &of(&["a", "b"])), "of another Service it was not told");
        warnings.forget(&web);
        assert!(warnings.is_news(&web, &of(&["a", "b"])));
    }
}
