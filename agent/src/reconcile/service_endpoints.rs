//! Where Services of the member are reached, for who asks it from other clusters: their EndpointSlices, as they come and go.
//!
//! In: the Services that the hub asks for (a Work that holds a MultiClusterService and is held back is such a question), and the member's
//! EndpointSlices of these. Out: of each Service what is told as the status of its Work, once the member was listed, and from then on when it
//! changes. One watch serves all, and there is none where nothing is asked. What came from other clusters is not told on, nor is what is of no use
//! there: Pods, nodes, zones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karmada_api::multi_cluster_service::{MemberSlice, ServiceEndpoints};
use karmada_api::object;
use karmada_api::strings::{annotations, labels};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::failure_log::FailureLog;
use crate::member::{Gvk, Member, MemberError, MemberEvent, Watch, namespaced_watch};
use crate::retry::Waits;

/// A Service: its namespace and name.
pub(super) type Service = (String, String);

/// What is told of a Service.
pub(super) type ReportedService = (Service, ServiceEndpoints);

/// Changes close together are told once.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Services that are named in the watch; where they are more, the EndpointSlices of all are listened to.
const NAMED: usize = 100;
/// Services that are looked after.
const SERVICES: usize = 1000;
/// Bytes of what is told of one Service.
const BYTES: usize = 64 * 1024;

/// The Service that a Work's manifests ask for.
pub(super) fn asked_for(manifests: &[Value]) -> Option<Service> {
    let is_question = |manifest: &&Value| {
        let gvk = Gvk::of(manifest);
        (gvk.group.as_str(), gvk.kind.as_str()) == ("networking.karmada.io", "MultiClusterService")
    };
    let asks = manifests.iter().find(is_question)?;
    Some((object::namespace(asks).to_owned(), object::name(asks).to_owned()))
}

/// Which Works ask for which Services, and what is known of these.
#[derive(Default)]
pub(super) struct Asked {
    by_key: BTreeMap<String, Service>,
    known: BTreeMap<Service, ServiceEndpoints>,
    services: watch::Sender<BTreeSet<Service>>,
}

impl Asked {
    /// The Work asks for this Service from now on, or for none. Out: what is known of it.
    pub fn set(&mut self, key: &str, service: Option<Service>) -> Option<&ServiceEndpoints> {
        let before = match service.clone() {
            Some(service) => self.by_key.insert(key.to_owned(), service),
            None => self.by_key.remove(key),
        };
        if before != service {
            let all: BTreeSet<Service> = self.by_key.values().take(SERVICES).cloned().collect();
            self.known.retain(|service, _| all.contains(service));
            self.services.send_if_modified(|services| {
                let differs = *services != all;
                *services = all;
                differs
            });
        }
        self.known.get(&service?)
    }

    /// Who is to be told of it.
    pub fn came(&mut self, (service, endpoints): ReportedService) -> Vec<String> {
        let asking = self.by_key.iter().filter(|(_, asked)| **asked == service);
        let asking: Vec<String> = asking.map(|(key, _)| key.clone()).collect();
        if !asking.is_empty() {
            self.known.insert(service, endpoints);
        }
        asking
    }

    /// The Service that a Work asks for.
    pub fn service(&self, key: &str) -> Option<&Service> {
        self.by_key.get(key)
    }

    /// What is known of the Service that a Work asks for.
    pub fn known(&self, key: &str) -> Option<&ServiceEndpoints> {
        self.known.get(self.by_key.get(key)?)
    }

    /// The Services that are asked for, as they change.
    pub fn services(&self) -> watch::Receiver<BTreeSet<Service>> {
        self.services.subscribe()
    }
}

/// Watches the EndpointSlices of the Services that are asked for, for as long as anybody listens.
pub(super) async fn run(
    member: Arc<dyn Member>,
    namespaces: Arc<[String]>,
    failure_log: Arc<FailureLog>,
    mut services: watch::Receiver<BTreeSet<Service>>,
    told: mpsc::Sender<ReportedService>,
) {
    let mut waits = Waits::default();
    loop {
        let wanted = services.borrow_and_update().clone();
        if wanted.is_empty() {
            if services.changed().await.is_err() {
                return;
            }
            continue;
        }
        let error = tokio::select! {
            changed = services.changed() => {
                if changed.is_err() {
                    return;
                }
                continue;
            }
            ended = follow(&*member, &namespaces, wanted, &told, &mut waits) => ended,
        };
        if told.is_closed() {
            return;
        }
        if let Some(untold) = error.as_ref().and_then(|error| failure_log.met(&error.to_string())) {
            tracing::warn!(error = ?error, untold, "watching the member's EndpointSlices");
        }
        let pause = waits.failed("").min(Duration::from_secs(30));
        tokio::select! {
            _ = tokio::time::sleep(pause) => {}
            _ = services.changed() => {}
        }
    }
}

