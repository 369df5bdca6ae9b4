//! What is served: one [`ResourceDefinition`] per group, version and plural name, and the table of them all.
//!
//! In: the embedded catalogue of shipped kinds, and installed CRDs. Out: look-ups by path and
//! by kind. A resource served in several versions is stored once, under one [`StorageId`].

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use karmada_schema::SchemaRef;
use karmada_schema::object::Stored;

use crate::crd::Custom;
use crate::description::{Resource, Style};
use crate::kind_row::KindRow;
use crate::version::{api_version, preference};

/// Where a resource's objects are stored: one per group and plural, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageId(pub Arc<str>);

/// How a kind is treated where kube-apiserver treats compiled kinds and custom resources differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Compiled into kube-apiserver: strategic merge patch, decode errors, Go defaulting.
    Builtin,
    /// Served like a custom resource: no strategic merge patch, structural schema, pruning.
    Custom,
}

/// A subresource, such as `status` or `scale`.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Name in the path.
    pub name: Arc<str>,
    /// Group of what it speaks, where it is not the parent's.
    pub group: Arc<str>,
    /// Version of what it speaks.
    pub version: Arc<str>,
    /// Kind of what it speaks.
    pub kind: Arc<str>,
    /// Verbs.
    pub verbs: Vec<Arc<str>>,
}

/// A column of tables whose cells are in no object.
#[derive(Clone, Copy, Debug)]
pub struct LiveColumn {
    /// Its head.
    pub name: &'static str,
    /// What it shows.
    pub description: &'static str,
}

/// Cells of an object's row.
pub type LiveCells = Arc<dyn Fn(&serde_json::Value) -> Vec<serde_json::Value> + Send + Sync>;

/// Columns that tables of a resource show beside its own (`-o wide`), with what is known at the moment of asking.
#[derive(Clone)]
pub struct LiveColumns {
    /// The columns.
    pub columns: &'static [LiveColumn],
    /// The cells of an object's row, one for each column.
    pub cells: LiveCells,
}

impl std::fmt::Debug for LiveColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.columns).finish()
    }
}

/// What is known of a kind that ships with the hub.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its names, columns and subresources.
    pub resource: &'static Resource,
    /// Its schema.
    pub schema: Option<SchemaRef<'static>>,
}

/// One served resource in one version.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Version.
    pub version: Arc<str>,
    /// Plural name.
    pub plural: Arc<str>,
    /// Singular name.
    pub singular: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Short names of the command line.
    pub short_names: Vec<Arc<str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Arc<str>>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs on the resource itself.
    pub verbs: Vec<Arc<str>>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Treatment.
    pub family: Family,
    /// Whether bodies are read as a CustomResourceDefinition's are.
    pub structural: bool,
    /// Where it is stored.
    pub storage: StorageId,
    /// The version it is stored in.
    pub storage_version: Arc<str>,
    /// The group it is stored in (events are stored in core, whichever group they came through).
    pub storage_group: Arc<str>,
    /// Whether its objects are in no store: somebody provides them.
    pub is_virtual: bool,
    /// What the kind does.
    pub row: &'static KindRow,
    /// What a kind that ships with the hub says of itself, and its schema.
    pub shipped: Option<Shipped>,
    /// What a CustomResourceDefinition says of it; `None` for kinds that ship with the hub.
    pub custom: Option<Arc<Custom>>,
    /// What its tables show beside; set once, by whoever knows it.
    pub live: Arc<OnceLock<LiveColumns>>,
}

impl ResourceDefinition {
    /// `group/version`, or the version alone.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// apiVersion of the stored form.
    pub fn storage_api_version(&self) -> String {
        api_version(&self.storage_group, &self.storage_version)
    }

    /// Whether this version is the stored one.
    pub fn is_storage_version(&self) -> bool {
        self.version == self.storage_version && self.group == self.storage_group
    }

    /// Whether a stored object can be shown as its bytes stand.
    pub fn shows_as_stored(&self, object: &Stored) -> bool {
        match &self.custom {
            Some(custom) => custom.shows_as_stored(object),
            None => self.is_storage_version(),
        }
    }

    /// Whether bodies are read as a CustomResourceDefinition's are. Kinds of a compiled server beside kube-apiserver look like one in all
    /// else.
    pub fn is_structural(&self) -> bool {
        self.structural
    }

    /// The schema of its objects.
    pub fn schema(&self) -> Option<SchemaRef<'_>> {
        match &self.custom {
            Some(custom) => Some(custom.schema().root()),
            None => self.shipped?.schema,
        }
    }

    /// Whether the resource has the verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| &**v == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| &*s.name == name)
    }

    /// Whether objects are kept (review kinds are answered and forgotten).
    pub fn is_stored(&self) -> bool {
        !self.is_virtual && (self.allows("list") && self.allows("create") || self.allows("watch"))
    }
}

