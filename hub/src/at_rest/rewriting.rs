//! What is stored is brought to what the encryption configuration says now, by the hub itself.
//!
//! In: the store, and what reads and writes values. Out: how many cannot be read, when every other one is written anew and what was
//! there before is wiped out of the file. A pass walks all that is kept, live values and those that watchers may still ask for, a
//! stretch at a time with a pause after each that changed something, so that it takes little from those who work. It needs no memory
//! of its own: every value tells how it is written, so that a pass that was broken off is begun again. Nothing of it is a change to
//! anybody: revisions stay as they are.

use std::time::Duration;

use karmada_encryption::{EncryptionProviders, Failure};
use karmada_store::{SqliteStore, Store, StoredValue};

use super::{resource_of, resource_of_key};

/// The pause after a stretch that changed something.
const PAUSE: Duration = Duration::from_millis(50);

/// What a pass left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Values that cannot be read, and are as they were.
    pub unreadable: u64,
    /// Why, of the first of them.
    pub first: Option<String>,
}

/// Rewrites until a pass finds nothing more to do, then wipes what was there before.
///
/// # Errors
/// Why it could not be done now.
pub(crate) async fn rewrite(
    store: &SqliteStore,
    values: &EncryptionProviders,
    counted: impl Fn(u64),
) -> Result<Outcome, String> {
    let layout = values.layout();
    let outcome = loop {
        let (count, outcome) = pass(store, values, &counted).await?;
        if count == 0 {
            break outcome;
        }
    };
    let cleaned = store.cleaned().await.map_err(|error| error.to_string())?;
    if cleaned != Some(layout) {
        let wiped = store.clean(layout).await;
        wiped.map_err(|error| format!("what was stored before is not wiped out of the file: {error}"))?;
    }
    if outcome.unreadable == 0 && values.layout() == layout {
        values.forget_older();
    }
    Ok(outcome)
}

async fn pass(
    store: &SqliteStore,
    values: &EncryptionProviders,
    counted: &impl Fn(u64),
) -> Result<(u64, Outcome), String> {
    let (mut after, head) = (0, store.revision());
    let (mut count, mut outcome) = (0, Outcome::default());
    while after < head {
        let stretch = store.stored_values(after, head).await.map_err(|error| error.to_string())?;
        after = stretch.through;
        let mut changed = Vec::new();
        for value in &stretch.values {
            match anew(values, value).await {
                Ok(another) => changed.extend(another),
                Err(Failure::Unreadable(why)) => {
                    outcome.unreadable += 1;
                    outcome.first.get_or_insert(why);
                }
                Err(Failure::Unavailable(why)) => return Err(why),
            }
        }
        if !changed.is_empty() {
            let done = store.rewrite(changed).await.map_err(|error| error.to_string())?;
            counted(done);
            count += done;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok((count, outcome))
}

/// The value as it is to be written; `None`: it is so already.
async fn anew(values: &EncryptionProviders, stored: &StoredValue) -> Result<Option<StoredValue>, Failure> {
    let Some(storage) = resource_of_key(&stored.key) else { return Ok(None) };
    let (group, resource) = resource_of(&storage);
    let opened = values.open(group, resource, &stored.key, &stored.value).await?;
    if !opened.is_stale {
        return Ok(None);
    }
    let value = values.seal(group, resource, &stored.key, opened.value)?;
    Ok(Some(StoredValue { value, ..stored.clone() }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use bytes::Bytes;
    use karmada_encryption::Configuration;
    use karmada_store::{Expect, SqliteOptions};

    use super::*;

    const CLEAR: &str = "in-clear-in-clear";

    fn configuration(providers: &str) -> Configuration {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [{providers}]\n"
        );
        Configuration::read(&text).unwrap()
    }

    fn gcm(name: &str) -> String {
        let secret = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".replace("AAAA", &format!("{name}{name}"));
        format!("{{aesgcm: {{keys: [{{name: {name}, secret: \"{secret}\"}}]}}}}")
    }

    fn values(providers: &str) -> EncryptionProviders {
        let counting = |buffer: &mut [u8]| buffer.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
        EncryptionProviders::new(configuration(providers), Arc::new(counting)).unwrap()
    }

    async fn opened(values: &EncryptionProviders, stored: &StoredValue) -> Option<bool> {
        let resource = if stored.key.contains("/secrets/") { "secrets" } else { "configmaps" };
        values.open("", resource, &stored.key, &stored.value).await.ok().map(|opened| opened.is_stale)
    }

    #[tokio::test]
    async fn what_is_in_clear_or_under_an_older_key_is_rewritten_and_the_rest_is_let_alone() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            SqliteOptions { overwrite_deleted: true, ..SqliteOptions::new(folder.path().join("hub.db")) };
        let store = SqliteStore::open(&options).unwrap();
        for n in 0..400 {
            let key = format!("/registry/core/{}/default/{n}", ["secrets", "configmaps"][n % 2]);
            store.put(&key, format!("{{{CLEAR}}}").into(), Expect::Absent).await.unwrap();
        }
        store.put("/fleet/starts", "[]".into(), Expect::Absent).await.unwrap();
        let head = store.revision();
        let at_rest = values(&[gcm("ab"), "{identity: {}}".into()].join(", "));
        let count = Cell::new(0);
        let counted = |done| count.set(count.get() + done);
        assert_eq!(rewrite(&store, &at_rest, counted).await, Ok(Outcome::default()));
        assert_eq!((count.get(), store.revision()), (200, head));
        assert_eq!(store.cleaned().await.unwrap(), Some(at_rest.layout()));
        assert_eq!(rewrite(&store, &at_rest, counted).await, Ok(Outcome::default()));
        assert_eq!(count.get(), 200, "nothing is left to do");
        let stored = |n: usize| {
            let key = format!("/registry/core/{}/default/{n}", ["secrets", "configmaps"][n % 2]);
            let store = &store;
            async move { store.get(&key).await.unwrap().unwrap().value }
        };
        assert!(stored(0).await.starts_with(b"k8s:enc:aesgcm:v1:ab:"));
        assert_eq!(stored(1).await, Bytes::from(format!("{{{CLEAR}}}")));

        // A key that is dropped at once with the one that replaces it.
        at_rest.adopt(configuration(&gcm("cd"))).await.unwrap();
        assert_eq!(rewrite(&store, &at_rest, counted).await, Ok(Outcome::default()));
        assert_eq!(count.get(), 400);
        let next = values(&gcm("cd"));
        for value in store.stored_values(0, head).await.unwrap().values {
            assert_ne!(opened(&next, &value).await, Some(true), "{}", value.key);
        }
        // Without the key nothing is changed, and it is said.
        let outcome = rewrite(&store, &values(&gcm("ef")), counted).await.unwrap();
        assert_eq!((outcome.unreadable, count.get()), (200, 400));
        assert!(outcome.first.unwrap().contains("k8s:enc:aesgcm:v1:cd"));
        store.close().await;
    }
}
