//! Exact room in members, and replicas that find none, as their agents say it over their streams; no member is dialled.
//!
//! In: questions of the scheduler and the descheduler. Out: the agents' answers, asked of now and by a deadline. An agent that took more than
//! half of the time is not waited for again for a while.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use karmada_api::binding::ObjectReference;
use karmada_controllers::agent_ports::estimator::{Answers, Estimator, RoomQuestion};
use karmada_core::scheduler::estimator_answers::Wanted;
use karmada_gateway::Gateway;
use karmada_proto::LONGEST_QUESTION;
use karmada_proto::v1::{Room, RoomFor, RoomForSets, Unschedulable, UnschedulableOf, answer, ask};

use super::slow_agents::SlowAgents;

/// More than what a question has beside its payload and its namespace: numbers and lengths.
const ENVELOPE: usize = 64;

/// Asks agents.
pub struct Estimates {
    gateway: OnceLock<Arc<Gateway>>,
    within: Duration,
    late: SlowAgents,
}

impl Estimates {
    /// For answers within this time.
    pub fn new(within: Duration) -> Arc<Self> {
        Arc::new(Self { gateway: OnceLock::new(), within, late: SlowAgents::default() })
    }

    /// From now on the agents of this gateway are asked; before, nobody is.
    pub fn ask_by(&self, gateway: Arc<Gateway>) {
        let _ = self.gateway.set(gateway);
    }

    /// Asks one agent, unless it was too late a moment ago; `whose`: its cluster, and the namespace that asks.
    async fn of(
        &self,
        gateway: &Gateway,
        whose: (&str, &str),
        question: ask::Question,
    ) -> Result<i64, String> {
        use answer::Result as Said;
        use ask::Question as Asked;
        let asking = gateway.ask(whose.0, question.clone(), self.within);
        let answer = self.late.unless_late(whose, self.within / 2, asking).await?;
        match (question, answer.map_err(|error| error.to_string())?) {
            (Asked::RoomFor(_) | Asked::RoomForSets(_), Said::Room(Room { replicas }))
            | (Asked::UnschedulableOf(_), Said::Unschedulable(Unschedulable { replicas })) => {
                Ok(replicas.into())
            }
            _ => Err("its agent answered something else".to_owned()),
        }
    }

    /// Asks all of them at once.
    async fn all(&self, clusters: &[&str], namespace: &str, question: ask::Question) -> Answers {
        let Some(gateway) = self.gateway.get() else { return Answers::new() };
        let asked = clusters.iter().map(|cluster| {
            let question = question.clone();
            async move { ((*cluster).to_owned(), self.of(gateway, (cluster, namespace), question).await) }
        });
        asked.collect::<FuturesUnordered<_>>().collect().await
    }
}

#[async_trait::async_trait]
impl Estimator for Estimates {
    async fn room(&self, clusters: &[&str], question: RoomQuestion<'_>) -> Answers {
        let RoomQuestion { wanted, namespace, quotas_count } = question;
        let payload = match wanted {
            Wanted::Replicas(requirements) => serde_json::to_vec(&requirements),
            Wanted::Sets(components) => serde_json::to_vec(components),
        };
        // No agent takes a longer question: nobody is sent one.
        let fits = |payload: &Vec<u8>| payload.len() + namespace.len() + ENVELOPE <= LONGEST_QUESTION;
        let payload = payload.ok().filter(fits);
        let Some(payload) = payload.map(Bytes::from) else { return Answers::new() };
        let whose = namespace;
        let namespace = namespace.to_owned();
        let question = match wanted {
            Wanted::Replicas(_) => {
                ask::Question::RoomFor(RoomFor { requirements: payload, namespace, quotas_count })
            }
            Wanted::Sets(_) => {
                ask::Question::RoomForSets(RoomForSets { components: payload, namespace, quotas_count })
            }
        };
        self.all(clusters, whose, question).await
    }

    async fn unschedulable(
        &self,
        clusters: &[&str],
        workload: &ObjectReference,
        longer_than: Duration,
    ) -> Answers {
        let question = ask::Question::UnschedulableOf(UnschedulableOf {
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            longer_than_seconds: longer_than.as_secs(),
        });
        self.all(clusters, &workload.namespace, question).await
    }
}
