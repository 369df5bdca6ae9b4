//! The namespaces that register made in the member: each goes where nothing of anybody else's is in it. In: the member. Out: their
//! deletion, or which object keeps one.
//!
//! What is in a namespace is asked of every kind that the member serves, kinds that a user brought included. What cannot be asked keeps
//! the namespace as an object does: nothing is deleted because it was not seen.

use std::collections::BTreeSet;

use anyhow::Result;
use karmada_api::strings::{annotations, labels};
use serde_json::Value;
use tokio::time::Instant;

use super::{Arguments, LEDGER, MANAGED_BY, MANAGER, POD_LABEL, POLL, name};
use crate::connection::{ApiError, Connection};
use crate::output::{self, Progress};

/// Kinds that say something of other objects and hold nothing themselves.
const CHRONICLES: [&str; 2] = ["events", "events.events.k8s.io"];
/// A group of what is measured, not stored.
const MEASURED: &str = "metrics.k8s.io";

/// Deletes those of `made` that hold nothing of anybody else's, and waits for their end, so that the next register finds them gone. One
/// that takes longer is named, and is no error.
pub async fn leave(
    member: &Connection,
    made: &[Value],
    arguments: &Arguments,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<()> {
    let mut leaving = Vec::new();
    let served = if made.is_empty() { Served::default() } else { discover(member).await? };
    for object in made {
        let (namespace, path) = (name(object), format!("/api/v1/namespaces/{}", name(object)));
        if let Some(why) = keeps(member, &served, object).await? {
            output::line(&format!("member: the namespace {namespace} stays: {why}"))?;
        } else if arguments.dry_run {
            output::line(&format!("member: {path} would be deleted if nothing else is in it"))?;
        } else {
            member.delete(&path).await?;
            leaving.push(path);
        }
    }
    for path in &leaving {
        while member.find(path).await?.is_some() {
            if Instant::now() >= deadline {
                return output::line(&format!("member: {path} is still ending"));
            }
            progress.step(&format!("waiting for {path} to end"));
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// What a member serves in namespaces.
#[derive(Default)]
struct Served {
    /// The paths of groups' versions, and plurals in them.
    kinds: Vec<(String, String)>,
    /// What could not be asked for its kinds.
    unknown: Option<String>,
}

async fn discover(member: &Connection) -> Result<Served> {
    let groups = member.get("/apis").await?;
    let groups = groups["groups"].as_array().into_iter().flatten();
    let mut served = Served::default();
    let mut known = BTreeSet::new();
    for root in std::iter::once("/api/v1".to_owned()).chain(groups.flat_map(roots)) {
        match member.get(&root).await {
            Ok(list) => {
                let group = root.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
                let plurals = listable(&list).into_iter();
                let news = plurals.filter(|plural| known.insert((group.clone(), plural.clone())));
                served.kinds.extend(news.map(|plural| (root.clone(), plural)));
            }
            Err(error) => unanswered(error, &root, &mut served.unknown)?,
        }
    }
    Ok(served)
}

/// The paths of a group's versions, the preferred one first: a kind may be served as another one alone.
fn roots(group: &Value) -> Vec<String> {
    let preferred = &group["preferredVersion"]["groupVersion"];
    let versions = group["versions"].as_array().into_iter().flatten().map(|version| &version["groupVersion"]);
    let others = versions.filter(|version| *version != preferred);
    std::iter::once(preferred)
        .chain(others)
        .filter_map(|version| Some(format!("/apis/{}", version.as_str()?)))
        .collect()
}

/// An answer that is none is noted; a member that does not answer at all is an error.
fn unanswered(error: ApiError, path: &str, unknown: &mut Option<String>) -> Result<(), ApiError> {
    if error.code().is_none() {
        return Err(error);
    }
    unknown.get_or_insert_with(|| path.to_owned());
    Ok(())
}

/// The kinds of a group's version that are in namespaces and whose objects can be listed.
fn listable(resources: &Value) -> Vec<String> {
    let version = resources["groupVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let all = resources["resources"].as_array().into_iter().flatten();
    let lists = |resource: &&Value| {
        resource["namespaced"] == true
            && resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
    };
    let plurals = all.filter(lists).filter_map(|resource| resource["name"].as_str());
    let holds = |plural: &&str| {
        let full = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        group != MEASURED && !CHRONICLES.contains(&full.as_str())
    };
    plurals.filter(holds).map(str::to_owned).collect()
}

/// Why a namespace stays; `None` where it may go.
async fn keeps(member: &Connection, served: &Served, object: &Value) -> Result<Option<String>> {
    let namespace = name(object);
    if is_placed(object) {
        return Ok(Some("the hub placed it there as well".to_owned()));
    }
    let (mut left, mut unknown) = (Vec::new(), served.unknown.clone());
    for (root, plural) in &served.kinds {
        let path = format!("{root}/namespaces/{namespace}/{plural}");
        match member.find(&path).await {
            Ok(list) => {
                let items = list.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default();
                let foreign = items.iter().filter(|object| is_foreign(object));
                left.extend(foreign.map(|object| format!("{plural}/{}", name(object))));
            }
            Err(error) => unanswered(error, &path, &mut unknown)?,
        }
    }
    Ok(match (left.first(), unknown) {
        (Some(first), _) => Some(format!("it holds {first} and {} more", left.len() - 1)),
        (None, Some(path)) => Some(format!(
            "what is in it is not known, as {path} is not answered: delete it where it is empty"
        )),
        (None, None) => None,
    })
}

/// Whether a Work of the hub's brought the namespace, too, and left it to the site or still holds it.
fn is_placed(namespace: &Value) -> bool {
    let metadata = &namespace["metadata"];
    !metadata["annotations"][annotations::KEPT_FROM].is_null()
        || metadata["labels"][labels::MANAGED] == labels::MANAGED_VALUE
}

/// Whether an object is neither the agent's nor one that every namespace has.
fn is_foreign(object: &Value) -> bool {
    let (metadata, name) = (&object["metadata"], name(object));
    let own = metadata["labels"][MANAGED_BY] == MANAGER || metadata["labels"][POD_LABEL.0] == POD_LABEL.1;
    let everywhere = ["kube-root-ca.crt", "default"].contains(&name)
        || object["type"] == "kubernetes.io/service-account-token";
    !(own || everywhere || name.starts_with(LEDGER) || !metadata["deletionTimestamp"].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_belongs_to_others_keeps_a_namespace() {
        let object = |name: &str| json!({"metadata": {"name": name}});
        for (object, foreign) in [
            (object("web"), true),
            (object("default"), false),
            (object("kube-root-ca.crt"), false),
            (object("karmada-agent-ledger-0"), false),
            (json!({"metadata": {"name": "x", "deletionTimestamp": "now"}}), false),
            (json!({"metadata": {"name": "x", "labels": {MANAGED_BY: MANAGER}}}), false),
            (json!({"metadata": {"name": "x", "labels": {"app": "karmada-agent"}}}), false),
            (json!({"metadata": {"name": "x"}, "type": "kubernetes.io/service-account-token"}), false),
        ] {
            assert_eq!(is_foreign(&object), foreign, "{object}");
        }
    }

    #[test]
    fn a_namespace_that_a_work_brought_is_not_registers_alone() {
        for (metadata, placed) in [
            (json!({"labels": {MANAGED_BY: MANAGER}}), false),
            (json!({"annotations": {annotations::KEPT_FROM: "u"}}), true),
            (json!({"labels": {labels::MANAGED: "true"}}), true),
        ] {
            assert_eq!(is_placed(&json!({"metadata": metadata})), placed, "{metadata}");
        }
    }

    #[test]
    fn every_version_of_a_group_is_asked_and_the_preferred_one_first() {
        let version = |name: &str| json!({"groupVersion": format!("example.com/{name}")});
        let group =
            json!({"preferredVersion": version("v1"), "versions": [version("v2alpha1"), version("v1")]});
        assert_eq!(roots(&group), ["/apis/example.com/v1", "/apis/example.com/v2alpha1"]);
        assert_eq!(roots(&json!({})), [""; 0]);
    }

    #[test]
    fn every_kind_that_can_be_listed_in_a_namespace_is_looked_at() {
        let kind = |name: &str, namespaced: bool, verbs: Value| json!({"name": name, "namespaced": namespaced, "verbs": verbs});
        let all = json!({"groupVersion": "example.com/v1", "resources": [
            kind("things", true, json!(["get", "list"])), kind("things/status", true, json!(["get"])),
            kind("everywhere", false, json!(["list"])), kind("reviews", true, json!(["create"])),
        ]});
        assert_eq!(listable(&all), ["things"]);
        for (version, name) in
            [("v1", "events"), ("events.k8s.io/v1", "events"), ("metrics.k8s.io/v1beta1", "pods")]
        {
            let list = json!({"groupVersion": version, "resources": [kind(name, true, json!(["list"]))]});
            assert!(listable(&list).is_empty(), "{version}");
        }
    }
}
