//! A site's member: the one in memory, slow or failing where the script says so, and a witness of all that the agent does to it.
//!
//! In: the agent's calls. Out: the member's answers; what was deleted, and of which Work it was.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::pending;
use futures::stream::BoxStream;
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Probe, Unserved, Watch};
use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
use karmada_api::strings::annotations;
use parking_lot::Mutex;
use serde_json::Value;

use crate::crash::Fuse;
use crate::log::Log;

/// An object that the agent deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    pub id: ObjectId,
    /// The Work that its marks name.
    pub work: String,
    pub uid: String,
}

#[derive(Default)]
struct State {
    deletions: Vec<Deletion>,
    slowness: Duration,
    /// The agent ends at this call from now on: before it reaches the member, or before its answer is heard.
    ends_at: Option<(u64, bool)>,
    calls: u64,
}

/// What the script and the witness share of one member.
#[derive(Clone)]
pub struct Site {
    pub memory: MemoryMember,
    name: String,
    state: Arc<Mutex<State>>,
    log: Log,
    shows_writes: bool,
}

impl Site {
    pub fn new(name: &str, log: Log) -> Self {
        let memory = MemoryMember::new(name, 1, Duration::from_millis(300));
        let shows_writes = std::env::var_os("SIMULATION_TRACE").is_some();
        Self { memory, name: name.to_owned(), state: Arc::default(), log, shows_writes }
    }

    /// The member as one life of the agent sees it.
    pub fn seen_by(&self, fuse: Fuse) -> Arc<dyn Member> {
        Arc::new(Witness { site: self.clone(), fuse })
    }

    pub fn set_slowness(&self, slowness: Duration) {
        self.state.lock().slowness = slowness;
    }

    /// The agent ends at its `call`th write to the member from now on.
    pub fn ends_at(&self, call: u64, is_done: bool) {
        self.state.lock().ends_at = Some((call, is_done));
    }

    pub fn forget_faults(&self) {
        let mut state = self.state.lock();
        (state.slowness, state.ends_at) = (Duration::ZERO, None);
        drop(state);
        self.memory.set_away(false);
        self.memory.carry_out_late(None);
        self.memory.answer_late(Duration::ZERO);
        self.memory.list_late(Duration::ZERO);
    }

    pub fn take_deletions(&self) -> Vec<Deletion> {
        std::mem::take(&mut self.state.lock().deletions)
    }

    /// Calls that write, or would.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }
}

struct Witness {
    site: Site,
    fuse: Fuse,
}

impl Witness {
    /// A write begins. Whether the agent ends before its answer.
    async fn write(&self, verb: &str, id: &ObjectId) -> bool {
        if self.site.shows_writes {
            self.site.log.line(format_args!("{} writes: {verb} {id}", self.site.name));
        }
        let (ends, slowness) = {
            let mut state = self.site.state.lock();
            state.calls += 1;
            let ends = state.ends_at.as_mut().and_then(|(left, is_done)| {
                *left = left.saturating_sub(1);
                (*left == 0).then_some(*is_done)
            });
            if ends.is_some() {
                state.ends_at = None;
            }
            (ends, state.slowness)
        };
        if !slowness.is_zero() {
            tokio::time::sleep(slowness).await;
        }
        if ends == Some(false) {
            self.fuse.blow("before the member has a write");
            pending::<()>().await;
        }
        ends == Some(true)
    }

    async fn answer<T>(&self, ends: bool, answer: Result<T, MemberError>) -> Result<T, MemberError> {
        if ends {
            self.fuse.blow("before it hears of a write to the member");
            pending::<()>().await;
        }
        answer
    }
}

#[async_trait]
impl Member for Witness {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        self.site.memory.get(id).await
    }

    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        let ends = self.write("apply", &ObjectId::of(object)).await;
        let answer = self.site.memory.apply(object).await;
        self.answer(ends, answer).await
    }

    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        let ends = self.write("create", &ObjectId::of(object)).await;
        let answer = self.site.memory.create(object).await;
        self.answer(ends, answer).await
    }

    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        let ends = self.write("update", &ObjectId::of(object)).await;
        let answer = self.site.memory.update(object).await;
        self.answer(ends, answer).await
    }

    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        let ends = self.write("merge", id).await;
        let answer = self.site.memory.merge(id, patch).await;
        self.answer(ends, answer).await
    }

    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        let ends = self.write("delete", id).await;
        let before = self.site.memory.read(id);
        let answer = self.site.memory.delete(id, uid).await;
        if let (Some(before), Ok(())) = (before, &answer) {
            let work = object::annotation(&before, annotations::WORK_NAME).unwrap_or_default().to_owned();
            self.site.log.line(format_args!("{} deletes {id} of {work}", self.site.name));
            let deletion = Deletion { id: id.clone(), work, uid: uid.to_owned() };
            self.site.state.lock().deletions.push(deletion);
        }
        self.answer(ends, answer).await
    }

    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
        self.site.memory.watch(watch)
    }

    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        self.site.memory.resource(gvk).await
    }

    async fn unserved(&self, gvk: &Gvk) -> Result<Unserved, MemberError> {
        self.site.memory.unserved(gvk).await
    }

    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        self.site.memory.api_enablements().await
    }

    async fn version(&self) -> Result<String, MemberError> {
        self.site.memory.version().await
    }

    async fn probe(&self) -> Probe {
        self.site.memory.probe().await
    }

    fn breaks(&self) -> u64 {
        self.site.memory.breaks()
    }
}
