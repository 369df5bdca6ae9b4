//! What is kept for the next who asks, within a number of bytes: what was asked for longest ago goes first. Pure.
//!
//! In: a text and what is kept under it, with its bytes. Out: what was kept, as long as there is room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Values by text, each with the bytes that it takes.
#[derive(Debug)]
pub(super) struct Kept<V> {
    by_text: HashMap<Arc<str>, Entry<V>>,
    /// Texts in the order in which they were last asked for.
    order: BTreeMap<u64, Arc<str>>,
    clock: u64,
    bytes: usize,
    most: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    asked: u64,
}

impl<V: Clone> Kept<V> {
    /// Nothing yet, and never more than so many bytes.
    pub(super) fn new(most: usize) -> Kept<V> {
        Kept { by_text: HashMap::new(), order: BTreeMap::new(), clock: 0, bytes: 0, most }
    }

    /// What is kept under the text.
    pub(super) fn get(&mut self, text: &str) -> Option<V> {
        let entry = self.by_text.get_mut(text)?;
        self.clock += 1;
        if let Some(text) = self.order.remove(&entry.asked) {
            self.order.insert(self.clock, text);
        }
        entry.asked = self.clock;
        Some(entry.value.clone())
    }

    /// Keeps a value, in the place of what was asked for longest ago. One that takes more than a quarter of all the room is not kept.
    pub(super) fn put(&mut self, text: &str, value: V, bytes: usize) {
        if bytes > self.most / 4 || self.by_text.contains_key(text) {
            return;
        }
        while self.bytes + bytes > self.most {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.bytes -= self.by_text.remove(&oldest).map_or(0, |gone| gone.bytes);
        }
        self.clock += 1;
        let text: Arc<str> = text.into();
        self.order.insert(self.clock, text.clone());
        self.by_text.insert(text, Entry { value, bytes, asked: self.clock });
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_its_bound_and_what_is_asked_for_stays() {
        let mut kept = Kept::new(100);
        for at in 0..50 {
            kept.put(&format!("p{at}"), at, 10);
            assert_eq!(kept.get("p0"), Some(0), "after {at}");
            assert!(kept.bytes <= 100 && kept.by_text.len() <= 10 && kept.order.len() == kept.by_text.len());
        }
        assert_eq!((kept.get("p49"), kept.get("p48"), kept.get("p1")), (Some(49), Some(48), None));
        kept.put("large", 1, 26);
        assert_eq!(kept.get("large"), None);
        kept.put("p49", 7, 10);
        assert_eq!((kept.get("p49"), kept.bytes), (Some(49), 100), "it is there already");
    }
}
