//! A kind that a CustomResourceDefinition describes, in one version, ready to be served.
//!
//! In: a stored definition. Out: [`ResourceDefinition`]s that carry their [`Custom`] part, and objects brought from one version
//! to another.

use std::sync::Arc;

use base64::Engine as _;
use karmada_schema::object::Stored;
use karmada_schema::{Schema, SchemaError, apply_defaults, drop_nulls, prune};
use serde_json::{Value, json};

use crate::ca_bundle::Trust;
use crate::description::Resource;

/// How a definition's versions become each other.
#[derive(Clone, Debug, Default)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    #[default]
    None,
    /// A server is asked.
    Webhook {
        /// `clientConfig` of the definition.
        client: Value,
        /// Whom its server's certificate must be of.
        trust: Arc<Trust>,
    },
}

impl Conversion {
    fn of(spec: &Value) -> Conversion {
        if spec["conversion"]["strategy"] != "Webhook" {
            return Conversion::None;
        }
        let client = spec["conversion"]["webhook"]["clientConfig"].clone();
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        let ca_pem = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
        Conversion::Webhook { client, trust: Arc::new(Trust::of(ca_pem)) }
    }
}

/// The version that an object is in.
pub fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default()
}

/// A definition with its schemas compiled.
#[derive(Debug)]
pub struct Crd {
    /// The definition as it was stored when this was made. Only its spec is looked at.
    pub stored: Arc<Stored>,
    /// Name and schema of every version, served or not.
    versions: Vec<(Arc<str>, Schema)>,
    pub(super) storage_version: Arc<str>,
    /// How its versions become each other.
    pub conversion: Conversion,
    /// Objects that were written at or after this revision passed this very schema.
    since: u64,
    /// Whether the definition is going away.
    pub terminating: bool,
}

/// One version of a custom kind.
#[derive(Debug)]
pub struct Custom {
    /// Names, verbs, subresources, columns.
    pub resource: Resource,
    /// Fields that lists may be selected by, as `spec.color`.
    pub selectable: Vec<String>,
    /// What a client of a deprecated version is told.
    pub warning: Option<String>,
    /// The definition.
    pub crd: Arc<Crd>,
    pub(super) at: usize,
    /// How the bytes of an object of this version begin.
    pub(super) head: Box<[u8]>,
}

impl Crd {
    /// Reads a definition. `since`: the revision from which on writes pass through what is made here.
    ///
    /// # Errors
    /// A schema cannot be compiled, which its validation would have refused.
    pub fn read(stored: &Arc<Stored>, since: u64) -> Result<Crd, SchemaError> {
        let object = stored.value();
        let mut versions = Vec::new();
        let mut storage_version = Arc::from("");
        for version in object["spec"]["versions"].as_array().into_iter().flatten() {
            let name: Arc<str> = version["name"].as_str().unwrap_or_default().into();
            if version["storage"] == true {
                storage_version = name.clone();
            }
            versions.push((name, Schema::of_custom(&version["schema"]["openAPIV3Schema"])?));
        }
        let terminating = stored.deleting;
        let conversion = Conversion::of(&object["spec"]);
        Ok(Crd { stored: stored.clone(), versions, storage_version, conversion, since, terminating })
    }

    /// The same schemas for a definition whose spec did not change.
    #[must_use]
    pub fn with(&self, stored: &Arc<Stored>) -> Crd {
        Crd {
            stored: stored.clone(),
            versions: self.versions.clone(),
            storage_version: self.storage_version.clone(),
            conversion: self.conversion.clone(),
            since: self.since,
            terminating: stored.deleting,
        }
    }

    /// The version that objects are stored in.
    pub fn storage_version(&self) -> &str {
        &self.storage_version
    }

    /// The schemas of all versions, in their order, with all their texts: for documents.
    pub fn published_schemas(&self) -> Vec<Value> {
        let mut object = self.stored.value();
        let versions = object["spec"]["versions"].as_array_mut().into_iter().flatten();
        versions.map(|version| version["schema"]["openAPIV3Schema"].take()).collect()
    }

    fn schema(&self, version: &str) -> Option<&Schema> {
        self.versions.iter().find(|(name, _)| **name == *version).map(|(_, schema)| schema)
    }
}

impl Custom {
    /// Whether another server converts between versions.
    pub fn asks_webhook(&self) -> bool {
        matches!(self.crd.conversion, Conversion::Webhook { .. })
    }

    /// What objects of this version look like.
    pub fn schema(&self) -> &Schema {
        &self.crd.versions[self.at].1
    }

    /// Whether a stored object can be shown as its bytes stand: it is in this version, and was written under this schema.
    pub fn shows_as_stored(&self, object: &Stored) -> bool {
        object.revision >= self.crd.since && object.starts_with(&self.head)
    }

    /// A stored object in this version: as its own version's schema has it now, then converted.
    pub fn from_storage(&self, mut object: Value) -> Value {
        let stored = version_of(&object).to_owned();
        if let Some(schema) = self.crd.schema(&stored) {
            prune(schema.root(), &mut object);
            apply_defaults(schema.root(), &mut object);
            drop_nulls(schema.root(), &mut object);
        }
        if stored != self.resource.version {
            object["apiVersion"] = json!(self.resource.api_version());
            prune(self.schema().root(), &mut object);
        }
        object
    }

    /// An object of this version in the one that is stored.
    pub fn to_storage(&self, mut object: Value) -> Value {
        let wanted = &*self.crd.storage_version;
        if self.resource.version != wanted {
            object["apiVersion"] = json!(crate::version::api_version(&self.resource.group, wanted));
            if let Some(schema) = self.crd.schema(wanted) {
                prune(schema.root(), &mut object);
            }
        }
        object
    }

    /// Which of the definition's versions this is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Changes when what is published of this kind does.
    pub fn revision(&self) -> String {
        format!("{}/{}", self.crd.stored.uid(), self.crd.stored.generation)
    }
}
