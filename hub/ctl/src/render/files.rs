//! The objects of files, by what they are to a hub: completed as it completes them, and checked.
//!
//! In: files or folders of YAML and JSON. Out: templates, policies, clusters, rules and customizations; or what is wrong with an object, by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use karmada_api::admission::{self, Context, Operation};
use karmada_api::residency_rule::ResidencyRule;
use karmada_api::{CLUSTER_GROUP, EDGE_GROUP, POLICY_GROUP, object};
use karmada_core::placement_review::files::Files;
use karmada_core::residency::Rules;
use karmada_lua::{Customization, validation};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::name;
use crate::placement;

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

/// An object, and the file that it is in.
pub(super) type Found = (PathBuf, Value);

/// The objects of a file, or of all YAML and JSON files below a folder, in the order of their names.
pub(super) fn read(path: &Path) -> Result<Vec<Found>> {
    if !path.is_dir() {
        let text = placement::read(path)?;
        let objects = placement::objects(&text).with_context(|| path.display().to_string())?;
        return Ok(objects.into_iter().map(|object| (path.to_owned(), object)).collect());
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

/// The file that a template is in. What had no namespace there has the usual one by now.
pub(super) fn file_of<'a>(found: &'a [Found], template: &Value) -> &'a Path {
    let namespace = object::namespace(template);
    let is = |object: &Value| {
        let own = object::namespace(object);
        object::kind(object) == object::kind(template)
            && object::api_version(object) == object::api_version(template)
            && object::name(object) == object::name(template)
            && (own == namespace || (own.is_empty() && namespace == "default"))
    };
    found.iter().find(|(_, object)| is(object)).map_or(Path::new(""), |(file, _)| file)
}

/// What files hold.
#[derive(Default)]
pub(super) struct Held {
    /// What is placed, and by what.
    pub(super) files: Files,
    /// Who reads kinds that are not known without them.
    pub(super) customizations: Vec<Customization>,
}

/// The objects by what they are, completed as a hub completes them, and checked.
pub(super) fn sorted(objects: Vec<Value>, now: Timestamp) -> Result<Held> {
    let (scopes, defined) = scopes(&objects);
    let Held { mut files, mut customizations } = Held::default();
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
            ("config.karmada.io", "ResourceInterpreterCustomization") => {
                customizations.push(customized(&one, &customizations)?);
            }
            ("config.karmada.io", _) => {
                bail!("{}: webhooks are not asked here: take it out of the files", name(&one))
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
    Ok(Held { files, customizations })
}

/// A customization that a hub would take beside these.
fn customized(one: &Value, others: &[Customization]) -> Result<Customization> {
    let what = name(one);
    let customization = Customization::of(one);
    ensure!(others.iter().all(|other| other.name != customization.name), "{what} is there twice");
    ensure!(
        !customization.api_version.is_empty() && !customization.kind.is_empty(),
        "{what} is invalid: spec.target needs an apiVersion and a kind"
    );
    // What is written as it is read is what a hub reads of it.
    let read = customization.object();
    let members = one.pointer("/spec/customizations").and_then(Value::as_object).into_iter().flatten();
    let of =
        |member: &str| read.pointer("/spec/customizations").is_some_and(|read| read.get(member).is_some());
    let unread: Vec<&str> = members.map(|(member, _)| &**member).filter(|member| !of(member)).collect();
    ensure!(
        unread.is_empty(),
        "{what} is invalid: in spec.customizations.{} there is no luaScript, or it is nothing that is asked",
        unread.join(", spec.customizations.")
    );
    validation::check(&customization, others).map_err(|why| anyhow::anyhow!("{what} is forbidden: {why}"))?;
    Ok(customization)
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
    let context = Context { now, new_uuid: &|| ID.to_owned(), grades: Default::default() };
    admission::mutate(group, &kind, Operation::Create, &mut one, None, &context);
    let mut wrong = admission::validate(group, &kind, Operation::Create, &one, None);
    if matches!(&*kind, "PropagationPolicy" | "ClusterPropagationPolicy") && !object::deleting(&one) {
        wrong.extend(karmada_placement_expressions::validate(&one, None));
    }
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
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = Default::default();
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
