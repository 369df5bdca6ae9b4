//! What the hub asks in one session, and by whom it is answered.
//!
//! In: questions. Out: their answers, in any order. Those that are waited for are as many as the session lets be asked at once; tunnels that were
//! opened for it end with the session.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use karmada_api::binding::ReplicaRequirements;
use karmada_proto::v1::{Answer, Ask, AskRefusal, AskRefusalCode, Room, RoomFor, answer, ask};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hub::Hub;
use crate::pod_usage::PodUsages;
use crate::shared::Shared;
use crate::tunnel::Tunnels;

/// No question is thought about for longer.
const LONGEST: Duration = Duration::from_secs(30);

/// Who answers in one session.
pub(super) struct Questions {
    shared: Arc<Shared>,
    tunnels: Arc<Tunnels>,
    usages: Arc<PodUsages>,
    hub: Hub,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    session: CancellationToken,
    _ends: DropGuard,
}

impl Questions {
    /// Of a session with this hub.
    pub fn new(shared: Arc<Shared>, tunnels: Arc<Tunnels>, usages: Arc<PodUsages>, hub: Hub) -> Self {
        let session = CancellationToken::new();
        let ends = session.clone().drop_guard();
        Self { shared, tunnels, usages, hub, answers: FuturesUnordered::new(), session, _ends: ends }
    }

    /// Begins to answer.
    pub fn take(&mut self, ask: Ask) {
        let Ask { id, within_ms, question, .. } = ask;
        let result = match question {
            Some(ask::Question::OpenTunnel(wanted)) => {
                let opened = self.tunnels.open(wanted, self.hub.clone(), &self.session);
                std::future::ready(opened).boxed()
            }
            Some(ask::Question::RoomFor(room)) => {
                let within = Duration::from_millis(within_ms).min(LONGEST);
                room_for(self.shared.clone(), room, within).boxed()
            }
            Some(ask::Question::PodUsageOf(wanted)) => {
                let (usages, within) = (self.usages.clone(), Duration::from_millis(within_ms).min(LONGEST));
                async move { usages.answer(wanted, within).await }.boxed()
            }
            None => {
                std::future::ready(refusal(AskRefusalCode::UnknownQuestion, "it is not known here")).boxed()
            }
        };
        self.answers.push(result.map(move |result| Answer { id, result: Some(result) }).boxed());
    }

    /// The next answer, once there is one.
    pub async fn answered(&mut self) -> Answer {
        match self.answers.next().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

fn refusal(code: AskRefusalCode, message: impl Into<String>) -> answer::Result {
    answer::Result::Refusal(AskRefusal { code: code.into(), message: message.into() })
}

/// How many Pods have room: the summary knows.
async fn room_for(shared: Arc<Shared>, question: RoomFor, within: Duration) -> answer::Result {
    let requirements = match serde_json::from_slice::<Option<ReplicaRequirements>>(&question.requirements) {
        Ok(requirements) => requirements,
        Err(error) => return refusal(AskRefusalCode::BadQuestion, format!("the requirements: {error}")),
    };
    let Some(answered) = shared.ask_for_room(requirements) else {
        return refusal(AskRefusalCode::AskBusy, "too many ask for room at once");
    };
    match tokio::time::timeout(within, answered).await {
        Ok(Ok(replicas)) => answer::Result::Room(Room { replicas }),
        Ok(Err(_)) => refusal(AskRefusalCode::NotKnown, "the member's nodes and Pods are not known yet"),
        Err(_) => refusal(AskRefusalCode::NotKnown, "it takes longer than there is time for"),
    }
}
