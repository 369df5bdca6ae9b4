//! What passes between objects and their bytes in the store, and the objects whose bytes cannot be read.
//!
//! In: stored bytes. Out: the object's own, or why they cannot be read. An object that cannot be read is an error for whoever asks for it, or
//! for all of its kind, and never a 404: nothing is to be concluded from its absence.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::BoxFuture;
use karmada_definitions::resource::StorageId;
use karmada_schema::object::ObjectKey;
use parking_lot::RwLock;

/// Why stored bytes are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// They cannot be, now or later.
    Never(String),
    /// Something is needed for it that does not answer.
    NotNow(String),
}

/// Encrypts what is stored.
pub trait ValueTransformer: Send + Sync {
    /// What is stored of an object's bytes at a key.
    ///
    /// # Errors
    /// In words: it cannot be encrypted now. Nothing is stored then.
    fn seal(&self, storage: &StorageId, key: &str, value: Bytes) -> Result<Bytes, String>;

    /// The object's bytes.
    ///
    /// # Errors
    /// [`NotRead`] tells whether another try may help.
    fn open<'a>(
        &'a self,
        storage: &'a StorageId,
        key: &'a str,
        stored: &'a Bytes,
    ) -> BoxFuture<'a, Result<Bytes, NotRead>>;
}

/// What encrypted bytes begin with, whoever encrypted them.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// What is said of encrypted bytes where nothing decrypts any.
pub(super) fn without_keys(key: &str, stored: &[u8]) -> Option<String> {
    let head: String = String::from_utf8_lossy(&stored[..stored.len().min(200)]).into_owned();
    stored.starts_with(ENCRYPTED).then(|| {
        let provider: Vec<&str> = head.splitn(6, ':').take(5).collect();
        format!(
            "{key:?} is encrypted as {:?}, and there is no --encryption-provider-config to read it with",
            provider.join(":")
        )
    })
}

/// Objects that cannot be read, and why.
#[derive(Default)]
pub(super) struct Unreadable(RwLock<BTreeMap<StorageId, BTreeMap<ObjectKey, String>>>);

impl Unreadable {
    pub fn add(&self, storage: &StorageId, key: ObjectKey, why: String) {
        self.0.write().entry(storage.clone()).or_default().insert(key, why);
    }

    /// It was written anew, or removed.
    pub fn remove(&self, storage: &StorageId, key: &ObjectKey) {
        if self.0.read().contains_key(storage) {
            let mut all = self.0.write();
            let is_empty = all.get_mut(storage).is_some_and(|keys| {
                keys.remove(key);
                keys.is_empty()
            });
            if is_empty {
                all.remove(storage);
            }
        }
    }

    pub fn why(&self, storage: &StorageId, key: &ObjectKey) -> Option<String> {
        self.0.read().get(storage)?.get(key).cloned()
    }

    pub fn any_in(&self, storage: &StorageId, namespace: &str) -> Option<String> {
        let all = self.0.read();
        let mut keys = all.get(storage)?.iter();
        keys.find(|(key, _)| namespace.is_empty() || *key.namespace == *namespace).map(|(_, why)| why.clone())
    }

    pub fn count(&self) -> usize {
        self.0.read().values().map(BTreeMap::len).sum()
    }
}
