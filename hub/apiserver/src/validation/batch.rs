//! Jobs, cron jobs, autoscalers, disruption budgets.

use serde_json::Value;

use super::selector::{self, is_right, label_selector, matches};
use super::{Errors, at_most_all, immutable, int_or_percent, list, non_negative, one_of, pod, text};
use crate::schema::path::Path;
use crate::schema::{FieldError, Shown, go_json, go_struct};

pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let before = errors.len();
    if old.is_none() && spec["manualSelector"] != true {
        generated_selector(new, &path, errors);
    }
    job_spec(spec, &path, errors);
    // A selector that is not set by hand is made from the uid, once there is one.
    if !spec["selector"].is_null() {
        label_selector(&spec["selector"], &path.child("selector"), errors);
        let labels = &spec["template"]["metadata"]["labels"];
        if is_right(&spec["selector"]) && !matches(&spec["selector"], labels) {
            let at = path.child("template");
            errors.push(FieldError::invalid(
                &at.child("metadata").child("labels"),
                labels.clone(),
                "`selector` does not match template `labels`",
            ));
        }
    } else {
        errors.push(FieldError::required(&path.child("selector"), ""));
        {
            let (template, labels) = (path.child("template"), &spec["template"]["metadata"]["labels"]);
            let at = template.child("metadata");
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(&at.child("labels"), labels.clone(), detail));
        }
    }
    indexed_name(new, errors);
    if old.is_some() {
        // Once as if it were new, once as a change.
        errors.extend_from_within(before..);
    }
    if let Some(old) = old {
        job_update(spec, &old["spec"], &path, errors);
    }
}

/// A selector that is not set by hand selects by what the Job itself laid into it.
fn generated_selector(new: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (selector, meta) = (&new["spec"]["selector"], &new["metadata"]);
    if !selector.is_object() {
        return;
    }
    let labels = serde_json::json!({
        "batch.kubernetes.io/controller-uid": meta["uid"], "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"], "job-name": meta["name"],
    });
    if is_right(selector) && !matches(selector, &labels) {
        let at = path.child("selector");
        errors.push(FieldError::invalid(&at, selector::shown(selector), "`selector` not auto-generated"));
    }
}

fn job_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(new, "completionMode") != "Indexed" {
        immutable(&new["completions"], &old["completions"], &path.child("completions"), errors);
    } else if new["completions"] != old["completions"] && new["completions"] != new["parallelism"] {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(&path.child("completions"), new["completions"].clone(), detail));
    }
    immutable(&new["selector"], &old["selector"], &path.child("selector"), errors);
    // A suspended job that has not run may still move.
    if old["suspend"] != true && new["template"] != old["template"] {
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

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec, field, path, errors);
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    manager(spec, path, errors);
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
        "Indexed" => {
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
                errors.push(FieldError::invalid(
                    &at,
                    failed,
                    format!("must be less than or equal to {MOST}"),
                ));
            }
            if number("completions").is_some_and(|all| all > MOST) && number("backoffLimitPerIndex").is_some()
            {
                of_many(spec, path, errors);
            }
        }
        other => {
            let at = path.child("completionMode");
            errors.push(FieldError::not_supported(&at, other, &["NonIndexed", "Indexed"]));
        }
    }
    failure_policy(spec, &path.child("podFailurePolicy"), errors);
    success_policy(spec, &path.child("successPolicy"), errors);
    job_policies(spec, path, errors);
    let at = path.child("template");
    pod::template(&spec["template"], &at, errors);
    let policy = at.child("spec");
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

/// What becomes of a Job whose Pods fail.
fn failure_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let (rules, at) = (list(&spec["podFailurePolicy"], "rules"), path.child("rules"));
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&at, rules.len() as u64, 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        match text(rule, "action") {
            "" => {
                let detail = format!("valid values: {}", go_list(&ACTIONS));
                errors.push(FieldError::required(&at.child("action"), detail));
            }
            "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
                let detail = "requires the backoffLimitPerIndex to be set";
                errors.push(FieldError::invalid(&at.child("action"), "FailIndex", detail));
            }
            action if ACTIONS.contains(&action) => {}
            other => errors.push(FieldError::not_supported(&at.child("action"), other, &ACTIONS)),
        }
        let (exits, conditions) = (&rule["onExitCodes"], list(rule, "onPodConditions"));
        if exits.is_object() {
            exit_codes(spec, exits, &at.child("onExitCodes"), errors);
        }
        pod_conditions(conditions, &at.child("onPodConditions"), errors);
        let words = match (exits.is_object(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        let mut error = FieldError::invalid(&at, Value::Null, words);
        error.value = None;
        errors.push(error);
    }
}

