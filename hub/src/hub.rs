//! One hub: store, cache, registry, API, controllers, gateway, port; started in order, stopped in the reverse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use karmada_access::{Access, Authorizer, Escalation, Issuers, reconcile};
use karmada_apiserver::aggregation::keep::ApiServices;
use karmada_apiserver::aggregation::{self, Aggregator, ClientIdentity};
use karmada_apiserver::audit::{Audit, AuditLog, Policy};
use karmada_apiserver::connect::Connectors;
use karmada_apiserver::fairness::keep::FlowControl;
use karmada_apiserver::fairness::{self, Fairness};
use karmada_apiserver::http::{ApiServer, STORE_CHECK, ServerOptions};
use karmada_apiserver::kubernetes_service::{self, KubernetesService};
use karmada_apiserver::request_metrics::RequestMetrics;
use karmada_certs::{KeyedCertificate, PeerIdentity};
use karmada_controllers::workqueues::Workqueues;
use karmada_gateway::ports::{Ports, Registrar};
use karmada_gateway::{Gateway, Options, service};
use karmada_kinds::catalogue;
use karmada_registry::admission::type_check::TypeCheck;
use karmada_registry::admission::{
    Admission, CertificateRequests, LimitRanger, NamespaceLifecycle, PodDefaults, ServiceAccounts,
};
use karmada_registry::cache::Cache;
use karmada_registry::crd::DefinitionController;
use karmada_registry::{Clock, Origin, Parts, Registry, User, WriteOptions, reconciler};
use karmada_schema::KUBERNETES_VERSION;
use karmada_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

use crate::access::HubTokens;
use crate::addresses::{public_address, url};
use crate::at_rest::Encryption;
use crate::control::Control;
use crate::controller_threads::ControllerThreads;
use crate::data_dir::DataDir;
use crate::fleet::{
    Agents, CachedWorks, ClusterLinks, ClusterProxy, Contacts, DeletionProtection, EXEMPT, HubRegistrar,
    KarmadaPolicies, Models, Overview, Repair, Reports, SessionGuard, StoredSessions, default_roles,
};
use crate::lanes::{self, Lanes};
use crate::listener::{self, AgentStreams, Connections, Doors, Services, Strangers};
use crate::port_tls::PortTls;
use crate::randomness;
use crate::renewal::{Holders, Renewal};
use crate::settings::{AuditSettings, Serves, Settings, StoreKind};
use crate::{certificates, cluster_info, extension_servers, metrics};

/// Namespaces that exist from the first start; those after the third on a hub of a fleet alone.
const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "karmada-system", "karmada-cluster"];

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
    closing: CancellationToken,
    stop: CancellationToken,
    stop_cache: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
    following: tokio::task::JoinHandle<()>,
    gateway: Arc<Gateway>,
    audit_log: Option<Arc<AuditLog>>,
    _controller_threads: ControllerThreads,
}

