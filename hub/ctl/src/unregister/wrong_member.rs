//! Whether the member that a person pointed at is the one of the cluster that leaves: the wrong context is an easy mistake, and takes
//! another cluster's agent away with its identity. In: the hub, the member. Out: nothing, or why not.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::connection::Connection;
use crate::register::manifests::{self, AGENT};

/// The hub knows the cluster as another one than the member that was reached.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cluster in context {context} is not {cluster}: its kube-system has the uid {found}, and the hub knows {cluster} by {known}: \
     check --context and the name. If {cluster} is gone for good, --force takes it from the hub and leaves this one alone"
)]
pub struct Another {
    context: String,
    cluster: String,
    found: String,
    known: String,
}

/// An error where `member` is not the one of `cluster`, or its agent is in another namespace. An agent that is gone already, of a
/// removal that was interrupted, is none.
pub async fn refuse(hub: &Connection, member: &Connection, namespace: &str, cluster: &str) -> Result<()> {
    let context = member.chosen.context.clone();
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}");
    let known = hub.find(&path).await?.map(|found| text(&found["spec"]["id"])).unwrap_or_default();
    let found = member.find("/api/v1/namespaces/kube-system").await?;
    let found = found.map(|found| text(&found["metadata"]["uid"])).unwrap_or_default();
    if !known.is_empty() && !found.is_empty() && known != found {
        return Err(Another { context, cluster: cluster.to_owned(), found, known }.into());
    }
    // There is one agent in a cluster, and its binding tells where.
    let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{AGENT}");
    let binding = member.find(&binding).await?;
    let home = binding.map(|binding| text(&binding["subjects"][0]["namespace"])).unwrap_or_default();
    let home = if home.is_empty() { namespace } else { &home };
    let deployment = member.find(&format!("/apis/apps/v1/namespaces/{home}/deployments/{AGENT}")).await?;
    match deployment.as_ref().map(manifests::installed) {
        Some(Some(found)) if found.cluster != cluster => bail!(
            "the agent in context {context}, namespace {home}, is that of the cluster {}, not of {cluster}: check --context and the name",
            found.cluster
        ),
        Some(None) => {
            bail!("the Deployment {home}/{AGENT} in context {context} was not made by karmadactl")
        }
        _ if home != namespace => {
            bail!("the agent in context {context} is in the namespace {home}: give -n {home}")
        }
        _ => Ok(()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
