//! Devices that are claimed by what they are (`resource.k8s.io`): classes, claims, templates.
//!
//! In: an object of one of these kinds or its status, on an update what stands, and what the request compiles. Out: field errors in
//! kube-apiserver's order; those of CEL selectors that do not compile among them. Slices themselves are in `device_slices`, which shares
//! names and lists with this.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_api::resource_name::is_extended;
use karmada_cel::{CompileError, Compiling, Declarations, Expected, Object, Program, Type};
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::{Value, json};

use super::metadata::{annotations, labels};
use super::volume_fields::csi_driver_name;
use super::{Errors, entries, facts, invalid_each, is_empty, judge, list, names, text};

/// Requests, constraints, selectors and configurations of one claim.
const MOST: usize = 32;
/// What one request offers to choose among.
const MOST_OFFERED: usize = 8;

pub(super) fn label(name: &str, path: &Path<'_>, errors: &mut Errors) {
    invalid_each(errors, path, name, names::dns_label(name));
}

/// The name of a pool: names of the DNS, one below the other.
pub(super) fn pool(name: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let name = name.as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 253 {
        errors.push(FieldError::too_long(path, 253));
    }
    for part in name.split('/') {
        invalid_each(errors, path, part, names::dns_subdomain(part));
    }
}

/// Refuses a list that is too long. Answers whether its items are to be judged: those of one too long are not.
pub(super) fn check_length(all: &[Value], most: usize, path: &Path<'_>, errors: &mut Errors) -> bool {
    let fits = all.len() <= most;
    if !fits {
        errors.push(FieldError::too_many(path, all.len() as u64, most as u64));
    }
    fits
}

/// Refuses each item whose field has the value of an item before it.
pub(super) fn once(all: &[Value], field: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, one) in all.iter().enumerate() {
        if !seen.insert(&one[field]) {
            errors.push(FieldError::duplicate(&path.index(index), one[field].clone()));
        }
    }
}

