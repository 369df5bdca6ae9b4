//! LinkPolicy: how the hub deals with the links of some clusters. What nothing acts on yet is not read here.
//!
//! Types alone, read as JSON. One thing is decided here: a `within` that is no duration between a second and a day is none.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};

/// A policy; cluster-scoped, without a status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkPolicy {
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which clusters, and how.
    #[serde(default)]
    pub spec: LinkPolicySpec,
}

impl LinkPolicy {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Which clusters, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkPolicySpec {
    /// The clusters, by their labels; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
    /// Of several that select a cluster the one of the highest priority holds.
    #[serde(default)]
    pub priority: i32,
    /// How much may be taken away at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes: Option<Deletes>,
}

/// How many Works a change of placement may take from a cluster without a person's word: more than both bounds within the time wait, and
/// always what takes others along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletes {
    /// Works.
    pub max_objects: u32,
    /// Works in a hundred of those that were placed in the cluster.
    pub max_percent: u32,
    /// The time, as Go writes durations.
    pub within: String,
}

impl Default for Deletes {
    fn default() -> Self {
        Deletes { max_objects: 10, max_percent: 20, within: "60s".to_owned() }
    }
}

impl Deletes {
    /// The time in seconds: at least one, and a day at most. `None` where it cannot be read, or is none of these.
    pub fn within_seconds(&self) -> Option<u32> {
        let span: jiff::SignedDuration = self.within.parse().ok()?;
        u32::try_from(span.as_secs()).ok().filter(|seconds| (1..=86_400).contains(seconds))
    }
}
