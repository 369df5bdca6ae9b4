//! `karmadactl explain-placement` and `karmadactl schedule --dry-run`: what becomes of a template, or would. In: an object of the hub, or a file of
//! templates and policies; what is to be different. Out: for each template its policy, every cluster with the reason, and what each gets. Nothing is
//! changed: the hub answers a PlacementReview, and keeps nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use karmada_schema::yaml;
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::{Connection, object_path};
use crate::{output, table};

const REVIEWS: &str = "/apis/edge.karmada.io/v1alpha1/placementreviews";

/// What is to be different from how it is.
#[derive(clap::Args, Default)]
pub struct WhatIf {
    /// As if this cluster were not there; may be said several times.
    #[arg(long, value_name = "CLUSTER")]
    without: Vec<String>,
    /// As if this cluster had no room for more; may be said several times.
    #[arg(long, value_name = "CLUSTER")]
    full: Vec<String>,
    /// As if this cluster had one taint more, as in north=maintenance:NoExecute; may be said several times.
    #[arg(long, value_name = "CLUSTER=KEY:EFFECT", value_parser = taint)]
    tainted: Vec<Value>,
}

impl WhatIf {
    /// As `PlacementReview.spec.whatIf` has it.
    pub fn as_spec(&self) -> Value {
        json!({"removedClusters": self.without, "fullClusters": self.full, "taints": self.tainted})
    }
}

/// How it is printed.
#[derive(clap::Args, Default)]
pub struct Shape {
    /// Show what each cluster gets as well, with the overrides applied.
    #[arg(long)]
    pub manifests: bool,
    /// Print the whole review: yaml or json.
    #[arg(long, short, value_parser = ["yaml", "json"])]
    output: Option<String>,
}

/// Flags of `explain-placement`.
#[derive(clap::Args)]
pub struct Explain {
    /// The kind, as in Deployment or deployments.apps.
    kind: String,
    /// The object's name.
    name: String,
    /// Its namespace.
    #[arg(long, short, default_value = "default")]
    namespace: String,
    #[command(flatten)]
    what_if: WhatIf,
    #[command(flatten)]
    shape: Shape,
}

/// Flags of `schedule`.
#[derive(clap::Args)]
pub struct Schedule {
    /// Only say what would become of it; required, as `kubectl apply` is what schedules.
    #[arg(long, required = true)]
    dry_run: bool,
    /// A file of templates, and of policies and ResidencyRules that count as if they were applied; `-` reads what is piped in.
    #[arg(long, short)]
    filename: PathBuf,
    #[command(flatten)]
    what_if: WhatIf,
    #[command(flatten)]
    shape: Shape,
}

/// Explains where an object is placed, and why.
pub async fn explain(access: &Access, arguments: &Explain) -> Result<()> {
    let hub = access.hub().await?;
    let path = found(&hub, &arguments.kind, &arguments.namespace).await?;
    let template = hub.get(&format!("{path}/{}", arguments.name)).await?;
    let review = asked(&hub, &template, &[], &arguments.what_if, &arguments.shape).await?;
    print(&[review], &arguments.shape)
}

/// Says what would become of the templates of a file.
pub async fn schedule(access: &Access, arguments: &Schedule) -> Result<()> {
    let text = read(&arguments.filename)?;
    let (policies, templates): (Vec<Value>, Vec<Value>) = objects(&text)?.into_iter().partition(is_policy);
    ensure!(
        !templates.is_empty(),
        "{} holds no template: objects beside policies",
        arguments.filename.display()
    );
    let hub = access.hub().await?;
    let mut reviews = Vec::with_capacity(templates.len());
    for template in &templates {
        let stored = as_stored(&hub, template).await?;
        reviews.push(asked(&hub, &stored, &policies, &arguments.what_if, &arguments.shape).await?);
    }
    print(&reviews, &arguments.shape)
}

/// The object as the hub would store it: with defaults, checked, and by the rights of whoever asks.
async fn as_stored(hub: &Connection, template: &Value) -> Result<Value> {
    let mut template = template.clone();
    let (plural, namespaced) = served(hub, &template).await?;
    if namespaced && template["metadata"]["namespace"].as_str().unwrap_or_default().is_empty() {
        template["metadata"]["namespace"] = json!("default");
    }
    let place = place(&template, &plural);
    let name = template["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    ensure!(!name.is_empty(), "an object of the file has no metadata.name");
    let dry = "dryRun=All&fieldManager=karmadactl";
    match hub.find(&format!("{place}/{name}")).await? {
        None => Ok(hub.create(&format!("{place}?{dry}"), &template).await?),
        Some(_) => Ok(hub.merge(&format!("{place}/{name}?{dry}"), &template).await?),
    }
}

async fn asked(
    hub: &Connection,
    template: &Value,
    policies: &[Value],
    what_if: &WhatIf,
    shape: &Shape,
) -> Result<Value> {
    let review = json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "PlacementReview", "spec": {
        "manifest": template, "policies": policies, "withManifests": shape.manifests, "whatIf": what_if.as_spec()}});
    Ok(hub.create(REVIEWS, &review).await?)
}

