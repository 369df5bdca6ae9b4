//! What a status may say: rules of writes to a part of an object.
//!
//! In: the object with the part that is written, and as it was. Out: what is wrong with the part.

use karmada_schema::FieldError;
use karmada_schema::condition;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, addresses, facts, invalid_each, judge, list, names, persistent_volumes, text};

/// Where a balancer is reached.
pub(crate) fn balancer(new: &Value, old: &Value, errors: &mut Errors) {
    let status = Path::field("status");
    let path = status.child("loadBalancer");
    let path = path.child("ingress");
    let of = |object: &Value| list(&object["status"]["loadBalancer"], "ingress").to_vec();
    let before = of(old);
    let known: Vec<&str> = before.iter().map(|one| text(one, "ip")).filter(|ip| !ip.is_empty()).collect();
    for (index, one) in of(new).iter().enumerate() {
        let at = path.index(index);
        let (ip, host) = (text(one, "ip"), text(one, "hostname"));
        if !ip.is_empty() {
            addresses::usable(ip, &known, &at.child("ip"), errors);
        }
        let mode = one["ipMode"].as_str();
        let at_mode = at.child("ipMode");
        match mode {
            Some(_) if ip.is_empty() => {
                errors.push(FieldError::forbidden(&at_mode, "may not be specified when `ip` is not set"));
            }
            Some(mode) if !matches!(mode, "Proxy" | "VIP") => {
                errors.push(FieldError::not_supported(&at_mode, mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        if !host.is_empty() {
            invalid_each(errors, &at.child("hostname"), host, names::dns_subdomain(host));
            if addresses::parse(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(&at.child("hostname"), host, detail));
            }
        }
    }
}

/// A namespace ends when it is deleted, and only then.
pub(crate) fn namespace(new: &Value, errors: &mut Errors) {
    let (phase, status) = (text(&new["status"], "phase"), Path::field("status"));
    let (wanted, when) = match new["metadata"]["deletionTimestamp"].is_string() {
        false => ("Active", "is empty"),
        true => ("Terminating", "is not empty"),
    };
    if phase != wanted {
        let detail = format!("may only be '{wanted}' if `deletionTimestamp` {when}");
        errors.push(FieldError::invalid(&status.child("Phase"), phase, detail));
    }
}

pub(crate) fn claim(new: &Value, errors: &mut Errors) {
    let path = &Path::field("status");
    const STEPS: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let status = &new["status"];
    persistent_volumes::basic_amounts(status, "capacity", path, errors);
    let at = path.child("allocatedResourceStatuses");
    for (name, step) in super::entries(status, "allocatedResourceStatuses") {
        persistent_volumes::claim_resource(name, &at, errors);
        if !step.as_str().is_some_and(|step| STEPS.contains(&step)) {
            errors.push(FieldError::not_supported(&at, name.as_str(), &STEPS));
        }
    }
    persistent_volumes::claim_amounts(status, "allocatedResources", path, errors);
}

pub(crate) fn controller(new: &Value, errors: &mut Errors) {
    let path = &Path::field("status");
    let status = &new["status"];
    judge(facts::CORE_V1_REPLICATION_CONTROLLER_STATUS, status, None, path, errors);
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if number(field) > number("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(&path.child(field), number(field), detail));
        }
    }
    if number("availableReplicas") > number("readyReplicas") {
        let at = path.child("availableReplicas");
        let detail = "cannot be greater than readyReplicas";
        errors.push(FieldError::invalid(&at, number("availableReplicas"), detail));
    }
}

pub(crate) fn budget(new: &Value, errors: &mut Errors) {
    let path = &Path::field("status");
    let status = &new["status"];
    condition::validate(status, &path.child("conditions"), errors);
    judge(facts::POLICY_V1_POD_DISRUPTION_BUDGET_STATUS, status, None, path, errors);
}
