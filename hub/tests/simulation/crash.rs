//! How a process is ended in the middle of something: whoever comes to the chosen place blows the fuse and never goes on, and the world
//! drops the process with all that it awaits.

use tokio::sync::mpsc;

/// Of one life of a process.
#[derive(Debug, Clone)]
pub struct Fuse {
    process: String,
    life: u64,
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
        Self { process: process.to_owned(), life, blown }
    }

    /// The process is to end. Who calls this returns to nobody.
    pub fn blow(&self, place: &'static str) {
        let blown = Blown { process: self.process.clone(), life: self.life, place };
        let _ = self.blown.try_send(blown);
    }
}
