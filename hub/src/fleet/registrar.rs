//! Who may join the fleet, and which identity speaks for which cluster.
//!
//! A join token lets its holder ask for one identity and nothing else: the hub makes the Cluster, its execution namespace, its
//! RBAC and the certificate itself. The Cluster remembers the key it was given to; an older key for the same name is refused.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use karmada_api::names::execution_namespace;
use karmada_apiserver::auth::agent_roles;
use karmada_apiserver::object::{ObjectKey, Stored, meta};
use karmada_apiserver::registry::{Registry, Standing, User, WriteOptions};
use karmada_apiserver::resource::ResourceDefinition;
use karmada_apiserver::status::Status;
use karmada_certs::{PeerIdentity, agent_subject};
use karmada_gateway::ports::{
    JoinAsk, JoinGrant, JoinOutcome, JoinRefusal, JoinRefusalCode, PortError, Registrar, SessionRefusal,
};
use serde_json::{Value, json};

use crate::data_dir::DataDir;

/// An agent's certificate; renewed in-band long before it ends.
const AGENT_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Which keys the Cluster's identity was given to: the newest, and, after a renewal, the one before it, which an agent that
/// crashed before it stored the new one still holds.
const KEY: &str = "edge.karmada.io/agent-key";

/// Secret key: how many more joins the token is good for; absent for any number.
const USES: &str = "uses-left";

/// The group that a token must carry to let agents join.
const JOINERS: &str = "system:bootstrappers:karmada:default-cluster-token";

/// The registrar of one hub.
pub struct HubRegistrar {
    registry: Arc<Registry>,
    data: Arc<DataDir>,
    endpoints: Vec<String>,
}

impl HubRegistrar {
    /// A registrar that hands out `endpoints` (`host:port`) to agents.
    pub fn new(registry: Arc<Registry>, data: Arc<DataDir>, endpoints: Vec<String>) -> Self {
        HubRegistrar { registry, data, endpoints }
    }

    fn clusters(&self) -> Result<Arc<ResourceDefinition>, Status> {
        self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")
    }

    /// Whether the token exists, holds, and is for joining.
    fn check_token(&self, ask: &JoinAsk) -> Result<(), JoinRefusal> {
        let unknown = || {
            refusal(
                JoinRefusalCode::TokenUnknown,
                "the hub does not know this token: it was mistyped, deleted, made on another hub, or ended more than a day ago",
            )
        };
        let secrets = self.registry.definition("", "v1", "secrets").map_err(|_| unknown())?;
        let name = format!("bootstrap-token-{}", ask.token.id());
        let secret = self.registry.get(&secrets, "kube-system", &name).map_err(|_| unknown())?.value();
        let field = |key: &str| token_field(&secret, key);
        if !ask.token.secret_is(&field("token-secret")) || field("usage-bootstrap-authentication") != "true" {
            return Err(unknown());
        }
        let expiration = field("expiration");
        if !expiration.is_empty()
            && expiration.parse::<jiff::Timestamp>().is_ok_and(|end| end <= self.registry.now())
        {
            return Err(refusal(
                JoinRefusalCode::TokenExpired,
                "the token has expired: make a new one with karmadactl token create",
            ));
        }
        if field(USES) == "0" {
            return Err(refusal(
                JoinRefusalCode::TokenUsedUp,
                "the token has been used as often as it was made for",
            ));
        }
        if !field("auth-extra-groups").split(',').any(|group| group.trim() == JOINERS) {
            return Err(refusal(JoinRefusalCode::TokenUnknown, "the token is not for joining clusters"));
        }
        Ok(())
    }

