//! What the agent asks of the hub in one session. Pure.
//!
//! In: questions of the agent, answers of the hub. Out: each question with an id of this session; answers to what was asked, once each, and no
//! longer than may be.

use std::collections::{BTreeSet, VecDeque};

use karmada_proto::v1::{AskHub, AskRefusal, AskRefusalCode, HubAnswer, ask_hub, hub_answer};
use karmada_proto::{LONGEST_QUESTION, frame};

/// Questions that are unanswered at once: a hub refuses more.
const MOST: usize = 16;

#[derive(Debug, Default)]
pub(super) struct HubQuestions {
    /// Whether the hub answers any.
    is_answered: bool,
    next: u64,
    unanswered: BTreeSet<u64>,
    answers: VecDeque<HubAnswer>,
}

impl HubQuestions {
    /// The hub was met, and does answer, or does not.
    pub fn met(&mut self, is_answered: bool) {
        self.is_answered = is_answered;
    }

    /// Whether another one may be put.
    pub fn has_room(&self) -> bool {
        self.is_answered && self.unanswered.len() < MOST
    }

    /// The frame of a question; where it is longer than a hub takes, why it is not put.
    pub fn put(&mut self, question: ask_hub::Question) -> Result<AskHub, AskRefusal> {
        let kind = match &question {
            ask_hub::Question::RetentionOf(_) => 3,
        };
        let ask = AskHub { id: self.next, kind, question: Some(question) };
        if frame::size(&ask) > LONGEST_QUESTION as u64 {
            let message = format!("a question has {} KiB at most", LONGEST_QUESTION / 1024);
            return Err(AskRefusal { code: AskRefusalCode::BadQuestion.into(), message });
        }
        self.next += 1;
        self.unanswered.insert(ask.id);
        Ok(ask)
    }

    /// The hub answers. What was not asked, or is answered already, is nothing.
    pub fn answered(&mut self, answer: HubAnswer) {
        if !self.unanswered.remove(&answer.id) {
            return;
        }
        let is_long = frame::size(&answer) > LONGEST_QUESTION as u64;
        let long = || {
            let message = format!("the hub's answer is longer than {} KiB", LONGEST_QUESTION / 1024);
            hub_answer::Result::Refusal(AskRefusal { code: AskRefusalCode::NotKnown.into(), message })
        };
        let result = if is_long { Some(long()) } else { answer.result };
        self.answers.push_back(HubAnswer { id: answer.id, result });
    }

    /// The next answer.
    pub fn take(&mut self) -> Option<HubAnswer> {
        self.answers.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use karmada_proto::v1::{Retained, RetentionOf};

    use super::*;

    fn of(length: usize) -> ask_hub::Question {
        ask_hub::Question::RetentionOf(RetentionOf {
            observed: vec![b' '; length].into(),
            ..RetentionOf::default()
        })
    }

    fn answer(id: u64, length: usize) -> HubAnswer {
        let retained = Retained { object: vec![b' '; length].into(), ..Retained::default() };
        HubAnswer { id, result: Some(hub_answer::Result::Retained(retained)) }
    }

    #[test]
    fn each_question_is_answered_once_and_what_was_not_asked_never() {
        let mut questions = HubQuestions::default();
        assert!(!questions.has_room(), "an older hub");
        questions.met(true);
        let ids: Vec<u64> = (0..MOST).map(|_| questions.put(of(1)).unwrap().id).collect();
        assert!(!questions.has_room());
        questions.answered(answer(999, 1));
        assert_eq!(questions.take(), None);
        questions.answered(answer(ids[3], 1));
        questions.answered(answer(ids[3], 2));
        assert_eq!(questions.take(), Some(answer(ids[3], 1)));
        assert_eq!(questions.take(), None);
        assert!(questions.has_room());
        assert_ne!(questions.put(of(1)).unwrap().id, ids[3], "ids are not used again");
    }

    #[test]
    fn what_is_too_long_is_refused_on_both_ways() {
        let mut questions = HubQuestions::default();
        questions.met(true);
        assert!(questions.put(of(LONGEST_QUESTION)).unwrap_err().message.contains("64 KiB"));
        let id = questions.put(of(1)).unwrap().id;
        questions.answered(answer(id, LONGEST_QUESTION));
        assert!(matches!(questions.take().unwrap().result, Some(hub_answer::Result::Refusal(_))));
    }
}
