//! One hub: store, cache, registry, API, controllers, gateway, port; started in order, stopped in the reverse.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use karmada_apiserver::admission::{
    Admission, DeletionProtection, KarmadaPolicies, LimitRanger, NamespaceLifecycle, PodDefaults,
};
use karmada_apiserver::auth::{Access, Authorizer, Escalation, reconcile};
use karmada_apiserver::cache::Cache;
use karmada_apiserver::crd::Keeper;
use karmada_apiserver::http::{ApiServer, ServerOptions};
use karmada_apiserver::kinds;
use karmada_apiserver::registry::{Clock, Registry, Standing, User, WriteOptions};
use karmada_gateway::ports::{Ports, Registrar};
use karmada_gateway::{Gateway, Options};
use karmada_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

use crate::access::HubTokens;
use crate::certificates::CertificateRequests;
use crate::cluster_info;
use crate::control::Control;
use crate::data_dir::DataDir;
use crate::fleet::{CachedWorks, HubRegistrar, Repair, Reports, StoredSessions, Told};
use crate::listener::{self, Services};
use crate::metrics;

/// The Kubernetes version that clients see: kubectl picks its behaviour by it.
const KUBERNETES_VERSION: &str = "v1.34.4";

/// Namespaces that exist from the first start.
const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "karmada-system", "karmada-cluster"];

/// Over how long agents are asked to leave when the hub stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Which store keeps the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// One file in the data directory.
    Sqlite,
    /// Nothing outlives the process.
    Memory,
}

/// How a hub runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where CA, keys and state live.
    pub data_dir: PathBuf,
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Hosts or URLs under which clients and agents reach the hub, the first one first.
    pub advertise: Vec<String>,
    /// The store.
    pub store: StoreKind,
    /// Whether the control loops run; without them this is an API server alone.
    pub controllers: bool,
}

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
    store: Arc<dyn Store>,
    closing: CancellationToken,
    stop: CancellationToken,
    stop_cache: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
    following: tokio::task::JoinHandle<()>,
    gateway: Arc<Gateway>,
}

