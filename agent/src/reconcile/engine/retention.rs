//! What of the member's objects stays, where an interpreter webhook decides it: the hub is asked, as the agent reaches no webhook.
//!
//! In: a Work's turn that ended because the hub is to be asked first. Out: the question, and another turn once it is answered. Until then what
//! stands stays, and nothing is told of the Work that is not known.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use karmada_interpreter::{InterpretError, Question};
use karmada_proto::v1::{RetentionOf, ask_hub, hub_answer};
use karmada_proto::{body, one_line};
use serde_json::Value;
use tokio::task::JoinSet;

use super::Engine;
use crate::ledger::LedgerError;
use crate::reconcile::failure::Failure;
use crate::reconcile::workqueue::WorkReason;

/// An answer is waited for so long: a webhook has half a minute, and the link may be slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// What nobody answered is asked again after this.
const AGAIN: Duration = Duration::from_secs(15);

/// Works of which the hub is asked something: of each one thing at a time.
#[derive(Default)]
pub(super) struct Asking {
    keys: BTreeSet<String>,
    tasks: JoinSet<Answered>,
}

/// A Work of which the hub was asked something, and whether it answered.
pub(super) struct Answered {
    key: String,
    class: u8,
    is_answered: bool,
}

impl Asking {
    /// The next Work whose question came to its end, once there is one.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(answered)) => return answered,
                // It panicked, and of whom is not known: whoever has a turn asks again.
                Some(Err(_)) => self.keys.clear(),
                None => std::future::pending().await,
            }
        }
    }
}

impl Engine {
    /// Has the hub asked what a Work's turn needs to know. True where there is anything: the Work then has another turn.
    pub(super) fn asks_hub(
        &mut self,
        (key, class): (&str, u8),
        hash: &Bytes,
        results: &[(String, Result<Value, Failure>)],
    ) -> bool {
        let unanswered = |(ordinal, (_, result)): (usize, &(String, Result<Value, Failure>))| match result {
            Err(Failure::Interpret(InterpretError::Unanswered(question))) => {
                Some((ordinal as u32, question.clone()))
            }
            _ => None,
        };
        // One after the other: the next turn asks for the next.
        let Some((ordinal, question)) = results.iter().enumerate().find_map(unanswered) else { return false };
        if !self.asking.keys.insert(key.to_owned()) {
            return true;
        }
        let receiver = self.parts.shared.hub_questions.put(ask(key, hash, ordinal, &question));
        let retention = self.parts.retention.clone();
        let key = key.to_owned();
        self.asking.tasks.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, receiver).await;
            let result = answer.ok().and_then(Result::ok).and_then(|answer| decided(&key, answer));
            let is_answered = result.is_some();
            if let Some(result) = result {
                retention.answered(question.digest, result);
            }
            Answered { key, class, is_answered }
        });
        true
    }

    /// Who waited for the hub has another turn; for an answer that did not come, later.
    pub(super) fn hub_answered(&mut self, Answered { key, class, is_answered }: Answered) {
        self.asking.keys.remove(&key);
        if is_answered {
            self.workqueue.push(&key, class, WorkReason::New);
        } else {
            self.workqueue.again(&key, class, self.now() + AGAIN);
        }
    }

    /// A turn ended and the Work is neither applied nor failed; `placed`: something of it is in the member.
    pub(super) fn is_not_over(&self, key: &str, placed: bool) -> Result<(), LedgerError> {
        let ledger = &self.parts.shared.ledger;
        ledger.came_back(key, self.unanswered.until(key).is_some(), true)?;
        if placed { ledger.placed(key) } else { Ok(()) }
    }
}

/// The question as it goes to the hub.
fn ask(key: &str, hash: &Bytes, ordinal: u32, question: &Question) -> ask_hub::Question {
    let encoded = body::encode(&Bytes::from(question.body.clone()));
    ask_hub::Question::RetentionOf(RetentionOf {
        key: key.to_owned(),
        hash: hash.clone(),
        ordinal,
        encoding: encoded.encoding.into(),
        decoded_size: encoded.decoded_size,
        observed: encoded.bytes,
    })
}

/// What the hub decided, or why it could not; `None` where the question is to be put again.
fn decided(key: &str, answer: hub_answer::Result) -> Option<Result<Value, String>> {
    match answer {
        hub_answer::Result::Retained(retained) => {
            let object = body::decode(retained.encoding, &retained.object, retained.decoded_size)
                .map_err(|error| error.to_string())
                .and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()));
            Some(object.map_err(|why| format!("what the hub answered cannot be read: {why}")))
        }
        hub_answer::Result::Refusal(refusal) => {
            use karmada_proto::v1::AskRefusalCode as Code;
            let why = one_line(&refusal.message);
            match refusal.code() {
                Code::AskBusy | Code::NotAllowed => {
                    tracing::debug!(work = key, why, "the hub takes no question now");
                    None
                }
                _ => Some(Err(why)),
            }
        }
    }
}
