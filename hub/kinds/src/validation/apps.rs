//! Deployments, replica sets, stateful sets, daemon sets, replication controllers.

use std::collections::{BTreeSet, HashSet};
use std::ops::Not;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::{Value, json};

use super::selector::{self, is_blank, is_right, label_selector, matches};
use super::{
    Errors, at_most_all, immutable, int_or_percent, invalid_each, is_empty, list, names, non_negative,
    one_of, pod, text,
};

const SPEC: &str = "spec";

/// A selector that must be there and say something.
fn required_selector(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let at = path.child("selector");
    if spec["selector"].is_null() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    label_selector(&spec["selector"], &at, errors);
    if is_blank(&spec["selector"]) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&at, selector::shown(&spec["selector"]), detail));
    }
}

/// A template that the selector must match, and whose Pods must restart.
fn template(spec: &Value, path: &Path<'_>, kind: &str, errors: &mut Errors) {
    let at = path.child("template");
    let labels = &spec["template"]["metadata"]["labels"];
    // No selector at all matches nothing; an empty one, everything; of one that is wrong nothing is said.
    let selector = &spec["selector"];
    // Save of the oldest kind's, which is a map and always one.
    let judged = kind == "ReplicationController" || is_right(selector);
    let differs = !is_blank(selector) && judged && !matches(selector, labels);
    if selector.is_null() || differs {
        errors.push(FieldError::invalid(
            &at.child("metadata").child("labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        ));
    }
    if kind == "DaemonSet" && !selector.is_null() && is_blank(selector) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(&path.child("selector"), selector::shown(selector), detail));
    }
    pod::template(&spec["template"], &at, errors);
    if kind == "StatefulSet" {
        // Looked at twice.
        let metadata = &spec["template"]["metadata"];
        super::metadata::labels(&metadata["labels"], &at.child("labels"), errors);
        super::metadata::annotations(metadata, &at.child("annotations"), errors);
    }
    restarts(spec, kind, path, errors);
}

/// Pods of a set start again whenever they end.
fn restarts(spec: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("template");
    let pod = at.child(SPEC);
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(&pod.child("restartPolicy"), policy, &["Always"]));
    }
    if spec["template"]["spec"]["activeDeadlineSeconds"].is_number() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&pod.child("activeDeadlineSeconds"), detail));
    }
}

/// The template of a kind that does not look at it where the selector is none.
fn selected_template(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (mut wrong, at) = (Errors::new(), path.child("selector"));
    if spec["selector"].is_object() {
        label_selector(&spec["selector"], &at, &mut wrong);
    }
    if wrong.is_empty() {
        template(spec, path, "ReplicaSet", errors);
    } else {
        errors.push(FieldError::invalid(&at, selector::shown(&spec["selector"]), "invalid label selector"));
    }
}

pub(crate) fn deployment(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new[SPEC], Path::field(SPEC));
    non_negative(spec, "replicas", &path, errors);
    required_selector(spec, &path, "deployment", errors);
    selected_template(spec, &path, errors);
    strategy(&spec["strategy"], &path.child("strategy"), errors);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(spec, field, &path, errors);
    }
    let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64().filter(|deadline| *deadline <= ready) {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, detail));
    }
    if let Some(old) = old {
        immutable(&spec["selector"], &old[SPEC]["selector"], &path.child("selector"), errors);
    }
}

/// A strategy as Go prints kube-apiserver's own struct, which has numbers where there are none.
fn shown(strategy: &Value, kind: &str) -> Shown {
    let rolling = &strategy["rollingUpdate"];
    let number = |field: &str| if rolling[field].is_null() { json!(0) } else { rolling[field].clone() };
    let rolling = match (rolling.is_object(), kind) {
        (false, _) => "null".to_owned(),
        (true, "StatefulSet") => {
            format!(
                "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
                number("partition"),
                rolling["maxUnavailable"]
            )
        }
        (true, _) => {
            format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", number("maxUnavailable"), number("maxSurge"))
        }
    };
    Shown::Raw(format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", go_json(&strategy["type"])))
}

/// Whether an int-or-percent is nothing; a text that is neither counts as nothing.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => match text.strip_suffix('%') {
            Some(share) => !share.bytes().all(|b| b.is_ascii_digit()) || share.bytes().all(|b| b == b'0'),
            None => text.parse::<i64>().is_ok_and(|number| number != 0).not(),
        },
        _ => true,
    }
}

