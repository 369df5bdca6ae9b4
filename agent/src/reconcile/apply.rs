//! One Work, applied to the member or removed from it. Thin: reads, asks [`super::body`], writes.

use std::fmt;
use std::time::Duration;

use karmada_api::object;
use karmada_interpreter::{InterpretError, Interpreter, retention};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

use super::body::ClusterNames;
use super::own::Own;
use super::{body, order};
use crate::member::{Gvk, Member, MemberError, ObjectId, Unserved};

/// The longest pause that a member is granted.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why a manifest is not applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Somebody else made the object.
    #[error(
        "{0} already exists in the member and will not be managed: set conflictResolution Overwrite in the policy to take it over"
    )]
    Unmanaged(ObjectId),
    /// The object must be gone before it can be made again.
    #[error("{0} is being deleted in the member and is made again once it is gone")]
    Terminating(ObjectId),
    /// The member refused or did not answer.
    #[error("{}", in_words(.0))]
    Member(#[from] MemberError),
    /// There may be objects that cannot be seen now.
    #[error(
        "the member does not serve {0} now and may hold objects of it: they are removed once it serves them, or once their definition is \
         gone there"
    )]
    Hidden(Gvk),
    /// The object is not what its kind promises.
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    /// It crashed the agent before.
    #[error(
        "left alone: the agent ended {crashes} times while it worked on this Work and no other. It is tried again when it changes, \
         or after: karmadactl release {key} --cluster {cluster}"
    )]
    Quarantined {
        /// How often.
        crashes: u32,
        /// The Work.
        key: String,
        /// Where.
        cluster: String,
    },
    /// Working on it panicked.
    #[error("working on it made the agent panic, which is a fault of the agent's: it is tried once more")]
    Panicked,
    /// It is what the agent itself lives by.
    #[error(
        "{0} belongs to the agent that keeps this member, and no Work may change or remove it: karmadactl register and unregister do"
    )]
    Own(ObjectId),
    /// What the hub sent is no list of manifests.
    #[error("the Work's body cannot be read: {0}")]
    Malformed(String),
}

/// A rule that is missing is named by the member; how to grant it, by us. (Quotas and webhooks forbid too, and are no rules.)
fn in_words(error: &MemberError) -> String {
    match error {
        MemberError::Forbidden(words) if words.contains(" cannot ") && words.contains(" in API group ") => {
            format!(
                "{words}: grant the agent this, or run karmadactl register again with wider --permissions"
            )
        }
        error => error.to_string(),
    }
}

impl Failure {
    /// Whether the member asked for less.
    pub fn is_throttling(&self) -> bool {
        matches!(
            self,
            Self::Member(
                MemberError::Throttled(_)
                    | MemberError::Overloaded(..)
                    | MemberError::Unreachable(_)
                    | MemberError::Unanswered(_)
            )
        )
    }

    /// Whether what was asked for may have been carried out all the same, or may be yet.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Member(error) => error.leaves_open(),
            Self::Panicked => true,
            _ => false,
        }
    }

    /// The pause that the member asked for, where it did: never more than some minutes, whatever it says.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Member(MemberError::Throttled(pause) | MemberError::Overloaded(_, pause)) => {
                Some((*pause).min(LONGEST_PAUSE))
            }
            _ => None,
        }
    }

    /// Whether a rule is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Member(MemberError::Forbidden(_)))
    }
}

/// What every call needs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The member.
    pub member: &'a dyn Member,
    /// How to read objects.
    pub interpreter: &'a dyn Interpreter,
    /// The cluster's names.
    pub cluster: &'a ClusterNames,
    /// Of each manifest, the mark of the agent's last write of its object, as far as it is known: an object that bears it is the agent's,
    /// though somebody took its marks off.
    pub written: &'a [u64],
    /// Objects that Works name now, by their manifests, with the Work: as far as the Work at hand names them, or lets go of them.
    pub named: &'a [(ObjectId, String)],
    /// What no Work may name.
    pub own: &'a Own,
}

impl<'a> Context<'a> {
    /// The Work that the object `there` goes over to where Work `key` lets go of it: that one itself where it names it otherwise.
    fn heir(&self, key: &str, there: &ObjectId) -> Option<&'a str> {
        let heirs = || self.named.iter().filter(|(named, _)| named.means(there)).map(|(_, of)| of.as_str());
        heirs().find(|of| *of == key).or_else(|| heirs().next())
    }

    /// Whether another Work that names `observed` has it: it was applied later than this one.
    fn is_anothers(&self, key: &str, observed: &Value) -> bool {
        let there = ObjectId::of(observed);
        let marked = body::marked(observed, self.cluster).filter(|marked| *marked != key);
        marked.is_some_and(|marked| self.named.iter().any(|(named, of)| of == marked && named.means(&there)))
    }
}

