//! The member cluster, as the agent needs it: a trait, with the real one ([`kube`]) and one in memory for the
//! demo and for simulation ([`memory`]); and, in front of either, the proof that it is the one that was joined ([`verified_member`]).
//!
//! In: names, manifests and watches. Out: objects as the member has them, its events, and errors that tell whether a write may still be
//! carried out.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests are of this machine's time"))]

pub mod discovery;
pub mod kube;
pub mod list;
pub mod memory;
pub mod namespaced_watch;
pub mod percent;
pub mod retry;
pub mod topology;
pub mod verified_member;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http_body_util::combinators::UnsyncBoxBody;
use karmada_api::cluster::ApiEnablement;
use karmada_api::object;
pub use karmada_api::readiness::Probe;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The name under which the agent owns fields: the same in all its writes, so that an apply takes away what an earlier one set.
pub const FIELD_MANAGER: &str = "karmada-agent";

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

impl Gvk {
    /// Of `apiVersion` and `kind`.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = object::group_version(api_version);
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Of an object.
    pub fn of(value: &Value) -> Self {
        Self::new(object::api_version(value), object::kind(value))
    }

    /// As manifests say it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            return write!(f, "{} {}", self.version, self.kind);
        }
        write!(f, "{}/{} {}", self.group, self.version, self.kind)
    }
}

/// One object of the member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// What it is.
    pub gvk: Gvk,
    /// Empty for cluster-scoped ones.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectId {
    /// Of an object.
    pub fn of(value: &Value) -> Self {
        Self {
            gvk: Gvk::of(value),
            namespace: object::namespace(value).to_owned(),
            name: object::name(value).to_owned(),
        }
    }

    /// The same name for all versions of the object's kind.
    #[must_use]
    pub fn unversioned(&self) -> Self {
        Self { gvk: Gvk { version: String::new(), ..self.gvk.clone() }, ..self.clone() }
    }

    /// Whether a manifest that is named `self` is of the member's object `there`. The versions of a kind are views of the same objects;
    /// and of what is in no namespace, a manifest may say one all the same.
    #[must_use]
    pub fn means(&self, there: &Self) -> bool {
        (&self.gvk.group, &self.gvk.kind, &self.name) == (&there.gvk.group, &there.gvk.kind, &there.name)
            && (there.namespace.is_empty() || self.namespace == there.namespace)
    }

    /// Whether two manifests may be of one object, where the member was not asked whether their kind is in namespaces.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        self.means(other) || other.means(self)
    }

    /// Why nothing can have this name, whatever its kind: it would be found by no request, or be another path of the API.
    pub fn fault(&self) -> Option<String> {
        if self.name.is_empty() {
            return Some(format!(
                "{} without a name: generateName is not taken, as the object could not be found again",
                self.gvk.kind
            ));
        }
        let leads_elsewhere = |text: &str| [".", ".."].contains(&text) || text.contains(['/', '%']);
        let words = [("name", &self.name), ("namespace", &self.namespace)];
        let (what, text) = words.into_iter().find(|(_, text)| leads_elsewhere(text))?;
        Some(format!(
            "the {what} {text:?} of a {} may not be . or .., and may not hold / or %",
            self.gvk.kind
        ))
    }
}

/// As it is kept: `apiVersion`, kind, namespace, name.
impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.gvk.api_version(), &self.gvk.kind, &self.namespace, &self.name).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (api_version, kind, namespace, name) =
            <(String, String, String, String)>::deserialize(deserializer)?;
        Ok(Self { gvk: Gvk::new(&api_version, &kind), namespace, name })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return write!(f, "{} {}", self.gvk.kind, self.name);
        }
        write!(f, "{} {}/{}", self.gvk.kind, self.namespace, self.name)
    }
}

