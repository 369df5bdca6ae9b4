//! In front of the member, for who brings it what the hub says: what is written is counted by kind and result.
//!
//! In: every call for the member. Out: its answer as it is; numbers for a monitor, by upstream's names (`create_resource_to_cluster` and its like). As
//! many lines as there are kinds that Works name, up to a bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use karmada_api::cluster::ApiEnablement;
use parking_lot::Mutex;
use serde_json::Value;

use crate::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Passing, Probe, Unserved, Watch};

/// Kinds, verbs and results that are told apart; what comes after is not counted.
const LINES: usize = 4096;

/// What is done to an object of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Create,
    Update,
    Delete,
}

impl Write {
    /// Name and help of its metric.
    fn metric(self) -> (&'static str, &'static str) {
        match self {
            Write::Create => ("create_resource_to_cluster", "Objects that were to be created in the member."),
            Write::Update => ("update_resource_to_cluster", "Objects of the member that were to be changed."),
            Write::Delete => {
                ("delete_resource_from_cluster", "Objects that were to be deleted in the member.")
            }
        }
    }
}

/// How often each kind was written, and how that went.
#[derive(Debug, Default)]
pub struct WriteCounts(Mutex<BTreeMap<(Write, Gvk, bool), u64>>);

impl WriteCounts {
    fn note(&self, write: Write, gvk: Gvk, succeeded: bool) {
        let mut counts = self.0.lock();
        let (is_full, line) = (counts.len() >= LINES, (write, gvk, succeeded));
        match counts.get_mut(&line) {
            Some(count) => *count += 1,
            None if is_full => {}
            None => drop(counts.insert(line, 1)),
        }
    }

    /// The lines for the cluster of this name.
    pub fn page(&self, out: &mut String, cluster: &str) {
        let counts = self.0.lock().clone();
        for write in [Write::Create, Write::Update, Write::Delete] {
            let (name, help) = write.metric();
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for ((_, gvk, succeeded), count) in counts.iter().filter(|((of, _, _), _)| *of == write) {
                let (version, kind) = (gvk.api_version(), &gvk.kind);
                let result = if *succeeded { "success" } else { "error" };
                let _ = writeln!(
                    out,
                    "{name}{{apiversion={version:?},kind={kind:?},member_cluster={cluster:?},result={result:?}}} {count}"
                );
            }
        }
    }
}

/// The member whose writes are counted.
pub struct CountedMember {
    member: Arc<dyn Member>,
    counts: Arc<WriteCounts>,
}

impl CountedMember {
    /// Counts here.
    pub fn new(member: Arc<dyn Member>, counts: Arc<WriteCounts>) -> Arc<Self> {
        Arc::new(Self { member, counts })
    }

    fn note<T>(&self, write: Write, gvk: Gvk, came: Result<T, MemberError>) -> Result<T, MemberError> {
        // That it is there already, or has to be written another way, is found out so: the write that follows tells how it went.
        let goes_on = matches!(came, Err(MemberError::Conflict(_) | MemberError::NotMergeable(_)));
        if !goes_on {
            self.counts.note(write, gvk, came.is_ok());
        }
        came
    }
}

#[async_trait]
impl Member for CountedMember {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        self.member.get(id).await
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        self.note(Write::Update, Gvk::of(object), self.member.apply(object).await)
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        self.note(Write::Create, Gvk::of(object), self.member.create(object).await)
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        self.note(Write::Update, Gvk::of(object), self.member.update(object).await)
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        self.note(Write::Update, id.gvk.clone(), self.member.merge(id, patch).await)
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        self.note(Write::Delete, id.gvk.clone(), self.member.delete(id, uid).await)
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
        self.member.pass(request).await
    }

    async fn probe(&self) -> Probe {
        self.member.probe().await
    }

    fn breaks(&self) -> u64 {
        self.member.breaks()
    }

    fn expects(&self, uid: &str) {
        self.member.expects(uid);
    }

    fn stranger(&self) -> Option<String> {
        self.member.stranger()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::member::memory::MemoryMember;

    #[tokio::test]
    async fn writes_are_counted_by_kind_and_by_how_they_went() {
        let counts = Arc::<WriteCounts>::default();
        let memory = MemoryMember::new("m", 1, Duration::ZERO);
        let member = CountedMember::new(Arc::new(memory.clone()), counts.clone());
        let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
        member.create(&config("a")).await.unwrap();
        assert!(matches!(member.create(&config("a")).await, Err(MemberError::Conflict(_))));
        member.apply(&config("a")).await.unwrap();
        memory.fail("b", Some(MemberError::Invalid("no".into())));
        member.create(&config("b")).await.unwrap_err();
        let (id, uid) = (ObjectId::of(&config("a")), memory.read(&ObjectId::of(&config("a"))).unwrap());
        member.delete(&id, uid["metadata"]["uid"].as_str().unwrap()).await.unwrap();
        let mut page = String::new();
        counts.page(&mut page, "site1");
        let lines: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let labels = |result: &str| {
            format!("{{apiversion=\"v1\",kind=\"ConfigMap\",member_cluster=\"site1\",result=\"{result}\"}} 1")
        };
        assert_eq!(
            lines,
            [
                format!("create_resource_to_cluster{}", labels("error")),
                format!("create_resource_to_cluster{}", labels("success")),
                format!("update_resource_to_cluster{}", labels("success")),
                format!("delete_resource_from_cluster{}", labels("success")),
            ]
        );
    }

    #[test]
    fn kinds_without_end_are_not_counted_without_end() {
        let counts = WriteCounts::default();
        (0..10_000).for_each(|at| counts.note(Write::Create, Gvk::new("v1", &format!("Kind{at}")), true));
        counts.note(Write::Create, Gvk::new("v1", "Kind0"), true);
        assert_eq!(counts.0.lock().len(), LINES);
        assert!(counts.0.lock().values().any(|count| *count == 2), "what is known counts on");
    }
}
