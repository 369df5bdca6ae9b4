//! Services across clusters, by MultiClusterServices, by ServiceExports and ServiceImports, and who may be impersonated in one: a hub of its own, two
//! sites, real API servers.

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::{Api, code};
use tests::hub::HubOptions;
use tests::member::{Member, MemberOptions};

use crate::fleet::{RegisterCommand, await_gone, await_object, has, has_condition};
use crate::private_site::Line;

const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  ports: [{name: http, port: 80, targetPort: 8080}]
  selector: {app: web}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: web, namespace: default}
spec:
  types: [CrossCluster]
  providerClusters: [{name: lone}]
  consumerClusters: [{name: far}]
";

const MCS: &str = "/apis/networking.karmada.io/v1alpha1/namespaces/default/multiclusterservices/web";
const SERVICE: &str = "/api/v1/namespaces/default/services/web";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// What the provider's own controller makes of its Pods.
fn slice(addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| {
        json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-1"}})
    };
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-abc", "namespace": "default", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>()})
}

/// Waits until the consumer has these addresses of the provider.
#[track_caller]
fn await_addresses(consumer: &Api, wanted: &[&str]) -> Value {
    await_slice(consumer, "lone-web-abc", wanted)
}

/// Waits until there is an EndpointSlice of this name with these addresses.
#[track_caller]
fn await_slice(api: &Api, name: &str, wanted: &[&str]) -> Value {
    await_object(api, "who reaches it", &format!("{SLICES}/{name}"), |slice| {
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let addresses: Vec<&str> = endpoints.iter().filter_map(|one| one["addresses"][0].as_str()).collect();
        if addresses == wanted { Ok(()) } else { Err(format!("{addresses:?}, not {wanted:?}")) }
    })
}

/// A second site under the hub of a line.
fn site(line: &Line, name: &str) -> (Member, Agent) {
    let member = Member::start(MemberOptions::bare(name));
    let register = RegisterCommand::make(&line.hub, &[]);
    let token_file = line.folder.join(format!("{name}-token"));
    std::fs::write(&token_file, &register.token).unwrap();
    let agent = Agent::start(AgentOptions {
        hub: register.hub,
        ca_hash: Some(register.ca_hash),
        cluster_name: Some(name.to_owned()),
        kubeconfig: Some(member.kubeconfig()),
        args: vec!["--token-file".to_owned(), token_file.display().to_string()],
        ..AgentOptions::default()
    });
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}");
    await_object(line.hub.api(), "the hub", &path, |cluster| has_condition(cluster, "Ready", "True", ""));
    (member, agent)
}

#[test]
fn statement_77_a_service_of_one_site_is_reached_from_another() {
    let args = vec!["--feature-gates=MultiClusterService=true".to_owned()];
    let Some(line) = Line::under(HubOptions { args, ..HubOptions::default() }) else { return };
    let (far, _agent) = site(&line, "far");
    let (hub, provider, consumer) = (line.hub.kubectl(), line.member.api(), far.api());
    hub.apply(SHOP);
    for (api, place) in [(provider, "the provider"), (consumer, "the consumer")] {
        await_object(api, place, SERVICE, |service| has(service, "/spec/ports/0/port", &json!(80)));
    }
    let told = await_object(line.hub.api(), "the hub", MCS, |mcs| {
        has_condition(mcs, "ServiceApplied", "True", "propagated")
    });
    assert_eq!(told["metadata"]["finalizers"], json!(["karmada.io/multiclusterservice-controller"]));

    provider.create(SLICES, &slice(&["10.1.0.7"])).unwrap();
    let there = await_addresses(consumer, &["10.1.0.7"]);
    assert_eq!(there["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    assert_eq!(there["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"], "lone");
    assert_eq!(there["ports"][0]["port"], 8080);
    assert!(there["endpoints"][0]["targetRef"].is_null() && there["endpoints"][0]["nodeName"].is_null());
    let changed = slice(&["10.1.0.7", "10.1.0.8"])["endpoints"].clone();
    provider.merge(&format!("{SLICES}/web-abc"), &json!({"endpoints": changed})).unwrap();
    await_addresses(consumer, &["10.1.0.7", "10.1.0.8"]);
    let own = provider.list(SLICES).unwrap();
    let is_brought =
        |slice: &&Value| slice["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("lone-"));
    assert_eq!(own.iter().find(is_brought), None, "it is not told of itself");

    let other = line.hub.api().merge(MCS, &json!({"spec": {"types": ["LoadBalancer"]}})).unwrap_err();
    assert_eq!(code(&other), Some(422), "{other:#}");
    provider.delete(&format!("{SLICES}/web-abc")).unwrap();
    await_gone(consumer, "the consumer", &format!("{SLICES}/lone-web-abc"));
    provider.create(SLICES, &slice(&["10.1.0.9"])).unwrap();
    await_addresses(consumer, &["10.1.0.9"]);

    hub.ok(&["delete", "multiclusterservice", "web", "-n", "default"]);
    await_gone(consumer, "the consumer", &format!("{SLICES}/lone-web-abc"));
    await_gone(line.hub.api(), "the hub", MCS);
    hub.ok(&["delete", "service", "web", "-n", "default"]);
    for (api, place) in [(provider, "the provider"), (consumer, "the consumer")] {
        await_gone(api, place, SERVICE);
    }
}

/// The kinds go to the sites first.
const DEFINITIONS: &str = include_str!("../../../deploy/presets/multicluster-services.yaml");

const EXPORT: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  ports: [{name: http, port: 80, targetPort: 8080}]
  selector: {app: web}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: web, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: export, namespace: default}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Service, name: web}
  - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: web}
  placement: {clusterAffinity: {clusterNames: [lone]}}
