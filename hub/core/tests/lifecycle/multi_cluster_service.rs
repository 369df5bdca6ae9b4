//! Services over clusters: the recorded cases, and what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::multi_cluster_service::{MemberSlice, MultiClusterService, ServiceEndpoints};
use karmada_api::object;
use karmada_api::work::Work;
use karmada_core::multi_cluster_service::dispatch::{
    self, Dispatched, Outline, Plan, ServiceClusters, WorkHead,
};
use karmada_core::multi_cluster_service::{self as service, Sides, told};
use karmada_core::object_size;
use karmada_core::service_export::{self, Importing, There};
use karmada_core::service_import::{self, Derived};
use serde_json::{Value, json};

use crate::recorded::{self, Differences, Verdict, compare};
use crate::{time, without_nulls};

const NODES: &str =
    "a node or a Pod of one cluster is none of another: what is there under its name would be taken for it";
const FAMILY: &str =
    "an API server refuses an IPv4 address in an IPv6 EndpointSlice: such an endpoint is left out";
const UNMARKED: &str = "a Service that no ServiceImport made or took over is a person's, and stays";

const DIFFERENCES: Differences = &[
    (1, NODES),
    (4, NODES),
    (6, NODES),
    (9, FAMILY),
    (12, NODES),
    (13, FAMILY),
    (14, FAMILY),
    (15, FAMILY),
    (17, NODES),
    (19, FAMILY),
    (23, FAMILY),
    (25, FAMILY),
    (26, NODES),
    (28, FAMILY),
    (29, NODES),
    (30, NODES),
    (31, FAMILY),
    (51, UNMARKED),
    (53, UNMARKED),
    (54, UNMARKED),
];

fn read(value: &Value) -> MultiClusterService {
    serde_json::from_value(value.clone()).unwrap()
}

