//! What must hold before a member is touched. In: the member and the installation. Out: an error that says what stands in the way.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::connection::{ApiError, Connection, object_path};
use crate::register::manifests::{AGENT, Installation, Installed, installed, token_id};
use crate::register::permissions::Profile;

/// The group that only a Karmada control plane serves.
const CONTROL_PLANE: &str = "cluster.karmada.io";

/// What is in the member already.
pub struct Found {
    /// The agent's Deployment.
    pub deployment: Option<Value>,
    /// Whether that agent has its identity.
    joined: bool,
}

impl Found {
    /// An agent that has joined with this very token needs it no more.
    pub fn needs_token(&self, installation: &Installation) -> bool {
        let before = self.deployment.as_ref().and_then(token_id);
        !(self.joined && before == Some(installation.token.id()))
    }
}

/// Refuses a Karmada control plane: the hub's own kubeconfig is the easiest mistake, and an agent there would place the fleet's
/// objects into the hub that they come from.
pub async fn not_a_hub(member: &Connection) -> Result<()> {
    let served = member.get("/apis").await?;
    if serves_control_plane(&served) {
        bail!(
            "{} (context {}) is a Karmada control plane, as it serves {CONTROL_PLANE}, and no member: run this with the \
             kubeconfig of the cluster that is to join, by --kubeconfig FILE and --context NAME, or in KUBECONFIG",
            member.server,
            member.chosen.context
        );
    }
    Ok(())
}

/// Whether an APIGroupList holds what a hub alone serves.
fn serves_control_plane(groups: &Value) -> bool {
    let groups = groups["groups"].as_array().into_iter().flatten();
    groups.into_iter().any(|group| group["name"] == CONTROL_PLANE)
}

/// Reachable, allowed, and free for this hub's agent.
pub async fn check(member: &Connection, installation: &Installation) -> Result<Found> {
    let missing = missing_permissions(member, installation).await?;
    if !missing.is_empty() {
        bail!(
            "the member's kubeconfig (context {}) may not {}: use one of a cluster administrator",
            member.chosen.context,
            missing.join(", ")
        );
    }
    for namespace in std::iter::once(&installation.namespace).chain(&installation.workload_namespaces) {
        let found = member.find(&format!("/api/v1/namespaces/{namespace}")).await?;
        if found.is_some_and(|found| !found["metadata"]["deletionTimestamp"].is_null()) {
            bail!("the member's namespace {namespace} is being deleted: run this again when it is gone");
        }
    }
    let deployment = member.find(&object_path(&installation.deployment())).await?;
    let mut joined = false;
    if let Some(live) = &deployment {
        // One that never joined is nobody's: a mistyped hash or name is put right by the next run.
        let identity = member.find(&object_path(&installation.identity_secret())).await?.unwrap_or_default();
        joined = identity["data"].get("identity.json").is_some();
        let found = installed(live);
        if joined || found.is_none() {
            same_agent(found.as_ref(), installation)?;
        }
    }
    let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{AGENT}");
    if let Some(binding) = member.find(&binding).await? {
        same_namespace(&binding, &installation.namespace)?;
    }
    Ok(Found { deployment, joined })
}

/// An agent that is there must be of this hub and this name.
fn same_agent(found: Option<&Installed>, wanted: &Installation) -> Result<()> {
    let namespace = &wanted.namespace;
    let Some(found) = found else {
        bail!(
            "{namespace} holds a Deployment {AGENT} that karmadactl did not make (upstream Karmada's agent?): unregister the \
             cluster there first, or install elsewhere with -n"
        );
    };
    if found.pin != wanted.pin.to_string() {
        bail!(
            "this cluster already has an agent of another hub ({}, as {}): run karmadactl unregister {} against that hub first \
             (with --force if it is gone)",
            found.hub,
            found.cluster,
            found.cluster
        );
    }
    if found.cluster != wanted.cluster {
        bail!(
            "this cluster is already registered at this hub as {}: use --cluster-name {}, or karmadactl unregister {} first",
            found.cluster,
            found.cluster,
            found.cluster
        );
    }
    Ok(())
}

fn same_namespace(binding: &Value, namespace: &str) -> Result<()> {
    match binding["subjects"][0]["namespace"].as_str() {
        Some(other) if other != namespace => bail!(
            "this cluster already has an agent in the namespace {other}: use -n {other}, or unregister it there first"
        ),
        _ => Ok(()),
    }
}

/// What the user may not do, in words. A server without access reviews tells nothing, and then the writes themselves will tell.
async fn missing_permissions(member: &Connection, installation: &Installation) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for (verb, group, resource, namespace) in needed(installation) {
        let attributes = json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        match member.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await {
            Ok(answer) if answer["status"]["allowed"] == true => {}
            Ok(_) if resource == "*" => {
                missing.push("grant every permission, which the profile full needs".to_owned());
            }
            Ok(_) => missing.push(format!("{verb} {resource}")),
            Err(ApiError::Refused { code: 403..=405, .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(missing)
}

/// (verb, group, resource, namespace): one for each kind, and everything for an agent that is to hold everything.
fn needed(installation: &Installation) -> Vec<(&'static str, &'static str, &'static str, String)> {
    let rbac = "rbac.authorization.k8s.io";
    let own = || installation.namespace.clone();
    let mut all = vec![
        ("create", "", "namespaces", String::new()),
        ("create", "", "serviceaccounts", own()),
        ("create", "", "secrets", own()),
        ("create", rbac, "clusterroles", String::new()),
        ("create", rbac, "clusterrolebindings", String::new()),
        ("create", rbac, "roles", own()),
        ("create", rbac, "rolebindings", own()),
        ("create", "apps", "deployments", own()),
        ("patch", "apps", "deployments", own()),
    ];
    if installation.profile == Profile::Full {
        all.push(("*", "*", "*", String::new()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_certs::{JoinToken, Pin};

    #[test]
    fn an_agent_of_another_hub_or_name_stands_in_the_way() {
        let pin = Pin::of_spki(b"key");
        let wanted = Installation {
            namespace: "karmada-system".into(),
            cluster: "shop".into(),
            hub: "hub:5443".parse().unwrap(),
            pin,
            token: JoinToken::parse("abcdef.0123456789abcdef").unwrap(),
            image: "i".into(),
            replicas: 1,
            profile: Profile::Full,
            workload_namespaces: Vec::new(),
            provider: None,
            region: None,
            zones: Vec::new(),
        };
        let found = |pin: &Pin, cluster: &str| Installed {
            hub: "old:5443".into(),
            pin: pin.to_string(),
            cluster: cluster.into(),
        };
        assert!(same_agent(Some(&found(&pin, "shop")), &wanted).is_ok());
        for (found, says) in [
            (Some(found(&Pin::of_spki(b"other"), "store")), "unregister store against that hub"),
            (Some(found(&pin, "store")), "--cluster-name store"),
            (None, "upstream"),
        ] {
            let error = same_agent(found.as_ref(), &wanted).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let binding = json!({"subjects": [{"namespace": "elsewhere"}]});
        assert!(same_namespace(&binding, "karmada-system").unwrap_err().to_string().contains("-n elsewhere"));
        assert!(same_namespace(&binding, "elsewhere").is_ok());
    }
}
