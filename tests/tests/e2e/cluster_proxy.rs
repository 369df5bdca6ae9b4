//! Members reached by way of the hub: `clusters/NAME/proxy`, with kubectl and with plain requests.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tests::kubectl::Kubectl;
use tests::process::logged;
use tests::wait::{TIMEOUT, eventually, so};
use tests::wire::{Pool, config};
use tokio::io::AsyncReadExt as _;

use crate::fleet::{Fleet, alone, shared};

fn proxy(site: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{site}/proxy")
}

/// The hub's kubeconfig with a site's proxy as its server.
fn through(fleet: &Fleet, site: &str) -> PathBuf {
    let mut config = kube::config::Kubeconfig::read_from(fleet.hub.kubeconfig()).unwrap();
    let cluster = config.clusters[0].cluster.as_mut().unwrap();
    cluster.server = Some(format!("{}{}", cluster.server.as_ref().unwrap(), proxy(site)));
    let file =
        fleet.folder.path().join(format!("through-{site}-{:?}.kubeconfig", std::thread::current().id()));
    std::fs::write(&file, serde_json::to_string(&config).unwrap()).unwrap();
    file
}

/// The whole body of an answer.
async fn body(pool: &Pool, path: &str) -> (u16, Bytes) {
    let request = Request::get(format!("{}{path}", pool.server())).body(Full::default()).unwrap();
    let answer = pool.send(request).await.unwrap();
    (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
}

#[test]
fn kubectl_on_a_members_proxy_sees_what_it_sees_on_the_member() {
    let Some(fleet) = shared() else { return };
    let member = &fleet.site("north").member;
    let (here, there) = (Kubectl::new(through(&fleet, "north")), member.kubectl());
    for args in [
        &["get", "nodes", "-o", "name"][..],
        &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"],
        &["api-resources", "--sort-by=name"],
        &["version", "-o", "json"],
        &["explain", "deployment.spec.replicas"],
    ] {
        assert_eq!(here.ok(args), there.ok(args), "{args:?}");
    }
    // Changes come as they happen.
    let folder = fleet.folder.path().to_owned();
    let watching =
        here.in_namespace("default").background(&["get", "configmaps", "-w"], "watch-through", &folder);
    eventually("the watch begins", TIMEOUT, || logged(&watching, "kube-root-ca.crt"));
    there.in_namespace("default").ok(&["create", "configmap", "seen-through"]);
    eventually("the watch shows it", TIMEOUT, || logged(&watching, "seen-through"));
    there.in_namespace("default").ok(&["delete", "configmap", "seen-through"]);
    // What the site does not allow is refused with what would allow it, and does nothing.
    let refused = here.in_namespace("default").refused(&["create", "configmap", "not-here"]);
    assert!(refused.contains("does not allow create") && refused.contains("--allow-requests"), "{refused}");
    let refused = here.in_namespace("default").refused(&["delete", "configmap", "kube-root-ca.crt"]);
    assert!(refused.contains("does not allow delete"), "{refused}");
    assert!(member.api().get("/api/v1/namespaces/default/configmaps/not-here").unwrap().is_none());
}

/// Megabytes, and a connection that becomes another protocol's.
#[test]
fn bytes_come_as_the_member_sent_them() {
    let Some(fleet) = shared() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let hub = Pool::new(&config(&fleet.hub.kubeconfig()).await.unwrap()).unwrap();
        let member = Pool::new(&config(&fleet.site("north").member.kubeconfig()).await.unwrap()).unwrap();
        let (_, direct) = body(&member, "/openapi/v2").await;
        assert!(direct.len() > 1 << 20, "{}", direct.len());
        let (code, passed) = body(&hub, &format!("{}/openapi/v2", proxy("north"))).await;
        assert_eq!((code, passed.len()), (200, direct.len()));
        assert!(passed == direct, "the document differs");
        let (code, missing) = body(&hub, &format!("{}/api/v1/namespaces/nowhere", proxy("north"))).await;
        assert!(code == 404 && missing.starts_with(b"{\"kind\":\"Status\""), "{code} {missing:?}");

        let path = format!("{}{}/api/v1/namespaces?watch=true", hub.server(), proxy("north"));
        let request = Request::get(path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("origin", "http://localhost")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(Full::default())
            .unwrap();
        let answer = hub.send(request).await.unwrap();
        if answer.status().as_u16() != 101 {
            panic!("{:?}", answer.into_body().collect().await.unwrap().to_bytes());
        }
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let mut upgraded = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        let mut seen = Vec::new();
        let told = async {
            let mut buffer = [0; 4096];
            while !seen.windows(13).any(|window| window == b"\"kube-system\"") {
                let length = upgraded.read(&mut buffer).await.unwrap();
                assert!(length > 0, "it ended");
                seen.extend_from_slice(&buffer[..length]);
            }
        };
        tokio::time::timeout(TIMEOUT, told).await.unwrap();
    });
}

