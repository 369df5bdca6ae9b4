//! Flow control: which requests wait in which queue.
//!
//! In: a FlowSchema or PriorityLevelConfiguration, or a part of it, as `data/facts.tsv` leads to it. Out: field errors in kube-apiserver's
//! order; among them, where the spec of a mandatory object differs from its fixed one (`flow_control`).

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::{Errors, facts, invalid_each, is_empty, judge, list, names, text};

/// The fixed spec of the mandatory object of that name, if there is one.
fn fixed(all: Vec<Value>, name: &Value) -> Option<Value> {
    all.into_iter().find(|one| one["metadata"]["name"] == *name).map(|one| one["spec"].clone())
}

fn not_fixed(name: &Value, except: &str, errors: &mut Errors) {
    let detail =
        format!("spec of '{}'{except} must equal the fixed value", name.as_str().unwrap_or_default());
    // Where kube-apiserver prints its own struct.
    errors.push(FieldError::invalid(&Path::field("spec"), Shown::Raw("{\"Spec\":null}".to_owned()), detail));
}

/// The mandatory schemas keep their specs: without them a request might match none.
pub(super) fn schema_is_fixed(new: &Value, _: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    let name = &new["metadata"]["name"];
    let wanted = fixed(crate::flow_control::mandatory_schemas(), name);
    if wanted.is_some_and(|wanted| !covers(&new["spec"], &wanted)) {
        not_fixed(name, "", errors);
    }
}

/// Whether both say the same, where empty lists and zeros need not be said.
fn covers(new: &Value, wanted: &Value) -> bool {
    let nothing = |value: &Value| is_empty(value) || *value == 0 || *value == "" || *value == false;
    match (new, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys());
            names.into_iter().all(|name| covers(&new[name], &wanted[name]))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| covers(a, b))
        }
        _ => new == wanted || (nothing(new) && nothing(wanted)),
    }
}

/// The first place in the order of matching is for the schema `exempt` alone.
pub(super) fn first_is_exempt(new: &Value, _: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    if new["spec"]["matchingPrecedence"] == 1 && new["metadata"]["name"] != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        let path = Path::field("spec");
        errors.push(FieldError::invalid(&path.child("matchingPrecedence"), 1, detail));
    }
}

/// By what requests are told apart, shown as kube-apiserver's memory has it.
pub(super) fn distinguisher(method: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 2] = ["ByNamespace", "ByUser"];
    if !KNOWN.contains(&text(method, "type")) {
        let shown = Shown::Raw(format!("{{\"Type\":{}}}", method["type"]));
        errors.push(FieldError::not_supported(&path.child("type"), shown, &KNOWN));
    }
}

/// A rule is about some requests: it has rules for resources or for other addresses.
pub(super) fn some_rule(rules: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if list(rules, "resourceRules").is_empty() && list(rules, "nonResourceRules").is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
}

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Whose requests they are.
pub(super) fn subject(subject: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(subject, "kind");
    let field = match kind {
        "ServiceAccount" => "serviceAccount",
        "User" => "user",
        "Group" => "group",
        other => {
            let known = ["Group", "ServiceAccount", "User"];
            errors.push(FieldError::not_supported(&path.child("kind"), other, &known));
            return;
        }
    };
    let (of, at) = (&subject[field], path.child(field));
    let name = text(of, "name");
    if !of.is_object() {
        errors.push(FieldError::required(&at, format!("{field} is required when subject kind is '{kind}'")));
    } else if name.is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    } else if kind == "ServiceAccount" && name != "*" {
        invalid_each(errors, &at.child("name"), name, names::dns_subdomain(name));
    }
    if kind == "ServiceAccount" && of.is_object() {
        judge(facts::FLOWCONTROL_V1_SERVICE_ACCOUNT_SUBJECT, of, None, &at, errors);
    }
    for (other, kind) in [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")] {
        if other != field && subject[other].is_object() {
            let detail = format!("{other} is forbidden when subject kind is not '{kind}'");
            errors.push(FieldError::forbidden(&path.child(other), detail));
        }
    }
}

/// Whether everything is among the values.
fn has_all(of: &Value, field: &str) -> bool {
    list(of, field).iter().any(|one| one == "*")
}

fn verbs(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (all, at) = (list(rule, "verbs"), path.child("verbs"));
    let known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if all.is_empty() {
        errors.push(FieldError::required(&at, "verbs must contain at least one value"));
    } else if has_all(rule, "verbs") {
        if all.len() > 1 {
            let detail = "if '*' is present, must not specify other verbs";
            errors.push(FieldError::invalid(&at, all.to_vec(), detail));
        }
    } else if !all.iter().all(known) {
        errors.push(FieldError::not_supported(&at, all.to_vec(), &VERBS));
    }
}