/// The most manifests of a Work. Those that the hub makes have one; and of objects that say anything, more are not found in a body that
/// the hub's API takes. What is kept of each while it is worked on is many times what `{}` takes in a body.
const MANIFESTS: usize = 5000;

/// The manifests in a body.
pub fn manifests(body: &[u8]) -> Result<Vec<Value>, Failure> {
    #[derive(Deserialize)]
    struct Body {
        manifests: Bounded,
    }
    let body: Body = serde_json::from_slice(body).map_err(|error| Failure::Malformed(error.to_string()))?;
    Ok(body.manifests.0)
}

/// Manifests, of which no more are read than [`MANIFESTS`].
struct Bounded(Vec<Value>);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Bounded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of manifests")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bounded, A::Error> {
                let mut manifests = Vec::new();
                while let Some(manifest) = list.next_element()? {
                    if manifests.len() == MANIFESTS {
                        return Err(A::Error::custom(format_args!(
                            "it has more than {MANIFESTS} manifests, which is the most that an agent takes of one Work"
                        )));
                    }
                    manifests.push(manifest);
                }
                Ok(Bounded(manifests))
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}

/// Positions of `manifests` in dependency order.
fn in_order(manifests: &[Value]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..manifests.len()).collect();
    positions.sort_by_key(|at| order::class(&Gvk::of(&manifests[*at])));
    positions
}

/// What the ledger knows of a Work's earlier applications: it decides which request comes first, never the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<'a> {
    /// Nothing of it was ever placed: its objects are probably not there.
    Nowhere,
    /// Another body of it was.
    Older,
    /// This body was: what the member already has is left alone, where it bears these marks of our last write.
    Applied(&'a [u64]),
}

/// Applies each manifest; one that fails does not keep the others back. The objects as they are after, in the
/// manifests' order.
pub async fn work(
    context: Context<'_>,
    key: &str,
    manifests: &[Value],
    known: Known<'_>,
) -> Vec<Result<Value, Failure>> {
    let mut results: Vec<Result<Value, Failure>> =
        manifests.iter().map(|m| Err(Failure::Terminating(ObjectId::of(m)))).collect();
    for at in in_order(manifests) {
        let desired = body::stamped(&manifests[at], &context.cluster.now, key);
        results[at] = manifest(context, key, &desired, at, known).await;
    }
    results
}

/// A new object is created, not applied: for the member that is one request instead of two, and the cheaper one. Its
/// fields become applied ones at the first change.
async fn manifest(
    context: Context<'_>,
    key: &str,
    desired: &Value,
    at: usize,
    known: Known<'_>,
) -> Result<Value, Failure> {
    let id = ObjectId::of(desired);
    if context.own.has(&id) {
        return Err(Failure::Own(id));
    }
    if known == Known::Nowhere {
        match context.member.create(desired).await {
            Err(MemberError::Conflict(_)) => {}
            created => return Ok(created?),
        }
    }
    let Some(mut observed) = context.member.get(&id).await? else {
        return Ok(context.member.create(desired).await?);
    };
    let may = retention::allow_update(desired, &observed)
        || body::belongs(&observed, context.cluster, key, context.written.get(at).copied())
        || body::was_kept(desired, &observed);
    if !may {
        return Err(Failure::Unmanaged(id));
    }
    if object::deleting(&observed) {
        return Err(Failure::Terminating(id));
    }
    if matches!(known, Known::Applied(_)) && context.is_anothers(key, &observed) {
        return Ok(observed);
    }
    let mut body = body::over(desired, &observed, context.interpreter)?;
    if let Known::Applied(written) = known
        && is_as_written(&observed, written.get(at))
        && body::covers(&observed, &body)
    {
        return Ok(observed);
    }
    if let Some(adoption) = body::adoption(&observed) {
        observed = context.member.merge(&id, &adoption).await?;
    }
    // An apply makes what is not there; one that names what it is about does not, however late it is carried out.
    object::metadata(&mut body).insert("uid".into(), object::uid(&observed).into());
    match context.member.apply(&body).await {
        Err(MemberError::NotMergeable(_)) => {
            let next = body::for_update(desired, &observed, context.interpreter)?;
            Ok(context.member.update(&next).await?)
        }
        applied => Ok(applied?),
    }
}

/// Whether the agent's last write of `observed` is the one that was noted. What is not known is taken to be.
fn is_as_written(observed: &Value, noted: Option<&u64>) -> bool {
    noted.is_none_or(|noted| *noted == body::written(observed))
}

