//! The loops that spread what users apply over the fleet, and bring its status back.
//!
//! In: the watches of a hub, what the loops share, and who knows of the agents' links. Out: running loops. What wakes each stands beside it
//! (`wakes`); here is only who hands to whom.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_core::cluster::Grace;
use karmada_core::detector::Takeover;
use karmada_core::gates::Gate;
use karmada_core::skip::SkipRules;
use tokio_util::sync::CancellationToken;

use crate::application_failover::ApplicationFailover;
use crate::binding::Binding;
use crate::cluster::{ClusterLife, ContactSource};
use crate::cluster_news::ClusterNews;
use crate::cluster_taint_policy::ClusterTaintPolicies;
use crate::cron_federated_hpa::CronFederatedHPAs;
use crate::dependencies::{Dependencies, Followers};
use crate::detector::{Detector, Makers};
use crate::estimator::Estimator;
use crate::eviction_loops::LifecycleOptions;
use crate::execution::Execution;
use crate::federated_hpa::FederatedHPAs;
use crate::federated_resource_quota_status::FederatedResourceQuotaStatusController;
use crate::federated_resource_quota_sync::FederatedResourceQuotaSync;
use crate::graceful_eviction::GracefulEviction;
use crate::informer::Informers;
use crate::namespace::NamespaceSync;
use crate::no_execute::NoExecuteTaints;
use crate::pod_metrics::PodMetrics;
use crate::policy::Policy;
use crate::port::{Key, TemplateKey};
use crate::queue::{Queue, WorkQueue};
use crate::remedy::Remedies;
use crate::runner::{self, Controller, Error, Source};
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::status::BindingStatus;
use crate::workload_rebalancer::Rebalancers;

/// Reconciles of one controller under way at once.
const WORKERS: usize = 4;

/// Reports of the sites of one binding mostly come together: within this they make one write of its status.
const STATUS_SETTLES: Duration = Duration::from_millis(250);

/// How the loops are to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopOptions {
    /// How workloads leave clusters.
    pub lifecycle: LifecycleOptions,
}

/// What is known of the fleet's agents.
pub struct Agents {
    /// Who knows of their links.
    pub contacts: Arc<dyn ContactSource>,
    /// The cluster controller's queue, which is filled when one connects or is lost.
    pub clusters: Arc<Queue<Key>>,
    /// Who asks them for exact room; none, where the clusters' summaries are to do.
    pub estimator: Option<Arc<dyn Estimator>>,
    /// Who asks them what Pods use; without anybody, nothing is scaled by it.
    pub metrics: Option<Arc<dyn PodMetrics>>,
}

/// Takes in what there is; the loops, each to be run until it ends.
pub async fn loops(
    informers: &Informers,
    shared: &Arc<Shared>,
    agents: Agents,
    options: LoopOptions,
    stop: &CancellationToken,
) -> Result<Vec<BoxFuture<'static, ()>>, Error> {
    shared.load(informers).await?;
    let mut loops = Loops { informers, stop, all: Vec::new() };
    let (works, statuses): (Arc<Queue<Key>>, Arc<Queue<Key>>) = Default::default();
    let templates: Arc<Queue<TemplateKey>> = Arc::default();
    let makers = Makers { works: works.clone(), statuses: statuses.clone(), settle: STATUS_SETTLES };
    let takeover = match shared.gates.enabled(Gate::PropagationPolicyPreemption) {
        true => Takeover::AsPoliciesSay,
        false => Takeover::Never,
    };
    let detector = Detector::new(shared.clone(), SkipRules::default(), takeover, makers);
    let wakes = detector.clone().wakes(informers.clone(), templates.clone(), stop.clone());
    loops.all.push(Box::pin(wakes));
    loops.add(detector, templates.clone(), vec![Detector::interpretations(shared)]);
    loops.add(Policy::new(shared.clone(), templates), Arc::<Queue<_>>::default(), Policy::wakes(shared));
    loops.dependencies(
        shared,
        Followers { works: works.clone(), statuses: statuses.clone(), settle: STATUS_SETTLES },
    );
    let scheduler = Scheduler::new(shared.clone(), agents.estimator.clone());
    let (wakes, queue) = (scheduler.wakes(), scheduler.queue());
    loops.add(scheduler, queue, wakes);
    loops.add(Binding::new(shared.clone()), works, Binding::wakes(shared));
    let wakes = BindingStatus::wakes(shared, STATUS_SETTLES);
    loops.add(BindingStatus::new(shared.clone()), statuses, wakes);
    loops.add(Execution::new(shared.clone()), Arc::<Queue<_>>::default(), Execution::wakes(shared));
    let life = ClusterLife::new(shared.clone(), agents.contacts.clone(), Grace::default());
    loops.add(life, agents.clusters, ClusterLife::wakes());
    loops.add(
        ClusterNews::new(shared.clone(), agents.contacts),
        Arc::<Queue<_>>::default(),
        ClusterNews::wakes(),
    );
    let namespaces = NamespaceSync::new(shared.clone(), SkipRules::default());
    loops.add(namespaces, Arc::<Queue<_>>::default(), NamespaceSync::wakes(shared));
    loops.quotas(shared);
    loops.add(CronFederatedHPAs::new(shared.clone()), Arc::<Queue<_>>::default(), CronFederatedHPAs::wakes());
    if let Some(metrics) = agents.metrics {
        let autoscaler = FederatedHPAs::new(shared.clone(), metrics);
        loops.add(autoscaler, Arc::<Queue<_>>::default(), FederatedHPAs::wakes());
    }
    loops.lifecycle(shared, &options.lifecycle);
    Ok(loops.all)
}

