//! What a FederatedHPA is decided by: the Pods of its target in all clusters that answered, and what was measured of them. Types alone:
//! `karmada-controllers` fills them from the answers of agents, the modules beside this one read them.
//!
//! Pods are facts without names: two that have one name in two clusters are two. What was measured stands with each Pod in the order of the
//! metrics that were asked for. Amounts are in thousandths.

use jiff::{SignedDuration, Timestamp};

/// The clusters that answered, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Replicas of the target that they are to have.
    pub wanted: i64,
    /// Replicas of the target that they say they have.
    pub running: i64,
    /// The target's Pods.
    pub pods: Vec<Pod>,
    /// What is known of each metric.
    pub readings: Vec<Reading>,
}

/// What is known of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is of single Pods and stands with them.
    OfPods,
    /// It is of something else, which all clusters have together.
    Whole(i64),
    /// It could not be read; why.
    Unknown(String),
}

/// A Pod of the target, in some cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// How far it is.
    pub phase: Phase,
    /// Whether it is going.
    pub deleting: bool,
    /// When it was started.
    pub started: Option<Timestamp>,
    /// Whether it serves, and since when that is so.
    pub ready: Option<Ready>,
    /// What was measured of it, by metric.
    pub measures: Vec<Measure>,
}

/// How far a Pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is not started yet.
    Pending,
    /// It runs, or nobody knows.
    Running,
    /// It ended, well or not.
    Ended,
}

/// A Pod's condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its status; absent where nobody knows.
    pub serves: Option<bool>,
    /// Since when.
    pub since: Timestamp,
}

/// One metric of one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What it uses; absent where that was not told.
    pub sample: Option<Sample>,
    /// What it asked for, of which the use is a share; or in words why there is no such share.
    pub request: Result<i64, String>,
}

/// What a Pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The amount.
    pub milli: i64,
    /// When it was measured.
    pub at: Timestamp,
    /// For how long up to then.
    pub window: SignedDuration,
}

impl Pod {
    /// Whether it serves.
    pub(super) fn serves(&self) -> bool {
        self.phase == Phase::Running && self.ready.is_some_and(|ready| ready.serves == Some(true))
    }
}
