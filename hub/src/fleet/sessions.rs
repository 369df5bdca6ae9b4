//! What must outlive the process: the epoch and the sessions' fence, beside the Kubernetes objects in the store.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_gateway::ports::{PortError, Position, SessionStore};
use karmada_store::{Expect, Store, StoreError};

/// Session numbers live here, one key a cluster.
const PREFIX: &str = "/fleet/sessions/";

/// The fence in the store.
pub struct StoredSessions(pub Arc<dyn Store>);

fn later(error: &StoreError) -> PortError {
    PortError::later(error.to_string())
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn position(&self) -> Result<Position, PortError> {
        Ok(Position { epoch: self.0.epoch(), revision: self.0.revision() })
    }

    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError> {
        self.0.raise_epoch(seen).await.map_err(|error| later(&error))
    }

    async fn next_session(&self, cluster: &str) -> Result<u64, PortError> {
        let key = format!("{PREFIX}{cluster}");
        loop {
            let held = self.0.get(&key).await.map_err(|error| later(&error))?;
            let last = held
                .as_ref()
                .and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok())
                .unwrap_or(0u64);
            let next = last + 1;
            let expect = held.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
            match self.0.put(&key, Bytes::from(next.to_string()), expect).await {
                Ok(_) => return Ok(next),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(later(&error)),
            }
        }
    }
}