";

const IMPORT: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: default}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: import, namespace: default}
spec:
  resourceSelectors:
  - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, name: web}
  placement: {clusterAffinity: {clusterNames: [lone, far]}}
";

const KINDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceexports";
const DERIVED: &str = "/api/v1/namespaces/default/services/derived-web";
const BROUGHT: &str = "imported-lone-web-abc";

/// Sends the kinds to the sites, and what is exported and imported after them.
fn export_and_import(line: &Line, sites: [&Api; 2]) {
    let hub = line.hub.kubectl();
    hub.apply(DEFINITIONS);
    for (site, kind) in
        sites.iter().flat_map(|site| ["serviceexports", "serviceimports"].map(|kind| (site, kind)))
    {
        await_object(site, "the site", &format!("{KINDS}/{kind}.multicluster.x-k8s.io"), |definition| {
            has_condition(definition, "Established", "True", "")
        });
    }
    hub.apply(EXPORT);
    hub.apply(IMPORT);
    await_object(sites[0], "the provider", &format!("{EXPORTS}/web"), |_| Ok(()));
}

#[test]
fn statement_54_an_exported_service_is_reached_where_it_is_imported() {
    let Some(mut line) = Line::start() else { return };
    let (far, _agent) = site(&line, "far");
    let (provider, consumer) = (line.member.api().clone(), far.api());
    export_and_import(&line, [&provider, consumer]);
    provider.create(SLICES, &slice(&["10.1.0.7"])).unwrap();
    for api in [line.hub.api(), consumer, &provider] {
        let service = await_object(api, "who imports it", DERIVED, |service| {
            has(service, "/spec/ports/0/port", &json!(80))
        });
        assert!(service["spec"]["selector"].is_null());
        let there = await_slice(api, BROUGHT, &["10.1.0.7"]);
        assert_eq!(there["metadata"]["labels"]["kubernetes.io/service-name"], "derived-web");
        assert!(there["endpoints"][0]["targetRef"].is_null() && there["endpoints"][0]["nodeName"].is_null());
    }
    provider
        .merge(
            &format!("{SLICES}/web-abc"),
            &json!({"endpoints": slice(&["10.1.0.7", "10.1.0.8"])["endpoints"]}),
        )
        .unwrap();
    await_slice(consumer, BROUGHT, &["10.1.0.7", "10.1.0.8"]);
    let told = line.hub.api().list(SLICES).unwrap();
    let names: Vec<&str> = told.iter().filter_map(|slice| slice["metadata"]["name"].as_str()).collect();
    assert_eq!(
        names.iter().filter(|name| name.starts_with("imported-")).count(),
        1,
        "what was brought is not told on: {names:?}"
    );

    // What changes while the hub is away, and while the agent is, is caught up with.
    line.hub.stop();
    provider
        .merge(&format!("{SLICES}/web-abc"), &json!({"endpoints": slice(&["10.1.0.9"])["endpoints"]}))
        .unwrap();
    line.hub.start_again();
    await_slice(consumer, BROUGHT, &["10.1.0.9"]);
    line.agent.stop();
    provider
        .merge(&format!("{SLICES}/web-abc"), &json!({"endpoints": slice(&["10.1.0.10"])["endpoints"]}))
        .unwrap();
    line.agent.start_again();
    await_slice(consumer, BROUGHT, &["10.1.0.10"]);

    // An export that goes takes the endpoints along, and brings them back.
    let (hub, at) = (line.hub.kubectl(), format!("{SLICES}/{BROUGHT}"));
    hub.ok(&["delete", "serviceexport", "web", "-n", "default"]);
    for (api, place) in [(line.hub.api(), "the hub"), (consumer, "the consumer")] {
        await_gone(api, place, &at);
    }
    await_object(consumer, "the consumer", DERIVED, |_| Ok(()));
    hub.apply(EXPORT);
    await_slice(consumer, BROUGHT, &["10.1.0.10"]);

    // An import that goes takes all of it along; what the site gives stays on the hub for others.
    hub.ok(&["delete", "serviceimport", "web", "-n", "default"]);
    for (api, place) in [(consumer, "the consumer"), (&provider, "the provider")] {
        await_gone(api, place, DERIVED);
        await_gone(api, place, &at);
    }
    await_gone(line.hub.api(), "the hub", DERIVED);
    await_slice(line.hub.api(), BROUGHT, &["10.1.0.10"]);
    assert_eq!(
        provider.get(SERVICE).unwrap().unwrap()["spec"]["ports"][0]["port"],
        80,
        "the provider keeps its own"
    );

    // It goes with the site that gives it.
    hub.ok(&["delete", "cluster", "lone", "--wait=false"]);
    await_gone(line.hub.api(), "the hub", &at);
}

