//! How a manifest differs from cluster to cluster.
//!
//! In: a manifest, a cluster, the override policies. Out: the changed manifest and which policies changed it, or why
//! one of them cannot be applied: then nothing is sent to that cluster.

mod containers;
mod field;
mod image;

use std::borrow::Borrow;

use json_patch::PatchOperation;
use karmada_api::binding::ObjectReference;
use karmada_api::cluster::{Cluster, ClusterSpec};
use karmada_api::object;
use karmada_api::override_policy::{
    FieldPatchOperation, LabelAnnotationOverrider, Operator, OverridePolicy, Overriders, PlaintextOverrider,
    RuleWithCluster,
};
use karmada_api::policy::ResourceSelector;
use karmada_api::selector::affinity_matches;
use karmada_schema::patch::{PatchBudget, PatchError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::detector::{self, Rank, Subject};

/// Why an override cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("override policy {policy}: {message}")]
pub struct OverrideError {
    /// The policy.
    pub policy: String,
    /// What is wrong.
    pub message: String,
}

/// The rules that were applied, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// One per matching rule.
    pub applied_items: Vec<AppliedItem>,
}

/// One rule that was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedItem {
    /// The policy.
    pub policy_name: String,
    /// What it changed.
    pub overriders: Overriders,
}

impl Applied {
    /// The names of the policies, one per rule.
    pub fn names(&self) -> Vec<&str> {
        self.applied_items.iter().map(|item| item.policy_name.as_str()).collect()
    }

    /// As JSON which policies, each once, and not what they changed; no more of them than take so many bytes.
    pub fn names_alone(&self, most: usize) -> String {
        let mut names = self.names();
        names.dedup();
        let mut room = most;
        let fits = |name: &&str| {
            let item = name.len() + r#"{"policyName":"","overriders":{}},"#.len();
            room.checked_sub(item).map(|left| room = left).is_some()
        };
        let items = names.into_iter().take_while(fits);
        let items: Vec<Value> = items.map(|name| json!({"policyName": name, "overriders": {}})).collect();
        Value::from(items).to_string()
    }
}

/// What was applied: first cluster-wide policies, then those of the namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppliedOverrides {
    /// ClusterOverridePolicies.
    pub cluster: Applied,
    /// OverridePolicies.
    pub namespaced: Applied,
}

/// Applies every override that means this manifest in this cluster. OverridePolicies of other namespaces may be in
/// the list; they are passed over. Where an override fails, the manifest is to be thrown away.
///
/// # Errors
/// The first override that cannot be applied.
pub fn apply<O: Borrow<OverridePolicy>>(
    manifest: &mut Value,
    cluster: &Cluster,
    cluster_policies: &[O],
    policies: &[O],
) -> Result<AppliedOverrides, OverrideError> {
    let wide = cluster_policies.iter().map(Borrow::borrow);
    let mut room = Room::default();
    let cluster_applied = apply_stage(manifest, cluster, wide, |_| Ok(()), &mut room)?;
    let namespace = object::namespace(manifest).to_owned();
    let near = policies.iter().map(Borrow::borrow);
    let near =
        near.filter(|policy: &&OverridePolicy| !namespace.is_empty() && policy.namespace() == namespace);
    let named = Identity::of(manifest);
    let keeps = |manifest: &Value| named.is_kept_by(manifest);
    let namespaced = apply_stage(manifest, cluster, near, keeps, &mut room)?;
    Ok(AppliedOverrides { cluster: cluster_applied, namespaced })
}

/// Whether an override policy may mean an object of which its kind and place are known, in any cluster and whatever its labels
/// are: whom to look at again when the policy changes.
pub fn may_mean(policy: &OverridePolicy, object: &ObjectReference) -> bool {
    let near = policy.namespace().is_empty() || policy.namespace() == object.namespace;
    let selects = |wanted: &ResourceSelector| {
        wanted.kind == object.kind
            && wanted.api_version == object.api_version
            && (wanted.namespace.is_empty() || wanted.namespace == object.namespace)
            && (wanted.name.is_empty() || wanted.name == object.name)
    };
    let selectors = &policy.spec.resource_selectors;
    near && (selectors.is_empty() || selectors.iter().any(selects))
}

