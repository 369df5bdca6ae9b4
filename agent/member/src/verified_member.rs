//! In front of the member: nothing is written to it before it is known to be the cluster that was joined, and after each break
//! of a connection that is found out anew. (The real member asks over each new connection, too, before it uses it.) A kubeconfig, an address or a restored machine may lead to another cluster.
//!
//! Comes in: the uid of kube-system from when the agent joined, and every call for the member. Goes out: reads as they are,
//! writes once [`Proof`] allows them; and the word that another cluster answers, which ends the agent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use karmada_api::cluster::ApiEnablement;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::{Gvk, Member, MemberError, MemberEvent, ObjectId, Passing, Probe, Unserved, Watch, cluster_uid};

/// Between two attempts to find out who answers, where nobody writes.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known of who answers as the member. Pure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Proof {
    /// Not asked yet.
    #[default]
    Unproven,
    /// It was the right one when so many connections had broken.
    Proven(u64),
    /// A cluster with this uid answered. For good: what is here belongs to another.
    Other(String),
}

impl Proof {
    /// Whether the member may be written to, now that `breaks` connections have broken.
    fn allows(&self, breaks: u64) -> bool {
        *self == Self::Proven(breaks)
    }

    /// `found` answered where `expected` was joined; `breaks` is of before it was asked.
    fn found(&mut self, expected: &str, found: String, breaks: u64) {
        if !matches!(self, Self::Other(_)) {
            *self = if found == expected { Self::Proven(breaks) } else { Self::Other(found) };
        }
    }
}

/// The member behind its proof.
pub struct ProvenMember {
    member: Arc<dyn Member>,
    expected: String,
    proof: Mutex<Proof>,
    /// One asks at a time; the others wait for what it finds.
    asking: tokio::sync::Mutex<()>,
    other: watch::Sender<Option<String>>,
}

impl ProvenMember {
    /// Lets writes through to the cluster whose kube-system has the uid `expected`, and to no other.
    pub fn new(member: Arc<dyn Member>, expected: String) -> Self {
        member.expects(&expected);
        Self {
            member,
            expected,
            proof: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            other: watch::Sender::new(None),
        }
    }

    /// Asks until the answer is known, and again after each break, although nobody writes. Returns the uid of another
    /// cluster that answers, once one does.
    pub async fn watch_identity(&self) -> String {
        let mut other = self.other.subscribe();
        loop {
            // Where it cannot be asked, it is asked again.
            let _ = self.prove().await;
            let news = tokio::time::timeout(PERIOD, other.wait_for(Option::is_some)).await;
            if let Ok(Ok(found)) = news
                && let Some(uid) = found.clone()
            {
                return uid;
            }
        }
    }

    async fn prove(&self) -> Result<(), MemberError> {
        if let Some(found) = self.member.stranger() {
            self.proof.lock().found(&self.expected, found, 0);
            return self.refused();
        }
        if self.proof.lock().allows(self.member.breaks()) {
            return Ok(());
        }
        let _one = self.asking.lock().await;
        let breaks = self.member.breaks();
        if self.proof.lock().allows(breaks) {
            return Ok(());
        }
        self.refused()?;
        let found = cluster_uid(&*self.member).await;
        if let Some(found) = self.member.stranger() {
            self.proof.lock().found(&self.expected, found, breaks);
            return self.refused();
        }
        let found = found.map_err(|error| match error {
            error @ (MemberError::Unreachable(_) | MemberError::Throttled(_)) => error,
            error => MemberError::Unproven(error.to_string()),
        })?;
        self.proof.lock().found(&self.expected, found, breaks);
        self.refused()
    }

    /// An error where another cluster answered.
    fn refused(&self) -> Result<(), MemberError> {
        let Proof::Other(found) = self.proof.lock().clone() else { return Ok(()) };
        let error = format!("the cluster that answers has the uid {found}, not {}", self.expected);
        self.other.send_replace(Some(found));
        Err(MemberError::Unproven(error))
    }
}