/// Whether `observed` holds all that `manifest` of Work `key` asks for, and was written by the agent for it and for nothing else;
/// `written` is the mark of that write.
pub fn in_sync(
    interpreter: &dyn Interpreter,
    cluster: &str,
    key: &str,
    manifest: &Value,
    written: Option<&u64>,
    observed: &Value,
) -> bool {
    let desired = body::stamped(manifest, cluster, key);
    match body::over(&desired, observed, interpreter) {
        Ok(body) => is_as_written(observed, written) && body::covers(observed, &body),
        Err(_) => true,
    }
}

/// What a removal came to.
#[derive(Debug, Default, PartialEq)]
pub struct Removal {
    /// Nothing of the Work is left to wait for.
    pub done: bool,
    /// UIDs of the objects that were deleted, or stripped of our marks.
    pub uids: Vec<String>,
    /// Why something could not be removed; the rest was all the same.
    pub failure: Option<Failure>,
}

/// Objects of a Work that are to go, each with the mark of the agent's last write of it, where that is known.
pub type Leaving = Vec<(ObjectId, Option<u64>)>;

/// The objects of these manifests, in the order to remove them: what needs others before those.
pub fn leaving(manifests: &[Value], written: &[u64]) -> Leaving {
    let last_first = in_order(manifests).into_iter().rev();
    last_first.map(|at| (ObjectId::of(&manifests[at]), written.get(at).copied())).collect()
}

/// Removes `objects` of Work `key`; `preserve`: takes only our marks off. What is not this Work's is not touched, what another one names
/// goes over to that, and one object that cannot be removed does not keep the others. An object with one of `uids` was just applied, and may
/// be served under several groups.
pub async fn removal(
    context: Context<'_>,
    key: &str,
    objects: &Leaving,
    preserve: bool,
    uids: &[String],
) -> Removal {
    let mut all = Removal { done: true, ..Removal::default() };
    for (id, written) in objects {
        match remove(context, key, (id, *written), preserve, uids).await {
            Ok((gone, uid)) => {
                all.done &= gone;
                all.uids.extend(uid);
            }
            Err(failure) => {
                all.done = false;
                all.failure.get_or_insert(failure);
            }
        }
    }
    all
}

/// Whether the object is gone, and its uid where it was this Work's.
async fn remove(
    context: Context<'_>,
    key: &str,
    (id, written): (&ObjectId, Option<u64>),
    preserve: bool,
    uids: &[String],
) -> Result<(bool, Option<String>), Failure> {
    if context.own.has(id) {
        return Ok((true, None));
    }
    let Some((id, observed)) = find(context.member, id).await? else { return Ok((true, None)) };
    if !body::belongs(&observed, context.cluster, key, written) {
        return Ok((true, None));
    }
    let uid = object::uid(&observed).to_owned();
    if uids.contains(&uid) {
        return Ok((true, None));
    }
    if let Some(heir) = context.heir(key, &ObjectId::of(&observed)) {
        if body::marked(&observed, context.cluster) != Some(heir) {
            context.member.merge(&id, &body::hand_over_patch(context.cluster, heir)).await?;
        }
        return Ok((true, None));
    }
    if preserve {
        context.member.merge(&id, &body::strip_patch(&observed)).await?;
        return Ok((true, Some(uid)));
    }
    if !object::deleting(&observed) {
        context.member.delete(&id, &uid).await?;
    }
    let left = find(context.member, &id).await?;
    Ok((left.is_none_or(|(_, left)| object::uid(&left) != uid), Some(uid)))
}