/// Whether policies can see that a cluster is another than it was: by its labels, and where it is.
fn looks_otherwise(before: &Cluster, now: &Cluster) -> bool {
    let seen = |cluster: &Cluster| {
        let ClusterSpec { provider, region, zone, zones, .. } = &cluster.spec;
        ([provider, region, zone].map(Clone::clone), zones.clone())
    };
    before.metadata.labels != now.metadata.labels || seen(before) != seen(now)
}

/// Whether a cluster that changed is meant by a rule of one of these policies and was not, or the other way round. Taints and status change all the time
/// and are nothing to them; `policies` are asked for only where there is more.
pub fn are_other_for<O: Borrow<OverridePolicy>, All: IntoIterator<Item = O>>(
    policies: impl FnOnce() -> All,
    before: &Cluster,
    now: &Cluster,
) -> bool {
    let is_other = |policy: O| {
        let rules = rules(policy.borrow());
        let mut targets = rules.iter().filter_map(|rule| rule.target_cluster.as_ref());
        targets.any(|target| affinity_matches(target, before) != affinity_matches(target, now))
    };
    looks_otherwise(before, now) && policies().into_iter().any(is_other)
}

fn rank(policy: &OverridePolicy, subject: &Subject<'_>) -> Rank {
    if policy.spec.resource_selectors.is_empty() {
        return Rank::All;
    }
    detector::rank(subject, &policy.spec.resource_selectors)
}

/// The rules of a policy, its deprecated form included.
fn rules(policy: &OverridePolicy) -> Vec<RuleWithCluster> {
    if !policy.spec.override_rules.is_empty() {
        return policy.spec.override_rules.clone();
    }
    vec![RuleWithCluster {
        target_cluster: policy.spec.target_cluster.clone(),
        overriders: policy.spec.overriders.clone(),
    }]
}

/// Which object a manifest is, and what it grants.
struct Identity {
    named: String,
    /// Of a Role or RoleBinding: everything but its metadata.
    grants: Option<Value>,
}

impl Identity {
    fn of(manifest: &Value) -> Self {
        let [api_version, kind] = ["apiVersion", "kind"].map(|field| manifest[field].to_string());
        let [namespace, name] = ["namespace", "name"].map(|field| manifest["metadata"][field].to_string());
        let named = format!("apiVersion {api_version}, kind {kind}, namespace {namespace}, name {name}");
        let (group, _) = object::group_version(object::api_version(manifest));
        let grants = (group == "rbac.authorization.k8s.io").then(|| {
            let mut granted = manifest.clone();
            granted.as_object_mut().and_then(|fields| fields.remove("metadata"));
            granted
        });
        Self { named, grants }
    }

    /// Whoever may write an OverridePolicy has rights in one namespace and over the kinds that are theirs; the agent that applies the manifest may
    /// apply any, and no rule against escalation judges there what it grants. Making another object of it, or one that grants something else,
    /// is left to ClusterOverridePolicies.
    fn is_kept_by(&self, manifest: &Value) -> Result<(), String> {
        let made = Self::of(manifest);
        if made.named != self.named {
            let (made, own) = (made.named, &self.named);
            return Err(format!(
                "it makes another object ({made}) of this one ({own}), which a ClusterOverridePolicy alone may do"
            ));
        }
        if made.grants != self.grants {
            return Err(
                "it changes what this object grants, which a ClusterOverridePolicy alone may do".to_owned()
            );
        }
        Ok(())
    }
}

/// What all policies together may do to one manifest.
#[derive(Debug, Default)]
struct Room {
    texts: field::ReadBudget,
    patches: PatchBudget,
}

