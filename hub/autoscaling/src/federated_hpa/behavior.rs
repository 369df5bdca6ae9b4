//! How fast a recommendation is followed: windows of stability, policies of scaling, and bounds.
//!
//! In: what was recommended now and before, how the target was scaled before, the rules. Out: how many replicas it is to have now, and what held
//! it back.
//!
//! Without rules, it goes down to what was the highest recommendation of five minutes, and up to the double at once, or to four.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};

use super::conditions::Said;
use super::history::{Entry, History};

/// The window of stability downwards where nobody says otherwise.
const WINDOW: SignedDuration = SignedDuration::from_secs(300);

/// Bounds and rules.
#[derive(Clone, Copy, Debug)]
pub struct Pace<'a> {
    /// No fewer replicas.
    pub least: i32,
    /// No more replicas.
    pub most: i32,
    /// Rules of one's own.
    pub behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
}

/// What held it back, as a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// Nothing.
    Nothing,
    /// `maxReplicas`.
    Most,
    /// `minReplicas`.
    Least,
    /// A policy of scaling up.
    Up,
    /// A policy of scaling down.
    Down,
}

/// What is followed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    /// Replicas.
    pub replicas: i32,
    /// Whether a window made another recommendation of it: higher than the present one, or lower.
    pub stabilized: Ordering,
    /// What held it back besides.
    pub held: LimitedBy,
}

impl Paced {
    /// Whether a window holds something back.
    pub fn able(self) -> Said {
        match self.stabilized {
            Ordering::Equal => {
                Said::able(true, "ReadyForNewScale", "no window of stability holds anything back")
            }
            Ordering::Greater => Said::able(
                true,
                "ScaleDownStabilized",
                "within the window more replicas were recommended than now",
            ),
            Ordering::Less => Said::able(
                true,
                "ScaleUpStabilized",
                "within the window fewer replicas were recommended than now",
            ),
        }
    }
}

impl LimitedBy {
    /// Whether a bound or a policy holds something back.
    pub fn said(self) -> Said {
        let words = |holds, reason, words: &str| Said::limited(holds, reason, words);
        match self {
            LimitedBy::Nothing => {
                words(false, "DesiredWithinRange", "no bound and no policy holds anything back")
            }
            LimitedBy::Most => words(true, "TooManyReplicas", "more replicas are asked for than maxReplicas"),
            LimitedBy::Least => {
                words(true, "TooFewReplicas", "fewer replicas are asked for than minReplicas")
            }
            LimitedBy::Up => words(true, "ScaleUpLimit", "more replicas are asked for than may be added now"),
            LimitedBy::Down => {
                words(true, "ScaleDownLimit", "fewer replicas are asked for than may be left now")
            }
        }
    }
}

/// Follows a recommendation.
pub fn follow(pace: Pace<'_>, history: &History, current: i32, recommended: i32, now: Timestamp) -> Paced {
    let recommendations = &history.recommendations;
    let stable = match pace.behavior {
        None => steady(recommendations, recommended, now),
        Some(rules) => within_windows(rules, recommendations, current, recommended, now),
    };
    let (replicas, held) = match pace.behavior {
        None => by_itself(pace, current, stable),
        Some(rules) => by_rules(pace, rules, history, current, stable, now),
    };
    let held = if replicas == stable { LimitedBy::Nothing } else { held };
    Paced { replicas, stabilized: stable.cmp(&recommended), held }
}

/// The highest recommendation of the usual window.
fn steady(recommendations: &[Entry], recommended: i32, now: Timestamp) -> i32 {
    let recent = recommendations.iter().filter(|entry| entry.age(now) <= WINDOW);
    recent.map(|entry| entry.replicas).fold(recommended, i32::max)
}

/// Up no further than to the lowest recommendation of the one window, down no further than to the highest one of the other.
fn within_windows(
    behavior: &HorizontalPodAutoscalerBehavior,
    recommendations: &[Entry],
    current: i32,
    recommended: i32,
    now: Timestamp,
) -> i32 {
    let recent = |window: SignedDuration| recommendations.iter().filter(move |entry| entry.age(now) < window);
    let up = recent(up_window(behavior)).map(|entry| entry.replicas).fold(recommended, i32::min);
    let down = recent(down_window(behavior)).map(|entry| entry.replicas).fold(recommended, i32::max);
    current.max(up).min(down)
}

fn window(rules: Option<&HPAScalingRules>, usual: SignedDuration) -> SignedDuration {
    let said = rules.and_then(|rules| rules.stabilization_window_seconds);
    said.map_or(usual, |seconds| SignedDuration::from_secs(i64::from(seconds.max(0))))
}

