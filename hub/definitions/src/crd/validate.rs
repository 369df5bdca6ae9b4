//! What a CustomResourceDefinition may say, in kube-apiserver's words: names, versions, conversion, and what may not change.
//!
//! In: a defaulted definition and, on update, the stored one. Out: everything that is wrong with its spec. What all versions
//! share is reported where the older form of a definition had it: `spec.validation`, `spec.subresources`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use karmada_cel::Compiling;
use karmada_schema::condition;
use karmada_schema::fields::only_name_whatever;
use karmada_schema::names::{dns_1035_label, dns_subdomain};
use serde_json::Value;

use super::names::APPROVED;
use super::report::{Errors, invalid, invalid_raw, items, not_supported, required, text, versions};
use super::{conversion_rules, names, schema_rules, selectable_rules};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Everything that is wrong with a definition; `errors` has what is wrong with its metadata. `compiling`: what the request compiles.
/// Where that finds itself crowded in the end, nothing is known.
pub fn validate(new: &Value, old: Option<&Value>, compiling: &Arc<Compiling>, errors: &mut Errors) {
    let spec = &new["spec"];
    let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if old.is_none() {
        only_name_whatever(new, &expected, "must be spec.names.plural+\".\"+spec.group", errors);
    }
    // A status that changes, or metadata, does not bring the spec into question again.
    if old.is_none_or(|old| old["spec"] != *spec) {
        validate_spec(spec, old.map_or(&Value::Null, |old| &old["spec"]), compiling, errors);
    }
    if let Some(old) = old {
        unchanged(new, old, errors);
    }
    stored_versions(new, errors);
    if old.is_none_or(|old| old["spec"] != *spec) {
        approval(new, errors);
        if spec["preserveUnknownFields"] == true {
            let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
            errors.push(invalid("spec.preserveUnknownFields", true, why));
        }
    }
}

/// `before`: the spec that is replaced.
fn validate_spec(spec: &Value, before: &Value, compiling: &Arc<Compiling>, errors: &mut Errors) {
    let group = text(spec, "group");
    if group.is_empty() {
        errors.push(required("spec.group", ""));
    } else if let Some(why) = joined(&dns_subdomain(group)) {
        errors.push(invalid("spec.group", group, why));
    } else if !group.contains('.') {
        errors.push(invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match text(spec, "scope") {
        "" => errors.push(required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    validate_versions(spec, before, compiling, errors);
    validate_names(&spec["names"], errors);
    shared_parts(spec, before, compiling, errors);
    let strategy = text(&spec["conversion"], "strategy");
    if spec["preserveUnknownFields"] == true && strategy != "None" {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(invalid("spec.conversion.strategy", strategy, why));
    }
    conversion_rules::validate(
        &spec["conversion"],
        before.is_object().then_some(&before["conversion"]),
        errors,
    );
}

fn joined(messages: &[String]) -> Option<String> {
    (!messages.is_empty()).then(|| messages.join(","))
}

/// Whether all versions say the same: then it is reported once, above them.
fn shared<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    let all = items(spec, "versions");
    let first = &all.first()?[field];
    all.iter().all(|version| version[field] == *first).then_some(first)
}

fn validate_versions(spec: &Value, before: &Value, compiling: &Arc<Compiling>, errors: &mut Errors) {
    let all = items(spec, "versions");
    for (at, version) in all.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            errors.push(required(&format!("spec.versions[{at}].schema.openAPIV3Schema"), ""));
        }
    }
    let defaulted = |version: &Value| schema_rules::has_default(&version["schema"]["openAPIV3Schema"]);
    if spec["preserveUnknownFields"] == true && all.iter().any(defaulted) {
        let why = "must be false in order to use defaults in the schema";
        errors.push(invalid("spec.preserveUnknownFields", true, why));
    }
    let differs = |field: &str| shared(spec, field).is_none();
    let [schemas, parts, shown, selected] =
        ["schema", "subresources", "additionalPrinterColumns", "selectableFields"].map(differs);
    let stood = schema_rules::Stood::of(before);
    let with_status = |version: &Value| version["subresources"]["status"].is_object();
    for (at, version) in all.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = text(version, "name");
        if let Some(why) = joined(&dns_1035_label(name)) {
            errors.push(invalid(&format!("{path}.name"), name, why));
        }
        deprecation(version, &path, errors);
        if schemas {
            let status = with_status(version);
            let path = format!("{path}.schema");
            schema_rules::validate(&version["schema"], &stood, status, &path, compiling, errors);
        }
        if parts {
            subresources(&version["subresources"], &format!("{path}.subresources"), errors);
        }
        if shown {
            columns(version, &path, errors);
        }
        if selected {
            selectable_rules::validate(version, version, &path, errors);
        }
    }
    let mut seen: Vec<&str> = all.iter().map(|version| text(version, "name")).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < all.len() {
        errors.push(invalid_raw("spec.versions", versions(spec), "must contain unique version names"));
    }
    if all.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(invalid_raw("spec.versions", versions(spec), why));
    }
    let first = all.first().map(|version| text(version, "name")).unwrap_or_default();
    if let Some(why) = joined(&dns_1035_label(first)).filter(|_| !first.is_empty()) {
        errors.push(invalid("spec.version", first, why));
    }
}

