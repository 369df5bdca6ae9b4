//! One hub: store, cache, registry, API, controllers, gateway, port; started in order, stopped in the reverse.
//!
//! In: [`Settings`] and a clock. Out: a hub that answers, or why it cannot be started; until it is stopped, it runs on the caller's runtime
//! and on threads of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use karmada_access::{Access, AccessOptions, Authorizer, Issuers};
use karmada_apiserver::aggregation::controller::ApiServices;
use karmada_apiserver::aggregation::{Aggregator, ClientIdentity};
use karmada_apiserver::audit::{Audit, AuditLog, Policy};
use karmada_apiserver::fairness::Fairness;
use karmada_apiserver::fairness::controller::FlowControl;
use karmada_apiserver::http::ApiServer;
use karmada_certs::{KeyedCertificate, PeerIdentity};
use karmada_controllers::workqueues::Workqueues;
use karmada_gateway::ports::Registrar;
use karmada_gateway::{Gateway, service};
use karmada_registry::admission::type_check::TypeCheck;
use karmada_registry::crd::DefinitionController;
use karmada_registry::{Clock, Registry};
use karmada_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

use self::api::{Beside, Shown, api_server};
use self::background::Background;
use self::bound_listener::{Port, endpoint, own_names};
use self::opened::OpenedState;
use crate::control::ControlLoops;
use crate::controller_threads::ControllerThreads;
use crate::data_dir::DataDir;
use crate::fleet::{CachedWorks, ClusterProxy, Contacts, HubRegistrar, Overview, StoredSessions};
use crate::heavy_request_threads::{self, Lanes};
use crate::hub_certificates::{CertificateHolders, Renewal};
use crate::listener::{self, AgentStreams, Connections, PortServices, Services, Strangers};
use crate::randomness;
use crate::server_certificate::PortTls;
use crate::service_account_tokens::HubTokens;
use crate::settings::{AuditSettings, Serves, Settings};

mod admission_chain;
mod api;
mod background;
mod bound_listener;
mod first_objects;
mod fleet_loops;
mod opened;

/// Over how long agents are asked to leave when the hub stops.
const DRAIN: Duration = Duration::from_secs(2);

/// A running hub.
pub struct Hub {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its URL for clients.
    pub url: String,
    /// Its directory.
    pub data: Arc<DataDir>,
    /// Its registry.
    pub registry: Arc<Registry>,
    /// How its control loops' queues fare.
    pub workqueues: Arc<Workqueues>,
    store: Arc<dyn Store>,
    background: Background,
    following: tokio::task::JoinHandle<()>,
    gateway: Arc<Gateway>,
    audit_log: Option<Arc<AuditLog>>,
    _controller_threads: ControllerThreads,
}