/// Prints reviews.
pub fn print(reviews: &[Value], shape: &Shape) -> Result<()> {
    match shape.output.as_deref() {
        Some("json") => output::print(&format!("{}\n", serde_json::to_string_pretty(reviews)?)),
        Some(_) => output::print(&output::yaml(reviews)?),
        None => {
            let texts: Result<Vec<String>> = reviews.iter().map(text).collect();
            output::print(&texts?.join("\n"))
        }
    }
}

/// A review as people read it.
fn text(review: &Value) -> Result<String> {
    let (object, status) = (&review["spec"]["manifest"], &review["status"]);
    let place = |namespace: &Value, name: &Value| match word(namespace) {
        none if none.is_empty() => word(name),
        namespace => format!("{namespace}/{}", word(name)),
    };
    let metadata = &object["metadata"];
    let mut out = format!("{} {}\n", word(&object["kind"]), place(&metadata["namespace"], &metadata["name"]));
    let policy = &status["policy"];
    let by = if policy.is_null() {
        "none".to_owned()
    } else {
        format!("{} {}", word(&policy["kind"]), place(&policy["namespace"], &policy["name"]))
    };
    out += &format!("Policy:   {by}\nOutcome:  {}\n", word(&status["outcome"]));
    if !word(&status["message"]).is_empty() {
        out += &format!("Message:  {}\n", word(&status["message"]));
    }
    if !word(&status["affinityName"]).is_empty() {
        out += &format!("Affinity: {}\n", word(&status["affinityName"]));
    }
    let (clusters, works) = (list(&status["clusters"]), list(&status["works"]));
    if !clusters.is_empty() {
        let head =
            ["CLUSTER", "VERDICT", "SCORE", "REPLICAS", "OVERRIDES", "REASON"].map(str::to_owned).to_vec();
        let rows = clusters.iter().map(|cluster| cluster_row(cluster, works));
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        out += &table::of_rows(&rows);
    }
    if let Some(more) = status["worksLeftOut"].as_u64() {
        out += &format!("{more} clusters more get something that was not looked at: the template is large\n");
    }
    for work in works.iter().filter(|work| work["manifest"].is_object()) {
        out += &format!(
            "--- {}\n{}",
            word(&work["cluster"]),
            output::yaml(std::slice::from_ref(&work["manifest"]))?
        );
    }
    Ok(out)
}

/// What is said of a cluster, and of what it gets.
fn cluster_row(cluster: &Value, works: &[Value]) -> Vec<String> {
    let work = works.iter().find(|work| work["cluster"] == cluster["name"]);
    let overrides = work.map(|work| list(&work["overrides"])).unwrap_or_default();
    let overrides: Vec<String> = overrides.iter().map(word).collect();
    let number = |field: &str| cluster[field].as_i64().map(|number| number.to_string()).unwrap_or_default();
    let reason = work.map(|work| word(&work["message"])).filter(|why| !why.is_empty());
    let reason = reason.unwrap_or_else(|| word(&cluster["reason"]));
    let (name, verdict) = (word(&cluster["name"]), word(&cluster["verdict"]));
    let row = [name, verdict, number("score"), number("replicas"), overrides.join(","), reason];
    row.map(|text| if text.is_empty() { "-".to_owned() } else { text }).to_vec()
}

/// A text of a review without what would move a terminal's cursor.
fn word(value: &Value) -> String {
    output::plain(value.as_str().unwrap_or_default()).into_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_policy(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let of = |group: &str| object["apiVersion"].as_str().is_some_and(|version| version.starts_with(group));
    (of("policy.karmada.io/") && (kind.ends_with("PropagationPolicy") || kind.ends_with("OverridePolicy")))
        || (of("edge.karmada.io/") && kind == "ResidencyRule")
}

/// The text of a file, or what is piped in.
pub fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        return std::io::read_to_string(std::io::stdin()).context("reading what is piped in");
    }
    std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

/// The objects of a file, those of lists among them.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = yaml::read_all::<{ yaml::FILE }>(text).context("the file is no YAML or JSON")?;
    let flat = documents.into_iter().flat_map(|document| match document["items"].as_array() {
        Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![document],
    });
    Ok(flat.filter(Value::is_object).collect())
}

