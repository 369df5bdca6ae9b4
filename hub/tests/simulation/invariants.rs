//! What holds in every run. Pure: what the hub, the members and the users say comes in, what is wrong goes out.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use karmada_agent::ledger::Ledger;
use karmada_agent::member::ObjectId;
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::session::Phase;
use karmada_api::object;
use karmada_api::strings::{annotations, labels};
use serde_json::Value;

use crate::member::Deletion;
use crate::users::{Asked, is_deleting, is_suspended, manifests};

/// Objects of a member that bear our mark.
pub fn managed(member: &MemoryMember) -> BTreeMap<ObjectId, Value> {
    let all = member.ids().into_iter().filter_map(|id| Some((id.clone(), member.read(&id)?)));
    all.filter(|(_, object)| object::label(object, labels::MANAGED) == Some(labels::MANAGED_VALUE)).collect()
}

/// The uids of what a member has of what a Work names, with that Work's marks.
pub fn uids_of(member: &MemoryMember, work: &Value) -> BTreeSet<String> {
    let name = object::name(work);
    let there = manifests(work).into_iter().filter_map(|manifest| member.read(&ObjectId::of(&manifest)));
    there.filter(|object| is_of(object, name)).map(|object| object::uid(&object).to_owned()).collect()
}

/// Whether a member has any of these objects, with the marks of Work `name`.
pub fn has_any(member: &MemoryMember, name: &str, uids: &BTreeSet<String>) -> bool {
    managed(member).values().any(|object| is_of(object, name) && uids.contains(object::uid(object)))
}

fn is_of(object: &Value, work: &str) -> bool {
    object::annotation(object, annotations::WORK_NAME) == Some(work)
        && object::label(object, labels::MANAGED) == Some(labels::MANAGED_VALUE)
}

/// Where a ledger knows otherwise of Works than the hub; `bodies`: the hashes of theirs.
pub fn remembered_otherwise(
    site: &str,
    ledger: &Ledger,
    works: &BTreeMap<String, Value>,
    bodies: &BTreeMap<String, Bytes>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for key in ledger.keys().unwrap_or_default() {
        let Ok(Some(entry)) = ledger.entry(&key) else { continue };
        let Some(work) = works.get(&key).filter(|_| entry.phase == Phase::Desired) else {
            wrong.push(format!("{site} holds {key} still: {:?}", entry.phase));
            continue;
        };
        let (metadata, spec) = (&work["metadata"], &work["spec"]);
        let says = |field: &str| spec[field] == true;
        let retry = metadata["annotations"]["edge.karmada.io/retry"].as_str().unwrap_or_default();
        for (what, is_right) in [
            ("life", metadata["uid"] == entry.uid.as_str()),
            ("body", bodies.get(&key) == Some(&entry.hash)),
            ("generation", metadata["generation"] == entry.generation),
            ("word on what was put aside", retry == entry.retry),
            ("suspension", says("suspendDispatching") == entry.suspended),
            ("word on what stays", says("preserveResourcesOnDeletion") == entry.preserve),
        ] {
            if !is_right {
                wrong.push(format!("{site} holds another {what} of {key}"));
            }
        }
    }
    let held = ledger.keys().unwrap_or_default();
    for key in works.keys().filter(|key| !held.contains(key)) {
        wrong.push(format!("{site} does not hold {key}"));
    }
    wrong
}

/// Objects of others that are not as they were.
pub fn others_differ(others: &BTreeSet<ObjectId>, member: &MemoryMember) -> Vec<String> {
    let is_theirs = |id: &&ObjectId| {
        member.read(id).is_some_and(|object| {
            object["data"]["text"] == "theirs" && object::label(&object, labels::MANAGED).is_none()
        })
    };
    others.iter().filter(|id| !is_theirs(id)).map(|id| format!("{id} is another's, and was taken")).collect()
}

