//! A CronFederatedHPA scales by the clock: which rules are due, what is scaled by them, how it went.
//!
//! In: the object, the moment; then, what came of scaling. Out: runs that are due, one change that carries them out, the status, how long nothing is
//! to be done.
//!
//! The status is all that is remembered: a run is due once the moment comes that was told as the rule's next, by whichever hub. So runs that came
//! while no hub was there are made up, of each rule the last one, in the order in which they were to be. What was told of another schedule than the
//! rule's present one counts for nothing. Carrying a run out twice is carrying it out once.

pub mod validation;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::cron_federated_hpa::{
    AUTOSCALING_GROUP, CronFederatedHPA, CronFederatedHPARule, CronFederatedHPAStatus, DEFAULT_HISTORY_LIMIT,
    ExecutionHistory, FailedExecution, SuccessfulExecution,
};
use karmada_cron::{Schedule, zone};
use serde_json::{Value, json};

use karmada_core::{object_size, seconds};

/// Characters of a message that are kept: as many as an event may have.
const LONGEST_MESSAGE: usize = 1024;

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// When it was to be.
    pub scheduled: Timestamp,
    /// Which rule's, by its place.
    pub rule: usize,
}

/// What the runs that are due change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The replicas of what has a scale.
    Replicas(i32),
    /// The bounds of a FederatedHPA; absent: they stay.
    Bounds {
        /// `minReplicas`.
        min: Option<i32>,
        /// `maxReplicas`.
        max: Option<i32>,
    },
}

/// When a rule runs.
///
/// # Errors
/// In words: its time zone is unknown, or its schedule cannot be read.
pub fn schedule(rule: &CronFederatedHPARule) -> Result<Schedule, String> {
    let zone = zone(rule.time_zone.as_deref().unwrap_or_default()).map_err(|unknown| unknown.to_string())?;
    Schedule::parse(&rule.schedule, &zone).map_err(|unreadable| unreadable.to_string())
}

/// Why none of its rules runs, in words: they are too many, and were stored before such were refused.
pub fn too_large(hpa: &CronFederatedHPA) -> Option<String> {
    let error = validation::too_large(&hpa.spec.rules)?;
    Some(format!("no rule is run: {error}; make several CronFederatedHPAs of it"))
}

/// Rules that never run, with why.
pub fn unreadable(hpa: &CronFederatedHPA) -> Vec<(&str, String)> {
    let active = hpa.spec.rules.iter().filter(|rule| !rule.is_suspended());
    active.filter_map(|rule| Some((rule.name.as_str(), schedule(rule).err()?))).collect()
}

fn history<'a>(hpa: &'a CronFederatedHPA, rule: &CronFederatedHPARule) -> Option<&'a ExecutionHistory> {
    hpa.status.execution_histories.iter().find(|history| history.rule_name == rule.name)
}

/// The run that was told as the rule's next, where the rule may still mean it.
fn announced_run(
    hpa: &CronFederatedHPA,
    rule: &CronFederatedHPARule,
    by: &Schedule,
    now: Timestamp,
) -> Option<Timestamp> {
    let next = history(hpa, rule)?.next_execution_time.as_ref()?.0;
    by.told(next, now).then_some(next)
}

/// The runs that are due, in the order in which they were to be; at one moment, in that of their rules.
pub fn due(hpa: &CronFederatedHPA, now: Timestamp) -> Vec<Due> {
    let active = hpa.spec.rules.iter().enumerate().filter(|(_, rule)| !rule.is_suspended());
    let mut all: Vec<Due> = active
        .filter_map(|(at, rule)| {
            let schedule = schedule(rule).ok()?;
            let first = announced_run(hpa, rule, &schedule, now).filter(|next| *next <= now)?;
            Some(Due { scheduled: schedule.last(first, now), rule: at })
        })
        .collect();
    all.sort_unstable();
    all
}

/// What these runs change together: of what several say, the last one's holds.
///
/// # Errors
/// In words: none of them says `targetReplicas` for a target that has replicas, or the target is another autoscaler than a FederatedHPA.
pub fn scaling(hpa: &CronFederatedHPA, due: &[Due]) -> Result<Scaling, String> {
    let target = &hpa.spec.scale_target_ref;
    let last = |field: fn(&CronFederatedHPARule) -> Option<i32>| {
        due.iter().rev().find_map(|run| field(hpa.spec.rules.get(run.rule)?))
    };
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    if group != AUTOSCALING_GROUP {
        let words = || format!("targetReplicas cannot be nil if you want to scale {}", target.kind);
        return last(|rule| rule.target_replicas).map(Scaling::Replicas).ok_or_else(words);
    }
    if target.kind != "FederatedHPA" {
        let (own, version, kind) = ((hpa.namespace(), hpa.name()), &target.api_version, &target.kind);
        return Err(format!(
            "CronFederatedHPA({}/{}) do not support scale target {version}/{kind}",
            own.0, own.1
        ));
    }
    Ok(Scaling::Bounds {
        min: last(|rule| rule.target_min_replicas),
        max: last(|rule| rule.target_max_replicas),
    })
}