/// One watch, until it ends.
async fn follow(
    member: &dyn Member,
    namespaces: &[String],
    wanted: BTreeSet<Service>,
    told: &mpsc::Sender<ReportedService>,
    waits: &mut Waits,
) -> Option<MemberError> {
    let watch = Watch {
        gvk: Gvk::new("discovery.k8s.io/v1", "EndpointSlice"),
        namespace: String::new(),
        labels: selector(&wanted),
        fields: String::new(),
    };
    let mut stream = namespaced_watch::watch(member, watch, namespaces);
    let mut slices = Slices::of(wanted);
    let mut due: Option<Instant> = None;
    loop {
        let settled = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = stream.next() => match event {
                Some(Ok(event)) => {
                    if event == MemberEvent::Listed {
                        waits.clear("");
                    }
                    if slices.take(event) {
                        due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
                    }
                }
                Some(Err(error)) => return Some(error),
                None => return None,
            },
            () = settled => {
                due = None;
                for news in slices.news() {
                    if told.send(news).await.is_err() {
                        return None;
                    }
                }
            }
        }
    }
}

/// The EndpointSlices of these Services, whatever their namespaces.
fn selector(services: &BTreeSet<Service>) -> String {
    let names: BTreeSet<&str> = services.iter().map(|(_, name)| name.as_str()).collect();
    if names.len() > NAMED {
        return labels::SLICE_SERVICE.to_owned();
    }
    let names: Vec<&str> = names.into_iter().collect();
    format!("{} in ({})", labels::SLICE_SERVICE, names.join(","))
}

/// What a watch told of some Services.
struct Slices {
    of: BTreeMap<Service, BTreeMap<String, MemberSlice>>,
    /// What there is, while a list is being told.
    listing: Option<BTreeSet<(String, String)>>,
    listed: bool,
    /// Whose news were not told yet.
    changed: BTreeSet<Service>,
}

impl Slices {
    fn of(services: BTreeSet<Service>) -> Self {
        let of = services.into_iter().map(|service| (service, BTreeMap::new())).collect();
        Self { of, listing: None, listed: false, changed: BTreeSet::new() }
    }

    /// Takes an event. True where there may be news to tell.
    fn take(&mut self, event: MemberEvent) -> bool {
        match event {
            MemberEvent::Listing => self.listing = Some(BTreeSet::new()),
            MemberEvent::Object(slice) => {
                let at = (object::namespace(&slice).to_owned(), object::name(&slice).to_owned());
                if let Some(listing) = &mut self.listing {
                    listing.insert(at.clone());
                }
                self.put(&at, &slice);
            }
            MemberEvent::Gone(id) => self.remove(&id.namespace, &id.name),
            MemberEvent::Listed => self.listed(),
        }
        self.listed && !self.changed.is_empty()
    }

    fn listed(&mut self) {
        if let Some(listing) = self.listing.take() {
            for (service, slices) in &mut self.of {
                let before = slices.len();
                slices.retain(|name, _| listing.contains(&(service.0.clone(), name.clone())));
                if slices.len() != before {
                    self.changed.insert(service.clone());
                }
            }
        }
        if !std::mem::replace(&mut self.listed, true) {
            // That there are none is told as well.
            self.changed.extend(self.of.keys().cloned());
        }
    }

    fn put(&mut self, (namespace, name): &(String, String), slice: &Value) {
        let of = object::label(slice, labels::SLICE_SERVICE).unwrap_or_default();
        let service = (namespace.clone(), of.to_owned());
        let told = told_of(slice).filter(|_| self.of.contains_key(&service));
        let is_there = self
            .of
            .get(&service)
            .and_then(|slices| slices.get(name))
            .is_some_and(|had| Some(had) == told.as_ref());
        if is_there {
            return;
        }
        // It may have been another Service's.
        self.remove(namespace, name);
        if let (Some(told), Some(slices)) = (told, self.of.get_mut(&service)) {
            slices.insert(name.clone(), told);
            self.changed.insert(service);
        }
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let inside = self.of.iter_mut().filter(|(service, _)| service.0 == namespace);
        for (service, slices) in inside {
            if slices.remove(name).is_some() {
                self.changed.insert(service.clone());
            }
        }
    }