impl Hub {
    /// Starts a hub. When this returns, it answers.
    ///
    /// # Errors
    /// A file or the store cannot be opened, the address is taken, or an object that everything needs cannot be written.
    pub fn start(settings: &Settings, clock: Clock) -> BoxFuture<'_, Result<Hub>> {
        // Boxed, so that a hub is compiled here and not by each program that starts one.
        Box::pin(Hub::begin(settings, clock))
    }

    async fn begin(settings: &Settings, clock: Clock) -> Result<Hub> {
        let started = clock();
        // What cannot be audited is not begun.
        let audit = settings.access.audit.as_ref().map(|audit| audited(audit, &clock)).transpose()?;
        let opened = OpenedState::open(settings, &clock).await?;
        let background = Background::default();
        let authorizer = Authorizer::new(opened.cache.clone());
        let registry = admission_chain::registry(&opened, &authorizer, settings, &clock);
        let following = kept(&opened, &background);
        let port = bound_port(settings, &opened.data, &registry, &background, started).await?;
        let (aggregator, proxy) = aggregator(&opened.data, &registry, started)?;
        background.reconcile(&registry, ApiServices::new(registry.clone(), aggregator.clone()));
        let access = access(settings, &opened.data, &registry, authorizer, (&clock, &background.tasks))?;
        let (control, bundle) =
            control_loops(settings, &opened.data, &registry, &aggregator, (&clock, &background)).await?;
        let registrar = registrar(settings, &opened.data, &registry, &audit, (&control, endpoint(&port.url)));
        let gateway = gateway(settings, &registry, registrar, &opened.sessions, (&control, &background))?;
        let overview = overview(&registry, &control);
        let renewal = Renewal::new(
            CertificateHolders {
                data: opened.data.clone(),
                url: port.url.clone(),
                tls: port.tls.clone(),
                aggregator: aggregator.clone(),
                registry: registry.clone(),
                in_front: settings.access.proxy.clone(),
                bundle,
                gateway: gateway.clone(),
            },
            proxy,
        );
        background.tasks.spawn(renewal.clone().run(clock.clone(), background.stop.clone()).boxed());
        let audit_log = audit.as_ref().map(|audit| audit.log().clone());
        let seats = settings.access.seats.map(|seats| Fairness::new(registry.cache(), seats));
        let (workqueues, controllers) = (control.workqueues.clone(), control.shared.metrics.clone());
        let api = api_server(
            &registry,
            access,
            &port.url,
            &background.stop,
            Beside { audit, seats, aggregator, proxy: ClusterProxy(gateway.clone()) },
            Shown { overview, workqueues, controllers, renewal, started, encryption: opened.encryption },
        );
        serve(settings, (port.listener, port.tls), api, &gateway, (&clock, &control, &background))?;
        Ok(Hub {
            address: port.address,
            url: port.url,
            data: opened.data,
            registry,
            workqueues: control.workqueues.clone(),
            store: opened.store,
            background,
            following,
            gateway,
            audit_log,
            _controller_threads: control.into_threads(),
        })
    }

    /// Resolves if the hub can no longer do its work (its store failed).
    pub async fn failed(&self) {
        self.background.failed.cancelled().await;
    }

    /// Drains: no new work, what is under way ends, the store is closed.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(self.drain())
    }

    async fn drain(self) {
        // Nobody comes any more before those who are here are asked to go: an agent would be back at once.
        self.background.closing.cancel();
        self.gateway.drain(DRAIN).await;
        self.background.stop.cancel();
        self.background.tasks.close();
        self.background.tasks.wait().await;
        // Writes under way wait for the cache to show them, so it goes after everybody who writes.
        self.background.stop_cache.cancel();
        let _ = self.following.await;
        self.store.close().await;
        if let Some(log) = self.audit_log {
            let _ = tokio::task::spawn_blocking(move || log.close()).await;
        }
    }
}

/// Keeps the cache as its store is, and what is stored encrypted as the settings say.
fn kept(opened: &OpenedState, background: &Background) -> tokio::task::JoinHandle<()> {
    let following = background.follow(opened.cache.clone(), opened.store.clone());
    if let Some(encryption) = &opened.encryption {
        background.tasks.spawn(encryption.clone().run(background.stop.clone()).boxed());
    }
    following
}

fn audited(settings: &AuditSettings, clock: &Clock) -> Result<Arc<Audit>> {
    let file = settings.policy_file.display();
    let text = std::fs::read_to_string(&settings.policy_file);
    let policy = Policy::read(&text.with_context(|| format!("reading the audit policy {file}"))?)
        .map_err(|why| anyhow::anyhow!("the audit policy {file}: {why}"))?;
    let log = AuditLog::start(&settings.log, clock.clone())
        .with_context(|| format!("opening the audit log {}", settings.log.path.display()))?;
    Ok(Arc::new(Audit::new(policy, log, clock.clone(), Arc::new(randomness::id))))
}

fn issuers(settings: &Settings, clock: &Clock, tasks: &TaskTracker) -> Result<Option<Arc<Issuers>>> {
    if settings.access.issuers.is_empty() {
        return Ok(None);
    }
    let issuers = Issuers::new(settings.access.issuers.clone(), clock.clone());
    let issuers = issuers.map_err(anyhow::Error::msg).context("reading what is said of issuers")?;
    let warmed = issuers.clone();
    tasks.spawn(async move { warmed.warm().await }.boxed());
    Ok(Some(issuers))
}

/// The port, once resource definitions and the first objects are there; and what keeps all three as they are to be.
async fn bound_port(
    settings: &Settings,
    data: &Arc<DataDir>,
    registry: &Arc<Registry>,
    background: &Background,
    now: Timestamp,
) -> Result<Port> {
    let definitions = DefinitionController::new(registry.clone());
    definitions.start();
    first_objects::lay_down(registry, settings.serves).await?;
    let (port, service) = Port::bind(settings, registry, data, now).await?;
    background.reconcile(registry, definitions);
    background.reconcile(registry, FlowControl(registry.clone()));
    background.reconcile(registry, service);
    Ok(port)
}

/// Who calls, and what they may do.
fn access(
    settings: &Settings,
    data: &Arc<DataDir>,
    registry: &Arc<Registry>,
    authorizer: Arc<Authorizer>,
    (clock, tasks): (&Clock, &TaskTracker),
) -> Result<Access> {
    let options = AccessOptions {
        front_proxy: settings.access.proxy.as_ref().map(|proxy| proxy.headers.clone()),
        issuers: issuers(settings, clock, tasks)?,
        anonymous: settings.access.anonymous.clone(),
    };
    Ok(Access::new(registry, authorizer, Arc::new(HubTokens(data.clone()))).with(options))
}