/// A cluster as it is recorded.
fn cluster(case: &Value) -> Arc<Cluster> {
    let serves = json!([{"groupVersion": "discovery.k8s.io/v1", "resources": [{"name": "endpointslices", "kind": "EndpointSlice"}]}]);
    let conditions = json!([{"type": "Ready", "status": case["ready"], "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let enablements = if case["endpointSliceAPI"] == true { serves } else { json!([]) };
    let value = json!({"metadata": {"name": case["name"]}, "spec": {"syncMode": "Pull"},
        "status": {"conditions": if case["ready"] == "" { json!([]) } else { conditions }, "apiEnablements": enablements}});
    Arc::new(serde_json::from_value(value).unwrap())
}

fn clusters(case: &Value) -> Vec<Arc<Cluster>> {
    case["clusters"].as_array().unwrap().iter().map(cluster).collect()
}

/// A Work as it was recorded: typed objects had lost their kind, and the versions of one API write an absent map as null.
fn work(value: &Value) -> Value {
    let mut value = without_nulls(value.clone());
    let manifest = &mut value["spec"]["workload"]["manifests"][0];
    if manifest["kind"].is_null() {
        manifest["apiVersion"] = json!("networking.karmada.io/v1alpha1");
        manifest["kind"] = json!("MultiClusterService");
    }
    value
}

fn written(work: &Work) -> Value {
    let mut value = serde_json::to_value(work).unwrap();
    value.as_object_mut().unwrap().retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
    without_nulls(value)
}

fn works<'a>(all: impl IntoIterator<Item = &'a Work>) -> Value {
    let mut all: Vec<Value> = all.into_iter().map(written).collect();
    all.sort_by_key(|work| work["metadata"]["namespace"].to_string());
    json!(all)
}

fn marks(object: &Value) -> Value {
    let of = |field: &str| match &object["metadata"][field] {
        Value::Object(map) if map.is_empty() => Value::Null,
        map => map.clone(),
    };
    json!({"labels": of("labels"), "annotations": of("annotations")})
}

fn placed(case: &Value) -> Verdict {
    let (mcs, all) = (read(&case["multiClusterService"]), clusters(case));
    let is_exposed = service::is_exposed(&mcs);
    let asked = service::questions(&mcs, &all, []);
    let template = case.get("service").map(|found| without_nulls(found.clone()));
    let before: Option<ResourceBinding> =
        case.get("bindingBefore").map(|found| serde_json::from_value(found.clone()).unwrap());
    let (after, binding) = match &template {
        None => (None, None),
        Some(found) if is_exposed => {
            let claimed = service::claimed(found, &mcs).unwrap_or_else(|| found.clone());
            let both = Sides::of(&mcs, &all).both();
            let binding = service::binding(&mcs, &claimed, &both, before.as_ref()).or(before);
            (Some(claimed), binding.map(|binding| serde_json::to_value(binding).unwrap()))
        }
        Some(found) => {
            let released = service::released(found, &mcs).unwrap_or_else(|| found.clone());
            let binding = before.map(|binding| serde_json::to_value(binding).unwrap());
            (Some(released), binding.map(|binding| service::released(&binding, &mcs).unwrap_or(binding)))
        }
    };
    let came = match &after {
        None => Err(service::not_found(mcs.name())),
        Some(_) => Ok(()),
    };
    let now = time(&json!("2026-05-01T12:00:00Z"));
    let conditions = service::conditions(&mcs, came.as_ref().copied().map_err(String::as_str), now).unwrap();
    let told = json!([{"type": conditions[0].type_, "status": conditions[0].status, "reason": conditions[0].reason, "message": conditions[0].message}]);
    let bare = |binding: Value| {
        let mut binding = without_nulls(binding);
        let all = binding.as_object_mut().unwrap();
        all.retain(|field, _| ["metadata", "spec"].contains(&field.as_str()));
        for field in ["labels", "annotations"] {
            if binding["metadata"][field].as_object().is_some_and(serde_json::Map::is_empty) {
                binding["metadata"].as_object_mut().unwrap().remove(field);
            }
        }
        binding
    };
    let wanted_works: Vec<Value> = case["works"].as_array().into_iter().flatten().map(work).collect();
    let wanted = json!({"works": wanted_works, "bindings": without_nulls(case["bindings"].clone()), "conditions": case["conditions"],
        "after": case.get("serviceAfter").map(|after| json!({"labels": after["labels"], "annotations": after["annotations"]}))});
    let asking: Vec<Work> = asked.ask.iter().map(|cluster| service::question(&mcs, cluster)).collect();
    let got = json!({"works": works(&asking), "bindings": binding.into_iter().map(bare).collect::<Vec<_>>(), "conditions": told,
        "after": after.as_ref().map(marks)});
    compare(&wanted, &got)
}

fn dispatched(case: &Value) -> Verdict {
    let (mcs, all) = (read(&case["multiClusterService"]), clusters(case));
    let source = &case["work"];
    let provider = source["metadata"]["namespace"].as_str().unwrap().trim_start_matches("karmada-es-");
    let slice = &source["spec"]["workload"]["manifests"][0];
    let endpoints = ServiceEndpoints { endpoint_slices: vec![member_slice(slice)], unlisted: 0 };
    let (put, _) = plan(&mcs, &all, &[(provider.to_owned(), endpoints)].into(), &BTreeSet::new());
    // The name of the provider's Work was given; here the name of the slice makes one.
    let name = source["metadata"]["name"].as_str().unwrap();
    let renamed = put.iter().map(|work| karmada_core::work_name_taken::renamed(work, name));
    let renamed: Vec<Work> = renamed.collect();
    let wanted: Vec<Value> = case["works"].as_array().into_iter().flatten().map(work).collect();
    compare(&json!(wanted), &works(&renamed))
}

/// Which slice a Work carries, and between whom.
fn carried(work: &Work) -> Option<Dispatched> {
    let head: WorkHead = serde_json::from_value(serde_json::to_value(work).unwrap()).unwrap();
    Dispatched::of(head)
}

/// The Works that are to be, and those that go.
fn plan(
    mcs: &MultiClusterService,
    all: &[Arc<Cluster>],
    told: &BTreeMap<String, ServiceEndpoints>,
    held: &BTreeSet<Dispatched>,
) -> (Vec<Work>, BTreeSet<Dispatched>) {
    let crossing = ServiceClusters::of(mcs, all);
    let outlines: BTreeMap<String, Outline> =
        told.iter().map(|(provider, told)| (provider.clone(), crossing.outline(provider, told))).collect();
    let held = held.iter().map(|one| (one.clone(), 1)).collect();
    let Plan { give, left_out, remove } = crossing.plan(&outlines, &held);
    assert!(left_out.is_empty());
    let put = give.iter().flat_map(|provider| crossing.works(provider, &told[provider], |_| true)).collect();
    (put, remove)
}

/// A member's EndpointSlice as its agent tells it.
fn member_slice(slice: &Value) -> MemberSlice {
    let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    MemberSlice {
        name: object::name(slice).to_owned(),
        address_type: slice["addressType"].as_str().unwrap().to_owned(),
        endpoints: list("endpoints"),
        ports: list("ports"),
    }
}

/// The Work that asks for the Service `d/svc`, answered by this slice alone.
fn answered(work: &Value, slice: &Value) -> Work {
    let told = ServiceEndpoints { endpoint_slices: vec![member_slice(slice)], unlisted: 0 };
    let mut work: Work = serde_json::from_value(work.clone()).unwrap();
    work.status = serde_json::from_value(json!({"manifestStatuses": [{"status": told}]})).unwrap();
    work
}

/// The one EndpointSlice that the hub makes of an answer.
fn imported(question: Work) -> Value {
    let there = There::default();
    let writes = Importing::of(("d", "svc"), &there).take(&question, |_| false, |_| None);
    let [slice] = &writes.create[..] else { panic!("{writes:?}") };
    slice.clone()
}

/// What there is of `fields` in an object, lists without elements left out.
fn only(object: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|field| Some((*field, object.get(*field)?)));
    let said = kept.filter(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty()));
    without_nulls(
        said.map(|(field, value)| (field.to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    )
}

const CONTENT: [&str; 3] = ["addressType", "endpoints", "ports"];

/// Karmada has a Work for each EndpointSlice of a cluster, and the slice in it. Here one Work for the Service asks for all, and they are in its status:
/// it stands in the same place, is found by the same labels and is held back as well, and what comes to the hub is the same.
fn reported(case: &Value) -> Verdict {
    let wanted = &case["works"][0];
    let export = json!({"apiVersion": service_import::API, "kind": "ServiceExport", "metadata": {"name": "svc", "namespace": "d"}});
    let binding: ResourceBinding = serde_json::from_value(json!({"metadata": {"name": "svc-serviceexport", "namespace": "d"},
        "spec": {"resource": {"apiVersion": service_import::API, "kind": "ServiceExport", "namespace": "d", "name": "svc"}, "clusters": [{"name": case["cluster"]}]},
        "status": {"aggregatedStatus": [{"clusterName": case["cluster"], "applied": true}]}}))
    .unwrap();
    let asked = service_export::questions(Some(&export), Some(&binding), |_| true, []);
    let question = serde_json::to_value(service_export::question(&export, &asked.ask[0])).unwrap();
    let place = |work: &Value| {
        let mut labels = work["metadata"]["labels"].clone();
        labels.as_object_mut().unwrap().remove("k");
        json!({"namespace": work["metadata"]["namespace"], "labels": labels, "held": work["spec"]["suspendDispatching"]})
    };
    let slice = imported(answered(&question, &case["slice"]));
    let manifest = &wanted["spec"]["workload"]["manifests"][0];
    let wanted = json!({"place": place(wanted), "slice": only(manifest, &CONTENT)});
    compare(&wanted, &json!({"place": place(&question), "slice": only(&slice, &CONTENT)}))
}

fn of_work(case: &Value) -> Verdict {
    let slice = imported(answered(&case["work"], &case["work"]["spec"]["workload"]["manifests"][0]));
    let fields = ["metadata", "addressType", "endpoints", "ports"];
    compare(&only(&case["slices"][0], &fields), &only(&slice, &fields))
}

fn derived(case: &Value) -> Verdict {
    let import = Some(&case["serviceImport"]).filter(|_| case["serviceImportGone"] != true);
    let before = case.get("derivedBefore").filter(|before| !before.is_null());
    let after = match service_import::derive(("d", "svc"), import, before) {
        Derived::Create(service) | Derived::Update(service) => Some(service),
        Derived::Stays => before.cloned(),
        Derived::Delete => None,
        Derived::Refused(words) => panic!("{words}"),
    };
    let told =
        import.zip(after.as_ref()).and_then(|(import, service)| service_import::with_status(import, service));
    let plain = |mut service: Value| {
        // Whose it is, is told here alone; what is not said is written by Go's types.
        service["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().unwrap().retain(|field, value| field != "targetPort" || *value != 0);
        }
        if service["status"]["loadBalancer"].as_object().is_none_or(serde_json::Map::is_empty) {
            service.as_object_mut().unwrap().remove("status");
        }
        only(&service, &["metadata", "spec", "status"])
    };
    let wanted = Some(case["derived"].clone()).filter(|wanted| !wanted.is_null());
    compare(&json!(wanted.map(plain)), &json!(told.or(after).map(plain)))
}

#[test]
fn recorded_multi_cluster_services() {
    recorded::run("mcs.json", "recorded_multi_cluster_services", DIFFERENCES, |case| {
        match case["kind"].as_str().unwrap() {
            "service" => placed(case),
            "dispatch" => dispatched(case),
            "reportSlice" => reported(case),
            "sliceFromWork" => of_work(case),
            "deriveService" => derived(case),
            kind => panic!("nothing is known of {kind}"),
        }
    });
}

fn fit(name: &str) -> Arc<Cluster> {
    cluster(&json!({"name": name, "ready": "True", "endpointSliceAPI": true}))
}

fn mcs(providers: &[&str], consumers: &[&str]) -> MultiClusterService {
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    read(
        &json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"multiclusterservice.karmada.io/permanent-id": "id"}},
        "spec": {"types": ["CrossCluster"], "providerClusters": named(providers), "consumerClusters": named(consumers)}}),
    )
}

