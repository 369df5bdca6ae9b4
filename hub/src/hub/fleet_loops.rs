//! The gateway, and the loops that only the hub of a fleet runs.
//!
//! In: the registry, the control loops' shared parts, the gateway's ports. Out: the gateway; running loops.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures::FutureExt as _;
use karmada_core::feature_gates::Gate;
use karmada_gateway::ports::{Ports, Registrar};
use karmada_gateway::{Gateway, Options};
use karmada_registry::Registry;

use super::background::Background;
use crate::control::ControlLoops;
use crate::fleet::{
    AgentNoteController, Approval, CachedWorks, ClusterLinks, ClusterStatusRepair, Models, PlacementReviews,
    Reports, SessionGuard, StoredSessions, TopologyQuestions, WebhookRetention, customizations_document,
};
use crate::settings::Settings;

/// The gateway between agents and what is stored.
pub(super) fn gateway(
    registry: &Arc<Registry>,
    registrar: Arc<dyn Registrar>,
    sessions: Arc<StoredSessions>,
    works: CachedWorks,
    control: &ControlLoops,
) -> Arc<Gateway> {
    let reports = Reports::new(
        registry.clone(),
        control.fleet.clone(),
        control.recorder.clone(),
        control.woken.clusters.clone(),
    );
    let ports = Ports { works: Arc::new(works), statuses: Arc::new(reports), registrar, sessions };
    Gateway::new(ports, control.fleet.clone(), Options::default())
}

/// Starts what only a fleet has.
pub(super) fn start(
    registry: &Arc<Registry>,
    gateway: &Arc<Gateway>,
    sessions: Arc<StoredSessions>,
    control: &ControlLoops,
    (settings, background): (&Settings, &Background),
) -> Result<()> {
    if let Some(estimates) = &control.estimates {
        estimates.ask_by(gateway.clone());
    }
    control.pod_usages.ask_by(gateway.clone());
    if settings.controllers {
        // Only then there is somebody who has taken in what there is.
        let (shared, stop) = (control.shared.clone(), background.stop.clone());
        gateway.retain_by(Arc::new(WebhookRetention(shared.customized.clone())));
        background.tasks.spawn(customizations_document::tell(shared, gateway.clone(), stop).boxed());
        PlacementReviews::provide(registry, control.reviewer()).context("answering placement reviews")?;
        control.residency();
        // What a cluster says of itself a person looks at there, once.
        if settings.access.approval == Approval::Auto {
            let (asks, records) = (gateway.clone(), control.recorder.clone());
            control.topologies(TopologyQuestions::new(registry.clone(), asks, records));
        }
    }
    let grades_count = control.shared.gates.enabled(Gate::CustomizedClusterResourceModeling);
    control.models(Models::new(registry.clone(), gateway.clone(), grades_count));
    control.repair(ClusterStatusRepair::new(registry.clone(), gateway.clone()));
    control.agents(AgentNoteController::new(registry.clone(), control.fleet.clone()));
    let shown = registry.definition("edge.karmada.io", "v1alpha1", "clusterlinks");
    let shown = shown.context("showing links")?;
    control.cluster_links(ClusterLinks::provide(registry, &control.fleet, &shown));
    control.guard(SessionGuard::new(registry.clone(), gateway.clone(), sessions));
    Ok(())
}
