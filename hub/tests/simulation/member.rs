//! A site's member: the one in memory, slow or failing where the script says so, and a witness of all that the agent does to it.
//!
//! In: the agent's calls. Out: the member's answers; what was deleted, and of which Work it was.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::pending;
use futures::stream::BoxStream;
use karmada_agent::LinkView;
use karmada_agent::cause::Cause;
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Probe, Unserved, Watch};
use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
use karmada_api::strings::annotations;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::crash::Fuse;
use crate::log::Log;

/// What an agent has begun at a member is over after this, however slow that is.
const UNDER_WAY: Duration = Duration::from_secs(300);

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
    /// Names of objects over which an agent that writes them ends, each time.
    poison: BTreeSet<String>,
    calls: u64,
    wrong: Vec<String>,
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

    /// The member as one life of the agent sees it, which `rests` while the hub has another agent of its identity.
    pub fn seen_by(&self, fuse: Fuse, rests: Rests) -> Arc<dyn Member> {
        Arc::new(Witness { site: self.clone(), fuse, rests })
    }

    /// What an agent did that it must not, since this was asked.
    pub fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().wrong)
    }

    pub fn set_slowness(&self, slowness: Duration) {
        self.state.lock().slowness = slowness;
    }

    /// An agent that writes objects of this name ends over it.
    pub fn poisons(&self, name: &str) {
        self.state.lock().poison.insert(name.to_owned());
    }

    /// The agent ends at its `call`th call of the member from now on.
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

/// Since when an agent knows that the hub has another one of its identity. Clones are the same.
#[derive(Clone, Default)]
pub struct Rests(Arc<Mutex<Option<Instant>>>);

impl Rests {
    /// Follows what one life of an agent hears of the hub.
    pub async fn follows<T>(self, mut link: watch::Receiver<LinkView>) -> T {
        loop {
            match &*link.borrow_and_update() {
                LinkView::Away { cause: Cause::Clone, .. } => {
                    self.0.lock().get_or_insert_with(Instant::now);
                }
                LinkView::Connected { .. } => *self.0.lock() = None,
                _ => {}
            }
            if link.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    /// What was under way has come to its end.
    fn is_long(&self) -> bool {
        self.0.lock().is_some_and(|since| since.elapsed() > UNDER_WAY)
    }
}

struct Witness {
    site: Site,
    fuse: Fuse,
    rests: Rests,
}

impl Witness {
    /// A write begins. Whether the agent ends before its answer.
    async fn write(&self, verb: &str, id: &ObjectId) -> bool {
        if self.site.shows_writes {
            self.site.log.line(format_args!("{} writes: {verb} {id}", self.site.name));
        }
        let is_poison = {
            let mut state = self.site.state.lock();
            state.calls += 1;
            if self.rests.is_long() {
                state.wrong.push(format!("{} is written to by the second of two agents", self.site.name));
            }
            state.poison.contains(&id.name)
        };
        self.call(is_poison).await
    }

    /// A call begins. Whether the agent ends before its answer.
    async fn call(&self, is_poison: bool) -> bool {
        self.fuse.holds().await;
        let (mut ends, slowness) = {
            let mut state = self.site.state.lock();
            let ends = state.ends_at.as_mut().and_then(|(left, is_done)| {
                *left = left.saturating_sub(1);
                (*left == 0).then_some(*is_done)
            });
            if ends.is_some() {
                state.ends_at = None;
            }
            (ends, state.slowness)
        };
        if is_poison {
            ends = Some(false);
        }
        if !slowness.is_zero() {
            tokio::time::sleep(slowness).await;
            self.fuse.holds().await;
        }
        if ends == Some(false) {
            self.fuse.blow(if is_poison { "over poison" } else { "before the member is asked" });
            pending::<()>().await;
        }
        ends == Some(true)
    }

    async fn answer<T>(&self, ends: bool, answer: Result<T, MemberError>) -> Result<T, MemberError> {
        if ends {
            self.fuse.blow("before it hears the member's answer");
            pending::<()>().await;
        }
        self.fuse.holds().await;
        answer
    }
}

#[async_trait]
impl Member for Witness {
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        let ends = self.call(false).await;
        let answer = self.site.memory.get(id).await;
        self.answer(ends, answer).await
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