    /// Whether the name and the cluster are free, or already each other's.
    fn check_name(&self, ask: &JoinAsk) -> Result<(), JoinRefusal> {
        let Ok(definition) = self.clusters() else {
            return Err(refusal(JoinRefusalCode::JoinUnavailable, "clusters are not served"));
        };
        let all = self.registry.cache().shard(&definition.storage).snapshot("");
        for cluster in &all.items {
            let value = cluster.value();
            let id = value["spec"]["id"].as_str().unwrap_or("").to_owned();
            let (same_name, same_id) = (*cluster.key.name == *ask.cluster_name, id == ask.cluster_uid);
            if same_name && !same_id {
                let text = format!("the name {} is held by the cluster with id {id}", ask.cluster_name);
                return Err(JoinRefusal { holder: Some(id), ..refusal(JoinRefusalCode::NameTaken, &text) });
            }
            if same_id && !same_name {
                let holder = cluster.key.name.to_string();
                let text = format!("this cluster (id {id}) is already registered as {holder}");
                return Err(JoinRefusal {
                    holder: Some(holder),
                    ..refusal(JoinRefusalCode::ClusterTaken, &text)
                });
            }
            if same_name && cluster.deleting {
                let text =
                    format!("the cluster {} is being deleted: try again when it is gone", ask.cluster_name);
                return Err(refusal(JoinRefusalCode::NameTaken, &text));
            }
        }
        Ok(())
    }

    /// Counts one use of a token that was made for a number of them. Two joins that race for the last use are told apart by the
    /// Secret's version.
    async fn count_use(&self, ask: &JoinAsk) -> Result<(), Status> {
        let definition = self.registry.definition("", "v1", "secrets")?;
        let at = ObjectKey::new("kube-system", &format!("bootstrap-token-{}", ask.token.id()));
        let mut change = |live: Option<&Value>| {
            let mut secret = live.cloned().ok_or_else(|| Status::not_found(&definition, &at.name))?;
            let left = token_field(&secret, USES);
            if let Ok(left) = left.parse::<u64>() {
                let left = left.checked_sub(1).ok_or_else(|| Status::conflict(&definition, &at.name))?;
                secret["data"][USES] =
                    json!(base64::engine::general_purpose::STANDARD.encode(left.to_string()));
            }
            Ok(secret)
        };
        self.registry.update(&definition, &at, &options(), false, &mut change).await.map(|_| ())
    }

    async fn write_cluster(&self, ask: &JoinAsk) -> Result<(), Status> {
        let definition = self.clusters()?;
        let mut spec = json!({"syncMode": "Pull", "id": ask.cluster_uid});
        for (field, value) in [("provider", &ask.provider), ("region", &ask.region)] {
            if !value.is_empty() {
                spec[field] = json!(value);
            }
        }
        if !ask.zones.is_empty() {
            spec["zones"] = json!(ask.zones);
        }
        let key = ask.request.key_fingerprint.clone();
        let object = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": ask.cluster_name, "annotations": {KEY: key}}, "spec": spec,
        });
        let mut change = |live: Option<&Value>| {
            let Some(live) = live else { return Ok(object.clone()) };
            let mut changed = live.clone();
            annotate(&mut changed, &key);
            for (field, value) in object["spec"].as_object().into_iter().flatten() {
                changed["spec"][field] = value.clone();
            }
            Ok(changed)
        };
        let at = ObjectKey::new("", &ask.cluster_name);
        self.registry.update(&definition, &at, &options(), true, &mut change).await.map(|_| ())
    }

    async fn write_namespace(&self, cluster: &str) -> Result<(), Status> {
        let definition = self.registry.definition("", "v1", "namespaces")?;
        let name = execution_namespace(cluster);
        if self.registry.get(&definition, "", &name).is_ok() {
            return Ok(());
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"karmada.io/system": "true"}}});
        match self.registry.create(&definition, "", object, &options()).await {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }

    /// The roles by which the agent reaches its own Cluster and Works over HTTP, and nothing else.
    async fn write_roles(&self, cluster: &str) -> Result<(), Status> {
        for role in agent_roles(cluster) {
            let (kind, namespace) = (role["kind"].as_str().unwrap_or(""), meta::namespace(&role).to_owned());
            let catalogue = self.registry.catalogue();
            let definition = catalogue
                .kind("rbac.authorization.k8s.io", "v1", kind)
                .ok_or_else(|| Status::internal("roles are not served"))?;
            match self.registry.create(definition, &namespace, role.clone(), &options()).await {
                Err(status) if status.reason != "AlreadyExists" => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }

    fn cluster(&self, name: &str) -> Option<Arc<Stored>> {
        let definition = self.clusters().ok()?;
        self.registry.get(&definition, "", name).ok()
    }

    fn grant(
        &self,
        cluster: &str,
        request: &karmada_certs::CertificateRequest,
    ) -> Result<JoinGrant, PortError> {
        let subject = agent_subject(cluster);
        let certificate = self
            .data
            .authority
            .issue_client(&subject, request, AGENT_LIFE, self.registry.now())
            .map_err(|error| PortError::never(error.to_string()))?;
        Ok(JoinGrant {
            certificate,
            ca_bundle: self.data.authority.certificate_pem().to_owned(),
            endpoints: self.endpoints.clone(),
            cluster_name: cluster.to_owned(),
        })
    }
}

fn options() -> WriteOptions {
    let user = User {
        name: "system:karmada:registrar".to_owned(),
        groups: vec!["system:masters".to_owned()],
        standing: Standing::Hub,
        ..User::default()
    };
    WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() }
}

