//! What the agent asks of the hub in one session. Pure.
//!
//! In: questions of the agent, answers of the hub. Out: questions that may be answered, as effects; each answer once, and a refusal at once of what
//! is not known here and of what is beyond the most.

use std::collections::BTreeSet;

use karmada_proto::v1::{AskHub, AskRefusal, AskRefusalCode, HubAnswer, ask_hub, hub_answer, hub_frame};
use karmada_proto::{LONGEST_QUESTION, frame};

use super::bounds::NAME;
use super::{Effect, Session};

/// Questions of one session that are being answered at once.
const MOST: usize = 16;

/// What is being answered.
pub(super) type AgentQuestions = BTreeSet<u64>;

/// A refusal of a question.
pub fn refusal(code: AskRefusalCode, message: impl Into<String>) -> hub_answer::Result {
    hub_answer::Result::Refusal(AskRefusal { code: code.into(), message: message.into() })
}

impl Session {
    /// The agent asks something.
    pub(super) fn asked_by_agent(&mut self, ask: AskHub) {
        let id = ask.id;
        match self.why_not(&ask) {
            Some(refused) => {
                let answer = HubAnswer { id, result: Some(refused) };
                self.out.push_back(hub_frame::Body::HubAnswer(answer));
            }
            None => {
                self.agent_questions.insert(id);
                self.effects.push_back(Effect::Asked(ask));
            }
        }
    }

    /// The outcome of [`Effect::Asked`]. One that is longer than an agent takes is refused in its place.
    pub fn answer_agent(&mut self, id: u64, result: hub_answer::Result) {
        if !self.agent_questions.remove(&id) || self.closing {
            return;
        }
        let mut answer = HubAnswer { id, result: Some(result) };
        if frame::size(&answer) > LONGEST_QUESTION as u64 {
            let message =
                format!("the answer is longer than the {} KiB that one may have", LONGEST_QUESTION / 1024);
            answer.result = Some(refusal(AskRefusalCode::NotKnown, message));
        }
        self.out.push_back(hub_frame::Body::HubAnswer(answer));
    }

    fn why_not(&self, ask: &AskHub) -> Option<hub_answer::Result> {
        use AskRefusalCode as Code;
        let Some(ask_hub::Question::RetentionOf(wanted)) = &ask.question else {
            let message = format!("this hub does not know question {}", ask.kind);
            return Some(refusal(Code::UnknownQuestion, message));
        };
        if wanted.key.len() > NAME || frame::size(ask) > LONGEST_QUESTION as u64 {
            let message = format!("a question has {} KiB at most", LONGEST_QUESTION / 1024);
            return Some(refusal(Code::BadQuestion, message));
        }
        if self.agent_questions.contains(&ask.id) {
            return Some(refusal(Code::BadQuestion, "this id is asked already"));
        }
        if self.agent_questions.len() >= MOST {
            return Some(refusal(Code::AskBusy, format!("{MOST} questions are being answered already")));
        }
        None
    }
}
