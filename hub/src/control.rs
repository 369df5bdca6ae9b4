//! The control loops of one hub, started one by one.
//!
//! In: the registry behind its port, the state of the fleet. Out: running tasks that end with the stop signal.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_apiserver::aggregation::Aggregator;
use karmada_controllers::agent_ports::estimator::Estimator;
use karmada_controllers::agent_ports::measured_questions::Measured;
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::Recorder;
use karmada_controllers::informer::Informers;
use karmada_controllers::placement_review::Reviewer;
use karmada_controllers::port::Api;
use karmada_controllers::propagation::{self, LoopOptions};
use karmada_controllers::queue::Queue;
use karmada_controllers::runner::{self, Source};
use karmada_controllers::workqueues::Workqueues;
use karmada_descheduler::descheduler::{Descheduler, Descheduling};
use karmada_descheduler::rebalancing::{Rebalancing, RebalancingOptions};
use karmada_gateway::{ClockAndRandom, SharedFleet};
use karmada_kube_controller_manager::KubeControllerManager;
use karmada_placement_expressions::PlacementExpressions;
use karmada_registry::{Clock, Registry};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregated_apis::Aggregated;
use crate::certificate_requests::HubSigner;
use crate::controller_threads::ControllerThreads;
use crate::data_dir::DataDir;
use crate::fleet::{
    AgentNoteController, ClusterLinks, ClusterNews, ClusterStatusRepair, Contacts, Estimates, FleetQueues,
    InterpreterWebhookCalls, Models, PodUsages, ResidencyStatus, SessionGuard, TopologyQuestions,
};
use crate::randomness;
use crate::registry_api::RegistryApi;
use crate::service_account_tokens::HubTokens;
use crate::settings::{LifecycleSettings, Serves};

/// Reconciles of one controller under way at once.
const WORKERS: usize = 4;

/// A start does not wait longer for roles that select others.
const GATHERED: Duration = Duration::from_secs(5);

/// What the loops share, and the queues that others fill.
pub struct ControlLoops {
    /// What the loops look up.
    pub shared: Arc<ControllerContext>,
    /// One watch for each kind, which all loops hear of.
    pub informers: Informers,
    /// Records events.
    pub recorder: Arc<Recorder>,
    /// Sessions and links.
    pub fleet: Arc<SharedFleet>,
    /// The queues of those whom the fleet's news wake.
    pub woken: FleetQueues,
    /// How the loops' queues fare.
    pub workqueues: Arc<Workqueues>,
    options: LoopOptions,
    descheduling: Option<Descheduling>,
    rebalancing: Option<RebalancingOptions>,
    /// Who asks agents about their nodes, where that is wanted.
    pub estimates: Option<Arc<Estimates>>,
    /// Who asks agents what Pods use.
    pub pod_usages: Arc<PodUsages>,
    tasks: TaskTracker,
    threads: ControllerThreads,
    stop: CancellationToken,
}

impl ControlLoops {
    /// Lays everything out; nothing runs yet.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn new(
        registry: &Arc<Registry>,
        clock: &Clock,
        lifecycle: &LifecycleSettings,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> std::io::Result<ControlLoops> {
        let workqueues = Arc::new(Workqueues::default());
        let client = RegistryApi::new(registry.clone(), "karmada-controller-manager", workqueues.clone());
        let api: Arc<dyn Api> = Arc::new(client);
        let informers = Informers::new(api.clone());
        let recorder = Recorder::new(api.clone(), "karmada-controller-manager", clock.clone());
        let LifecycleSettings { gates, shared, loops, descheduling, rebalancing, estimates, .. } =
            lifecycle.clone();
        for (gate, why) in gates.without_effect() {
            tracing::warn!(gate, why, "this feature gate has nothing to decide here");
        }
        for controller in loops.controllers.without_effect() {
            tracing::warn!(
                controller,
                "leaving this controller out changes nothing: the hub has no such loop"
            );
        }
        let asks_agents = loops.asks_for_room || descheduling.is_some();
        let shared = ControllerContext::configured(api, clock.clone(), recorder.clone(), (gates, shared));
        shared.customized.webhooks.connect(Arc::new(InterpreterWebhookCalls(registry.clone())));
        shared.evaluate_by(Arc::new(PlacementExpressions::default()));
        let woken = FleetQueues::default();
        let (wall, wakes) = (clock.clone(), woken.clone());
        let sources = ClockAndRandom::new(move || wall(), randomness::number);
        let fleet =
            SharedFleet::new(sources, loops.grace.silence, move |cluster, who| wakes.wake(cluster, who));
        Ok(ControlLoops {
            shared,
            informers,
            recorder,
            fleet,
            woken,
            workqueues,
            options: loops,
            descheduling,
            rebalancing,
            estimates: asks_agents.then(|| Estimates::new(estimates)),
            pod_usages: PodUsages::new(clock.clone()),
            tasks: tasks.clone(),
            threads: ControllerThreads::start()?,
            stop: stop.clone(),
        })
    }

    /// The threads that the loops run on, to be kept as long as they run.
    pub fn into_threads(self) -> ControllerThreads {
        self.threads
    }

