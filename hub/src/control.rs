//! The control loops of one hub, registered one by one: what wakes each, how many workers it has.
//!
//! In: the registry behind its port, the links of the fleet. Out: running tasks that end with the stop signal.

use std::sync::Arc;
use std::time::Duration;

use karmada_apiserver::aggregation::Aggregator;
use karmada_apiserver::registry::{Clock, Registry};
use karmada_controllers::binding::Binding;
use karmada_controllers::cluster::ClusterLife;
use karmada_controllers::cluster_news::ClusterNews;
use karmada_controllers::detector::{Detector, TemplateKey};
use karmada_controllers::events::Recorder;
use karmada_controllers::execution::Execution;
use karmada_controllers::namespace::NamespaceSync;
use karmada_controllers::platform::{self, Platform};
use karmada_controllers::policies::Shared;
use karmada_controllers::policy::Policy;
use karmada_controllers::port::{Api, Change, Key};
use karmada_controllers::queue::Queue;
use karmada_controllers::runner::{self, Source, key_of};
use karmada_controllers::scheduler::{self, ClusterWatch, Scheduler};
use karmada_controllers::status::BindingStatus;
use karmada_controllers::workqueues::Workqueues;
use karmada_core::cluster::Grace;
use karmada_core::skip::SkipRules;
use karmada_interpreter::Chain;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::HubTokens;
use crate::api_port::RegistryApi;
use crate::certificates::HubSigner;
use crate::data_dir::DataDir;
use crate::fleet::{Agents, Links, Models, Repair, SessionGuard};
use crate::other_servers::Aggregated;
use crate::settings::Serves;

/// Reconciles of one controller under way at once.
const WORKERS: usize = 4;

/// Reports of the sites of one binding mostly come together: within this they make one write of its status.
const STATUS_SETTLES: Duration = Duration::from_millis(250);

/// A start does not wait longer for roles that select others.
const GATHERED: Duration = Duration::from_secs(5);

const BINDING_KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];
const WORK_API: &str = "work.karmada.io/v1alpha1";
const BINDING_API: &str = "work.karmada.io/v1alpha2";
const POLICY_API: &str = "policy.karmada.io/v1alpha1";
const CLUSTER_API: &str = "cluster.karmada.io/v1alpha1";

