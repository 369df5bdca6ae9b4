//! The store's own threads: calls of SQLite block, so none is made on a thread of the runtime.
//!
//! In: a name and what to run. Out: nothing, or that the thread cannot be started; nobody waits for its end here.

use crate::StoreError;

/// Starts one of the store's threads.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(512 << 10);
    builder.spawn(run).map(drop).map_err(|error| StoreError::Backend(format!("cannot start {name}: {error}")))
}
