//! The program itself against a hub, and against the hub's API server with Kubernetes' kinds alone, which stands in for a member's.
//! No kubelet and no agent run: the test writes what they would.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used)]

mod clocks;
mod fleet;
mod leaving;
mod placement;
mod unregister;

use std::process::Output;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt;
use http::{Method, Request};
use karmada_hub::{Hub, Serves, Settings, StoreKind};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

const NAMESPACE: &str = "edge";

struct Cluster {
    directory: TempDir,
    client: Client,
    hub: Hub,
}

impl Cluster {
    async fn start() -> Cluster {
        Cluster::serving(Serves::Fleet).await
    }

    async fn member() -> Cluster {
        Cluster::serving(Serves::Kubernetes).await
    }

    async fn serving(serves: Serves) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            serves,
            data_dir: directory.path().to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: Vec::new(),
            store: StoreKind::Memory,
            accept_data_loss: false,
            encryption: None,
            access: karmada_hub::AccessSettings::default(),
            controllers: true,
            lifecycle: karmada_hub::LifecycleSettings::default(),
        };
        let hub = Hub::start(&settings, Arc::new(jiff::Timestamp::now)).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(hub.data.kubeconfig_file()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Cluster { directory, client: Client::try_from(config).unwrap(), hub }
    }

    fn kubeconfig(&self) -> String {
        self.directory.path().join("admin.kubeconfig").to_str().unwrap().to_owned()
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).unwrap()).await
    }

    async fn get(&self, path: &str) -> Option<Value> {
        self.send(Method::GET, path, "application/json", &Value::Null).await.ok()
    }

    async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", &object).await.unwrap()
    }

    async fn merge(&self, path: &str, patch: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await.unwrap()
    }

    /// Runs karmadactl with this cluster's kubeconfig.
    fn command(&self, arguments: &str) -> Command {
        self.command_with(arguments, &self.kubeconfig())
    }

    fn command_with(&self, arguments: &str, kubeconfig: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmadactl"));
        command.args(arguments.split_whitespace()).args(["--kubeconfig", kubeconfig]).kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    async fn succeed(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn fail(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{arguments} succeeded");
        stderr(&output)
    }

    /// Waits until the agent's Deployment for this token is there.
    async fn installed(&self, token: &str) {
        let id = token.split('.').next().unwrap();
        let kind = kube::api::GroupVersionKind::gvk("apps", "v1", "Deployment");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind));
        let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
        while let Some(event) = events.next().await {
            let (WatchEvent::Added(found) | WatchEvent::Modified(found)) = event.unwrap() else { continue };
            let annotations = &found.data["spec"]["template"]["metadata"]["annotations"];
            if annotations["edge.karmada.io/join-token-id"] == id {
                return;
            }
        }
        panic!("the watch ended");
    }

    /// What an agent writes of itself.
    async fn say(&self, state: &str, cause: &str) {
        let said = json!({"state": state, "cause": cause, "message": format!("words of {cause}"), "at": "2026-01-01T00:00:00Z"});
        let patch = json!({"metadata": {"annotations": {"edge.karmada.io/agent-state": said.to_string()}}});
        self.merge(&identity(), patch).await;
    }
}

fn identity() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/karmada-agent-identity")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The printed command's arguments, for a member, with the token.
async fn register_line(hub: &Cluster) -> (String, String) {
    let line = hub.succeed("token create --print-register-command").await;
    let (echoed, line) = line.trim().split_once(" | karmadactl ").unwrap();
    assert!(
        line.starts_with(&format!("register {} --token-file - ", hub.hub.address))
            && line.contains("--discovery-token-ca-cert-hash sha256:")
    );
    let token = echoed.strip_prefix("echo ").unwrap().to_owned();
    let line = line.replace("--token-file -", &format!("--token {token}"));
    (format!("{line} --cluster-name shop -n {NAMESPACE}"), token)
}