fn deprecation(version: &Value, path: &str, errors: &mut Errors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let path = format!("{path}.deprecationWarning");
    if version["deprecated"] != true {
        errors.push(invalid(&path, warning, "can only be set for deprecated versions"));
    }
    if warning.is_empty() {
        errors.push(invalid(&path, warning, "must not be an empty string"));
    }
    if warning.len() > 256 {
        errors.push(invalid(&path, warning, "must be <= 256 characters long"));
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.push(invalid(&path, warning, why));
    }
}

/// What all versions share.
fn shared_parts(spec: &Value, before: &Value, compiling: &Arc<Compiling>, errors: &mut Errors) {
    let status = items(spec, "versions").iter().any(|v| v["subresources"]["status"].is_object());
    if let Some(schema) = shared(spec, "schema") {
        let stood = schema_rules::Stood::of(before);
        schema_rules::validate(schema, &stood, status, "spec.validation", compiling, errors);
    }
    if let Some(given) = shared(spec, "subresources") {
        subresources(given, "spec.subresources", errors);
    }
    let Some(first) = items(spec, "versions").first() else { return };
    if shared(spec, "additionalPrinterColumns").is_some() {
        columns(first, "spec", errors);
    }
    if shared(spec, "selectableFields").is_some() {
        selectable_rules::validate(first, first, "spec", errors);
    }
}