impl Hub {
    /// Starts a hub. When this returns, it answers.
    pub async fn start(settings: &Settings, clock: Clock) -> Result<Hub> {
        let now = clock();
        let data = Arc::new(DataDir::open(&settings.data_dir, now)?);
        let store = open_store(settings.store, &data).await?;
        let cache = Cache::load(&*store).await.context("reading the store")?;
        let authorizer = Authorizer::new(cache.clone());
        let gates: Vec<Box<dyn Admission>> = vec![
            Box::new(NamespaceLifecycle),
            Box::new(PodDefaults),
            Box::new(DeletionProtection),
            Box::new(LimitRanger::new(&cache)),
            Box::new(Escalation::new(authorizer.clone())),
            Box::new(CertificateRequests::new(authorizer.clone())),
            Box::new(KarmadaPolicies),
        ];
        let ids = Arc::new(uuid::Uuid::new_v4);
        let registry = Arc::new(Registry::new(
            store.clone(),
            cache.clone(),
            kinds::shipped(),
            gates,
            clock.clone(),
            ids,
        ));
        let (stop, failed, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let stop_cache = CancellationToken::new();
        let following = tokio::spawn(follow_store(cache, store.clone(), stop_cache.clone(), failed.clone()));
        let keeper = Keeper::new(registry.clone());
        keeper.start();
        make_namespaces(&registry).await?;
        reconcile(&registry).await.context("laying down the default roles")?;

        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("listening on {}", settings.listen))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let url = url(&settings.advertise, address);
        data.write_kubeconfig(&url, now)?;
        cluster_info::publish(&registry, &url, data.authority.certificate_pem()).await?;
        let tls = tls(&data, &settings.advertise, now)?;
        tasks.spawn(keeper.run(stop.clone()));
        let access = Arc::new(Access::new(&registry, authorizer, Arc::new(HubTokens(data.clone()))));
        let api = api_server(&registry, access, &url, &stop);
        let control = Control::new(&registry, &clock, &tasks, &stop);
        if settings.controllers {
            control.start(&data).await.context("starting the controllers")?;
        }
        let endpoint = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let registrar: Arc<dyn Registrar> =
            Arc::new(HubRegistrar::new(registry.clone(), data.clone(), vec![endpoint]));
        let told = Arc::new(Told::default());
        let gateway = gateway(&registry, registrar.clone(), &store, &control, told.clone());
        control.repair(Repair::new(registry.clone(), told, gateway.clone()));
        let closing = CancellationToken::new();
        let grpc = Some(BoxCloneSyncService::new(gateway.service()));
        let services = Services { api, grpc, registrar };
        tasks.spawn(listener::serve(listener, tls, services, closing.clone(), stop.clone()));
        Ok(Hub {
            address,
            url,
            data,
            registry,
            store,
            closing,
            stop,
            stop_cache,
            following,
            failed,
            tasks,
            gateway,
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
    }
}

async fn open_store(kind: StoreKind, data: &DataDir) -> Result<Arc<dyn Store>> {
    Ok(match kind {
        StoreKind::Memory => Arc::new(MemoryStore::new()),
        StoreKind::Sqlite => {
            let file = data.store_file();
            let opened = SqliteStore::open(&SqliteOptions::new(&file));
            Arc::new(opened.with_context(|| format!("opening the store {}", file.display()))?)
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

async fn make_namespaces(registry: &Registry) -> Result<()> {
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource("", "v1", "namespaces") else {
        bail!("the catalogue lacks namespaces")
    };
    for name in NAMESPACES {
        if registry.get(definition, "", name).is_ok() {
            continue;
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let user = User { name: "system:karmada:hub".to_owned(), standing: Standing::Hub, ..User::default() };
        let options =
            WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() };
        registry
            .create(definition, "", object, &options)
            .await
            .with_context(|| format!("making namespace {name}"))?;
    }
    Ok(())
}

fn url(advertise: &[String], address: SocketAddr) -> String {
    match advertise.first() {
        Some(given) if given.contains("://") => given.clone(),
        Some(given) if given.contains(':') => format!("https://{given}"),
        Some(given) => format!("https://{given}:{}", address.port()),
        None if address.ip().is_unspecified() => format!("https://127.0.0.1:{}", address.port()),
        None => format!("https://{address}"),
    }
}

fn tls(data: &DataDir, advertise: &[String], now: jiff::Timestamp) -> Result<tokio_rustls::TlsAcceptor> {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let names = karmada_certs::server_names(hostname.as_deref().map(str::trim), advertise);
    let certificate = data.server_certificate(&names, now)?;
    let config = karmada_certs::server_config(&certificate, &[data.authority.certificate().clone()])?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

fn gateway(
    registry: &Arc<Registry>,
    registrar: Arc<dyn Registrar>,
    store: &Arc<dyn Store>,
    control: &Control,
    told: Arc<Told>,
) -> Arc<Gateway> {
    let reports = Reports::new(
        registry.clone(),
        control.links.clone(),
        control.recorder.clone(),
        control.clusters.clone(),
        told,
    );
    let ports = Ports {
        works: Arc::new(CachedWorks::new(registry.clone())),
        statuses: Arc::new(reports),
        registrar,
        sessions: Arc::new(StoredSessions(store.clone())),
    };
    Gateway::new(ports, Options::default())
}

fn api_server(
    registry: &Arc<Registry>,
    access: Arc<Access>,
    url: &str,
    stop: &CancellationToken,
) -> Arc<ApiServer> {
    let options = ServerOptions {
        git_version: KUBERNETES_VERSION.to_owned(),
        git_commit: env!("CARGO_PKG_VERSION").to_owned(),
        advertise: url.trim_start_matches("https://").to_owned(),
    };
    let shown = registry.clone();
    let server = ApiServer::new(
        registry.clone(),
        access,
        options,
        Arc::new(|| Ok(())),
        Arc::new(move || metrics::page(&shown)),
        stop.clone(),
    );
    Arc::new(server)
}
