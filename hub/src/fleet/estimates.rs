//! Exact room in members, as their agents say it over their streams; no member is dialled.
//!
//! In: questions of the scheduler. Out: the agents' answers, asked of now and by a deadline. An agent that took more than half of the time
//! is not waited for again for a while.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use karmada_api::binding::ReplicaRequirements;
use karmada_controllers::estimator::{Answers, Estimator};
use karmada_gateway::Gateway;
use karmada_proto::v1::{RoomFor, answer, ask};

use super::late::Late;

/// Asks agents for room.
pub struct Estimates {
    gateway: OnceLock<Arc<Gateway>>,
    within: Duration,
    late: Late,
}

impl Estimates {
    /// For answers within this time.
    pub fn new(within: Duration) -> Arc<Self> {
        Arc::new(Self { gateway: OnceLock::new(), within, late: Late::default() })
    }

    /// From now on the agents of this gateway are asked; before, nobody is.
    pub fn ask_by(&self, gateway: Arc<Gateway>) {
        let _ = self.gateway.set(gateway);
    }

    async fn of(&self, gateway: &Gateway, cluster: &str, requirements: Bytes) -> Result<i64, String> {
        let question = ask::Question::RoomFor(RoomFor { requirements });
        let asking = gateway.ask(cluster, question, self.within);
        match self.late.unless_late(cluster, self.within / 2, asking).await? {
            Ok(answer::Result::Room(room)) => Ok(room.replicas.into()),
            Ok(_) => Err("its agent answered something else".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[async_trait::async_trait]
impl Estimator for Estimates {
    async fn room(&self, clusters: &[&str], requirements: Option<&ReplicaRequirements>) -> Answers {
        let (Some(gateway), Ok(requirements)) = (self.gateway.get(), serde_json::to_vec(&requirements))
        else {
            return Answers::new();
        };
        let requirements = Bytes::from(requirements);
        let asked = clusters.iter().map(|cluster| {
            let requirements = requirements.clone();
            async move { ((*cluster).to_owned(), self.of(gateway, cluster, requirements).await) }
        });
        asked.collect::<FuturesUnordered<_>>().collect().await
    }
}
