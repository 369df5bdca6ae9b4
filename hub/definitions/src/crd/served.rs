//! The resources that a definition asks to be served.
//!
//! In: a stored definition. Out: one [`ResourceDefinition`] for each served version, with verbs, subresources, columns and what clients of
//! a deprecated version are told. Nothing is refused here: a stored definition was judged before.

use std::sync::Arc;

use serde_json::Value;

use super::columns;
use super::custom::{Crd, Custom};
use crate::description::{Resource, Style, Subresource};
use crate::resource::{ResourceDefinition, named};
use crate::version::preference;

/// What a kind may be asked to do.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The same while its definition is going away.
const VERBS_AT_THE_END: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

impl Crd {
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
        columns: columns::columns_of(version),
        storage: version["storage"] == true,
        is_virtual: false,
        deprecated: version["deprecated"] == true,
    }
}

fn subresources(given: &Value) -> Vec<Subresource> {
    let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    let mut out = Vec::new();
    if given["status"].is_object() {
        out.push(Subresource { name: "status".into(), verbs: verbs(), kind: None, scale: None });
    }
    let scale = &given["scale"];
    if scale.is_object() {
        let path = |field: &str| scale[field].as_str().unwrap_or_default().to_owned();
        out.push(Subresource {
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
    let instead = newer
        .max_by(|one, other| preference(one).cmp(&preference(other)))
        .map(|name| format!("; use {}", named(&name)));
    Some(format!("{} is deprecated{}", named(&own), instead.unwrap_or_default()))
}
