//! Services across clusters, and who may be impersonated in one: a hub of its own, two sites, real API servers.

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::{Api, code};
use tests::hub::HubOptions;
use tests::member::{Member, MemberOptions};

use crate::fleet::{RegisterCommand, await_gone, await_object, has, has_condition};
use crate::line::Line;

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
    await_object(consumer, "the consumer", &format!("{SLICES}/lone-web-abc"), |slice| {
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
