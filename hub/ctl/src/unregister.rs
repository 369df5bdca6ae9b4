//! `karmadactl unregister`: takes a cluster out of the fleet. In: its name, the hub, the member. Out: both as they were before
//! register.
//!
//! The hub comes first: deleting the Cluster deletes its Works, and the agent, which is still there, removes from the member what
//! they had put there, or with --keep-workloads only the hub's marks. That wish stands on the Cluster before the Cluster is deleted,
//! so that an interruption between the two changes nothing, and one after it changes nothing of the wish. Then the agent goes.

mod namespaces;
mod orphans;
mod placed;
mod wrong_member;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use karmada_api::names::execution_namespace;
use karmada_api::strings::annotations;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::placed::{Becomes, Placed};
use crate::access::Access;
use crate::connection::{ApiError, Connection};
use crate::duration;
use crate::output::{self, Progress};
use crate::register::manifests::{ACCOUNT, AGENT, IDENTITY, JOIN, LEDGER, MANAGED_BY, MANAGER, POD_LABEL};
use crate::site;

/// How often a deletion is looked after.
const POLL: Duration = Duration::from_millis(500);

/// Flags of `unregister`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster's name on the hub.
    cluster: String,
    /// The hub's kubeconfig [default: the member's, with --karmada-context]
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "karmada-kubeconfig",
        required_unless_present = "karmada_context"
    )]
    karmada_config: Option<PathBuf>,
    /// How long to wait for the hub, and then for the member.
    #[arg(long, default_value = "60s", value_parser = duration::parse, allow_hyphen_values = true)]
    wait: Duration,
    /// Leave in the member what the hub placed there, without the hub's marks, and running.
    #[arg(long)]
    keep_workloads: bool,
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// For a site that is gone, or a hub: do what can be done on the other side, and say what is not done. What the agent had applied in
    /// the member stays there.
    #[arg(long)]
    force: bool,
}

/// Removes the cluster from the hub, and the agent from the member.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let hub_file = arguments.karmada_config.as_deref().or(access.kubeconfig.as_deref());
    let hub = Connection::open(hub_file, access.karmada_context.as_deref()).await.context("the hub")?;
    // Half of the time is the member's.
    let away = if arguments.force { hub.answers(arguments.wait / 2).await.err() } else { None };
    let mut member = member(access, arguments).await?;
    let asked = wrong_member::Hub { api: &hub, is_away: away.is_some() };
    if let Some(found) = &member
        && let Err(wrong) =
            wrong_member::refuse(asked, found, access.agent_namespace(), &arguments.cluster).await
    {
        if !(arguments.force && wrong.is::<wrong_member::Another>()) {
            return Err(wrong);
        }
        output::line(&format!("member: {wrong}"))?;
        member = None;
    }
    let mut progress = Progress::new();
    let placed = match away {
        Some(away) => Err(away.into()),
        None => leave_hub(&hub, arguments, &mut progress).await,
    };
    let placed = match placed {
        Err(error) if arguments.force && error.downcast_ref().is_some_and(ApiError::is_away) => {
            return without_hub(&error, member, access, arguments, began + arguments.wait).await;
        }
        placed => placed?,
    };
    let Some(member) = member else { return output::line(&placed.unlooked()) };
    let left = if arguments.dry_run { Vec::new() } else { placed.left(&member, &arguments.cluster).await? };
    let deadline = Instant::now() + arguments.wait;
    leave_member(&member, access.agent_namespace(), arguments, deadline, &mut progress).await?;
    if !arguments.dry_run
        && let Some(words) = placed.kept(&left)
    {
        output::line(&format!("member: {words}"))?;
    }
    match placed.left_in_words(&left) {
        Some(words) if arguments.force => output::line(&format!("member: {words}")),
        Some(words) => bail!("{} is unregistered, but {words}", arguments.cluster),
        None => Ok(()),
    }
}

