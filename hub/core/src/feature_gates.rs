//! Feature gates: which capabilities are on, by Karmada's names and with its defaults.
//!
//! In: the text of `--feature-gates`, as `A=true,B=false`. Out: for each gate whether it is on; a name that nobody knows is refused, and
//! so is a value that is neither true nor false.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A capability that can be switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Workloads are moved away from clusters that fail, and clusters are tainted by policies.
    Failover,
    /// What leaves a cluster stays there until its replacement is healthy.
    GracefulEviction,
    /// What a workload refers to goes along with it.
    PropagateDeps,
    /// A cluster's own grades of nodes count its free replicas.
    CustomizedClusterResourceModeling,
    /// Policies take resources over from weaker ones.
    PropagationPolicyPreemption,
    /// Services cross clusters.
    MultiClusterService,
    /// Estimates count what a member's quotas leave.
    ResourceQuotaEstimate,
    /// Status that is to go along with a workload becomes labels in the next cluster.
    StatefulFailoverInjection,
    /// Bindings are scheduled in the order of their priority.
    PriorityBasedScheduling,
    /// Federated quotas refuse what exceeds them.
    FederatedQuotaEnforcement,
    /// Workloads of several pod templates are placed by their parts.
    MultiplePodTemplatesScheduling,
    /// Controllers take changes before what a start brings.
    ControllerPriorityQueue,
    /// Workloads are placed by each other.
    WorkloadAffinity,
    /// What was placed and is not yet seen in a cluster's report counts as taken.
    SchedulingOvercommitProtection,
    /// Of logging, for compatibility.
    LoggingAlphaOptions,
    /// Of logging, for compatibility.
    LoggingBetaOptions,
    /// Of logging, for compatibility.
    ContextualLogging,
}

/// What `AllAlpha` and `AllBeta` mean together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
}

/// A gate, its name, whether it is on where nothing is said, its stage.
type Row = (Gate, &'static str, bool, Stage);

const ROWS: [Row; 17] = [
    (Gate::Failover, "Failover", false, Stage::Beta),
    (Gate::GracefulEviction, "GracefulEviction", true, Stage::Beta),
    (Gate::PropagateDeps, "PropagateDeps", true, Stage::Beta),
    (Gate::CustomizedClusterResourceModeling, "CustomizedClusterResourceModeling", true, Stage::Beta),
    (Gate::PropagationPolicyPreemption, "PropagationPolicyPreemption", false, Stage::Alpha),
    (Gate::MultiClusterService, "MultiClusterService", false, Stage::Alpha),
    (Gate::ResourceQuotaEstimate, "ResourceQuotaEstimate", false, Stage::Alpha),
    (Gate::StatefulFailoverInjection, "StatefulFailoverInjection", false, Stage::Alpha),
    (Gate::PriorityBasedScheduling, "PriorityBasedScheduling", true, Stage::Beta),
    (Gate::FederatedQuotaEnforcement, "FederatedQuotaEnforcement", false, Stage::Alpha),
    (Gate::MultiplePodTemplatesScheduling, "MultiplePodTemplatesScheduling", false, Stage::Alpha),
    (Gate::ControllerPriorityQueue, "ControllerPriorityQueue", true, Stage::Beta),
    (Gate::WorkloadAffinity, "WorkloadAffinity", false, Stage::Alpha),
    (Gate::SchedulingOvercommitProtection, "SchedulingOvercommitProtection", false, Stage::Alpha),
    (Gate::LoggingAlphaOptions, "LoggingAlphaOptions", false, Stage::Alpha),
    (Gate::LoggingBetaOptions, "LoggingBetaOptions", true, Stage::Beta),
    (Gate::ContextualLogging, "ContextualLogging", true, Stage::Beta),
];

/// The gates that have nothing to decide here, and why. Whoever acts on one takes it out.
const IDLE: [(Gate, &str); 4] = [
    (
        Gate::ControllerPriorityQueue,
        "what a start brings is compared in memory, and keys are taken in the order in which they came",
    ),
    (Gate::LoggingAlphaOptions, "the log has no options that come by a gate"),
    (Gate::LoggingBetaOptions, "--log-format is always there"),
    (Gate::ContextualLogging, "a line of the log always has the fields of what it is about"),
];

/// Which gates are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    on: BTreeSet<Gate>,
    /// Those that were set to another value than they have by themselves.
    changed: BTreeSet<Gate>,
}

/// Why a text names no gates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// There is no such gate.
    #[error("unrecognized feature gate: {0}; there are {known}", known = names().join(", "))]
    Unknown(String),
    /// It is not `Name=true` or `Name=false`.
    #[error("{0:?} is no feature gate and its value: write Name=true or Name=false")]
    Value(String),
}

fn names() -> Vec<&'static str> {
    ["AllAlpha", "AllBeta"].into_iter().chain(ROWS.iter().map(|row| row.1)).collect()
}

impl Default for FeatureGates {
    fn default() -> Self {
        let on = ROWS.iter().filter(|row| row.2).map(|row| row.0).collect();
        FeatureGates { on, changed: BTreeSet::new() }
    }
}