/// The FederatedHPA with these bounds; none where it has them.
pub fn bounded(federated_hpa: &Value, min: Option<i32>, max: Option<i32>) -> Option<Value> {
    let mut wanted = federated_hpa.clone();
    for (field, bound) in [("minReplicas", min), ("maxReplicas", max)] {
        if let Some(bound) = bound {
            wanted.get_mut("spec")?.as_object_mut()?.insert(field.to_owned(), json!(bound));
        }
    }
    (wanted != *federated_hpa).then_some(wanted)
}

/// The status once `came` is what came of the runs that were due at `now`: an error says why they failed.
pub fn status(
    hpa: &CronFederatedHPA,
    due: &[Due],
    came: &Result<(), String>,
    now: Timestamp,
) -> CronFederatedHPAStatus {
    let of = |(at, rule): (usize, &CronFederatedHPARule)| {
        let fresh = || ExecutionHistory { rule_name: rule.name.clone(), ..ExecutionHistory::default() };
        let mut kept = history(hpa, rule).cloned().unwrap_or_else(fresh);
        let ran = due.iter().find(|run| run.rule == at).map(|run| run.scheduled);
        if let Some(scheduled) = ran {
            note(&mut kept, rule, scheduled, came, now);
        }
        kept.next_execution_time = next(hpa, rule, ran, now).map(Time);
        kept
    };
    CronFederatedHPAStatus { execution_histories: hpa.spec.rules.iter().enumerate().map(of).collect() }
}

/// As much of the status as fits into the object: of all histories the oldest runs go. When each rule runs next stays, as that is what runs it.
pub fn fitting(hpa: &CronFederatedHPA, mut status: CronFederatedHPAStatus) -> CronFederatedHPAStatus {
    let room = object_size::room_for_status(&hpa.metadata, &hpa.spec);
    let runs = |of: &ExecutionHistory| of.successful_executions.len().max(of.failed_executions.len());
    let mut kept = status.execution_histories.iter().map(runs).max().unwrap_or(0);
    while kept > 0 && object_size::bytes(&status) > room {
        kept /= 2;
        for history in &mut status.execution_histories {
            history.successful_executions.truncate(kept);
            history.failed_executions.truncate(kept);
        }
    }
    status
}

/// When a rule runs next.
fn next(
    hpa: &CronFederatedHPA,
    rule: &CronFederatedHPARule,
    ran: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let schedule = schedule(rule).ok().filter(|_| !rule.is_suspended())?;
    match ran {
        Some(scheduled) => schedule.next(scheduled),
        None => announced_run(hpa, rule, &schedule, now).or_else(|| schedule.next(now)),
    }
}

/// Puts a run first in its history, of which as many stay as the rule says.
fn note(
    history: &mut ExecutionHistory,
    rule: &CronFederatedHPARule,
    scheduled: Timestamp,
    came: &Result<(), String>,
    now: Timestamp,
) {
    let (schedule_time, execution_time) = (Time(scheduled), Time(seconds(now)));
    match came {
        Ok(()) => {
            let execution = SuccessfulExecution {
                schedule_time,
                execution_time,
                applied_replicas: rule.target_replicas,
                applied_max_replicas: rule.target_max_replicas,
                applied_min_replicas: rule.target_min_replicas,
            };
            put(&mut history.successful_executions, execution, rule.successful_history_limit);
        }
        Err(message) => {
            let message = message.chars().take(LONGEST_MESSAGE).collect();
            let execution = FailedExecution { schedule_time, execution_time, message };
            put(&mut history.failed_executions, execution, rule.failed_history_limit);
        }
    }
}

fn put<T>(executions: &mut Vec<T>, latest: T, limit: Option<i32>) {
    executions.insert(0, latest);
    executions.truncate(usize::try_from(limit.unwrap_or(DEFAULT_HISTORY_LIMIT)).unwrap_or(0));
}

/// How long nothing is due by this status; none where nothing ever is.
pub fn rests(status: &CronFederatedHPAStatus, now: Timestamp) -> Option<SignedDuration> {
    let next = status.execution_histories.iter().filter_map(|history| history.next_execution_time.as_ref());
    let first = next.map(|next| next.0).min()?;
    Some(first.duration_since(now).max(SignedDuration::ZERO))
}