/// What the loops share, and the queues that others fill.
pub struct Control {
    /// The reading room.
    pub shared: Arc<Shared>,
    /// Records events.
    pub recorder: Arc<Recorder>,
    /// The links of the fleet.
    pub links: Arc<Links>,
    /// Wakes the cluster controller.
    pub clusters: Arc<Queue<Key>>,
    /// How the loops' queues fare.
    pub workqueues: Arc<Workqueues>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Control {
    /// Lays everything out; nothing runs yet.
    pub fn new(
        registry: &Arc<Registry>,
        clock: &Clock,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Control {
        let workqueues = Arc::new(Workqueues::default());
        let door = RegistryApi::new(registry.clone(), "karmada-controller-manager", workqueues.clone());
        let api: Arc<dyn Api> = Arc::new(door);
        let recorder = Recorder::new(api.clone(), "karmada-controller-manager", clock.clone());
        let shared = Shared::new(api, Arc::new(Chain::default()), clock.clone(), recorder.clone());
        let clusters = Arc::new(Queue::default());
        let links = Arc::new(Links::new(clusters.clone(), clock.clone()));
        Control { shared, recorder, links, clusters, workqueues, tasks: tasks.clone(), stop: stop.clone() }
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
        self.tasks.spawn(async move { recorder.run(stop).await });
        if serves == Serves::Fleet {
            self.fleet().await?;
        }
        self.platform(data, own_names, others, ca_pem);
        // Whoever is bound to `view` in the first moment may look at once.
        let gathered = platform::aggregation::settled(&*self.shared.api);
        if tokio::time::timeout(GATHERED, gathered).await.is_err() {
            tracing::warn!("aggregated roles are still being put together");
        }
        Ok(())
    }

    /// Starts the loops that spread what users apply over the fleet.
    async fn fleet(&self) -> anyhow::Result<()> {
        self.shared.load().await?;
        let (templates, works, statuses) = (Arc::default(), Arc::default(), Arc::default());
        self.detector(
            &templates,
            [(Arc::clone(&works), Duration::ZERO), (Arc::clone(&statuses), STATUS_SETTLES)],
        );
        self.policies(&templates);
        self.scheduler();
        self.binding(works);
        self.status(statuses);
        self.execution();
        self.cluster();
        self.namespaces();
        Ok(())
    }

    fn run<C: runner::Controller>(
        &self,
        controller: Arc<C>,
        queue: Arc<Queue<C::Key>>,
        sources: Vec<Source<C::Key>>,
    ) {
        let api = self.shared.api.clone();
        self.tasks.spawn(runner::run(api, controller, queue, sources, WORKERS, self.stop.clone()));
    }

    /// Starts the loop that tells agents by which grades to count their nodes.
    pub fn models(&self, models: Arc<Models>) {
        let queue = models.queue();
        self.run(models, queue, vec![Source::own(CLUSTER_API, "Cluster").but_status()]);
    }

    /// Starts the loop that keeps what is known of agents.
    pub fn agents(&self, agents: Arc<Agents>) {
        let queue = agents.queue();
        self.run(agents, queue, Vec::new());
    }

    /// Starts the loop that holds Clusters to what their agents said.
    pub fn repair(&self, repair: Arc<Repair>) {
        self.run(repair, Arc::default(), vec![Source::own(CLUSTER_API, "Cluster")]);
    }

    /// Starts the loop that holds sessions to what is written on their Clusters.
    pub fn guard(&self, guard: Arc<SessionGuard>) {
        self.run(guard, Arc::default(), vec![Source::own(CLUSTER_API, "Cluster")]);
    }

    fn platform(
        &self,
        data: &Arc<DataDir>,
        own_names: Vec<String>,
        others: &Arc<Aggregator>,
        ca_pem: watch::Receiver<Arc<str>>,
    ) {
        let parts = Platform {
            clock: self.shared.clock.clone(),
            tokens: Arc::new(HubTokens(data.clone())),
            signer: Arc::new(HubSigner { data: data.clone(), own_names }),
            others: Arc::new(Aggregated(others.clone())),
            ca_pem,
        };
        self.tasks.spawn(platform::run(self.shared.api.clone(), parts, self.stop.clone()));
    }

    fn detector(&self, queue: &Arc<Queue<TemplateKey>>, bindings: [(Arc<Queue<Key>>, Duration); 2]) {
        let detector = Detector::new(self.shared.clone(), SkipRules::default(), bindings);
        self.tasks.spawn(detector.clone().watch(queue.clone(), self.stop.clone()));
        self.run(detector, queue.clone(), Vec::new());
    }

    fn policies(&self, templates: &Arc<Queue<TemplateKey>>) {
        let controller = Policy::new(self.shared.clone(), templates.clone());
        let sources = vec![
            Source::own(POLICY_API, "PropagationPolicy"),
            Source::own(POLICY_API, "ClusterPropagationPolicy"),
        ];
        self.run(controller, Arc::default(), sources);
    }

    fn scheduler(&self) {
        let queue: Arc<Queue<Key>> = Arc::default();
        let mut sources: Vec<Source<Key>> =
            BINDING_KINDS.iter().map(|kind| Source::own(BINDING_API, kind).but_status()).collect();
        let (watch, api, all) = (ClusterWatch::default(), self.shared.api.clone(), queue.clone());
        sources.push(Source::new(CLUSTER_API, "Cluster", move |change| {
            if watch.observe(change) {
                wake_bindings(&api, &all);
            }
            Vec::new()
        }));
        self.run(Scheduler::new(self.shared.clone()), queue, sources);
    }

    fn binding(&self, queue: Arc<Queue<Key>>) {
        let mut sources: Vec<Source<Key>> =
            BINDING_KINDS.iter().map(|kind| Source::own(BINDING_API, kind).but_status()).collect();
        let index = self.shared.works.clone();
        let works = Source::new(WORK_API, "Work", move |change| {
            index.observe(change);
            binding_of_work(change).into_iter().collect()
        });
        sources.push(works.but_status());
        for kind in ["OverridePolicy", "ClusterOverridePolicy"] {
            let (api, all) = (self.shared.api.clone(), queue.clone());
            sources.push(Source::new(POLICY_API, kind, move |_| {
                wake_bindings(&api, &all);
                Vec::new()
            }));
        }
        self.run(Binding::new(self.shared.clone()), queue, sources);
    }

    fn status(&self, queue: Arc<Queue<Key>>) {
        let mut sources: Vec<Source<Key>> = BINDING_KINDS
            .iter()
            .map(|kind| Source::own(BINDING_API, kind).settling(STATUS_SETTLES))
            .collect();
        let works = Source::new(WORK_API, "Work", |change| binding_of_work(change).into_iter().collect());
        sources.push(works.settling(STATUS_SETTLES));
        self.run(BindingStatus::new(self.shared.clone()), queue, sources);
    }

    fn execution(&self) {
        let sources = vec![Source::own(WORK_API, "Work").but_status()];
        self.run(Execution::new(self.shared.clone()), Arc::default(), sources);
    }

    fn cluster(&self) {
        let controller = ClusterLife::new(self.shared.clone(), self.links.clone(), Grace::default());
        self.run(controller, self.clusters.clone(), vec![Source::own(CLUSTER_API, "Cluster")]);
        let news = ClusterNews::new(self.shared.clone(), self.links.clone());
        self.run(news, Arc::default(), vec![Source::own(CLUSTER_API, "Cluster")]);
    }

    fn namespaces(&self) {
        let queue: Arc<Queue<Key>> = Arc::default();
        let mut sources = vec![Source::own("v1", "Namespace")];
        for (api_version, kind) in [(CLUSTER_API, "Cluster"), (POLICY_API, "ClusterOverridePolicy")] {
            let (api, all) = (self.shared.api.clone(), queue.clone());
            let seen = parking_lot::Mutex::new(std::collections::BTreeMap::new());
            sources.push(Source::new(api_version, kind, move |change| {
                // A cluster's status changes all the time; only its coming and going, and its spec, matter here.
                if generation_moved(&mut seen.lock(), change) {
                    wake_namespaces(&api, &all);
                }
                Vec::new()
            }));
        }
        // The Work of an earlier namespace of the same name is in the way until it is gone.
        sources.push(Source::new(WORK_API, "Work", |change| namespace_of_work(change).into_iter().collect()));
        self.run(NamespaceSync::new(self.shared.clone(), SkipRules::default()), queue, sources);
    }
}

fn generation_moved(seen: &mut std::collections::BTreeMap<Key, (Arc<str>, i64)>, change: &Change) -> bool {
    match change {
        Change::Applied(object) => {
            let now = (object.uid.clone(), object.generation);
            seen.insert(object.key.clone(), now.clone()) != Some(now)
        }
        Change::Deleted(object) => seen.remove(&object.key).is_some(),
    }
}

/// The binding that a Work is for, by its annotations.
fn binding_of_work(change: &Change) -> Option<Key> {
    use karmada_api::strings::annotations;
    let (Change::Applied(work) | Change::Deleted(work)) = change;
    let value = work.value().ok()?;
    let note = |key: &str| value["metadata"]["annotations"][key].as_str();
    match (note(annotations::RESOURCE_BINDING_NAMESPACE), note(annotations::RESOURCE_BINDING_NAME)) {
        (Some(namespace), Some(name)) => Some(Key { namespace: namespace.into(), name: name.into() }),
        _ => {
            let name = note(annotations::CLUSTER_RESOURCE_BINDING_NAME)?;
            Some(Key { namespace: "".into(), name: name.into() })
        }
    }
}

/// The namespace whose Work is gone.
fn namespace_of_work(change: &Change) -> Option<Key> {
    let Change::Deleted(work) = change else { return None };
    let value = work.value().ok()?;
    let mut owners = value["metadata"]["ownerReferences"].as_array()?.iter();
    let owner = owners.find(|owner| owner["kind"] == "Namespace")?;
    Some(Key { namespace: "".into(), name: owner["name"].as_str()?.into() })
}

fn wake_bindings(api: &Arc<dyn Api>, queue: &Arc<Queue<Key>>) {
    let (api, queue) = (api.clone(), queue.clone());
    tokio::spawn(async move {
        if let Err(error) = scheduler::wake_all(&*api, &queue).await {
            tracing::warn!(%error, "bindings could not be woken");
        }
    });
}

fn wake_namespaces(api: &Arc<dyn Api>, queue: &Arc<Queue<Key>>) {
    let (api, queue) = (api.clone(), queue.clone());
    tokio::spawn(async move {
        let Some(resource) = api.resource_of("v1", "Namespace") else { return };
        for namespace in api.list(&resource, "").await.unwrap_or_default() {
            queue.add(key_of(&Change::Applied(namespace)));
        }
    });
}
