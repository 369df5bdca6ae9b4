//! One Work, applied to the member. Thin: reads, asks [`super::member_body`], writes.
//!
//! In: a Work's manifests, and what the ledger knows of it. Out: for each manifest the object as the member has it after, or a [`Failure`].
//! Waits for the member.

use karmada_api::object;
use karmada_interpreter::{InterpretError, Interpreter, conflict_resolution};
use serde_json::Value;

use super::agent_objects::Own;
use super::failure::Failure;
use super::manifests::in_order;
use super::member_body::{self, ClusterNames};
use crate::member::{Member, MemberError, ObjectId};

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
    pub(super) fn next_owner(&self, key: &str, there: &ObjectId) -> Option<&'a str> {
        let heirs = || self.named.iter().filter(|(named, _)| named.means(there)).map(|(_, of)| of.as_str());
        heirs().find(|of| *of == key).or_else(|| heirs().next())
    }

    /// Whether another Work that names `observed` has it: it was applied later than this one.
    fn is_anothers(&self, key: &str, observed: &Value) -> bool {
        let there = ObjectId::of(observed);
        let marked = member_body::owning_work(observed, self.cluster).filter(|marked| *marked != key);
        marked.is_some_and(|marked| self.named.iter().any(|(named, of)| of == marked && named.means(&there)))
    }
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
pub async fn apply_work(
    context: Context<'_>,
    key: &str,
    manifests: &[Value],
    known: Known<'_>,
) -> Vec<Result<Value, Failure>> {
    let mut results: Vec<Result<Value, Failure>> =
        manifests.iter().map(|m| Err(Failure::Terminating(ObjectId::of(m)))).collect();
    for at in in_order(manifests) {
        let desired = member_body::stamped(&manifests[at], &context.cluster.now, key);
        results[at] = apply_manifest(context, key, &desired, at, known).await;
    }
    results
}

/// A new object is created, not applied: for the member that is one request instead of two, and the cheaper one. Its
/// fields become applied ones at the first change.
async fn apply_manifest(
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
    let may = conflict_resolution::allow_update(desired, &observed)
        || member_body::belongs(&observed, context.cluster, key, context.written.get(at).copied())
        || member_body::was_kept(desired, &observed);
    if !may {
        return Err(Failure::Unmanaged(id));
    }
    if object::deleting(&observed) {
        return Err(Failure::Terminating(id));
    }
    if matches!(known, Known::Applied(_)) && context.is_anothers(key, &observed) {
        return Ok(observed);
    }
    let mut body = member_body::over(desired, &observed, context.interpreter)?;
    if let Known::Applied(written) = known
        && is_as_written(&observed, written.get(at))
        && member_body::covers(&observed, &body)
    {
        return Ok(observed);
    }
    if let Some(adoption) = member_body::adoption(&observed) {
        observed = context.member.merge(&id, &adoption).await?;
    }
    // An apply makes what is not there; one that names what it is about does not, however late it is carried out.
    object::metadata(&mut body).insert("uid".into(), object::uid(&observed).into());
    match context.member.apply(&body).await {
        Err(MemberError::NotMergeable(_)) => {
            let next = member_body::for_update(desired, &observed, context.interpreter)?;
            Ok(context.member.update(&next).await?)
        }
        applied => Ok(applied?),
    }
}

/// Whether the agent's last write of `observed` is the one that was noted. What is not known is taken to be.
fn is_as_written(observed: &Value, noted: Option<&u64>) -> bool {
    noted.is_none_or(|noted| *noted == member_body::last_write_digest(observed))
}

/// Whether an object of the member is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InSync {
    /// It is, or it cannot be told: what cannot be compared is not written in a loop.
    Yes,
    /// It is not.
    No,
    /// Somebody has to be asked first, which who applies the Work does.
    Unknown,
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
) -> InSync {
    let desired = member_body::stamped(manifest, cluster, key);
    match member_body::over(&desired, observed, interpreter) {
        Ok(body) if is_as_written(observed, written) && member_body::covers(observed, &body) => InSync::Yes,
        Ok(_) => InSync::No,
        Err(InterpretError::Unanswered(_)) => InSync::Unknown,
        Err(_) => InSync::Yes,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::time::Duration;

    use crate::member::Gvk;
    use crate::member::memory::MemoryMember;
    use karmada_interpreter::Native;
    use serde_json::json;

    pub(in crate::reconcile) fn config(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": value}})
    }

    pub(in crate::reconcile) fn member() -> MemoryMember {
        MemoryMember::new("m", 1, Duration::ZERO)
    }

    static NONE: LazyLock<Own> = LazyLock::new(Own::default);
    static NAMES: LazyLock<ClusterNames> = LazyLock::new(|| "m".into());

    pub(in crate::reconcile) fn context(member: &MemoryMember) -> Context<'_> {
        Context { member, interpreter: &Native, cluster: &NAMES, written: &[], named: &[], own: &NONE }
    }

    pub(in crate::reconcile) fn value(member: &MemoryMember, name: &str) -> Option<String> {
        let object = member.read(&ObjectId::of(&config(name, "")))?;
        object.pointer("/data/k").and_then(Value::as_str).map(str::to_owned)
    }

    #[tokio::test]
    async fn a_foreign_object_is_left_alone_unless_the_manifest_takes_it_over() {
        let member = member();
        member.seed(config("a", "theirs"));
        let mine = config("a", "mine");
        let result = apply_work(context(&member), "w", std::slice::from_ref(&mine), Known::Older).await;
        let error = result[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("already exists") && error.contains("will not be managed"), "{error}");
        assert_eq!(value(&member, "a").as_deref(), Some("theirs"));
        let mut taking = mine;
        object::set_annotation(&mut taking, "work.karmada.io/conflict-resolution", "overwrite");
        assert!(apply_work(context(&member), "w", &[taking], Known::Older).await[0].is_ok());
        assert_eq!(value(&member, "a").as_deref(), Some("mine"));
    }

    #[tokio::test]
    async fn verifying_writes_only_what_drifted() {
        let member = member();
        let manifests = [config("a", "1"), config("b", "1")];
        apply_work(context(&member), "w", &manifests, Known::Older).await;
        let writes = member.writes();
        apply_work(context(&member), "w", &manifests, Known::Applied(&[])).await;
        assert_eq!(member.writes(), writes);
        member.edit(&ObjectId::of(&manifests[0]), |o| *o.pointer_mut("/data/k").unwrap() = json!("edited"));
        member.remove(&ObjectId::of(&manifests[1]));
        apply_work(context(&member), "w", &manifests, Known::Applied(&[])).await;
        assert_eq!((value(&member, "a"), value(&member, "b")), (Some("1".into()), Some("1".into())));
    }

    #[tokio::test]
    async fn one_manifest_that_fails_does_not_keep_the_others_back() {
        let member = member();
        member.fail("a", Some(MemberError::Invalid("no".into())));
        let results =
            apply_work(context(&member), "w", &[config("a", "1"), config("b", "1")], Known::Older).await;
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
        assert!(apply_work(context, "w", &[config("a", "1")], Known::Older).await[0].is_ok());
        assert!(apply_work(context, "w", &[config("a", "2")], Known::Older).await[0].is_ok());
        assert_eq!(value(&strict.0, "a").as_deref(), Some("2"));
    }
}