/// What a selector may name.
fn names_of_a_device() -> Declarations {
    let map = |value: Type| Type::Map(Box::new(Type::String), Box::new(value));
    let fields = [
        ("driver", Type::String),
        ("attributes", map(map(Type::Dyn))),
        ("capacity", map(map(Type::Opaque("kubernetes.Quantity")))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    let fields = fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    let device = Object { name: "DRADevice".to_owned(), fields };
    Declarations::new().with("device", Type::Object(Arc::new(device)))
}

/// The CEL selectors. Each is compiled, so none is judged where there are too many.
fn selectors(of: &Value, path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    let all = list(of, "selectors");
    let path = path.child("selectors");
    if !check_length(all, MOST, &path, errors) {
        return;
    }
    let names = names_of_a_device();
    for (index, one) in all.iter().enumerate() {
        let at = path.index(index);
        selector(one, &names, &at.child("cel"), compiling, errors);
    }
}

fn selector(one: &Value, names: &Declarations, at: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    if !one["cel"].is_object() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let (source, at) = (text(&one["cel"], "expression"), at.child("expression"));
    if source.len() > 10 << 10 {
        errors.push(FieldError::too_long(&at, 10 << 10));
        return;
    }
    let why = match Program::compile_within(source, names, Expected::Bool, compiling) {
        Ok(_) => return,
        Err(CompileError::Invalid(why)) => format!("compilation failed: {why}"),
        Err(CompileError::Result { found, .. }) => {
            format!("must evaluate to bool or the unknown type, not {found}")
        }
    };
    errors.push(FieldError::invalid(&at, source, why));
}

/// What a driver is told, which nobody else reads.
fn opaque(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("opaque");
    let opaque = &config["opaque"];
    if !opaque.is_object() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    csi_driver_name(text(opaque, "driver"), &at.child("driver"), errors);
    let at = at.child("parameters");
    match &opaque["parameters"] {
        Value::Null => errors.push(FieldError::required(&at, "")),
        Value::Object(_) if opaque["parameters"].to_string().len() > 10 << 10 => {
            errors.push(FieldError::too_long(&at, 10 << 10));
        }
        Value::Object(_) => {}
        _ => errors.push(FieldError::invalid(&at, "<value omitted>", "must be a valid JSON object")),
    }
}

pub(crate) fn device_class(new: &Value, compiling: &Compiling, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    selectors(spec, &path, compiling, errors);
    let (all, at) = (list(spec, "config"), path.child("config"));
    if check_length(all, MOST, &at, errors) {
        all.iter().enumerate().for_each(|(index, config)| opaque(config, &at.index(index), errors));
    }
    if let Some(name) = spec["extendedResourceName"].as_str().filter(|name| !is_extended(name)) {
        let detail = "must be a valid extended resource name";
        errors.push(FieldError::invalid(&path.child("extendedResourceName"), name, detail));
    }
}

/// A claim stays as it was made, so that a change is judged by nothing else.
pub(crate) fn resource_claim(new: &Value, old: Option<&Value>, compiling: &Compiling, errors: &mut Errors) {
    let path = Path::field("spec");
    match old {
        None => claim_spec(&new["spec"], &path, compiling, errors),
        Some(old) if old["spec"] != new["spec"] => {
            errors.push(FieldError::invalid(&path, shown_claim(&new["spec"]), "field is immutable"));
        }
        Some(_) => {}
    }
}

pub(crate) fn resource_claim_template(
    new: &Value,
    old: Option<&Value>,
    compiling: &Compiling,
    errors: &mut Errors,
) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    // Metadata that says nothing is none.
    let said = |spec: &Value| {
        let mut spec = spec.clone();
        let said = spec.get_mut("metadata").and_then(Value::as_object_mut);
        if said.is_some_and(|said| said.values().all(is_empty)) {
            spec.as_object_mut().map(|spec| spec.remove("metadata"));
        }
        spec
    };
    let (metadata, at) = (&spec["metadata"], path.child("metadata"));
    annotations(metadata, &at.child("annotations"), errors);
    labels(&metadata["labels"], &at.child("labels"), errors);
    for (field, value) in entries(spec, "metadata") {
        if !matches!(field.as_str(), "annotations" | "labels") && !value.is_null() {
            // Go's name of the field with its first letter made small.
            let named = if field == "uid" { "uID" } else { field };
            errors.push(FieldError::forbidden(&at.child(named), "cannot be set"));
        }
    }
    claim_spec(&spec["spec"], &path.child("spec"), compiling, errors);
    if old.is_some_and(|old| said(&old["spec"]) != said(spec)) {
        let Shown::Raw(inner) = shown_claim(&spec["spec"]) else { return };
        let shown = Shown::Raw(format!("{{\"Spec\":{inner}}}"));
        errors.push(FieldError::invalid(&path, shown, "field is immutable"));
    }
}

/// A claim's spec, roughly as kube-apiserver's memory has it.
fn shown_claim(spec: &Value) -> Shown {
    Shown::Raw(format!("{{\"Devices\":{}}}", spec["devices"]))
}

/// The names of the requests of a claim, and with each, of those that it offers to choose among.
struct Requests(HashSet<String>);

impl Requests {
    fn of(devices: &Value) -> Requests {
        let names = list(devices, "requests").iter().flat_map(|request| {
            let name = text(request, "name");
            let offered = list(request, "firstAvailable").iter();
            let offered = offered.map(move |one| format!("{name}/{}", text(one, "name")));
            std::iter::once(name.to_owned()).chain(offered)
        });
        Requests(names.collect())
    }
}

fn reference(name: &str, requests: &Requests, path: &Path<'_>, errors: &mut Errors) {
    const WORDS: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                         separated by '/'";
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        errors.push(FieldError::invalid(path, name, WORDS));
        return;
    }
    parts.into_iter().for_each(|part| label(part, path, errors));
    if !requests.0.contains(name) {
        errors.push(FieldError::invalid(path, name, WORDS));
    }
}

