//! Values at rest: encrypted as a file says, kept so while the file and its keys change.
//!
//! In: the file, the store, the clock. Out: what stands between objects and their stored bytes ([`RegistryTransformer`]), the state of key
//! management services for `/readyz`, figures for `/metrics`. The file is looked at again while the hub runs; one that is wrong
//! changes nothing. After each change, and after each start, [`rewriting`] brings what is stored to what the file says now.

mod rewriting;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use karmada_definitions::resource::StorageId;
use karmada_encryption::{Configuration, EncryptionProviders, Failure};
use karmada_registry::Clock;
use karmada_registry::cache::{self, NotRead};
use karmada_store::SqliteStore;
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::randomness;
use crate::settings::EncryptionSettings;
pub(crate) use rewriting::{Outcome, rewrite};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often key management services are asked that a start waits for.
const WAIT: Duration = Duration::from_secs(5);
/// How often key management services are asked how they are.
const ASK: Duration = Duration::from_secs(10);
/// After what time rewriting is tried again that could not be done.
const AGAIN: Duration = Duration::from_secs(60);

/// Encryption of what is stored, for as long as the hub runs.
pub struct Encryption {
    settings: EncryptionSettings,
    store: Arc<SqliteStore>,
    /// The store's file, beside which what was set aside may lie.
    file: PathBuf,
    values: Arc<EncryptionProviders>,
    clock: Clock,
    state: Mutex<State>,
}

/// What is told of it.
#[derive(Default)]
struct State {
    /// The file's text as it was read last, good or bad.
    text: String,
    /// When a good file is tried again that a key management service kept from being taken.
    again: Option<Instant>,
    taken: u64,
    refused: u64,
    /// When each was last, in seconds since 1970.
    taken_at: i64,
    refused_at: i64,
    rewritten: u64,
    unreadable: u64,
    is_current: bool,
}

/// What stands between objects and their stored bytes.
pub struct RegistryTransformer(Arc<EncryptionProviders>);

impl cache::ValueTransformer for RegistryTransformer {
    fn seal(&self, storage: &StorageId, key: &str, value: Bytes) -> Result<Bytes, String> {
        let (group, resource) = resource_of(storage);
        self.0.seal(group, resource, key, value).map_err(|failure| failure.to_string())
    }

    fn open<'a>(
        &'a self,
        storage: &'a StorageId,
        key: &'a str,
        stored: &'a Bytes,
    ) -> BoxFuture<'a, Result<Bytes, NotRead>> {
        let (group, resource) = resource_of(storage);
        let opened = self.0.open(group, resource, key, stored).map_ok(|opened| opened.value);
        let not_read = |failure| match failure {
            Failure::Unreadable(why) => NotRead::Never(why),
            Failure::Unavailable(why) => NotRead::NotNow(why),
        };
        opened.map_err(not_read).boxed()
    }
}

/// Group and plural of where objects are stored; the core group has a name there.
fn resource_of(storage: &StorageId) -> (&str, &str) {
    let (group, resource) = storage.0.split_once('/').unwrap_or(("", &storage.0));
    (if group == "core" { "" } else { group }, resource)
}

/// The same of a key of the store; none: it is no object's.
fn resource_of_key(key: &str) -> Option<StorageId> {
    let mut parts = key.strip_prefix(cache::PREFIX)?.splitn(3, '/');
    let (group, resource, _) = (parts.next()?, parts.next()?, parts.next()?);
    Some(StorageId(format!("{group}/{resource}").into()))
}

impl Encryption {
    /// Reads the file, and waits until its key management services answer: without them nothing can be said of what is stored.
    ///
    /// # Errors
    /// The store is in memory, or the file cannot be read or is not as it has to be.
    pub async fn start(
        settings: EncryptionSettings,
        store: Option<Arc<SqliteStore>>,
        file: PathBuf,
        clock: Clock,
    ) -> Result<Arc<Encryption>> {
        let Some(store) = store else {
            bail!(
                "--encryption-provider-config is for what is on the disk, and with --store memory nothing is"
            )
        };
        let text = read(&settings)?;
        let configuration = Configuration::read(&text);
        let configuration = configuration.with_context(|| format!("reading {}", settings.file.display()))?;
        let random = Arc::new(|buffer: &mut [u8]| randomness::generator().fill_bytes(buffer));
        let values = EncryptionProviders::new(configuration, random).map_err(anyhow::Error::msg)?;
        while let Err(why) = values.check_services().await {
            tracing::error!(why, "waiting for what encrypts the store: nothing is served before");
            sleep(WAIT).await;
        }
        let state = Mutex::new(State { text, ..State::default() });
        Ok(Arc::new(Encryption { settings, store, file, values: Arc::new(values), clock, state }))
    }

    /// For the cache.
    pub fn values(&self) -> Arc<dyn cache::ValueTransformer> {
        Arc::new(RegistryTransformer(self.values.clone()))
    }

    /// How key management services are; `None`: there are none.
    pub fn services(&self) -> Option<Result<(), String>> {
        self.values.services()
    }

