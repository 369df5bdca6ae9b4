//! The writer thread: group commit behind a bounded queue.
//!
//! In: operations, each with its own answer to come. While one commit waits for the disk the next ones queue
//! up, and go into the next transaction together, so that the fdatasync is shared. Out: answers, only after
//! the commit; events, published before the answers. A commit that failed is answered with its error to all
//! who were in it, and the thread then reads from the file where the store really stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::acknowledged::{Acknowledged, AcknowledgedPosition};
use super::batch::{Answer, Batch, Operation};
use super::checkpoint::{CHECKPOINT_PAGES, WalUse};
use super::history_weight::HistoryWeight;
use super::in_place::InPlace;
use super::open::OpenedFile;
use super::reader::Readers;
use super::recent::Recent;
use super::reserve::{PutRoom, Reserve};
use super::schema::{Meta, PAGE_BYTES, read_meta};
use super::thread::spawn;
use super::{SqliteOptions, compaction, failed, reader, rewrite};
use crate::feed::Feed;
use crate::{Event, StoreError};

/// Operations that may wait.
const QUEUE: usize = 1024;
/// Bytes of values that may wait or be under way: callers beyond it wait for room.
const QUEUE_BYTES: usize = 16 << 20;
/// The most that goes into one transaction.
const BATCH_OPERATIONS: usize = 512;
const BATCH_BYTES: usize = 4 << 20;
/// What reaches the writer.
enum Request {
    Operation { operation: Operation, answer: oneshot::Sender<Answer>, _room: Option<OwnedSemaphorePermit> },
    Clean(u64, oneshot::Sender<Result<(), StoreError>>),
    Close,
}

struct Pending {
    operation: Operation,
    answer: oneshot::Sender<Answer>,
    _room: Option<OwnedSemaphorePermit>,
}

/// Events kept at least on a full disk, however far everybody has read.
const KEPT_WHEN_FULL: u64 = 16;

/// The callers' end.
#[derive(Clone)]
pub(super) struct WriteQueue {
    requests: mpsc::Sender<Request>,
    room: Arc<Semaphore>,
    /// Why the last write failed, where none has succeeded since.
    trouble: Arc<Mutex<Option<StoreError>>>,
}

impl WriteQueue {
    /// Queues an operation and waits until it is durable.
    pub fn submit(&self, operation: Operation) -> impl Future<Output = Answer> + Send + 'static {
        let WriteQueue { requests, room, .. } = self.clone();
        async move {
            let weight = u32::try_from(operation.weight().min(QUEUE_BYTES)).unwrap_or(u32::MAX);
            let permit = room.acquire_many_owned(weight).await.map_err(|_| StoreError::Closed)?;
            let (answer, answered) = oneshot::channel();
            let request = Request::Operation { operation, answer, _room: Some(permit) };
            requests.send(request).await.map_err(|_| StoreError::Closed)?;
            drop(requests);
            answered.await.map_err(|_| StoreError::Closed)?
        }
    }

    /// Why the last write failed, where none has succeeded since; another is then tried.
    pub fn health(&self) -> Result<(), StoreError> {
        let Some(why) = self.trouble.lock().as_ref().map(StoreError::again) else { return Ok(()) };
        let (answer, _) = oneshot::channel();
        // Full: what is in it tells as much.
        let _ =
            self.requests.try_send(Request::Operation { operation: Operation::Probe, answer, _room: None });
        Err(why)
    }

    /// Wipes what the file holds no more.
    pub async fn clean(&self, layout: u64) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Clean(layout, answer)).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// Takes no more; what is queued is still done.
    pub async fn close(&self) {
        // An error means that it is closed already.
        let _ = self.requests.send(Request::Close).await;
    }

    /// The same without waiting. Where the queue is full, the thread ends when the last caller is gone.
    pub fn abandon(&self) {
        let _ = self.requests.try_send(Request::Close);
    }
}

