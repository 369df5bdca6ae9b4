//! OverridePolicy and ClusterOverridePolicy: how a manifest differs from cluster to cluster.
//!
//! Types alone, read and written as JSON; what an operation does is in `hub/core`, which of them may be stored in [`crate::validation`].
//!
//! Both kinds have the same spec and no status. Values of overriders stay plain JSON.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::{ClusterAffinity, ResourceSelector};

/// An override policy of either kind; `kind` and `metadata.namespace` tell which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverridePolicy {
    /// `policy.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `OverridePolicy` or `ClusterOverridePolicy`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rules.
    pub spec: OverrideSpec,
}

/// The spec of both kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// Which resources; absent means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Deprecated form: the clusters of the one rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Deprecated form: the one rule.
    #[serde(default, skip_serializing_if = "Overriders::is_empty")]
    pub overriders: Overriders,
}

/// What changes in a set of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// Which clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// What changes.
    #[serde(default)]
    pub overriders: Overriders,
}

/// Changes, applied in the order image, command, args, labels, annotations, field, plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// JSON patch operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Changes of image names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes of commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes of arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes inside texts that hold JSON or YAML.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

impl Overriders {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What an overrider does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// Adds.
    #[default]
    Add,
    /// Removes.
    Remove,
    /// Replaces.
    Replace,
}

/// One JSON patch operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// JSON pointer.
    pub path: String,
    /// Operation.
    pub operator: Operator,
    /// Value; absent adds null.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub value: Option<Value>,
}

/// Reads a present null as a value, unlike an absent field.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A change of a part of image names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Which image; absent means all containers of a known workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// Which part.
    pub component: ImageComponent,
    /// What happens to it.
    pub operator: Operator,
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Where an image name stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// JSON pointer to the image name.
    pub path: String,
}

/// A part of an image name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageComponent {
    /// `registry.example:5000`.
    #[default]
    Registry,
    /// `library/nginx`.
    Repository,
    /// The tag, or the digest.
    Tag,
}

/// A change of a container's command or arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// The container.
    pub container_name: String,
    /// Add or remove.
    pub operator: Operator,
    /// The words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// What happens.
    pub operator: Operator,
    /// Keys and values.
    #[serde(default)]
    pub value: BTreeMap<String, String>,
}

/// A change inside a text that holds JSON or YAML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// JSON pointer to the text.
    pub field_path: String,
    /// Operations on it read as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<FieldPatchOperation>,
    /// Operations on it read as YAML.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<FieldPatchOperation>,
}

/// One operation inside a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldPatchOperation {
    /// JSON pointer inside the text.
    pub sub_path: String,
    /// Operation.
    pub operator: Operator,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub value: Option<Value>,
}

impl OverridePolicy {
    /// Name of the policy.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Namespace of the policy, empty for a ClusterOverridePolicy.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("")
    }
}
