//! `karmadactl render`: what files would place where, and what each cluster would get, without a hub: for checks before anything is applied. In: files or
//! folders of templates, policies and clusters (`kubectl get clusters -o yaml` of a hub). Out: for each template its policy, every cluster with the
//! reason, and what each gets; or a folder of manifests for each cluster. It fails where a policy takes a template and no cluster does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use karmada_api::admission::{self, Context, Operation};
use karmada_api::residency_rule::ResidencyRule;
use karmada_api::{CLUSTER_GROUP, EDGE_GROUP, POLICY_GROUP, object};
use karmada_core::placement_review;
use karmada_core::placement_review::files::{Files, Rendered, render};
use karmada_core::placement_review::shown::{self, Manifests};
use karmada_core::residency::Rules;
use karmada_interpreter::Chain;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::output;
use crate::placement::{self, Shape, WhatIf};

/// A policy has an id on a hub, which is its own for good. Here all have the same, so that what is printed is the same each time.
const ID: &str = "00000000-0000-0000-0000-000000000000";

/// Kinds of Kubernetes and of Karmada without a namespace, with their groups. Of others, their CustomResourceDefinition among the files says so.
const CLUSTER_SCOPED: [(&str, &str); 29] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    (CLUSTER_GROUP, "Cluster"),
    (EDGE_GROUP, "ResidencyRule"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    (POLICY_GROUP, "ClusterOverridePolicy"),
    (POLICY_GROUP, "ClusterPropagationPolicy"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// Flags of `render`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A file or folder of templates, policies and clusters; `-` reads what is piped in. May be said several times.
    #[arg(long, short, required = true)]
    filename: Vec<PathBuf>,
    /// Write what each cluster gets into this folder, as CLUSTER/KIND.GROUP.NAMESPACE.NAME.yaml. What is there already stays, unless it has the same name.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    what_if: WhatIf,
    #[command(flatten)]
    shape: Shape,
}

/// Renders.
pub fn run(arguments: &Arguments, now: Timestamp) -> Result<()> {
    let mut objects = Vec::new();
    for file in &arguments.filename {
        objects.extend(read(file)?);
    }
    let files = sorted(objects, now)?;
    ensure!(!files.templates.is_empty(), "the files hold no template: objects beside policies and clusters");
    ensure!(
        !files.clusters.is_empty(),
        "the files hold no Cluster: add those of the hub (kubectl get clusters -o yaml)"
    );
    let what_if: placement_review::WhatIf = serde_json::from_value(arguments.what_if.as_spec())?;
    if let [first, ..] = what_if.unknown(&files.clusters)[..] {
        bail!("there is no cluster {first} among the files");
    }
    let rendered = render(&files, &what_if, &Chain::default());
    if let Some(folder) = &arguments.output_dir {
        write(folder, &rendered)?;
    }
    let reviews: Vec<Value> =
        rendered.iter().map(|one| shown(&files, one, arguments.shape.manifests)).collect();
    placement::print(&reviews, &arguments.shape)?;
    let homeless: Vec<String> = rendered
        .iter()
        .filter(|one| {
            one.review.policy.is_some() && !one.review.message.is_empty() && one.review.works.is_empty()
        })
        .map(|one| name(&files.templates[one.template]))
        .collect();
    ensure!(homeless.is_empty(), "no cluster takes {}", homeless.join(", "));
    let unmade = unmade(&files, &rendered);
    ensure!(unmade.is_empty(), "not all is rendered: {}", unmade.join("; "));
    Ok(())
}

/// What some cluster would get and is not here, with the reason.
fn unmade(files: &Files, rendered: &[Rendered]) -> Vec<String> {
    let mut unmade = Vec::new();
    for one in rendered {
        let name = name(&files.templates[one.template]);
        let failed =
            one.review.works.iter().filter_map(|work| Some((&work.cluster, work.work.as_ref().err()?)));
        unmade.extend(failed.map(|(cluster, error)| format!("{name} for {cluster}: {error}")));
        if one.review.left_out > 0 {
            unmade.push(format!("{name} is too large to be shown for {} clusters more", one.review.left_out));
        }
    }
    unmade
}

fn name(template: &Value) -> String {
    format!("{} {}", object::kind(template), object::name(template))
}

/// The objects of a file, or of all YAML and JSON files below a folder, in the order of their names.
fn read(path: &Path) -> Result<Vec<Value>> {
    if !path.is_dir() {
        let text = placement::read(path)?;
        return placement::objects(&text).with_context(|| path.display().to_string());
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
    // A link to a folder is not followed: it may lead back.
    let of = |entry: std::fs::DirEntry| Ok((entry.path(), entry.file_type()?.is_dir()));
    let mut paths: Vec<(PathBuf, bool)> = entries.map(|entry| of(entry?)).collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut objects = Vec::new();
    for (path, is_folder) in paths {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if is_folder || (path.is_file() && ["yaml", "yml", "json"].contains(&ending)) {
            objects.extend(read(&path)?);
        }
    }
    Ok(objects)
}

/// The objects by what they are, completed as a hub completes them, and checked.
fn sorted(objects: Vec<Value>, now: Timestamp) -> Result<Files> {
    let (scopes, defined) = scopes(&objects);
    let mut files = Files::default();
    let (mut clusters, mut rules): (Vec<Value>, Vec<Arc<ResidencyRule>>) = Default::default();
    for mut one in objects {
        let (group, _) = object::group_version(object::api_version(&one));
        let (group, kind) = (group.to_owned(), object::kind(&one).to_owned());
        ensure!(!kind.is_empty() && !object::name(&one).is_empty(), "an object has no kind or metadata.name");
        if object::namespace(&one).is_empty() && !scopes.contains(&(group.clone(), kind.clone())) {
            let what = name(&one);
            ensure!(
                is_known(&group) || defined.contains(&(group.clone(), kind.clone())),
                "{what}: whether {kind} of {group} is in namespaces, its CustomResourceDefinition would say: add it to the files, or give the object a \
                 namespace"
            );
            object::metadata(&mut one).insert("namespace".into(), json!("default"));
        }
        match (group.as_str(), kind.as_str()) {
            (POLICY_GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => {
                files.policies.push(admitted(&group, one, now)?);
            }
            (POLICY_GROUP, "OverridePolicy" | "ClusterOverridePolicy") => {
                files.overrides.push(admitted(&group, one, now)?);
            }
            (EDGE_GROUP, "ResidencyRule") => rules.push(Arc::new(admitted(&group, one, now)?)),
            (CLUSTER_GROUP, "Cluster") => clusters.push(one),
            ("config.karmada.io", _) => {
                bail!("{} is not looked at here: take it out of the files", name(&one))
            }
            _ => files.templates.push(with_defaults(one)),
        }
    }
    files.residency = Rules::of(rules);
    let served = enablements(&files.templates);
    for one in clusters {
        let what = name(&one);
        // A write leaves the status aside, as an agent tells it. Here it is what the hub was told.
        let status =
            one.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
        let mut one = completed(CLUSTER_GROUP, one, now)?;
        one["status"] = status;
        if one["status"]["apiEnablements"].as_array().is_none_or(Vec::is_empty) {
            one["status"]["apiEnablements"] = served.clone();
        }
        files.clusters.push(serde_json::from_value(one).with_context(|| what)?);
    }
    Ok(files)
}

/// Group and kind.
type GroupKind = (String, String);

/// Kinds that are in no namespace, and those that are in one by a CustomResourceDefinition of the files.
fn scopes(objects: &[Value]) -> (BTreeSet<GroupKind>, BTreeSet<GroupKind>) {
    let of = |group: &str, kind: &str| (group.to_owned(), kind.to_owned());
    let mut cluster_scoped: BTreeSet<GroupKind> =
        CLUSTER_SCOPED.iter().map(|(group, kind)| of(group, kind)).collect();
    let mut namespaced = BTreeSet::new();
    for one in objects.iter().filter(|one| object::kind(one) == "CustomResourceDefinition") {
        let text = |pointer: &str| one.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let defined = of(text("/spec/group"), text("/spec/names/kind"));
        match text("/spec/scope") {
            "Cluster" => cluster_scoped.insert(defined),
            _ => namespaced.insert(defined),
        };
    }
    (cluster_scoped, namespaced)
}

/// Whether the scope of each kind of a group is known here: of Kubernetes' own and of Karmada's.
fn is_known(group: &str) -> bool {
    !group.contains('.')
        || group.ends_with(".k8s.io")
        || group == "karmada.io"
        || group.ends_with(".karmada.io")
}

/// A policy as a hub would store it.
fn admitted<T: DeserializeOwned>(group: &str, one: Value, now: Timestamp) -> Result<T> {
    let what = name(&one);
    serde_json::from_value(completed(group, one, now)?).with_context(|| what)
}

/// A policy or a cluster as a hub completes it, where that would take it.
fn completed(group: &str, mut one: Value, now: Timestamp) -> Result<Value> {
    let (kind, what) = (object::kind(&one).to_owned(), name(&one));
    let context = Context { now, new_uuid: &|| ID.to_owned() };
    admission::mutate(group, &kind, Operation::Create, &mut one, None, &context);
    let wrong = admission::validate(group, &kind, Operation::Create, &one, None);
    let words: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    ensure!(words.is_empty(), "{what} is invalid: {}", words.join("; "));
    Ok(one)
}

/// What Kubernetes would set of how many replicas a workload has.
fn with_defaults(mut template: Value) -> Value {
    let group = object::api_version(&template).to_owned();
    let field = match (group.as_str(), object::kind(&template)) {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") | ("v1", "ReplicationController") => {
            "replicas"
        }
        ("batch/v1", "Job") => "parallelism",
        _ => return template,
    };
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        let given = spec.entry(field).or_insert(Value::Null);
        if given.is_null() {
            *given = json!(1);
        }
    }
    template
}

/// Every kind of the templates, for clusters that do not say what they serve.
fn enablements(templates: &[Value]) -> Value {
    let mut groups: std::collections::BTreeMap<&str, BTreeSet<&str>> = Default::default();
    for template in templates {
        groups.entry(object::api_version(template)).or_default().insert(object::kind(template));
    }
    let enablement = |(version, kinds): (&str, BTreeSet<&str>)| {
        let resources: Vec<Value> =
            kinds.iter().map(|kind| json!({"name": kind.to_lowercase(), "kind": kind})).collect();
        json!({"groupVersion": version, "resources": resources})
    };
    groups.into_iter().map(enablement).collect()
}

/// As a hub's answer to a PlacementReview reads.
fn shown(files: &Files, one: &Rendered, manifests: bool) -> Value {
    let manifests = if manifests { Manifests::Shown } else { Manifests::LeftOut };
    let mut status = shown::status(&one.review, manifests);
    if one.review.policy.is_none() && !one.follows.is_empty() {
        status["outcome"] = json!("Follows");
    }
    json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "PlacementReview",
        "spec": {"manifest": files.templates[one.template]}, "status": status})
}