struct Writer {
    db: Connection,
    requests: mpsc::Receiver<Request>,
    room: Arc<Semaphore>,
    feed: Arc<Feed>,
    epoch: Arc<AtomicU64>,
    wal: WalUse,
    keep_events: u64,
    kept: HistoryWeight,
    index_after: usize,
    recent: Arc<Recent>,
    meta: Meta,
    acknowledged: Acknowledged,
    reserve: Reserve,
    in_place: InPlace,
    short: Option<PutRoom>,
    trouble: Arc<Mutex<Option<StoreError>>>,
    /// Whether what is forgotten is removed beside what is written.
    sweeps: bool,
    /// It found no room: it is not tried before something else is written.
    sweep_waits: bool,
    /// False after a failure, until the file has told where the store stands.
    sure: bool,
    /// To be done after what came before it.
    cleaning: Option<(u64, oneshot::Sender<Result<(), StoreError>>)>,
}

/// What the writer needs besides the file, and what it ends with itself.
pub(super) struct Surroundings {
    pub feed: Arc<Feed>,
    pub epoch: Arc<AtomicU64>,
    pub wal: WalUse,
    pub recent: Arc<Recent>,
    pub readers: Readers,
    /// Disconnected once every other thread has closed its connection.
    pub others: Receiver<()>,
    /// Held until nothing of the store is left.
    pub alive: watch::Sender<()>,
}

/// Starts the thread on an opened file.
pub(super) fn start(
    options: &SqliteOptions,
    opened: OpenedFile,
    surroundings: Surroundings,
) -> Result<WriteQueue, StoreError> {
    let (sender, requests) = mpsc::channel(QUEUE);
    let room = Arc::new(Semaphore::new(QUEUE_BYTES));
    let OpenedFile { db, meta, lock, acknowledged } = opened;
    let trouble = Arc::new(Mutex::new(None));
    let in_place = InPlace::of(&options.path)
        .map_err(|error| StoreError::Backend(format!("{}: {error}", options.path.display())))?;
    let Surroundings { feed, epoch, wal, recent, readers, others, alive } = surroundings;
    db.set_prepared_statement_cache_capacity(32);
    let mut writer = Writer {
        db,
        requests,
        room: room.clone(),
        feed,
        epoch,
        wal,
        keep_events: options.keep_events,
        kept: HistoryWeight::new(options.keep_bytes),
        index_after: options.index_after,
        recent,
        meta,
        acknowledged,
        reserve: Reserve::open(&options.path, options.reserve_bytes),
        in_place,
        short: None,
        trouble: trouble.clone(),
        sweeps: true,
        sweep_waits: false,
        sure: true,
        cleaning: None,
    };
    let run = move || {
        writer.run();
        let Writer { db, feed, wal, .. } = writer;
        // The last connection to close moves the whole log into the file and removes it: that is to be this
        // one, and nobody is to open the file before.
        drop(wal);
        readers.close();
        let _ = others.recv();
        drop(db);
        drop(lock);
        feed.close();
        drop(alive);
    };
    spawn("store-writer", run)?;
    Ok(WriteQueue { requests: sender, room, trouble })
}

impl Writer {
    fn run(&mut self) {
        while let Some(batch) = self.gather() {
            if !batch.is_empty() || self.is_sweeping() {
                self.commit(batch);
            }
            if let Some((layout, answer)) = self.cleaning.take() {
                // A caller that went away does not want its answer.
                let _ = answer.send(self.clean(layout));
            }
            self.compact_by_itself();
        }
    }