/// Texts as Go's `%q` prints them.
fn go_list(all: &[&str]) -> String {
    let quoted: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn exit_codes(spec: &Value, exits: &Value, path: &Path<'_>, errors: &mut Errors) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let operator = text(exits, "operator");
    match operator {
        "" => {
            let detail = format!("valid values: {}", go_list(&OPERATORS));
            errors.push(FieldError::required(&path.child("operator"), detail));
        }
        one if OPERATORS.contains(&one) => {}
        other => errors.push(FieldError::not_supported(&path.child("operator"), other, &OPERATORS)),
    }
    let pod = &spec["template"]["spec"];
    let named = |name: &str| {
        ["containers", "initContainers"].iter().any(|kind| list(pod, kind).iter().any(|c| c["name"] == name))
    };
    if let Some(name) = exits["containerName"].as_str().filter(|name| !named(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, detail));
    }
    let (values, at) = (list(exits, "values"), path.child("values"));
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, exits["values"].clone(), "at least one value is required"));
    } else if values.len() > 255 {
        errors.push(FieldError::too_many(&at, values.len() as u64, 255));
    }
    for (index, value) in values.iter().enumerate() {
        let at = at.index(index);
        if operator == "In" && value == 0 {
            errors.push(FieldError::invalid(&at, value.clone(), "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            errors.push(FieldError::duplicate(&at, value.clone()));
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        errors.push(FieldError::invalid(&at, values.to_vec(), "must be ordered"));
    }
}

fn pod_conditions(all: &[Value], path: &Path<'_>, errors: &mut Errors) {
    const STATES: [&str; 3] = ["False", "True", "Unknown"];
    if all.len() > 20 {
        errors.push(FieldError::too_many(path, all.len() as u64, 20));
    }
    for (index, one) in all.iter().enumerate() {
        let (at, kind) = (path.index(index), text(one, "type"));
        super::invalid_each(errors, &at.child("type"), kind, super::names::qualified_name(kind));
        match text(one, "status") {
            "" => {
                let detail = format!("valid values: {}", go_list(&STATES));
                errors.push(FieldError::required(&at.child("status"), detail));
            }
            state if STATES.contains(&state) => {}
            other => errors.push(FieldError::not_supported(&at.child("status"), other, &STATES)),
        }
    }
}

/// When a Job has succeeded before all its Pods have.
fn success_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = &spec["successPolicy"];
    if !policy.is_object() {
        return;
    }
    if text(spec, "completionMode") != "Indexed" {
        let rule = |rule: &Value| {
            format!(
                "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                rule["succeededIndexes"], rule["succeededCount"]
            )
        };
        let rules = match &policy["rules"] {
            Value::Array(all) => format!("[{}]", all.iter().map(rule).collect::<Vec<_>>().join(",")),
            _ => "null".to_owned(),
        };
        let shown = Shown::Raw(format!("{{\"Rules\":{rules}}}"));
        errors.push(FieldError::invalid(path, shown, "requires indexed completion mode"));
        return;
    }
    let (rules, at) = (list(policy, "rules"), path.child("rules"));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&at, detail));
    }
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&at, rules.len() as u64, 20));
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(FieldError::required(&at, detail));
        }
        let mut total = None;
        if let Some(indexes) = rule["succeededIndexes"].as_str() {
            let at = at.child("succeededIndexes");
            if indexes.len() > 64 * 1024 {
                errors.push(FieldError::too_long(&at, 64 * 1024));
            }
            total = Some(count_of(indexes, completions).unwrap_or_else(|why| {
                let detail = format!("error parsing succeededIndexes: {why}");
                errors.push(FieldError::invalid(&at, indexes, detail));
                0
            }));
        }
        non_negative(rule, "succeededCount", &at, errors);
        if let Some(count) = rule["succeededCount"].as_i64().filter(|count| *count > completions) {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(FieldError::invalid(&at.child("succeededCount"), count, detail));
        }
        if let (Some(total), Some(count)) = (total, rule["succeededCount"].as_i64())
            && count > total
        {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.push(FieldError::invalid(&at.child("succeededCount"), count, detail));
        }
    }
}