#[tokio::test(flavor = "multi_thread")]
async fn adopt_and_refuse_decide_about_keys_that_ask() {
    let hub = Cluster::start().await;
    let (held, asking) = ("1".repeat(64), "a".repeat(64));
    let asks = json!([{"key": asking, "uid": "u2", "since": "2026-01-01T00:00:00Z"}]).to_string();
    let notes = json!({"edge.karmada.io/agent-key": held, "edge.karmada.io/key-request": asks});
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    hub.create(
        clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "shop", "annotations": notes}, "spec": {"syncMode": "Pull", "id": "u1"}}),
    )
    .await;
    let shop = format!("{clusters}/shop");
    let key = async || {
        hub.get(&shop).await.unwrap()["metadata"]["annotations"]["edge.karmada.io/agent-key"].clone()
    };
    assert!(hub.fail("adopt nowhere").await.contains("there is no cluster nowhere"));
    assert!(hub.fail("adopt shop --key bbbbbbbb").await.contains("0 keys that ask"));
    assert!(hub.succeed("refuse shop").await.contains("refused"));
    assert_eq!(key().await, *held);
    assert!(hub.fail("adopt shop").await.contains("0 keys wait"), "a refused one is named to be adopted");
    assert!(hub.succeed("adopt shop --key aaaaaaaa").await.contains("adopted"));
    assert_eq!(key().await, *asking);
    assert_eq!(hub.get(&shop).await.unwrap()["spec"]["id"], "u2");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_without_their_secret_and_deleted() {
    let hub = Cluster::start().await;
    let token = hub.succeed("token create --description shops --ttl 1h --uses 2").await.trim().to_owned();
    let (id, secret) = token.split_once('.').unwrap();
    let stored =
        hub.get(&format!("/api/v1/namespaces/kube-system/secrets/bootstrap-token-{id}")).await.unwrap();
    assert_eq!(stored["type"], "bootstrap.kubernetes.io/token");
    assert_eq!(stored["data"]["token-secret"], BASE64.encode(secret));
    let shown = hub.succeed("token list").await;
    assert!(
        shown.starts_with("TOKEN ") && shown.contains(id) && shown.contains("shops (2 uses left)"),
        "{shown}"
    );
    assert!(!shown.contains(secret));
    assert!(hub.fail("token delete nosuch").await.contains("there is no token nosuch"));
    hub.succeed(&format!("token delete {id}")).await;
    assert!(!hub.succeed("token list").await.contains(id));
    assert!(hub.fail("token create --groups system:masters").await.contains("system:bootstrappers:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn register_returns_when_the_hub_has_seen_the_agent_and_unregister_takes_everything_back() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, token) = register_line(&hub).await;
    let running = member.command(&line).spawn().unwrap();
    member.installed(&token).await;
    member.say("Joining", "").await;
    member.say("Connected", "").await;
    let output = running.wait_with_output().await.unwrap();
    assert!(output.status.success());
    // Again, with nothing changed: the agent goes on, and what it said holds.
    let again = member.succeed(&line).await;
    assert!(again.contains("cluster shop is registered"), "{again}");

    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let spec = json!({"syncMode": "Pull"});
    hub.create(clusters, json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "shop"}, "spec": spec})).await;
    let from = format!("unregister shop -n {NAMESPACE} --karmada-config {} --wait 5s", hub.kubeconfig());
    let wrong = member.fail(&from.replace("shop", "store")).await;
    assert!(wrong.contains("is that of the cluster shop, not of store"), "{wrong}");
    let dry = member.succeed(&format!("{from} --dry-run")).await;
    assert!(
        dry.contains("deployments/karmada-agent would be deleted") && member.get(&identity()).await.is_some(),
        "{dry}"
    );
    member.succeed(&from).await;
    assert!(hub.get(&format!("{clusters}/shop")).await.is_none());
    for path in [
        identity(),
        format!("/api/v1/namespaces/{NAMESPACE}/secrets/karmada-agent-join"),
        format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/karmada-agent-sa"),
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/karmada-agent"),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/karmada-agent".to_owned(),
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/karmada-agent".to_owned(),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/karmada-agent"),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings/karmada-agent"),
    ] {
        assert!(member.get(&path).await.is_none(), "{path} is left");
    }
    // Namespaces may take a while to end; this one must be on its way.
    let all = member.get("/api/v1/namespaces").await.unwrap();
    let find =
        |name: &str| all["items"].as_array().unwrap().iter().find(|found| found["metadata"]["name"] == name);
    assert!(find(NAMESPACE).is_none_or(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null()));
    // What there was before register stays, and a second time is no error.
    assert!(
        find("kube-public").is_some_and(|namespace| namespace["metadata"]["deletionTimestamp"].is_null())
    );
    assert!(member.succeed(&from).await.contains("cluster shop is not registered"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_is_no_member_of_itself_nor_of_another() {
    let (hub, other) = (Cluster::start().await, Cluster::start().await);
    let (line, _) = register_line(&hub).await;
    for member in [&hub, &other] {
        let text = member.fail(&line).await;
        assert!(text.contains("is a Karmada control plane") && text.contains("--kubeconfig FILE"), "{text}");
        assert!(member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_none(), "something was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_cannot_be_joined_is_told_before_anything_is_made() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, token) = register_line(&hub).await;
    let address = hub.hub.address.to_string();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = silent.local_addr().unwrap().to_string();
    drop(silent);
    let talker = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = talker.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = talker.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let pin = hub.hub.data.authorities().signing().pin().to_string();
    let once = hub.succeed("token create --ttl 1s").await.trim().to_owned();
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    for (line, told) in [
        (line.replace(&address, "hub.invalid:5443"), "DNS: hub.invalid does not resolve"),
        (line.replace(&address, &closed), "TCP: no connection to"),
        (line.replace(&address, &plain), "does not speak TLS"),
        (line.replace(&pin, &format!("sha256:{}", "0".repeat(64))), "PinMismatch: at 127.0.0.1:"),
        (line.replace(&token, "abcdef.0123456789abcdef"), "TokenUnknown: the hub does not take this token"),
        (line.replace(&token, &once), "TokenExpired: the token has expired"),
    ] {
        let text = member.fail(&format!("{line} --timeout 1s")).await;
        assert!(text.contains(told) && text.contains("\nnext: "), "{told}: {text}");
        assert!(text.contains("Nothing was made in the member") && !text.contains(&token), "{text}");
        assert!(
            member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_none(),
            "{told}: something was made"
        );
    }
    // Where the member has a way of its own to the hub, the agent finds out.
    let elsewhere = format!("{} --skip-hub-check --timeout 1s", line.replace(&address, "hub.invalid:5443"));
    assert!(member.fail(&elsewhere).await.contains("NoPod"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cause_fails_with_its_name_and_what_to_do_next() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    for (cause, advice) in [
        ("DNS", "cannot resolve"),
        ("TCP", "open connections to 127.0.0.1:"),
        ("TLS", "answers at 127.0.0.1:"),
        ("PinMismatch", "another CA"),
        ("HTTP2Refused", "does not pass HTTP/2"),
        ("Clock", "clock is wrong"),
        ("TokenUnknown", "make a new token"),
        ("TokenExpired", "make a new token"),
        ("NameTaken", "another --cluster-name"),
        ("IdTaken", "as --cluster-name"),
        ("Permission", "wider --permissions"),
    ] {
        let (line, token) = register_line(&hub).await;
        let running = member
            .command(&format!("{line} --timeout 3s"))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        member.installed(&token).await;
        member.say("Failed", cause).await;
        let output = running.wait_with_output().await.unwrap();
        let text = stderr(&output);
        assert!(!output.status.success(), "{cause}");
        assert!(
            text.contains(&format!("{cause}: words of {cause}\nnext: ")) && text.contains(advice),
            "{text}"
        );
        assert!(!text.contains(&token), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_starts_is_quoted_and_a_foreign_agent_is_left_alone() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, _) = register_line(&hub).await;
    let silent = member.fail(&format!("{line} --timeout 1s")).await;
    assert!(silent.contains("NoPod") && silent.contains("karmadactl unregister shop"), "{silent}");

    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let container = json!({"name": "karmada-agent", "image": "karmada-agent:v0"});
    let labels = json!({"app": "karmada-agent"});
    member.create(&pods, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent-0", "labels": labels}, "spec": {"containers": [container]}})).await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    let status = json!({"name": "karmada-agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": waiting});
    member.merge(&format!("{pods}/agent-0/status"), json!({"status": {"containerStatuses": [status]}})).await;
    let text = member.fail(&format!("{line} --timeout 3s")).await;
    assert!(
        text.contains("ImagePullBackOff: no such image") && text.contains("--karmada-agent-image"),
        "{text}"
    );

    // One that never joined holds nothing: what was mistyped is put right.
    let text = member.fail(&format!("{} --timeout 1s", line.replace("shop", "shp"))).await;
    assert!(text.contains("cluster shp did not connect"), "{text}");
    let text = member.fail(&format!("{line} --timeout 1s")).await;
    assert!(text.contains("cluster shop did not connect"), "{text}");

    // One that did is left alone.
    let identity = format!("/api/v1/namespaces/{NAMESPACE}/secrets/karmada-agent-identity");
    member.merge(&identity, json!({"data": {"identity.json": "e30="}})).await;
    let (other, _) = register_line(&Cluster::start().await).await;
    let text = member.fail(&other).await;
    assert!(
        text.contains(&format!("already has an agent of another hub ({}, as shop)", hub.hub.address)),
        "{text}"
    );
    let text = member.fail(&line.replace("shop", "store")).await;
    assert!(text.contains("already registered at this hub as shop"), "{text}");
    let text = member.fail(&line.replace(&format!("-n {NAMESPACE}"), "-n elsewhere")).await;
    assert!(text.contains(&format!("use -n {NAMESPACE}")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_shown_cordoned_tainted_and_deleted() {
    let hub = Cluster::start().await;
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "shop"}, "spec": {"syncMode": "Pull"}});
    hub.create(path, cluster).await;
    let taints = async || {
        let cluster = hub.get(&format!("{path}/shop")).await.unwrap();
        let all = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap()))
            // The hub's own judgement of a cluster without an agent.
            .filter(|t| {
                !t.starts_with("cluster.karmada.io/not-ready")
                    && !t.starts_with("cluster.karmada.io/unreachable")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(hub.succeed("cordon shop").await, "shop cluster cordoned\n");
    assert_eq!(hub.succeed("cordon shop").await, "shop cluster already cordoned\n");
    assert_eq!(taints().await, ["cluster.karmada.io/unschedulable:NoSchedule"]);
    hub.succeed("taint clusters shop site=edge:NoExecute").await;
    assert!(hub.fail("taint clusters shop site=core:NoExecute").await.contains("--overwrite"));
    assert_eq!(hub.succeed("uncordon shop").await, "shop cluster uncordoned\n");
    assert_eq!(taints().await, ["site:NoExecute"]);
    assert_eq!(hub.succeed("taint clusters shop site-").await, "cluster/shop untainted\n");
    assert!(taints().await.is_empty());
    assert!(hub.fail("cordon store").await.contains("there is no cluster store"));

    let table = hub.succeed("get clusters").await;
    assert!(table.starts_with("NAME ") || table.starts_with("NAME\n"), "{table}");
    assert!(table.contains("\nshop"), "{table}");
    assert_eq!(hub.succeed("get clusters -o name").await, "cluster.cluster.karmada.io/shop\n");
    let object: Value = serde_json::from_str(&hub.succeed("get cluster shop -o json").await).unwrap();
    assert_eq!((&object["kind"], &object["spec"]["syncMode"]), (&json!("Cluster"), &json!("Pull")));
    assert!(hub.succeed("get cluster shop -o yaml").await.contains("syncMode: Pull"));
    assert_eq!(hub.succeed("delete cluster shop").await, "cluster.cluster.karmada.io \"shop\" deleted\n");
    assert!(hub.fail("get cluster shop").await.contains("not found"));
    assert!(hub.fail("get nosuch").await.contains("doesn't have a resource type"));
    assert!(hub.fail("get clusters --context nosuch").await.contains("there are: karmada-apiserver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_to_a_cluster_that_is_not_there_or_away_or_said_twice_has_words() {
    let hub = Cluster::start().await;
    let all = [
        "confirm nowhere --batch 3/7/1f",
        "release w --cluster nowhere",
        "adopt nowhere",
        "refuse nowhere",
        "cordon nowhere",
        "uncordon nowhere",
        "orphans nowhere",
        "orphans nowhere --all --delete",
        "taint clusters nowhere a=b:NoSchedule",
    ];
    for line in all {
        let said = hub.fail(line).await;
        assert!(
            said.contains("there is no cluster nowhere") && said.contains("karmadactl get clusters"),
            "{line}: {said}"
        );
    }
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    let note = json!({"edge.karmada.io/orphans": json!({"a": "undecided", "b": "undecided"}).to_string()});
    hub.create(
        clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "shop", "annotations": note}, "spec": {"syncMode": "Pull"}}),
    )
    .await;
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "ClusterStatusUnknown",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    hub.merge(&format!("{clusters}/shop/status"), away).await;
    assert!(hub.fail("release w --cluster shop").await.contains("there is no work w for cluster shop"));
    assert!(hub.fail("confirm shop --batch 3").await.contains("EPOCH/REVISION/START"));
    let said = hub.succeed("confirm shop --batch 3/7/1f").await;
    assert!(
        said.contains("batch 3/7/1f may go out to shop") && said.contains("told once it is back"),
        "{said}"
    );
    assert!(hub.succeed("confirm shop --batch 3/7/1f").await.contains("were let out to shop before"));
    assert!(hub.fail("adopt shop").await.contains("no key asks for the name shop"));
    assert!(hub.succeed("cordon shop").await.contains("shop cluster cordoned"));
    assert!(hub.succeed("cordon shop").await.contains("already cordoned"));
    assert!(hub.fail("orphans shop --delete").await.contains("say --all"));
    assert!(hub.fail("orphans shop c --delete").await.contains("c is no orphan of shop"));
    let said = hub.succeed("orphans shop a --release").await;
    assert!(said.contains("1 orphans of shop: release") && said.contains("told once it is back"), "{said}");
    let listed = hub.succeed("orphans shop").await;
    assert!(listed.contains("release    a\n") && listed.contains("undecided  b\n"), "{listed}");
    let seen = hub.succeed("get clusters -o wide").await;
    assert!(
        seen.contains("ORPHANS")
            && seen.lines().any(|line| line.starts_with("shop") && line.trim_end().ends_with('2')),
        "{seen}"
    );
}
