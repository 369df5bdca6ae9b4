//! The memory that clients can hold without doing anything: bodies that they do not finish, answers that they do not take, selectors of watches.
//!
//! In: who asks, and how many bytes are held for them. Out: room for these, given back when it is dropped; or none, where this account or all of
//! them together hold too much: 429, to be tried again once something of that was finished or taken. Administrators (`system:masters`) are counted, and always have room: they must be able to look at a hub
//! that others fill.

use std::collections::HashMap;
use std::sync::Arc;

use karmada_definitions::status::{Details, Status};
use karmada_registry::User;
use karmada_registry::user::MASTERS;
use parking_lot::Mutex;

/// What one account may hold: a score of the longest bodies, or a handful of long tables.
const ONE: usize = 64 << 20;
/// What all accounts may hold together.
const ALL: usize = 256 << 20;
/// What is shorter is not counted: answers up to here are sent at once.
pub(super) const FROM: usize = 64 << 10;

/// There is no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What is said of it: a body can fail with a text alone.
pub(super) const FULL: &str =
    "Too many bytes of requests and answers under way, please finish or read them first.\n";

impl From<Full> for Status {
    fn from(_: Full) -> Status {
        let mut status = Status::plain(429, FULL);
        status.details = Some(Box::new(Details { retry_after_seconds: 1, ..Details::default() }));
        status
    }
}

/// What is held by whom, in bytes.
#[derive(Default)]
struct HeldBytes {
    all: usize,
    by_account: HashMap<String, usize>,
}

/// What all accounts together hold of the memory that is for them.
#[derive(Clone, Default)]
pub(super) struct MemoryShares(Arc<Mutex<HeldBytes>>);

impl MemoryShares {
    /// What is to be counted for who asks; nothing yet.
    pub(super) fn of(&self, user: &User) -> TakenMemory {
        let is_limited = !user.groups.iter().any(|group| group == MASTERS);
        TakenMemory { room: self.clone(), account: user.name.clone(), is_limited, bytes: 0 }
    }

    /// Whether nobody holds anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let held = self.0.lock();
        held.all == 0 && held.by_account.is_empty()
    }
}

/// A share that is taken, until it is dropped.
pub(super) struct TakenMemory {
    room: MemoryShares,
    account: String,
    is_limited: bool,
    bytes: usize,
}

impl TakenMemory {
    /// Takes room for `bytes` more.
    ///
    /// # Errors
    /// Where the account, or all of them, hold too much.
    pub(super) fn more(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes == 0 {
            return Ok(());
        }
        let mut held = self.room.0.lock();
        let own = held.by_account.get(&self.account).copied().unwrap_or(0);
        if self.is_limited && (own + bytes > ONE || held.all + bytes > ALL) {
            return Err(Full);
        }
        held.all += bytes;
        held.by_account.insert(self.account.clone(), own + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl TakenMemory {
    /// Gives back what it took, and takes room for `bytes` instead.
    ///
    /// # Errors
    /// As of [`TakenMemory::more`]; it then holds nothing.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Full> {
        self.release();
        self.more(bytes)
    }

    fn release(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.room.0.lock();
        held.all -= self.bytes;
        let own = held.by_account.get(&self.account).copied().unwrap_or(0);
        if own <= self.bytes {
            held.by_account.remove(&self.account);
        } else {
            held.by_account.insert(self.account.clone(), own - self.bytes);
        }
        self.bytes = 0;
    }
}

impl Drop for TakenMemory {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, group: &str) -> User {
        User { name: name.into(), groups: vec![group.into()], ..User::default() }
    }

    #[test]
    fn one_account_fills_its_own_share_and_no_number_of_them_the_hub() {
        let room = MemoryShares::default();
        let mut first = room.of(&user("a", "x"));
        assert!(first.more(ONE).is_ok());
        assert_eq!(room.of(&user("a", "x")).more(1), Err(Full));
        assert_eq!(Status::from(Full).code, 429);
        let mut others: Vec<TakenMemory> =
            ["b", "c", "d", "e"].map(|name| room.of(&user(name, "x"))).into_iter().collect();
        let taken = others.iter_mut().filter_map(|other| other.more(ONE).ok()).count();
        assert_eq!(taken, ALL / ONE - 1);
        assert!(room.of(&user("admin", MASTERS)).more(ONE).is_ok(), "who looks after the hub gets in");
        drop(first);
        assert!(room.of(&user("a", "x")).more(ONE).is_ok(), "and it comes back");
        drop(others);
        assert!(room.is_empty(), "nobody is remembered");
    }
}