/// The member's side alone, of a hub that is not there, and what is not done by that. Ends by `deadline`.
async fn without_hub(
    away: &anyhow::Error,
    member: Option<Connection>,
    access: &Access,
    arguments: &Arguments,
    deadline: Instant,
) -> Result<()> {
    let cluster = &arguments.cluster;
    let Some(member) = member else {
        bail!("neither the hub nor the member is there, and nothing is done: {away}");
    };
    output::line(&format!("hub: {away}"))?;
    output::line(&format!(
        "not done: the cluster {cluster} is still registered there, with its Works; what it placed in the member stays there, with the hub's \
         marks. If the hub comes back: karmadactl unregister {cluster} --force with the same flags"
    ))?;
    let mut progress = Progress::new();
    // What only waits ends a little before, and says what it waited for.
    let polite = deadline - arguments.wait / 10;
    let leaves = leave_member(&member, access.agent_namespace(), arguments, polite, &mut progress);
    match tokio::time::timeout_at(deadline, leaves).await {
        Ok(left) => left,
        Err(_) => bail!(
            "the member did not let everything go in {}: run this again with a longer --wait",
            duration::human(arguments.wait)
        ),
    }
}

/// The member; `None` if it is gone and that is known.
async fn member(access: &Access, arguments: &Arguments) -> Result<Option<Connection>> {
    let opened = async {
        let member = access.member().await?;
        if arguments.force {
            member.answers(arguments.wait / 4).await?;
        }
        member.get("/version").await?;
        anyhow::Ok(member)
    };
    match opened.await {
        Ok(member) => Ok(Some(member)),
        Err(_) if arguments.force => Ok(None),
        Err(error) => {
            Err(error).context("the member (if the site is gone for good, --force leaves it aside)")
        }
    }
}

/// Takes the Cluster from the hub. Out: what was placed in it.
async fn leave_hub(hub: &Connection, arguments: &Arguments, progress: &mut Progress) -> Result<Placed> {
    let cluster = &arguments.cluster;
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}");
    let Some(found) = hub.find(&path).await? else {
        output::line(&format!("hub: cluster {cluster} is not registered"))?;
        return Ok(Placed::default());
    };
    let works = format!("/apis/work.karmada.io/v1alpha1/namespaces/{}/works", execution_namespace(cluster));
    let all = list(hub, &works).await?;
    if !arguments.force && !all.is_empty() && site::is_silent(&found) {
        bail!("{}", silent(cluster, &placed::count(&all)));
    }
    let wish = WorkloadsKept::of(&found, arguments.keep_workloads);
    let held: BTreeSet<String> = all.iter().map(|work| name(work).to_owned()).collect();
    let placed = Placed { becomes: Becomes::of(wish.keeps, site::is_silent(&found)), works: all };
    if arguments.dry_run {
        output::line(&format!("hub: cluster {cluster} would be deleted; {}", placed.fate()))?;
        orphans::say(&found, cluster, wish.keeps, &held)?;
        return Ok(placed);
    }
    if let Some(noted) = wish.to_note {
        let noted = json!({"metadata": {"annotations": {annotations::KEEP_WORKLOADS: noted}}});
        hub.merge(&path, &noted).await.context("noting on the Cluster whether its workloads stay")?;
    }
    let leaving = orphans::Leaving { cluster, keeps: wish.keeps, held: &held };
    orphans::leave(hub, leaving, Instant::now() + arguments.wait / 2, progress).await?;
    progress.step(&format!("deleting cluster {cluster}; {}", placed.fate()));
    hub.delete(&path).await?;
    let deadline = Instant::now() + arguments.wait;
    while hub.find(&path).await?.is_some() {
        let left = list(hub, &works).await?;
        progress.step(&format!("waiting for the hub to let {cluster} go: {} Works left", left.len()));
        if arguments.force {
            release(hub, &left, deadline).await?;
        }
        if Instant::now() >= deadline {
            bail!("{}", stuck(cluster, &left, arguments));
        }
        tokio::time::sleep(POLL).await;
    }
    output::line(&format!("hub: cluster {cluster} removed"))?;
    Ok(placed)
}

