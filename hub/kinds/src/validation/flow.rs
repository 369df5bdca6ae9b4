//! Flow control: which requests wait in which queue.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::{Errors, invalid_each, is_empty, list, names, text};

/// What the server keeps as it is, by name.
fn fixed(all: Vec<Value>, name: &Value) -> Option<Value> {
    all.into_iter().find(|one| one["metadata"]["name"] == *name).map(|one| one["spec"].clone())
}

fn not_fixed(name: &Value, except: &str, errors: &mut Errors) {
    let detail =
        format!("spec of '{}'{except} must equal the fixed value", name.as_str().unwrap_or_default());
    // Where kube-apiserver prints its own struct.
    errors.push(FieldError::invalid(&Path::field("spec"), Shown::Raw("{\"Spec\":null}".to_owned()), detail));
}

pub(crate) fn flow_schema(new: &Value, errors: &mut Errors) {
    checked_schema(new, errors);
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

fn checked_schema(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let precedence = spec["matchingPrecedence"].as_i64().unwrap_or(0);
    let at = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.push(FieldError::invalid(&at, precedence, "must be a positive value"));
    }
    if precedence > 10_000 {
        errors.push(FieldError::invalid(&at, precedence, "must not be greater than 10000"));
    }
    if precedence == 1 && new["metadata"]["name"] != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(&at, precedence, detail));
    }
    let method = &spec["distinguisherMethod"];
    if method.is_object() && !matches!(text(method, "type"), "ByNamespace" | "ByUser") {
        let at = path.child("distinguisherMethod");
        let shown = Shown::Raw(format!("{{\"Type\":{}}}", method["type"]));
        errors.push(FieldError::not_supported(&at.child("type"), shown, &["ByNamespace", "ByUser"]));
    }
    let level = path.child("priorityLevelConfiguration");
    match text(&spec["priorityLevelConfiguration"], "name") {
        "" => errors.push(FieldError::required(&level.child("name"), "must reference a priority level")),
        name => invalid_each(errors, &level.child("name"), name, names::dns_subdomain(name)),
    }
    let rules = path.child("rules");
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        let at = rules.index(index);
        let subjects = at.child("subjects");
        for (index, one) in list(rule, "subjects").iter().enumerate() {
            subject(one, &subjects.index(index), errors);
        }
        if list(rule, "subjects").is_empty() {
            errors.push(FieldError::required(
                &at.child("subjects"),
                "subjects must contain at least one value",
            ));
        }
        if list(rule, "resourceRules").is_empty() && list(rule, "nonResourceRules").is_empty() {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            errors.push(FieldError::required(&at, detail));
        }
        for (field, of) in [("resourceRules", resource_rule as RuleCheck), ("nonResourceRules", address_rule)]
        {
            let all = at.child(field);
            for (index, one) in list(rule, field).iter().enumerate() {
                of(one, &all.index(index), errors);
            }
        }
    }
}

type RuleCheck = fn(&Value, &Path<'_>, &mut Errors);

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn subject(subject: &Value, path: &Path<'_>, errors: &mut Errors) {
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
        match text(of, "namespace") {
            "" => {
                let detail = "must specify namespace for service account";
                errors.push(FieldError::required(&at.child("namespace"), detail));
            }
            space => invalid_each(errors, &at.child("namespace"), space, names::dns_label(space)),
        }
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

fn resource_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
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

fn address_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
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

/// Bits that hands of a deck need.
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    ((deck as f64).log2() * hand as f64).ceil() as i64
}

fn queuing(queuing: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MOST: i64 = 10_000_000;
    const BITS: i64 = 60;
    let number = |field: &str| queuing[field].as_i64().unwrap_or(0);
    let (queues, hand, length) = (number("queues"), number("handSize"), number("queueLengthLimit"));
    let mut refuse = |field: &'static str, value: i64, detail: String| {
        errors.push(FieldError::invalid(&path.child(field), value, detail));
    };
    if length <= 0 {
        refuse("queueLengthLimit", length, "must be positive".to_owned());
    }
    if queues <= 0 {
        refuse("queues", queues, "must be positive".to_owned());
    } else if queues > MOST {
        refuse("queues", queues, format!("must not be greater than {MOST}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, "must be positive".to_owned());
    } else if hand > queues {
        refuse("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {BITS}"
        );
        refuse("handSize", hand, detail);
    }
}

pub(crate) fn priority_level(new: &Value, errors: &mut Errors) {
    checked_level(new, errors);
    let name = &new["metadata"]["name"];
    let Some(mut wanted) = fixed(crate::flow_control::mandatory_levels(), name) else { return };
    if name == "exempt" {
        // How much it gets may be told.
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

fn checked_level(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (kind, exempt) = (text(spec, "type"), new["metadata"]["name"] == "exempt");
    if exempt != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    match kind {
        "Exempt" => {
            if spec["limited"].is_object() {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(&path.child("limited"), detail));
            }
        }
        "Limited" => {
            if spec["exempt"].is_object() {
                errors
                    .push(FieldError::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            if spec["limited"].is_object() {
                limited(&spec["limited"], &path.child("limited"), errors);
            } else {
                let detail = "must not be empty when type is Limited";
                errors.push(FieldError::required(&path.child("limited"), detail));
            }
        }
        "" => errors.push(FieldError::required(&path.child("type"), "")),
        _ => errors.push(FieldError::not_supported(&path.child("type"), kind, &["Exempt", "Limited"])),
    }
}

fn limited(limited: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = limited["nominalConcurrencyShares"].as_i64().filter(|shares| *shares < 0) {
        let detail = "must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("nominalConcurrencyShares"), shares, detail));
    }
    let (response, at) = (&limited["limitResponse"], path.child("limitResponse"));
    match text(response, "type") {
        "Reject" if response["queuing"].is_object() => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&at.child("queuing"), detail));
        }
        "Queue" if !response["queuing"].is_object() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&at.child("queuing"), detail));
        }
        "Queue" => queuing(&response["queuing"], &at.child("queuing"), errors),
        "Reject" => {}
        "" => errors.push(FieldError::required(&at.child("type"), "")),
        other => errors.push(FieldError::not_supported(&at.child("type"), other, &["Queue", "Reject"])),
    }
    if let Some(percent) = limited["lendablePercent"].as_i64().filter(|percent| !(0..=100).contains(percent))
    {
        let detail = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(&path.child("lendablePercent"), percent, detail));
    }
    if let Some(percent) = limited["borrowingLimitPercent"].as_i64().filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("borrowingLimitPercent"), percent, detail));
    }
}
