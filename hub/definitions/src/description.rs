//! How a served resource describes itself, shipped or brought by a user: names, scope, verbs, subresources, table columns.
//!
//! Types alone: read from the catalogue of `karmada-kinds`, or made of a version of a definition; discovery, routing and tables read them.

use serde::Deserialize;

/// How a kind's bodies are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A built-in Go type.
    Go,
    /// A Go type of an API server beside kube-apiserver: no built-in defaults or validation.
    Aggregated,
    /// A structural schema, as CRDs have: no strategic merge patch.
    Crd,
}

/// A served resource.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural, as in paths.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// The singular.
    pub singular: String,
    #[serde(default)]
    /// The kind of lists, where it is not the kind and `List`.
    pub list_kind: Option<String>,
    /// Short names, as kubectl takes them.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// How bodies are treated.
    pub style: Style,
    /// Verbs of the resource itself, sorted.
    pub verbs: Vec<String>,
    /// Subresources.
    #[serde(default)]
    pub subresources: Vec<Subresource>,
    /// Table columns; empty for Name and Created At (or Age for structural kinds).
    #[serde(default)]
    pub columns: Vec<Column>,
    /// Whether this version is the stored one, where a group serves the kind in several.
    #[serde(default)]
    pub storage: bool,
    /// Whether its objects are in no store: somebody provides them.
    #[serde(default, rename = "virtual")]
    pub is_virtual: bool,
    /// Whether the version warns that it is deprecated.
    #[serde(default)]
    pub deprecated: bool,
}

/// A subresource of a resource.
#[derive(Clone, Debug, Deserialize)]
pub struct Subresource {
    /// `status`, `scale`, …
    pub name: String,
    /// Its verbs, sorted.
    pub verbs: Vec<String>,
    /// Group, version and kind of its bodies where they are not the resource's own.
    #[serde(default)]
    pub kind: Option<(String, String, String)>,
    /// A structural kind's scale paths: spec replicas, status replicas, selector (may be empty).
    #[serde(default)]
    pub scale: Option<(String, String, String)>,
}

/// A table column.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    /// `name` for the object's name, or empty.
    pub format: String,
    /// 0 is always shown, more only in wide tables.
    pub priority: i32,
    /// Where the value is, for structural kinds.
    pub json_path: Option<String>,
    /// What the column says, in words; may be empty.
    pub description: String,
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Column, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Row {
            Plain(String, String, String, i32),
            Path(String, String, String, i32, String),
        }
        let (name, ty, format, priority, json_path) = match Row::deserialize(deserializer)? {
            Row::Plain(name, ty, format, priority) => (name, ty, format, priority, None),
            Row::Path(name, ty, format, priority, path) => (name, ty, format, priority, Some(path)),
        };
        Ok(Column { name, ty, format, priority, json_path, description: String::new() })
    }
}

impl Resource {
    /// The kind of lists.
    pub fn list_kind(&self) -> String {
        self.list_kind.clone().unwrap_or_else(|| format!("{}List", self.kind))
    }

    /// `group/version`, or the version alone for core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// A subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}
