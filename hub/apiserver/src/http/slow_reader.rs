//! What of a watch waits for its reader.
//!
//! In: chunks, each made when the one before was taken. Out: pieces of them, as fast as the reader takes any. What waits counts as room
//! that its account holds, and is let go where nothing of it was taken for a minute: a reader that stands still holds nothing for good,
//! however many watches it opens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::memory_shares::{FROM, Full, TakenMemory};

/// How long a reader may take nothing.
const READER_TIMEOUT: Duration = Duration::from_secs(60);

/// The pieces that wait.
pub(super) struct Unsent(Arc<Mutex<State>>);

struct State {
    pieces: VecDeque<Bytes>,
    room: TakenMemory,
    /// Counts what was taken.
    taken: u64,
    given_up: bool,
}

impl Unsent {
    /// Nothing waits yet; `room` is of the reader's account.
    pub(super) fn new(room: TakenMemory) -> Unsent {
        let state = State { pieces: VecDeque::new(), room, taken: 0, given_up: false };
        Unsent(Arc::new(Mutex::new(state)))
    }

    /// The next piece of what waits.
    pub(super) fn next(&self) -> Option<Bytes> {
        let mut state = self.0.lock();
        state.taken += 1;
        let piece = state.pieces.pop_front();
        if state.pieces.is_empty() {
            // Nothing is left to be counted: that always fits.
            let _ = state.room.hold(0);
        }
        piece
    }

    /// Whether the reader took nothing for too long.
    pub(super) fn is_given_up(&self) -> bool {
        self.0.lock().given_up
    }

    /// Takes a chunk in and gives back its first piece.
    ///
    /// # Errors
    /// There is no room for the rest of it.
    pub(super) fn put(&self, mut chunk: Bytes) -> Result<Bytes, Full> {
        if chunk.len() <= FROM {
            return Ok(chunk);
        }
        let mut state = self.0.lock();
        state.room.hold(chunk.len())?;
        let first = chunk.split_to(FROM);
        while !chunk.is_empty() {
            let piece = chunk.split_to(FROM.min(chunk.len()));
            state.pieces.push_back(piece);
        }
        drop(state);
        self.wait();
        Ok(first)
    }

    /// Gives the reader up once it stands still.
    fn wait(&self) {
        let state = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                tokio::time::sleep(READER_TIMEOUT).await;
                let Some(state) = state.upgrade() else { return };
                let mut state = state.lock();
                if state.pieces.is_empty() {
                    return;
                }
                if state.taken == seen {
                    state.given_up = true;
                    state.pieces.clear();
                    let _ = state.room.hold(0);
                    return;
                }
                seen = state.taken;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_shares::MemoryShares;
    use super::*;
    use karmada_registry::User;

    fn reader(room: &MemoryShares) -> Unsent {
        Unsent::new(room.of(&User { name: "reader".into(), ..User::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_chunk_comes_in_pieces_and_whole() {
        let unsent = reader(&MemoryShares::default());
        assert_eq!(unsent.put(Bytes::from_static(b"short")).unwrap(), "short");
        assert_eq!(unsent.next(), None);
        let chunk: Vec<u8> = (0..FROM * 5 / 2).map(|at| at as u8).collect();
        let mut got = unsent.put(chunk.clone().into()).unwrap().to_vec();
        while let Some(piece) = unsent.next() {
            tokio::time::sleep(READER_TIMEOUT * 2 / 3).await;
            got.extend_from_slice(&piece);
        }
        assert!(got == chunk && !unsent.is_given_up());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stands_still_holds_nothing_for_good() {
        let room = MemoryShares::default();
        let mut stalled = Vec::new();
        loop {
            let unsent = reader(&room);
            if unsent.put(vec![0; 1 << 20].into()).is_err() {
                break;
            }
            stalled.push(unsent);
        }
        assert!(stalled.len() > 10 && stalled.len() < 100);
        tokio::time::sleep(3 * READER_TIMEOUT).await;
        assert!(stalled.iter().all(|unsent| unsent.is_given_up() && unsent.next().is_none()));
        assert!(reader(&room).put(vec![0; 1 << 20].into()).is_ok(), "their room is free");
    }
}
