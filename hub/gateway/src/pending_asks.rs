//! What the hub asks the agent of one session, and who waits for the answers.
//!
//! In: questions of whoever has one; answers of the agent. Out: the questions in their order, for the session to send; each answer to who asked.
//! Bounded: beyond the most, nothing more is asked until something is answered or given up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use karmada_proto::v1::{Answer, Ask, answer, ask};
use tokio::sync::oneshot;

/// Questions of one session that are asked or answered at once.
const MOST: usize = 64;

/// Questions and who waits.
#[derive(Debug, Default)]
pub(crate) struct PendingAsks {
    last: u64,
    queue: VecDeque<Ask>,
    waiting: BTreeMap<u64, oneshot::Sender<answer::Result>>,
    is_over: bool,
}

/// Why nothing more is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAsked {
    /// As much as may be is asked already.
    Busy,
    /// The session is over.
    Over,
}

impl PendingAsks {
    /// Asks, for an answer within this time.
    pub fn ask(
        &mut self,
        question: ask::Question,
        within: Duration,
    ) -> Result<oneshot::Receiver<answer::Result>, NotAsked> {
        if self.is_over {
            return Err(NotAsked::Over);
        }
        // Who gave up waits no more.
        self.waiting.retain(|_, answer| !answer.is_closed());
        if self.waiting.len() >= MOST {
            return Err(NotAsked::Busy);
        }
        self.last += 1;
        let (answer, answered) = oneshot::channel();
        self.waiting.insert(self.last, answer);
        self.queue.retain(|ask| self.waiting.contains_key(&ask.id));
        self.queue.push_back(Ask {
            id: self.last,
            within_ms: within.as_millis() as u64,
            kind: kind(&question),
            question: Some(question),
        });
        Ok(answered)
    }

    /// The next question to send.
    pub fn take(&mut self) -> Option<Ask> {
        self.queue.pop_front()
    }

    /// The agent answered. False where nobody asked that, or the answer is none.
    pub fn answered(&mut self, answer: Answer) -> bool {
        let Answer { id, result: Some(result) } = answer else { return false };
        self.waiting.remove(&id).map(|waiting| waiting.send(result)).is_some()
    }

    /// The session is over: nobody is answered any more.
    pub fn end(&mut self) {
        self.is_over = true;
        self.queue.clear();
        self.waiting.clear();
    }
}

/// The field number of a question.
fn kind(question: &ask::Question) -> u32 {
    match question {
        ask::Question::RoomFor(_) => 4,
        ask::Question::RoomForSets(_) => 8,
        ask::Question::OpenTunnel(_) => 5,
        ask::Question::UnschedulableOf(_) => 6,
        ask::Question::PodUsageOf(_) => 7,
        ask::Question::TopologyOf(_) => 9,
    }
}

#[cfg(test)]
mod tests {
    use karmada_proto::v1::{Room, RoomFor};

    use super::*;

    fn question() -> ask::Question {
        ask::Question::RoomFor(RoomFor::default())
    }

    fn room(id: u64, replicas: u32) -> Answer {
        Answer { id, result: Some(answer::Result::Room(Room { replicas })) }
    }

    #[test]
    fn each_answer_goes_to_who_asked_and_to_nobody_else() {
        let mut asks = PendingAsks::default();
        let mut first = asks.ask(question(), Duration::from_secs(3)).unwrap();
        let mut second = asks.ask(question(), Duration::from_secs(3)).unwrap();
        let sent: Vec<Ask> = std::iter::from_fn(|| asks.take()).collect();
        assert_eq!(
            sent.iter().map(|ask| (ask.id, ask.within_ms, ask.kind)).collect::<Vec<_>>(),
            [(1, 3000, 4), (2, 3000, 4)]
        );
        assert!(asks.answered(room(2, 20)));
        assert!(!asks.answered(room(2, 21)), "twice");
        assert!(!asks.answered(room(3, 30)), "not asked");
        assert!(!asks.answered(Answer { id: 1, result: None }));
        assert_eq!(second.try_recv().unwrap(), answer::Result::Room(Room { replicas: 20 }));
        assert!(first.try_recv().is_err());
        asks.end();
        assert!(matches!(first.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert_eq!(asks.ask(question(), Duration::ZERO).unwrap_err(), NotAsked::Over);
    }

    #[test]
    fn no_more_is_asked_than_is_answered_and_who_gave_up_does_not_count() {
        let mut asks = PendingAsks::default();
        let mut waiting: Vec<_> = (0..MOST).map(|_| asks.ask(question(), Duration::ZERO).unwrap()).collect();
        assert_eq!(asks.ask(question(), Duration::ZERO).unwrap_err(), NotAsked::Busy);
        waiting.pop();
        waiting.push(asks.ask(question(), Duration::ZERO).unwrap());
        for _ in 0..1000 {
            waiting.pop();
            waiting.push(asks.ask(question(), Duration::ZERO).unwrap());
        }
        assert!(asks.queue.len() <= MOST && asks.waiting.len() <= MOST, "{}", asks.queue.len());
    }
}
