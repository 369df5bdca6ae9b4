//! What of a ResidencyRule does not hold yet, as its status tells it.
//!
//! In: the Works of clusters that the rule does not allow. Out: those that hold something that it covers, and the status: how many they are, the
//! first of them, the condition Compliant.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karmada_api::residency_rule::{ResidencyRule, ResidencyRuleStatus, ResidencyViolation};
use karmada_api::strings::conditions;
use serde::Deserialize;
use serde_json::Value;

use super::{covers, named};
use crate::detector::Subject;
use crate::{condition, set_condition};

/// Violations that a status names one by one.
const MOST_NAMED: usize = 20;

/// Those that a sentence names.
const MOST_SAID: usize = 3;

/// What is read of a Work.
#[derive(Deserialize)]
pub struct Held {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    workload: Workload,
}

#[derive(Default, Deserialize)]
struct Workload {
    #[serde(default)]
    manifests: Vec<Manifest>,
}

/// What is read of an object: which one it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    api_version: Value,
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: Value,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    labels: Value,
}

impl Manifest {
    fn as_object(&self) -> Value {
        let Metadata { namespace, name, labels } = &self.metadata;
        serde_json::json!({"apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"namespace": namespace, "name": name, "labels": labels}})
    }
}

impl Held {
    /// The first object in a Work that a rule covers, as a sentence calls it.
    pub fn covered_by(&self, rule: &ResidencyRule) -> Option<String> {
        let mut objects = self.spec.workload.manifests.iter().map(Manifest::as_object);
        objects.find(|object| covers(rule, &Subject::of(object))).map(|object| named(&object))
    }
}

/// The status of a rule with these violations, in any order.
pub fn status(
    rule: &ResidencyRule,
    mut violations: Vec<ResidencyViolation>,
    now: Timestamp,
) -> ResidencyRuleStatus {
    violations.sort();
    let said = compliant(&violations, now);
    let mut conditions = rule.status.conditions.clone();
    set_condition(&mut conditions, said);
    let violating_works = i64::try_from(violations.len()).unwrap_or(i64::MAX);
    violations.truncate(MOST_NAMED);
    let observed_generation = rule.metadata.generation.unwrap_or_default();
    ResidencyRuleStatus { observed_generation, violating_works, violations, conditions }
}

fn compliant(violations: &[ResidencyViolation], now: Timestamp) -> Condition {
    let (status, reason) = match violations {
        [] => (conditions::TRUE, conditions::NO_VIOLATIONS),
        _ => (conditions::FALSE, conditions::RESIDENCY_VIOLATED),
    };
    condition(conditions::COMPLIANT, status, reason, &words(violations), now)
}

/// What a person is told of violations, and what to do.
fn words(violations: &[ResidencyViolation]) -> String {
    if violations.is_empty() {
        return "nothing that the rule covers is in a cluster that it does not allow".to_owned();
    }
    let first: Vec<String> = violations
        .iter()
        .take(MOST_SAID)
        .map(|one| format!("{} in {} (Work {})", one.object, one.cluster, one.work))
        .collect();
    let more = violations.len() - first.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "Works hold objects in clusters that the rule does not allow: {}{more}. They stay, and get nothing new, until their bindings are scheduled for \
         another reason; a WorkloadRebalancer has that done at once. A Work that somebody wrote by hand stays until it is deleted",
        first.join(", ")
    )
}

/// What an event on the rule tells where there are more violations than before; nothing else is news.
pub fn news(before: &ResidencyRuleStatus, now: &ResidencyRuleStatus) -> Option<String> {
    let said = now.conditions.iter().find(|one| one.type_ == conditions::COMPLIANT);
    said.filter(|_| now.violating_works > before.violating_works).map(|said| said.message.clone())
}
