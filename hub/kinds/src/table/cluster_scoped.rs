//! Roles, certificates, leases, admission and priorities.
//!
//! In: an object of one of these kinds, and the time. Out: its cells in the order of the kind's columns in `data/catalogue.jsonl`, wide
//! ones included.

use serde_json::{Value, json};

use super::Row;
use super::cells::{Fields as _, NONE, UNSET, selector};
use karmada_schema::duration::human_duration;

pub(crate) fn role_binding(row: Row<'_>) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        row.text("/roleRef/kind").unwrap_or_default(),
        row.text("/roleRef/name").unwrap_or_default()
    );
    let subjects = |kind: &str| {
        let named = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind).map(|subject| {
            let name = subject["name"].as_str().unwrap_or_default();
            if kind == "ServiceAccount" {
                // With the slash even where no namespace is named: such a subject stands for nobody.
                format!("{}/{name}", subject["namespace"].as_str().unwrap_or_default())
            } else {
                name.to_owned()
            }
        });
        Value::from(named.collect::<Vec<_>>().join(", "))
    };
    vec![row.name(), role.into(), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

pub(crate) fn certificate_signing_request(row: Row<'_>) -> Vec<Value> {
    let mut status = if row.condition("Denied").is_some() {
        "Denied".to_owned()
    } else if row.condition("Approved").is_some() {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if row.condition("Failed").is_some() {
        status.push_str(",Failed");
    }
    if row.text("/status/certificate").is_some_and(|certificate| !certificate.is_empty()) {
        status.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").as_i64().map_or(NONE.to_owned(), human_duration);
    vec![
        row.name(),
        row.age(),
        row.text_or("/spec/signerName", NONE),
        row.text_or("/spec/username", ""),
        duration.into(),
        status.into(),
    ]
}

pub(crate) fn lease(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text_or("/spec/holderIdentity", ""), row.age()]
}

pub(crate) fn runtime_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text_or("/handler", ""), row.age()]
}

pub(crate) fn priority_class(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.int("/value").into(),
        (row.at("/globalDefault") == true).into(),
        row.age(),
        row.text_or("/preemptionPolicy", ""),
    ]
}

pub(crate) fn api_service(row: Row<'_>) -> Vec<Value> {
    let text = |field: &str| row.text(&format!("/spec/service/{field}")).unwrap_or_default();
    let service = if row.at("/spec/service").is_object() {
        format!("{}/{}", text("namespace"), text("name"))
    } else {
        "Local".to_owned()
    };
    let available = match row.condition("Available") {
        None => "Unknown".to_owned(),
        Some(condition) => {
            let status = condition["status"].as_str().unwrap_or_default();
            match condition["reason"].as_str().filter(|reason| !reason.is_empty()) {
                Some(reason) if status != "True" => format!("{status} ({reason})"),
                _ => status.to_owned(),
            }
        }
    };
    vec![row.name(), service.into(), available.into(), row.age()]
}

pub(crate) fn webhook_configuration(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), row.list("/webhooks").len().into(), row.age()]
}

pub(crate) fn admission_policy(row: Row<'_>) -> Vec<Value> {
    let kind = row.at("/spec/paramKind");
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let parameter =
        if kind.is_object() { format!("{}/{}", text("apiVersion"), text("kind")) } else { UNSET.to_owned() };
    vec![row.name(), row.list("/spec/validations").len().into(), parameter.into(), row.age()]
}

pub(crate) fn admission_policy_binding(row: Row<'_>) -> Vec<Value> {
    let reference = row.at("/spec/paramRef");
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let parameter = match (reference, text("name"), text("namespace")) {
        (Value::Null, _, _) => UNSET.to_owned(),
        (_, "", _) if reference["selector"].is_object() => selector(&reference["selector"]),
        (_, "", _) => UNSET.to_owned(),
        (_, name, "") => format!("*/{name}"),
        (_, name, namespace) => format!("{namespace}/{name}"),
    };
    vec![row.name(), row.text_or("/spec/policyName", ""), parameter.into(), row.age()]
}

pub(crate) fn flow_schema(row: Row<'_>) -> Vec<Value> {
    let dangling =
        row.condition("Dangling").and_then(|condition| condition["status"].as_str()).unwrap_or("?");
    vec![
        row.name(),
        row.text_or("/spec/priorityLevelConfiguration/name", ""),
        row.int("/spec/matchingPrecedence").into(),
        row.text_or("/spec/distinguisherMethod/type", NONE),
        row.age(),
        dangling.into(),
    ]
}

pub(crate) fn priority_level(row: Row<'_>) -> Vec<Value> {
    let number = |pointer: &str| match row.at(pointer) {
        Value::Null => json!(NONE),
        value => value.clone(),
    };
    let queuing = |field: &str| number(&format!("/spec/limited/limitResponse/queuing/{field}"));
    vec![
        row.name(),
        row.text_or("/spec/type", ""),
        number("/spec/limited/nominalConcurrencyShares"),
        queuing("queues"),
        queuing("handSize"),
        queuing("queueLengthLimit"),
        row.age(),
    ]
}