fn columns(version: &Value, path: &str, errors: &mut Errors) {
    for (at, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        if text(column, "name").is_empty() {
            errors.push(required(&format!("{path}.name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.push(required(&format!("{path}.type"), &types)),
            ty if COLUMN_TYPES.contains(&ty) => {}
            ty => errors.push(invalid(&format!("{path}.type"), ty, types)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(invalid(&format!("{path}.format"), format, why));
        }
        simple_path(text(column, "jsonPath"), &format!("{path}.JSONPath"), errors);
    }
}

/// A path of the simple form; answers whether it is there and well formed.
fn simple_path(given: &str, path: &str, errors: &mut Errors) -> bool {
    if given.is_empty() {
        errors.push(required(path, ""));
    } else if !given.starts_with('.') {
        errors.push(invalid(path, given, "must be a simple json path starting with ."));
    }
    given.starts_with('.')
}

fn subresources(given: &Value, path: &str, errors: &mut Errors) {
    let scale = &given["scale"];
    if !scale.is_object() {
        return;
    }
    for (field, roots, below) in [
        ("specReplicasPath", &[".spec."][..], ".spec"),
        ("statusReplicasPath", &[".status."][..], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."][..], "either .spec or .status"),
    ] {
        let (value, path) = (text(scale, field), format!("{path}.scale.{field}"));
        if value.is_empty() && field == "labelSelectorPath" {
            continue;
        }
        if simple_path(value, &path, errors) && !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(invalid(&path, value, format!("should be a json path under {below}")));
        }
    }
}

fn validate_names(names: &Value, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.push(required(&format!("spec.names.{field}"), ""));
        }
    }
    for field in ["plural", "singular"] {
        let name = text(names, field);
        if let Some(why) = joined(&dns_1035_label(name)).filter(|_| !name.is_empty()) {
            errors.push(invalid(&format!("spec.names.{field}"), name, why));
        }
    }
    for field in ["kind", "listKind"] {
        let name = text(names, field);
        if let Some(why) = joined(&dns_1035_label(&name.to_lowercase())).filter(|_| !name.is_empty()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(invalid(&format!("spec.names.{field}"), name, why));
        }
    }
    several(names, "shortNames", errors);
    let (kind, list) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list {
        errors.push(invalid("spec.names.listKind", list, "kind and listKind may not be the same"));
    }
    several(names, "categories", errors);
}

fn several(names: &Value, field: &str, errors: &mut Errors) {
    for (at, name) in items(names, field).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if let Some(why) = joined(&dns_1035_label(name)) {
            errors.push(invalid(&format!("spec.names.{field}[{at}]"), name, why));
        }
    }
}

/// What may not change: the group and plural ever, scope and kind once the names are established.
fn unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    let mut fixed = vec!["/spec/group", "/spec/names/plural"];
    if condition::is_true(old, "Established") {
        fixed.splice(0..0, ["/spec/scope", "/spec/names/kind"]);
    }
    for pointer in fixed {
        let (was, is) = (old.pointer(pointer), new.pointer(pointer));
        if was != is {
            let path = pointer[1..].replace('/', ".");
            errors.push(invalid(&path, is.cloned().unwrap_or_default(), "field is immutable"));
        }
    }
}

fn stored_versions(object: &Value, errors: &mut Errors) {
    let path = "status.storedVersions";
    let stored = &object["status"]["storedVersions"];
    let list = items(&object["status"], "storedVersions");
    if list.is_empty() {
        errors.push(invalid(path, Value::Null, "must have at least one stored version"));
        return;
    }
    let all = items(&object["spec"], "versions");
    let mut turns = karmada_schema::fields::whole_lists(list);
    // The first version of a name takes it; another of the same name misses it.
    let mut left: HashSet<&Value> = list.iter().collect();
    for version in all {
        let taken = left.remove(&version["name"]);
        if version["storage"] == true && !taken && turns.next().is_some() {
            let why = format!("must have the storage version {}", text(version, "name"));
            errors.push(invalid(path, stored.clone(), why));
        }
    }
    // Where each stands last.
    let places: HashMap<&Value, usize> = list.iter().enumerate().map(|(at, name)| (name, at)).collect();
    for name in list.iter().filter(|name| left.contains(name)) {
        let at = places.get(name).copied().unwrap_or_default();
        let shown = name.as_str().unwrap_or_default();
        let why = format!(
            "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
        );
        errors.push(invalid(&format!("{path}[{at}]"), shown, why));
    }
}

fn approval(object: &Value, errors: &mut Errors) {
    if !names::is_protected(text(&object["spec"], "group")) {
        return;
    }
    let said = object["metadata"]["annotations"][APPROVED].as_str().unwrap_or_default();
    let path = format!("metadata.annotations[{APPROVED}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if said.is_empty() {
        let why = format!("protected groups must have approval annotation \"{APPROVED}\", {see}");
        errors.push(required(&path, &why));
    } else if !said.starts_with("unapproved") && !said.contains("://") {
        let why = format!(
            "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {see}"
        );
        errors.push(invalid(&path, said, why));
    }
}