    /// What is to be told now.
    fn news(&mut self) -> Vec<ReportedService> {
        let changed = std::mem::take(&mut self.changed);
        let told = |service: Service| {
            let slices = self.of.get(&service)?;
            Some((service, bounded(slices.values())))
        };
        changed.into_iter().filter_map(told).collect()
    }
}

/// What is told of an EndpointSlice; nothing of one that came from elsewhere, by the hub or by who mirrors it. That it has our label says nothing:
/// Kubernetes gives the slices that it makes the labels of their Service, which the hub brought.
fn told_of(slice: &Value) -> Option<MemberSlice> {
    let by = object::label(slice, labels::SLICE_MANAGED_BY);
    let is_brought = object::annotation(slice, annotations::PROVISION_CLUSTER).is_some()
        || [Some(labels::SLICE_DISPATCHED), Some(labels::SLICE_IMPORTED)].contains(&by);
    if is_brought || object::deleting(slice) {
        return None;
    }
    let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    Some(MemberSlice {
        name: object::name(slice).to_owned(),
        address_type: slice["addressType"].as_str().unwrap_or_default().to_owned(),
        endpoints: list("endpoints").iter().map(endpoint).collect(),
        ports: list("ports"),
    })
}

/// Of an endpoint, what is of use in another cluster.
fn endpoint(endpoint: &Value) -> Value {
    let fields = ["addresses", "conditions", "hostname"];
    let kept = fields.into_iter().filter_map(|field| Some((field.to_owned(), endpoint.get(field)?.clone())));
    kept.collect::<Map<String, Value>>().into()
}

/// As many endpoints as there is room for, those that serve first.
fn bounded<'a>(slices: impl Iterator<Item = &'a MemberSlice>) -> ServiceEndpoints {
    let mut told = ServiceEndpoints::default();
    let mut bytes = 0;
    for slice in slices {
        let mut kept = MemberSlice { endpoints: Vec::new(), ..slice.clone() };
        bytes += size(&kept);
        if bytes > BYTES {
            told.unlisted += slice.endpoints.len();
            continue;
        }
        let serves = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
        let (ready, others): (Vec<&Value>, Vec<&Value>) = slice.endpoints.iter().partition(serves);
        for endpoint in ready.into_iter().chain(others) {
            let more = size(endpoint);
            if bytes + more > BYTES {
                told.unlisted += 1;
            } else {
                bytes += more;
                kept.endpoints.push(endpoint.clone());
            }
        }
        told.endpoint_slices.push(kept);
    }
    told
}

