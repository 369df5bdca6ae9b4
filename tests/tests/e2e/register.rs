//! `karmadactl register` beside a member: the agent runs there as its Deployment says, outlives its Pod although
//! the hub is gone, and `unregister` takes everything back. With a hub of its own, so that the member can be in
//! the shared fleet too.

use serde_json::{Value, json};
use tests::api::text_at;
use tests::built::program;
use tests::hub::{Hub, HubOptions};
use tests::kubelet::Kubelet;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{RegisterCommand, Site, await_object, get, has, has_condition, karmadactl, shared};

const SYSTEM: &str = "karmada-system";
const SECRETS: &str = "/api/v1/namespaces/karmada-system/secrets";
const CLUSTER: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/harbour";
const CONFIG: &str = "/api/v1/namespaces/harbour-apps/configmaps/settings";
const APPS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: harbour-apps}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: harbour-apps}
data: {mode: calm}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: settings, namespace: harbour-apps}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: settings}]
  placement: {clusterAffinity: {clusterNames: [harbour]}}
";

const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: harbour-reader}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: harbour-reader}
spec:
  resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: harbour-reader}]
  placement: {clusterAffinity: {clusterNames: [harbour]}}
";

/// The words of `karmadactl register` with this token.
fn register<'a>(command: &'a RegisterCommand, token: &'a str) -> Vec<&'a str> {
    let RegisterCommand { hub, ca_hash, .. } = command;
    vec![
        "register",
        hub,
        "--token",
        token,
        "--discovery-token-ca-cert-hash",
        ca_hash,
        "--cluster-name",
        "harbour",
        "--timeout",
        "90s",
    ]
}

/// What the agent says of itself.
fn said(site: &Site) -> Result<Value, String> {
    let secret = get(site.api(), &format!("{SECRETS}/karmada-agent-identity"))?;
    let said =
        secret.pointer("/metadata/annotations").and_then(|all| all["edge.karmada.io/agent-state"].as_str());
    serde_json::from_str(said.ok_or("it says nothing")?).map_err(|error| error.to_string())
}

#[test]
fn register_installs_an_agent_that_outlives_its_pod_and_unregister_takes_all_back() {
    let Some(fleet) = shared() else { return };
    let site = fleet.site("south");
    let mut hub = Hub::start(HubOptions::default());
    let kubelet = Kubelet::start(&site.member, SYSTEM, program("karmada-agent"));
    let command = RegisterCommand::make(&hub, &[]);

    // A wrong token is told by its cause, and what to do, before anything is made; the next run puts it right.
    let refused =
        karmadactl(&site.member.kubeconfig(), &register(&command, "abcdef.0123456789abcdef")).refused();
    assert!(refused.contains("TokenUnknown") && refused.contains("next: make a new token"), "{refused}");
    assert!(said(site).is_err(), "something was made in the member");
    let printed = karmadactl(&site.member.kubeconfig(), &register(&command, &command.token));
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    assert!(printed.stdout.contains("cluster harbour is registered"), "{printed}");
    let words = printed.stdout.clone() + &printed.stderr + &kubelet.tails();
    assert!(!words.contains(&command.token[7..]), "a token is no word to print: {words}");

    let cluster = await_object(hub.api(), "the hub", CLUSTER, |cluster| {
        has_condition(cluster, "Ready", "True", "")?;
        has(cluster, "/spec/syncMode", &json!("Pull"))
    });
    let identity = get(site.api(), &format!("{SECRETS}/karmada-agent-identity")).unwrap();
    assert!(identity.pointer("/data/identity.json").is_some(), "the identity is kept in the member");
    eventually("the agent's word", TIMEOUT, || has(&said(site)?, "/state", &json!("Connected")));
    let agent = kubelet.pods();
    assert!(agent.len() == 1 && agent[0].starts_with("karmada-agent-"), "{agent:?}");

    hub.kubectl().apply(APPS);
    site.await_object(CONFIG, |object| has(object, "/data/mode", &json!("calm")));
    eventually("a copy of the ledger in the member", TIMEOUT, || {
        let secrets = site.api().list(SECRETS).map_err(|error| format!("{error:#}"))?;
        let ledger = |secret: &&Value| text_at(secret, "/metadata/name").starts_with("karmada-agent-ledger-");
        so(secrets.iter().any(|secret| ledger(&secret)), || "none".to_owned())
    });

    // The Pod goes while the hub is away, and an object with it: the next Pod knows what is to be.
    hub.kill();
    let label = ["delete", "pod", "-l", "app=karmada-agent", "--wait=false"];
    site.member.kubectl().in_namespace(SYSTEM).ok(&label);
    site.api().delete(CONFIG).unwrap();
    eventually("another Pod", TIMEOUT, || {
        let pods = kubelet.pods();
        so(pods.len() == 1 && pods != agent, || format!("{pods:?}\n{}", kubelet.tails()))
    });
    site.await_object(CONFIG, |object| has(object, "/data/mode", &json!("calm")));
    // Once more, and now surely by the new one.
    site.api().delete(CONFIG).unwrap();
    site.await_object(CONFIG, |object| has(object, "/data/mode", &json!("calm")));
    eventually("the agent's word", TIMEOUT, || has(&said(site)?, "/cause", &json!("TCP")));

    hub.start_again();
    eventually("the agent's word", TIMEOUT, || has(&said(site)?, "/state", &json!("Connected")));
    let again = get(hub.api(), CLUSTER).unwrap();
    for field in ["/metadata/uid", "/metadata/annotations/edge.karmada.io~1agent-key", "/spec/id"] {
        assert_eq!(again.pointer(field), cluster.pointer(field), "the identity is the same: {field}");
    }

    // Removed on the hub without the agent's knowledge: a new token brings it back.
    hub.kubectl().ok(&["delete", "cluster", "harbour", "--timeout=60s"]);
    site.await_gone(CONFIG);
    let newer = RegisterCommand::make(&hub, &[]);
    let narrow = [register(&newer, &newer.token), vec!["--permissions", "workloads"]].concat();
    let printed = karmadactl(&site.member.kubeconfig(), &narrow);
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    site.await_object(CONFIG, |object| has(object, "/data/mode", &json!("calm")));
    // What it may not do now is named, with the rule that is missing, and hinders nothing else.
    hub.kubectl().apply(ROLE);
    eventually("the refusal of the role", TIMEOUT, || {
        let works = hub.api().list("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-harbour/works");
        let works = works.map_err(|error| format!("{error:#}"))?;
        let role = works.iter().find(|work| work["spec"].to_string().contains("harbour-reader"));
        has_condition(role.ok_or("no Work yet")?, "Applied", "False", "clusterroles")
    });
    site.api().delete(CONFIG).unwrap();
    site.await_object(CONFIG, |_| Ok(()));

    let hub_config = hub.kubeconfig().display().to_string();
    let unregister = ["unregister", "harbour", "--karmada-config", &hub_config];
    let printed = karmadactl(&site.member.kubeconfig(), &unregister);
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    assert!(get(hub.api(), CLUSTER).is_err());
    for path in [
        CONFIG,
        "/api/v1/namespaces/karmada-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/karmada-agent",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/karmada-agent",
    ] {
        site.await_gone(path);
    }
    eventually("the agent's end", TIMEOUT, || {
        let pods = kubelet.pods();
        so(pods.is_empty(), || format!("{pods:?}"))
    });
    let _ = site.api().delete("/api/v1/namespaces/harbour-apps");
}