fn references(of: &Value, requests: &Requests, path: &Path<'_>, errors: &mut Errors) {
    let (all, at) = (list(of, "requests"), path.child("requests"));
    if !check_length(all, MOST, &at, errors) {
        return;
    }
    for (index, name) in all.iter().filter_map(Value::as_str).enumerate() {
        reference(name, requests, &at.index(index), errors);
    }
    let mut seen = HashSet::new();
    for (index, name) in all.iter().enumerate() {
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.index(index), name.clone()));
        }
    }
}

fn claim_spec(spec: &Value, path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    let (devices, path) = (&spec["devices"], path.child("devices"));
    let (all, at) = (list(devices, "requests"), path.child("requests"));
    if check_length(all, MOST, &at, errors) {
        all.iter().enumerate().for_each(|(index, one)| request(one, &at.index(index), compiling, errors));
        once(all, "name", &at, errors);
    }
    let known = Requests::of(devices);
    let (all, at) = (list(devices, "constraints"), path.child("constraints"));
    if check_length(all, MOST, &at, errors) {
        all.iter().enumerate().for_each(|(index, one)| constraint(one, &known, &at.index(index), errors));
    }
    let (all, at) = (list(devices, "config"), path.child("config"));
    if check_length(all, MOST, &at, errors) {
        for (index, one) in all.iter().enumerate() {
            references(one, &known, &at.index(index), errors);
            opaque(one, &at.index(index), errors);
        }
    }
}

/// What devices that are given together must share, or must not.
fn constraint(one: &Value, known: &Requests, path: &Path<'_>, errors: &mut Errors) {
    references(one, known, path, errors);
    let given = ["matchAttribute", "distinctAttribute"].into_iter();
    match given.filter_map(|field| Some((field, one[field].as_str()?))).next() {
        None => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                          fields are set";
            errors.push(FieldError::required(path, detail));
        }
        Some((field, name)) => {
            let at = path.child(field);
            attribute_name(name, &at, errors);
            if !name.contains('/') {
                let detail = "a fully qualified name must be a domain and a name separated by a slash";
                errors.push(FieldError::invalid(&at, name, detail));
            }
        }
    }
}