/// Why a call to the member failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// No such object. (Of a namespace that is missing, too.)
    #[error("{0}")]
    NotFound(String),
    /// The member does not serve this kind (yet).
    #[error("the member does not serve {0}")]
    NoKind(Gvk),
    /// Somebody else was faster, or the object is another one by now.
    #[error("{0}")]
    Conflict(String),
    /// A rule is missing.
    #[error("{0}")]
    Forbidden(String),
    /// The member refuses the object.
    #[error("{0}")]
    Invalid(String),
    /// There can be no such object, or none that could be found again: nothing was asked of the member.
    #[error("no object can be made of this: {0}")]
    NoObject(String),
    /// Server-side apply cannot merge this object; create and update may take it.
    #[error("{0}")]
    NotMergeable(String),
    /// Too many requests.
    #[error("the member asks for a pause of {0:?}")]
    Throttled(Duration),
    /// No answer.
    #[error("the member does not answer: {0}")]
    Unreachable(String),
    /// A write was sent and no answer came: it may have been carried out, or may be yet.
    #[error("the member did not answer, and may still carry it out: {0}")]
    Unanswered(String),
    /// It failed over a request, which may have been carried out all the same, or may be yet.
    #[error("{0}")]
    Internal(String),
    /// The same, and it asks for a pause.
    #[error("{0}")]
    Overloaded(String, Duration),
    /// Nothing is written before the member is known to be the one that was joined, and it could not be asked.
    #[error("nothing is written before the member is known to be the one that was joined: {0}")]
    Unproven(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl MemberError {
    /// Whether a write that ended with this may have been carried out, or may be yet.
    pub fn leaves_open(&self) -> bool {
        matches!(self, Self::Unanswered(_) | Self::Internal(_) | Self::Overloaded(..))
    }
}

/// What is known of a kind that the member does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// The member defines no such kind: there are no objects of it.
    Undefined,
    /// Its objects are served as this version of it.
    As(Gvk),
    /// It is defined, or may be: there may be objects that are not served now.
    Hidden,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberEvent {
    /// A list begins: what is not named before [`MemberEvent::Listed`] is not there.
    Listing,
    /// An object as it is now.
    Object(Box<Value>),
    /// An object is gone.
    Gone(ObjectId),
    /// The list is complete.
    Listed,
}

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The kind.
    pub gvk: Gvk,
    /// The only namespace to look in; empty for all, and of no concern to kinds that are in none.
    pub namespace: String,
    /// Label selector; empty for all.
    pub labels: String,
    /// Field selector; empty for all.
    pub fields: String,
}

/// A body on its way through the agent, of any length.
pub type Passing = UnsyncBoxBody<Bytes, std::io::Error>;

