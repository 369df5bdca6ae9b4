//! Which controllers run, by the names of Karmada's flag `--controllers`.
//!
//! In: the flag's words, as `*,-namespace,hpaScaleTargetMarker`. Out: for each controller whether it runs. `*` means all that run by themselves, a
//! name one more, a name with `-` before it one less, wherever it stands; a name that Karmada does not know is refused.

use std::str::FromStr;

/// A controller that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Works of bindings.
    Binding,
    /// Statuses of bindings and templates.
    BindingStatus,
    /// Clusters' execution namespaces and taints.
    Cluster,
    /// What the hub does of a Work's life.
    Execution,
    /// Namespaces on every cluster.
    Namespace,
    /// Quotas of clusters.
    FederatedResourceQuotaSync,
    /// What is used of quotas.
    FederatedResourceQuotaStatus,
    /// The end of graceful evictions.
    GracefulEviction,
    /// Evictions of what is unhealthy.
    ApplicationFailover,
    /// Scaling by what Pods use.
    FederatedHorizontalPodAutoscaler,
    /// Scaling by the clock.
    CronFederatedHorizontalPodAutoscaler,
    /// Marks on what members scale.
    HpaScaleTargetMarker,
    /// Replicas of what members scale.
    DeploymentReplicasSyncer,
    /// Actions for unwell clusters.
    Remedy,
    /// Placing anew on demand.
    WorkloadRebalancer,
    /// Taints by conditions.
    ClusterTaintPolicy,
    /// Who may be impersonated in clusters.
    UnifiedAuth,
    /// Services that cross clusters.
    MultiClusterService,
    /// EndpointSlices for who reaches them.
    EndpointsliceDispatch,
    /// Questions to clusters that give their Services to others.
    ServiceExport,
    /// EndpointSlices of what clusters give to others.
    EndpointSlice,
    /// Services of what is imported.
    ServiceImport,
}

/// A name, whether it runs where nothing is said of it, and what it is here: none where another part does it, an agent, or nobody yet.
type Row = (&'static str, bool, Option<Controller>);

const ROWS: [Row; 27] = [
    ("cluster", true, Some(Controller::Cluster)),
    ("clusterStatus", true, None),
    ("binding", true, Some(Controller::Binding)),
    ("bindingStatus", true, Some(Controller::BindingStatus)),
    ("execution", true, Some(Controller::Execution)),
    ("workStatus", true, None),
    ("namespace", true, Some(Controller::Namespace)),
    ("serviceExport", true, Some(Controller::ServiceExport)),
    ("endpointSlice", true, Some(Controller::EndpointSlice)),
    ("serviceImport", true, Some(Controller::ServiceImport)),
    ("unifiedAuth", true, Some(Controller::UnifiedAuth)),
    ("federatedResourceQuotaSync", true, Some(Controller::FederatedResourceQuotaSync)),
    ("federatedResourceQuotaStatus", true, Some(Controller::FederatedResourceQuotaStatus)),
    ("federatedResourceQuotaEnforcement", true, None),
    ("gracefulEviction", true, Some(Controller::GracefulEviction)),
    ("applicationFailover", true, Some(Controller::ApplicationFailover)),
    ("federatedHorizontalPodAutoscaler", true, Some(Controller::FederatedHorizontalPodAutoscaler)),
    ("cronFederatedHorizontalPodAutoscaler", true, Some(Controller::CronFederatedHorizontalPodAutoscaler)),
    ("hpaScaleTargetMarker", false, Some(Controller::HpaScaleTargetMarker)),
    ("deploymentReplicasSyncer", false, Some(Controller::DeploymentReplicasSyncer)),
    ("multiclusterservice", true, Some(Controller::MultiClusterService)),
    ("endpointsliceCollect", true, None),
    ("endpointsliceDispatch", true, Some(Controller::EndpointsliceDispatch)),
    ("remedy", true, Some(Controller::Remedy)),
    ("workloadRebalancer", true, Some(Controller::WorkloadRebalancer)),
    ("agentcsrapproving", true, None),
    ("clustertaintpolicy", true, Some(Controller::ClusterTaintPolicy)),
];

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllersList {
    runs: [bool; ROWS.len()],
}

/// Why a text names no controllers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no controller; there are {known}", known = ROWS.map(|row| row.0).join(", "))]
pub struct UnknownController(String);

impl Default for ControllersList {
    /// All that run by themselves.
    fn default() -> Self {
        ControllersList { runs: ROWS.map(|row| row.1) }
    }
}

impl ControllersList {
    /// Whether a controller runs.
    pub fn runs(&self, controller: Controller) -> bool {
        ROWS.iter().zip(self.runs).any(|(row, runs)| row.2 == Some(controller) && runs)
    }

    /// The same with a controller.
    #[must_use]
    pub fn with(mut self, controller: Controller) -> Self {
        for (row, runs) in ROWS.iter().zip(&mut self.runs) {
            *runs |= row.2 == Some(controller);
        }
        self
    }

    /// Names that were left out and that this hub has no loop for: leaving them out changes nothing.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let idle = |(row, runs): &(&Row, bool)| row.2.is_none() && row.1 != *runs;
        ROWS.iter().zip(self.runs).filter(idle).map(|(row, _)| row.0).collect()
    }
}

impl FromStr for ControllersList {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let mut list = ControllersList::default();
        if !words.contains(&"*") {
            list.runs = [false; ROWS.len()];
        }
        for word in words.into_iter().filter(|word| *word != "*") {
            let name = word.strip_prefix('-').unwrap_or(word);
            let row = ROWS.iter().position(|row| row.0 == name);
            list.runs[row.ok_or_else(|| UnknownController(word.to_owned()))?] = !word.starts_with('-');
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_means_those_that_run_by_themselves() {
        let star: ControllersList = "*".parse().unwrap();
        assert_eq!(star, ControllersList::default());
        assert!(star.runs(Controller::Remedy) && !star.runs(Controller::HpaScaleTargetMarker));
        let more: ControllersList = "hpaScaleTargetMarker,*, -remedy".parse().unwrap();
        assert!(!more.runs(Controller::Remedy) && more.runs(Controller::HpaScaleTargetMarker));
        assert_eq!(star.with(Controller::HpaScaleTargetMarker), "*,hpaScaleTargetMarker".parse().unwrap());
    }

    #[test]
    fn without_a_star_only_what_is_named_runs() {
        let few: ControllersList = "binding,cluster".parse().unwrap();
        assert!(few.runs(Controller::Binding) && few.runs(Controller::Cluster));
        assert!(!few.runs(Controller::Namespace));
    }

    #[test]
    fn a_name_that_is_none_is_refused_and_one_without_a_loop_is_told() {
        let refused = "*,-bindings".parse::<ControllersList>().unwrap_err().to_string();
        assert!(refused.starts_with("\"-bindings\" is no controller; there are cluster, "), "{refused}");
        let idle: ControllersList = "*,-endpointsliceCollect,-remedy".parse().unwrap();
        assert_eq!(idle.without_effect(), ["endpointsliceCollect"]);
    }
}