/// One stage: `allows` judges what each rule made. Matching comes before any change, weaker policies before stronger ones, so that the stronger win.
fn apply_stage<'a>(
    manifest: &mut Value,
    cluster: &Cluster,
    policies: impl Iterator<Item = &'a OverridePolicy>,
    allows: impl Fn(&Value) -> Result<(), String>,
    room: &mut Room,
) -> Result<Applied, OverrideError> {
    let subject = Subject::of(manifest);
    let mut matching: Vec<(Rank, &OverridePolicy)> = policies
        .map(|policy| (rank(policy, &subject), policy))
        .filter(|(rank, _)| *rank != Rank::None)
        .collect();
    matching.sort_by(|(a_rank, a), (b_rank, b)| a_rank.cmp(b_rank).then(a.name().cmp(b.name())));
    let mut applied = Applied::default();
    for (_, policy) in matching {
        for rule in rules(policy) {
            let here = rule.target_cluster.as_ref().is_none_or(|target| affinity_matches(target, cluster));
            if !here {
                continue;
            }
            let outcome = apply_overriders(manifest, &rule.overriders, room).and_then(|()| allows(manifest));
            outcome.map_err(|message| OverrideError {
                policy: karmada_api::names::namespaced_key(policy.namespace(), policy.name()),
                message,
            })?;
            applied
                .applied_items
                .push(AppliedItem { policy_name: policy.name().to_owned(), overriders: rule.overriders });
        }
    }
    Ok(applied)
}

/// All changes of one rule, in the order that the API promises.
fn apply_overriders(manifest: &mut Value, overriders: &Overriders, room: &mut Room) -> Result<(), String> {
    overriders.image_overrider.iter().try_for_each(|overrider| image::apply(manifest, overrider))?;
    overriders.command_overrider.iter().for_each(|o| containers::apply(manifest, o, "command"));
    overriders.args_overrider.iter().for_each(|o| containers::apply(manifest, o, "args"));
    overriders.labels_overrider.iter().for_each(|o| apply_map(manifest, o, "labels"));
    overriders.annotations_overrider.iter().for_each(|o| apply_map(manifest, o, "annotations"));
    overriders.field_overrider.iter().try_for_each(|overrider| field::apply(manifest, overrider, room))?;
    apply_plaintext(manifest, &overriders.plaintext, &mut room.patches)
}

/// Labels and annotations: add sets, replace sets what is there, remove removes.
fn apply_map(manifest: &mut Value, overrider: &LabelAnnotationOverrider, map: &str) {
    let metadata = object::metadata(manifest);
    if overrider.operator != Operator::Add && !metadata.get(map).is_some_and(Value::is_object) {
        return;
    }
    let entries = object::child(metadata, map);
    for (key, value) in &overrider.value {
        match overrider.operator {
            Operator::Remove => drop(entries.remove(key)),
            Operator::Replace if !entries.contains_key(key) => {}
            Operator::Add | Operator::Replace => {
                entries.insert(key.clone(), Value::from(value.as_str()));
            }
        }
    }
}

/// A JSON patch operation; a value that is absent is null.
fn operation(operator: Operator, path: &str, value: Option<&Value>) -> Value {
    let value = value.cloned().unwrap_or(Value::Null);
    match operator {
        Operator::Add => json!({"op": "add", "path": path, "value": value}),
        Operator::Replace => json!({"op": "replace", "path": path, "value": value}),
        Operator::Remove => json!({"op": "remove", "path": path}),
    }
}

/// Applies operations to a document, which is to be thrown away where they fail. Anybody who may write a policy may write operations that wrap a document
/// level by level, or move long lists again and again.
fn patch(document: &mut Value, operations: Vec<Value>, room: &mut PatchBudget) -> Result<(), String> {
    let operations: Vec<PatchOperation> = operations
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not a JSON patch: {error}"))?;
    room.apply(document, operations).map_err(|error| match error {
        PatchError::Unprocessable { cause } => cause,
        other => other.to_string(),
    })
}

fn patch_fields(
    document: &mut Value,
    operations: &[FieldPatchOperation],
    room: &mut PatchBudget,
) -> Result<(), String> {
    let operations = operations.iter().map(|o| operation(o.operator, &o.sub_path, o.value.as_ref()));
    patch(document, operations.collect(), room)
}

fn apply_plaintext(
    manifest: &mut Value,
    overriders: &[PlaintextOverrider],
    room: &mut PatchBudget,
) -> Result<(), String> {
    if overriders.is_empty() {
        return Ok(());
    }
    let operations = overriders.iter().map(|o| operation(o.operator, &o.path, o.value.as_ref()));
    patch(manifest, operations.collect(), room)?;
    if object::kind(manifest).is_empty() {
        return Err("the manifest has no kind any more".to_owned());
    }
    Ok(())
}
