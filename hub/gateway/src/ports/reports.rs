//! What agents tell of Works and of their clusters, and where it goes.
//!
//! In: reports. Out: whether each was written. A call that fails with [`PortError::later`] is made again; what fails otherwise is dropped.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_proto::digest::Content;

use super::{Batch, PortError};

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
    ///
    /// # Errors
    /// Retriable where it cannot be written now; not where the report cannot be read or is refused.
    async fn work_status(&self, cluster: &str, report: WorkReport) -> Result<(), PortError>;
    /// Writes a cluster's status (JSON of `Cluster.status` as the agent sees it), where it differs.
    ///
    /// # Errors
    /// Retriable where it cannot be written now; not where the status cannot be read or is refused.
    async fn cluster_status(&self, cluster: &str, status: Bytes) -> Result<(), PortError>;
    /// The member no longer holds the objects of a Work that is being deleted: remove the finalizer
    /// `karmada.io/execution-controller` of the Work with this uid. Harmless where it is gone. `objects`: the uids of what the site says that
    /// it deleted, or stripped of our marks; for the log. Told also of what a person let the site release or delete, of which the
    /// hub has no Work.
    ///
    /// # Errors
    /// Retriable where it cannot be written now; not where it is refused.
    async fn finalize_work(
        &self,
        cluster: &str,
        key: &str,
        uid: &str,
        objects: &[String],
    ) -> Result<(), PortError>;
    /// Of each Work of `cluster`, how it stands there: see [`karmada_proto::digest::status_row`]. Must return at once.
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
    /// Whether the Cluster says what its agent told last: see [`karmada_proto::digest::cluster_digest`]. Must return at once.
    fn says(&self, cluster: &str, told: &Content) -> bool {
        let _ = (cluster, told);
        false
    }
    /// Records an event.
    ///
    /// # Errors
    /// It cannot be recorded.
    async fn event(&self, cluster: &str, notice: WorkNotice) -> Result<(), PortError>;
    /// Works that the agent enforces and a full listing lacked: to be shown to a person.
    ///
    /// # Errors
    /// Retriable where they cannot be written now; not where that is refused.
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
