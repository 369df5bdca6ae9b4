//! The selectors that watches hold for as long as they last.
//!
//! In: who watches, and by what. Out: the selector, the same one for all watches of an account that select alike. What it takes counts as
//! room that its account holds, and comes back with the last watch that uses it: a selector of a few thousand labels is worth more
//! memory than everything else that a watch holds.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use karmada_kinds::field_selector::Selector;
use karmada_registry::User;
use parking_lot::Mutex;

use super::memory_shares::{Full, MemoryShares, TakenMemory};

/// An account, and what it selects.
type Key = (String, Arc<Selector>);

/// Every selector that a watch holds.
#[derive(Clone)]
pub(super) struct Selectors {
    room: MemoryShares,
    known: Arc<Mutex<HashMap<Key, Weak<HeldSelector>>>>,
}

/// A selector that watches hold.
pub(super) struct HeldSelector {
    key: Key,
    known: Weak<Mutex<HashMap<Key, Weak<HeldSelector>>>>,
    _room: TakenMemory,
}

impl Selectors {
    /// None yet; they take of this room.
    pub(super) fn new(room: MemoryShares) -> Selectors {
        Selectors { room, known: Arc::default() }
    }

    /// The selector, to be held by one more watch.
    ///
    /// # Errors
    /// It is another than those that the account holds, and there is no room for it.
    pub(super) fn hold(&self, user: &User, selector: Selector) -> Result<Arc<HeldSelector>, Full> {
        let bytes = selector.size();
        let key = (user.name.clone(), Arc::new(selector));
        let mut known = self.known.lock();
        if let Some(held) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(held);
        }
        let mut room = self.room.of(user);
        room.more(bytes)?;
        let held =
            Arc::new(HeldSelector { key: key.clone(), known: Arc::downgrade(&self.known), _room: room });
        known.insert(key, Arc::downgrade(&held));
        Ok(held)
    }
}

impl Deref for HeldSelector {
    type Target = Selector;

    fn deref(&self) -> &Selector {
        &self.key.1
    }
}

impl Drop for HeldSelector {
    fn drop(&mut self) {
        let Some(known) = self.known.upgrade() else { return };
        let mut known = known.lock();
        // Another watch may have begun with the same meanwhile.
        if known.get(&self.key).is_some_and(|held| held.strong_count() == 0) {
            known.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_schema::selector::LabelSelector;
    use serde_json::json;

    use super::*;

    fn user(name: &str) -> User {
        User { name: name.into(), ..User::default() }
    }

    /// One that takes a megabyte, another for each number.
    fn large(number: usize) -> Selector {
        let labels = json!({"matchLabels": {format!("l{number}"): "v".repeat(1 << 20)}});
        Selector { labels: LabelSelector::of_json(&labels), ..Selector::default() }
    }

    #[test]
    fn what_a_selector_takes_is_room_that_its_account_holds() {
        let (room, one) = (MemoryShares::default(), large(0).size());
        assert!(one > 1 << 20, "{one}");
        let selectors = Selectors::new(room.clone());
        let mut held = Vec::new();
        let refused = loop {
            match selectors.hold(&user("viewer"), large(held.len())) {
                Ok(one) => held.push(one),
                Err(full) => break full,
            }
            assert!(held.len() < 800, "nothing bounds them");
        };
        assert_eq!(refused, Full);
        assert_eq!(held.len(), (64 << 20) / one);
        assert!(selectors.hold(&user("other"), large(0)).is_ok(), "that is one account's own");
        assert!(
            selectors.hold(&user("viewer"), Selector::default()).is_ok(),
            "who selects nothing holds nothing"
        );
        held.pop();
        assert!(selectors.hold(&user("viewer"), large(900)).is_ok(), "and it comes back");
        drop(held);
        assert!(selectors.known.lock().is_empty(), "nothing is remembered");
        assert!(room.is_empty());
    }

    #[test]
    fn watches_of_an_account_that_select_alike_hold_one_selector() {
        let room = MemoryShares::default();
        let selectors = Selectors::new(room.clone());
        let first = selectors.hold(&user("viewer"), large(1)).unwrap();
        let others: Vec<_> = (0..200).map(|_| selectors.hold(&user("viewer"), large(1)).unwrap()).collect();
        assert!(others.iter().all(|other| Arc::ptr_eq(other, &first)));
        assert_eq!(selectors.known.lock().len(), 1);
        drop(first);
        assert!(!room.is_empty(), "it is held on");
        drop(others);
        assert!(room.is_empty() && selectors.known.lock().is_empty());
    }
}
