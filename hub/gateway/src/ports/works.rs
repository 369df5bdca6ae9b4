//! Works as the gateway is told of them, and where they come from.
//!
//! In: a Work's JSON and its revision. Out: what of it matters to an agent; events of one cluster's Works, resumed or listed anew.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use serde::Deserialize;

use super::PortError;

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
    ///
    /// # Errors
    /// It is no JSON of a Work, or has no name.
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
    ///
    /// # Errors
    /// It cannot be watched now.
    async fn watch(&self, cluster: &str, resume: Option<u64>) -> Result<WorkFeed, PortError>;
    /// Whether `key` is a Work of `cluster` now. Must return at once.
    fn holds(&self, cluster: &str, key: &str) -> bool;
    /// The Works of `cluster` as they are now. Must return at once.
    fn all(&self, cluster: &str) -> Vec<Work>;
    /// Work `key` of `cluster` as it is now. Must return at once.
    fn find(&self, cluster: &str, key: &str) -> Option<Work> {
        self.all(cluster).into_iter().find(|work| *work.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