/// Requests for resources.
pub(super) fn resource_rule(rule: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    verbs(rule, path, errors);
    for (field, words) in [("apiGroups", "api group"), ("resources", "resource")] {
        let (all, at) = (list(rule, field), path.child(field));
        if all.is_empty() {
            errors
                .push(FieldError::required(&at, format!("resource rules must supply at least one {words}")));
        } else if all.len() > 1 && has_all(rule, field) {
            let detail = format!("if '*' is present, must not specify other {words}s");
            errors.push(FieldError::invalid(&at, all.to_vec(), detail));
        }
    }
    let (all, at) = (list(rule, "namespaces"), path.child("namespaces"));
    if is_empty(&rule["namespaces"]) && rule["clusterScope"] != true {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(&at, detail));
    } else if has_all(rule, "namespaces") {
        if all.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errors.push(FieldError::invalid(&at, all.to_vec(), detail));
        }
    } else {
        for (index, space) in all.iter().filter_map(Value::as_str).enumerate() {
            for message in names::dns_label(space) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.push(FieldError::invalid(&at.index(index), space, detail));
            }
        }
    }
}

/// Requests for addresses.
pub(super) fn address_rule(rule: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    verbs(rule, path, errors);
    let (all, at) = (list(rule, "nonResourceURLs"), path.child("nonResourceURLs"));
    if all.is_empty() {
        errors.push(FieldError::required(&at, "nonResourceURLs must contain at least one value"));
    } else if has_all(rule, "nonResourceURLs") {
        if all.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errors.push(FieldError::invalid(&at, all.to_vec(), detail));
        }
    } else {
        for (index, one) in all.iter().filter_map(Value::as_str).enumerate() {
            let stars = one.matches('*').count();
            let detail = match one {
                "" => "must not be empty",
                "/" => continue,
                _ if !one.starts_with('/') => "must start with slash",
                _ if one.contains(' ') => "must not contain white-space",
                _ if one.contains("//") => "must not contain double slash",
                _ if stars > 1 || (stars == 1 && !one.ends_with("/*")) => {
                    "wildcard can only do suffix matching"
                }
                _ => continue,
            };
            errors.push(FieldError::invalid(&at.index(index), one, detail));
        }
    }
}

/// The bits that it takes to choose a hand from a deck.
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    ((deck as f64).log2() * hand as f64).ceil() as i64
}

/// A hand has no more queues than there are, and choosing it takes no more bits than a hash gives.
pub(super) fn hands(queuing: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    const BITS: i64 = 60;
    let number = |field: &str| queuing[field].as_i64().unwrap_or(0);
    let (queues, hand) = (number("queues"), number("handSize"));
    let detail = match hand {
        ..=0 => return,
        _ if hand > queues => format!("should not be greater than queues ({queues})"),
        _ if entropy_bits(queues, hand) > BITS => format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {BITS}"
        ),
        _ => return,
    };
    errors.push(FieldError::invalid(&path.child("handSize"), hand, detail));
}

/// The mandatory levels keep their specs, except for how much the exempt one gets.
pub(super) fn level_is_fixed(new: &Value, _: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    let name = &new["metadata"]["name"];
    let Some(mut wanted) = fixed(crate::flow_control::mandatory_levels(), name) else { return };
    if name == "exempt" {
        // How much it gets may be set.
        let mut given = new["spec"].clone();
        for spec in [&mut given, &mut wanted] {
            spec.as_object_mut().map(|spec| spec.remove("exempt"));
        }
        if !covers(&given, &wanted) {
            not_fixed(name, " except the 'spec.exempt' field", errors);
        }
    } else if !covers(&new["spec"], &wanted) {
        not_fixed(name, "", errors);
    }
}

/// The level named `exempt` has the type Exempt, and no other level has.
pub(super) fn exempt_by_name(new: &Value, _: Option<&Value>, _: &Path<'_>, errors: &mut Errors) {
    let kind = text(&new["spec"], "type");
    if (new["metadata"]["name"] == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&Path::field("spec").child("type"), kind, detail));
    }
}

/// A level has the fields of its own type alone.
pub(super) fn part_of_type(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (limited, at) = (&spec["limited"], path.child("limited"));
    match (text(spec, "type"), limited.is_object()) {
        ("Exempt", true) => {
            errors.push(FieldError::forbidden(&at, "must be nil if the type is not Limited"));
        }
        ("Limited", there) => {
            if spec["exempt"].is_object() {
                let detail = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden(&path.child("exempt"), detail));
            }
            if there {
                judge(facts::FLOWCONTROL_V1_LIMITED_PRIORITY_LEVEL_CONFIGURATION, limited, None, &at, errors);
            } else {
                errors.push(FieldError::required(&at, "must not be empty when type is Limited"));
            }
        }
        _ => {}
    }
}

/// What becomes of a request for which there is no room.
pub(super) fn response(response: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (queuing, at) = (&response["queuing"], path.child("queuing"));
    match (text(response, "type"), queuing.is_object()) {
        ("Reject", true) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&at, detail));
        }
        ("Queue", false) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&at, detail));
        }
        ("Queue", true) => judge(facts::FLOWCONTROL_V1_QUEUING_CONFIGURATION, queuing, None, &at, errors),
        _ => {}
    }
}