impl Hub {
    /// Starts a hub. When this returns, it answers.
    pub async fn start(settings: &Settings, clock: Clock) -> Result<Hub> {
        let now = clock();
        // What cannot be audited is not begun.
        let audit = settings.access.audit.as_ref().map(|audit| audited(audit, &clock)).transpose()?;
        let data = Arc::new(DataDir::open(&settings.data_dir, now)?);
        let OpenedStore { store, file } = open_store(settings, &data)?;
        let encryption = match &settings.encryption {
            None => None,
            Some(settings) => {
                Some(Encryption::start(settings.clone(), file, data.store_file(), clock.clone()).await?)
            }
        };
        // Before this start writes anything: what it finds is where its own history begins.
        let sessions = StoredSessions::open(store.clone(), data.clone(), randomness::number())
            .await
            .context("remembering this start")?;
        let at_rest = encryption.as_ref().map(|encryption| encryption.values());
        let cache = Cache::load_through(&*store, at_rest).await.context("reading the store")?;
        let authorizer = Authorizer::new(cache.clone());
        let mut gates: Vec<Box<dyn Admission>> = vec![
            Box::new(NamespaceLifecycle),
            Box::new(PodDefaults),
            Box::new(DeletionProtection),
            Box::new(LimitRanger::new(&cache)),
            Box::new(Escalation::new(authorizer.clone())),
            Box::new(CertificateRequests::new(authorizer.clone(), certificates::asked_name)),
            Box::new(KarmadaPolicies),
        ];
        if settings.access.accounts_of_pods {
            gates.push(Box::new(ServiceAccounts));
        }
        let registry = Registry::new(Parts {
            store: store.clone(),
            cache: cache.clone(),
            catalogue: match settings.serves {
                Serves::Fleet => catalogue::shipped(),
                Serves::Kubernetes => catalogue::of_kubernetes(),
            },
            admission: gates,
            authorizer: authorizer.clone(),
            clock: clock.clone(),
            ids: Arc::new(randomness::id),
        });
        let registry = Arc::new(registry.exempting(EXEMPT));
        let (stop, failed, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let stop_cache = CancellationToken::new();
        let following = tokio::spawn(follow_store(cache, store.clone(), stop_cache.clone(), failed.clone()));
        if let Some(encryption) = &encryption {
            tasks.spawn(encryption.clone().run(stop.clone()));
        }
        let definitions = DefinitionController::new(registry.clone());
        definitions.start();
        make_namespaces(&registry, settings.serves).await?;
        reconcile(&registry, &default_roles()).await.context("laying down the default roles")?;
        fairness::keep::settle(&registry).await.context("laying down flow schemas and priority levels")?;
        aggregation::keep::settle(&registry).await.context("laying down APIServices")?;

        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("listening on {}", settings.listen))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let url = url(&settings.advertise, address);
        data.write_kubeconfig(&url, now)?;
        cluster_info::publish(&registry, &url, &data.authorities().bundle_pem()).await?;
        let proxies = settings.access.proxy.as_ref().map(|proxy| proxy.ca_pem.as_str());
        let tls = PortTls::new(&data, own_names(settings), proxies, now)?;
        tasks.spawn(reconciler::run(registry.clone(), definitions, stop.clone()));
        tasks.spawn(reconciler::run(registry.clone(), FlowControl(registry.clone()), stop.clone()));
        extension_servers::publish(&registry, &data, settings.access.proxy.as_ref()).await?;
        let KeyedCertificate { certificate_pem, key_pem } = data.front_proxy_client(now)?;
        let proxy =
            PeerIdentity::from_pem(&certificate_pem).context("reading the front proxy's certificate")?;
        let public = public_address(&settings.advertise, address);
        kubernetes_service::settle(&registry, address.port(), public)
            .await
            .unwrap_or_else(|status| tracing::warn!(why = status.message, "default/kubernetes"));
        let service = KubernetesService { registry: registry.clone(), port: address.port(), public };
        tasks.spawn(reconciler::run(registry.clone(), service, stop.clone()));
        let aggregator = Aggregator::new(registry.cache(), ClientIdentity { certificate_pem, key_pem });
        let api_services = ApiServices::new(registry.clone(), aggregator.clone());
        tasks.spawn(reconciler::run(registry.clone(), api_services, stop.clone()));
        let issuers = issuers(settings, &clock, &tasks)?;
        let access = Access::new(&registry, authorizer, Arc::new(HubTokens(data.clone())))
            .behind(settings.access.proxy.as_ref().map(|proxy| proxy.headers.clone()))
            .trusting(issuers)
            .open_at(settings.access.anonymous.clone());
        let seats = settings.access.seats.map(|seats| Fairness::new(registry.cache(), seats));
        let audit_log = audit.as_ref().map(|audit| audit.log().clone());
        let control =
            Control::new(&registry, &clock, &tasks, &stop).context("starting the controllers' threads")?;
        let (bundle, told_bundle) = watch::channel(data.authorities().bundle_pem().into());
        if settings.controllers {
            control
                .start(&data, own_names(settings), (&aggregator, settings.serves), told_bundle)
                .await
                .context("starting the controllers")?;
            tasks.spawn(reconciler::run(registry.clone(), TypeCheck(registry.clone()), stop.clone()));
        }
        let endpoint = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let contacts = Arc::new(Contacts(control.links.clone()));
        let registrar = HubRegistrar::new(registry.clone(), data.clone(), vec![endpoint], contacts)
            .approved(settings.access.approval)
            .audited(audit.clone())
            .recording(control.recorder.clone());
        let registrar: Arc<dyn Registrar> = Arc::new(registrar);
        let sessions = Arc::new(sessions);
        let works = CachedWorks::start(registry.clone(), &tasks, stop.clone());
        let gateway = gateway(&registry, registrar, sessions.clone(), works, &control);
        let fleet = settings.serves == Serves::Fleet;
        if fleet {
            control.models(Models::new(registry.clone(), gateway.clone()));
            control.repair(Repair::new(registry.clone(), gateway.clone()));
            control.agents(Agents::new(registry.clone(), control.links.clone()));
            let shown = registry.definition("edge.karmada.io", "v1alpha1", "clusterlinks");
            let shown = shown.context("showing links")?;
            control.cluster_links(ClusterLinks::provide(&registry, &control.links, &shown));
            control.guard(SessionGuard::new(registry.clone(), gateway.clone(), sessions));
        }
        let overview = Overview::new(registry.clone(), control.links.clone());
        if let Ok(clusters) = registry.definition("cluster.karmada.io", "v1alpha1", "clusters") {
            let _ = clusters.live.set(overview.clone().columns());
        }
        let renewal = Renewal::new(
            Holders {
                data: data.clone(),
                url: url.clone(),
                tls: tls.clone(),
                aggregator: aggregator.clone(),
                registry: registry.clone(),
                in_front: settings.access.proxy.clone(),
                bundle,
                gateway: gateway.clone(),
            },
            proxy,
        );
        tasks.spawn(renewal.clone().run(clock.clone(), stop.clone()));
        let api = api_server(
            &registry,
            access,
            &url,
            &stop,
            (audit, seats, aggregator),
            Shown { overview, workqueues: control.workqueues.clone(), renewal, started: now, encryption },
        );
        let closing = CancellationToken::new();
        let services = Services {
            api,
            agents: AgentStreams::new(BoxCloneSyncService::new(service::of(&gateway))),
            strangers: Arc::new(Strangers::new(BoxCloneSyncService::new(service::for_strangers(&gateway)))),
            tls,
            clock: clock.clone(),
            started: control.links.sources().started(),
        };
        let connections = Connections::new(settings.access.connections_per_address, settings.access.patience);
        let lanes = Lanes::new(lanes::STAY).context("starting threads for heavy requests")?;
        let doors = Doors { services, lanes, connections };
        tasks.spawn(listener::serve(listener, doors, closing.clone(), stop.clone()));
        Ok(Hub {
            address,
            url,
            data,
            registry,
            workqueues: control.workqueues.clone(),
            store,
            closing,
            stop,
            stop_cache,
            following,
            failed,
            tasks,
            gateway,
            audit_log,
            _controller_threads: control.into_threads(),
        })
    }