#[async_trait]
impl Member for ProvenMember {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        self.member.get(id).await
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        self.prove().await?;
        self.member.apply(object).await
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        self.prove().await?;
        self.member.create(object).await
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        self.prove().await?;
        self.member.update(object).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        self.prove().await?;
        self.member.merge(id, patch).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        self.prove().await?;
        self.member.delete(id, uid).await
    }

    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
        self.member.watch(watch)
    }

    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        self.member.resource(gvk).await
    }

    async fn unserved(&self, gvk: &Gvk) -> Result<Unserved, MemberError> {
        self.member.unserved(gvk).await
    }

    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        self.member.api_enablements().await
    }

    async fn version(&self) -> Result<String, MemberError> {
        self.member.version().await
    }

    async fn pass(&self, request: http::Request<Passing>) -> Result<http::Response<Passing>, MemberError> {
        self.prove().await?;
        self.member.pass(request).await
    }

    async fn probe(&self) -> Probe {
        self.member.probe().await
    }

    fn breaks(&self) -> u64 {
        self.member.breaks()
    }

    fn stranger(&self) -> Option<String> {
        self.member.stranger()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::memory::MemoryMember;

    fn config(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    }

    #[test]
    fn a_proof_holds_until_a_connection_breaks_and_another_cluster_is_never_forgotten() {
        let mut proof = Proof::default();
        assert!(!proof.allows(0), "nothing is taken for granted");
        proof.found("a", "a".into(), 0);
        assert!(proof.allows(0) && !proof.allows(1));
        proof.found("a", "b".into(), 1);
        assert!(!proof.allows(1));
        proof.found("a", "a".into(), 1);
        assert_eq!(proof, Proof::Other("b".into()));
    }

    #[tokio::test]
    async fn no_write_before_the_uid_agrees_and_none_after_an_outage_before_it_agrees_again() {
        let memory = MemoryMember::new("m", 1, Duration::ZERO);
        let proven = ProvenMember::new(Arc::new(memory.clone()), "m-kube-system".into());
        memory.set_away(true);
        assert!(matches!(proven.create(&config("a")).await, Err(MemberError::Unreachable(_))));
        memory.set_away(false);
        proven.create(&config("a")).await.unwrap();
        // The connection stands: who answers is not asked for every write.
        memory.becomes("stranger");
        proven.create(&config("b")).await.unwrap();
        memory.set_away(true);
        assert!(proven.get(&ObjectId::of(&config("a"))).await.is_err());
        memory.set_away(false);
        let writes = memory.writes();
        let merge = json!({"data": {"k": "v"}});
        let id = ObjectId::of(&config("a"));
        for refused in [
            proven.create(&config("c")).await.map(drop),
            proven.apply(&config("a")).await.map(drop),
            proven.update(&config("a")).await.map(drop),
            proven.merge(&id, &merge).await.map(drop),
            proven.delete(&id, "uid").await,
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("stranger, not m-kube-system"), "{error}");
        }
        assert_eq!(memory.writes(), writes);
        assert!(memory.read(&id).is_some());
        assert_eq!(proven.watch_identity().await, "stranger");
    }

    #[tokio::test(start_paused = true)]
    async fn another_cluster_is_found_out_although_nobody_writes() {
        let memory = MemoryMember::new("m", 1, Duration::ZERO);
        let proven = ProvenMember::new(Arc::new(memory.clone()), "m-kube-system".into());
        memory.set_away(true);
        let found = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            memory.becomes("stranger");
            memory.set_away(false);
            std::future::pending::<()>().await;
        };
        let limited = tokio::time::timeout(Duration::from_secs(120), proven.watch_identity());
        tokio::select! {
            uid = limited => assert_eq!(uid.expect("found out in time"), "stranger"),
            () = found => {}
        }
    }
}
