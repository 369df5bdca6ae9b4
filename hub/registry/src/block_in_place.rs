//! Work that may take a while, done apart from the threads that answer quickly.
//!
//! In: work that blocks or computes for long. Out: its result, on the caller's thread. Without a runtime of several threads it is just
//! done.

/// Does it here, while what else this thread would do is done by another.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let handle = tokio::runtime::Handle::try_current();
    let shared =
        handle.is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    if shared { tokio::task::block_in_place(work) } else { work() }
}
