//! Jobs: what a spec may say, what selects the Job's Pods, and what may change.
//!
//! In: a Job, on update the stored one; the spec of a CronJob's template. Out: field errors.

mod policies;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::selector::{self, is_right, label_selector, matches};
use super::{Errors, facts, immutable, judge, list, pod, scheduling, text};

pub(crate) fn job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if new["spec"]["manualSelector"] != true {
        generated_selector(new, old, errors);
    }
    whole_spec(&new["spec"], errors);
    indexed_name(new, errors);
    if let Some(old) = old {
        // Once as if it were new, once as a change.
        whole_spec(&new["spec"], errors);
        changed(new, old, errors);
    }
}

/// A selector that is not set by hand selects by what the Job itself laid into its template, and into itself.
fn generated_selector(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (selector, meta) = (&new["spec"]["selector"], &new["metadata"]);
    if !selector.is_object() {
        return;
    }
    let path = Path::field("spec");
    let template = path.child("template");
    let (at, labels) = (template.child("metadata"), &new["spec"]["template"]["metadata"]["labels"]);
    let keys = [
        ("controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
    ];
    // A Job that was made without those of the longer names goes on without.
    let had =
        |key: &str| old.is_none_or(|old| old["spec"]["template"]["metadata"]["labels"][key].is_string());
    let wanted = if keys[2..].iter().all(|(key, _)| had(key)) { &keys[..] } else { &keys[..2] };
    for (key, field) in wanted.iter().copied() {
        let wanted = text(meta, field);
        let (at, detail) = (at.child("labels"), format!("must be '{wanted}'"));
        match labels[key].as_str() {
            None => errors.push(FieldError::required(&at.key(key), detail)),
            Some(other) if other != wanted => {
                errors.push(FieldError::invalid(&at.key(key), labels.clone(), detail));
            }
            Some(_) => {}
        }
    }
    let laid = serde_json::json!({
        "batch.kubernetes.io/controller-uid": meta["uid"], "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"], "job-name": meta["name"],
    });
    if is_right(selector) && !matches(selector, &laid) {
        let at = path.child("selector");
        errors.push(FieldError::invalid(&at, selector::shown(selector), "`selector` not auto-generated"));
    }
}

/// A spec with its selector, which in a CronJob's template has yet to be made.
fn whole_spec(all: &Value, errors: &mut Errors) {
    let path = Path::field("spec");
    spec(all, &path, errors);
    let (selector, labels) = (&all["selector"], &all["template"]["metadata"]["labels"]);
    let selects = match selector.is_null() {
        true => {
            errors.push(FieldError::required(&path.child("selector"), ""));
            false
        }
        false => {
            label_selector(selector, &path.child("selector"), errors);
            !is_right(selector) || matches(selector, labels)
        }
    };
    if !selects {
        let at = path.child("template");
        let at = at.child("metadata");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&at.child("labels"), labels.clone(), detail));
    }
}

fn changed(new: &Value, old: &Value, errors: &mut Errors) {
    let is_waiting = waits(old);
    let (new, old, path) = (&new["spec"], &old["spec"], Path::field("spec"));
    if text(new, "completionMode") != "Indexed" {
        immutable(&new["completions"], &old["completions"], &path.child("completions"), errors);
    } else if new["completions"] != old["completions"] && new["completions"] != new["parallelism"] {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(&path.child("completions"), new["completions"].clone(), detail));
    }
    immutable(&new["selector"], &old["selector"], &path.child("selector"), errors);
    let (now, before) = (&new["template"], &old["template"]);
    if is_waiting {
        if fixed(&now["spec"]) != fixed(&before["spec"]) {
            let shown = Shown::Raw(go_struct(&now["spec"]).to_string());
            errors.push(FieldError::invalid(&path.child("template.spec"), shown, "field is immutable"));
        }
    } else if now != before {
        // Roughly as kube-apiserver's memory has it.
        let shown = Shown::Raw(format!(
            "{{\"labels\":{},\"Spec\":{}}}",
            new["template"]["metadata"]["labels"], new["template"]["spec"]
        ));
        errors.push(FieldError::invalid(&path.child("template"), shown, "field is immutable"));
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        if new[field].is_object() && new[field] != old[field] {
            let shown = Shown::Raw(go_struct(&new[field]).to_string());
            errors.push(FieldError::invalid(&path.child(field), shown, "field is immutable"));
        } else {
            immutable(&new[field], &old[field], &path.child(field), errors);
        }
    }
}

/// A suspended Job none of whose Pods runs may still be told where they go, and what they may use.
fn waits(job: &Value) -> bool {
    let status = &job["status"];
    let suspended =
        || list(status, "conditions").iter().any(|one| one["type"] == "Suspended" && one["status"] == "True");
    job["spec"]["suspend"] == true
        && (status["startTime"].is_null() || suspended())
        && status["active"].as_i64().unwrap_or(0) == 0
}

/// What of a Pod's spec such a Job may not change.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    scheduling::remove_nodes(&mut spec);
    let Some(fields) = spec.as_object_mut() else { return spec };
    fields.retain(|field, _| !matches!(field.as_str(), "tolerations" | "schedulingGates"));
    for kind in ["containers", "initContainers"] {
        for one in fields.get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
            one.as_object_mut().map(|container| container.remove("resources"));
        }
    }
    spec
}

