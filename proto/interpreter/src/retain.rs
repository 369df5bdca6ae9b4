//! What the member decides and the hub must not undo, kind by kind.
//!
//! In: what the hub wants, and what the member has. Out: what is wanted, with the member's decisions in it; or, for
//! server-side apply, without them ([`withhold`]), so that they stay with their owner.

use karmada_api::object;
use karmada_api::strings::labels;
use serde_json::{Map, Value};

use crate::{Answer, InterpretError};

/// Copies the value at `path`, where the member has one that says something.
fn keep(desired: &mut Value, observed: &Value, path: &[&str]) {
    let says_something = |value: &&Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        _ => true,
    };
    if let Some(value) = object::get(observed, path).filter(says_something) {
        object::set(desired, path, value.clone());
    }
}

fn retains_replicas(desired: &Value) -> bool {
    object::label(desired, labels::RETAIN_REPLICAS) == Some("true")
}

/// Deployment: the number of replicas, where the template says that something in the member scales it.
///
/// # Errors
/// `spec.replicas` is to be kept, and `observed` has none.
pub fn deployment(desired: &mut Value, observed: &Value) -> Answer<()> {
    if !retains_replicas(desired) {
        return Ok(());
    }
    let replicas = object::get(observed, &["spec", "replicas"]).and_then(Value::as_i64).ok_or_else(|| {
        let (namespace, name) = (object::namespace(observed), object::name(observed));
        InterpretError::Object(format!("failed to get spec.replicas from Deployment {namespace}/{name}"))
    })?;
    object::set(desired, &["spec", "replicas"], Value::from(replicas));
    Ok(())
}

/// Job: the selector and the labels that its controller made.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn job(desired: &mut Value, observed: &Value) -> Answer<()> {
    keep(desired, observed, &["spec", "selector"]);
    keep(desired, observed, &["spec", "template", "metadata", "labels"]);
    Ok(())
}

/// Service: its address, and the port of its health check.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn service(desired: &mut Value, observed: &Value) -> Answer<()> {
    keep(desired, observed, &["spec", "clusterIP"]);
    keep(desired, observed, &["spec", "healthCheckNodePort"]);
    Ok(())
}

/// PersistentVolumeClaim: the volume it is bound to.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn claim(desired: &mut Value, observed: &Value) -> Answer<()> {
    keep(desired, observed, &["spec", "volumeName"]);
    Ok(())
}

/// PersistentVolume: the claim it is bound to.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn volume(desired: &mut Value, observed: &Value) -> Answer<()> {
    keep(desired, observed, &["spec", "claimRef"]);
    Ok(())
}

/// Secret: the token that the member made.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn secret(desired: &mut Value, observed: &Value) -> Answer<()> {
    if is_token(desired) {
        keep(desired, observed, &["data"]);
    }
    Ok(())
}

fn is_token(secret: &Value) -> bool {
    secret.get("type").and_then(Value::as_str) == Some("kubernetes.io/service-account-token")
}

/// ServiceAccount: the secrets that the member added, after those wanted.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn service_account(desired: &mut Value, observed: &Value) -> Answer<()> {
    for field in ["secrets", "imagePullSecrets"] {
        let list = |object: &Value| object.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut merged = list(desired);
        for secret in list(observed) {
            if !merged.iter().any(|known| known.get("name") == secret.get("name")) {
                merged.push(secret);
            }
        }
        if !merged.is_empty() {
            object::set(desired, &[field], Value::Array(merged));
        }
    }
    Ok(())
}

/// Pod: where it runs, as whom, and what is mounted: none of it can change in a running pod.
///
/// # Errors
/// It never fails; all kinds share one signature.
pub fn pod(desired: &mut Value, observed: &Value) -> Answer<()> {
    let none = Map::new();
    let has = observed.get("spec").and_then(Value::as_object).unwrap_or(&none);
    let wants = object::child(object::root(desired), "spec");
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy(wants, has, field);
    }
    for field in ["initContainers", "containers"] {
        let running = has.get(field).and_then(Value::as_array);
        let wanted = wants.get_mut(field).and_then(Value::as_array_mut);
        for container in wanted.into_iter().flatten().filter_map(Value::as_object_mut) {
            let same = running.and_then(|list| list.iter().find(|r| r.get("name") == container.get("name")));
            if let Some(same) = same.and_then(Value::as_object) {
                copy(container, same, "volumeMounts");
            }
        }
    }
    Ok(())
}

/// Makes a field what it is in `from`, absence included.
fn copy(to: &mut Map<String, Value>, from: &Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Takes the fields that the member decides out of a body for server-side apply. The object must exist in the
/// member; on creation everything is sent.
pub fn withhold(desired: &mut Value, observed: &Value) {
    let paths: &[&[&str]] = match (object::api_version(desired), object::kind(desired)) {
        ("apps/v1", "Deployment") if retains_replicas(desired) => &[&["spec", "replicas"]],
        ("batch/v1", "Job") => &[&["spec", "selector"]],
        ("v1", "Service") => &[&["spec", "clusterIP"], &["spec", "healthCheckNodePort"]],
        ("v1", "PersistentVolumeClaim") => &[&["spec", "volumeName"]],
        ("v1", "PersistentVolume") => &[&["spec", "claimRef"]],
        ("v1", "Secret") if is_token(desired) => &[&["data"]],
        ("v1", "Pod") => &[&["spec", "nodeName"], &["spec", "serviceAccountName"]],
        _ => &[],
    };
    for path in paths {
        let Some((last, parents)) = path.split_last() else { continue };
        if object::get(observed, path).is_some()
            && let Some(parent) = object::get_mut(desired, parents).and_then(Value::as_object_mut)
        {
            parent.remove(*last);
        }
    }
}