    /// What is to be done next: waits for the first operation unless there is sweeping to do (then there may be none), and takes
    /// along what else is there. `None` when the store was closed and all is done.
    fn gather(&mut self) -> Option<Vec<Pending>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        if !self.is_sweeping() {
            let first = self.requests.blocking_recv()?;
            self.take(first, &mut batch, &mut bytes);
        }
        while batch.len() < BATCH_OPERATIONS && bytes < BATCH_BYTES {
            match self.requests.try_recv() {
                Ok(request) => self.take(request, &mut batch, &mut bytes),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if batch.is_empty() => return None,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        Some(batch)
    }

    /// Whether there is something to forget. After a failure not before the next write has found out where the store stands.
    fn is_sweeping(&self) -> bool {
        self.sure && !self.sweep_waits && compaction::is_due(&self.meta)
    }

    fn take(&mut self, request: Request, batch: &mut Vec<Pending>, bytes: &mut usize) {
        match request {
            Request::Operation { operation, answer, _room } => {
                *bytes += operation.weight();
                batch.push(Pending { operation, answer, _room });
            }
            Request::Clean(layout, answer) => self.cleaning = Some((layout, answer)),
            Request::Close => {
                self.requests.close();
                self.room.close();
            }
        }
    }

    fn clean(&mut self, layout: u64) -> Result<(), StoreError> {
        self.make_sure()?;
        let db = &self.db;
        let cleaned = self.wal.write(|| rewrite::clean(db, layout).map(|()| ((), 0)));
        cleaned.map_err(|error| failed(&error))
    }

    fn commit(&mut self, batch: Vec<Pending>) {
        // What found no room is tried again beside the next write, and not by itself again and again.
        self.sweep_waits &= batch.is_empty();
        match self.transact(&batch) {
            Ok((meta, events, answers)) => {
                self.stand_at(meta, events);
                *self.trouble.lock() = self.short.map(|_| StoreError::Full);
                for (pending, answer) in batch.into_iter().zip(answers) {
                    // A caller that went away does not want its answer.
                    let _ = pending.answer.send(answer);
                }
            }
            Err(error) => {
                tracing::warn!(%error, writes = batch.len(), "a commit failed, nothing of it was acknowledged");
                *self.trouble.lock() = Some(error.again());
                self.sweep_waits = true;
                self.sure = false;
                let _ = self.make_sure();
                for pending in batch {
                    let _ = pending.answer.send(Err(error.again()));
                }
            }
        }
    }

    /// Commits, and notes beside the log what now counts as acknowledged.
    fn transact(&mut self, batch: &[Pending]) -> Result<(Meta, Vec<Event>, Vec<Answer>), StoreError> {
        self.make_sure()?;
        let before = std::mem::replace(&mut self.short, self.reserve.shortage(&self.db));
        if before.is_some() && self.short.is_none() {
            tracing::info!("there is room on the disk again: all writes are taken");
        }
        let mut done = self.write(batch);
        if done.as_ref().is_err_and(|error| self.reserve.is_full(error)) && self.reserve.release() {
            tracing::error!(
                "the disk is full: until there is room, only deletions and changes that need no more of it are taken"
            );
            self.short = Some(self.reserve.put_room(0));
            done = self.write(batch);
        }
        if done.as_ref().is_err_and(|error| self.reserve.is_full(error)) {
            // The log starts over once all of it is in the file; and what is forgotten beside them may be what finds no room.
            self.wal.drain();
            self.sweeps = false;
            done = self.write(batch);
            self.sweeps = true;
            self.sweep_waits = true;
        }
        let done = done.map_err(|error| {
            if self.short.is_some() && self.reserve.is_full(&error) {
                StoreError::Full
            } else {
                failed(&error)
            }
        })?;
        self.in_place.check().map_err(StoreError::Backend)?;
        self.acknowledge(&done.0)?;
        Ok(done)
    }

    fn acknowledge(&mut self, meta: &Meta) -> Result<(), StoreError> {
        let told = self.acknowledged.write(AcknowledgedPosition::of(meta));
        told.map_err(|error| StoreError::Backend(format!("noting what is acknowledged: {error}")))
    }

    fn write(&mut self, batch: &[Pending]) -> rusqlite::Result<(Meta, Vec<Event>, Vec<Answer>)> {
        let (db, before, short, sweeps) = (&mut self.db, self.meta, self.short, self.sweeps);
        let reserve = &mut self.reserve;
        let recent = self.recent.look();
        self.wal.write(|| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut work = Batch::new(&transaction, before, &recent.keys, short);
            let answers =
                batch.iter().map(|pending| work.apply(&pending.operation)).collect::<Result<_, _>>()?;
            let indexed = work.index(self.index_after)?;
            let Batch { mut meta, events, is_silent, short: left, .. } = work;
            if sweeps && compaction::is_due(&meta) {
                meta.swept = compaction::sweep(&transaction, &meta, short.is_some())?;
            }
            if meta == before && !is_silent {
                // Refusals only. Rolled back: there is nothing to wait for the disk for.
                return Ok(((meta, events, answers), 0));
            }
            transaction.commit()?;
            if let Some(left) = left {
                reserve.took(left);
            }
            let bytes: usize = batch.iter().map(|pending| pending.operation.weight()).sum();
            let swept = (meta.swept - before.swept) as usize;
            // Pages are three quarters full; of the log's, 2 KB each, seven rows share one.
            let pages = 1 + bytes / (PAGE_BYTES / 4 * 3) + indexed + swept / 7;
            // Without room the log has to start over soon, however little is in it.
            let pages = if short.is_some() { pages.max(CHECKPOINT_PAGES) } else { pages };
            Ok(((meta, events, answers), pages))
        })
    }

