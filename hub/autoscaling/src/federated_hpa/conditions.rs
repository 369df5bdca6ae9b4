//! Conditions of a FederatedHPA: what is said now, and what stands in its status. In: the conditions that stand, and what is said now. Out:
//! the conditions to write; a time of transition moves only where a status does. Pure.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::strings::conditions;

use karmada_core::seconds;

/// A condition as it is said, without since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its type.
    pub type_: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in a word.
    pub reason: &'static str,
    /// Why, in words.
    pub message: String,
}

impl Said {
    fn of(type_: &'static str, holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said { type_, holds, reason, message: message.into() }
    }

    /// Whether the target can be measured and is to be scaled by it.
    pub fn active(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said::of(conditions::SCALING_ACTIVE, holds, reason, message)
    }

    /// Whether the target can be scaled.
    pub fn able(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said::of(conditions::ABLE_TO_SCALE, holds, reason, message)
    }

    /// Whether a bound or a rule held back what was recommended.
    pub fn limited(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said::of(conditions::SCALING_LIMITED, holds, reason, message)
    }

    /// Whether every cluster told what was asked.
    pub fn measured(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Said::of(conditions::CLUSTERS_MEASURED, holds, reason, message)
    }
}

/// The conditions once these are said: one whose status is what it was is so since it was; what is not spoken of stays.
pub(super) fn say(
    conditions: &[HorizontalPodAutoscalerCondition],
    said: &[Said],
    now: Timestamp,
) -> Vec<HorizontalPodAutoscalerCondition> {
    let mut all = conditions.to_vec();
    for one in said {
        let status = if one.holds { conditions::TRUE } else { conditions::FALSE };
        let before = all.iter_mut().find(|condition| condition.type_ == one.type_);
        let since = before.as_ref().filter(|before| before.status == status);
        let since = since.and_then(|before| before.last_transition_time.clone());
        let condition = HorizontalPodAutoscalerCondition {
            type_: one.type_.to_owned(),
            status: status.to_owned(),
            reason: Some(one.reason.to_owned()),
            message: Some(one.message.clone()),
            last_transition_time: Some(since.unwrap_or_else(|| Time(seconds(now)))),
        };
        match before {
            Some(before) => *before = condition,
            None => all.push(condition),
        }
    }
    all
}
