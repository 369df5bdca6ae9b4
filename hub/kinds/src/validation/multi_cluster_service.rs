//! Services over several clusters: their name, ports, clusters and types.
//!
//! In: the object, on an update with what stands. Out: field errors; the name is judged on a create alone.

use std::collections::HashSet;

use karmada_api::validation::cluster::cluster_name;
use karmada_schema::path::Path;
use karmada_schema::{FieldError, names};
use serde_json::Value;

use super::{Errors, list, text};

/// How a Service may be exposed.
const TYPES: [&str; 2] = ["CrossCluster", "LoadBalancer"];

/// What is wrong with a service, or with its change.
pub(crate) fn multi_cluster_service(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let name = text(&new["metadata"], "name");
    if old.is_none() {
        // It becomes the name of a Service.
        let path = Path::field("metadata");
        errors.extend(
            names::dns_1035_label(name)
                .into_iter()
                .map(|why| FieldError::invalid(&path.child("name"), name, why)),
        );
    }
    let (spec, path) = (&new["spec"], Path::field("spec"));
    types(spec, old.map(|old| &old["spec"]), &path.child("types"), errors);
    ports(list(spec, "ports"), &path.child("ports"), errors);
    let range = path.child("range");
    for field in ["providerClusters", "consumerClusters"] {
        for (index, cluster) in list(spec, field).iter().enumerate() {
            let at = range.child(field).index(index).to_string();
            errors.extend(cluster_name(text(cluster, "name"), &at));
        }
    }
}

/// One type, which never changes.
fn types(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let all = list(spec, "types");
    if let Some(old) = old.filter(|old| list(old, "types") != all) {
        let words = "MultiClusterService types are immutable";
        errors.push(FieldError::invalid(path, old["types"].clone(), words));
    }
    let distinct: HashSet<&Value> = all.iter().collect();
    if distinct.len() > 1 {
        let words = "MultiClusterService types should not contain more than one type";
        errors.push(FieldError::invalid(path, spec["types"].clone(), words));
    }
    for (index, kind) in all.iter().enumerate() {
        if !kind.as_str().is_some_and(|kind| TYPES.contains(&kind)) {
            errors.push(FieldError::invalid(&path.index(index), kind.clone(), "ExposureType Error"));
        }
    }
}

/// Ports have numbers, and names of their own.
fn ports(all: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, port) in all.iter().enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::dns_label(name);
            if wrong.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
            errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&at.child("name"), name, why)));
        }
        let number = port["port"].as_i64().unwrap_or(0);
        let wrong = names::port_number(number);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&at.child("port"), number, why)));
    }
}