fn request(request: &Value, path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    label(text(request, "name"), &path.child("name"), errors);
    let (first, exactly) = (list(request, "firstAvailable"), request["exactly"].is_object());
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    match (first.is_empty(), exactly) {
        (true, false) => errors.push(FieldError::required(path, ONE)),
        (false, true) => {
            let detail = format!("{ONE}, but multiple fields are set");
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        (true, true) => wanted(&request["exactly"], &path.child("exactly"), compiling, errors),
        (false, false) => {
            let at = path.child("firstAvailable");
            if check_length(first, MOST_OFFERED, &at, errors) {
                for (index, one) in first.iter().enumerate() {
                    label(text(one, "name"), &at.index(index).child("name"), errors);
                    wanted(one, &at.index(index), compiling, errors);
                }
                once(first, "name", &at, errors);
            }
        }
    }
}

/// What of devices is asked for: class, selectors, how many.
fn wanted(of: &Value, path: &Path<'_>, compiling: &Compiling, errors: &mut Errors) {
    judge(facts::RESOURCE_V1_EXACT_DEVICE_REQUEST, of, None, path, errors);
    selectors(of, path, compiling, errors);
    let (mode, count) = (text(of, "allocationMode"), of["count"].as_i64().unwrap_or(0));
    let at = path.child("count");
    match mode {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(&at, count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(&at, count, "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => {
            let at = path.child("allocationMode");
            errors.push(FieldError::not_supported(&at, other, &["All", "ExactCount"]));
        }
    }
    let at = path.child("tolerations");
    for (index, one) in list(of, "tolerations").iter().enumerate() {
        judge(facts::RESOURCE_V1_DEVICE_TOLERATION, one, None, &at.index(index), errors);
    }
}

/// What a toleration says beside what it is of.
pub(super) fn value_of_toleration(one: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (value, at) = (text(one, "value"), path.child("value"));
    match text(one, "operator") {
        "Exists" if !value.is_empty() => {
            errors.push(FieldError::invalid(&at, value, "must be empty for operator `Exists`"));
        }
        "Equal" => invalid_each(errors, &at, value, names::label_value(value)),
        _ => {}
    }
}

/// The name of an attribute: an identifier, with the domain of a driver before it or without.
pub(super) fn attribute_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let none = |errors: &mut Errors, what: &str| {
        errors.push(FieldError::invalid(path, "", format!("the {what} must not be empty")));
    };
    match *name.split('/').collect::<Vec<_>>() {
        [name] => identifier(name, path, errors),
        [domain, name] => {
            match domain {
                "" => none(errors, "domain"),
                domain => csi_driver_name(domain, path, errors),
            }
            match name {
                "" => none(errors, "name"),
                name => identifier(name, path, errors),
            }
        }
        // Of more parts kube-apiserver judges none.
        _ => {}
    }
}

fn identifier(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.len() > 32 {
        errors.push(FieldError::too_long(path, 32));
    }
    let mut bytes = name.bytes();
    let good = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !good {
        let detail = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                      alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                      validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// A term of nodes as Go prints the internal struct.
pub(super) fn shown_term(term: &Value) -> String {
    let each = |field: &str| {
        let all = list(term, field).iter().map(|one| {
            format!(
                "{{\"Key\":{},\"Operator\":{},\"Values\":{}}}",
                json!(text(one, "key")),
                json!(text(one, "operator")),
                one["values"]
            )
        });
        let all: Vec<String> = all.collect();
        if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) }
    };
    format!("{{\"MatchExpressions\":{},\"MatchFields\":{}}}", each("matchExpressions"), each("matchFields"))
}

/// A claim's status: who uses it, and what it was given.
pub(crate) fn claim_status(new: &Value, old: &Value, errors: &mut Errors) {
    let (status, path) = (&new["status"], Path::field("status"));
    let devices = &new["spec"]["devices"];
    let (users, at) = (list(status, "reservedFor"), path.child("reservedFor"));
    if check_length(users, 256, &at, errors) {
        for (index, one) in users.iter().enumerate() {
            judge(facts::RESOURCE_V1_RESOURCE_CLAIM_CONSUMER_REFERENCE, one, None, &at.index(index), errors);
        }
        once(users, "uid", &at, errors);
    }
    let results = list(&status["allocation"]["devices"], "results");
    fn id(one: &Value) -> [&Value; 4] {
        [&one["driver"], &one["pool"], &one["device"], &one["shareID"]]
    }
    let allocated: HashSet<[&Value; 4]> = results.iter().map(id).collect();
    let (all, of) = (list(status, "devices"), path.child("devices"));
    for (index, one) in all.iter().enumerate() {
        let at = of.index(index);
        judge(facts::RESOURCE_V1_ALLOCATED_DEVICE_STATUS, one, None, &at, errors);
        if !allocated.contains(&id(one)) {
            let shown = "{\"Driver\":{},\"Pool\":{},\"Device\":{},\"ShareID\":{}}".to_owned();
            let detail = "must be an allocated device in the claim";
            errors.push(FieldError::invalid(&at, Shown::Raw(shown), detail));
        }
    }
    if !users.is_empty() && !status["allocation"].is_object() {
        errors.push(FieldError::forbidden(&at, "may not be specified when `allocated` is not set"));
    }
    let at = path.child("allocation");
    if old["status"]["allocation"].is_object() && status["allocation"].is_object() {
        if status["allocation"] != old["status"]["allocation"] {
            let shown = Shown::Raw(format!("{{\"Devices\":{}}}", status["allocation"]["devices"]));
            errors.push(FieldError::invalid(&at, shown, "field is immutable"));
        }
        return;
    }
    let at = at.child("devices");
    let at = at.child("results");
    let known = Requests::of(devices);
    for (index, result) in results.iter().enumerate() {
        let at = at.index(index);
        reference(text(result, "request"), &known, &at.child("request"), errors);
        judge(facts::RESOURCE_V1_DEVICE_REQUEST_ALLOCATION_RESULT, result, None, &at, errors);
    }
}
