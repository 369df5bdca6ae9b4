//! The loops that spread what users apply over the fleet, and bring its status back.
//!
//! In: the watches of a hub, what the loops share, and who knows of the agents' links. Out: running loops. What wakes each stands beside it
//! (`wakes`); here is only who hands to whom.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_core::cluster::Grace;
use karmada_core::controllers_list::{Controller as Name, ControllersList};
use karmada_core::detector::Takeover;
use karmada_core::feature_gates::Gate;
use tokio_util::sync::CancellationToken;

use crate::agent_ports::estimator::Estimator;
use crate::agent_ports::measured_questions::Measured;
use crate::agent_ports::pod_metrics::PodMetrics;
use crate::application_failover::ApplicationFailover;
use crate::binding::Binding;
use crate::cluster::{ClusterController, ContactSource};
use crate::cluster_taint_policy::ClusterTaintPolicies;
use crate::controller_context::ControllerContext;
use crate::cron_federated_hpa::CronFederatedHPAs;
use crate::dependencies::{BindingReaders, Dependencies};
use crate::deployment_replicas_syncer::DeploymentReplicasSyncer;
use crate::detector::{Detector, TemplateReaders};
use crate::endpointslice::EndpointSlices;
use crate::endpointslice_dispatch::EndpointSliceDispatch;
use crate::eviction_options::LifecycleOptions;
use crate::execution::Execution;
use crate::failback::Failback;
use crate::federated_hpa::FederatedHPAs;
use crate::federated_resource_quota_status::FederatedResourceQuotaStatusController;
use crate::federated_resource_quota_sync::FederatedResourceQuotaSync;
use crate::graceful_eviction::GracefulEviction;
use crate::hpa_scale_target_marker::HpaScaleTargetMarker;
use crate::informer::Informers;
use crate::multiclusterservice::MultiClusterServices;
use crate::namespace::NamespaceSync;
use crate::no_execute::NoExecuteTaints;
use crate::policy::Policy;
use crate::port::{Key, TemplateKey};
use crate::queue::{Queue, WorkQueue};
use crate::remedy::Remedies;
use crate::runner::{self, Controller, Error, Source};
use crate::scheduler::Scheduler;
use crate::service_export::ServiceExports;
use crate::service_import::ServiceImports;
use crate::status::BindingStatus;
use crate::unified_auth::UnifiedAuth;
use crate::workload_rebalancer::Rebalancers;

/// Reconciles of one controller under way at once.
const WORKERS: usize = 4;

/// Reports of the sites of one binding mostly come together: within this they make one write of its status.
const STATUS_DEBOUNCE: Duration = Duration::from_millis(250);

/// How the loops are to run.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// How workloads leave clusters.
    pub lifecycle: LifecycleOptions,
    /// Which controllers run.
    pub controllers: ControllersList,
    /// Whether the scheduler asks agents for exact room, where they can be asked.
    pub asks_for_room: bool,
    /// How long clusters may be silent.
    pub grace: Grace,
    /// How often what a namespace uses of its quotas is counted again where nothing changed; nothing for never.
    pub quota_sync: Duration,
}

impl Default for LoopOptions {
    /// As Karmada's flags are by themselves.
    fn default() -> Self {
        LoopOptions {
            lifecycle: LifecycleOptions::default(),
            controllers: ControllersList::default(),
            asks_for_room: false,
            grace: Grace::default(),
            quota_sync: Duration::from_secs(300),
        }
    }
}

/// What is known of the fleet's agents.
pub struct AgentPorts {
    /// Who knows of their links.
    pub contacts: Arc<dyn ContactSource>,
    /// The cluster controller's queue, which is filled when one connects or is lost.
    pub clusters: Arc<Queue<Key>>,
    /// Who asks them about their nodes; none, where the clusters' summaries are to do.
    pub estimator: Option<Arc<dyn Estimator>>,
    /// Who asks them what Pods use; without anybody, nothing is scaled by it.
    pub metrics: Option<Arc<dyn PodMetrics>>,
}

