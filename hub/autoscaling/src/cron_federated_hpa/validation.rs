//! Which CronFederatedHPAs may be stored: those whose every rule runs one day, and says what is scaled to.
//!
//! In: the new object. Out: every wrong field. What is refused that Karmada would store and then never run says why. Rules are bounded, so that when
//! each of them runs next fits into the object beside them: Karmada stores more, and then cannot note when they ran.

use std::collections::BTreeSet;

use jiff::Timestamp;
use karmada_api::cron_federated_hpa::{
    AUTOSCALING_GROUP, CronFederatedHPA, CronFederatedHPARule, ScaleTarget,
};
use karmada_api::object;
use karmada_cron::{Schedule, zone};
use karmada_field::path::Path;
use karmada_field::{FieldError, names};
use serde_json::Value;

use karmada_core::object_size;

/// The most rules of one object.
pub const MOST_RULES: usize = 1000;
/// The most bytes of JSON that its rules may have: with a line for each of them in the status, and annotations, it stays an object that can be stored.
const RULES_BYTES: usize = 512 << 10;

/// Whether its rules are more than are looked at.
pub fn too_large(rules: &[CronFederatedHPARule]) -> Option<FieldError> {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    if rules.len() > MOST_RULES {
        return Some(FieldError::too_many("spec.rules", count(rules.len()), count(MOST_RULES)));
    }
    let fits = object_size::bytes(&rules) <= RULES_BYTES;
    (!fits).then(|| FieldError::too_long("spec.rules", count(RULES_BYTES)))
}

/// What is wrong with it.
pub fn validate_cron_federated_hpa(new: &Value) -> Vec<FieldError> {
    // What is on its way out only loses finalizers.
    if object::deleting(new) {
        return Vec::new();
    }
    let hpa: CronFederatedHPA = match serde_json::from_value(new.clone()) {
        Ok(hpa) => hpa,
        Err(error) => return vec![FieldError::invalid(&Path::ROOT, Value::Null, error.to_string())],
    };
    let mut errors = Vec::new();
    for problem in names::dns_subdomain(hpa.name()) {
        errors.push(FieldError::invalid("metadata.name", hpa.name(), problem));
    }
    errors.extend(target(&hpa.spec.scale_target_ref));
    if let Some(error) = too_large(&hpa.spec.rules) {
        errors.push(error);
        return errors;
    }
    let mut known = BTreeSet::new();
    for (index, rule) in hpa.spec.rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        if !known.insert(rule.name.as_str()) {
            errors.push(FieldError::duplicate(&format!("{path}.name"), rule.name.as_str()));
        }
        errors.extend(time(rule, &path));
        errors.extend(replicas(rule, &hpa.spec.scale_target_ref, &path));
    }
    errors
}

fn is_of_autoscaling(target: &ScaleTarget) -> bool {
    target.api_version.split_once('/').is_some_and(|(group, _)| group == AUTOSCALING_GROUP)
}

fn target(target: &ScaleTarget) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, text) in [("kind", &target.kind), ("name", &target.name)] {
        let path = format!("spec.scaleTargetRef.{field}");
        if text.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        let wrong = names::path_segment(text).into_iter();
        errors.extend(wrong.map(|problem| FieldError::invalid(&path, text.as_str(), problem)));
    }
    if errors.is_empty() && is_of_autoscaling(target) && target.kind != "FederatedHPA" {
        let why = format!("invalid scaleTargetRef kind: {}, only support FederatedHPA", target.kind);
        errors.push(FieldError::invalid("spec.scaleTargetRef.kind", target.kind.as_str(), why));
    }
    errors
}

/// Its schedule and time zone.
fn time(rule: &CronFederatedHPARule, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(why) = unscheduled(&rule.schedule) {
        let why = format!("invalid cron format: {why}");
        errors.push(FieldError::invalid(&format!("{path}.schedule"), rule.schedule.as_str(), why));
    }
    let name = rule.time_zone.as_deref().unwrap_or_default();
    if let Err(unknown) = zone(name) {
        errors.push(FieldError::invalid(&format!("{path}.timeZone"), name, unknown.to_string()));
    }
    errors
}

/// Why nothing is run by a schedule.
fn unscheduled(text: &str) -> Option<String> {
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Some("say the time zone in timeZone".to_owned());
    }
    if text.starts_with("@every") {
        return Some("@every is not taken: say when, as in */5 * * * *".to_owned());
    }
    match Schedule::parse(text, &jiff::tz::TimeZone::UTC) {
        Err(unreadable) => Some(unreadable.to_string()),
        Ok(schedule) if schedule.next(Timestamp::UNIX_EPOCH).is_none() => {
            Some("no year has such a day, so that it never comes".to_owned())
        }
        Ok(_) => None,
    }
}

/// What is scaled to.
fn replicas(rule: &CronFederatedHPARule, target: &ScaleTarget, path: &str) -> Vec<FieldError> {
    let wrong = |field: &str, why: String| FieldError::invalid(&format!("{path}.{field}"), "", why);
    let (min, max) = (rule.target_min_replicas, rule.target_max_replicas);
    if !(is_of_autoscaling(target) && target.kind == "FederatedHPA") {
        let why = match rule.target_replicas {
            None => format!("targetReplicas cannot be nil if you want to scale {}", target.kind),
            Some(0..) => return Vec::new(),
            Some(_) => "targetReplicas should be larger than or equal to 0".to_owned(),
        };
        return vec![wrong("targetReplicas", why)];
    }
    if min.is_none() && max.is_none() {
        let why = "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA";
        return vec![wrong("targetMaxReplicas", why.to_owned())];
    }
    let mut errors = Vec::new();
    for (field, bound) in [("targetMinReplicas", min), ("targetMaxReplicas", max)] {
        if bound.is_some_and(|bound| bound <= 0) {
            errors.push(wrong(field, format!("{field} should be larger than 0")));
        }
    }
    // Without a minimum a FederatedHPA has 1.
    if max.is_some_and(|max| max < min.unwrap_or(1)) {
        let why = "targetMaxReplicas should be larger than or equal to targetMinReplicas";
        errors.push(wrong("targetMinReplicas", why.to_owned()));
    }
    errors
}