    /// Resolves if the hub can no longer do its work (its store failed).
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Drains: no new work, what is under way ends, the store is closed.
    pub async fn stop(self) {
        // Nobody comes any more before those who are here are asked to go: an agent would be back at once.
        self.closing.cancel();
        self.gateway.drain(DRAIN).await;
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // Writes under way wait for the cache to show them, so it goes after everybody who writes.
        self.stop_cache.cancel();
        let _ = self.following.await;
        self.store.close().await;
        if let Some(log) = self.audit_log {
            let _ = tokio::task::spawn_blocking(move || log.close()).await;
        }
    }
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
    tasks.spawn(async move { warmed.warm().await });
    Ok(Some(issuers))
}

/// The store, and the same where it is a file.
struct OpenedStore {
    store: Arc<dyn Store>,
    file: Option<Arc<SqliteStore>>,
}

fn open_store(settings: &Settings, data: &DataDir) -> Result<OpenedStore> {
    Ok(match settings.store {
        StoreKind::Memory => OpenedStore { store: Arc::new(MemoryStore::new()), file: None },
        StoreKind::Sqlite => {
            let file = data.store_file();
            let options = SqliteOptions {
                accept_data_loss: settings.accept_data_loss,
                overwrite_deleted: settings.encryption.is_some(),
                ..SqliteOptions::new(&file)
            };
            let opened = SqliteStore::open(&options);
            let opened = Arc::new(opened.with_context(|| format!("opening the store {}", file.display()))?);
            OpenedStore { store: opened.clone(), file: Some(opened) }
        }
    })
}