struct Loops<'a> {
    informers: &'a Informers,
    stop: &'a CancellationToken,
    all: Vec<BoxFuture<'static, ()>>,
}

impl Loops<'_> {
    /// The loop by which what a template refers to goes where the template goes.
    fn dependencies(&mut self, shared: &Arc<Shared>, followers: Followers) {
        let (distributor, queue) = (Dependencies::new(shared.clone()), Arc::<Queue<Key>>::default());
        let (informers, stop) = (self.informers.clone(), self.stop.clone());
        self.all.push(Box::pin(distributor.clone().hears(informers, queue.clone(), followers, stop)));
        self.add(distributor, queue, Dependencies::wakes(shared));
    }

    /// The loops by which clusters are given quotas, and what is used of them is told.
    fn quotas(&mut self, shared: &Arc<Shared>) {
        let sync = FederatedResourceQuotaSync::new(shared.clone());
        self.add(sync, Arc::<Queue<_>>::default(), FederatedResourceQuotaSync::wakes(shared));
        let wakes = FederatedResourceQuotaStatusController::wakes(shared, STATUS_SETTLES);
        let status = FederatedResourceQuotaStatusController::new(shared.clone());
        self.add(status, Arc::<Queue<_>>::default(), wakes);
    }

    /// The loops by which workloads leave clusters, clusters are tainted and remedied, and workloads are placed anew.
    fn lifecycle(&mut self, shared: &Arc<Shared>, options: &LifecycleOptions) {
        let gates = &shared.gates;
        if gates.enabled(Gate::GracefulEviction) {
            let eviction = GracefulEviction::new(shared.clone(), options.graceful_timeout);
            self.add(eviction, Arc::<Queue<_>>::default(), GracefulEviction::wakes(shared));
        }
        if options.evicts_for_taints(gates) {
            let rules = options.rules(gates);
            let taints = NoExecuteTaints::new(shared.clone(), rules, options.evictions_per_second);
            self.add(taints, Arc::<Queue<_>>::default(), NoExecuteTaints::wakes(shared));
        }
        if gates.enabled(Gate::Failover) {
            let policies = ClusterTaintPolicies::new(shared.clone());
            self.add(policies, Arc::<Queue<_>>::default(), ClusterTaintPolicies::wakes(shared));
        }
        let failover = ApplicationFailover::new(shared.clone());
        self.add(failover, Arc::<Queue<_>>::default(), ApplicationFailover::wakes(shared));
        self.add(Remedies::new(shared.clone()), Arc::<Queue<_>>::default(), Remedies::wakes(shared));
        self.add(Rebalancers::new(shared.clone()), Arc::<Queue<_>>::default(), Rebalancers::wakes());
    }

    fn add<C: Controller, Q: WorkQueue<C::Key>>(
        &mut self,
        controller: Arc<C>,
        queue: Arc<Q>,
        sources: Vec<Source<C::Key>>,
    ) {
        let informers = self.informers.clone();
        let running = runner::run(informers, controller, queue, sources, WORKERS, self.stop.clone());
        self.all.push(Box::pin(running));
    }
}

#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod evictions;
#[cfg(test)]
mod running;
#[cfg(test)]
mod tests;