    /// Looks at the file and the services, and has values rewritten, until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut due = Some(Instant::now());
        let mut ask = Instant::now() + ASK;
        while stop.run_until_cancelled(sleep(LOOK)).await.is_some() {
            if self.settings.reloads && self.reload().await {
                due = Some(Instant::now());
            }
            if Instant::now() >= ask {
                ask = Instant::now() + ASK;
                match self.values.check_services().await {
                    Ok(true) => due = Some(Instant::now()),
                    Ok(false) => {}
                    Err(why) => tracing::error!(why, "what encrypts the store is not well"),
                }
            }
            if due.is_some_and(|due| Instant::now() >= due) {
                let done = stop.run_until_cancelled(self.rewrite()).await;
                due = (done != Some(true)).then(|| Instant::now() + AGAIN);
            }
        }
    }

    /// Takes the file over if it is another. True: it was.
    async fn reload(&self) -> bool {
        let file = self.settings.file.display();
        let read = read(&self.settings).map_err(|error| format!("{error:#}"));
        let text = read.as_ref().map_or_else(|why| why.clone(), Clone::clone);
        let is_other = {
            let mut state = self.state.lock();
            let is_due = state.again.take_if(|again| *again <= Instant::now()).is_some();
            let is_other = state.text != text;
            state.text = text;
            is_other || is_due
        };
        if !is_other {
            return false;
        }
        let read = read.and_then(|text| Configuration::read(&text).map_err(|invalid| invalid.to_string()));
        let (taken, again) = match read {
            Ok(configuration) => (self.values.adopt(configuration).await, Some(Instant::now() + ASK)),
            Err(why) => (Err(why), None),
        };
        let now = (self.clock)().as_second();
        let mut state = self.state.lock();
        match taken {
            Ok(()) => {
                state.again = None;
                (state.taken, state.taken_at, state.is_current) = (state.taken + 1, now, false);
                tracing::info!(%file, "another encryption configuration is in force");
                true
            }
            Err(why) => {
                state.again = again;
                (state.refused, state.refused_at) = (state.refused + 1, now);
                tracing::error!(%file, why, "the encryption configuration is not taken; the one before goes on");
                false
            }
        }
    }

    /// True: every stored value is as the configuration says, and nothing else is in the file.
    async fn rewrite(&self) -> bool {
        self.state.lock().is_current = false;
        let outcome = rewrite(&self.store, &self.values, |count| self.state.lock().rewritten += count).await;
        match outcome {
            Ok(Outcome { unreadable: 0, .. }) => {
                let mut state = self.state.lock();
                (state.is_current, state.unreadable) = (true, 0);
                drop(state);
                tracing::info!(
                    "every stored value is written as the encryption configuration says: keys that it does not write with may be \
                     dropped"
                );
                self.warn_of_copies();
                true
            }
            Ok(Outcome { unreadable, first }) => {
                self.state.lock().unreadable = unreadable;
                let why = first.unwrap_or_default();
                tracing::error!(unreadable, why, "stored values cannot be read; their keys are still needed");
                true
            }
            Err(why) => {
                tracing::error!(
                    why,
                    "stored values are not all written as the encryption configuration says; it is tried again"
                );
                false
            }
        }
    }

    fn warn_of_copies(&self) {
        let mut aside = self.file.clone().into_os_string();
        aside.push(".damaged");
        let aside = PathBuf::from(aside);
        if aside.exists() {
            tracing::warn!(file = %aside.display(), "a damaged store was set aside; what it holds is as it was: remove it");
        }
    }

    /// What `/metrics` shows.
    pub fn page(&self) -> String {
        let state = self.state.lock();
        let reloads = "apiserver_encryption_config_controller_automatic_reload";
        format!(
            "# HELP {reloads}s_total Encryption configurations that were taken over, or not, while the hub ran.\n\
             # TYPE {reloads}s_total counter\n\
             {reloads}s_total{{status=\"success\"}} {}\n\
             {reloads}s_total{{status=\"failure\"}} {}\n\
             # HELP {reloads}_last_timestamp_seconds When that was last, in seconds since 1970.\n\
             # TYPE {reloads}_last_timestamp_seconds gauge\n\
             {reloads}_last_timestamp_seconds{{status=\"success\"}} {}\n\
             {reloads}_last_timestamp_seconds{{status=\"failure\"}} {}\n\
             # HELP karmada_hub_encryption_rewritten_total Stored values that were written anew under another key.\n\
             # TYPE karmada_hub_encryption_rewritten_total counter\n\
             karmada_hub_encryption_rewritten_total {}\n\
             # HELP karmada_hub_encryption_unreadable Stored values that no key of the configuration reads.\n\
             # TYPE karmada_hub_encryption_unreadable gauge\n\
             karmada_hub_encryption_unreadable {}\n\
             # HELP karmada_hub_encryption_current Whether every stored value is written as the configuration says: older keys may be dropped.\n\
             # TYPE karmada_hub_encryption_current gauge\n\
             karmada_hub_encryption_current {}\n",
            state.taken,
            state.refused,
            state.taken_at,
            state.refused_at,
            state.rewritten,
            state.unreadable,
            u8::from(state.is_current),
        )
    }
}

/// The file's text. Who else may read it is told of.
fn read(settings: &EncryptionSettings) -> Result<String> {
    let file = &settings.file;
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 && !settings.warned.swap(true, std::sync::atomic::Ordering::Relaxed) {
        tracing::warn!(file = %file.display(), mode = format!("{:o}", mode & 0o777), "others may read the keys in this file");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_store_tells_its_resource() {
        let of = |key: &str| {
            let storage = resource_of_key(key)?;
            let (group, resource) = resource_of(&storage);
            Some((group.to_owned(), resource.to_owned()))
        };
        let pair = |group: &str, resource: &str| Some((group.to_owned(), resource.to_owned()));
        assert_eq!(of("/registry/core/secrets/default/a"), pair("", "secrets"));
        assert_eq!(of("/registry/work.karmada.io/works/karmada-es-a/b"), pair("work.karmada.io", "works"));
        assert_eq!(of("/registry/core/namespaces/default"), pair("", "namespaces"));
        assert_eq!(of("/fleet/starts"), None);
    }
}
