//! Large values that many objects have alike, kept once for all of them.
//!
//! In: an object's JSON. Out: the part of it that others have word by word as well, shared with them. What an
//! object was before a change is mostly what it is after it, and many objects carry the same certificate, manifest or list.
//!
//! A value that is seen once is not kept here: most are one object's own, and lie better within its other bytes. What was seen lately is noted by a
//! digest; who has it, too, is the first to share it. What nobody holds any more goes when the cache is tidied, and once a good part may be such.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::text::Text;

/// Below, sharing saves nothing worth the search.
const LEAST: usize = 512;
/// Digests of values that were seen lately. A place is taken by whoever comes last.
const SEEN: usize = 8192;
/// So many bytes come in before it is asked who still holds what.
const SWEEP: usize = 1 << 20;

/// What is shared.
pub struct SharedValues(Mutex<State>);

struct State {
    seen: Box<[u64]>,
    kept: HashMap<u64, Arc<[u8]>>,
    /// Bytes of `kept` when that was looked at last, and those that came since.
    live: usize,
    came: usize,
}

impl Default for SharedValues {
    fn default() -> Self {
        let seen = vec![0; SEEN].into_boxed_slice();
        SharedValues(Mutex::new(State { seen, kept: HashMap::new(), live: 0, came: 0 }))
    }
}

impl SharedValues {
    /// The part of an object that others have as well, and where it stands in `json`; none where it has none, or is the first to have it.
    pub(super) fn of(&self, json: &[u8]) -> Option<(Range<usize>, Arc<[u8]>)> {
        let value = largest(json)?;
        // It was borrowed from the JSON, and so lies within it.
        let from = (value.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
        let shared = self.share(value.as_bytes())?;
        Some((from..from + value.len(), shared))
    }

    /// Lets go of what nobody holds any more: what was shared may be large, or secret.
    pub fn sweep(&self) {
        self.0.lock().sweep();
    }

    fn share(&self, value: &[u8]) -> Option<Arc<[u8]>> {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        let digest = hasher.finish();
        let state = &mut *self.0.lock();
        if let Some(kept) = state.kept.get(&digest) {
            // Another value of the same digest is not shared.
            return (**kept == *value).then(|| kept.clone());
        }
        let place = &mut state.seen[digest as usize % SEEN];
        if *place != digest {
            *place = digest;
            return None;
        }
        let kept: Arc<[u8]> = value.into();
        state.kept.insert(digest, kept.clone());
        state.came += value.len();
        if state.came > state.live.max(SWEEP) {
            state.sweep();
        }
        Some(kept)
    }
}

impl State {
    fn sweep(&mut self) {
        self.kept.retain(|_, value| Arc::strong_count(value) > 1);
        self.kept.shrink_to(2 * self.kept.len());
        self.live = self.kept.values().map(|value| value.len()).sum();
        self.came = 0;
    }
}

/// The largest value of those one level below the top (`spec.template`, `status.capacity`, `data.ca.crt`), metadata aside.
fn largest(json: &[u8]) -> Option<&str> {
    if json.len() < LEAST {
        return None;
    }
    let sections: BTreeMap<Text<'_>, &RawValue> = serde_json::from_slice(json).ok()?;
    let sections = sections.into_iter().filter(|(name, _)| name.as_ref() != "metadata");
    let objects =
        sections.map(|(_, section)| section.get()).filter(|text| text.len() > LEAST && text.starts_with('{'));
    let values = objects.filter_map(|text| serde_json::from_str::<BTreeMap<Text<'_>, &RawValue>>(text).ok());
    let values = values.flat_map(BTreeMap::into_values).map(RawValue::get);
    values.filter(|value| value.len() >= LEAST).max_by_key(|value| value.len())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{Stored, encode};
    use super::*;

    fn work(name: &str, manifest: &str, replicas: u64) -> Bytes {
        let object = json!({"metadata": {"name": name, "uid": "u", "labels": {"a": "b"}},
            "spec": {"workload": {"manifests": [manifest]}, "suspend": false}, "status": {"replicas": replicas}});
        encode(&object, "Work", "work.karmada.io/v1alpha1")
    }

    fn shared(values: &SharedValues) -> usize {
        values.0.lock().kept.values().map(|value| value.len()).sum()
    }

    #[test]
    fn what_many_have_alike_is_kept_once_and_reads_as_before() {
        let (values, manifest) = (SharedValues::default(), "x".repeat(2000));
        let all: Vec<Stored> = (0..50)
            .map(|n| Stored::read_sharing(&work(&format!("w{n}"), &manifest, n), n + 1, &values).unwrap())
            .collect();
        for (n, stored) in all.iter().enumerate() {
            let plain = Stored::read(&work(&format!("w{n}"), &manifest, n as u64), n as u64 + 1).unwrap();
            assert_eq!(stored.json(), plain.json());
            assert_eq!((stored.uid(), stored.labels()), (plain.uid(), plain.labels()));
            assert_eq!(stored.removed_at(99).json(), plain.removed_at(99).json());
        }
        assert!((2000..2100).contains(&shared(&values)));
        let holders = values.0.lock().kept.values().map(Arc::strong_count).next();
        assert_eq!(holders, Some(50), "all but the first, and the table");
    }

    #[test]
    fn what_one_alone_has_stays_with_it() {
        let values = SharedValues::default();
        for n in 0..50u64 {
            let manifest = format!("{n}{}", "x".repeat(2000));
            Stored::read_sharing(&work("w", &manifest, 0), n + 1, &values).unwrap();
        }
        assert_eq!(shared(&values), 0);
        Stored::read_sharing(
            &encode(&json!({"metadata": {"annotations": {"a": "x".repeat(2000)}}}), "A", "v1"),
            1,
            &values,
        )
        .unwrap();
        assert_eq!(shared(&values), 0, "metadata is an object's own");
    }

    #[test]
    fn what_nobody_holds_any_more_goes() {
        let values = SharedValues::default();
        for n in 0..200u64 {
            let manifest = format!("{n}{}", "x".repeat(50_000));
            for revision in 1..3 {
                Stored::read_sharing(&work("w", &manifest, 0), revision, &values).unwrap();
            }
        }
        assert!(shared(&values) <= 2 * SWEEP, "{} bytes are kept for nobody", shared(&values));
        values.sweep();
        assert_eq!(shared(&values), 0);
    }

    proptest! {
        #[test]
        fn every_object_reads_as_it_was_written(
            head in 0usize..3000, middle in 0usize..3000, tail in 0usize..3000, from in 0usize..9000
        ) {
            let object = json!({"metadata": {"name": "a", "annotations": {"a": "x".repeat(head)}},
                "spec": {"large": "y".repeat(middle)}, "status": {"more": "z".repeat(tail)}});
            let bytes = encode(&object, "A", "v1");
            let values = SharedValues::default();
            for revision in 1..4 {
                let stored = Stored::read_sharing(&bytes, revision, &values).unwrap();
                let json = stored.json();
                prop_assert_eq!(stored.json_len(), json.len());
                let from = from.min(json.len());
                prop_assert_eq!(stored.json_from(from).concat(), &json[from..]);
                prop_assert!(stored.starts_with(&json[..from]));
                let mut read: Value = serde_json::from_slice(&json).unwrap();
                read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                prop_assert_eq!(&read["spec"], &object["spec"]);
                prop_assert_eq!(&read["status"], &object["status"]);
            }
        }
    }
}
