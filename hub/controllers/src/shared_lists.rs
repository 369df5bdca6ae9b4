//! Lists of which many clusters have the same, kept once: what members serve, and how their nodes are counted. Most of a fleet are of a few makes.
//!
//! In: a list as it was read. Out: the same list, shared. A list that nobody holds any more is forgotten with the next new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The lists that are held.
pub struct SharedLists<T>(Mutex<BTreeSet<Arc<Vec<T>>>>);

impl<T> Default for SharedLists<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Ord> SharedLists<T> {
    /// Makes `list` the one that others hold, where they hold the same.
    pub fn share(&self, list: &mut Arc<Vec<T>>) {
        let mut held = self.0.lock();
        if let Some(same) = held.get(list) {
            list.clone_from(same);
            return;
        }
        held.retain(|list| Arc::strong_count(list) > 1);
        held.insert(list.clone());
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::cluster::ApiEnablement;

    use super::*;

    #[test]
    fn the_same_list_is_held_once_and_forgotten_with_its_last_cluster() {
        let lists = SharedLists::default();
        let list = |version: &str| {
            let one = ApiEnablement { group_version: version.to_owned(), resources: Vec::new() };
            let mut list = Arc::new(vec![one]);
            lists.share(&mut list);
            list
        };
        let (first, second, other) = (list("v1"), list("v1"), list("v2"));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        drop((first, second));
        let third = list("v3");
        assert_eq!(lists.0.lock().len(), 2, "v1 is gone");
        drop(third);
    }
}
