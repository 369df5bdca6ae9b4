//! What of the member's objects stays, where an interpreter webhook decides it: the hub is asked, as the agent reaches no webhook.
//!
//! In: a Work's turn that ended because the hub is to be asked first. Out: the question, and another turn once it is answered. Until then what
//! stands stays, and nothing is told of the Work that is not known. While the hub is away nobody looks again and again: who needs it waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use karmada_interpreter::{InterpretError, Question};
use karmada_proto::v1::{RetentionOf, ask_hub, hub_answer};
use karmada_proto::{body, one_line};
use serde_json::Value;
use tokio::task::JoinSet;

use super::Engine;
use crate::agent_state::LinkView;
use crate::ledger::LedgerError;
use crate::reconcile::failure::Failure;
use crate::reconcile::workqueue::WorkReason;
use crate::session::Phase;

/// An answer is waited for so long: a webhook has half a minute, and the link may be slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// Turns in a row that only asked, after which that is told as a failure and waited over: the object is another one each time that the hub answers.
const TURNS: u32 = 5;

/// Works of which the hub is asked something: of each one thing at a time.
#[derive(Default)]
pub(super) struct Asking {
    keys: BTreeSet<String>,
    tasks: JoinSet<Answered>,
    /// How many turns in a row each did nothing but ask.
    turns: BTreeMap<String, u32>,
    /// Those that wait until the hub is there, and how early they have their turn.
    parked: BTreeMap<String, u8>,
}

/// A Work of which the hub was asked something, the hash of its body then, and whether the hub answered.
pub(super) struct Answered {
    key: String,
    hash: Bytes,
    class: u8,
    is_answered: bool,
}

impl Asking {
    /// The next Work whose question came to its end, once there is one.
    pub(super) async fn next(&mut self) -> Answered {
        match self.tasks.join_next().await {
            // Each catches its panics, and none is aborted.
            Some(Ok(answered)) => answered,
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// A Work's turn came to its end, or the Work is gone.
    pub(super) fn is_over(&mut self, key: &str) {
        self.turns.remove(key);
        self.parked.remove(key);
    }

    /// One more turn that only asked. False: they are too many.
    fn one_more(&mut self, key: &str) -> bool {
        *self.turns.entry(key.to_owned()).or_default() += 1;
        !self.are_too_many(key)
    }

    fn are_too_many(&self, key: &str) -> bool {
        self.turns.get(key).is_some_and(|turns| *turns > TURNS)
    }
}

impl Engine {
    /// Has the hub asked what a Work's turn needs to know. True where the turn is not over before that is answered: there is anything to ask, and
    /// nothing else failed, which is told at once.
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
        let mut all = results.iter().enumerate().filter_map(unanswered);
        // One after the other: the next turn asks for the next.
        let Some((ordinal, question)) = all.next() else { return false };
        let failed = results.iter().filter(|(_, result)| result.is_err()).count();
        let only_asks = failed == 1 + all.count() && self.asking.one_more(key);
        if !matches!(*self.parts.shared.link.borrow(), LinkView::Connected { .. }) {
            self.asking.parked.insert(key.to_owned(), class);
        } else if self.asking.keys.insert(key.to_owned()) {
            self.ask((key, class), hash, ordinal, question);
        }
        only_asks
    }

    fn ask(&mut self, (key, class): (&str, u8), hash: &Bytes, ordinal: u32, question: Arc<Question>) {
        let receiver = self.parts.shared.hub_questions.put(put(key, hash, ordinal, &question));
        let retention = self.parts.retention.clone();
        let (key, hash) = (key.to_owned(), hash.clone());
        let asked = key.clone();
        let answer = async move {
            let answer = tokio::time::timeout(PATIENCE, receiver).await;
            let result = answer.ok().and_then(Result::ok).and_then(|answer| decided(&asked, answer));
            let is_answered = result.is_some();
            if let Some(result) = result {
                retention.answered(question.digest, result);
            }
            is_answered
        };
        self.asking.tasks.spawn(async move {
            let is_answered = AssertUnwindSafe(answer).catch_unwind().await.unwrap_or(false);
            Answered { key, hash, class, is_answered }
        });
    }

    /// Who waited for the hub has another turn: for a body that is applied at the pace of drift, as a hub that was away is asked about all of them at
    /// once; and later where nobody answered.
    pub(super) fn hub_answered(&mut self, answered: Answered) -> Result<(), LedgerError> {
        let Answered { key, hash, class, is_answered } = answered;
        self.asking.keys.remove(&key);
        let entry = self.parts.shared.ledger.entry(&key)?;
        let Some(entry) = entry.filter(|entry| entry.phase == Phase::Desired) else { return Ok(()) };
        // It failed over this already, and has its next turn after a wait.
        if self.asking.are_too_many(&key) {
            return Ok(());
        }
        if is_answered || entry.hash != hash {
            let cause = if entry.is_applied() { WorkReason::Drift } else { WorkReason::New };
            self.workqueue.push(&key, class, cause);
        } else {
            let due = self.now() + self.waits.failed(&key);
            self.workqueue.again(&key, class, due);
        }
        Ok(())
    }

    /// The hub is there: who waited for that asks now.
    pub(super) fn hub_is_there(&mut self) {
        for (key, class) in std::mem::take(&mut self.asking.parked) {
            self.workqueue.push(&key, class, WorkReason::Drift);
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
fn put(key: &str, hash: &Bytes, ordinal: u32, question: &Question) -> ask_hub::Question {
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
