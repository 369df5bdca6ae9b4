//! APIService (`apiregistration.k8s.io/v1`): groups that another server answers, as kube-aggregator hands them over.
//!
//! In: APIServices, Services and their endpoints from the cache; requests below `/apis/GROUP/VERSION` of a group that is handed
//! over. Out: the other server's answers, watches and upgraded connections among them, asked with the front proxy's certificate
//! and the user in headers; discovery and OpenAPI with those groups in them; APIServices of the groups served here, made and kept
//! by themselves, and the condition `Available` of all.

mod automatic;
mod call;
mod check;
mod connection;
pub mod controller;
mod locate;
mod merge;
mod openapi;
mod proxy;
mod remote_discovery;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use bytes::Bytes;
pub use call::AggregatedVersion;
pub use connection::ClientIdentity;
use karmada_definitions::ca_bundle::Trust;
use karmada_definitions::resource::StorageId;
use karmada_kinds::api_service::GROUP;
use karmada_registry::cache::{Cache, ResourceCache};
pub(crate) use merge::Groups;
pub(crate) use openapi::More;
use parking_lot::RwLock;
use serde_json::Value;

/// Bytes that are kept of what all other servers say of themselves.
const MOST_DESCRIBED: usize = 4 << 20;

/// Group and version.
type GroupVersion = (Arc<str>, Arc<str>);

/// A group version that another server answers.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The APIService's name.
    pub name: String,
    pub group: Arc<str>,
    pub version: Arc<str>,
    service: ServiceRef,
    trust: Trust,
    insecure: bool,
    available: bool,
    group_priority: i64,
    version_priority: i64,
}

/// Which Service, at which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceRef {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// What the other server says of a group version.
#[derive(Debug, Default)]
struct Described {
    /// Its entry of aggregated discovery, as JSON.
    discovery: Bytes,
    /// The hash of its OpenAPI v3 document, where it has one.
    openapi_hash: Option<String>,
}

#[derive(Default)]
struct Registered {
    revision: u64,
    handed: BTreeMap<GroupVersion, Arc<Handed>>,
}

/// Hands groups over.
pub struct Aggregator {
    cache: Arc<Cache>,
    resource_cache: Arc<ResourceCache>,
    identity: ArcSwap<ClientIdentity>,
    now: ArcSwap<Registered>,
    described: RwLock<BTreeMap<GroupVersion, Arc<Described>>>,
    /// What their OpenAPI v2 documents added when they were last asked.
    documents: openapi::Documents,
}

impl Handed {
    /// Reads an APIService; `None` for one that is served here.
    fn read(object: &Value) -> Option<Handed> {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = spec["service"].as_object()?;
        let port = spec["service"]["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let field = |name: &str| service.get(name).map(text).unwrap_or_default();
        let bundle = base64::engine::general_purpose::STANDARD.decode(text(&spec["caBundle"]));
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let available =
            conditions.into_iter().any(|one| one["type"] == "Available" && one["status"] == "True");
        Some(Handed {
            name: text(&object["metadata"]["name"]),
            group: text(&spec["group"]).into(),
            version: text(&spec["version"]).into(),
            service: ServiceRef { namespace: field("namespace"), name: field("name"), port },
            trust: Trust::of(bundle.unwrap_or_default()),
            insecure: spec["insecureSkipTLSVerify"] == true,
            available,
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or(0),
            version_priority: spec["versionPriority"].as_i64().unwrap_or(0),
        })
    }

    /// The name that the other server's certificate must bear.
    fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service.name, self.service.namespace)
    }

    fn place(&self) -> GroupVersion {
        (self.group.clone(), self.version.clone())
    }
}

impl Aggregator {
    /// Over the APIServices in `cache`, asking as `identity`.
    pub fn new(cache: &Arc<Cache>, identity: ClientIdentity) -> Arc<Aggregator> {
        let resource_cache = cache.of_resource(&StorageId(format!("{GROUP}/apiservices").into()));
        Arc::new(Aggregator {
            cache: cache.clone(),
            resource_cache,
            identity: ArcSwap::from_pointee(identity),
            now: ArcSwap::default(),
            described: RwLock::default(),
            documents: openapi::Documents::default(),
        })
    }

    /// Asks as `identity` from now on.
    pub fn identify(&self, identity: ClientIdentity) {
        self.identity.store(Arc::new(identity));
    }

    /// What is handed over now.
    fn registered(&self) -> Arc<Registered> {
        let now = self.now.load_full();
        let revision = self.resource_cache.revision();
        if now.revision == revision {
            return now;
        }
        let items = self.resource_cache.snapshot("").items;
        let handed = items.iter().filter_map(|object| Handed::read(&object.value()));
        let handed = handed.map(|handed| (handed.place(), Arc::new(handed))).collect();
        let registered = Arc::new(Registered { revision, handed });
        self.now.store(registered.clone());
        registered
    }

    /// Who answers a path, where that is another server: what is below `/apis/GROUP/VERSION`, and that version's OpenAPI.
    pub(crate) fn answers(&self, path: &str) -> Option<Arc<Handed>> {
        let registered = self.registered();
        if registered.handed.is_empty() {
            return None;
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let first = parts.next()?;
        if first == "openapi" && parts.next()? != "v3" {
            return None;
        }
        if first == "openapi" && parts.next()? != "apis" || !matches!(first, "apis" | "openapi") {
            return None;
        }
        let (group, version) = (parts.next()?, parts.next()?);
        registered.handed.get(&(Arc::from(group), Arc::from(version))).cloned()
    }

    /// Keeps what a server said of itself, where there is room for it.
    fn describe(&self, place: GroupVersion, described: Described) {
        let mut all = self.described.write();
        all.remove(&place);
        let kept: usize = all.values().map(|one| one.discovery.len()).sum();
        if kept + described.discovery.len() > MOST_DESCRIBED {
            tracing::warn!(group = %place.0, version = %place.1, "no room is left for what its server says of itself");
            return;
        }
        all.insert(place, Arc::new(described));
    }
}

impl Described {
    /// Its entry of aggregated discovery; `null` where it has none.
    fn entry(&self) -> Value {
        serde_json::from_slice(&self.discovery).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
