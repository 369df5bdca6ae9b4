//! A kind that a CustomResourceDefinition describes, in one version, ready to be served.
//!
//! In: a stored definition. Out: [`ResourceDefinition`]s that carry their [`Custom`] part, and objects brought from one version
//! to another.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns;
use super::conversion::{Conversion, version_of};
use crate::kinds::named;
use crate::object::Stored;
use crate::resource::{ResourceDefinition, preference};
use crate::schema::catalogue::{self, Resource};
use crate::schema::{Schema, SchemaError, Style, apply_defaults, drop_nulls, prune};

/// What a kind may be asked to do.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The same while its definition is going away.
const VERBS_AT_THE_END: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// A definition with its schemas compiled.
#[derive(Debug)]
pub struct Crd {
    /// The definition as it was stored when this was made. Only its spec is looked at.
    pub stored: Arc<Stored>,
    /// Name and schema of every version, served or not.
    versions: Vec<(Arc<str>, Schema)>,
    storage_version: Arc<str>,
    pub(super) conversion: Conversion,
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
    at: usize,
    /// How the bytes of an object of this version begin.
    head: Box<[u8]>,
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

    /// The resources to serve: one for each served version.
    pub fn definitions(self: &Arc<Self>) -> Vec<Arc<ResourceDefinition>> {
        let object = self.stored.value();
        let versions = object["spec"]["versions"].as_array();
        let versions = versions.into_iter().flatten().enumerate();
        versions
            .filter(|(_, version)| version["served"] == true)
            .map(|(at, version)| Arc::new(self.definition(&object["spec"], version, at)))
            .collect()
    }

    /// One version, served or not.
    pub fn any_definition(self: &Arc<Self>) -> Option<Arc<ResourceDefinition>> {
        let object = self.stored.value();
        let version = object["spec"]["versions"].get(0)?;
        Some(Arc::new(self.definition(&object["spec"], version, 0)))
    }

    fn definition(self: &Arc<Self>, spec: &Value, version: &Value, at: usize) -> ResourceDefinition {
        let resource = resource(spec, version, self.terminating);
        let shown = named(&resource);
        let api_version = resource.api_version();
        let head = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",", resource.kind);
        ResourceDefinition {
            storage_version: self.storage_version.clone(),
            custom: Some(Arc::new(Custom {
                selectable: selectable(version),
                warning: warning(spec, version),
                crd: self.clone(),
                at,
                head: head.into_bytes().into(),
                resource,
            })),
            ..shown
        }
    }

    /// The version that objects are stored in.
    pub fn storage_version(&self) -> &str {
        &self.storage_version
    }

    fn schema(&self, version: &str) -> Option<&Schema> {
        self.versions.iter().find(|(name, _)| **name == *version).map(|(_, schema)| schema)
    }
}

impl Custom {
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
            object["apiVersion"] = json!(crate::resource::api_version(&self.resource.group, wanted));
            if let Some(schema) = self.crd.schema(wanted) {
                prune(schema.root(), &mut object);
            }
        }
        object
    }

    /// The definition's schema of this version with all its texts, for documents.
    pub fn published_schema(&self) -> Value {
        let mut object = self.crd.stored.value();
        object["spec"]["versions"][self.at]["schema"]["openAPIV3Schema"].take()
    }

    /// Changes when what is published of this kind does.
    pub fn revision(&self) -> String {
        format!("{}/{}", self.crd.stored.uid(), self.crd.stored.generation)
    }
}

fn resource(spec: &Value, version: &Value, terminating: bool) -> Resource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &spec["names"];
    let texts = |list: &Value| list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let verbs = if terminating { &VERBS_AT_THE_END[..] } else { &VERBS[..] };
    Resource {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        plural: text(&names["plural"]),
        kind: text(&names["kind"]),
        singular: text(&names["singular"]),
        list_kind: names["listKind"].as_str().map(str::to_owned),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        style: Style::Crd,
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        subresources: subresources(&version["subresources"]),
        columns: columns::of(version),
        storage: version["storage"] == true,
        deprecated: version["deprecated"] == true,
    }
}

fn subresources(given: &Value) -> Vec<catalogue::Subresource> {
    let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    let mut out = Vec::new();
    if given["status"].is_object() {
        out.push(catalogue::Subresource { name: "status".into(), verbs: verbs(), kind: None, scale: None });
    }
    let scale = &given["scale"];
    if scale.is_object() {
        let path = |field: &str| scale[field].as_str().unwrap_or_default().to_owned();
        out.push(catalogue::Subresource {
            name: "scale".into(),
            verbs: verbs(),
            kind: Some(("autoscaling".into(), "v1".into(), "Scale".into())),
            scale: Some((path("specReplicasPath"), path("statusReplicasPath"), path("labelSelectorPath"))),
        });
    }
    out
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array();
    let paths = fields.into_iter().flatten().filter_map(|field| field["jsonPath"].as_str());
    paths.map(|path| path.trim_start_matches('.').to_owned()).collect()
}

/// What a client of a deprecated version is told: what the definition says, or which newer version to use.
fn warning(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(said) = version["deprecationWarning"].as_str() {
        return Some(said.to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named =
        |version: &str| format!("{}/{version} {}", text(&spec["group"]), text(&spec["names"]["kind"]));
    let own = text(&version["name"]);
    let newer = spec["versions"].as_array().into_iter().flatten();
    let newer = newer.filter(|one| one["served"] == true && one["deprecated"] != true);
    let newer = newer.map(|one| text(&one["name"])).filter(|name| preference(name) > preference(&own));
    let instead = newer.max_by_key(|name| preference(name)).map(|name| format!("; use {}", named(&name)));
    Some(format!("{} is deprecated{}", named(&own), instead.unwrap_or_default()))
}