fn up_window(behavior: &HorizontalPodAutoscalerBehavior) -> SignedDuration {
    window(behavior.scale_up.as_ref(), SignedDuration::ZERO)
}

fn down_window(behavior: &HorizontalPodAutoscalerBehavior) -> SignedDuration {
    window(behavior.scale_down.as_ref(), WINDOW)
}

/// How long recommendations are to be remembered.
pub fn memory(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> SignedDuration {
    behavior.map_or(WINDOW, |behavior| up_window(behavior).max(down_window(behavior)))
}

/// How long it is to be remembered that the target was scaled.
pub fn longest_period(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> SignedDuration {
    let both = behavior.map(|behavior| [&behavior.scale_up, &behavior.scale_down]);
    let policies = both.into_iter().flatten().flatten().flat_map(|rules| rules.policies.iter().flatten());
    policies.map(period).max().unwrap_or(SignedDuration::ZERO)
}

fn period(policy: &HPAScalingPolicy) -> SignedDuration {
    SignedDuration::from_secs(i64::from(policy.period_seconds.max(0)))
}

/// Within the bounds, and up to the double or to four.
fn by_itself(pace: Pace<'_>, current: i32, stable: i32) -> (i32, LimitedBy) {
    let fastest = current.saturating_mul(2).max(4);
    let (most, by) =
        if pace.most > fastest { (fastest, LimitedBy::Up) } else { (pace.most, LimitedBy::Most) };
    if stable < pace.least {
        return (pace.least, LimitedBy::Least);
    }
    (stable.min(most), by)
}

/// Within the bounds, and as far as policies let it go.
fn by_rules(
    pace: Pace<'_>,
    behavior: &HorizontalPodAutoscalerBehavior,
    history: &History,
    current: i32,
    stable: i32,
    now: Timestamp,
) -> (i32, LimitedBy) {
    match stable.cmp(&current) {
        Ordering::Equal => (stable, LimitedBy::Nothing),
        Ordering::Greater => {
            let usual = [policy("Pods", 4), policy("Percent", 100)];
            let reached = Reach { current, history, now, up: true };
            let fastest = reached.furthest(behavior.scale_up.as_ref(), &usual).max(current);
            let (most, by) =
                if pace.most > fastest { (fastest, LimitedBy::Up) } else { (pace.most, LimitedBy::Most) };
            (stable.min(most), by)
        }
        Ordering::Less => {
            let reached = Reach { current, history, now, up: false };
            let fastest =
                reached.furthest(behavior.scale_down.as_ref(), &[policy("Percent", 100)]).min(current);
            let (least, by) = if pace.least < fastest {
                (fastest, LimitedBy::Down)
            } else {
                (pace.least, LimitedBy::Least)
            };
            (stable.max(least), by)
        }
    }
}

/// A policy where nobody says otherwise.
fn policy(type_: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: type_.to_owned(), value, period_seconds: 15 }
}

/// How far policies let one go, in one direction.
struct Reach<'a> {
    current: i32,
    history: &'a History,
    now: Timestamp,
    up: bool,
}

impl Reach<'_> {
    /// The furthest that any policy allows, or each of them; nowhere, where there is none, or all are off.
    fn furthest(&self, rules: Option<&HPAScalingRules>, usual: &[HPAScalingPolicy]) -> i32 {
        let policies = rules.map_or(usual, |rules| rules.policies.as_deref().unwrap_or_default());
        let reached = policies.iter().map(|policy| self.by(policy));
        let far = match rules.and_then(|rules| rules.select_policy.as_deref()) {
            Some("Disabled") => None,
            Some("Min") if self.up => reached.min(),
            Some("Min") => reached.max(),
            _ if self.up => reached.max(),
            _ => reached.min(),
        };
        far.unwrap_or(self.current)
    }

    /// How far one policy lets it go, from what there was when its period began. Shares are counted in whole numbers, rounded so that some
    /// change is possible.
    fn by(&self, policy: &HPAScalingPolicy) -> i32 {
        let changed = |entries: &[Entry]| -> i128 {
            let recent = entries.iter().filter(|entry| entry.age(self.now) < period(policy));
            recent.map(|entry| i128::from(entry.replicas)).sum()
        };
        let (added, removed) = (changed(&self.history.added), changed(&self.history.removed));
        let start = (i128::from(self.current) - added + removed).max(0);
        let value = i128::from(policy.value);
        let reached = match (policy.type_.as_str(), self.up) {
            ("Percent", true) => (start * (100 + value) + 99) / 100,
            ("Percent", false) => start * (100 - value) / 100,
            (_, true) => start + value,
            (_, false) => start - value,
        };
        i32::try_from(reached.max(0)).unwrap_or(i32::MAX)
    }
}