/// A definition of a custom kind that is stored under its own group and version, with what the resource says of itself.
pub fn named(resource: &Resource) -> ResourceDefinition {
    let texts = |list: &[String]| list.iter().map(|t| Arc::from(t.as_str())).collect::<Vec<Arc<str>>>();
    let (group, version): (Arc<str>, Arc<str>) =
        (resource.group.as_str().into(), resource.version.as_str().into());
    let subresources = resource.subresources.iter().map(|sub| {
        let own = || (resource.group.clone(), resource.version.clone(), resource.kind.clone());
        let (group, version, kind) = sub.kind.clone().unwrap_or_else(own);
        Subresource {
            name: sub.name.as_str().into(),
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: texts(&sub.verbs),
        }
    });
    ResourceDefinition {
        plural: resource.plural.as_str().into(),
        singular: resource.singular.as_str().into(),
        kind: resource.kind.as_str().into(),
        short_names: texts(&resource.short_names),
        categories: texts(&resource.categories),
        namespaced: resource.namespaced,
        verbs: texts(&resource.verbs),
        subresources: subresources.collect(),
        family: Family::Custom,
        structural: resource.style == Style::Crd,
        storage: StorageId(format!("{group}/{}", resource.plural).into()),
        storage_version: version.clone(),
        storage_group: group.clone(),
        is_virtual: resource.is_virtual,
        row: &KindRow::CUSTOM,
        shipped: None,
        custom: None,
        live: Arc::default(),
        group,
        version,
    }
}

/// One version of a group and its resources.
pub type Version = (Arc<str>, Vec<Arc<ResourceDefinition>>);

/// A group and its versions in order of preference.
pub type Group = (Arc<str>, Vec<Version>);

/// Group, version and kind.
type ByKind = BTreeMap<Arc<str>, BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<ResourceDefinition>>>>;

/// Every served resource. Immutable: a change makes a new one.
#[derive(Default)]
pub struct Catalogue {
    groups: Vec<Group>,
    by_kind: ByKind,
}

impl Catalogue {
    /// Builds the table; groups keep the order given, versions are preferred as Kubernetes prefers them.
    pub fn new(definitions: impl IntoIterator<Item = Arc<ResourceDefinition>>) -> Self {
        let mut catalogue = Catalogue::default();
        for definition in definitions {
            catalogue.insert(definition);
        }
        for (_, versions) in &mut catalogue.groups {
            versions.sort_by(|(one, _), (other, _)| preference(other).cmp(&preference(one)));
        }
        catalogue
    }

    fn insert(&mut self, definition: Arc<ResourceDefinition>) {
        let of_group = self.by_kind.entry(definition.group.clone()).or_default();
        let of_version = of_group.entry(definition.version.clone()).or_default();
        of_version.entry(definition.kind.clone()).or_insert_with(|| definition.clone());
        let versions = match self.groups.iter().position(|(g, _)| *g == definition.group) {
            Some(at) => &mut self.groups[at].1,
            None => {
                self.groups.push((definition.group.clone(), Vec::new()));
                let last = self.groups.len() - 1;
                &mut self.groups[last].1
            }
        };
        match versions.iter_mut().find(|(v, _)| *v == definition.version) {
            Some((_, resources)) => resources.push(definition),
            None => versions.push((definition.version.clone(), vec![definition])),
        }
    }

    /// Groups with their versions in order of preference.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The resources of one group and version.
    pub fn resources(&self, group: &str, version: &str) -> Option<&[Arc<ResourceDefinition>]> {
        let (_, versions) = self.groups.iter().find(|(g, _)| &**g == group)?;
        versions.iter().find(|(v, _)| &**v == version).map(|(_, r)| r.as_slice())
    }

    /// One resource by its path.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceDefinition>> {
        self.resources(group, version)?.iter().find(|d| &*d.plural == plural)
    }

    /// One resource by its kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceDefinition>> {
        self.by_kind.get(group)?.get(version)?.get(kind)
    }

    /// Every definition.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ResourceDefinition>> {
        self.groups
            .iter()
            .flat_map(|(_, versions)| versions.iter().flat_map(|(_, resources)| resources.iter()))
    }

    /// One definition per stored resource: the preferred version.
    pub fn preferred(&self) -> Vec<Arc<ResourceDefinition>> {
        let mut seen: Vec<&StorageId> = Vec::new();
        let mut out = Vec::new();
        for definition in self.iter().filter(|d| d.is_stored()) {
            if !seen.contains(&&definition.storage) {
                seen.push(&definition.storage);
                out.push(definition.clone());
            }
        }
        out
    }
}
