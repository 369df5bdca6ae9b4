//! What is done to a container that lives: probes and hooks.
//!
//! In: a container. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use crate::validation::{Errors, facts, judge, names};

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
            "exec" => judge(facts::CORE_V1_EXEC_ACTION, what, None, &at, errors),
            "sleep" => {
                let seconds = what["seconds"].as_i64().unwrap_or(0);
                if !(0..=grace).contains(&seconds) {
                    let detail =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.push(FieldError::invalid(&at, seconds, detail));
                }
            }
            "httpGet" => judge(facts::CORE_V1_HTTPGET_ACTION, what, None, &at, errors),
            "grpc" => judge(facts::CORE_V1_GRPCACTION, what, None, &at, errors),
            _ => judge(facts::CORE_V1_TCPSOCKET_ACTION, what, None, &at, errors),
        }
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
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
        judge(facts::CORE_V1_PROBE, probe, None, &at, errors);
        let grace = at.child("terminationGracePeriodSeconds");
        let seconds = probe["terminationGracePeriodSeconds"].as_i64();
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

/// Adds an error where the number is no port.
pub(in crate::validation) fn number_each(errors: &mut Errors, path: &Path<'_>, number: i64) {
    errors.extend(
        names::port_number(number).into_iter().map(|message| FieldError::invalid(path, number, message)),
    );
}
