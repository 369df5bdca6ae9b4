//! Deployments, replica sets, stateful sets, daemon sets, replication controllers, and their revisions.
//!
//! In: the spec or strategy of one of these, as `data/facts.tsv` leads to it, on an update with what stands. Out: field errors in
//! kube-apiserver's order. What relates a template to its selector, and to the claims of a stateful set, is here; what is in a template is
//! judged by `pod`.

use std::collections::{BTreeSet, HashSet};
use std::ops::Not;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_json};
use serde_json::{Value, json};

use super::selector::{self, is_blank, is_right, label_selector, matches};
use super::{Errors, facts, invalid_each, judge, list, names, pod, text};

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
    // No selector matches nothing, an empty one everything; one that is malformed is refused elsewhere and not compared.
    let selector = &spec["selector"];
    // A ReplicationController's is a plain map of labels and is always compared.
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
        // kube-apiserver judges these twice; the second time under these paths.
        let metadata = &spec["template"]["metadata"];
        super::metadata::labels(&metadata["labels"], &at.child("labels"), errors);
        super::metadata::annotations(metadata, &at.child("annotations"), errors);
    }
    restarts(spec, kind, path, errors);
}

/// Pods of a set are always restarted when they end, and have no deadline.
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

/// The template, which is judged only where the selector is well formed.
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

/// What a deployment or a replica set selects, and makes its Pods of.
pub(super) fn selector_and_template(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    required_selector(spec, path, "deployment", errors);
    selected_template(spec, path, errors);
}

/// The deadline for progress is later than the time after which a Pod counts as available.
pub(super) fn deadline(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64().filter(|deadline| *deadline <= ready) {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, detail));
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

/// How Pods are replaced.
pub(super) fn strategy(strategy: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let at = path.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if rolling.is_object() => {
            errors
                .push(FieldError::forbidden(&at, "may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            judge(facts::APPS_V1_ROLLING_UPDATE_DEPLOYMENT, rolling, None, &at, errors);
        }
        _ => errors.push(FieldError::not_supported(
            path,
            shown(strategy, "Deployment"),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

/// `maxUnavailable` and `maxSurge` are not both zero: no Pod could ever be replaced.
pub(super) fn rolling_update(rolling: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let (fewer, more) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    if is_zero(fewer) && is_zero(more) {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&path.child("maxUnavailable"), fewer.clone(), detail));
    }
}

/// What a replication controller makes its Pods of.
pub(super) fn controlled(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if !spec["template"].is_null() {
        let spec = json!({"selector": {"matchLabels": spec["selector"]}, "template": spec["template"]});
        template(&spec, path, "ReplicationController", errors);
    }
}

/// Claims that are made for each Pod. On a change they are only held against those before.
pub(super) fn new_claims(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("volumeClaimTemplates");
    let claims = if old.is_none() { list(spec, "volumeClaimTemplates") } else { &[] };
    for (index, claim) in claims.iter().enumerate() {
        super::core::claim_spec(&claim["spec"], &at.index(index).child("spec"), errors);
    }
}

/// What a stateful set selects, and makes its Pods of.
pub(super) fn stateful(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let service = text(spec, "serviceName");
    if old.is_none() && !service.is_empty() {
        invalid_each(errors, &path.child("serviceName"), service, names::dns_label(service));
    }
    required_selector(spec, path, "statefulset", errors);
    if is_right(&spec["selector"]) {
        template(&with_claims(spec), path, "StatefulSet", errors);
    } else {
        errors.push(FieldError::invalid(&path.child("selector"), selector::shown(&spec["selector"]), ""));
        restarts(spec, "StatefulSet", path, errors);
    }
    if let Some(old) = old {
        stateful_set_update(spec, old, path, errors);
    }
}

/// The claims' volumes are made by the controller: the template may mount them.
fn with_claims(spec: &Value) -> Value {
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
    whole
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

/// How a stateful set's Pods are replaced.
pub(super) fn update_strategy(strategy: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
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
            judge(facts::APPS_V1_ROLLING_UPDATE_STATEFUL_SET_STRATEGY, rolling, None, &at, errors);
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

/// What a daemon set makes its Pods of.
pub(super) fn one_on_each_node(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    template(spec, path, "DaemonSet", errors);
}

/// How a daemon set's Pods are replaced.
pub(super) fn daemon_strategy(strategy: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => daemon_rolling(&strategy["rollingUpdate"], &path.child("rollingUpdate"), errors),
        _ => {
            let known = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported(path, shown(strategy, "DaemonSet"), &known));
        }
    }
}

fn daemon_rolling(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    judge(facts::APPS_V1_ROLLING_UPDATE_DAEMON_SET, rolling, None, path, errors);
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

/// The data of a revision: a JSON object that never changes.
pub(super) fn revision_data(data: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match (old, data) {
        (Some(old), data) if data != old => {
            errors.push(FieldError::invalid(path, Shown::Raw(go_json(data)), "field is immutable"));
        }
        (Some(_), _) | (None, Value::Object(_)) => {}
        (None, Value::Null) => errors.push(FieldError::required(path, "data is mandatory")),
        (None, _) => errors.push(FieldError::required(path, "data must be a valid JSON object")),
    }
}