fn told(names: &[&str]) -> ServiceEndpoints {
    let slice = |name: &&str| MemberSlice {
        name: (*name).to_owned(),
        address_type: "IPv4".to_owned(),
        ..MemberSlice::default()
    };
    ServiceEndpoints { endpoint_slices: names.iter().map(slice).collect(), unlisted: 0 }
}

fn one(consumer: &str, provider: &str, slice: &str) -> Dispatched {
    let [consumer, provider, slice] = [consumer, provider, slice].map(str::to_owned);
    Dispatched { consumer, provider, slice }
}

#[test]
fn what_a_provider_has_no_more_goes_and_what_it_does_not_tell_stays() {
    let all = [fit("p"), fit("q"), fit("c")];
    let held: BTreeSet<Dispatched> =
        [one("c", "p", "p-old"), one("c", "q", "q-old"), one("c", "x", "x-old"), one("p", "q", "q-old")]
            .into();
    let (put, remove) =
        plan(&mcs(&["p", "q"], &["c"]), &all, &[("p".to_owned(), told(&["new"]))].into(), &held);
    assert_eq!(put.iter().filter_map(carried).collect::<Vec<_>>(), [one("c", "p", "p-new")]);
    let gone = [one("c", "p", "p-old"), one("c", "x", "x-old"), one("p", "q", "q-old")];
    assert_eq!(remove, gone.into(), "q told nothing yet; x is no provider, p no consumer");
    let ended =
        read(&json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"types": ["LoadBalancer"]}}));
    assert_eq!(plan(&ended, &all, &BTreeMap::new(), &held).1, held);
}

