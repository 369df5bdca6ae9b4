//! Asking the agent of a cluster something, and waiting for its answer.
//!
//! In: a question and how long its answer is of use. Out: the answer, or why there is none: at once where that is known.

use std::time::Duration;

use karmada_proto::one_line;
use karmada_proto::v1::{AskRefusalCode, answer, ask};

use crate::gateway::Gateway;
use crate::pending_asks::NotAsked;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The cluster's agent has no session.
    #[error("its agent is not connected")]
    NotConnected,
    /// The agent has enough to answer.
    #[error("its agent is asked too much at once")]
    Busy,
    /// The session ended before.
    #[error("its agent went away")]
    Gone,
    /// Nothing was heard in time.
    #[error("its agent did not answer within {0:?}")]
    Late(Duration),
    /// The agent does not know the question: it is older than that.
    #[error("its agent does not know the question: it is to be upgraded")]
    Unknown,
    /// The agent does not answer that.
    #[error("its agent does not say: {0}")]
    Refused(String),
}

impl Gateway {
    /// Asks the agent of `cluster` something, for an answer within this time.
    ///
    /// # Errors
    /// [`AskError`]: at once where the agent is not there or has enough to answer; else it refuses, goes away or is late.
    pub async fn ask(
        &self,
        cluster: &str,
        question: ask::Question,
        within: Duration,
    ) -> Result<answer::Result, AskError> {
        let handle = self.fleet.handle(cluster).ok_or(AskError::NotConnected)?;
        let answered = handle.ask(question, within).map_err(|error| match error {
            NotAsked::Busy => AskError::Busy,
            NotAsked::Over => AskError::Gone,
        })?;
        match tokio::time::timeout(within, answered).await {
            Ok(Ok(answer::Result::Refusal(refusal))) => Err(match refusal.code() {
                AskRefusalCode::UnknownQuestion => AskError::Unknown,
                AskRefusalCode::AskBusy => AskError::Busy,
                _ => AskError::Refused(one_line(&refusal.message)),
            }),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Gone),
            Err(_) => Err(AskError::Late(within)),
        }
    }
}
