//! When a Job has failed and when it has succeeded: `podFailurePolicy`, `successPolicy`.
//!
//! In: the Job's spec. Out: field errors.

use std::collections::HashSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, quote_list};
use serde_json::Value;

use crate::validation::{Errors, facts, judge, list, non_negative, text};

/// What becomes of a Job whose Pods fail.
pub(super) fn failure_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let (rules, at) = (list(&spec["podFailurePolicy"], "rules"), path.child("rules"));
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&at, rules.len() as u64, 20));
    }
    let pod = &spec["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().flat_map(|kind| list(pod, kind));
    let named: HashSet<&str> = containers.filter_map(|one| one["name"].as_str()).collect();
    for (index, rule) in rules.iter().enumerate() {
        let at = at.index(index);
        match text(rule, "action") {
            "" => {
                let detail = format!("valid values: {}", quote_list(&ACTIONS));
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
            exit_codes(&named, exits, &at.child("onExitCodes"), errors);
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

fn exit_codes(named: &HashSet<&str>, exits: &Value, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::BATCH_V1_POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT, exits, None, path, errors);
    if let Some(name) = exits["containerName"].as_str().filter(|name| !named.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, detail));
    }
    let (values, at) = (list(exits, "values"), path.child("values"));
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, exits["values"].clone(), "at least one value is required"));
    } else if values.len() > 255 {
        errors.push(FieldError::too_many(&at, values.len() as u64, 255));
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        let at = at.index(index);
        if exits["operator"] == "In" && value == 0 {
            errors.push(FieldError::invalid(&at, value.clone(), "must not be 0 for the In operator"));
        }
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(&at, value.clone()));
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        errors.push(FieldError::invalid(&at, values.to_vec(), "must be ordered"));
    }
}

fn pod_conditions(all: &[Value], path: &Path<'_>, errors: &mut Errors) {
    if all.len() > 20 {
        errors.push(FieldError::too_many(path, all.len() as u64, 20));
    }
    for (index, one) in all.iter().enumerate() {
        let pattern = facts::BATCH_V1_POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN;
        judge(pattern, one, None, &path.index(index), errors);
    }
}

/// When a Job has succeeded before all its Pods have.
pub(super) fn success_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
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
    judge(facts::BATCH_V1_SUCCESS_POLICY, policy, None, path, errors);
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