#[test]
fn a_cluster_that_is_not_well_keeps_what_it_has_and_one_that_leaves_takes_its_own_along() {
    let mut leaving = (*fit("p")).clone();
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let unwell = cluster(&json!({"name": "c", "ready": "False", "endpointSliceAPI": true}));
    let held: BTreeSet<Dispatched> = [one("c", "p", "p-a"), one("c", "q", "q-a")].into();
    let answers = [("p".to_owned(), told(&["a"])), ("q".to_owned(), told(&["a", "b"]))].into();
    let all = [unwell, Arc::new(leaving), fit("q")];
    let (put, remove) = plan(&mcs(&[], &["c"]), &all, &answers, &held);
    assert!(put.is_empty(), "it is given more once it is well");
    assert_eq!(remove, [one("c", "p", "p-a")].into());
}

#[test]
fn what_a_site_tells_makes_no_other_objects_and_no_more_than_there_is_room_for() {
    let names: Vec<String> = (0..500).map(|at| format!("web-{at}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    let long = "a".repeat(300);
    names.splice(0..0, ["../secrets", "Web", "", "a b", &long, "web-1"]);
    let all = [fit("p"), fit("c")];
    let (put, _) =
        plan(&mcs(&["p"], &["c"]), &all, &[("p".to_owned(), told(&names))].into(), &BTreeSet::new());
    let made: BTreeSet<Dispatched> = put.iter().filter_map(carried).collect();
    assert_eq!((put.len(), made.len()), (100, 100));
    assert!(made.iter().all(|one| one.slice.starts_with("p-web-")));
    let mut odd = told(&["a"]);
    odd.endpoint_slices[0].address_type = "Magic".to_owned();
    let (put, _) = plan(&mcs(&["p"], &["c"]), &all, &[("p".to_owned(), odd)].into(), &BTreeSet::new());
    assert!(put.is_empty());
}

/// One slice of 600 endpoints.
fn large() -> ServiceEndpoints {
    let endpoint = |at: usize| json!({"addresses": [format!("10.0.{}.{}", at / 250, at % 250)], "conditions": {"ready": true, "serving": true, "terminating": false}});
    let mut told = told(&["web"]);
    told.endpoint_slices[0].endpoints = (0..600).map(endpoint).collect();
    told
}

/// Nobody can fill the hub by one object: whose slices are the largest are with nobody, and the others' are where they were.
#[test]
fn what_all_works_of_one_service_take_is_bounded_and_the_largest_are_left_out() {
    let consumers: Vec<String> = (0..4000).map(|at| format!("c-{at}")).collect();
    let all: Vec<Arc<Cluster>> =
        ["p", "q", "r", "s", "t"].into_iter().chain(consumers.iter().map(String::as_str)).map(fit).collect();
    let consumers: Vec<&str> = consumers.iter().map(String::as_str).collect();
    let mcs = mcs(&["p", "q", "r", "s", "t"], &consumers);
    let crossing = ServiceClusters::of(&mcs, &all);
    let outline =
        |provider: &str, told: &ServiceEndpoints| (provider.to_owned(), crossing.outline(provider, told));
    assert!(object_size::bytes(&large()) > 50_000);
    let told = [
        outline("p", &large()),
        outline("q", &told(&["web"])),
        outline("r", &large()),
        outline("s", &large()),
    ];
    let held = [
        (one("c-1", "s", "s-web"), 60_000),
        (one("c-1", "q", "q-web"), 2_000),
        (one("c-1", "t", "t-web"), 2_000),
    ];
    let plan = crossing.plan(&told.clone().into(), &held.into());
    assert_eq!(
        plan.give,
        ["p", "q", "r"].map(str::to_owned).into(),
        "2 of 50 KB for 4,000 are below 512 MiB"
    );
    assert_eq!(
        (plan.left_out.clone(), plan.remove),
        (["s".to_owned()].into(), [one("c-1", "s", "s-web")].into())
    );
    let words = dispatch::too_much(&plan.left_out);
    assert!(
        words.starts_with("EndpointSlices of 1 clusters (s) are given to no consumer")
            && words.contains("512 MiB")
    );
    // What a provider has with consumers that tells nothing now stays, and counts.
    let held = [(one("c-1", "t", "t-web"), dispatch::MOST - 50_000_000)];
    let plan = crossing.plan(&told.into(), &held.into());
    assert_eq!((plan.give, plan.remove), (["q".to_owned()].into(), BTreeSet::new()));
}

/// The questions carry what the MultiClusterService says, unless that would be as much again for each cluster that it names.
#[test]
fn a_service_of_many_named_clusters_is_asked_for_by_its_types_alone() {
    let many: Vec<String> = (0..2000).map(|at| format!("site-{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let spec =
        |mcs: &MultiClusterService| service::question(mcs, "p").spec.workload.manifests[0]["spec"].clone();
    assert_eq!(spec(&mcs(&many, &[])), json!({"types": ["CrossCluster"]}));
    assert_eq!(spec(&mcs(&["p"], &[]))["providerClusters"], json!([{"name": "p"}]));
}

#[test]
fn clusters_that_are_not_there_or_too_old_are_complained_of() {
    let old = cluster(&json!({"name": "old", "ready": "True", "endpointSliceAPI": false}));
    let complaints = service::complaints(&mcs(&["old", "gone"], &["c", "gone"]), &[old, fit("c")]);
    let reasons: Vec<(&str, bool)> =
        complaints.iter().map(|(reason, words)| (*reason, words.contains("provider"))).collect();
    assert_eq!(reasons, [("ClusterNotFound", true), ("APIIncompatible", true), ("ClusterNotFound", false)]);
    assert!(service::complaints(&mcs(&[], &[]), &[fit("c")]).is_empty());
}

#[test]
fn a_binding_that_a_policy_had_is_taken_over_and_stays_where_it_is() {
    let template = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "t"}});
    let existing: ResourceBinding = serde_json::from_value(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-service", "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": "p", "resourcebinding.karmada.io/permanent-id": "b"},
            "annotations": {"propagationpolicy.karmada.io/name": "p"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "t", "controller": true}]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web", "uid": "t", "resourceVersion": "7"},
            "propagateDeps": true, "clusters": [{"name": "p"}]}}))
    .unwrap();
    let both: BTreeSet<&str> = ["c", "p"].into();
    let taken = service::binding(&mcs(&["p"], &["c"]), &template, &both, Some(&existing)).unwrap();
    let labels = taken.metadata.labels.clone().unwrap();
    assert_eq!(labels.get("resourcebinding.karmada.io/permanent-id").map(String::as_str), Some("b"));
    assert!(!labels.contains_key("propagationpolicy.karmada.io/permanent-id") && !taken.spec.propagate_deps);
    assert_eq!((taken.spec.clusters.len(), taken.metadata.owner_references.as_ref().unwrap().len()), (1, 1));
    assert_eq!(service::binding(&mcs(&["p"], &["c"]), &template, &both, Some(&taken)), None, "it is so");
}