/// A member cluster. What writes, and [`Member::pass`], may end with [`MemberError::Unproven`] as well.
#[async_trait]
pub trait Member: Send + Sync + 'static {
    /// An object, or `None`.
    ///
    /// # Errors
    /// [`MemberError::NoKind`] and [`MemberError::NoObject`]; else the member does not answer, refuses, or answers with something else.
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError>;
    /// Server-side apply as [`FIELD_MANAGER`], by force. The object as it is after.
    ///
    /// # Errors
    /// As of [`Member::get`], and [`MemberError::NotMergeable`] where server-side apply cannot merge it.
    async fn apply(&self, object: &Value) -> Result<Value, MemberError>;
    /// Creates.
    ///
    /// # Errors
    /// As of [`Member::get`], and [`MemberError::Conflict`] where there is one of that name.
    async fn create(&self, object: &Value) -> Result<Value, MemberError>;
    /// Replaces; `object` carries the resourceVersion it is based on.
    ///
    /// # Errors
    /// As of [`Member::get`], and [`MemberError::Conflict`] where it was changed since.
    async fn update(&self, object: &Value) -> Result<Value, MemberError>;
    /// Changes by JSON merge patch.
    ///
    /// # Errors
    /// As of [`Member::get`], and [`MemberError::NotFound`] where there is none.
    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError>;
    /// Deletes with background propagation, the object of this uid only. Fine where it is gone.
    ///
    /// # Errors
    /// As of [`Member::get`], and [`MemberError::Conflict`] where another object has the name by now.
    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError>;
    /// Lists and watches; resumes by itself for as long as it can, and ends with an error where it cannot.
    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>>;
    /// Plural name of a kind, as the member serves it.
    ///
    /// # Errors
    /// [`MemberError::NoKind`], or the member did not tell what it serves when it was asked last.
    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError>;
    /// What is known of a kind that a call has just said not to be served. Asks the member for what it defines.
    ///
    /// # Errors
    /// The member answers that it is well, and does not tell what it defines.
    async fn unserved(&self, _: &Gvk) -> Result<Unserved, MemberError> {
        Ok(Unserved::Hidden)
    }
    /// Everything served, sorted, and whether that is complete. Asks the member each time (cheaply, where
    /// nothing changed).
    ///
    /// # Errors
    /// The member does not tell what it serves.
    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError>;
    /// The API server's version, `v1.34.1`.
    ///
    /// # Errors
    /// The member does not answer, or refuses.
    async fn version(&self) -> Result<String, MemberError>;
    /// Sends a request as it is, over the agent's own connection and with its credentials, for as long as the answer goes on. An answer of 101
    /// has the connection in its extensions (`hyper::upgrade::OnUpgrade`).
    ///
    /// # Errors
    /// There is no answer, or the agent's credentials cannot be used so. A refusal of the member is an answer.
    async fn pass(&self, _: http::Request<Passing>) -> Result<http::Response<Passing>, MemberError> {
        Err(MemberError::Other("this member takes no requests from outside".to_owned()))
    }
    /// GET /readyz, or /healthz where there is none.
    async fn probe(&self) -> Probe;
    /// How often a connection to the member failed or was ended by the other side so far: whoever answers after that
    /// may be another cluster.
    fn breaks(&self) -> u64;
    /// From now on it is to be the cluster whose kube-system has this uid: a connection that leads to another is not used.
    fn expects(&self, _uid: &str) {}
    /// The uid of another cluster that a connection led to, once one did.
    fn stranger(&self) -> Option<String> {
        None
    }
}

/// UID of the member's kube-system namespace: the cluster's identity.
///
/// # Errors
/// As of [`Member::get`], and [`MemberError::NotFound`] where there is no such namespace, or it has no uid.
pub async fn cluster_uid(member: &dyn Member) -> Result<String, MemberError> {
    let id =
        ObjectId { gvk: Gvk::new("v1", "Namespace"), namespace: String::new(), name: "kube-system".into() };
    let namespace = member.get(&id).await?;
    let uid = namespace.as_ref().map(object::uid).unwrap_or_default();
    if uid.is_empty() {
        return Err(MemberError::NotFound("the member has no namespace kube-system".into()));
    }
    Ok(uid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(api_version: &str, namespace: &str, name: &str) -> ObjectId {
        ObjectId { gvk: Gvk::new(api_version, "Thing"), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_manifest_means_an_object_in_any_version_and_with_a_needless_namespace() {
        let there = id("x/v1", "n", "a");
        assert!(there.means(&there) && id("x/v2", "n", "a").means(&there));
        for other in [id("y/v1", "n", "a"), id("x/v1", "m", "a"), id("x/v1", "n", "b"), id("x/v1", "", "a")] {
            assert!(!other.means(&there), "{other}");
        }
        let in_none = id("x/v1", "", "a");
        assert!(there.means(&in_none) && !in_none.means(&there), "of a kind that is in no namespace");
        assert!(in_none.may_be(&there) && there.may_be(&in_none) && !id("x/v1", "m", "a").may_be(&there));
        assert_eq!(id("x/v1", "n", "a").unversioned(), id("x/v2", "n", "a").unversioned());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_objects() {
        for (namespace, name) in [("n", ""), ("n", ".."), ("n", "a/b"), ("..", "a"), ("n", "a%2fb")] {
            assert!(id("x/v1", namespace, name).fault().is_some(), "{namespace} {name}");
        }
        for name in ["system:node", "a.b", "...", "v1beta1.metrics.k8s.io"] {
            assert_eq!(id("x/v1", "", name).fault(), None, "{name}");
        }
    }
}
