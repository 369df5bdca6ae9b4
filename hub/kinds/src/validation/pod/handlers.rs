//! What is done to a container that lives: probes and hooks.
//!
//! In: a container. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, invalid_each, list, names, non_negative, text};

/// What runs when a container starts and before it stops; `grace` is how long its Pod may take to stop.
pub(super) fn hooks(container: &Value, grace: i64, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("lifecycle");
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if hook.is_object() {
            handler(hook, grace, &at.child(name), errors);
        }
    }
}

/// What a probe or a hook does: one thing, of which the first is judged.
fn handler(of: &Value, grace: i64, path: &Path<'_>, errors: &mut Errors) {
    let mut given = 0;
    for name in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let (what, at) = (&of[name], path.child(name));
        if !what.is_object() {
            continue;
        }
        given += 1;
        if given > 1 {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 handler type"));
            continue;
        }
        match name {
            "exec" if list(what, "command").is_empty() => {
                errors.push(FieldError::required(&at.child("command"), ""));
            }
            "exec" => {}
            "sleep" => {
                let seconds = what["seconds"].as_i64().unwrap_or(0);
                if !(0..=grace).contains(&seconds) {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.push(FieldError::invalid(&at, seconds, detail));
                }
            }
            "httpGet" => http_get(what, &at, errors),
            _ => port(&what["port"], &at.child("port"), errors),
        }
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(get: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(get, "path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    port(&get["port"], &path.child("port"), errors);
    let scheme = text(get, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.push(FieldError::not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in list(get, "httpHeaders") {
        let name = text(header, "name");
        invalid_each(errors, &path.child("httpHeaders"), name, names::header_name(name));
    }
}

/// How it is seen that a container lives, serves, has started.
pub(super) fn probes(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if !probe.is_object() {
            continue;
        }
        let at = path.child(field);
        handler(probe, i64::MAX, &at, errors);
        for count in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe, count, &at, errors);
        }
        let grace = at.child("terminationGracePeriodSeconds");
        let seconds = probe["terminationGracePeriodSeconds"].as_i64();
        if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
            errors.push(FieldError::invalid(&grace, seconds, "must be greater than 0"));
        }
        if let Some(seconds) = seconds.filter(|_| field == "readinessProbe") {
            errors.push(FieldError::invalid(&grace, seconds, "must not be set for readinessProbes"));
        }
        if field != "readinessProbe"
            && let Some(successes) = probe["successThreshold"].as_i64().filter(|successes| *successes != 1)
        {
            errors.push(FieldError::invalid(&at.child("successThreshold"), successes, "must be 1"));
        }
    }
}

/// A port by number or name.
pub(in crate::validation) fn port(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(name) => invalid_each(errors, path, name, names::port_name(name)),
        other => number_each(errors, path, other.as_i64().unwrap_or(0)),
    }
}

/// Adds an error where the number is no port.
pub(in crate::validation) fn number_each(errors: &mut Errors, path: &Path<'_>, number: i64) {
    errors.extend(
        names::port_number(number).into_iter().map(|message| FieldError::invalid(path, number, message)),
    );
}
