//! Deployments, daemon sets, stateful sets: their specs.

use serde_json::json;

use super::{Fields, object, set, set_text, text};

pub(super) fn deployment(spec: &mut Fields) {
    set(spec, "replicas", json!(1));
    let strategy = object(spec, "strategy");
    set_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", json!("25%"));
        set(rolling, "maxSurge", json!("25%"));
    }
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
}

pub(super) fn daemon_set(spec: &mut Fields) {
    let strategy = object(spec, "updateStrategy");
    set_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = object(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", json!(1));
        set(rolling, "maxSurge", json!(0));
    }
    set(spec, "revisionHistoryLimit", json!(10));
}

pub(super) fn stateful_set(spec: &mut Fields) {
    set_text(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set_text(strategy, "type", "RollingUpdate");
        object(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && strategy.get("rollingUpdate").is_some_and(|r| r.is_object())
    {
        set(object(strategy, "rollingUpdate"), "partition", json!(0));
    }
    let retention = object(spec, "persistentVolumeClaimRetentionPolicy");
    set_text(retention, "whenDeleted", "Retain");
    set_text(retention, "whenScaled", "Retain");
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
}