/// Takes in what there is; the loops, each to be run until it ends.
///
/// # Errors
/// As of [`ControllerContext::load`].
pub async fn loops(
    informers: &Informers,
    shared: &Arc<ControllerContext>,
    agents: AgentPorts,
    options: LoopOptions,
    stop: &CancellationToken,
) -> Result<Vec<BoxFuture<'static, ()>>, Error> {
    shared.load(informers).await?;
    let mut loops = Loops { informers, stop, runs: options.controllers, all: Vec::new() };
    let (works, statuses): (Arc<Queue<Key>>, Arc<Queue<Key>>) = Default::default();
    let templates: Arc<Queue<TemplateKey>> = Arc::default();
    let measured = |estimator| Measured::new(estimator, shared.metrics.clone()) as Arc<dyn Estimator>;
    let estimator = agents.estimator.filter(|_| options.asks_for_room).map(measured);
    let scheduler = Scheduler::new(shared.clone(), estimator.clone());
    let readers = TemplateReaders {
        scheduler: Some(scheduler.clone()),
        works: works.clone(),
        statuses: statuses.clone(),
        debounce: STATUS_DEBOUNCE,
    };
    let skip = shared.options.skip.clone();
    let detector = Detector::new(shared.clone(), skip.clone(), Takeover::gated(&shared.gates), readers);
    let wakes = detector.clone().wakes(informers.clone(), templates.clone(), stop.clone());
    loops.all.push(Box::pin(wakes));
    loops.add(
        detector,
        templates.clone(),
        vec![Detector::interpretations(shared), Detector::edited_bindings(shared)],
    );
    loops.add(Policy::new(shared.clone(), templates), Arc::<Queue<_>>::default(), Policy::wakes(shared));
    loops.dependencies(
        shared,
        BindingReaders { works: works.clone(), statuses: statuses.clone(), debounce: STATUS_DEBOUNCE },
    );
    let (wakes, queue) = (scheduler.wakes(), scheduler.queue());
    loops.add(scheduler, queue, wakes);
    loops.named(Name::Binding, Binding::new(shared.clone()), works, Binding::wakes(shared));
    let wakes = BindingStatus::wakes(shared, STATUS_DEBOUNCE);
    loops.named(Name::BindingStatus, BindingStatus::new(shared.clone()), statuses, wakes);
    let execution = Execution::new(shared.clone());
    loops.named(Name::Execution, execution, Arc::<Queue<_>>::default(), Execution::wakes(shared));
    let clusters = ClusterController::new(shared.clone(), agents.contacts, options.grace);
    loops.named(Name::Cluster, clusters, agents.clusters, ClusterController::wakes());
    let namespaces = NamespaceSync::new(shared.clone(), skip);
    loops.named(Name::Namespace, namespaces, Arc::<Queue<_>>::default(), NamespaceSync::wakes(shared));
    loops.quotas(shared, options.quota_sync);
    loops.services(shared);
    loops.replicas(shared, agents.metrics);
    let failback = Failback::new(shared.clone(), estimator, &options.lifecycle);
    loops.add(failback, Arc::<Queue<_>>::default(), Failback::wakes());
    loops.lifecycle(shared, &options.lifecycle);
    Ok(loops.all)
}

struct Loops<'a> {
    informers: &'a Informers,
    stop: &'a CancellationToken,
    runs: ControllersList,
    all: Vec<BoxFuture<'static, ()>>,
}