/// Two keys to one door: the hub's RBAC says who may reach a site, the member's says what he may do there.
#[test]
fn who_asks_is_who_is_asked_for() {
    let Some(fleet) = shared() else { return };
    let hub = fleet.hub.kubectl();
    hub.apply(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reach-north}\nrules:\n\
         - {apiGroups: [cluster.karmada.io], resources: [clusters/proxy], resourceNames: [north], verbs: [get]}\n",
    );
    hub.ok(&["create", "clusterrolebinding", "reach-north", "--clusterrole=reach-north", "--user=jane"]);
    let member = &fleet.site("north").member;
    let path = format!("{}/api/v1/namespaces/kube-system/secrets", proxy("north"));
    let raw = |path: &str| ["get".to_owned(), "--raw".to_owned(), path.to_owned(), "--as=jane".to_owned()];
    let jane = |path: &str| {
        let args = raw(path);
        hub.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let refused = jane(&path).refused();
    assert!(refused.contains("User \"jane\" cannot list resource \"secrets\""), "{refused}");
    member.kubectl().ok(&["create", "clusterrole", "reads-secrets", "--verb=list", "--resource=secrets"]);
    member.kubectl().ok(&[
        "create",
        "clusterrolebinding",
        "jane",
        "--clusterrole=reads-secrets",
        "--user=jane",
    ]);
    eventually("the member lets her in", TIMEOUT, || {
        let said = jane(&path);
        so(said.status.success(), || said.to_string())
    });
    member.kubectl().ok(&["delete", "clusterrolebinding", "jane"]);
    // Another site is another door.
    let refused = jane(&format!("{}/api", proxy("south"))).refused();
    assert!(refused.contains("User \"jane\" cannot get resource \"clusters/proxy\""), "{refused}");
    hub.ok(&["delete", "clusterrolebinding", "reach-north"]);
    let refused = jane(&path).refused();
    assert!(refused.contains("clusters/proxy"), "{refused}");
}

#[test]
fn a_site_says_what_is_allowed_and_one_that_is_away_is_told_of_at_once() {
    let Some(mut fleet) = alone() else { return };
    let here = Kubectl::new(through(&fleet, "south"));
    let south = fleet.site_mut("south");
    south.agent.stop();
    south.agent.options().args.push("--allow-requests=get,list,create".to_owned());
    south.agent.start_again();
    fleet.site("south").await_ready(&fleet.hub);
    eventually("what is allowed now goes through", TIMEOUT, || {
        let said = here.in_namespace("default").run(&["create", "configmap", "through"]);
        so(said.status.success() || said.to_string().contains("already exists"), || said.to_string())
    });
    let made = fleet.site("south").member.kubectl().in_namespace("default");
    made.ok(&["get", "configmap", "through"]);
    let refused = here.refused(&["get", "pods", "-A", "--watch-only"]);
    assert!(refused.contains("does not allow watch"), "{refused}");
    made.ok(&["delete", "configmap", "through"]);

    let south = fleet.site_mut("south");
    south.agent.stop();
    south.agent.options().args.pop();
    let begun = Instant::now();
    let refused = here.refused(&["get", "nodes"]);
    assert!(refused.contains("south is not connected") && refused.contains("clusterlink south"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    fleet.mend();
}
