//! Storage kinds: classes and where their volumes may be, drivers, nodes' drivers, capacities, attachments.
//!
//! In: an object of one of these kinds, or a part of it, on an update with what stands. Out: field errors in kube-apiserver's order.

use std::collections::{BTreeSet, HashMap};

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::{Errors, entries, facts, invalid_each, judge, list, names, text};

/// Bytes that parameters may hold in all.
const MAX_PARAMETERS: usize = 256 << 10;

/// A provisioner's or driver's name.
pub(super) fn provisioner(name: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let name = name.as_str().unwrap_or_default().to_lowercase();
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        invalid_each(errors, path, &name, names::qualified_name(&name));
    }
}

/// Parameters of a class.
pub(super) fn parameters(value: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let all: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    if all.len() > 512 {
        errors.push(FieldError::too_long(path, 512));
        return;
    }
    let mut size = 0;
    for (key, value) in &all {
        if key.is_empty() {
            errors.push(FieldError::invalid(path, "", "field can not be empty."));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS {
        errors.push(FieldError::too_long(path, MAX_PARAMETERS as u64));
    }
}

/// `serviceAccountTokenInSecrets` is set only where tokens are asked for.
pub(super) fn token_in_secrets(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(wanted) = spec["serviceAccountTokenInSecrets"].as_bool()
        && list(spec, "tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), wanted, detail));
    }
}

/// One token for each audience.
pub(super) fn token_requests(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, request) in all.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        if seen.insert(text(request, "audience")) {
            judge(facts::STORAGE_V1_TOKEN_REQUEST, request, None, &at, errors);
        } else {
            errors.push(FieldError::duplicate(&at.child("audience"), text(request, "audience")));
        }
    }
}

pub(crate) fn csi_node(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = Path::field("spec");
    let path = spec.child("drivers");
    let mut seen = BTreeSet::new();
    for (index, driver) in list(&new["spec"], "drivers").iter().enumerate() {
        let at = path.index(index);
        judge(facts::STORAGE_V1_CSINODE_DRIVER, driver, None, &at, errors);
        if !seen.insert(text(driver, "name")) {
            errors.push(FieldError::duplicate(&at.child("name"), text(driver, "name")));
        }
        let mut keys = BTreeSet::new();
        for key in list(driver, "topologyKeys").iter().filter_map(Value::as_str) {
            if key.is_empty() {
                errors.push(FieldError::required(&at, ""));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(&at, key));
            }
            invalid_each(errors, &at, key, names::qualified_name(key));
        }
    }
    for before in old.map_or(&[][..], |old| list(&old["spec"], "drivers")) {
        for now in list(&new["spec"], "drivers") {
            // How many volumes fit may change while the node runs.
            let fixed = |driver: &Value| {
                let mut driver = driver.clone();
                driver.as_object_mut().map(|fields| fields.remove("allocatable"));
                driver
            };
            if now["name"] == before["name"] && fixed(now) != fixed(before) {
                let shown = Shown::Raw(go_struct(&fixed(now)).to_string());
                errors.push(FieldError::invalid(&path, shown, "field is immutable"));
            }
        }
    }
}

/// The spec of an attachment never changes.
pub(super) fn attachment_stays(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if old.is_some_and(|old| old != spec) {
        let shown = Shown::Raw(go_struct(spec).to_string());
        errors.push(FieldError::invalid(path, shown, "field is immutable"));
    }
}

/// The volume: one by its name, or one that is told in full.
pub(super) fn attached(source: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source["inlineVolumeSpec"].is_object(), source["persistentVolumeName"].as_str()) {
        (false, None) => errors.push(FieldError::required(path, ONE)),
        (true, Some(_)) => errors.push(FieldError::forbidden(path, ONE)),
        (true, None) => {
            let at = path.child("inlineVolumeSpec");
            let spec = &source["inlineVolumeSpec"];
            super::persistent_volumes::spec(
                spec,
                "",
                super::persistent_volumes::VolumeSpecPlace::Inline,
                &at,
                errors,
            );
        }
        (_, Some("")) => errors.push(FieldError::required(
            &path.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        )),
        _ => {}
    }
}

/// The same, as facts name it.
pub(super) fn attachment_went(new: &Value, _: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    attachment_status(new, errors);
}

/// How an attachment went.
pub(crate) fn attachment_status(new: &Value, errors: &mut Errors) {
    for (field, problem) in entries(new, "status").filter(|(field, _)| field.ends_with("Error")) {
        if text(problem, "message").len() > 1024 {
            let at = Path::field("status");
            errors.push(FieldError::too_long(&at.child(field).child("message"), MAX_PARAMETERS as u64));
        }
        let at = Path::field("status");
        judge(facts::STORAGE_V1_VOLUME_ERROR, problem, None, &at.child(field), errors);
    }
}

/// A term by what it says: each key with its values.
type Term = Vec<(String, BTreeSet<String>)>;

/// Errors of terms that repeat others.
const MOST_REPEATS: usize = 10_000;

/// Where volumes of a class may be: each key of a term once, each value of a key once.
pub(super) fn allowed_topologies(all: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let terms = all.as_array().map_or(&[][..], Vec::as_slice);
    // An empty term is told as a duplicate as often as there are terms: so kube-apiserver counts.
    let mut seen_terms: HashMap<Term, usize> = HashMap::from([(Term::new(), terms.len())]);
    for (index, term) in terms.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("matchLabelExpressions");
        let (mut keys, mut known): (Term, BTreeSet<&str>) = (Term::new(), BTreeSet::new());
        for (index, one) in list(term, "matchLabelExpressions").iter().enumerate() {
            let at = at.index(index);
            let (key, values) = (text(one, "key"), list(one, "values"));
            if values.is_empty() {
                errors.push(FieldError::required(&at.child("values"), ""));
            }
            let mut seen: BTreeSet<String> = BTreeSet::new();
            let at_values = at.child("values");
            for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if !seen.insert(value.to_owned()) {
                    errors.push(FieldError::duplicate(&at_values.index(index), value));
                }
            }
            invalid_each(errors, &at.child("key"), key, names::qualified_name(key));
            if !known.insert(key) {
                errors.push(FieldError::duplicate(&at.child("key"), key));
            }
            keys.push((key.to_owned(), seen));
        }
        keys.sort();
        let times = seen_terms.entry(keys).or_default();
        // Each is told as often as it was there before, in all no more often than anybody reads.
        for _ in 0..(*times).min(MOST_REPEATS.saturating_sub(errors.len())) {
            errors.push(FieldError::duplicate(&at, ""));
        }
        *times += 1;
    }
}
