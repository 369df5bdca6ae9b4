//! Who may join the fleet, and which identity speaks for which cluster.
//!
//! In: a join, an agent's verified certificate, or a request for a new one. Out: a certificate with the CAs and endpoints, a time to ask
//! again, or a refusal in words that tell nothing of others; Clusters, events and audit lines on the way.
//!
//! A join token lets its holder ask for one identity and nothing else: the hub makes the Cluster, its execution namespace and the
//! certificate itself. The Cluster remembers the key it was given to ([`keys`]). What holds, whoever asks:
//!
//! - A key that holds a name is never replaced by a token. A second key waits on the Cluster for a person; where the holder is
//!   connected, it is refused at once. The answer is the same whoever holds the name, and names nobody.
//! - The key that holds a name is granted it again, as often as it asks: an answer may be lost.
//! - Of two that ask for one name at once, one gets it: joins that make something do so one after the other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karmada_api::names::execution_namespace;
use karmada_apiserver::audit::Audit;
use karmada_certs::{CertificateRequest, PeerIdentity, agent_subject};
use karmada_controllers::cluster::ContactSource;
use karmada_controllers::events::{EventType, Recorder, Reference};
use karmada_core::registration::{
    ASK_PERSON_AGAIN, Candidate, JoinStep, NameState, join_step, key_request, keys, name_state, new_cluster,
    new_execution_namespace, renewed,
};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_fleet::identity::{self, Authority};
use karmada_fleet::token_allowance::Allowance;
use karmada_gateway::ports::{
    JoinAsk, JoinGrant, JoinOutcome, JoinRefusal, JoinRefusalCode, Occurrence, PortError, Registrar,
    SessionRefusal,
};
use karmada_registry::Registry;
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::Value;
use tokio::sync::Mutex;

use super::join_audit;
use super::join_tokens::JoinTokens;
use super::member_ids::MemberIds;
use super::write_options::write_options;
use crate::data_dir::DataDir;

/// An agent's certificate; renewed in-band long before it ends.
const AGENT_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

const NAME_TAKEN: &str = "this name is not free for this agent: choose another, or have somebody who may update clusters on the hub decide";
const CLUSTER_TAKEN: &str = "this cluster is in the fleet under another name already";

/// Who says yes to a cluster of a new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// The token alone.
    #[default]
    Auto,
    /// A person, by `karmadactl adopt`.
    Manual,
}

/// The registrar of one hub.
pub struct HubRegistrar {
    registry: Arc<Registry>,
    data: Arc<DataDir>,
    endpoints: Vec<String>,
    contacts: Arc<dyn ContactSource>,
    approval: Approval,
    audit: Option<Arc<Audit>>,
    recorder: Option<Arc<Recorder>>,
    tokens: JoinTokens,
    /// Held while a join looks and makes: what it found free is still free when it takes it.
    making: Mutex<MemberIds>,
}

/// What came of a join that a use of its token was counted for.
enum Made {
    /// The key may have the name at once.
    Granted,
    /// A person is asked.
    Waits,
    /// Nothing was written: there was no room any more.
    Nothing,
}

impl HubRegistrar {
    /// A registrar that hands out `endpoints` (`host:port`) to agents, and asks `contacts` which of them are connected.
    pub fn new(
        registry: Arc<Registry>,
        data: Arc<DataDir>,
        endpoints: Vec<String>,
        contacts: Arc<dyn ContactSource>,
    ) -> Self {
        let tokens = JoinTokens::new(registry.clone());
        let (approval, audit, making) = (Approval::default(), None, Mutex::default());
        HubRegistrar { registry, data, endpoints, contacts, approval, audit, recorder: None, tokens, making }
    }