const INGRESS: &str = "
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterIngress
metadata: {name: web, namespace: default}
spec: {rules: [{host: web.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
";

/// The hub checks and keeps a MultiClusterIngress and its status. Who carries it out is somebody else, as with Karmada.
#[test]
fn a_multi_cluster_ingress_is_kept_for_who_carries_it_out() {
    const INGRESSES: &str = "/apis/networking.karmada.io/v1alpha1/namespaces/default/multiclusteringresses";
    let Some(line) = Line::start() else { return };
    let (hub, kubectl) = (line.hub.api(), line.hub.kubectl());
    kubectl.apply(INGRESS);
    let at = format!("{INGRESSES}/web");
    let wrong = hub.merge(&at, &json!({"spec": {"rules": [{"host": "1.2.3.4"}]}})).unwrap_err();
    assert_eq!(code(&wrong), Some(422), "{wrong:#}");
    let status = |ip: &str| json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}, "serviceLocations": [{"name": "web", "clusters": ["lone"]}]}});
    let wrong = hub.merge(&format!("{at}/status"), &status("nowhere")).unwrap_err();
    assert_eq!(code(&wrong), Some(422), "{wrong:#}");
    hub.merge(&format!("{at}/status"), &status("192.0.2.7")).unwrap();
    let kept = hub.get(&at).unwrap().unwrap();
    assert_eq!(kept["status"], status("192.0.2.7")["status"]);
    let bindings = hub.list("/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings").unwrap();
    assert!(bindings.is_empty(), "the hub sends it nowhere: {bindings:?}");
}

const PROXIES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reaches-lone}
rules:
- {apiGroups: [cluster.karmada.io], resources: [clusters/proxy], resourceNames: [lone], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reaches-lone}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reaches-lone}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";

const IMPERSONATOR: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/karmada-impersonator";

#[test]
fn statement_78_who_may_reach_a_site_may_be_impersonated_there() {
    let Some(line) = Line::start() else { return };
    let (hub, member) = (line.hub.kubectl(), line.member.api());
    hub.apply(PROXIES);
    let role = await_object(member, "the member", IMPERSONATOR, |role| {
        has(role, "/rules/0/resourceNames", &json!(["jane"]))
    });
    assert_eq!(role["rules"].as_array().map(Vec::len), Some(1), "nobody else may be: {role}");
    assert_eq!(
        (&role["rules"][0]["resources"], &role["rules"][0]["verbs"]),
        (&json!(["users"]), &json!(["impersonate"]))
    );
    hub.ok(&["delete", "clusterrolebinding", "reaches-lone"]);
    await_gone(member, "the member", IMPERSONATOR);
}
