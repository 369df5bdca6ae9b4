//! `karmadactl plan`: what a site will do once it has heard of everything that the hub wants of it. In: a Cluster, its ClusterLink, its
//! Works. Out: a line for each object that is to be created, changed or deleted, that is put off or stays, and why. Nothing is changed.
//!
//! A Work of which nothing is to be done has no line, as in a plan of any tool.

use anyhow::Result;
use karmada_api::names::execution_namespace;
use karmada_api::strings::conditions::APPLIED;
use karmada_api::strings::labels::REMOVAL_HELD;
use karmada_core::orphans::{Fate, Orphans};
use serde_json::Value;

use crate::access::Access;
use crate::connection::Connection;
use crate::{output, site, table};

/// How many Works are asked for at once.
const PAGE: usize = 500;

/// Flags of `plan`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster.
    cluster: String,
}

/// Prints the plan.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let name = &arguments.cluster;
    let hub = access.hub().await?;
    let cluster = site::found(&hub, name).await?;
    let link = hub.find(&format!("/apis/edge.karmada.io/v1alpha1/clusterlinks/{name}")).await?;
    let mut steps: Vec<Step> = works(&hub, name).await?.iter().flat_map(of_work).collect();
    steps.extend(of_orphans(&cluster));
    output::print(&shown(name, &steps, &link.unwrap_or_default()))?;
    if !steps.is_empty() && site::is_silent(&cluster) {
        output::line("The hub does not hear the site now: this is for when it is back.")?;
    }
    Ok(())
}

/// All Works of a cluster, page by page.
async fn works(hub: &Connection, cluster: &str) -> Result<Vec<Value>> {
    let path = format!("/apis/work.karmada.io/v1alpha1/namespaces/{}/works", execution_namespace(cluster));
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = hub.get(&format!("{path}?limit={PAGE}{next}")).await?;
        all.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            // Tokens are of an alphabet that stands in addresses as it is.
            Some(token) => next = format!("&continue={token}"),
            None => return Ok(all),
        }
    }
}

/// What is to be done with one object of a Work.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    action: &'static str,
    object: String,
    work: String,
    why: String,
}

fn of_work(work: &Value) -> Vec<Step> {
    let Some((action, why)) = action(work) else { return Vec::new() };
    let name = work["metadata"]["name"].as_str().unwrap_or_default();
    let manifests = work["spec"]["workload"]["manifests"].as_array().into_iter().flatten();
    manifests
        .map(|manifest| Step { action, object: object(manifest), work: name.to_owned(), why: why.clone() })
        .collect()
}

/// What the site will do with the objects of a Work, and why; nothing where they are as they should be.
fn action(work: &Value) -> Option<(&'static str, String)> {
    let (metadata, spec) = (&work["metadata"], &work["spec"]);
    if !metadata["deletionTimestamp"].is_null() {
        return Some(match spec["preserveResourcesOnDeletion"] == true {
            true => ("release", "its objects stay".to_owned()),
            false => ("delete", String::new()),
        });
    }
    if metadata["labels"][REMOVAL_HELD].is_string() {
        return Some((
            "keep",
            "no placement wants it there any more, and it waits for karmadactl confirm".to_owned(),
        ));
    }
    let all = work["status"]["conditions"].as_array();
    let applied = all.into_iter().flatten().find(|condition| condition["type"] == APPLIED);
    let generation = metadata["generation"].as_i64().unwrap_or(0);
    let of = applied.map(|applied| applied["observedGeneration"].as_i64().unwrap_or(generation));
    let present = of.is_some_and(|of| of >= generation);
    let is = |status: &str| applied.is_some_and(|applied| applied["status"] == status);
    let message =
        || applied.map(|applied| applied["message"].as_str().unwrap_or_default()).unwrap_or_default();
    match (present, applied.is_some()) {
        (true, _) if is("True") => None,
        _ if spec["suspendDispatching"] == true => Some(("wait", "it is suspended".to_owned())),
        (true, _) => Some(("retry", output::words(message()))),
        (false, true) => Some(("update", String::new())),
        (false, false) => Some(("create", String::new())),
    }
}

/// `Deployment default/nginx`, as a manifest says.
fn object(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&manifest["kind"]), &manifest["metadata"]);
    match text(&metadata["namespace"]) {
        namespace if namespace.is_empty() => format!("{kind} {}", text(&metadata["name"])),
        namespace => format!("{kind} {namespace}/{}", text(&metadata["name"])),
    }
}

