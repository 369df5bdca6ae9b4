//! ResidencyRule: objects that are in some clusters and never in others, whoever puts them there.
//!
//! Types alone, read and written as JSON: the hub refuses what a rule forbids by the spec, and counts in the status what stood there
//! before.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::omitempty::is_zero;
use crate::policy::{ClusterAffinity, ResourceSelector};

/// A rule; cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResidencyRule {
    /// `edge.karmada.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `ResidencyRule`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which objects, and where they may be.
    pub spec: ResidencyRuleSpec,
    /// Where they are all the same.
    #[serde(default, skip_serializing_if = "ResidencyRuleStatus::is_empty")]
    pub status: ResidencyRuleStatus,
}

impl ResidencyRule {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Which objects, and where they may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResidencyRuleSpec {
    /// Which objects; one match is enough. None: all that are in the namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Only what is in these namespaces; empty: wherever it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The clusters in which these objects may be.
    pub cluster_affinity: ClusterAffinity,
}

/// What of the rule does not hold yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResidencyRuleStatus {
    /// The generation of the rule that this was said of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// How many Works hold such objects in clusters that the rule does not allow.
    #[serde(default)]
    pub violating_works: i64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<ResidencyViolation>,
    /// `Compliant`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl ResidencyRuleStatus {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A Work in a cluster that a rule does not allow.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResidencyViolation {
    /// The cluster.
    #[serde(default)]
    pub cluster: String,
    /// The name of the Work, in the cluster's namespace.
    #[serde(default)]
    pub work: String,
    /// The first object in it that the rule covers, as `Secret shop/db`.
    #[serde(default)]
    pub object: String,
}
