//! Threads of their own for the loops that act on what users apply.
//!
//! In: loops, to be run on them. What is promised: however long a loop takes to decide something, the API answers beside it, so that
//! whatever it is about can be changed or deleted; the kernel divides the processors between both.

use tokio::runtime::{Builder, Handle, Runtime};

/// The threads. Dropped, what still runs on them is cut.
pub struct ControllerThreads(Option<Runtime>, Handle);

impl ControllerThreads {
    /// Starts as many as the runtime has that this is called on, and two at least.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn start() -> std::io::Result<ControllerThreads> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(Handle::current().metrics().num_workers().max(2))
            .thread_name("controllers")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Ok(ControllerThreads(Some(runtime), handle))
    }

    /// Where to spawn.
    pub fn handle(&self) -> &Handle {
        &self.1
    }
}

impl Drop for ControllerThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // The other way of ending waits, which an async caller may not.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// One thread serves the API here; every one of the controllers' is stuck.
    #[tokio::test]
    async fn loops_that_never_yield_keep_nobody_else_waiting() {
        let threads = ControllerThreads::start().unwrap();
        let (free, stuck) = std::sync::mpsc::channel::<()>();
        let stuck = std::sync::Arc::new(std::sync::Mutex::new(stuck));
        for _ in 0..8 {
            let stuck = stuck.clone();
            threads.handle().spawn(async move { drop(stuck.lock().map(|stuck| stuck.recv())) });
        }
        tokio::time::timeout(Duration::from_secs(30), tokio::time::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
        drop(free);
        drop(threads);
    }
}