    /// The same, letting `approval` say who decides about new names.
    #[must_use]
    pub fn approved(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// The same, writing an audit log.
    #[must_use]
    pub fn audited(mut self, audit: Option<Arc<Audit>>) -> Self {
        self.audit = audit;
        self
    }

    /// The same, recording events of refused joins.
    #[must_use]
    pub fn recording(mut self, recorder: Arc<Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    fn clusters(&self) -> Result<Arc<ResourceDefinition>, Status> {
        self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters")
    }

    fn cluster(&self, name: &str) -> Result<Option<Arc<Stored>>, Status> {
        self.registry.find(&*self.clusters()?, "", name)
    }

    fn name_state(&self, ask: &JoinAsk) -> Result<NameState, Status> {
        let cluster = self.cluster(&ask.cluster_name)?.map(|found| found.value());
        let connected = self.contacts.connected(&ask.cluster_name);
        Ok(name_state(cluster.as_ref(), &ask.request.key_fingerprint, connected))
    }

    /// An event on a Cluster, for whoever looks after it; who asked is told nothing of it. It is held back where it comes often.
    fn tell_refused(&self, cluster: &str, why: &str) {
        let (Some(recorder), Ok(Some(found))) = (&self.recorder, self.cluster(cluster)) else { return };
        let mut about = Reference::of(&found.value());
        about.api_version = "cluster.karmada.io/v1alpha1".to_owned();
        about.kind = "Cluster".to_owned();
        recorder.record(&about, EventType::Warning, "JoinRefused", &format!("a join was refused: {why}"));
    }

    /// A join by who holds its token, while no other one looks or makes.
    async fn join_alone(&self, ask: &JoinAsk, members: &mut MemberIds) -> Result<JoinOutcome, PortError> {
        // A token may have ended, or been used up, while this join waited for its turn.
        let allowance = match self.tokens.check(&ask.token, &ask.cluster_name) {
            Ok(allowance) => allowance,
            Err(refused) => return Ok(JoinOutcome::Refused(refused)),
        };
        match join_step(self.name_state(ask).map_err(|status| PortError::later(status.message))?) {
            JoinStep::Grant => {
                self.contacts.joined(&ask.cluster_name);
                self.grant(&ask.cluster_name, &ask.request).map(JoinOutcome::Granted)
            }
            JoinStep::Wait(again) => Ok(JoinOutcome::Pending(again)),
            JoinStep::WaitForRoom => {
                self.tell_full(&ask.cluster_name);
                Ok(JoinOutcome::Pending(ASK_PERSON_AGAIN))
            }
            JoinStep::Refuse => {
                let why = "another key, which is not to have it, asked for the cluster's name";
                self.tell_refused(&ask.cluster_name, why);
                Ok(JoinOutcome::Refused(JoinRefusal::new(JoinRefusalCode::NameTaken, NAME_TAKEN)))
            }
            step @ (JoinStep::WriteRequest | JoinStep::MakeCluster) => {
                if let Err(refused) = self.may_write(ask, allowance, members) {
                    return Ok(JoinOutcome::Refused(refused));
                }
                self.write_counted(ask, step).await
            }
        }
    }

    /// Whether the token's rate, and the other names of this member, let a join write.
    fn may_write(
        &self,
        ask: &JoinAsk,
        allowance: Allowance,
        members: &mut MemberIds,
    ) -> Result<(), JoinRefusal> {
        self.tokens.pace(&ask.token, allowance)?;
        let Some(holder) = members.other_name(self.registry.cache(), &ask.cluster_uid, &ask.cluster_name)
        else {
            return Ok(());
        };
        self.tell_refused(&holder, "this member asked to join under another name, too");
        Err(JoinRefusal::new(JoinRefusalCode::ClusterTaken, CLUSTER_TAKEN))
    }

    /// Counts a use of the token, and writes what it is for. The use is given back where nothing was written.
    async fn write_counted(&self, ask: &JoinAsk, step: JoinStep) -> Result<JoinOutcome, PortError> {
        let later = |status: Status| PortError::later(status.message);
        match self.tokens.spend(&ask.token).await {
            Ok(()) => {}
            Err(status) if is_for_good(&status) => {
                let why = format!("the hub does not let the token's use be counted: {}", status.message);
                return Ok(JoinOutcome::Refused(JoinRefusal::new(JoinRefusalCode::Permission, why)));
            }
            Err(status) => return Err(later(status)),
        }
        let made = match step {
            JoinStep::WriteRequest => self.write_request(ask).await,
            _ => self.make(ask).await,
        };
        if matches!(made, Err(_) | Ok(Made::Nothing)) {
            self.tokens.give_back(&ask.token).await;
        }
        match made {
            Ok(Made::Granted) => self.grant(&ask.cluster_name, &ask.request).map(JoinOutcome::Granted),
            Ok(Made::Waits | Made::Nothing) => Ok(JoinOutcome::Pending(ASK_PERSON_AGAIN)),
            Err(status) if is_for_good(&status) => {
                let why = format!("the hub takes no such Cluster: {}", status.message);
                Ok(JoinOutcome::Refused(JoinRefusal::new(JoinRefusalCode::Permission, why)))
            }
            Err(status) => Err(later(status)),
        }
    }

    /// Writes onto the Cluster that another key asks for its name.
    async fn write_request(&self, ask: &JoinAsk) -> Result<Made, Status> {
        let definition = self.clusters()?;
        let mut written = false;
        let mut change = |live: Option<&Value>| {
            let mut changed =
                live.cloned().ok_or_else(|| Status::not_found(&definition, &ask.cluster_name))?;
            written = keys::ask(&mut changed, key_request(&candidate(ask), self.registry.now()));
            Ok(changed)
        };
        let at = ObjectKey::new("", &ask.cluster_name);
        self.registry.update(&definition, &at, &write_options(), &mut change).await?;
        if !written {
            self.tell_full(&ask.cluster_name);
            return Ok(Made::Nothing);
        }
        let asked = "another key asked for the cluster's name, and waits: karmadactl adopt gives it the name, karmadactl refuse does not";
        self.tell_refused(&ask.cluster_name, asked);
        tracing::warn!(cluster = ask.cluster_name, key = ask.request.key_fingerprint, "{asked}");
        Ok(Made::Waits)
    }

    /// Says that a key is not kept among those that wait.
    fn tell_full(&self, cluster: &str) {
        let full = "another key asked for the cluster's name, and more wait than are kept: karmadactl refuse clears them";
        self.tell_refused(cluster, full);
        tracing::warn!(cluster, "{full}");
    }

    /// Makes the Cluster. Granted where its key may have it at once.
    async fn make(&self, ask: &JoinAsk) -> Result<Made, Status> {
        let definition = self.clusters()?;
        let approved = self.approval == Approval::Auto;
        let object = new_cluster(&candidate(ask), approved, self.registry.now());
        // Created, never changed: whoever made a Cluster of this name in between holds it.
        self.registry.create(&definition, "", object, &write_options()).await?;
        // The cluster controller makes it too, where it could not be made now.
        if let Err(status) = self.write_namespace(&ask.cluster_name).await {
            tracing::warn!(
                cluster = ask.cluster_name,
                why = status.message,
                "the execution namespace is made later"
            );
        }
        let (cluster, id) = (&ask.cluster_name, &ask.cluster_uid);
        tracing::info!(cluster, id, approved, "a cluster joined");
        Ok(if approved { Made::Granted } else { Made::Waits })
    }

    async fn write_namespace(&self, cluster: &str) -> Result<(), Status> {
        let definition = self.registry.definition("", "v1", "namespaces")?;
        let name = execution_namespace(cluster);
        if self.registry.get(&definition, "", &name).is_ok() {
            return Ok(());
        }
        let object = new_execution_namespace(cluster);
        match self.registry.create(&definition, "", object, &write_options()).await {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }

    fn grant(&self, cluster: &str, request: &CertificateRequest) -> Result<JoinGrant, PortError> {
        let subject = agent_subject(cluster);
        let authorities = self.data.authorities();
        let certificate = authorities
            .signing()
            .issue_client(&subject, request, AGENT_LIFE, self.registry.now())
            .map_err(|error| PortError::never(error.to_string()))?;
        Ok(JoinGrant {
            certificate,
            ca_bundle: authorities.bundle_pem(),
            endpoints: self.endpoints.clone(),
            cluster_name: cluster.to_owned(),
        })
    }
}

fn candidate(ask: &JoinAsk) -> Candidate<'_> {
    Candidate {
        name: &ask.cluster_name,
        uid: &ask.cluster_uid,
        key: &ask.request.key_fingerprint,
        provider: &ask.provider,
        region: &ask.region,
        zones: &ask.zones,
    }
}

#[async_trait]
impl Registrar for HubRegistrar {
    async fn join(&self, ask: JoinAsk) -> Result<JoinOutcome, PortError> {
        // Who holds no token does not make others wait.
        if let Err(refused) = self.tokens.check(&ask.token, &ask.cluster_name) {
            return Ok(JoinOutcome::Refused(refused));
        }
        let mut members = self.making.lock().await;
        self.join_alone(&ask, &mut members).await
    }

    async fn authorize_session(&self, peer: &PeerIdentity) -> Result<String, SessionRefusal> {
        let trusts = self.data.authorities().trusts(peer);
        let authority = if trusts { Authority::Trusted } else { Authority::Dropped };
        let name = identity::cluster_of(peer, authority, self.registry.now())?;
        let cluster = self.cluster(name).map_err(|status| SessionRefusal::Unavailable(status.message))?;
        let cluster = cluster.map(|found| found.value());
        identity::speaks_for(name, cluster.as_ref(), &peer.key_fingerprint)?;
        Ok(name.to_owned())
    }

    fn uid_of(&self, cluster: &str) -> String {
        let found = self.cluster(cluster).ok().flatten();
        found.map(|found| found.uid().to_owned()).unwrap_or_default()
    }

    fn trust_revision(&self) -> u64 {
        self.data.authorities().revision()
    }

    fn note(&self, occurrence: &Occurrence<'_>) {
        if let Some(audit) = &self.audit {
            audit.non_request(&join_audit::event(occurrence));
        }
    }

    async fn renew(
        &self,
        cluster: &str,
        peer: &PeerIdentity,
        request: CertificateRequest,
    ) -> Result<JoinGrant, PortError> {
        let refused = |why: &str| PortError::never(why);
        if peer.cluster() != Some(cluster) || peer.not_after <= self.registry.now() {
            return Err(refused("the certificate has ended, or is not this cluster's"));
        }
        let definition = self.clusters().map_err(|status| PortError::later(status.message))?;
        let mut why = None;
        let mut change = |live: Option<&Value>| {
            why = None;
            let live = live.ok_or_else(|| Status::not_found(&definition, cluster))?;
            match renewed(live, &peer.key_fingerprint, &request.key_fingerprint) {
                Ok(changed) => Ok(changed.unwrap_or_else(|| live.clone())),
                Err(refusal) => {
                    why = Some(refusal);
                    Err(Status::conflict(&definition, cluster))
                }
            }
        };
        let at = ObjectKey::new("", cluster);
        let written = self.registry.update(&definition, &at, &write_options(), &mut change).await;
        if let Some(why) = why {
            return Err(refused(why));
        }
        written.map_err(|status| match is_for_good(&status) {
            true => PortError::never(format!("the hub does not take the new key: {}", status.message)),
            false => PortError::later(status.message),
        })?;
        self.grant(cluster, &request)
    }
}

/// Validation, or a webhook of the hub's people: the same words get the same answer.
fn is_for_good(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 422)
}

#[cfg(test)]
mod tests;
