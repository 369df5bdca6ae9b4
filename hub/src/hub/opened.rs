//! What a start opens before anything is served: the directory, the store, what encrypts it, the memory of sessions, the cache.
//!
//! In: settings. Out: an [`OpenedState`], or what could not be opened.

use std::sync::Arc;

use anyhow::{Context, Result};
use karmada_registry::Clock;
use karmada_registry::cache::Cache;
use karmada_store::{MemoryStore, SqliteOptions, SqliteStore, Store};

use crate::at_rest::Encryption;
use crate::data_dir::DataDir;
use crate::fleet::StoredSessions;
use crate::randomness;
use crate::settings::{Settings, StoreKind};

/// What a start stands on.
pub(super) struct OpenedState {
    pub data: Arc<DataDir>,
    pub store: Arc<dyn Store>,
    pub encryption: Option<Arc<Encryption>>,
    pub sessions: Arc<StoredSessions>,
    pub cache: Arc<Cache>,
}

impl OpenedState {
    pub async fn open(settings: &Settings, clock: &Clock) -> Result<OpenedState> {
        let data = Arc::new(DataDir::open(&settings.data_dir, clock())?);
        let OpenedStore { store, file } = open_store(settings, &data)?;
        let encryption = match &settings.encryption {
            None => None,
            Some(settings) => {
                Some(Encryption::start(settings.clone(), file, data.store_file(), clock.clone()).await?)
            }
        };
        // Before this start writes anything: what it finds is where its own history begins.
        let sessions = StoredSessions::open(store.clone(), data.clone(), randomness::number())
            .await
            .context("remembering this start")?;
        let at_rest = encryption.as_ref().map(|encryption| encryption.values());
        let cache = Cache::load_through(&*store, at_rest).await.context("reading the store")?;
        Ok(OpenedState { data, store, encryption, sessions: Arc::new(sessions), cache })
    }
}

/// The store, and the same where it is a file.
struct OpenedStore {
    store: Arc<dyn Store>,
    file: Option<Arc<SqliteStore>>,
}

fn open_store(settings: &Settings, data: &DataDir) -> Result<OpenedStore> {
    Ok(match settings.store {
        StoreKind::Memory => OpenedStore { store: Arc::new(MemoryStore::new()), file: None },
        StoreKind::Sqlite => {
            let file = data.store_file();
            let options = SqliteOptions {
                accept_data_loss: settings.accept_data_loss,
                overwrite_deleted: settings.encryption.is_some(),
                ..SqliteOptions::new(&file)
            };
            let opened = SqliteStore::open(&options);
            let opened = Arc::new(opened.with_context(|| format!("opening the store {}", file.display()))?);
            OpenedStore { store: opened.clone(), file: Some(opened) }
        }
    })
}
