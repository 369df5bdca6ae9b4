//! Objects that are in no store: whoever provides them publishes each as it changes, and they are listed and watched as stored ones are.
//!
//! In: objects as they are now, and the moment of it. Out: a [`Collection`]. What is published as it was before is no change.
//!
//! Revisions are microseconds of the wall clock, and one more where it did not move on: each is above all before it, and above those
//! of an earlier process, so that who comes with one of those is told to list again.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use karmada_definitions::resource::StorageId;
use karmada_schema::object::{ObjectKey, Stored};
use karmada_store::Revision;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::collection::Collection;
use super::resource_cache::ResourceCache;

/// What a provider publishes of one resource.
pub struct Published {
    storage: StorageId,
    resource_cache: Arc<ResourceCache>,
    /// Behind a lock of its own, so that revisions are given out in the order in which they are applied.
    writing: Mutex<()>,
    revision: watch::Sender<Revision>,
}

fn micros(now: Timestamp) -> Revision {
    Revision::try_from(now.as_microsecond()).unwrap_or(1).max(1)
}

impl Published {
    /// Nothing yet.
    pub fn new(storage: StorageId, now: Timestamp) -> Published {
        let start = micros(now);
        let (resource_cache, revision) =
            (Arc::new(ResourceCache::starting_at(start)), watch::Sender::new(start));
        Published { storage, resource_cache, writing: Mutex::default(), revision }
    }

    /// Its objects, to be read and watched.
    pub fn collection(&self) -> Collection {
        Collection::following(self.resource_cache.clone(), self.revision.subscribe())
    }

    /// How many look at the objects at this moment: watches above all.
    pub fn readers(&self) -> usize {
        self.revision.receiver_count()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.resource_cache.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One object as it was published last.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.resource_cache.get(key)
    }

    /// Shows the object at `key` as `make` says that it is, given how it was shown; where that is nothing, it is gone. Nobody else
    /// does meanwhile, so that what was looked at later is shown later. False where that is no news, or no object.
    pub fn renew(
        &self,
        key: &ObjectKey,
        now: Timestamp,
        make: impl FnOnce(Option<&Value>) -> Option<Value>,
    ) -> bool {
        let _writing = self.writing.lock();
        let before = self.resource_cache.get(key).map(|stored| unversioned(&stored));
        let after = make(before.as_ref());
        if after == before {
            return false;
        }
        let revision = micros(now).max(*self.revision.borrow() + 1);
        match after {
            None => self.resource_cache.apply(&self.storage, None, Some(key), revision),
            Some(object) => {
                let Ok(stored) = Stored::read(&Bytes::from(object.to_string()), revision) else {
                    return false;
                };
                self.resource_cache.apply(&self.storage, Some(Arc::new(stored)), None, revision);
            }
        }
        self.revision.send_replace(revision);
        self.resource_cache.trim(tokio::time::Instant::now());
        true
    }
}

/// The object as it was published, without the version that it got then.
fn unversioned(stored: &Stored) -> Value {
    let mut object = stored.value();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(micros).unwrap()
    }

    fn object(name: &str, state: &str) -> Value {
        json!({"kind": "A", "apiVersion": "g/v1", "metadata": {"name": name}, "status": {"state": state}})
    }

    #[tokio::test]
    async fn what_is_published_again_is_no_change_and_revisions_rise_whatever_the_clock_does() {
        let published = Published::new(StorageId("g/as".into()), at(1000));
        let all = published.collection();
        let x = ObjectKey::new("", "x");
        let shows = |state: Option<&str>, now| published.renew(&x, at(now), |_| Some(object("x", state?)));
        assert!(shows(Some("up"), 2000));
        assert_eq!(all.revision(), 2000);
        assert!(!shows(Some("up"), 3000), "no news");
        assert_eq!(all.revision(), 2000);
        assert!(shows(Some("down"), 500), "the clock went back");
        assert_eq!(all.revision(), 2001);
        assert!(shows(None, 500) && !shows(None, 500));
        let events = all.resource_cache().subscribe(1000).next().await.unwrap();
        let told: Vec<_> = events.iter().map(|e| (e.revision, e.removed)).collect();
        assert_eq!(told, [(2000, false), (2001, false), (2002, true)]);
    }

    #[tokio::test]
    async fn a_place_of_an_earlier_process_is_expired() {
        let published = Published::new(StorageId("g/as".into()), at(1000));
        published.renew(&ObjectKey::new("", "x"), at(2000), |_| Some(object("x", "up")));
        assert!(published.collection().resource_cache().subscribe(999).next().await.is_err());
        assert!(published.collection().resource_cache().subscribe(1000).next().await.is_ok());
    }

    #[tokio::test]
    async fn who_looks_is_counted_while_they_look() {
        let published = Published::new(StorageId("g/as".into()), at(1000));
        assert_eq!(published.readers(), 0);
        let watching = published.collection();
        assert_eq!(published.readers(), 1);
        drop(watching);
        assert_eq!(published.readers(), 0);
    }
}
