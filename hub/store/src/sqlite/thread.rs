//! The store's own threads: SQLite blocks.

use crate::StoreError;

/// Starts one of the store's threads.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(512 << 10);
    builder.spawn(run).map(drop).map_err(|error| StoreError::Backend(format!("cannot start {name}: {error}")))
}