fn size(part: &impl serde::Serialize) -> usize {
    serde_json::to_vec(part).map_or(0, |bytes| bytes.len() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::member::ObjectId;

    fn service(name: &str) -> Service {
        ("shop".to_owned(), name.to_owned())
    }

    fn slice(name: &str, of: &str, address: &str) -> Value {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": of, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4", "ports": [{"port": 80}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}, "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "p"}, "zone": "a"}]})
    }

    fn addresses(told: &[ReportedService]) -> Vec<(String, Vec<String>)> {
        let of = |(service, endpoints): &ReportedService| {
            let all = endpoints.endpoint_slices.iter().flat_map(|slice| &slice.endpoints);
            let all = all.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned());
            (service.1.clone(), all.collect())
        };
        told.iter().map(of).collect()
    }

    fn is(name: &str, all: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), all.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn a_services_endpoints_are_told_once_it_was_listed_and_then_as_they_change() {
        let mut slices = Slices::of([service("web"), service("empty")].into());
        assert!(!slices.take(MemberEvent::Listing));
        assert!(!slices.take(MemberEvent::Object(Box::new(slice("web-1", "web", "10.0.0.1")))));
        assert!(!slices.take(MemberEvent::Object(Box::new(slice("other-1", "other", "10.0.0.9")))));
        assert!(slices.take(MemberEvent::Listed));
        let told = slices.news();
        assert_eq!(addresses(&told), [is("empty", &[]), is("web", &["10.0.0.1"])]);
        let kept = &told[1].1.endpoint_slices[0].endpoints[0];
        assert_eq!(*kept, json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}}));
        assert!(!slices.take(MemberEvent::Object(Box::new(slice("web-1", "web", "10.0.0.1")))), "no news");
        assert!(slices.take(MemberEvent::Object(Box::new(slice("web-2", "web", "10.0.0.2")))));
        assert_eq!(addresses(&slices.news()), [is("web", &["10.0.0.1", "10.0.0.2"])]);
        let gone = ObjectId::of(&slice("web-1", "web", ""));
        assert!(slices.take(MemberEvent::Gone(gone)));
        assert_eq!(addresses(&slices.news()), [is("web", &["10.0.0.2"])]);
        // Anew, without what is gone by then.
        slices.take(MemberEvent::Listing);
        assert!(slices.take(MemberEvent::Listed));
        assert_eq!(addresses(&slices.news()), [is("web", &[])]);
    }

    #[test]
    fn what_came_from_other_clusters_is_not_told_on() {
        for by in [labels::SLICE_DISPATCHED, labels::SLICE_IMPORTED] {
            let mut brought = slice("m2-web-1", "web", "10.9.0.1");
            object::set_label(&mut brought, labels::SLICE_MANAGED_BY, by);
            assert_eq!(told_of(&brought), None, "{by}");
        }
        let mut brought = slice("m2-web-1", "web", "10.9.0.1");
        object::set_annotation(&mut brought, annotations::PROVISION_CLUSTER, "m2");
        assert_eq!(told_of(&brought), None);
    }

    /// kube-controller-manager gives its slices the labels of their Service, ours among them.
    #[test]
    fn a_slice_that_has_the_labels_of_a_service_that_the_hub_brought_is_told() {
        let mut native = slice("web-1", "web", "10.0.0.1");
        object::set_label(&mut native, labels::MANAGED, labels::MANAGED_VALUE);
        object::set_label(&mut native, labels::WORK_ID, "of the Service's Work");
        assert!(told_of(&native).is_some());
    }

    #[test]
    fn what_is_told_is_bounded_and_says_so() {
        let many = |at: usize| {
            let of = |n: usize| json!({"addresses": [format!("10.{at}.{}.{}", n / 250, n % 250)], "conditions": {"ready": n % 2 == 1}});
            MemberSlice {
                name: format!("web-{at}"),
                address_type: "IPv4".into(),
                endpoints: (0..1000).map(of).collect(),
                ports: Vec::new(),
            }
        };
        let all: Vec<MemberSlice> = (0..3).map(many).collect();
        let told = bounded(all.iter());
        let listed: usize = told.endpoint_slices.iter().map(|slice| slice.endpoints.len()).sum();
        assert_eq!(listed + told.unlisted, 3000);
        assert!(listed > 500 && size(&told) < BYTES + 1024, "{listed}");
        assert_eq!(told.endpoint_slices[0].endpoints[0]["conditions"]["ready"], true);
        assert_eq!(bounded(all[..0].iter()), ServiceEndpoints::default());
    }

    #[test]
    fn a_watch_names_few_services_and_listens_to_all_where_they_are_many() {
        let some = [service("b"), service("a"), ("other".to_owned(), "a".to_owned())];
        assert_eq!(selector(&some.into()), "kubernetes.io/service-name in (a,b)");
        let many: BTreeSet<Service> = (0..=NAMED).map(|at| service(&format!("s{at}"))).collect();
        assert_eq!(selector(&many), "kubernetes.io/service-name");
    }

    #[test]
    fn who_asks_is_told_what_is_known_already_and_nobody_is_told_who_asks_no_more() {
        let mut asked = Asked::default();
        let mut services = asked.services();
        assert_eq!(asked.set("one", Some(service("web"))), None);
        assert!(services.has_changed().unwrap());
        services.mark_unchanged();
        let endpoints = ServiceEndpoints { unlisted: 3, ..ServiceEndpoints::default() };
        assert_eq!(asked.came((service("web"), endpoints.clone())), ["one"]);
        assert_eq!(asked.set("two", Some(service("web"))), Some(&endpoints));
        assert!(!services.has_changed().unwrap(), "it is listened to already");
        asked.set("one", None);
        asked.set("two", None);
        assert!(services.borrow_and_update().is_empty());
        assert!(asked.came((service("web"), endpoints)).is_empty());
        assert_eq!(asked.known("two"), None);
    }
}
