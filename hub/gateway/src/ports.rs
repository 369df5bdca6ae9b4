//! What the gateway needs from the hub, as traits: where Works come from, where reports go, who may join and
//! connect, and what must outlive the process.
//!
//! The gateway knows no store and no API; `hub` implements these over them. Every method may be called from many
//! sessions at once. None may block the thread.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use karmada_certs::{CertificateRequest, PeerIdentity};
use karmada_proto::digest::Content;
use karmada_proto::v1::Seen;
use serde::Deserialize;

/// Everything the gateway is given.
#[derive(Clone)]
pub struct Ports {
    /// Where Works come from.
    pub works: Arc<dyn WorkSource>,
    /// Where reports go.
    pub statuses: Arc<dyn StatusSink>,
    /// Who may join and connect.
    pub registrar: Arc<dyn Registrar>,
    /// What must outlive the process.
    pub sessions: Arc<dyn SessionStore>,
}

/// A port could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// Whether the same call may succeed later. What is not retriable is logged and dropped: a Work that is gone
    /// takes no status.
    pub retriable: bool,
    /// In plain words.
    pub message: String,
}

impl PortError {
    /// Try again later.
    pub fn later(message: impl Into<String>) -> Self {
        Self { retriable: true, message: message.into() }
    }

    /// Never again.
    pub fn never(message: impl Into<String>) -> Self {
        Self { retriable: false, message: message.into() }
    }
}

// ------------------------------------------------------------------------------------------------ Works

/// One change in a cluster's execution namespace `karmada-es-NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// A Work as it is now. One that is being deleted (deletionTimestamp set) comes as this too, with
    /// `deleting`: the agent then gets a tombstone.
    Upsert(Work),
    /// The Work is gone from the store.
    Deleted {
        /// The Work's name.
        key: Arc<str>,
        /// Its uid.
        uid: Arc<str>,
        /// The revision of the deletion.
        revision: u64,
        /// A site that still holds it keeps its objects, without our marks.
        preserve: bool,
    },
    /// Everything up to `revision` has been given: ends a full listing; later, moves the cursor where nothing
    /// of this cluster changed (a bookmark).
    Synced {
        /// What the next watch may resume from.
        revision: u64,
    },
}

