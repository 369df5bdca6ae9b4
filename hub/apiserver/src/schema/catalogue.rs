//! The resources that ship with the hub: names, scope, verbs, subresources, table columns.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::kind::Style;

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

static TEXT: &str = include_str!("../../data/catalogue.jsonl");

/// Every shipped resource, in discovery's order.
pub fn resources() -> &'static [Resource] {
    static RESOURCES: OnceLock<Vec<Resource>> = OnceLock::new();
    RESOURCES.get_or_init(|| {
        TEXT.lines()
            .map(|line| {
                serde_json::from_str(line).expect("the embedded catalogue parses, as the crate's tests show")
            })
            .collect()
    })
}

/// The resource at a path.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    resources().iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The resource of a kind.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    type Key = (&'static str, &'static str, &'static str);
    static INDEX: OnceLock<BTreeMap<Key, usize>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let all = resources().iter().enumerate();
        all.map(|(at, r)| ((r.group.as_str(), r.version.as_str(), r.kind.as_str()), at)).collect()
    });
    index.get(&(group, version, kind)).map(|at| &resources()[*at])
}

/// How a kind's bodies are treated; kinds without a resource (lists, options, Scale) are Go types.
pub(super) fn style(group: &str, version: &str, kind: &str) -> Style {
    of_kind(group, version, kind).map_or(Style::Go, |resource| resource.style)
}

#[cfg(test)]
mod tests {
    use super::resources;

    /// Karmada's kinds that something acts on. Of each other one, whoever writes it is told that nothing does.
    const ACTING: [&str; 8] = [
        "Cluster",
        "ClusterOverridePolicy",
        "ClusterPropagationPolicy",
        "ClusterResourceBinding",
        "OverridePolicy",
        "PropagationPolicy",
        "ResourceBinding",
        "Work",
    ];

    #[test]
    fn each_of_karmadas_kinds_acts_or_says_that_it_does_not() {
        let fleet = |group: &str| group.ends_with(".karmada.io") || group == "multicluster.x-k8s.io";
        for resource in resources().iter().filter(|resource| fleet(&resource.group)) {
            let (kind, inert) =
                (resource.kind.as_str(), karmada_api::inert::is_inert(&resource.group, &resource.kind));
            assert_ne!(ACTING.contains(&kind), inert, "{kind}");
        }
    }
}