/// How many indexes a text such as `0,2-4` names.
fn count_of(indexes: &str, completions: i64) -> Result<i64, String> {
    let number = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(number) if number >= completions => Err(format!("too large index: {text:?}")),
        Ok(number) => Ok(number),
    };
    let order = |before: i64, now: i64| format!("non-increasing order, previous: {before}, current: {now}");
    let (mut total, mut last) = (0, None);
    for interval in indexes.split(',').filter(|_| !indexes.is_empty()) {
        let (first, end) = match interval.split('-').collect::<Vec<_>>()[..] {
            [only] => number(only).map(|only| (only, only))?,
            [first, end] => {
                let (first, end) = (number(first)?, number(end)?);
                if first >= end {
                    return Err(order(first, end));
                }
                (first, end)
            }
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two \
                     parts separated by '-'"
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(order(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The names of the zones that IANA's database knows: the machine need not have it to judge a schedule.
const ZONES: &str = include_str!("zones.txt");

fn time_zone(zone: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, zone, detail));
    if zone.is_empty() {
        return refuse("timeZone must be nil or non-empty string".to_owned());
    }
    let odd = |part: &str| {
        let letters = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
        part.is_empty() || part.len() > 14 || part == "." || part == ".." || part.starts_with('-') || !letters
    };
    if zone.split('/').any(odd) {
        return refuse(format!("unknown time zone {zone}"));
    }
    let local = zone.eq_ignore_ascii_case("Local");
    if local {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        refuse(detail.to_owned());
    }
    if zone != "Local" && !ZONES.lines().any(|known| known == zone) {
        refuse(format!("unknown time zone {zone}"));
    }
}

pub(super) fn cron_job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (schedule, at) = (text(spec, "schedule"), path.child("schedule"));
    if schedule.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if let Some(problem) = schedule_problem(schedule) {
            errors.push(FieldError::invalid(&at, schedule, problem));
        }
        if schedule.contains("TZ") && old.is_none_or(|old| !text(&old["spec"], "schedule").contains("TZ")) {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid(&at, schedule, detail));
        }
    }
    non_negative(spec, "startingDeadlineSeconds", &path, errors);
    if spec["timeZone"].is_string() {
        time_zone(text(spec, "timeZone"), &path.child("timeZone"), errors);
    }
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &path, errors);
    let template = path.child("jobTemplate");
    let (job, at) = (&spec["jobTemplate"]["spec"], template.child("spec"));
    job_spec(job, &at, errors);
    if job["selector"].is_object() {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(&at.child("selector"), selector::shown(&job["selector"]), detail));
    }
    if job["manualSelector"] == true {
        errors.push(FieldError::not_supported(&at.child("manualSelector"), true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(spec, field, &path, errors);
    }
    let name = text(&new["metadata"], "name");
    if old.is_none() && name.len() > 52 {
        let meta = Path::field("metadata");
        errors.push(FieldError::invalid(&meta.child("name"), name, "must be no more than 52 characters"));
    }
}

/// What is wrong with a cron schedule: five fields of numbers, names, ranges, steps and lists, or a macro.
fn schedule_problem(schedule: &str) -> Option<String> {
    let schedule = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule.trim(),
    };
    if let Some(name) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return (!known.contains(&name) && !name.starts_with("every "))
            .then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        let list: Vec<&str> = fields.clone();
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), list.join(" ")));
    }
    const BOUNDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    fields
        .iter()
        .zip(BOUNDS)
        .enumerate()
        .find_map(|(index, (field, bounds))| field.split(',').find_map(|part| cron_part(part, bounds, index)))
}

fn cron_part(part: &str, (low, high): (u32, u32), field: usize) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    let number = |text: &str| -> Result<u32, String> {
        let lower = text.to_lowercase();
        let named = match field {
            3 => MONTHS.iter().position(|name| *name == lower).map(|at| at as u32 + 1),
            4 => DAYS.iter().position(|name| *name == lower).map(|at| at as u32),
            _ => None,
        };
        named.map_or_else(
            || {
                text.parse().map_err(|_| {
                    format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
                })
            },
            Ok,
        )
    };
    if let Some(step) = step {
        match number(step) {
            Err(problem) => return Some(problem),
            Ok(0) => return Some(format!("step of range should be a positive number: {part}")),
            Ok(_) => {}
        }
    }
    if range == "*" || range == "?" {
        return None;
    }
    let (start, end) = range.split_once('-').map_or((range, None), |(start, end)| (start, Some(end)));
    let (start, end) = match (number(start), end.map(number)) {
        (Err(problem), _) | (_, Some(Err(problem))) => return Some(problem),
        (Ok(start), None) => (start, start),
        (Ok(start), Some(Ok(end))) => (start, end),
    };
    if start < low {
        return Some(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Some(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    (start > end).then(|| format!("beginning of range ({start}) beyond end of range ({end}): {part}"))
}

/// A scale that is written.
pub(super) fn scale(new: &Value, errors: &mut Errors) {
    non_negative(&new["spec"], "replicas", &Path::field("spec"), errors);
}

pub(super) fn pod_disruption_budget(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            go_json(&spec["selector"]),
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        errors.push(FieldError::invalid(&path, Shown::Raw(shown), detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(&spec[field], &path.child(field), errors);
        at_most_all(&spec[field], &path.child(field), errors);
    }
    label_selector(&spec["selector"], &path.child("selector"), errors);
    const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = spec["unhealthyPodEvictionPolicy"].as_str();
    if let Some(policy) = policy.filter(|policy| !POLICIES.contains(policy)) {
        errors.push(FieldError::not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &POLICIES));
    }
}