/// Pods of an indexed Job are named by it and their numbers: the highest must be a host's name too.
fn indexed_name(new: &Value, errors: &mut Errors) {
    let count = new["spec"]["completions"].as_i64().unwrap_or(0);
    if text(&new["spec"], "completionMode") != "Indexed" || count <= 0 {
        return;
    }
    let name = text(&new["metadata"], "name");
    let host = format!("{name}-{}", count - 1);
    if !super::names::dns_label(&host).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        errors.push(FieldError::invalid(&Path::field("metadata").child("name"), name, detail));
    }
}

/// What hands a Job to another controller.
fn manager(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let at = path.child("managedBy");
    match manager.split_once('/') {
        _ if manager.is_empty() => errors.push(FieldError::required(&at, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            super::invalid_each(errors, &at, domain, super::names::dns_subdomain(domain));
            let words = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
            if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                let detail = format!("Invalid path (regex used for validation is '{words}')");
                errors.push(FieldError::invalid(&at, rest, detail));
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(&at, manager, detail));
        }
    }
    if manager.len() > 63 {
        errors.push(FieldError::too_long(&at, 63));
    }
}

/// When a Job's Pods are replaced.
fn job_policies(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(policy) = spec["podReplacementPolicy"].as_str() {
        const ALL: [&str; 2] = ["Failed", "TerminatingOrFailed"];
        let at = path.child("podReplacementPolicy");
        if spec["podFailurePolicy"].is_object() && policy != "Failed" {
            errors.push(FieldError::not_supported(&at, policy, &ALL[..1]));
        } else if !ALL.contains(&policy) {
            errors.push(FieldError::not_supported(&at, policy, &ALL));
        }
    }
}

/// What a Job's spec may say, wherever it stands.
pub(super) fn spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::BATCH_V1_JOB_SPEC, spec, None, path, errors);
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    manager(spec, path, errors);
    completion_mode(spec, path, errors);
    policies::failure_policy(spec, &path.child("podFailurePolicy"), errors);
    policies::success_policy(spec, &path.child("successPolicy"), errors);
    job_policies(spec, path, errors);
    let at = path.child("template");
    pod::template(&spec["template"], &at, errors);
    restart_policy(spec, &at, errors);
}

/// What each of a Job's completions stands for, and which fields that allows.
fn completion_mode(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    match spec["completionMode"].as_str().unwrap_or("NonIndexed") {
        "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec[field].as_i64() {
                    errors.push(FieldError::invalid(
                        &path.child(field),
                        number,
                        "requires indexed completion mode",
                    ));
                }
            }
        }
        "Indexed" => indexed(spec, path, errors),
        other => {
            let at = path.child("completionMode");
            errors.push(FieldError::not_supported(&at, other, &["NonIndexed", "Indexed"]));
        }
    }
}

/// A Job whose completions have numbers.
fn indexed(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MOST: i64 = 100_000;
    if spec["completions"].is_null() {
        let at = path.child("completions");
        errors.push(FieldError::required(&at, "when completion mode is Indexed"));
    }
    let number = |field: &str| spec[field].as_i64();
    if let Some(many) = number("parallelism").filter(|many| *many > MOST) {
        let detail = format!("must be less than or equal to {MOST} when completion mode is Indexed");
        errors.push(FieldError::invalid(&path.child("parallelism"), many, detail));
    }
    if let (Some(failed), Some(all)) = (number("maxFailedIndexes"), number("completions"))
        && failed > all
    {
        let at = path.child("maxFailedIndexes");
        errors.push(FieldError::invalid(&at, failed, "must be less than or equal to completions"));
    }
    if let Some(failed) = number("maxFailedIndexes").filter(|failed| *failed > MOST) {
        let at = path.child("maxFailedIndexes");
        errors.push(FieldError::invalid(&at, failed, format!("must be less than or equal to {MOST}")));
    }
    if number("completions").is_some_and(|all| all > MOST) && number("backoffLimitPerIndex").is_some() {
        of_many(spec, path, errors);
    }
}

/// Pods of a Job are not restarted for ever.
fn restart_policy(spec: &Value, template: &Path<'_>, errors: &mut Errors) {
    let policy = template.child("spec");
    let policy = policy.child("restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => {
            errors.push(FieldError::required(&policy, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(&policy, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(&policy, other, &["OnFailure", "Never"])),
    }
}

/// With very many indexes, few Pods may run and fail at once.
fn of_many(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const WHEN: &str = "completions are above 100000 and used with backoff limit per index";
    if spec["maxFailedIndexes"].is_null() {
        let detail = "must be specified when completions is above 100000";
        errors.push(FieldError::required(&path.child("maxFailedIndexes"), detail));
    }
    for field in ["parallelism", "maxFailedIndexes"] {
        if let Some(number) = spec[field].as_i64().filter(|number| *number > 10_000) {
            let detail = format!("must be less than or equal to 10000 when {WHEN}");
            errors.push(FieldError::invalid(&path.child(field), number, detail));
        }
    }
}