/// A consumer's traffic is led nowhere but to addresses that another cluster can have, and of a site's word nothing else goes along.
#[test]
fn of_what_a_site_tells_only_addresses_that_can_be_reached_go_along() {
    let all = [fit("p"), fit("c")];
    let endpoint = |address: &str| {
        json!({"addresses": [address], "conditions": {"ready": true, "x": 1}, "nodeName": "n",
        "targetRef": {"kind": "Secret"}, "hints": {"forZones": [{"name": "z"}]}})
    };
    let addresses = ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "web", "10.0.0.1"];
    let mut told = told(&["a"]);
    told.endpoint_slices[0].endpoints = addresses.map(endpoint).to_vec();
    told.endpoint_slices[0].ports = vec![json!({"port": 80, "name": "http", "x": {}})];
    let answers: BTreeMap<String, ServiceEndpoints> = [("p".to_owned(), told)].into();
    let (put, _) = plan(&mcs(&["p"], &["c"]), &all, &answers, &BTreeSet::new());
    let slice = &put[0].spec.workload.manifests[0];
    assert_eq!(slice["endpoints"], json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]));
    assert_eq!(slice["ports"], json!([{"port": 80, "name": "http"}]));
    let large =
        json!({"endpointSlices": [{"name": "a", "addressType": "IPv4", "endpoints": ["x".repeat(200_000)]}]});
    let question: Work = serde_json::from_value(
        json!({"metadata": {}, "spec": {"workload": {"manifests": []}}, "status": {"manifestStatuses": [{"status": large}]}}),
    )
    .unwrap();
    assert_eq!(told::answer(&question), None, "more than an agent tells");
}