/// The object, by the version of its kind that it is served as. Only a kind that is known to be defined nowhere has no objects.
async fn find(member: &dyn Member, id: &ObjectId) -> Result<Option<(ObjectId, Value)>, Failure> {
    let (id, found) = match member.get(id).await {
        Err(MemberError::NoObject(_)) => return Ok(None),
        Err(MemberError::NoKind(gvk)) => match member.unserved(&gvk).await? {
            Unserved::Undefined => return Ok(None),
            Unserved::Hidden => return Err(Failure::Hidden(gvk)),
            Unserved::As(gvk) => {
                let id = ObjectId { gvk, ..id.clone() };
                let found = member.get(&id).await?;
                (id, found)
            }
        },
        found => (id.clone(), found?),
    };
    Ok(found.map(|object| (id, object)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    #[test]
    fn a_work_of_too_many_manifests_is_refused_in_words() {
        let of = |count| manifests(json!({"manifests": vec![json!({}); count]}).to_string().as_bytes());
        assert_eq!(of(MANIFESTS).unwrap().len(), MANIFESTS);
        let refusal = of(300_000).unwrap_err().to_string();
        assert!(refusal.contains("more than 5000 manifests") && refusal.len() < 300, "{refusal}");
    }

    use crate::member::memory::MemoryMember;
    use karmada_interpreter::Native;
    use serde_json::json;

    fn config(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": value}})
    }

    fn member() -> MemoryMember {
        MemoryMember::new("m", 1, Duration::ZERO)
    }

    static NONE: LazyLock<Own> = LazyLock::new(Own::default);
    static NAMES: LazyLock<ClusterNames> = LazyLock::new(|| "m".into());

    fn context(member: &MemoryMember) -> Context<'_> {
        Context { member, interpreter: &Native, cluster: &NAMES, written: &[], named: &[], own: &NONE }
    }

    fn all(manifest: &Value) -> Leaving {
        leaving(std::slice::from_ref(manifest), &[])
    }

    fn value(member: &MemoryMember, name: &str) -> Option<String> {
        let object = member.read(&ObjectId::of(&config(name, "")))?;
        object.pointer("/data/k").and_then(Value::as_str).map(str::to_owned)
    }

    #[tokio::test]
    async fn a_foreign_object_is_left_alone_unless_the_manifest_takes_it_over() {
        let member = member();
        member.seed(config("a", "theirs"));
        let mine = config("a", "mine");
        let result = work(context(&member), "w", std::slice::from_ref(&mine), Known::Older).await;
        let error = result[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("already exists") && error.contains("will not be managed"), "{error}");
        assert_eq!(value(&member, "a").as_deref(), Some("theirs"));
        let mut taking = mine;
        object::set_annotation(&mut taking, "work.karmada.io/conflict-resolution", "overwrite");
        assert!(work(context(&member), "w", &[taking], Known::Older).await[0].is_ok());
        assert_eq!(value(&member, "a").as_deref(), Some("mine"));
    }

    #[tokio::test]
    async fn verifying_writes_only_what_drifted() {
        let member = member();
        let manifests = [config("a", "1"), config("b", "1")];
        work(context(&member), "w", &manifests, Known::Older).await;
        let writes = member.writes();
        work(context(&member), "w", &manifests, Known::Applied(&[])).await;
        assert_eq!(member.writes(), writes);
        member.edit(&ObjectId::of(&manifests[0]), |o| *o.pointer_mut("/data/k").unwrap() = json!("edited"));
        member.remove(&ObjectId::of(&manifests[1]));
        work(context(&member), "w", &manifests, Known::Applied(&[])).await;
        assert_eq!((value(&member, "a"), value(&member, "b")), (Some("1".into()), Some("1".into())));
    }

    #[tokio::test]
    async fn one_manifest_that_fails_does_not_keep_the_others_back() {
        let member = member();
        member.fail("a", Some(MemberError::Invalid("no".into())));
        let results = work(context(&member), "w", &[config("a", "1"), config("b", "1")], Known::Older).await;
        assert!(results[0].is_err() && results[1].is_ok());
    }

    #[tokio::test]
    async fn what_cannot_be_merged_is_created_and_updated() {
        struct Strict(MemoryMember);
        #[async_trait::async_trait]
        impl Member for Strict {
            async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
                self.0.get(id).await
            }
            async fn apply(&self, _: &Value) -> Result<Value, MemberError> {
                Err(MemberError::NotMergeable("duplicate entries for key".into()))
            }
            async fn create(&self, object: &Value) -> Result<Value, MemberError> {
                self.0.create(object).await
            }
            async fn update(&self, object: &Value) -> Result<Value, MemberError> {
                self.0.update(object).await
            }
            async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
                self.0.merge(id, patch).await
            }
            async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
                self.0.delete(id, uid).await
            }
            fn watch(
                &self,
                watch: crate::member::Watch,
            ) -> futures::stream::BoxStream<'static, Result<crate::member::MemberEvent, MemberError>>
            {
                self.0.watch(watch)
            }
            async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
                self.0.resource(gvk).await
            }
            async fn api_enablements(
                &self,
            ) -> Result<(Vec<karmada_api::cluster::ApiEnablement>, bool), MemberError> {
                self.0.api_enablements().await
            }
            async fn version(&self) -> Result<String, MemberError> {
                self.0.version().await
            }
            async fn probe(&self) -> crate::member::Probe {
                self.0.probe().await
            }
            fn breaks(&self) -> u64 {
                self.0.breaks()
            }
        }
        let strict = Strict(member());
        let context = Context {
            member: &strict,
            interpreter: &Native,
            cluster: &NAMES,
            written: &[],
            named: &[],
            own: &NONE,
        };
        assert!(work(context, "w", &[config("a", "1")], Known::Older).await[0].is_ok());
        assert!(work(context, "w", &[config("a", "2")], Known::Older).await[0].is_ok());
        assert_eq!(value(&strict.0, "a").as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn only_this_works_objects_are_removed_or_stripped() {
        let member = member();
        let (a, b) = (config("a", "1"), config("b", "1"));
        work(context(&member), "w", &[a.clone(), b.clone()], Known::Older).await;
        let done = |uids: Vec<String>| Removal { done: true, uids, failure: None };
        let uid = |config: &Value| object::uid(&member.read(&ObjectId::of(config)).unwrap()).to_owned();
        let (of_a, of_b) = (uid(&a), uid(&b));
        assert_eq!(removal(context(&member), "other", &all(&a), false, &[]).await, done(vec![]));
        assert!(value(&member, "a").is_some(), "another Work's");
        assert_eq!(removal(context(&member), "w", &all(&a), false, &[]).await, done(vec![of_a]));
        assert!(value(&member, "a").is_none());
        assert_eq!(removal(context(&member), "w", &all(&b), true, &[]).await, done(vec![of_b]));
        let kept = member.read(&ObjectId::of(&b)).unwrap();
        assert!(!body::is_ours(&kept, "m", "w") && object::labels(&kept).is_empty());
        let absent = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
        assert_eq!(removal(context(&member), "w", &all(&absent), false, &[]).await, done(vec![]));
    }

    fn thing(version: &str) -> Value {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}})
    }

    /// A member that serves Things in these versions.
    async fn of_things(versions: &[&str]) -> MemoryMember {
        let member = member();
        let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name})).collect();
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": versions}});
        member.apply(&definition).await.unwrap();
        member
    }

    #[tokio::test]
    async fn a_kind_that_is_not_served_for_now_is_no_evidence_of_a_removal() {
        let (member, manifests) = (of_things(&["v1"]).await, [thing("v1")]);
        work(context(&member), "w", &manifests, Known::Older).await.remove(0).unwrap();
        member.set_served(&Gvk::of(&manifests[0]), false);
        for preserve in [false, true] {
            let waits = removal(context(&member), "w", &leaving(&manifests, &[]), preserve, &[]).await;
            assert!(!waits.done && matches!(waits.failure, Some(Failure::Hidden(_))), "{waits:?}");
        }
        member.set_served(&Gvk::of(&manifests[0]), true);
        let removed = removal(context(&member), "w", &leaving(&manifests, &[]), false, &[]).await;
        assert!(removed.done && removed.uids.len() == 1, "{removed:?}");
    }

    #[tokio::test]
    async fn an_object_of_a_version_that_is_not_served_any_more_is_removed_as_another() {
        let member = of_things(&["v2"]).await;
        work(context(&member), "w", &[thing("v2")], Known::Older).await.remove(0).unwrap();
        let removed = removal(context(&member), "w", &leaving(&[thing("v1")], &[]), false, &[]).await;
        assert!(removed.done && removed.uids.len() == 1, "{removed:?}");
        assert!(member.read(&ObjectId::of(&thing("v2"))).is_none());
    }

    #[tokio::test]
    async fn one_object_that_cannot_be_removed_does_not_keep_the_others() {
        let member = member();
        let manifests = [config("a", "1"), config("b", "1"), config("c", "1")];
        work(context(&member), "w", &manifests, Known::Older).await;
        member.fail("b", Some(MemberError::Forbidden("a webhook says no".into())));
        let removal = removal(context(&member), "w", &leaving(&manifests, &[]), false, &[]).await;
        assert!(!removal.done && removal.uids.len() == 2, "{removal:?}");
        assert_eq!(
            removal.failure,
            Some(Failure::Member(MemberError::Forbidden("a webhook says no".into())))
        );
        assert_eq!(member.ids().iter().filter(|id| id.gvk.kind == "ConfigMap").count(), 1);
    }

    /// One object may be served under several groups, which no name tells.
    #[tokio::test]
    async fn what_was_just_applied_is_not_removed_under_another_name() {
        let (member, a) = (member(), config("a", "1"));
        let applied = work(context(&member), "w", std::slice::from_ref(&a), Known::Older).await;
        let uids = [object::uid(applied[0].as_ref().unwrap()).to_owned()];
        let removed = removal(context(&member), "w", &all(&a), false, &uids).await;
        assert_eq!(removed, Removal { done: true, ..Removal::default() });
        assert!(value(&member, "a").is_some());
    }
}
