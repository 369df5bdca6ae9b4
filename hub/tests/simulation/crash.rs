//! How a process is ended in the middle of something: whoever comes to the chosen place blows the fuse and never goes on, and the world
//! drops the process with all that it awaits. Until it does, nothing of that life reaches anybody: the process has ended at the place.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

/// Of one life of a process.
#[derive(Debug, Clone)]
pub struct Fuse {
    process: String,
    life: u64,
    is_blown: Arc<AtomicBool>,
    blown: mpsc::Sender<Blown>,
}

/// A process that is to end now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blown {
    pub process: String,
    pub life: u64,
    /// Where it was.
    pub place: &'static str,
}

impl Fuse {
    pub fn new(process: &str, life: u64, blown: mpsc::Sender<Blown>) -> Self {
        Self { process: process.to_owned(), life, is_blown: Arc::default(), blown }
    }

    /// The process is to end. Who calls this returns to nobody.
    pub fn blow(&self, place: &'static str) {
        self.is_blown.store(true, Ordering::Relaxed);
        let blown = Blown { process: self.process.clone(), life: self.life, place };
        let _ = self.blown.try_send(blown);
    }

    /// Whether the process has ended, though the world has not come to it yet.
    pub fn is_blown(&self) -> bool {
        self.is_blown.load(Ordering::Relaxed)
    }

    /// Whoever has ended goes no further.
    pub async fn holds(&self) {
        if self.is_blown() {
            pending::<()>().await;
        }
    }
}