impl FeatureGates {
    /// Whether a gate is on.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.on.contains(&gate)
    }

    /// The same with a gate on.
    #[must_use]
    pub fn with(mut self, gate: Gate) -> Self {
        self.set(gate, true);
        self
    }

    /// The same with a gate off.
    #[must_use]
    pub fn without(mut self, gate: Gate) -> Self {
        self.set(gate, false);
        self
    }

    /// Gates that were set to another value than their own and have nothing to decide here, and why.
    pub fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let why = |row: &Row| IDLE.iter().find(|(gate, _)| *gate == row.0).map(|(_, why)| (row.1, *why));
        ROWS.iter().filter(|row| self.changed.contains(&row.0)).filter_map(why).collect()
    }

    fn set(&mut self, gate: Gate, on: bool) {
        let by_itself = ROWS.iter().any(|row| row.0 == gate && row.2);
        if on == by_itself {
            self.changed.remove(&gate)
        } else {
            self.changed.insert(gate)
        };
        if on {
            self.on.insert(gate)
        } else {
            self.on.remove(&gate)
        };
    }
}

/// Truth as Go's flags write it.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl FromStr for FeatureGates {
    type Err = GatesError;

    /// Whole stages first, so that a gate that is named by itself is as it says, wherever it stands.
    fn from_str(text: &str) -> Result<Self, GatesError> {
        let (mut stages, mut single) = (Vec::new(), Vec::new());
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let said = part.split_once('=').map(|(name, value)| (name.trim(), truth(value.trim())));
            let Some((name, Some(on))) = said else { return Err(GatesError::Value(part.to_owned())) };
            match name {
                "AllAlpha" => stages.push((Stage::Alpha, on)),
                "AllBeta" => stages.push((Stage::Beta, on)),
                _ => match ROWS.iter().find(|row| row.1 == name) {
                    Some(row) => single.push((row.0, on)),
                    None => return Err(GatesError::Unknown(name.to_owned())),
                },
            }
        }
        let mut gates = FeatureGates::default();
        for (stage, on) in stages {
            ROWS.iter().filter(|row| row.3 == stage).for_each(|row| gates.set(row.0, on));
        }
        single.into_iter().for_each(|(gate, on)| gates.set(gate, on));
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_as_they_are_named_and_else_as_by_default() {
        let plain: FeatureGates = "".parse().unwrap();
        assert_eq!(plain, FeatureGates::default());
        assert!(!plain.enabled(Gate::Failover) && plain.enabled(Gate::GracefulEviction));
        let gates: FeatureGates = "Failover=true, GracefulEviction=false,".parse().unwrap();
        assert!(gates.enabled(Gate::Failover) && !gates.enabled(Gate::GracefulEviction));
        assert!(gates.enabled(Gate::PropagateDeps));
        let stages: FeatureGates = "WorkloadAffinity=false,AllAlpha=true,AllBeta=false".parse().unwrap();
        assert!(stages.enabled(Gate::MultiClusterService) && !stages.enabled(Gate::WorkloadAffinity));
        assert!(!stages.enabled(Gate::PropagateDeps));
        assert_eq!(plain.clone().with(Gate::Failover).without(Gate::Failover), plain);
    }

    #[test]
    fn what_is_no_gate_is_refused_and_says_what_there_is() {
        let refused = |text: &str| text.parse::<FeatureGates>().unwrap_err();
        assert_eq!(refused("Failover"), GatesError::Value("Failover".into()));
        assert_eq!(refused("Failover=yes"), GatesError::Value("Failover=yes".into()));
        let words = refused("Failover=true,failover=true").to_string();
        assert!(words.starts_with("unrecognized feature gate: failover; there are AllAlpha"), "{words}");
        assert!(words.contains("StatefulFailoverInjection"), "{words}");
    }

    #[test]
    fn gates_that_change_nothing_here_are_told() {
        let told = |text: &str| {
            let gates: FeatureGates = text.parse().unwrap();
            gates.without_effect().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            told("Failover=true,LoggingAlphaOptions=true,PropagateDeps=true"),
            ["LoggingAlphaOptions"]
        );
        assert_eq!(told("ControllerPriorityQueue=false"), ["ControllerPriorityQueue"]);
        assert!(told("ControllerPriorityQueue=true").is_empty(), "as it is by itself");
        assert!(told("PriorityBasedScheduling=false,CustomizedClusterResourceModeling=false").is_empty());
        let every: BTreeSet<Gate> = ROWS.iter().map(|row| row.0).collect();
        assert_eq!(every.len(), ROWS.len(), "each stands there once");
    }

    /// Names and defaults of Karmada's gates, as they were recorded.
    const RECORDED: &str = include_str!("../data/karmada_feature_gates.tsv");

    #[test]
    fn the_gates_and_their_defaults_are_karmadas() {
        let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
        let recorded: BTreeSet<(&str, &str)> = lines.map(|line| line.split_once('\t').unwrap()).collect();
        let ours = ROWS.iter().map(|row| (row.1, if row.2 { "true" } else { "false" }));
        assert_eq!(ours.collect::<BTreeSet<_>>(), recorded);
        for (name, default) in recorded {
            let gate = ROWS.iter().find(|row| row.1 == name).unwrap().0;
            assert_eq!(FeatureGates::default().enabled(gate).to_string(), default, "{name}");
            for on in [true, false] {
                let set: FeatureGates = format!("{name}={on}").parse().unwrap();
                assert_eq!(set.enabled(gate), on, "{name}");
            }
        }
    }

    #[test]
    fn gates_with_nothing_to_decide_are_documented_with_the_reason() {
        let page = include_str!("../../README.md");
        for (gate, why) in IDLE {
            let name = ROWS.iter().find(|row| row.0 == gate).unwrap().1;
            assert!(page.contains(&format!("| `{name}` | {why}")), "{name}");
        }
    }
}