/// A file for each object and cluster.
fn write(folder: &Path, rendered: &[Rendered]) -> Result<()> {
    let mut written = BTreeSet::new();
    for work in rendered.iter().flat_map(|one| &one.review.works) {
        // What could not be made is told in the end.
        let Ok(made) = &work.work else { continue };
        for manifest in &made.spec.workload.manifests {
            let (group, _) = object::group_version(object::api_version(manifest));
            let parts = [object::kind(manifest), group, object::namespace(manifest), object::name(manifest)];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let places = [&*work.cluster, &*parts.join(".")];
            ensure!(
                !places.iter().any(|place| place.contains('/') || place.starts_with('.')),
                "{} in {} is no name of a file",
                places[1],
                places[0]
            );
            let file = folder.join(places[0]).join(format!("{}.yaml", places[1]));
            ensure!(written.insert(file.clone()), "the files hold {} twice", name(manifest));
            let text = output::yaml(std::slice::from_ref(manifest))?;
            let made =
                std::fs::create_dir_all(folder.join(places[0])).and_then(|()| std::fs::write(&file, text));
            made.with_context(|| format!("writing {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: nginx, envFrom: [{secretRef: {name: key}}]}]}}}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [north, south]}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: north}
spec: {syncMode: Pull}
";

    fn files(text: &str) -> Result<Files> {
        sorted(placement::objects(text)?, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn files_are_completed_as_a_hub_completes_them_and_written_by_cluster() {
        let files = files(FILES).unwrap();
        assert_eq!(files.templates[0]["spec"]["replicas"], 1);
        assert_eq!(object::namespace(&files.templates[1]), "default");
        let rendered = render(&files, &Default::default(), &Chain::default());
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &rendered).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path().join("north"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["Deployment.apps.default.web.yaml", "Secret.default.key.yaml"]);
        assert_eq!(shown(&files, &rendered[1], false)["status"]["outcome"], "Follows");
        // Nothing of it is drawn: the same files give the same text.
        let again = render(&files, &Default::default(), &Chain::default());
        assert_eq!(shown(&files, &again[0], true), shown(&files, &rendered[0], true));
    }

    #[test]
    fn what_is_wrong_with_files_is_told_by_name() {
        let wrong = FILES.replace("syncMode: Pull", "syncMode: Both");
        let why = format!("{:#}", files(&wrong).unwrap_err());
        assert!(why.contains("Cluster north"), "{why}");
        let nameless = files("{apiVersion: v1, kind: Secret}").unwrap_err().to_string();
        assert!(nameless.contains("metadata.name"), "{nameless}");
        let custom = "{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: x}}";
        assert!(files(custom).unwrap_err().to_string().contains("ResourceInterpreterCustomization x"));
    }

    #[test]
    fn a_definition_among_the_files_says_where_its_objects_are() {
        let definition = |kind: &str, scope: &str| {
            format!(
                "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: {kind}}}, spec: {{group: e.io, scope: {scope}, names: {{kind: {kind}}}}}}}\n---\n"
            )
        };
        let text = definition("Tree", "Cluster")
            + &definition("Cluster", "Namespaced")
            + "{apiVersion: e.io/v1, kind: Tree, metadata: {name: oak}}
---
{apiVersion: e.io/v1, kind: Cluster, metadata: {name: one}}
";
        let namespaces: Vec<String> =
            files(&text).unwrap().templates.iter().map(|one| object::namespace(one).to_owned()).collect();
        assert_eq!(namespaces, ["", "", "", "default"]);
        let unknown = "{apiVersion: cert-manager.io/v1, kind: ClusterIssuer, metadata: {name: ours}}";
        assert!(files(unknown).unwrap_err().to_string().contains("ClusterIssuer of cert-manager.io"));
    }

    #[test]
    fn what_is_not_rendered_is_told() {
        let twice = format!("{FILES}---\n{{apiVersion: v1, kind: Secret, metadata: {{name: key}}}}\n");
        let files_twice = files(&twice).unwrap();
        let rendered = render(&files_twice, &Default::default(), &Chain::default());
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), &rendered).unwrap_err().to_string().contains("Secret key twice"));
        let broken = format!(
            "{FILES}---\n{{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {{name: o}}, spec: {{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}], overrideRules: [{{overriders: {{plaintext: [{{path: /spec/no/such, operator: remove}}]}}}}]}}}}\n"
        );
        let broken = files(&broken).unwrap();
        let rendered = render(&broken, &Default::default(), &Chain::default());
        let told = unmade(&broken, &rendered);
        assert!(told.len() == 1 && told[0].starts_with("Deployment web for north: "), "{told:?}");
    }

    #[test]
    fn a_residency_rule_of_the_files_keeps_objects_out_of_clusters() {
        let rule = |kind: &str| {
            format!(
                "{FILES}---\n{{apiVersion: edge.karmada.io/v1alpha1, kind: ResidencyRule, metadata: {{name: home}}, spec: {{resourceSelectors: [{{apiVersion: {kind}}}], clusterAffinity: {{clusterNames: [elsewhere]}}}}}}\n"
            )
        };
        let told = |kind: &str| {
            let files = files(&rule(kind)).unwrap();
            let rendered = render(&files, &Default::default(), &Chain::default());
            (unmade(&files, &rendered), rendered[0].review.message.clone())
        };
        let (unmade, message) = told("v1, kind: Secret");
        assert_eq!(unmade, ["Secret key for north: residency rule home does not allow it there"]);
        assert_eq!(message, "");
        let (_, message) = told("apps/v1, kind: Deployment");
        assert!(message.contains("did not match residency rule home"), "{message}");
    }

    #[test]
    fn a_clusters_status_may_be_anything() {
        assert!(files("{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a}, spec: {syncMode: Pull}, status: x}").is_ok());
    }

    #[test]
    fn a_manifest_never_leaves_its_clusters_folder() {
        let text = FILES
            .replace("metadata: {name: key}", "metadata: {name: ../../key}")
            .replace("secretRef: {name: key}", "secretRef: {name: ../../key}");
        let files = files(&text).unwrap();
        let rendered = render(&files, &Default::default(), &Chain::default());
        assert_eq!(rendered[1].review.works.len(), 1);
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), &rendered).unwrap_err().to_string().contains("no name of a file"));
    }
}
