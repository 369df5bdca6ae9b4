//! Changes on their way to sessions: whoever follows the store does so once, for all of them, and each change is put into the slot of
//! the sessions that it is for.
//!
//! In: changes by namespace, with rising revisions ([`Router::route`]); sessions that come ([`Router::open`]), with what they have
//! seen. Out: for each session a [`Route`], a stream of its namespace's changes. No clock and no task of its own.
//!
//! What is promised: what a session is given first and its route afterwards leave out nothing and go back at no Work, whatever is
//! written, routed or forgotten by the history at the same time. A Work that changes often waits once, as it is now. A slot is bounded:
//! where more waits, the route ends, and its reader opens another from where it has come to.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// A change of one object, as far as the router looks at it.
pub trait Change: Clone {
    /// The name of what changed.
    fn key(&self) -> &Arc<str>;
    /// The store's revision of the change.
    fn revision(&self) -> u64;
    /// Takes the place of an earlier change of the same object, which nobody has read.
    fn follows(&mut self, earlier: &Self);
}

/// Something read at once, and the revision that it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// What was read, by rising revision where it is changes.
    pub items: Vec<T>,
    /// Everything up to here is in it.
    pub revision: u64,
}

/// What there is of a namespace, and what changed lately.
pub trait History<T> {
    /// The changes after `revision`; `None` where they are not all kept.
    fn after(&self, namespace: &str, revision: u64) -> Option<Read<T>>;
    /// Everything as it is.
    fn all(&self, namespace: &str) -> Read<T>;
}

/// What a session begins with.
pub struct OpenedRoute<T, C: Change> {
    /// True: `first` is everything there is. False: it is what changed since the revision that was asked for.
    pub full_listing: bool,
    /// What the session is to be told first.
    pub first: Read<T>,
    /// What comes after it.
    pub then: Route<C>,
}

/// The slots of one namespace: mostly one, two while a session is replaced by a newer one.
type Here<C> = Vec<Arc<Slot<C>>>;

/// The slots of all sessions.
pub struct Router<C> {
    most: usize,
    slots: Mutex<BTreeMap<Arc<str>, Here<C>>>,
}

impl<C: Change> Router<C> {
    /// For sessions for each of which at most so many Works wait.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, slots: Mutex::default() })
    }

    /// Opens a session for `namespace`: from `resume` on where history has that, else with everything.
    ///
    /// The slot is there before history is read, so that what is routed meanwhile is in one of the two; what is in both is told once.
    pub fn open<T>(
        self: &Arc<Self>,
        namespace: &str,
        resume: Option<u64>,
        history: &impl History<T>,
    ) -> OpenedRoute<T, C> {
        let then = self.enter(namespace);
        let resumed = resume.and_then(|revision| history.after(namespace, revision));
        let full_listing = resumed.is_none();
        let first = resumed.unwrap_or_else(|| history.all(namespace));
        then.slot.waiting.lock().begin_after(first.revision);
        OpenedRoute { full_listing, first, then }
    }

    fn enter(self: &Arc<Self>, namespace: &str) -> Route<C> {
        let slot = Arc::new(Slot::default());
        let namespace: Arc<str> = namespace.into();
        self.slots.lock().entry(namespace.clone()).or_default().push(slot.clone());
        Route { router: self.clone(), namespace, slot }
    }

    /// Takes a change of `namespace` to those who are there for it.
    pub fn route(&self, namespace: &str, change: &C) {
        let here = self.slots.lock().get(namespace).cloned();
        for slot in here.into_iter().flatten() {
            slot.put(change.clone(), self.most);
        }
    }

    /// Changes were missed: every route ends, and its reader opens another.
    pub fn lose_place(&self) {
        let all: Vec<_> = self.slots.lock().values().flatten().cloned().collect();
        all.iter().for_each(|slot| slot.end());
    }
}

/// What waits for one session.
struct Slot<C> {
    waiting: Mutex<Waiting<C>>,
    reader: AtomicWaker,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Slot { waiting: Mutex::default(), reader: AtomicWaker::new() }
    }
}

impl<C: Change> Slot<C> {
    fn put(&self, change: C, most: usize) {
        self.waiting.lock().put(change, most);
        self.reader.wake();
    }

    fn end(&self) {
        self.waiting.lock().end();
        self.reader.wake();
    }
}

/// The changes of a slot, each key's newest, by revision.
struct Waiting<C> {
    /// What is not newer is told otherwise.
    after: u64,
    newest: BTreeMap<Arc<str>, u64>,
    changes: BTreeMap<(u64, Arc<str>), C>,
    ended: bool,
}

impl<C> Default for Waiting<C> {
    fn default() -> Self {
        Waiting { after: 0, newest: BTreeMap::new(), changes: BTreeMap::new(), ended: false }
    }
}

impl<C: Change> Waiting<C> {
    fn begin_after(&mut self, revision: u64) {
        self.after = revision;
        self.changes.retain(|(at, _), _| *at > revision);
        self.newest.retain(|_, at| *at > revision);
    }

    fn put(&mut self, mut change: C, most: usize) {
        let (key, revision) = (change.key().clone(), change.revision());
        if self.ended || revision <= self.after {
            return;
        }
        if let Some(before) = self.newest.insert(key.clone(), revision)
            && let Some(earlier) = self.changes.remove(&(before, key.clone()))
        {
            change.follows(&earlier);
        }
        self.changes.insert((revision, key), change);
        if self.changes.len() > most {
            self.end();
        }
    }

    fn end(&mut self) {
        *self = Waiting { ended: true, ..Waiting::default() };
    }

    fn take(&mut self) -> Option<C> {
        let ((_, key), change) = self.changes.pop_first()?;
        self.newest.remove(&key);
        Some(change)
    }
}

/// One session's changes. Its end means: open another, from the last revision that was seen.
pub struct Route<C: Change> {
    router: Arc<Router<C>>,
    namespace: Arc<str>,
    slot: Arc<Slot<C>>,
}

impl<C: Change> Stream for Route<C> {
    type Item = C;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<C>> {
        self.slot.reader.register(cx.waker());
        let mut waiting = self.slot.waiting.lock();
        match waiting.take() {
            Some(change) => Poll::Ready(Some(change)),
            None if waiting.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<C: Change> Drop for Route<C> {
    fn drop(&mut self) {
        let mut slots = self.router.slots.lock();
        if let Some(here) = slots.get_mut(&*self.namespace) {
            here.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            if here.is_empty() {
                slots.remove(&*self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests;