    /// Starts every loop.
    pub async fn start(
        &self,
        data: &Arc<DataDir>,
        own_names: Vec<String>,
        (others, serves): (&Arc<Aggregator>, Serves),
        ca_pem: watch::Receiver<Arc<str>>,
    ) -> anyhow::Result<()> {
        let recorder = self.recorder.clone();
        let stop = self.stop.clone();
        self.spawn(Box::pin(async move { recorder.run(stop).await }));
        if serves == Serves::Fleet {
            self.fleet().await?;
        }
        self.kube_controller_manager(data, own_names, others, ca_pem);
        // Whoever is bound to `view` in the first moment may look at once.
        let gathered = karmada_kube_controller_manager::clusterrole_aggregation::wait_until_aggregated(
            &*self.shared.api,
        );
        if tokio::time::timeout(GATHERED, gathered).await.is_err() {
            tracing::warn!("aggregated roles are still being put together");
        }
        Ok(())
    }

    /// Starts the loops that spread what users apply over the fleet.
    async fn fleet(&self) -> anyhow::Result<()> {
        let agents = propagation::AgentPorts {
            contacts: Arc::new(Contacts(self.fleet.clone())),
            clusters: self.woken.clusters.clone(),
            estimator: self.estimates.clone().map(|estimates| estimates as Arc<dyn Estimator>),
            metrics: Some(self.pod_usages.clone()),
        };
        let (informers, shared, stop) = (self.informers.clone(), self.shared.clone(), self.stop.clone());
        let options = self.options;
        let loops = async move { propagation::loops(&informers, &shared, agents, options, &stop).await };
        let news = ClusterNews::new(self.shared.clone(), Arc::new(Contacts(self.fleet.clone())));
        self.run(news, Arc::default(), ClusterNews::wakes());
        // What hears of changes runs where it was begun.
        for running in self.threads.handle().spawn(loops).await?? {
            self.spawn(running);
        }
        self.descheduler();
        Ok(())
    }

    /// Who says what would become of a template.
    pub fn reviewer(&self) -> Reviewer {
        let estimates = self.estimates.clone().filter(|_| self.options.asks_for_room);
        Reviewer {
            shared: self.shared.clone(),
            estimator: estimates.map(|estimates| estimates as Arc<dyn Estimator>),
            evicts_for_taints: self.options.lifecycle.evicts_for_taints(&self.shared.gates),
        }
    }

    /// Starts the loops that place elsewhere what stands badly, where they are wanted.
    fn descheduler(&self) {
        let measured = |estimates: Arc<Estimates>| {
            Measured::new(estimates as Arc<dyn Estimator>, self.shared.metrics.clone()) as Arc<dyn Estimator>
        };
        let estimator = self.estimates.clone().map(measured);
        if let (Some(options), Some(estimator)) = (self.descheduling, estimator.clone()) {
            let descheduler = Descheduler::new(self.shared.clone(), estimator, options);
            self.run(descheduler, Arc::default(), Descheduler::wakes());
        }
        if let Some(options) = self.rebalancing {
            let asks = estimator.filter(|_| self.options.asks_for_room);
            let rebalancing = Rebalancing::new(self.shared.clone(), asks, options);
            self.run(rebalancing, Arc::default(), Rebalancing::wakes());
        }
    }

    fn spawn(&self, running: BoxFuture<'static, ()>) {
        self.tasks.spawn_on(running, self.threads.handle());
    }

    fn run<C: runner::Controller>(
        &self,
        controller: Arc<C>,
        queue: Arc<Queue<C::Key>>,
        sources: Vec<Source<C::Key>>,
    ) {
        let informers = self.informers.clone();
        self.spawn(runner::run(informers, controller, queue, sources, WORKERS, self.stop.clone()));
    }

    /// Starts the loop that tells agents by which grades to count their nodes.
    pub fn models(&self, models: Arc<Models>) {
        self.run(models, self.woken.models.clone(), Models::wakes());
    }

    /// Starts the loop that keeps what is known of agents.
    pub fn agents(&self, agents: Arc<AgentNoteController>) {
        self.run(agents, self.woken.agents.clone(), AgentNoteController::wakes());
    }

    /// Starts the loops that show links to people.
    pub fn cluster_links(&self, links: Arc<ClusterLinks>) {
        self.spawn(Box::pin(links.clone().run(self.stop.clone())));
        self.run(links, self.woken.links.clone(), ClusterLinks::sources());
    }

    /// Starts the loop that holds Clusters to what their agents said.
    pub fn repair(&self, repair: Arc<ClusterStatusRepair>) {
        self.run(repair, Arc::default(), ClusterStatusRepair::wakes());
    }

    /// Starts the loop that asks agents where their clusters are.
    pub fn topologies(&self, questions: Arc<TopologyQuestions>) {
        self.run(questions, self.woken.topologies.clone(), TopologyQuestions::wakes());
    }

    /// Starts the loop that holds sessions to what is written on their Clusters.
    pub fn guard(&self, guard: Arc<SessionGuard>) {
        self.run(guard, Arc::default(), SessionGuard::wakes());
    }

    /// Starts the loop that tells what ResidencyRules do not allow and is there all the same.
    pub fn residency(&self) {
        let status = ResidencyStatus::new(self.shared.clone());
        let wakes = status.wakes();
        self.run(status, Arc::default(), wakes);
    }

    fn kube_controller_manager(
        &self,
        data: &Arc<DataDir>,
        own_names: Vec<String>,
        others: &Arc<Aggregator>,
        ca_pem: watch::Receiver<Arc<str>>,
    ) {
        let parts = KubeControllerManager {
            clock: self.shared.clock.clone(),
            tokens: Arc::new(HubTokens(data.clone())),
            signer: Arc::new(HubSigner { data: data.clone(), own_names }),
            others: Arc::new(Aggregated(others.clone())),
            ca_pem,
        };
        let running = karmada_kube_controller_manager::run(self.informers.clone(), parts, self.stop.clone());
        self.spawn(Box::pin(running));
    }
}
