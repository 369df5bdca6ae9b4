//! Questions of the hub that wait, or are being answered. Pure.
//!
//! In: questions as they come; which are answered. Out: the questions in their order; a refusal at once of what is not known here, and of what is
//! beyond the most.

use std::collections::{BTreeSet, VecDeque};

use karmada_proto::v1::{Answer, Ask, AskRefusal, AskRefusalCode, answer};
use karmada_proto::{LONGEST_QUESTION, frame};

/// Questions that wait or are being answered.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Asks {
    waiting: VecDeque<Ask>,
    unanswered: BTreeSet<u64>,
}

impl Asks {
    /// Takes a question; a refusal of one that is not answered here.
    pub fn takes(&mut self, ask: Ask) -> Option<Answer> {
        let id = ask.id;
        if ask.question.is_none() {
            let message = format!("this agent does not know question {}", ask.kind);
            return Some(refusal(id, AskRefusalCode::UnknownQuestion, message));
        }
        if frame::size(&ask) > LONGEST_QUESTION as u64 {
            let message = format!("a question has {} KiB at most", LONGEST_QUESTION / 1024);
            return Some(refusal(id, AskRefusalCode::BadQuestion, message));
        }
        if self.unanswered.len() >= MOST {
            let message = format!("{MOST} questions are being answered already");
            return Some(refusal(id, AskRefusalCode::AskBusy, message));
        }
        if !self.unanswered.insert(id) {
            return Some(refusal(id, AskRefusalCode::BadQuestion, "this id is asked already".to_owned()));
        }
        self.waiting.push_back(ask);
        None
    }

    /// The next question.
    pub fn next(&mut self) -> Option<Ask> {
        self.waiting.pop_front()
    }

    /// An answer is there. False where none is owed.
    pub fn answers(&mut self, id: u64) -> bool {
        self.unanswered.remove(&id)
    }
}

fn refusal(id: u64, code: AskRefusalCode, message: String) -> Answer {
    Answer { id, result: Some(answer::Result::Refusal(AskRefusal { code: code.into(), message })) }
}

#[cfg(test)]
mod tests {
    use karmada_proto::v1::{RoomFor, ask};

    use super::*;

    fn ask(id: u64) -> Ask {
        let question = Some(ask::Question::RoomFor(RoomFor::default()));
        Ask { id, within_ms: 1000, kind: 4, question }
    }

    fn code(answer: Option<Answer>) -> Option<AskRefusalCode> {
        match answer?.result? {
            answer::Result::Refusal(refusal) => Some(refusal.code()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_known_is_named_and_each_is_answered_once() {
        let mut asks = Asks::default();
        let unknown = Ask { id: 1, within_ms: 1000, kind: 99, question: None };
        assert_eq!(code(asks.takes(unknown)), Some(AskRefusalCode::UnknownQuestion));
        assert_eq!(code(asks.takes(ask(2))), None);
        assert_eq!(code(asks.takes(ask(2))), Some(AskRefusalCode::BadQuestion));
        assert_eq!(asks.next().map(|ask| ask.id), Some(2));
        assert_eq!(asks.next(), None);
        assert!(asks.answers(2) && !asks.answers(2) && !asks.answers(1));
    }

    /// Those that wait are kept: sixty-four of four megabytes would be much.
    #[test]
    fn a_question_without_end_is_refused() {
        let mut asks = Asks::default();
        let of = |length: usize| {
            let requirements = vec![b' '; length].into();
            let question = Some(ask::Question::RoomFor(RoomFor { requirements, ..RoomFor::default() }));
            Ask { question, ..ask(1) }
        };
        assert_eq!(code(asks.takes(of(64 << 10))), Some(AskRefusalCode::BadQuestion));
        assert!(asks.next().is_none());
        assert_eq!(code(asks.takes(of(32 << 10))), None);
    }

    #[test]
    fn a_hub_that_asks_without_end_is_refused() {
        let mut asks = Asks::default();
        for id in 0..MOST as u64 {
            assert_eq!(code(asks.takes(ask(id))), None);
        }
        assert_eq!(code(asks.takes(ask(1000))), Some(AskRefusalCode::AskBusy));
        while asks.next().is_some() {}
        assert_eq!(code(asks.takes(ask(1000))), Some(AskRefusalCode::AskBusy), "being answered");
        assert!(asks.answers(0));
        assert_eq!(code(asks.takes(ask(1000))), None);
    }
}