/// A Work as the gateway sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The Work's name.
    pub key: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
    /// The store's revision of it.
    pub revision: u64,
    /// `metadata.generation`: rises with its spec.
    pub generation: u64,
    /// The annotation `edge.karmada.io/retry`: a person's word to try again what the agent put aside.
    pub retry: Arc<str>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.suspendDispatching`.
    pub suspended: bool,
    /// `spec.preserveResourcesOnDeletion`.
    pub preserve: bool,
    /// The whole object as JSON.
    pub body: Body,
    /// What it was before the changes that brought it here, where that is at hand.
    pub former: Option<Former>,
}

/// A Work as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    /// The store's revision of it then.
    pub revision: u64,
    /// The whole object as JSON.
    pub body: Body,
}

/// Where an object's JSON is read when it is needed.
pub trait Json: Send + Sync {
    /// The JSON.
    fn json(&self) -> Bytes;
}

impl Json for Bytes {
    fn json(&self) -> Bytes {
        self.clone()
    }
}

/// A Work's JSON where it lies: what waits for a slow link holds no copy of it.
#[derive(Clone)]
pub struct Body(Arc<dyn Json>);

impl Body {
    /// A body that lies elsewhere.
    pub fn shared(json: Arc<dyn Json>) -> Body {
        Body(json)
    }

    /// The JSON, read now.
    pub fn json(&self) -> Bytes {
        self.0.json()
    }
}

impl From<Bytes> for Body {
    fn from(json: Bytes) -> Body {
        Body(Arc::new(json))
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Body {}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A Work may carry Secrets.
        write!(f, "{} bytes", self.json().len())
    }
}

impl Work {
    /// Reads what the gateway needs from a Work's JSON; `body` is kept, not copied.
    pub fn from_json(revision: u64, body: Body) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: String,
            #[serde(default)]
            uid: String,
            deletion_timestamp: Option<String>,
            #[serde(default)]
            generation: u64,
            #[serde(default)]
            annotations: Option<Annotations>,
        }
        #[derive(Deserialize, Default)]
        struct Annotations {
            #[serde(rename = "edge.karmada.io/retry")]
            retry: Option<String>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            suspend_dispatching: Option<bool>,
            preserve_resources_on_deletion: Option<bool>,
        }
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            #[serde(default)]
            spec: Spec,
        }
        let object: Object = serde_json::from_slice(&body.json())?;
        Ok(Self {
            key: object.metadata.name.into(),
            uid: object.metadata.uid.into(),
            revision,
            generation: object.metadata.generation,
            retry: object.metadata.annotations.and_then(|a| a.retry).unwrap_or_default().into(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            suspended: object.spec.suspend_dispatching == Some(true),
            preserve: object.spec.preserve_resources_on_deletion == Some(true),
            body,
            former: None,
        })
    }
}

/// A running watch.
pub struct WorkFeed {
    /// True where `events` begins with every Work there is, ended by [`WorkEvent::Synced`]; false where it
    /// continues after the revision asked for.
    pub full_listing: bool,
    /// The events, ordered by revision after the listing. Its end means: watch again from the last revision
    /// (the reader fell behind, or history was compacted).
    pub events: BoxStream<'static, WorkEvent>,
}

/// Where Works come from.
#[async_trait]
pub trait WorkSource: Send + Sync + 'static {
    /// Watches the Works of `cluster`: after revision `resume`, where that is given and still in history, else
    /// from a full listing.
    async fn watch(&self, cluster: &str, resume: Option<u64>) -> Result<WorkFeed, PortError>;
    /// Whether `key` is a Work of `cluster` now. Must return at once.
    fn holds(&self, cluster: &str, key: &str) -> bool;
    /// The Works of `cluster` as they are now. Must return at once.
    fn all(&self, cluster: &str) -> Vec<Work>;
}

// ---------------------------------------------------------------------------------------------- reports

/// Everything an agent knows of one Work. The newest replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkReport {
    /// The Work's name.
    pub key: String,
    /// The uid of the Work that this is about; the Work may be another by now.
    pub uid: String,
    /// The revision of the Work that this is about.
    pub revision: u64,
    /// The generation of the Work that this is about; zero from an agent that does not say.
    pub generation: u64,
    /// The hash of the body that this is about ([`crate::body_hash`]); `None` where the hub itself speaks of what it sent.
    pub hash: Option<Bytes>,
    /// To become the condition Applied; `None` while nothing has been tried.
    pub applied: Option<Applied>,
    /// JSON array, whole: `status.manifestStatuses`. `None`: keep what is there.
    pub manifest_statuses: Option<Bytes>,
}

/// The outcome of applying a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The condition's status.
    pub ok: bool,
    /// `AppliedSuccessful` or `AppliedFailed`.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

/// To become a Kubernetes Event about a Work (and, by the hub, about the template it carries).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkNotice {
    /// The Work's name.
    pub key: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is a Warning.
    pub warning: bool,
    /// E.g. `SyncSucceed`.
    pub reason: String,
    /// In plain words.
    pub message: String,
}

/// Where reports go. A report that fails retriably is offered again, unless a newer one of the same Work came.
#[async_trait]
pub trait StatusSink: Send + Sync + 'static {
    /// Writes a Work's status, where it differs from what is there.
    async fn work_status(&self, cluster: &str, report: WorkReport) -> Result<(), PortError>;
    /// Writes a cluster's status (JSON of `Cluster.status` as the agent sees it), where it differs.
    async fn cluster_status(&self, cluster: &str, status: Bytes) -> Result<(), PortError>;
    /// The member no longer holds the objects of a Work that is being deleted: remove the finalizer
    /// `karmada.io/execution-controller` of the Work with this uid. Harmless where it is gone. `objects`: the uids of what the site says that
    /// it deleted, or stripped of our marks; for the log. Told also of what a person let the site release or delete, of which the
    /// hub has no Work.
    async fn finalize_work(
        &self,
        cluster: &str,
        key: &str,
        uid: &str,
        objects: &[String],
    ) -> Result<(), PortError>;
    /// Of each Work of `cluster`, how it stands there: see [`karmada_proto::digest::status`]. Must return at once.
    fn statuses(&self, cluster: &str) -> Vec<(Arc<str>, Content)> {
        let _ = cluster;
        Vec::new()
    }
    /// A number that is another one where [`Self::statuses`] may be others than before; `None` where that is not known. Costs no look into the
    /// Works, so that pings of agents in step cost next to nothing. Must return at once.
    fn statuses_version(&self, cluster: &str) -> Option<u64> {
        let _ = cluster;
        None
    }
    /// Whether the Cluster says what its agent told last: see [`karmada_proto::digest::cluster`]. Must return at once.
    fn says(&self, cluster: &str, told: &Content) -> bool {
        let _ = (cluster, told);
        false
    }
    /// Records an event.
    async fn event(&self, cluster: &str, notice: WorkNotice) -> Result<(), PortError>;
    /// Works that the agent enforces and a full listing lacked: to be shown to a person.
    async fn orphans(&self, cluster: &str, keys: Vec<String>) -> Result<(), PortError>;
    /// Of what is so enforced, that on which a person decided, and whether its objects stay. Must return at once.
    fn orphans_decided(&self, cluster: &str) -> Vec<(String, bool)> {
        let _ = cluster;
        Vec::new()
    }
    /// The deletes of `cluster` that a person let go out last. Must return at once.
    fn deletes_confirmed(&self, cluster: &str) -> Option<Batch>;
    /// `count` deletes of `cluster` wait for that word, all of them in `batch`. Must return at once.
    fn deletes_held(&self, cluster: &str, batch: Batch, count: u64);
    /// The agent stored everything up to `revision`. Must return at once.
    fn persisted(&self, cluster: &str, revision: u64) {
        let _ = (cluster, revision);
    }
    /// The identity of `cluster` was shown by two living processes. Must return at once.
    fn clone_seen(&self, cluster: &str) {
        let _ = cluster;
    }
}

// ------------------------------------------------------------------------------------------- who may

/// A request for one identity, its shape already checked.
#[derive(Debug, Clone)]
pub struct JoinAsk {
    /// Known to parse; whether it exists is the registrar's to say.
    pub token: karmada_certs::JoinToken,
    /// The name asked for.
    pub cluster_name: String,
    /// UID of the member's kube-system namespace.
    pub cluster_uid: String,
    /// Signed by the key it carries.
    pub request: CertificateRequest,
    /// For `Cluster.spec.provider`.
    pub provider: String,
    /// For `Cluster.spec.region`.
    pub region: String,
    /// For `Cluster.spec.zones`.
    pub zones: Vec<String>,
    /// For display.
    pub agent_version: String,
}

/// An identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGrant {
    /// PEM.
    pub certificate: String,
    /// PEM of the CAs to trust.
    pub ca_bundle: String,
    /// `host:port`s to dial, in order; empty for the one that was dialled.
    pub endpoints: Vec<String>,
    /// The name given.
    pub cluster_name: String,
}

/// The registrar's answer to a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinOutcome {
    /// Here it is.
    Granted(JoinGrant),
    /// A person must approve; ask again after this long.
    Pending(Duration),
    /// Refused; not to be retried as it is.
    Refused(JoinRefusal),
}

/// Why a join was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRefusal {
    /// The class of the reason.
    pub code: JoinRefusalCode,
    /// In plain words, without secrets, and without a word of who holds a name: whoever asks is a stranger.
    pub message: String,
}

impl JoinRefusal {
    /// A refusal of this class.
    pub fn new(code: JoinRefusalCode, message: impl Into<String>) -> Self {
        JoinRefusal { code, message: message.into() }
    }
}

pub use karmada_proto::v1::JoinRefusalCode;

/// Why a session is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRefusal {
    /// Not an agent's identity, or the cluster is not (or no longer) registered.
    Unregistered(String),
    /// The identity was shut out.
    Revoked(String),
    /// The hub cannot tell now.
    Unavailable(String),
}

/// A join, a connect, a renewal or a disconnect, or the refusal of one, for the audit log.
#[derive(Debug, Clone)]
pub struct Occurrence<'a> {
    /// `join`, `connect`, `renew` or `disconnect`.
    pub verb: &'static str,
    /// Who, as far as that was proved: a token's user, or the certificate's name.
    pub user: Option<&'a str>,
    /// The cluster it is about; empty where its name was not fit to be read.
    pub cluster: &'a str,
    /// The connection's other end.
    pub from: Option<IpAddr>,
    /// Why not, where it was refused.
    pub refused: Option<&'a str>,
    /// Whether it waits for a person.
    pub pending: bool,
}

/// Who may join and connect.
#[async_trait]
pub trait Registrar: Send + Sync + 'static {
    /// Creates the identity and the Cluster, where `ask` may have them. Of two that ask for one name at once with two keys, one
    /// gets it.
    async fn join(&self, ask: JoinAsk) -> Result<JoinOutcome, PortError>;
    /// The cluster that `peer` speaks for: its key holds now, and its certificate has not ended.
    async fn authorize_session(&self, peer: &PeerIdentity) -> Result<String, SessionRefusal>;
    /// The uid of the Cluster of this name; empty where there is none. Must return at once.
    fn uid_of(&self, cluster: &str) -> String {
        let _ = cluster;
        String::new()
    }
    /// What tells the CAs that agents are to trust from others: one that trusts others asks for a new certificate. Zero: not told.
    fn trust_revision(&self) -> u64 {
        0
    }
    /// Takes note for the audit log. Must return at once.
    fn note(&self, occurrence: &Occurrence<'_>) {
        let _ = occurrence;
    }
    /// A new certificate for a running identity, over its authenticated stream; only while the key of that stream holds.
    async fn renew(
        &self,
        cluster: &str,
        peer: &PeerIdentity,
        request: CertificateRequest,
    ) -> Result<JoinGrant, PortError>;
}

// -------------------------------------------------------------------------------------- what outlives us

/// The deletes of an epoch up to a revision, as one start of the hub listed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The epoch.
    pub epoch: u64,
    /// The newest revision of what is in it.
    pub revision: u64,
    /// The hub's start that listed it: in another life of the hub the same revision is of something else. Zero: of an earlier version,
    /// which did not say.
    pub timeline: u64,
}

impl Batch {
    /// Whether `other` is in it, where both are of one history.
    pub fn covers(self, other: Batch) -> bool {
        (self.epoch, self.revision) >= (other.epoch, other.revision)
    }

    /// Whether it was listed in the history that the hub has, and not in a life that was taken back. One that does not say of which start
    /// it is counts for nothing but what an earlier version `held`.
    pub fn is_of_this_history(self, sessions: &dyn SessionStore, held: Option<Batch>) -> bool {
        match self.timeline {
            0 => held.is_some_and(|held| held.timeline == 0),
            timeline => sessions.in_our_past(timeline, self.revision),
        }
    }
}

/// That deletes are held from a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDeletes {
    /// Since when. A word for a listing at this revision or later lets all go.
    pub batch: Batch,
    /// For which starts of the hub, none of its past, and up to which revision of each: what the site was told there.
    pub lives: Vec<Seen>,
}

impl HeldDeletes {
    /// Whether it is for `life` that deletes are held.
    pub fn accounts_for(&self, life: &Seen) -> bool {
        let covers = |held: &Seen| held.timeline == life.timeline && held.revision >= life.revision;
        self.lives.iter().any(covers)
    }
}

/// The batch, then ` START:REVISION` for each life, as the store has it.
impl std::fmt::Display for HeldDeletes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.batch)?;
        self.lives.iter().try_for_each(|life| write!(f, " {:x}:{}", life.timeline, life.revision))
    }
}

impl std::str::FromStr for HeldDeletes {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Earlier versions named no lives.
        let mut parts = text.split(' ');
        let batch = parts.next().unwrap_or_default().parse()?;
        let life = |part: &str| {
            let (timeline, revision) = part.split_once(':').unwrap_or((part, ""));
            Ok(Seen { timeline: u64::from_str_radix(timeline, 16)?, revision: revision.parse()? })
        };
        Ok(HeldDeletes { batch, lives: parts.map(life).collect::<Result<_, _>>()? })
    }
}

/// `EPOCH/REVISION/START`, as a person's word and the store have it.
impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{:x}", self.epoch, self.revision, self.timeline)
    }
}

impl std::str::FromStr for Batch {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Without a start it is of an earlier version; without a revision, of one before, and covers nothing.
        let mut parts = text.splitn(3, '/');
        let mut next = |or| parts.next().unwrap_or(or);
        let (epoch, revision, timeline) = (next(""), next("0"), next("0"));
        let timeline = u64::from_str_radix(timeline, 16)?;
        Ok(Batch { epoch: epoch.parse()?, revision: revision.parse()?, timeline })
    }
}

/// Where the hub stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Rises at each restore.
    pub epoch: u64,
    /// The store's newest revision.
    pub revision: u64,
    /// This start of the hub: revisions of one start mean nothing beside those of another that is not its past.
    pub timeline: u64,
}

/// A Cluster in one life of it: joined anew after its end, it is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterLife<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Who was told the cursor that an agent names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorOrigin {
    /// The agent of this very Cluster, in the history that the hub has.
    ThisCluster,
    /// In that history as well, but the agent of another Cluster, or of an earlier one of this name; or an earlier version of the hub did
    /// not say whose.
    AnotherCluster,
    /// A start that is none of this hub's past, or past where the next one began.
    InAnotherLife,
}

/// What must outlive the process: the epoch and the sessions' fence.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Where the hub stands now.
    async fn position(&self) -> Result<Position, PortError>;
    /// Mints an epoch above `seen` (an agent knows more than the hub: the hub's file was copied back), persists
    /// it, and returns it. Where the epoch is already above, that one.
    async fn mint_epoch_above(&self, seen: u64) -> Result<u64, PortError>;
    /// Remembers that `cluster` came into this epoch out of other lives of the hub when the store was at this revision: the hub was
    /// restored, and what it lists as deleted may have been taken back since.
    async fn hold_deletes(&self, cluster: &str, held: &HeldDeletes) -> Result<(), PortError>;
    /// The site has what was held so, or nothing of it concerned the site. Nothing changes where something else is held by now.
    async fn hold_ends(&self, cluster: &str, held: Batch) -> Result<(), PortError>;
    /// What [`SessionStore::hold_deletes`] was called with last, until it ends.
    async fn holds_deletes(&self, cluster: &str) -> Result<Option<HeldDeletes>, PortError>;
    /// The proof that this hub handed out `epoch`; empty where it cannot be made.
    fn seal(&self, epoch: u64) -> Bytes;
    /// Whether `seal` is such a proof.
    fn is_sealed(&self, epoch: u64, seal: &[u8]) -> bool;
    /// Whether `cursor` is a place in the history that this hub has, where the start `timeline` was there: the start is one of its own
    /// past, and the cursor not beyond where the next one began.
    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool;
    /// The number by which the agent of `whose` is told the start `timeline`: what one Cluster's agent was told is known from what
    /// another's was.
    fn told_as(&self, timeline: u64, whose: ClusterLife<'_>) -> u64;
    /// Who was told `cursor` in the start that is named as `timeline`, seen from `whose` agent.
    fn told(&self, whose: ClusterLife<'_>, timeline: u64, cursor: u64) -> CursorOrigin;
    /// The next session number of `cluster`, persisted: larger than any given before.
    async fn next_session(&self, cluster: &str) -> Result<u64, PortError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_is_written_and_as_earlier_versions_wrote_it() {
        let batch = Batch { epoch: 5, revision: 8, timeline: 0xbeef };
        assert_eq!((batch.to_string().as_str(), "5/8/beef".parse()), ("5/8/beef", Ok(batch)));
        assert_eq!("5/8".parse(), Ok(Batch { timeline: 0, ..batch }));
        assert_eq!("5".parse(), Ok(Batch { epoch: 5, revision: 0, timeline: 0 }));
        for wrong in ["", "5/x", "5/8/xyz", "5/8/1/2"] {
            assert!(wrong.parse::<Batch>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_held_is_read_as_it_is_written_and_as_earlier_versions_wrote_it() {
        let batch = Batch { epoch: 5, revision: 8, timeline: 0xbeef };
        let lives = vec![Seen { timeline: 0xa1, revision: 7 }, Seen { timeline: u64::MAX, revision: 9 }];
        let held = HeldDeletes { batch, lives };
        assert_eq!(held.to_string(), "5/8/beef a1:7 ffffffffffffffff:9");
        assert_eq!(held.to_string().parse(), Ok(held.clone()));
        assert_eq!("5/8/beef".parse(), Ok(HeldDeletes { batch, lives: Vec::new() }));
        for wrong in ["", "5/8/beef ", "5/8/beef a1", "5/8/beef a1:x", "5/8/beef x:1"] {
            assert!(wrong.parse::<HeldDeletes>().is_err(), "{wrong}");
        }
        for (timeline, revision, accounts) in [(0xa1, 7, true), (0xa1, 8, false), (0xa2, 1, false)] {
            assert_eq!(held.accounts_for(&Seen { timeline, revision }), accounts);
        }
    }

    #[test]
    fn a_works_json_is_read_where_it_matters() {
        let json = Bytes::from_static(
            br#"{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","metadata":{"name":"a","uid":"u","generation":3,"annotations":{"edge.karmada.io/retry":"two"},"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"suspendDispatching":true,"workload":{"manifests":[{"x":1}]}},"status":{}}"#,
        );
        let work = Work::from_json(7, json.clone().into()).unwrap();
        assert_eq!((work.key.as_ref(), work.uid.as_ref(), work.revision), ("a", "u", 7));
        assert_eq!((work.generation, work.retry.as_ref()), (3, "two"));
        assert!(work.deleting && work.suspended && !work.preserve);
        assert_eq!(work.body.json(), json);
        assert!(Work::from_json(7, Bytes::from_static(b"{}").into()).is_err());
        let plain = Work::from_json(1, Bytes::from_static(br#"{"metadata":{"name":"a"}}"#).into()).unwrap();
        assert!(!plain.deleting && !plain.suspended);
        assert_eq!((plain.generation, plain.retry.as_ref()), (0, ""));
    }
}
