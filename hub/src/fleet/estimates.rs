//! Exact room in members, and replicas that find none, as their agents say it over their streams; no member is dialled.
//!
//! In: questions of the scheduler and the descheduler, with what was placed a moment ago. Out: the agents' answers, asked of now and by a deadline. An agent that took more than
//! half of the time is not waited for again for a while.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use karmada_api::binding::ObjectReference;
use karmada_controllers::agent_ports::estimator::{Answers, Estimator, RoomQuestion};
use karmada_core::scheduler::assumptions::{self, Assumed};
use karmada_core::scheduler::estimator_answers::Wanted;
use karmada_gateway::Gateway;
use karmada_proto::LONGEST_QUESTION;
use karmada_proto::v1::{Room, RoomFor, RoomForSets, Unschedulable, UnschedulableOf, answer, ask};

use super::slow_agents::SlowAgents;

/// More than what a question has beside its payload and its namespace: numbers and lengths.
const ENVELOPE: usize = 64;

/// What an agent is told at most of what was placed a moment ago: a thousand agents may be asked at once, and a thin line has seconds for it.
const MOST_ASSUMED: usize = 8192;

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

    /// Asks all of them at once, each its own question.
    async fn all(
        &self,
        clusters: &[&str],
        namespace: &str,
        question: impl Fn(&str) -> ask::Question,
    ) -> Answers {
        let Some(gateway) = self.gateway.get() else { return Answers::new() };
        let asked = clusters.iter().map(|cluster| {
            let question = question(cluster);
            async move { ((*cluster).to_owned(), self.of(gateway, (cluster, namespace), question).await) }
        });
        asked.collect::<FuturesUnordered<_>>().collect().await
    }
}

#[async_trait::async_trait]
impl Estimator for Estimates {
    async fn room(&self, clusters: &[&str], question: RoomQuestion<'_>) -> Answers {
        let RoomQuestion { wanted, namespace, quotas_count, taken } = question;
        let payload = match wanted {
            Wanted::Replicas(requirements) => serde_json::to_vec(&requirements),
            Wanted::Sets(components) => serde_json::to_vec(components),
        };
        // No agent takes a longer question: nobody is sent one.
        let room =
            |payload: &Vec<u8>| LONGEST_QUESTION.checked_sub(payload.len() + namespace.len() + ENVELOPE);
        let Some((payload, left)) =
            payload.ok().and_then(|payload| room(&payload).map(|left| (payload, left)))
        else {
            return Answers::new();
        };
        let payload = Bytes::from(payload);
        let of = |cluster: &str| {
            let assumed = taken.get(cluster).map(|taken| assumed(taken, left)).unwrap_or_default();
            let (payload, namespace) = (payload.clone(), namespace.to_owned());
            match wanted {
                Wanted::Replicas(_) => ask::Question::RoomFor(RoomFor {
                    requirements: payload,
                    namespace,
                    quotas_count,
                    assumed,
                }),
                Wanted::Sets(_) => ask::Question::RoomForSets(RoomForSets {
                    components: payload,
                    namespace,
                    quotas_count,
                    assumed,
                }),
            }
        };
        self.all(clusters, namespace, of).await
    }

    async fn unschedulable(
        &self,
        clusters: &[&str],
        workload: &ObjectReference,
        longer_than: Duration,
    ) -> Answers {
        let question = UnschedulableOf {
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            longer_than_seconds: longer_than.as_secs(),
        };
        let of = |_: &str| ask::Question::UnschedulableOf(question.clone());
        self.all(clusters, &workload.namespace, of).await
    }
}

/// What was placed on a cluster, as its agent is told: no more of it than fits into `left` bytes of the question. What does not, the cluster's
/// summary is still reckoned without.
fn assumed(taken: &[Arc<Assumed>], left: usize) -> Bytes {
    let mut all = Vec::from(*b"[");
    for one in assumptions::summed(taken) {
        let Ok(one) = serde_json::to_vec(&one) else { continue };
        // Beside it a comma, and the end of the list.
        if all.len() + one.len() + 2 > left.min(MOST_ASSUMED) {
            continue;
        }
        if all.len() > 1 {
            all.push(b',');
        }
        all.extend(one);
    }
    if all.len() == 1 {
        return Bytes::new();
    }
    all.push(b']');
    Bytes::from(all)
}

#[cfg(test)]
mod tests {
    use karmada_api::binding::Component;

    use super::*;

    #[test]
    fn what_is_taken_is_told_as_far_as_the_question_has_room() {
        let one = |namespace: &str, replicas| {
            let component = Component { replicas, ..Component::default() };
            Arc::new(Assumed { namespace: namespace.to_owned(), components: vec![component] })
        };
        let taken = [one("a", 2), one("b", 1), one("a", 3)];
        let read = |left| -> Vec<(String, i32)> {
            let told = assumed(&taken, left);
            assert!(told.len() <= left);
            let all: Vec<Assumed> =
                if told.is_empty() { Vec::new() } else { serde_json::from_slice(&told).unwrap() };
            all.iter().map(|one| (one.namespace.clone(), one.components[0].replicas)).collect()
        };
        assert_eq!(read(1_000), [("a".to_owned(), 5), ("b".to_owned(), 1)]);
        assert_eq!(read(80), [("a".to_owned(), 5)]);
        assert!(read(10).is_empty() && read(0).is_empty());
        assert!(assumed(&[], 1_000).is_empty(), "of nothing no word is said");
        let many: Vec<_> = (0..1_000).map(|at| one(&format!("{at:060}"), 1)).collect();
        let told = assumed(&many, usize::MAX).len();
        assert!(told > MOST_ASSUMED / 2 && told <= MOST_ASSUMED, "{told}");
    }
}