    /// After a failure: asks the file where the store stands. A commit may have reached the file although it
    /// reported a failure; its events then belong to history like any other, and watchers see them.
    fn make_sure(&mut self) -> Result<(), StoreError> {
        if self.sure {
            return Ok(());
        }
        let (meta, events) = self.look_again().map_err(|error| failed(&error))?;
        self.acknowledge(&meta)?;
        self.stand_at(meta, events);
        self.sure = true;
        Ok(())
    }

    /// What the file has beyond what is known.
    fn look_again(&self) -> rusqlite::Result<(Meta, Vec<Event>)> {
        if !self.db.is_autocommit() {
            self.db.execute_batch("ROLLBACK")?;
        }
        let meta = read_meta(&self.db)?;
        let mut events = Vec::new();
        let mut after = self.meta.head;
        while after < meta.head {
            let chunk = reader::events_after(&self.db, "", after, meta.head)?;
            after = chunk.through;
            events.extend(chunk.events);
        }
        Ok((meta, events))
    }

    /// Makes what is durable visible.
    fn stand_at(&mut self, meta: Meta, events: Vec<Event>) {
        let before = std::mem::replace(&mut self.meta, meta);
        self.epoch.store(meta.epoch, Ordering::Release);
        self.recent.advance(&events, &meta);
        for event in &events {
            self.kept.add(event.revision(), event.stored_bytes());
        }
        self.feed.publish(events);
        if meta.compacted > before.compacted {
            self.feed.compact(meta.compacted);
        }
    }

    /// Compacts when twice the events to keep have come together, or those that are kept weigh too much.
    fn compact_by_itself(&mut self) {
        let kept = self.meta.head - self.meta.compacted;
        let keep = if self.reserve.is_whole() {
            self.keep_events
        } else {
            // What was deleted gives its room back only when it is forgotten, too.
            KEPT_WHEN_FULL.max(self.meta.head.saturating_sub(self.feed.passed()))
        };
        if keep == 0 || !self.sure {
            return;
        }
        // On a full disk by fewer at a time, as each may be large.
        let beyond = if self.reserve.is_whole() { keep } else { keep.min(KEPT_WHEN_FULL) };
        let too_many = (kept >= keep + beyond).then(|| self.meta.head - keep);
        let Some(target) = too_many.max(self.kept.surplus()) else { return };
        let (answer, _) = oneshot::channel();
        self.commit(vec![Pending { operation: Operation::Compact(target), answer, _room: None }]);
    }
}