fn strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if rolling.is_object() => {
            errors
                .push(FieldError::forbidden(&at, "may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            int_or_percent(&rolling["maxUnavailable"], &at.child("maxUnavailable"), errors);
            int_or_percent(&rolling["maxSurge"], &at.child("maxSurge"), errors);
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                errors.push(FieldError::invalid(
                    &at.child("maxUnavailable"),
                    rolling["maxUnavailable"].clone(),
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            at_most_all(&rolling["maxUnavailable"], &at.child("maxUnavailable"), errors);
        }
        _ => errors.push(FieldError::not_supported(
            path,
            shown(strategy, "Deployment"),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

pub(crate) fn replica_set(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new[SPEC], Path::field(SPEC));
    non_negative(spec, "replicas", &path, errors);
    non_negative(spec, "minReadySeconds", &path, errors);
    required_selector(spec, &path, "deployment", errors);
    selected_template(spec, &path, errors);
    if let Some(old) = old {
        immutable(&spec["selector"], &old[SPEC]["selector"], &path.child("selector"), errors);
    }
}

pub(crate) fn replication_controller(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new[SPEC], Path::field(SPEC));
    non_negative(spec, "minReadySeconds", &path, errors);
    if is_empty(&spec["selector"]) {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    non_negative(spec, "replicas", &path, errors);
    if spec["template"].is_null() {
        errors.push(FieldError::required(&path.child("template"), ""));
        return;
    }
    let selector = json!({"selector": {"matchLabels": spec["selector"]}, "template": spec["template"]});
    template(&selector, &path, "ReplicationController", errors);
}

pub(crate) fn stateful_set(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new[SPEC], Path::field(SPEC));
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(&path.child("podManagementPolicy"), policy, detail));
    }
    update_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), errors);
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    let at = path.child("persistentVolumeClaimRetentionPolicy");
    if retention.is_object() {
        one_of(retention, "whenDeleted", &["Retain", "Delete"], &at, errors);
        one_of(retention, "whenScaled", &["Retain", "Delete"], &at, errors);
    }
    let at = path.child("volumeClaimTemplates");
    // On a change they are only held against those before.
    let claims = if old.is_none() { list(spec, "volumeClaimTemplates") } else { &[] };
    for (index, claim) in claims.iter().enumerate() {
        super::core::claim_spec(&claim["spec"], &at.index(index).child("spec"), errors);
    }
    non_negative(spec, "replicas", &path, errors);
    non_negative(spec, "minReadySeconds", &path, errors);
    non_negative(&spec["ordinals"], "start", &path.child("ordinals"), errors);
    let service = text(spec, "serviceName");
    if old.is_none() && !service.is_empty() {
        invalid_each(errors, &path.child("serviceName"), service, names::dns_label(service));
    }
    required_selector(spec, &path, "statefulset", errors);
    // The claims' volumes are made by the controller: the template may mount them.
    let mut whole = spec.clone();
    let claims: Vec<Value> = list(spec, "volumeClaimTemplates")
        .iter()
        .map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default())
        .collect::<BTreeSet<&str>>()
        .into_iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let Some(pod) = whole.pointer_mut("/template/spec").and_then(Value::as_object_mut) {
        pod.remove("subdomain");
        pod.remove("hostname");
        if !claims.is_empty() {
            let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
            if let Some(volumes) = volumes.as_array_mut() {
                let named: HashSet<&Value> = claims.iter().map(|claim| &claim["name"]).collect();
                volumes.retain(|volume| !named.contains(&volume["name"]));
                volumes.splice(0..0, claims);
            }
        }
    }
    if is_right(&spec["selector"]) {
        template(&whole, &path, "StatefulSet", errors);
    } else {
        errors.push(FieldError::invalid(&path.child("selector"), selector::shown(&spec["selector"]), ""));
        restarts(spec, "StatefulSet", &path, errors);
    }
    if let Some(old) = old {
        stateful_set_update(spec, &old[SPEC], &path, errors);
    }
}

fn stateful_set_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MAY: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let rest = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten().filter(|(name, _)| !MAY.contains(&name.as_str()));
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if rest(new) != rest(old) {
        errors.push(FieldError::forbidden(
            path,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

fn update_strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.child("rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" if rolling.is_object() => errors.push(FieldError::invalid(
            &at,
            Shown::Raw(format!(
                "{{\"Partition\":{},\"MaxUnavailable\":{}}}",
                rolling["partition"].as_i64().unwrap_or(0),
                rolling["maxUnavailable"]
            )),
            "only allowed for updateStrategy 'RollingUpdate'",
        )),
        "OnDelete" => {}
        "RollingUpdate" => {
            non_negative(rolling, "partition", &at, errors);
            int_or_percent(&rolling["maxUnavailable"], &at.child("maxUnavailable"), errors);
            at_most_all(&rolling["maxUnavailable"], &at.child("maxUnavailable"), errors);
        }
        "" => errors.push(FieldError::required(path, "")),
        _ => {
            errors.push(FieldError::invalid(
                path,
                shown(strategy, "StatefulSet"),
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
}

pub(crate) fn daemon_set(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new[SPEC], Path::field(SPEC));
    if let Some(old) = old {
        immutable(&spec["selector"], &old[SPEC]["selector"], &path.child("selector"), errors);
    }
    label_selector(&spec["selector"], &path.child("selector"), errors);
    template(spec, &path, "DaemonSet", errors);
    non_negative(spec, "minReadySeconds", &path, errors);
    non_negative(spec, "revisionHistoryLimit", &path, errors);
    let (strategy, at) = (&spec["updateStrategy"], path.child("updateStrategy"));
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => daemon_rolling(&strategy["rollingUpdate"], &at.child("rollingUpdate"), errors),
        _ => {
            let known = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported(&at, shown(strategy, "DaemonSet"), &known));
        }
    }
}

fn daemon_rolling(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["maxUnavailable", "maxSurge"] {
        int_or_percent(&rolling[field], &path.child(field), errors);
        at_most_all(&rolling[field], &path.child(field), errors);
    }
    match (is_zero(&rolling["maxUnavailable"]), is_zero(&rolling["maxSurge"])) {
        (true, true) => {
            errors
                .push(FieldError::required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
        }
        (false, false) => errors.push(FieldError::invalid(
            &path.child("maxSurge"),
            rolling["maxSurge"].clone(),
            "may not be set when maxUnavailable is non-zero",
        )),
        _ => {}
    }
}