async fn follow_store(
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    stop: CancellationToken,
    failed: CancellationToken,
) {
    let ended = cache.run(store, stop).await;
    if let Err(error) = ended {
        tracing::error!(%error, "the watch cache lost its store");
        failed.cancel();
    }
}

async fn make_namespaces(registry: &Registry, serves: Serves) -> Result<()> {
    let names = match serves {
        Serves::Fleet => &NAMESPACES[..],
        Serves::Kubernetes => &NAMESPACES[..3],
    };
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource("", "v1", "namespaces") else {
        bail!("the catalogue lacks namespaces")
    };
    for name in names {
        if registry.get(definition, "", name).is_ok() {
            continue;
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let user = User { name: "system:karmada:hub".to_owned(), origin: Origin::Hub, ..User::default() };
        let options =
            WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() };
        registry
            .create(definition, "", object, &options)
            .await
            .with_context(|| format!("making namespace {name}"))?;
    }
    Ok(())
}

/// The names by which the hub's certificate vouches for it.
fn own_names(settings: &Settings) -> Vec<String> {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    karmada_certs::server_names(hostname.as_deref().map(str::trim), &settings.advertise)
}

fn gateway(
    registry: &Arc<Registry>,
    registrar: Arc<dyn Registrar>,
    sessions: Arc<StoredSessions>,
    works: CachedWorks,
    control: &Control,
) -> Arc<Gateway> {
    let reports = Reports::new(
        registry.clone(),
        control.links.clone(),
        control.recorder.clone(),
        control.woken.clusters.clone(),
    );
    let ports = Ports { works: Arc::new(works), statuses: Arc::new(reports), registrar, sessions };
    Gateway::new(ports, control.links.clone(), Options::default())
}

/// What the API server shows of the hub, in `/metrics` and `/readyz`.
struct Shown {
    overview: Arc<Overview>,
    workqueues: Arc<Workqueues>,
    renewal: Arc<Renewal>,
    started: jiff::Timestamp,
    encryption: Option<Arc<Encryption>>,
}

fn api_server(
    registry: &Arc<Registry>,
    access: Access,
    url: &str,
    stop: &CancellationToken,
    (audit, seats, aggregator): (Option<Arc<Audit>>, Option<Arc<Fairness>>, Arc<Aggregator>),
    Shown { overview, workqueues, renewal, started, encryption }: Shown,
) -> Arc<ApiServer> {
    let options = ServerOptions {
        git_version: KUBERNETES_VERSION.to_owned(),
        git_commit: env!("CARGO_PKG_VERSION").to_owned(),
        advertise: url.trim_start_matches("https://").to_owned(),
    };
    let (shown, shown_seats) = (registry.clone(), seats.clone());
    let shown_log = audit.as_ref().map(|audit| audit.log().clone());
    let requests = Arc::new(RequestMetrics::default());
    let shown_requests = requests.clone();
    let shown_encryption = encryption.clone();
    let page = move || {
        let mut out = metrics::page(&shown, shown_seats.as_deref(), shown_log.as_deref());
        let parts = [
            shown_requests.page(),
            workqueues.page(),
            overview.page(),
            renewal.page(),
            metrics::process(started),
        ];
        out.extend(parts);
        out.extend(shown_encryption.as_ref().map(|encryption| encryption.page()));
        out
    };
    let store = registry.store().clone();
    let ready = move || {
        let mut checks = vec![(STORE_CHECK, store.health().map_err(|error| error.to_string()))];
        let services = encryption.as_ref().and_then(|encryption| encryption.services());
        checks.extend(services.map(|services| ("kms-providers", services)));
        checks
    };
    let (registry, access) = (registry.clone(), Arc::new(access));
    let server = ApiServer::new(registry, access, options, Arc::new(ready), Arc::new(page), stop.clone());
    let proxies = ("cluster.karmada.io", "clusters", "proxy");
    let server = server.connecting(Connectors::default().with(proxies, Arc::new(ClusterProxy)));
    Arc::new(server.audited(audit).fair(seats).aggregating(Some(aggregator)).counting(requests))
}