/// Who hands requests on to other API servers, and the certificate that it shows them.
fn aggregator(
    data: &DataDir,
    registry: &Registry,
    now: Timestamp,
) -> Result<(Arc<Aggregator>, PeerIdentity)> {
    let KeyedCertificate { certificate_pem, key_pem } = data.front_proxy_client(now)?;
    let proxy = PeerIdentity::from_pem(&certificate_pem).context("reading the front proxy's certificate")?;
    Ok((Aggregator::new(registry.cache(), ClientIdentity { certificate_pem, key_pem }), proxy))
}

/// The control loops, which run where the settings say so, and what tells them the bundle of CAs.
async fn control_loops(
    settings: &Settings,
    data: &Arc<DataDir>,
    registry: &Arc<Registry>,
    aggregator: &Arc<Aggregator>,
    (clock, background): (&Clock, &Background),
) -> Result<(ControlLoops, watch::Sender<Arc<str>>)> {
    let control =
        ControlLoops::new(registry, clock, &settings.lifecycle, &background.tasks, &background.stop)
            .context("starting the controllers' threads")?;
    let (bundle, told_bundle) = watch::channel(data.authorities().bundle_pem().into());
    if settings.controllers {
        control
            .start(data, own_names(settings), (aggregator, settings.serves), told_bundle)
            .await
            .context("starting the controllers")?;
        background.reconcile(registry, TypeCheck(registry.clone()));
    }
    Ok((control, bundle))
}

/// The gateway, and what runs beside it where the hub is a fleet's.
fn gateway(
    settings: &Settings,
    registry: &Arc<Registry>,
    registrar: Arc<dyn Registrar>,
    sessions: &Arc<StoredSessions>,
    (control, background): (&ControlLoops, &Background),
) -> Result<Arc<Gateway>> {
    let works = CachedWorks::start(registry.clone(), &background.tasks, background.stop.clone());
    let gateway = fleet_loops::gateway(registry, registrar, sessions.clone(), works, control);
    if settings.serves == Serves::Fleet {
        fleet_loops::start(registry, &gateway, sessions.clone(), control, (settings, background))?;
    }
    Ok(gateway)
}

/// Who takes sites into the fleet.
fn registrar(
    settings: &Settings,
    data: &Arc<DataDir>,
    registry: &Arc<Registry>,
    audit: &Option<Arc<Audit>>,
    (control, endpoint): (&ControlLoops, String),
) -> Arc<dyn Registrar> {
    let contacts = Arc::new(Contacts(control.fleet.clone()));
    let registrar = HubRegistrar::new(registry.clone(), data.clone(), vec![endpoint], contacts)
        .approved(settings.access.approval)
        .audited(audit.clone())
        .recording(control.recorder.clone());
    Arc::new(registrar)
}

/// What is shown of the fleet: in `/metrics`, and in the columns of Clusters.
fn overview(registry: &Arc<Registry>, control: &ControlLoops) -> Arc<Overview> {
    let overview = Overview::new(registry.clone(), control.fleet.clone());
    if let Ok(clusters) = registry.definition("cluster.karmada.io", "v1alpha1", "clusters") {
        let _ = clusters.live.set(overview.clone().columns());
    }
    overview
}

/// Serves the port until the hub stops.
fn serve(
    settings: &Settings,
    (listener, tls): (TcpListener, Arc<PortTls>),
    api: Arc<ApiServer>,
    gateway: &Arc<Gateway>,
    (clock, control, background): (&Clock, &ControlLoops, &Background),
) -> Result<()> {
    let services = Services {
        api,
        agents: AgentStreams::new(BoxCloneSyncService::new(service::server(gateway))),
        gateway: gateway.clone(),
        strangers: Arc::new(Strangers::new(BoxCloneSyncService::new(service::for_strangers(gateway)))),
        tls,
        clock: clock.clone(),
        started: control.fleet.sources().started(),
    };
    let connections = Connections::new(settings.access.connections_per_address, settings.access.patience);
    let lanes = Lanes::new(heavy_request_threads::STAY).context("starting threads for heavy requests")?;
    let port_services = PortServices { services, lanes, connections };
    let (closing, stop) = (background.closing.clone(), background.stop.clone());
    background.tasks.spawn(listener::serve(listener, port_services, closing, stop).boxed());
    Ok(())
}
