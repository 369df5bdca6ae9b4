//! The API server of a hub: what it is put together of, and what it shows of the hub in `/metrics` and `/readyz`.
//!
//! In: the registry, who may do what, the parts beside it. Out: the server.

use std::sync::Arc;

use karmada_access::Access;
use karmada_apiserver::aggregation::Aggregator;
use karmada_apiserver::audit::Audit;
use karmada_apiserver::connect::Connectors;
use karmada_apiserver::fairness::Fairness;
use karmada_apiserver::http::{ApiServer, STORE_CHECK, ServerOptions};
use karmada_apiserver::request_metrics::RequestMetrics;
use karmada_controllers::karmada_metrics::Metrics;
use karmada_controllers::workqueues::Workqueues;
use karmada_registry::Registry;
use karmada_schema::KUBERNETES_VERSION;
use tokio_util::sync::CancellationToken;

use crate::at_rest::Encryption;
use crate::fleet::{ClusterProxy, Overview};
use crate::hub_certificates::Renewal;
use crate::metrics;

/// What the API server shows of the hub, in `/metrics` and `/readyz`.
pub(super) struct Shown {
    pub overview: Arc<Overview>,
    pub workqueues: Arc<Workqueues>,
    pub controllers: Arc<Metrics>,
    pub renewal: Arc<Renewal>,
    pub started: jiff::Timestamp,
    pub encryption: Option<Arc<Encryption>>,
}

/// What the API server is put together of, beside what it stores.
pub(super) struct Beside {
    pub audit: Option<Arc<Audit>>,
    pub seats: Option<Arc<Fairness>>,
    pub aggregator: Arc<Aggregator>,
    pub proxy: ClusterProxy,
}

/// The server.
pub(super) fn api_server(
    registry: &Arc<Registry>,
    access: Access,
    url: &str,
    stop: &CancellationToken,
    Beside { audit, seats, aggregator, proxy }: Beside,
    Shown { overview, workqueues, controllers, renewal, started, encryption }: Shown,
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
            controllers.page(),
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
    let server = server.connecting(Connectors::default().with(proxies, Arc::new(proxy)));
    Arc::new(server.audited(audit).fair(seats).aggregating(Some(aggregator)).counting(requests))
}