/// How a member differs from what the hub's Works say; `bad` names what it cannot take.
pub fn differences(
    works: &BTreeMap<String, Value>,
    member: &MemoryMember,
    bad: &BTreeSet<String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let there = managed(member);
    let mut named = BTreeSet::new();
    for (name, work) in works {
        if is_deleting(work) {
            wrong.push(format!("{name} is deleted, and still there"));
        }
        // Of a Work over which the agent ended nothing is written any more, whatever else it names.
        let all = manifests(work);
        let is_poison = |manifest: &Value| object::name(manifest).starts_with("poison");
        let is_aside = all.iter().any(|manifest| is_poison(manifest) && bad.contains(object::name(manifest)));
        for manifest in all {
            let id = ObjectId::of(&manifest);
            named.insert(id.clone());
            if is_suspended(name) {
                if there.contains_key(&id) {
                    wrong.push(format!("{id} of {name} is there, which is suspended"));
                }
                continue;
            }
            if bad.contains(&id.name) || is_aside || is_deleting(work) {
                continue;
            }
            match there.get(&id) {
                None => wrong.push(format!("{id} of {name} is missing")),
                Some(object) => wrong.extend(otherwise(name, &id, &manifest, object)),
            }
        }
    }
    for (id, object) in &there {
        if !named.contains(id) {
            let work = object::annotation(object, annotations::WORK_NAME).unwrap_or_default();
            wrong.push(format!("{id} of {work} is there, and no Work names it"));
        }
    }
    wrong
}

fn otherwise(name: &str, id: &ObjectId, manifest: &Value, object: &Value) -> Option<String> {
    if object::annotation(object, annotations::WORK_NAME) != Some(name) {
        return Some(format!("{id} is not marked as of {name}"));
    }
    let differs = ["data", "spec"].iter().find(|part| manifest[**part] != object[**part])?;
    Some(format!("{id} of {name} has another {differs}"))
}

/// Where the hub says otherwise of a Work than its site would: each Work is told as applied in its generation, with the statuses that
/// the member has.
pub fn untold(works: &BTreeMap<String, Value>, member: &MemoryMember, bad: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, work) in works.iter().filter(|(name, work)| !is_deleting(work) && !is_suspended(name)) {
        let all = manifests(work);
        let is_bad = all.iter().any(|manifest| bad.contains(&ObjectId::of(manifest).name));
        let conditions = work["status"]["conditions"].as_array();
        let applied = conditions.into_iter().flatten().find(|condition| condition["type"] == "Applied");
        let Some(applied) = applied else {
            wrong.push(format!("nothing is told of {name}"));
            continue;
        };
        let expected = if is_bad { "False" } else { "True" };
        if applied["status"] != expected {
            wrong.push(format!("{name} is told to be applied: {applied}"));
        }
        if applied["observedGeneration"] != work["metadata"]["generation"] {
            wrong.push(format!("{name} is told of another generation"));
        }
        if !is_bad {
            wrong.extend(status_differs(name, work, &all, member));
        }
    }
    wrong
}

fn status_differs(name: &str, work: &Value, all: &[Value], member: &MemoryMember) -> Option<String> {
    let statuses = work["status"]["manifestStatuses"].as_array().cloned().unwrap_or_default();
    for manifest in all.iter().filter(|manifest| manifest["kind"] == "Deployment") {
        let id = ObjectId::of(manifest);
        let there = member.read(&id)?;
        let told = statuses.iter().find(|status| status["identifier"]["name"] == *id.name);
        let Some(told) = told else { return Some(format!("{name} is told without {id}")) };
        for field in ["replicas", "readyReplicas", "updatedReplicas", "availableReplicas"] {
            if told["status"][field] != there["status"][field] {
                return Some(format!("{name}: {field} of {id} is told as {}", told["status"][field]));
            }
        }
    }
    None
}

/// How often what was deleted may be deleted again, by what brought it back: a copy of the ledger, of the hub, of the agent.
pub struct Returns(pub u64);

/// Deletions that nobody asked for.
pub fn undue(site: &str, all: &[Deletion], asked: &Asked, returns: &Returns) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &ObjectId), u64> = BTreeMap::new();
    for deletion in all {
        *counts.entry((&deletion.work, &deletion.id)).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for ((work, id), count) in counts {
        let name = (site.to_owned(), work.to_owned());
        let former = work.strip_suffix("/former").unwrap_or(work);
        if asked.decided.contains(&name)
            || asked.decided.contains(&(site.to_owned(), format!("{former}/former")))
        {
            continue;
        }
        let deleted = asked.deleted.get(&name).copied().unwrap_or_default();
        let dropped = asked.dropped.get(&(name, id.clone())).copied().unwrap_or_default();
        let due = (deleted + dropped) * (1 + returns.0);
        if count > due {
            wrong.push(format!(
                "{id} of {work} was deleted {count} times at {site}, and {due} times by right"
            ));
        }
    }
    wrong
}
