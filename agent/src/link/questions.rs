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
use karmada_interpreter::node_room::Assumed;
use karmada_interpreter::nodes_and_pods::PodUse;
use karmada_pods::usage::PodUsages;
use karmada_pods::{quotas, unschedulable};
use karmada_proto::v1::{
    self, Answer, Ask, AskRefusal, AskRefusalCode, Room, RoomFor, RoomForSets, Unschedulable,
    UnschedulableOf, answer, ask,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hub::Hub;
use crate::agent_state::{AgentState, RoomWanted, Wanted};
use crate::clock_and_random::ClockAndRandom;
use crate::member::Member;
use crate::member::topology::Topology;
use crate::tunnel::Tunnels;

/// No question is thought about for longer.
const LONGEST: Duration = Duration::from_secs(30);

const NOT_YET: &str = "the member's nodes and Pods are not known yet";

/// Who knows the answers.
#[derive(Clone)]
pub(super) struct AnswerSources {
    /// What the summary knows.
    pub shared: Arc<AgentState>,
    /// What is looked up for one question.
    pub member: Arc<dyn Member>,
    /// Requests of users to the member.
    pub tunnels: Arc<Tunnels>,
    /// What Pods use.
    pub usages: Arc<PodUsages>,
    /// Where the member is, as far as a person said it.
    pub said_topology: Topology,
    /// The wall clock.
    pub sources: ClockAndRandom,
}

/// Who answers in one session.
pub(super) struct Questions {
    asked: AnswerSources,
    hub: Hub,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    session: CancellationToken,
    _ends: DropGuard,
}

impl Questions {
    /// Of a session with this hub.
    pub fn new(asked: AnswerSources, hub: Hub) -> Self {
        let session = CancellationToken::new();
        let ends = session.clone().drop_guard();
        Self { asked, hub, answers: FuturesUnordered::new(), session, _ends: ends }
    }

    /// Begins to answer.
    pub fn take(&mut self, ask: Ask) {
        let Ask { id, within_ms, question, .. } = ask;
        let within = Duration::from_millis(within_ms).min(LONGEST);
        let result = match question {
            Some(ask::Question::OpenTunnel(wanted)) => {
                let opened = self.asked.tunnels.open(wanted, self.hub.clone(), &self.session);
                std::future::ready(opened).boxed()
            }
            Some(ask::Question::RoomFor(room)) => {
                room_for(self.asked.clone(), RoomQuestion::replicas(room), within).boxed()
            }
            Some(ask::Question::RoomForSets(room)) => {
                room_for(self.asked.clone(), RoomQuestion::sets(room), within).boxed()
            }
            Some(ask::Question::UnschedulableOf(workload)) => {
                unschedulable_of(self.asked.clone(), workload, within).boxed()
            }
            Some(ask::Question::PodUsageOf(wanted)) => {
                let usages = self.asked.usages.clone();
                async move { usages.answer(wanted, within).await }.boxed()
            }
            Some(ask::Question::TopologyOf(_)) => {
                let (said, member) = (self.asked.said_topology.clone(), self.asked.member.clone());
                async move { topology(said.completed_by(&*member, within).await) }.boxed()
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

/// A question for room that could be read.
struct RoomQuestion {
    wanted: Wanted,
    /// What takes room and may not be seen as Pods yet.
    assumed: Vec<Assumed>,
    /// The namespace whose quotas are a bound, where quotas count.
    quotas_of: Option<String>,
}

impl RoomQuestion {
    /// Of Pods of one sort; in words why it cannot be read.
    fn replicas(question: RoomFor) -> Result<Self, String> {
        let RoomFor { requirements, namespace, quotas_count, assumed } = question;
        let mut requirements: Option<ReplicaRequirements> =
            serde_json::from_slice(&requirements).map_err(|error| format!("the requirements: {error}"))?;
        if quotas_count {
            requirements.get_or_insert_default().namespace.clone_from(&namespace);
        }
        let (wanted, quotas_of) = (Wanted::Replicas(requirements), quotas_count.then_some(namespace));
        Ok(Self { wanted, assumed: taken(&assumed)?, quotas_of })
    }

    /// Of whole sets; in words why it cannot be read.
    fn sets(question: RoomForSets) -> Result<Self, String> {
        let RoomForSets { components, namespace, quotas_count, assumed } = question;
        let components =
            serde_json::from_slice(&components).map_err(|error| format!("the components: {error}"))?;
        let quotas_of = quotas_count.then(|| namespace.clone());
        Ok(Self { wanted: Wanted::Sets { namespace, components }, assumed: taken(&assumed)?, quotas_of })
    }
}

/// What was placed a moment ago, as a question tells it; a hub that does not know of it tells nothing.
fn taken(assumed: &[u8]) -> Result<Vec<Assumed>, String> {
    if assumed.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(assumed).map_err(|error| format!("what is assumed: {error}"))
}

/// How much has room: the summary knows the nodes and Pods, the member the quotas, which are read where they count.
async fn room_for(
    asked: AnswerSources,
    question: Result<RoomQuestion, String>,
    within: Duration,
) -> answer::Result {
    let RoomQuestion { wanted, assumed, quotas_of } = match question {
        Ok(question) => question,
        Err(why) => return refusal(AskRefusalCode::BadQuestion, why),
    };
    let counted = async {
        let quotas = match quotas_of {
            Some(namespace) => quotas::of(&*asked.member, &namespace)
                .await
                .map_err(|why| refusal(AskRefusalCode::NotKnown, format!("its ResourceQuotas: {why}")))?,
            None => Vec::new(),
        };
        let wanted = RoomWanted { of: wanted, quotas, assumed };
        let busy = || refusal(AskRefusalCode::AskBusy, "too many ask for room at once");
        let answered = asked.shared.ask_for_room(wanted).ok_or_else(busy)?;
        answered.await.map_err(|_| refusal(AskRefusalCode::NotKnown, NOT_YET))
    };
    match tokio::time::timeout(within, counted).await {
        Ok(Ok(replicas)) => answer::Result::Room(Room { replicas }),
        Ok(Err(refused)) => refused,
        Err(_) => too_long(),
    }
}

/// Where the member is; what its Nodes do not say, or do not say in time, is open.
fn topology(found: Topology) -> answer::Result {
    let Topology { provider, region, zones } = found;
    answer::Result::Topology(v1::Topology { provider, region, zones })
}

fn too_long() -> answer::Result {
    refusal(AskRefusalCode::NotKnown, "it takes longer than there is time for")
}

/// How many Pods of a Deployment found no node: the summary knows those that wait, the member knows which of them are the Deployment's.
async fn unschedulable_of(
    asked: AnswerSources,
    question: UnschedulableOf,
    within: Duration,
) -> answer::Result {
    let Some(waiting) = asked.shared.ask_for_waiting() else {
        return refusal(AskRefusalCode::AskBusy, "too many ask about nodes and Pods at once");
    };
    let counted = async {
        let waiting: Vec<PodUse> = waiting.await.map_err(|_| NOT_YET.to_owned())?;
        unschedulable::count(&*asked.member, &question, &waiting, asked.sources.now()).await
    };
    match tokio::time::timeout(within, counted).await {
        Ok(Ok(replicas)) => answer::Result::Unschedulable(Unschedulable { replicas }),
        Ok(Err(why)) => refusal(AskRefusalCode::NotKnown, why),
        Err(_) => too_long(),
    }
}
