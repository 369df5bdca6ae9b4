//! Whether the member that a person pointed at is the one of the cluster that leaves: the wrong context is an easy mistake, and takes
//! another cluster's agent away with its identity. In: the hub, the member. Out: nothing, or why not.
//!
//! A hub is known by its CA: what the agent was joined by, or trusts now, must be of the CAs that the hub is known by.

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_certs::Pin;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use crate::connection::{ApiError, Connection};
use crate::register::manifests::{self, AGENT, IDENTITY};

/// The member that was reached is another one than the hub means.
#[derive(Debug, thiserror::Error)]
pub enum Another {
    /// It is another cluster.
    #[error(
        "the cluster in context {context} is not {cluster}: its kube-system has the uid {found}, and the hub knows {cluster} by {known}: \
         check --context and the name. If {cluster} is gone for good, --force takes it from the hub and leaves this one alone"
    )]
    Cluster {
        /// By which it was reached.
        context: String,
        /// The name that was given.
        cluster: String,
        /// The member's uid.
        found: String,
        /// The hub's.
        known: String,
    },
    /// Its agent is of another hub.
    #[error(
        "the agent in context {context} is that of another hub{}, not of {hub}: check --context and --karmada-config. If {cluster} of this \
         hub is gone for good, --force takes it from this hub and leaves the member alone", at(.joined)
    )]
    Hub {
        /// By which it was reached.
        context: String,
        /// The name that was given.
        cluster: String,
        /// Where its agent's hub is, where that is known.
        joined: Option<String>,
        /// The hub that is spoken with.
        hub: String,
    },
}

fn at(joined: &Option<String>) -> String {
    joined.as_ref().map(|hub| format!(" ({hub})")).unwrap_or_default()
}

/// The hub, and whether it answers.
#[derive(Clone, Copy)]
pub struct Hub<'a> {
    pub api: &'a Connection,
    pub is_away: bool,
}

impl Hub<'_> {
    /// What is at `path`, if the hub answers and there is anything.
    async fn find(&self, path: &str) -> Result<Option<Value>, ApiError> {
        if self.is_away { Ok(None) } else { self.api.find(path).await }
    }

    /// The CAs that it is known by: those that the kubeconfig trusts, and those that it publishes.
    async fn pins(&self) -> Vec<Pin> {
        let published = self.find("/api/v1/namespaces/kube-public/configmaps/cluster-info").await;
        let mut pins = published.ok().flatten().map(|info| published_pins(&info)).unwrap_or_default();
        pins.extend(self.api.ca.as_deref().map(pins_of).unwrap_or_default());
        pins
    }
}

/// Of each certificate in `pem`.
fn pins_of(pem: &str) -> Vec<Pin> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates.filter_map(|certificate| Pin::of_certificate(&certificate.ok()?).ok()).collect()
}

fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(BASE64.decode(value.as_str()?.trim()).ok()?).ok()
}

fn published_pins(info: &Value) -> Vec<Pin> {
    let kubeconfig: Option<Value> =
        info["data"]["kubeconfig"].as_str().and_then(|text| serde_json::from_str(text).ok());
    let trusted =
        kubeconfig.and_then(|found| decoded(&found["clusters"][0]["cluster"]["certificate-authority-data"]));
    trusted.map(|pem| pins_of(&pem)).unwrap_or_default()
}

/// The CAs that the agent trusts, by what it noted when it joined and since.
fn trusted_pins(identity: &Value) -> Vec<Pin> {
    let noted = decoded(&identity["data"]["identity.json"]);
    let noted: Option<Value> = noted.and_then(|text| serde_json::from_str(&text).ok());
    noted.and_then(|noted| Some(pins_of(noted["ca_bundle"].as_str()?))).unwrap_or_default()
}

/// Whether an agent that trusts these CAs may belong to the hub with those. True where either list is empty: nothing is known then.
fn is_of(agent: &[Pin], hub: &[Pin]) -> bool {
    agent.is_empty() || hub.is_empty() || agent.iter().any(|pin| hub.contains(pin))
}

/// An error where `member` is not the one of `cluster`, or its agent is in another namespace or of another hub. An agent that is gone
/// already, of a removal that was interrupted, is none.
pub async fn refuse(hub: Hub<'_>, member: &Connection, namespace: &str, cluster: &str) -> Result<()> {
    let context = member.chosen.context.clone();
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}");
    let known = hub.find(&path).await?.map(|found| text(&found["spec"]["id"])).unwrap_or_default();
    let found = member.find("/api/v1/namespaces/kube-system").await?;
    let found = found.map(|found| text(&found["metadata"]["uid"])).unwrap_or_default();
    if !known.is_empty() && !found.is_empty() && known != found {
        return Err(Another::Cluster { context, cluster: cluster.to_owned(), found, known }.into());
    }
    // There is one agent in a cluster, and its binding tells where.
    let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{AGENT}");
    let binding = member.find(&binding).await?;
    let home = binding.map(|binding| text(&binding["subjects"][0]["namespace"])).unwrap_or_default();
    let home = if home.is_empty() { namespace } else { &home };
    let deployment = member.find(&format!("/apis/apps/v1/namespaces/{home}/deployments/{AGENT}")).await?;
    let installed = deployment.as_ref().map(manifests::installed);
    let joined = installed.clone().flatten();
    match installed {
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
        _ => {}
    }
    let identity = member.find(&format!("/api/v1/namespaces/{home}/secrets/{IDENTITY}")).await?;
    let mut agent = identity.as_ref().map(trusted_pins).unwrap_or_default();
    agent.extend(joined.as_ref().and_then(|joined| joined.pin.parse::<Pin>().ok()));
    if is_of(&agent, &hub.pins().await) {
        return Ok(());
    }
    let (cluster, server) = (cluster.to_owned(), hub.api.server.clone());
    Err(Another::Hub { context, cluster, joined: joined.map(|joined| joined.hub), hub: server }.into())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_of_the_hub_whose_ca_it_trusts_or_of_one_that_nobody_knows() {
        let (old, new, other) = (Pin::of_spki(b"old"), Pin::of_spki(b"new"), Pin::of_spki(b"other"));
        for (agent, hub, is_of_it) in [
            (&[old][..], &[old][..], true),
            (&[old, new], &[new, other], true),
            (&[old], &[other], false),
            (&[], &[other], true),
            (&[old], &[], true),
        ] {
            assert_eq!(is_of(agent, hub), is_of_it);
        }
        assert!(trusted_pins(&serde_json::json!({"data": {"identity.json": "no"}})).is_empty());
        assert!(published_pins(&serde_json::json!({"data": {"kubeconfig": "no: json"}})).is_empty());
    }
}
