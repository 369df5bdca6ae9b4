//! One connection: two directions of writes that arrive later, or not, or not as they were.
//!
//! In: what both ends write; faults. Out: what they read. A direction holds so many bytes, and takes more once its reader has taken some.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::crash::Fuse;

/// Bytes under way in one direction.
const WINDOW: usize = 128 * 1024;
/// What keeps a line busy for its slowness.
const UNIT: usize = 16 * 1024;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    Hub,
    Agent,
}

/// What happens to a write that is still to come, the `after`th from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub after: u64,
    pub kind: FaultKind,
    /// Where in the write, in thousandths.
    pub at: u64,
}

/// See [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The connection ends within it.
    Cut,
    /// Nothing comes through any more, from within it on.
    Silence,
    /// One bit of it is another.
    Flip,
    /// The process that writes it ends.
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Open,
    /// The writer has ended; what is under way arrives.
    Finished,
    Reset,
    /// Writes go nowhere.
    Silent,
}

struct Direction {
    queue: VecDeque<(Instant, Vec<u8>)>,
    queued: usize,
    stands: Stands,
    reader: Option<Waker>,
    writer: Option<Waker>,
    delay: Duration,
    slowness: Duration,
    busy_until: Instant,
    faults: Vec<Fault>,
}

type Shared = Arc<Mutex<Direction>>;