fn annotate(cluster: &mut Value, key: &str) {
    let metadata = meta::of(cluster);
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    annotations[KEY] = json!(key);
}

fn token_field(secret: &Value, key: &str) -> String {
    let text = secret["data"][key].as_str().unwrap_or("");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn refusal(code: JoinRefusalCode, message: &str) -> JoinRefusal {
    JoinRefusal { code, message: message.to_owned(), holder: None }
}

#[async_trait]
impl Registrar for HubRegistrar {
    async fn join(&self, ask: JoinAsk) -> Result<JoinOutcome, PortError> {
        if let Err(refused) = self.check_token(&ask) {
            return Ok(JoinOutcome::Refused(refused));
        }
        let wrong = karmada_api::validation::cluster::validate_name(&ask.cluster_name);
        if let Some(error) = wrong.first() {
            return Ok(JoinOutcome::Refused(refusal(JoinRefusalCode::NameInvalid, &error.to_string())));
        }
        if let Err(refused) = self.check_name(&ask) {
            return Ok(JoinOutcome::Refused(refused));
        }
        let written = async {
            self.count_use(&ask).await?;
            self.write_cluster(&ask).await?;
            self.write_namespace(&ask.cluster_name).await?;
            self.write_roles(&ask.cluster_name).await
        };
        written.await.map_err(|status| PortError::later(status.message))?;
        tracing::info!(cluster = ask.cluster_name, id = ask.cluster_uid, "a cluster joined");
        self.grant(&ask.cluster_name, &ask.request).map(JoinOutcome::Granted)
    }

    async fn authorize_session(&self, peer: &PeerIdentity) -> Result<String, SessionRefusal> {
        let unregistered = |text: String| SessionRefusal::Unregistered(text);
        let name =
            peer.cluster().ok_or_else(|| unregistered("the certificate is not an agent's".to_owned()))?;
        let cluster = self
            .cluster(name)
            .ok_or_else(|| unregistered(format!("the cluster {name} is not registered (any more)")))?
            .value();
        let keys = cluster["metadata"]["annotations"][KEY].as_str().unwrap_or("");
        if !keys.split(',').any(|key| key == peer.key_fingerprint) {
            return Err(SessionRefusal::Revoked(format!(
                "the cluster {name} was given to another key since"
            )));
        }
        Ok(name.to_owned())
    }

    async fn renew(
        &self,
        cluster: &str,
        peer: &PeerIdentity,
        request: karmada_certs::CertificateRequest,
    ) -> Result<JoinGrant, PortError> {
        let grant = self.grant(cluster, &request)?;
        if request.key_fingerprint != peer.key_fingerprint {
            let definition = self.clusters().map_err(|status| PortError::later(status.message))?;
            let mut change = |live: Option<&Value>| {
                let mut changed = live.cloned().ok_or_else(|| Status::not_found(&definition, cluster))?;
                annotate(&mut changed, &format!("{},{}", request.key_fingerprint, peer.key_fingerprint));
                Ok(changed)
            };
            let at = ObjectKey::new("", cluster);
            let written = self.registry.update(&definition, &at, &options(), false, &mut change).await;
            written.map_err(|status| PortError::later(status.message))?;
        }
        Ok(grant)
    }
}