/// Whether what was placed stays. Once a Cluster is on its way out, what was wished before counts: of its Works, some have gone by it.
struct WorkloadsKept {
    keeps: bool,
    /// What is to be written on the Cluster, where something is; null takes an earlier wish off.
    to_note: Option<Value>,
}

impl WorkloadsKept {
    fn of(cluster: &Value, keep: bool) -> WorkloadsKept {
        let metadata = &cluster["metadata"];
        let noted = metadata["annotations"][annotations::KEEP_WORKLOADS] == "true";
        match (keep, noted) {
            _ if !metadata["deletionTimestamp"].is_null() && noted => {
                WorkloadsKept { keeps: true, to_note: None }
            }
            (true, false) => WorkloadsKept { keeps: true, to_note: Some(json!("true")) },
            (false, true) => WorkloadsKept { keeps: false, to_note: Some(Value::Null) },
            (keeps, _) => WorkloadsKept { keeps, to_note: None },
        }
    }
}

/// Why a cluster whose agent is silent is not taken out without a person's word.
fn silent(cluster: &str, placed: &BTreeMap<String, usize>) -> String {
    let total: usize = placed.values().sum();
    format!(
        "the hub does not hear the agent of {cluster}, and nobody else removes what it placed there ({total} objects): start the agent \
         and run this again, or give --force if the site is gone: then they stay there"
    )
}

/// Why a Cluster is still there.
fn stuck(cluster: &str, works: &[Value], arguments: &Arguments) -> String {
    let waited = duration::human(arguments.wait);
    if works.is_empty() {
        return format!(
            "the hub has not let the cluster {cluster} go after {waited}: run this again, or look at karmadactl get cluster {cluster} -o yaml"
        );
    }
    let first = works[0]["metadata"]["name"].as_str().unwrap_or_default();
    if arguments.force {
        return format!(
            "after {waited}, {} Works of {cluster} ({first}…) are still being let go: run this again with a longer --wait, or look at \
             what holds them: karmadactl get works -n {} -o yaml",
            works.len(),
            execution_namespace(cluster)
        );
    }
    format!(
        "after {waited}, {} Works of {cluster} ({first}…) still wait for its agent to remove what they placed: check that the agent \
         runs and is connected and run this again, or give --force if the site is gone",
        works.len()
    )
}