fn of_orphans(cluster: &Value) -> Vec<Step> {
    let step = |(work, fate): (&String, &Fate)| {
        let action = match fate {
            Fate::Delete => "delete",
            Fate::Release => "release",
            Fate::Undecided => "keep",
        };
        let why = "the hub knows nothing of it".to_owned();
        Step { action, object: "-".to_owned(), work: work.clone(), why }
    };
    Orphans::of(cluster).fates().iter().map(step).collect()
}

fn shown(cluster: &str, steps: &[Step], link: &Value) -> String {
    let mut text = String::new();
    for (field, what) in [("heldDeletes", "deletes"), ("heldRemovals", "removals")] {
        let held = &link["status"][field];
        if let (Some(batch), Some(count)) = (held["batch"].as_str(), held["count"].as_u64()) {
            text += &format!(
                "{count} {what} are held back: karmadactl confirm {cluster} --batch {batch} lets them out.\n"
            );
        }
    }
    if steps.is_empty() {
        return text + &format!("{cluster} has everything as the hub wants it\n");
    }
    let head = ["ACTION", "OBJECT", "WORK", "WHY"].map(str::to_owned).to_vec();
    let rows = steps
        .iter()
        .map(|step| vec![step.action.to_owned(), step.object.clone(), step.work.clone(), step.why.clone()]);
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    text + &table::of_rows(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::strings::annotations::ORPHANS;
    use serde_json::json;

    fn work(generation: i64, applied: Option<(&str, i64)>, more: &Value) -> Value {
        let conditions: Vec<Value> = applied
            .into_iter()
            .map(|(status, of)| {
                json!({"type": "Applied", "status": status, "observedGeneration": of, "message": "no\nroom"})
            })
            .collect();
        let mut work = json!({
            "metadata": {"name": "web-1", "generation": generation},
            "spec": {"workload": {"manifests": [
                {"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}},
                {"kind": "Namespace", "metadata": {"name": "shop"}},
            ]}},
            "status": {"conditions": conditions},
        });
        for (pointer, value) in more.as_object().unwrap() {
            let (part, field) = pointer.split_once('/').unwrap();
            work[part][field] = value.clone();
        }
        work
    }

    #[test]
    fn each_work_has_the_step_that_its_site_will_take() {
        let gone = json!({"metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
        let preserved = json!({"metadata/deletionTimestamp": "t", "spec/preserveResourcesOnDeletion": true});
        let suspended = json!({"spec/suspendDispatching": true});
        for (work, step) in [
            (work(1, None, &json!({})), Some(("create", ""))),
            (work(2, Some(("True", 1)), &json!({})), Some(("update", ""))),
            (work(2, Some(("False", 2)), &json!({})), Some(("retry", "no room"))),
            (work(2, Some(("True", 2)), &json!({})), None),
            (work(2, Some(("True", 2)), &gone), Some(("delete", ""))),
            (work(2, Some(("True", 2)), &preserved), Some(("release", "its objects stay"))),
            (work(2, Some(("True", 1)), &suspended), Some(("wait", "it is suspended"))),
            (work(2, Some(("True", 2)), &suspended), None),
        ] {
            let found = action(&work);
            assert_eq!(found.as_ref().map(|(action, why)| (*action, &**why)), step, "{work}");
        }
        let objects: Vec<String> =
            of_work(&work(1, None, &json!({}))).into_iter().map(|step| step.object).collect();
        assert_eq!(objects, ["Deployment shop/web", "Namespace shop"]);
    }

    #[test]
    fn a_plan_says_what_is_held_back_what_stays_and_that_nothing_is_to_do() {
        let cluster = json!({"metadata": {"annotations": {
            ORPHANS: json!({"lost-1": "undecided", "lost-2": "delete"}).to_string()}}});
        let link = json!({"status": {"heldDeletes": {"batch": "4/9/1", "count": 30}}});
        let text = shown("north", &of_orphans(&cluster), &link);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "30 deletes are held back: karmadactl confirm north --batch 4/9/1 lets them out.",
                "ACTION OBJECT WORK WHY",
                "keep - lost-1 the hub knows nothing of it",
                "delete - lost-2 the hub knows nothing of it",
            ]
        );
        assert_eq!(shown("north", &[], &Value::Null), "north has everything as the hub wants it\n");
    }
}
