//! Whether what one cluster reports can be the status of an object of its kind at all.
//!
//! In: a kind, and the status that one cluster reported of it. Out: yes, or what is wrong and where. Statuses of many
//! clusters become one status of the template, which the API server validates as a whole: one number out of range, from
//! one cluster, would be refused for all of them. So each is judged alone, before it is added up.

use std::net::IpAddr;

use k8s_openapi::api::{
    apps::v1::{DaemonSetStatus, ReplicaSetStatus, StatefulSetStatus},
    batch::v1::{CronJobStatus, JobStatus},
    core::v1::{PersistentVolumeClaimStatus, PersistentVolumeStatus, PodStatus, ServiceStatus},
    networking::v1::IngressStatus,
    policy::v1::PodDisruptionBudgetStatus,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The largest count that the API can hold.
pub const MOST: i64 = i32::MAX as i64;

/// As much of a wrong value as is told.
const SHOWN: usize = 64;

/// Counts of workloads that are summed.
const REPLICAS: [&str; 6] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "currentReplicas",
];
const DAEMONS: [&str; 7] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];
const JOBS: [&str; 5] = ["active", "succeeded", "failed", "ready", "terminating"];
const BUDGETS: [&str; 4] = ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"];
const SCALERS: [&str; 2] = ["currentReplicas", "desiredReplicas"];

/// Numbers that only grow, and are compared.
const GENERATIONS: [&str; 3] = ["generation", "observedGeneration", "resourceTemplateGeneration"];

/// Judges the status that a cluster reports of an object.
///
/// # Errors
/// Which field is wrong, and how.
pub fn status(api_version: &str, kind: &str, status: &Value) -> Result<(), String> {
    let counts: &[&str] = match (api_version, kind) {
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") => &REPLICAS,
        ("apps/v1", "DaemonSet") => &DAEMONS,
        ("batch/v1", "Job") => &JOBS,
        ("policy/v1", "PodDisruptionBudget") => &BUDGETS,
        ("autoscaling/v2", "HorizontalPodAutoscaler") => &SCALERS,
        _ => &[],
    };
    let known = matches!(api_version, "apps/v1" | "batch/v1" | "policy/v1" | "autoscaling/v2");
    if known {
        counts.iter().try_for_each(|field| whole(status, field, MOST))?;
        GENERATIONS.iter().try_for_each(|field| whole(status, field, i64::MAX))?;
    }
    match (api_version, kind) {
        ("apps/v1", "Deployment") => complaints(status),
        ("apps/v1", "ReplicaSet") => shaped::<ReplicaSetStatus>(status),
        ("apps/v1", "StatefulSet") => shaped::<StatefulSetStatus>(status),
        ("apps/v1", "DaemonSet") => shaped::<DaemonSetStatus>(status),
        ("batch/v1", "Job") => shaped::<JobStatus>(status),
        ("batch/v1", "CronJob") => shaped::<CronJobStatus>(status),
        ("policy/v1", "PodDisruptionBudget") => shaped::<PodDisruptionBudgetStatus>(status),
        ("networking.k8s.io/v1", "Ingress") => {
            shaped::<IngressStatus>(status).and_then(|()| addresses(status))
        }
        ("v1", "Service") => shaped::<ServiceStatus>(status).and_then(|()| addresses(status)),
        ("v1", "Pod") => shaped::<PodStatus>(status),
        ("v1", "PersistentVolumeClaim") => shaped::<PersistentVolumeClaimStatus>(status),
        ("v1", "PersistentVolume") => shaped::<PersistentVolumeStatus>(status),
        _ => Ok(()),
    }
}

/// A wrong value as it is told: its beginning, on one line.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN { text } else { text.chars().take(SHOWN).chain(['…']).collect() }
}

/// An absent number is 0.
fn whole(status: &Value, field: &str, most: i64) -> Result<(), String> {
    match status.get(field) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.as_i64().is_some_and(|number| (0..=most).contains(&number)) => Ok(()),
        Some(value) => {
            Err(format!("status.{field} is {}, and no whole number from 0 to {most}", shown(value)))
        }
    }
}

/// Whether a status has the shape that the API gives it: every field of its type, times that are times.
fn shaped<T: DeserializeOwned>(status: &Value) -> Result<(), String> {
    match T::deserialize(status) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text: String = error.to_string().chars().take(2 * SHOWN).collect();
            Err(format!("status: {text}"))
        }
    }
}

/// The conditions of a Deployment are told without their times.
fn complaints(status: &Value) -> Result<(), String> {
    let Some(conditions) = status.get("conditions").filter(|conditions| !conditions.is_null()) else {
        return status
            .is_object()
            .then_some(())
            .ok_or_else(|| format!("status is {}, and no object", shown(status)));
    };
    let text = |condition: &Value, field: &str| condition.get(field).is_none_or(Value::is_string);
    let good = |condition: &Value| {
        condition.is_object()
            && ["type", "status", "reason", "message"].iter().all(|field| text(condition, field))
    };
    let list = conditions
        .as_array()
        .ok_or_else(|| format!("status.conditions is {}, and no list", shown(conditions)))?;
    match list.iter().position(|condition| !good(condition)) {
        Some(at) => Err(format!("status.conditions[{at}] is {}, and no condition", shown(&list[at]))),
        None => Ok(()),
    }
}

/// The addresses of a load balancer, as the API server judges them.
fn addresses(status: &Value) -> Result<(), String> {
    let list = status.pointer("/loadBalancer/ingress").and_then(Value::as_array).into_iter().flatten();
    for (at, entry) in list.enumerate() {
        let place = |field: &str| format!("status.loadBalancer.ingress[{at}].{field}");
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
        let wrong = |field: &str, what: &str| {
            Err(format!("{} is {}, and no {what}", place(field), shown(&Value::from(text(field)))))
        };
        if !text("ip").is_empty() && text("ip").parse::<IpAddr>().is_err() {
            return wrong("ip", "IP address");
        }
        if !text("hostname").is_empty() && !is_hostname(text("hostname")) {
            return wrong("hostname", "name of a host");
        }
        if !matches!((text("ipMode"), text("ip").is_empty()), ("", _) | ("VIP" | "Proxy", false)) {
            return wrong("ipMode", "mode of an address");
        }
        let ports = entry.get("ports").and_then(Value::as_array).into_iter().flatten();
        for port in ports {
            whole_port(port).map_err(|what| format!("{}: {what}", place("ports")))?;
        }
    }
    Ok(())
}

fn whole_port(port: &Value) -> Result<(), String> {
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("");
    if !(1..=65535).contains(&number) {
        return Err(format!("{number} is no port"));
    }
    if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
        return Err(format!("{} is no protocol", shown(&Value::from(protocol))));
    }
    Ok(())
}

/// A DNS name that is no IP address.
fn is_hostname(name: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let ends = [bytes.first(), bytes.last()];
        !label.is_empty() && bytes.iter().all(inner) && ends.iter().all(|end| end.is_some_and(|b| *b != b'-'))
    };
    name.len() <= 253 && name.split('.').all(label) && name.parse::<IpAddr>().is_err()
}