impl Direction {
    fn new(delay: Duration, slowness: Duration) -> Shared {
        Arc::new(Mutex::new(Self {
            queue: VecDeque::new(),
            queued: 0,
            stands: Stands::Open,
            reader: None,
            writer: None,
            delay,
            slowness,
            busy_until: Instant::now(),
            faults: Vec::new(),
        }))
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn becomes(&mut self, stands: Stands) {
        self.stands = stands;
        if stands == Stands::Reset {
            self.queue.clear();
            self.queued = 0;
        }
        self.wake();
    }

    /// The fault of this very write.
    fn due(&mut self) -> Option<Fault> {
        self.faults.iter_mut().for_each(|fault| fault.after = fault.after.saturating_sub(1));
        let at = self.faults.iter().position(|fault| fault.after == 0)?;
        Some(self.faults.remove(at))
    }

    fn put(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let begins = self.busy_until.max(Instant::now());
        self.busy_until = begins + self.slowness.mul_f64(bytes.len() as f64 / UNIT as f64);
        self.queued += bytes.len();
        self.queue.push_back((self.busy_until + self.delay, bytes));
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}

/// A connection, as the network sees it.
pub struct Flow {
    to_hub: Shared,
    to_agent: Shared,
}

impl Flow {
    fn both(&self) -> [&Shared; 2] {
        [&self.to_hub, &self.to_agent]
    }

    pub fn reset(&self) {
        self.both().iter().for_each(|direction| direction.lock().becomes(Stands::Reset));
    }

    pub fn silence(&self) {
        for direction in self.both() {
            let mut direction = direction.lock();
            if direction.stands == Stands::Open {
                direction.queue.clear();
                direction.queued = 0;
                direction.becomes(Stands::Silent);
            }
        }
    }

    /// The agent's end breaks; what it wrote arrives after `late`.
    pub fn hub_hears_late(&self, late: Duration) {
        self.to_agent.lock().becomes(Stands::Reset);
        let mut to_hub = self.to_hub.lock();
        let due = Instant::now() + late;
        to_hub.queue.iter_mut().for_each(|(at, _)| *at = due.max(*at));
        to_hub.delay = late;
    }

    pub fn slow_down(&self, delay: Duration, slowness: Duration) {
        for direction in self.both() {
            let mut direction = direction.lock();
            (direction.delay, direction.slowness) = (delay, slowness);
        }
    }

    pub fn is_open(&self) -> bool {
        self.both().iter().all(|direction| direction.lock().stands == Stands::Open)
    }

    pub fn fault(&self, towards: Towards, fault: Fault) {
        let direction = if towards == Towards::Hub { &self.to_hub } else { &self.to_agent };
        direction.lock().faults.push(fault);
    }

    /// Nothing more comes of it.
    pub fn is_over(&self) -> bool {
        self.both().iter().all(|direction| direction.lock().stands == Stands::Reset)
    }
}

/// One end of a connection.
pub struct End {
    incoming: Shared,
    outgoing: Shared,
    timer: Option<Pin<Box<Sleep>>>,
    /// Of the process that writes here.
    fuse: Fuse,
}

/// The agent's end, the hub's, and the connection. `fuses`: the agent's, and the hub's.
pub fn pair(delay: Duration, slowness: Duration, fuses: (Fuse, Fuse)) -> (End, End, Flow) {
    let (to_hub, to_agent) = (Direction::new(delay, slowness), Direction::new(delay, slowness));
    let agent = End { incoming: to_agent.clone(), outgoing: to_hub.clone(), timer: None, fuse: fuses.0 };
    let hub = End { incoming: to_hub.clone(), outgoing: to_agent.clone(), timer: None, fuse: fuses.1 };
    (agent, hub, Flow { to_hub, to_agent })
}

impl AsyncRead for End {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.fuse.is_blown() {
            this.close();
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let mut incoming = this.incoming.lock();
        if incoming.stands == Stands::Reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        loop {
            incoming.reader = Some(cx.waker().clone());
            let Some((at, bytes)) = incoming.queue.front_mut() else {
                let is_over = incoming.stands == Stands::Finished;
                return if is_over { Poll::Ready(Ok(())) } else { Poll::Pending };
            };
            if *at > Instant::now() {
                let mut timer = Box::pin(sleep_until(*at));
                let waits = timer.as_mut().poll(cx).is_pending();
                this.timer = Some(timer);
                if waits {
                    return Poll::Pending;
                }
                continue;
            }
            let taken = bytes.len().min(into.remaining());
            into.put_slice(&bytes[..taken]);
            if taken == bytes.len() {
                incoming.queue.pop_front();
            } else {
                bytes.drain(..taken);
            }
            incoming.queued -= taken;
            incoming.writer.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.fuse.is_blown() {
            self.close();
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let mut outgoing = self.outgoing.lock();
        match outgoing.stands {
            Stands::Reset | Stands::Finished => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            // Its buffer fills up, as that of a line on which nobody answers does.
            Stands::Silent | Stands::Open if outgoing.queued >= WINDOW => {
                outgoing.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Stands::Silent => {
                outgoing.queued += bytes.len();
                return Poll::Ready(Ok(bytes.len()));
            }
            Stands::Open => {}
        }
        let Some(fault) = outgoing.due() else {
            outgoing.put(bytes.to_vec());
            return Poll::Ready(Ok(bytes.len()));
        };
        let at = (bytes.len() as u64 * fault.at / 1000) as usize;
        let mut kept = bytes.to_vec();
        match fault.kind {
            FaultKind::Flip => kept[at.min(bytes.len() - 1)] ^= 1 << (fault.at % 8),
            _ => kept.truncate(at),
        }
        outgoing.put(kept);
        match fault.kind {
            FaultKind::Flip => {}
            FaultKind::Cut => {
                outgoing.becomes(Stands::Finished);
                drop(outgoing);
                self.incoming.lock().becomes(Stands::Reset);
            }
            FaultKind::Silence => {
                outgoing.becomes(Stands::Silent);
                drop(outgoing);
                self.incoming.lock().becomes(Stands::Silent);
            }
            FaultKind::Crash => {
                drop(outgoing);
                self.fuse.blow("as it writes to the other");
                self.close();
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outgoing = self.outgoing.lock();
        if outgoing.stands == Stands::Open {
            outgoing.becomes(Stands::Finished);
        }
        Poll::Ready(Ok(()))
    }
}

impl End {
    /// As the system closes what a process had open.
    fn close(&self) {
        for direction in [&self.outgoing, &self.incoming] {
            let mut direction = direction.lock();
            if direction.stands == Stands::Open {
                direction.becomes(Stands::Finished);
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}
