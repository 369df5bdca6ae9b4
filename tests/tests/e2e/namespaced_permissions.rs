//! An agent that may do little in its member (`--permissions namespaced`): it works where it may, says plainly where it
//! may not and which rule is missing, and touches nothing else. With a hub of its own.

use serde_json::{Value, json};
use tests::api::text_at;
use tests::built::program;
use tests::hub::{Hub, HubOptions};
use tests::kubelet::Kubelet;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{RegisterCommand, await_object, get, has, has_condition, karmadactl, shared};

/// A Deployment and a ConfigMap for the site, in `namespace`.
fn apps(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: nginx}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {namespace}}}
data: {{mode: calm}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: all, namespace: {namespace}}}
spec:
  resourceSelectors:
  - {{apiVersion: apps/v1, kind: Deployment}}
  - {{apiVersion: v1, kind: ConfigMap, name: settings}}
  placement: {{clusterAffinity: {{clusterNames: [attic]}}}}
"
    )
}

const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-attic/works";

/// The Work that carries this kind, of this namespace or name.
fn work(hub: &Hub, kind: &str, place: &str) -> Result<Value, String> {
    let works = hub.api().list(WORKS).map_err(|error| format!("{error:#}"))?;
    let carries = |work: &Value| {
        let manifest = &work["spec"]["workload"]["manifests"][0];
        manifest["kind"] == kind
            && (text_at(manifest, "/metadata/namespace") == place
                || text_at(manifest, "/metadata/name") == place)
    };
    works.into_iter().find(carries).ok_or_else(|| format!("no Work of {kind} {place} yet"))
}

#[test]
fn an_agent_of_two_namespaces_works_in_them_and_nowhere_else() {
    let Some(fleet) = shared() else { return };
    let site = fleet.site("kind-east");
    let hub = Hub::start(HubOptions::default());
    let kubelet = Kubelet::start(&site.member, "karmada-system", program("karmada-agent"));
    let command = RegisterCommand::make(&hub, &[]);
    let flags =
        ["--permissions", "namespaced", "--workload-namespaces", "attic-one,attic-two", "--timeout", "90s"];
    let words = ["register", &command.hub, "--token", &command.token, "--cluster-name", "attic"];
    let pin = ["--discovery-token-ca-cert-hash", &command.ca_hash];
    let printed = karmadactl(&site.member.kubeconfig(), &[&words[..], &pin, &flags].concat());
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    let cluster = "/apis/cluster.karmada.io/v1alpha1/clusters/attic";
    await_object(hub.api(), "the hub", cluster, |cluster| {
        has_condition(cluster, "Ready", "True", "")?;
        has(cluster, "/status/nodeSummary/totalNum", &json!(2))?;
        has_condition(cluster, "CompleteAPIEnablements", "True", "")
    });

    for namespace in ["attic-one", "attic-two", "attic-three"] {
        hub.kubectl().apply(&apps(namespace));
    }
    for namespace in ["attic-one", "attic-two"] {
        let config = format!("/api/v1/namespaces/{namespace}/configmaps/settings");
        site.await_object(&config, |object| has(object, "/data/mode", &json!("calm")));
        // It sees what becomes of things: the status comes back, and what is deleted is restored.
        let kubectl = hub.kubectl().in_namespace(namespace);
        kubectl.wait_for_field(&["deploy", "web"], "{.status.readyReplicas}", "2", TIMEOUT);
        site.api().delete(&config).unwrap();
        site.await_object(&config, |object| has(object, "/data/mode", &json!("calm")));
    }
    // The third namespace is not its own: each Work says so, by the rule that is missing.
    for (kind, rule) in
        [("Deployment", "deployments"), ("ConfigMap", "configmaps"), ("Namespace", "namespaces")]
    {
        eventually(&format!("the refusal of the {kind}"), TIMEOUT, || {
            let work = work(&hub, kind, "attic-three")?;
            has_condition(&work, "Applied", "False", rule)?;
            has_condition(&work, "Applied", "False", "forbidden")?;
            has_condition(&work, "Applied", "False", "--permissions")
        });
    }
    assert!(get(site.api(), "/api/v1/namespaces/attic-three").is_err(), "it is not made");
    let binding = "/apis/work.karmada.io/v1alpha2/namespaces/attic-three/resourcebindings/web-deployment";
    await_object(hub.api(), "the hub", binding, |binding| {
        has_condition(binding, "FullyApplied", "False", "")
    });
    let log = kubelet.tails();
    assert!(!log.contains("panicked"), "{log}");
    // What it may not do hinders nothing of what it may.
    site.api().delete("/apis/apps/v1/namespaces/attic-one/deployments/web").unwrap();
    site.await_object("/apis/apps/v1/namespaces/attic-one/deployments/web", |_| Ok(()));

    let hub_config = hub.kubeconfig().display().to_string();
    let printed =
        karmadactl(&site.member.kubeconfig(), &["unregister", "attic", "--karmada-config", &hub_config]);
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    site.await_gone("/api/v1/namespaces/karmada-system");
    eventually("no workload left", TIMEOUT, || {
        let left = get(site.api(), "/apis/apps/v1/namespaces/attic-one/deployments/web");
        so(left.is_err(), || format!("{left:?}"))
    });
    for namespace in ["attic-one", "attic-two"] {
        let _ = site.api().delete(&format!("/api/v1/namespaces/{namespace}"));
    }
}
