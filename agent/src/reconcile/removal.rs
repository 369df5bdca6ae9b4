//! Objects of a Work taken away from the member, or left there without our marks. Thin: reads, decides by marks and uids, writes.
//!
//! In: the objects that are to go. Out: whether they are gone, with the uids of those that were the Work's.

use karmada_api::object;
use serde_json::Value;

use super::apply::Context;
use super::failure::Failure;
use super::manifests::in_order;
use super::member_body;
use crate::member::{Member, MemberError, ObjectId, Unserved};

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
    if !member_body::belongs(&observed, context.cluster, key, written) {
        return Ok((true, None));
    }
    let uid = object::uid(&observed).to_owned();
    if uids.contains(&uid) {
        return Ok((true, None));
    }
    if let Some(next_owner) = context.next_owner(key, &ObjectId::of(&observed)) {
        if member_body::owning_work(&observed, context.cluster) != Some(next_owner) {
            context.member.merge(&id, &member_body::hand_over_patch(context.cluster, next_owner)).await?;
        }
        return Ok((true, None));
    }
    if preserve {
        context.member.merge(&id, &member_body::strip_patch(&observed)).await?;
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
    use serde_json::json;

    use super::*;
    use crate::member::Gvk;
    use crate::member::memory::MemoryMember;
    use crate::reconcile::apply::tests::{config, context, member, value};
    use crate::reconcile::apply::{Known, apply_work};

    fn all(manifest: &Value) -> Leaving {
        leaving(std::slice::from_ref(manifest), &[])
    }

    #[tokio::test]
    async fn only_this_works_objects_are_removed_or_stripped() {
        let member = member();
        let (a, b) = (config("a", "1"), config("b", "1"));
        apply_work(context(&member), "w", &[a.clone(), b.clone()], Known::Older).await;
        let done = |uids: Vec<String>| Removal { done: true, uids, failure: None };
        let uid = |config: &Value| object::uid(&member.read(&ObjectId::of(config)).unwrap()).to_owned();
        let (of_a, of_b) = (uid(&a), uid(&b));
        assert_eq!(removal(context(&member), "other", &all(&a), false, &[]).await, done(vec![]));
        assert!(value(&member, "a").is_some(), "another Work's");
        assert_eq!(removal(context(&member), "w", &all(&a), false, &[]).await, done(vec![of_a]));
        assert!(value(&member, "a").is_none());
        assert_eq!(removal(context(&member), "w", &all(&b), true, &[]).await, done(vec![of_b]));
        let kept = member.read(&ObjectId::of(&b)).unwrap();
        assert!(!member_body::is_ours(&kept, "m", "w") && object::labels(&kept).is_empty());
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
        apply_work(context(&member), "w", &manifests, Known::Older).await.remove(0).unwrap();
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
        apply_work(context(&member), "w", &[thing("v2")], Known::Older).await.remove(0).unwrap();
        let removed = removal(context(&member), "w", &leaving(&[thing("v1")], &[]), false, &[]).await;
        assert!(removed.done && removed.uids.len() == 1, "{removed:?}");
        assert!(member.read(&ObjectId::of(&thing("v2"))).is_none());
    }

    #[tokio::test]
    async fn one_object_that_cannot_be_removed_does_not_keep_the_others() {
        let member = member();
        let manifests = [config("a", "1"), config("b", "1"), config("c", "1")];
        apply_work(context(&member), "w", &manifests, Known::Older).await;
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
        let applied = apply_work(context(&member), "w", std::slice::from_ref(&a), Known::Older).await;
        let uids = [object::uid(applied[0].as_ref().unwrap()).to_owned()];
        let removed = removal(context(&member), "w", &all(&a), false, &uids).await;
        assert_eq!(removed, Removal { done: true, ..Removal::default() });
        assert!(value(&member, "a").is_some());
    }
}