impl Loops<'_> {
    /// The loop by which what a template refers to goes where the template goes.
    fn dependencies(&mut self, shared: &Arc<ControllerContext>, readers: BindingReaders) {
        let (distributor, queue) = (Dependencies::new(shared.clone()), Arc::<Queue<Key>>::default());
        let (informers, stop) = (self.informers.clone(), self.stop.clone());
        self.all.push(Box::pin(distributor.clone().hears(informers, queue.clone(), readers, stop)));
        self.add(distributor, queue, Dependencies::wakes(shared));
    }

    /// The loops by which clusters are given quotas, and what is used of them is told.
    fn quotas(&mut self, shared: &Arc<ControllerContext>, period: Duration) {
        let sync = FederatedResourceQuotaSync::new(shared.clone());
        let wakes = FederatedResourceQuotaSync::wakes(shared);
        self.named(Name::FederatedResourceQuotaSync, sync, Arc::<Queue<_>>::default(), wakes);
        let wakes = FederatedResourceQuotaStatusController::wakes(shared, STATUS_DEBOUNCE);
        let status = FederatedResourceQuotaStatusController::new(shared.clone(), period);
        self.named(Name::FederatedResourceQuotaStatus, status, Arc::<Queue<_>>::default(), wakes);
    }

    /// The loops by which Services cross clusters, and people reach them.
    fn services(&mut self, shared: &Arc<ControllerContext>) {
        let services = MultiClusterServices::new(shared.clone());
        let wakes = MultiClusterServices::wakes(shared);
        self.named(Name::MultiClusterService, services, Arc::<Queue<_>>::default(), wakes);
        let dispatch = EndpointSliceDispatch::new(shared.clone());
        let wakes = EndpointSliceDispatch::wakes(shared);
        self.named(Name::EndpointsliceDispatch, dispatch, Arc::<Queue<_>>::default(), wakes);
        let exports = ServiceExports::new(shared.clone());
        let wakes = ServiceExports::wakes();
        self.named(Name::ServiceExport, exports, Arc::<Queue<_>>::default(), wakes);
        let slices = EndpointSlices::new(shared.clone());
        let wakes = EndpointSlices::wakes(shared);
        self.named(Name::EndpointSlice, slices, Arc::<Queue<_>>::default(), wakes);
        let imports = ServiceImports::new(shared.clone());
        self.named(Name::ServiceImport, imports, Arc::<Queue<_>>::default(), ServiceImports::wakes());
        let auth = UnifiedAuth::new(shared.clone());
        self.named(Name::UnifiedAuth, auth, Arc::<Queue<_>>::default(), UnifiedAuth::wakes(shared));
    }

    /// The loops that scale, and those that let the members scale.
    fn replicas(&mut self, shared: &Arc<ControllerContext>, metrics: Option<Arc<dyn PodMetrics>>) {
        if let Some(metrics) = metrics {
            let measured = Measured::new(metrics, shared.metrics.clone());
            let autoscaler = FederatedHPAs::new(shared.clone(), measured);
            let name = Name::FederatedHorizontalPodAutoscaler;
            self.named(name, autoscaler, Arc::<Queue<_>>::default(), FederatedHPAs::wakes());
        }
        let cron = CronFederatedHPAs::new(shared.clone());
        let name = Name::CronFederatedHorizontalPodAutoscaler;
        self.named(name, cron, Arc::<Queue<_>>::default(), CronFederatedHPAs::wakes());
        let marker = HpaScaleTargetMarker::new(shared.clone());
        let wakes = HpaScaleTargetMarker::wakes();
        self.named(Name::HpaScaleTargetMarker, marker, Arc::<Queue<_>>::default(), wakes);
        let syncer = DeploymentReplicasSyncer::new(shared.clone());
        let wakes = DeploymentReplicasSyncer::wakes();
        self.named(Name::DeploymentReplicasSyncer, syncer, Arc::<Queue<_>>::default(), wakes);
    }

    /// The loops by which workloads leave clusters, clusters are tainted and remedied, and workloads are placed anew.
    fn lifecycle(&mut self, shared: &Arc<ControllerContext>, options: &LifecycleOptions) {
        let gates = &shared.gates;
        if gates.enabled(Gate::GracefulEviction) {
            let eviction = GracefulEviction::new(shared.clone(), options.graceful_timeout);
            let wakes = GracefulEviction::wakes(shared);
            self.named(Name::GracefulEviction, eviction, Arc::<Queue<_>>::default(), wakes);
        }
        if options.evicts_for_taints(gates) {
            let rules = options.rules(gates);
            let taints = NoExecuteTaints::new(shared.clone(), rules, options.evictions_per_second);
            self.add(taints, Arc::<Queue<_>>::default(), NoExecuteTaints::wakes(shared));
        }
        if gates.enabled(Gate::Failover) {
            let policies = ClusterTaintPolicies::new(shared.clone());
            let wakes = ClusterTaintPolicies::wakes(shared);
            self.named(Name::ClusterTaintPolicy, policies, Arc::<Queue<_>>::default(), wakes);
        }
        let failover = ApplicationFailover::new(shared.clone());
        let wakes = ApplicationFailover::wakes(shared);
        self.named(Name::ApplicationFailover, failover, Arc::<Queue<_>>::default(), wakes);
        let remedies = Remedies::new(shared.clone());
        self.named(Name::Remedy, remedies, Arc::<Queue<_>>::default(), Remedies::wakes(shared));
        let rebalancers = Rebalancers::new(shared.clone());
        self.named(Name::WorkloadRebalancer, rebalancers, Arc::<Queue<_>>::default(), Rebalancers::wakes());
    }

    /// A loop that runs unless it was left out.
    fn named<C: Controller, Q: WorkQueue<C::Key>>(
        &mut self,
        name: Name,
        controller: Arc<C>,
        queue: Arc<Q>,
        sources: Vec<Source<C::Key>>,
    ) {
        if self.runs.runs(name) {
            self.add(controller, queue, sources);
        }
    }

    fn add<C: Controller, Q: WorkQueue<C::Key>>(
        &mut self,
        controller: Arc<C>,
        queue: Arc<Q>,
        sources: Vec<Source<C::Key>>,
    ) {
        let informers = self.informers.clone();
        let running = runner::run(informers, controller, queue, sources, WORKERS, self.stop.clone());
        self.all.push(running);
    }
}