/// Where objects of a kind stand: `/apis/GROUP/VERSION[/namespaces/NS]/PLURAL`.
fn place(object: &Value, plural: &str) -> String {
    let path = object_path(object);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    debug_assert!(path.starts_with(&root));
    if namespace.is_empty() {
        format!("{root}/{plural}")
    } else {
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

/// How the hub calls the kind of an object, and whether it is in namespaces.
async fn served(hub: &Connection, object: &Value) -> Result<(String, bool)> {
    let (version, kind) =
        (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
    ensure!(!version.is_empty() && !kind.is_empty(), "an object of the file has no apiVersion or kind");
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let list = hub.find(&root).await?.unwrap_or_default();
    let resources = list["resources"].as_array().cloned().unwrap_or_default();
    let of_kind = |one: &&Value| one["kind"] == kind && !one["name"].as_str().unwrap_or("/").contains('/');
    let Some(resource) = resources.iter().find(of_kind) else {
        bail!("the hub serves no {kind} of {version}: is its CustomResourceDefinition applied there?");
    };
    Ok((resource["name"].as_str().unwrap_or_default().to_owned(), resource["namespaced"] == true))
}

/// Where the objects of a kind stand that was named as kubectl takes names: by kind, plural, singular or short name, with the group behind a dot.
async fn found(hub: &Connection, named: &str, namespace: &str) -> Result<String> {
    let (kind, group) = named.split_once('.').map_or((named, None), |(kind, group)| (kind, Some(group)));
    let groups = hub.get("/apis").await?;
    let preferred = groups["groups"].as_array().into_iter().flatten();
    let versions = preferred.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let roots =
        std::iter::once("/api/v1".to_owned()).chain(versions.map(|version| format!("/apis/{version}")));
    for root in roots {
        let of = root
            .strip_prefix("/apis/")
            .and_then(|version| version.split_once('/'))
            .map_or("", |(group, _)| group);
        if group.is_some_and(|wanted| wanted != of) {
            continue;
        }
        let list = hub.find(&root).await?.unwrap_or_default();
        let is = |value: &Value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(kind));
        let means = |one: &&Value| {
            is(&one["kind"])
                || is(&one["name"])
                || is(&one["singularName"])
                || one["shortNames"].as_array().into_iter().flatten().any(is)
        };
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        if let Some(resource) = resources.iter().find(means) {
            let plural = resource["name"].as_str().unwrap_or_default();
            return Ok(match resource["namespaced"] == true {
                true => format!("{root}/namespaces/{namespace}/{plural}"),
                false => format!("{root}/{plural}"),
            });
        }
    }
    bail!("the hub serves nothing that is called {named}")
}

/// `CLUSTER=KEY:EFFECT` or `CLUSTER=KEY=VALUE:EFFECT`.
fn taint(text: &str) -> Result<Value, String> {
    let parts = text.split_once('=').and_then(|(cluster, taint)| Some((cluster, taint.rsplit_once(':')?)));
    let Some((cluster, (pair, effect))) = parts.filter(|(cluster, (pair, effect))| {
        !cluster.is_empty()
            && !pair.is_empty()
            && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(effect)
    }) else {
        return Err("it is CLUSTER=KEY:EFFECT, with NoSchedule, PreferNoSchedule or NoExecute".to_owned());
    };
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Ok(json!({"cluster": cluster, "key": key, "value": value, "effect": effect}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_of_a_cluster() {
        assert_eq!(
            taint("north=down:NoExecute").unwrap(),
            json!({"cluster": "north", "key": "down", "value": "", "effect": "NoExecute"})
        );
        assert_eq!(taint("north=a=b:NoSchedule").unwrap()["value"], "b");
        for wrong in ["north", "north=down", "=down:NoExecute", "north=:NoExecute", "north=down:Soon"] {
            assert!(taint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_holds_objects_lists_and_policies() {
        let all = objects("kind: Deployment\napiVersion: apps/v1\n---\nkind: List\nitems: [{kind: A}, {kind: B}]\n---\n---\nkind: PropagationPolicy\napiVersion: policy.karmada.io/v1alpha1\n---\nkind: ResidencyRule\napiVersion: edge.karmada.io/v1alpha1\n").unwrap();
        let kinds: Vec<&str> = all.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["Deployment", "A", "B", "PropagationPolicy", "ResidencyRule"]);
        assert_eq!(all.iter().filter(|object| is_policy(object)).count(), 2);
        assert!(objects(": [").is_err());
        let modes = objects("{mode: 0400}\n---\n{mode: 1e3}\n").unwrap();
        assert_eq!(Value::from(modes).to_string(), r#"[{"mode":256},{"mode":1000}]"#);
    }

    #[test]
    fn a_review_reads_as_a_table_with_a_reason_for_each_cluster() {
        let review = json!({"spec": {"manifest": {"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}}},
            "status": {"policy": {"kind": "PropagationPolicy", "namespace": "shop", "name": "all"}, "outcome": "Scheduled", "message": "",
                "clusters": [{"name": "a", "verdict": "Chosen", "score": 100, "replicas": 3}, {"name": "b", "verdict": "Unfit", "reason": "no room"}],
                "works": [{"cluster": "a", "overrides": ["mirror"], "manifest": {"kind": "Deployment"}}]}});
        let text = text(&review).unwrap();
        assert_eq!(
            text,
            "Deployment shop/web\nPolicy:   PropagationPolicy shop/all\nOutcome:  Scheduled\n\
            CLUSTER   VERDICT   SCORE   REPLICAS   OVERRIDES   REASON\na         Chosen    100     3          mirror      -\nb         Unfit     -       -          -           no room\n\
            --- a\nkind: Deployment\n"
        );
    }
}