/// Takes off what would wait for the agent, until `deadline`. Only of Works that are being deleted.
async fn release(hub: &Connection, works: &[Value], deadline: Instant) -> Result<()> {
    let held = |work: &&Value| {
        let metadata = &work["metadata"];
        !metadata["deletionTimestamp"].is_null()
            && metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty())
    };
    for work in works.iter().filter(held) {
        if Instant::now() >= deadline {
            break;
        }
        let text = |field: &str| work["metadata"][field].as_str().unwrap_or_default();
        let path =
            format!("/apis/work.karmada.io/v1alpha1/namespaces/{}/works/{}", text("namespace"), text("name"));
        match hub.merge(&path, &json!({"metadata": {"finalizers": null}})).await {
            Err(error) if error.code() != Some(404) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Everything that register made and the agent wrote for itself, in the order to remove it.
async fn leave_member(
    member: &Connection,
    namespace: &str,
    arguments: &Arguments,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<()> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let mut paths = vec![format!("/apis/apps/v1/namespaces/{namespace}/deployments/{AGENT}")];
    paths.extend([format!("{rbac}/clusterrolebindings/{AGENT}"), format!("{rbac}/clusterroles/{AGENT}")]);
    for kind in ["rolebindings", "roles"] {
        let found = made_here(member, &format!("{rbac}/{kind}")).await?;
        paths.extend(
            found
                .iter()
                .filter(|role| role["metadata"]["name"] == AGENT)
                .map(|role| in_namespace(rbac, kind, role)),
        );
    }
    paths.extend([JOIN, IDENTITY].map(|name| format!("{secrets}/{name}")));
    let ledger = list(member, &secrets).await?;
    let chunk = |secret: &&Value| name(secret).strip_prefix(LEDGER).is_some_and(|rest| rest.starts_with('-'));
    paths.extend(ledger.iter().filter(chunk).map(|secret| format!("{secrets}/{}", name(secret))));
    paths.push(format!("/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}"));
    let mut found_any = false;
    for path in paths {
        if arguments.dry_run {
            let there = member.find(&path).await?.is_some();
            found_any |= there;
            output::print(&if there { format!("member: {path} would be deleted\n") } else { String::new() })?;
        } else if member.delete(&path).await? {
            found_any = true;
            progress.step(&format!("deleted {path}"));
            if path.ends_with(&format!("/deployments/{AGENT}")) {
                agent_gone(member, namespace, deadline, progress).await?;
            }
        }
    }
    let made = made_here(member, "/api/v1/namespaces").await?;
    namespaces::leave(member, &made, arguments, deadline, progress).await?;
    match (found_any || !made.is_empty(), arguments.dry_run) {
        (false, _) => output::line(&format!(
            "member: there is no agent in the namespace {namespace}, nor anything that came with one: nothing is removed"
        )),
        (true, true) => Ok(()),
        (true, false) => output::line("member: the agent and all that came with it are removed"),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn in_namespace(root: &str, plural: &str, object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("{root}/namespaces/{namespace}/{plural}/{}", name(object))
}

/// What karmadactl made among the objects at `path`. The label is checked here as well: nothing of anybody else's may be deleted
/// because a server passes a selector over.
async fn made_here(member: &Connection, path: &str) -> Result<Vec<Value>> {
    let selector = format!("labelSelector={}%3D{MANAGER}", MANAGED_BY.replace('/', "%2F"));
    let mut found = list(member, &format!("{path}?{selector}")).await?;
    found.retain(|object| object["metadata"]["labels"][MANAGED_BY] == MANAGER);
    Ok(found)
}

async fn list(api: &Connection, path: &str) -> Result<Vec<Value>> {
    let found = api.find(path).await?;
    Ok(found.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default())
}

/// Waits for the agent's Pods: one that still runs would write its Secrets again.
async fn agent_gone(
    member: &Connection,
    namespace: &str,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<()> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={}%3D{}", POD_LABEL.0, POD_LABEL.1);
    while !list(member, &pods).await?.is_empty() && Instant::now() < deadline {
        progress.step("waiting for the agent's Pod to end");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_wish_counts_once_the_cluster_is_on_its_way_out() {
        let cluster = |noted: bool, leaves: bool| {
            let noted = if noted { json!({annotations::KEEP_WORKLOADS: "true"}) } else { json!({}) };
            let leaves = if leaves { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            json!({"metadata": {"annotations": noted, "deletionTimestamp": leaves}})
        };
        for (noted, leaves, keep, keeps, to_note) in [
            (false, false, false, false, None),
            (false, false, true, true, Some(json!("true"))),
            (true, false, false, false, Some(Value::Null)),
            (true, false, true, true, None),
            (true, true, false, true, None),
        ] {
            let wish = WorkloadsKept::of(&cluster(noted, leaves), keep);
            assert_eq!((wish.keeps, wish.to_note), (keeps, to_note), "{noted} {leaves} {keep}");
        }
    }

    #[test]
    fn a_cluster_that_stays_says_why() {
        let mut arguments = Arguments {
            cluster: "shop".to_owned(),
            karmada_config: None,
            wait: Duration::from_secs(60),
            keep_workloads: false,
            dry_run: false,
            force: false,
        };
        assert!(stuck("shop", &[], &arguments).contains("get cluster shop"));
        let left = [json!({"metadata": {"name": "nginx-687f7fb96f"}})];
        let text = stuck("shop", &left, &arguments);
        assert!(text.contains("1 Works of shop (nginx-687f7fb96f…)") && text.contains("--force"), "{text}");
        arguments.force = true;
        let text = stuck("shop", &left, &arguments);
        assert!(text.contains("1 Works of shop (nginx-687f7fb96f…)") && !text.contains("--force"), "{text}");
    }
}
