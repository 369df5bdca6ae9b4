//! Certificates over HTTP: an agent's opens nothing, and one that has ended is refused at the next request.

use std::time::Duration;

use karmada_certs::{ClientKey, Subject};

use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn an_administrators_certificate_ends_on_a_live_connection() {
    let world = World::start().await;
    let mut admin = world.https(Some(&world.administrator(Duration::from_secs(600)))).await;
    assert_eq!(admin.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
    world.pass(601);
    assert_eq!(admin.send("GET", "/api/v1/namespaces").await.unwrap().0, 401);
    assert_eq!(admin.send("GET", "/healthz").await.unwrap().0, 401, "it is not let in as nobody, either");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_the_certificate_that_opened_it() {
    let world = World::start().await;
    let mut watching = world.https(Some(&world.administrator(Duration::from_secs(600)))).await;
    let mut lasting = world.https(Some(&world.administrator(Duration::from_secs(6000)))).await;
    let path = "/api/v1/namespaces?watch=true&timeoutSeconds=60&resourceVersion=0";
    let mut ended = tokio::spawn(async move { watching.text_until_cut(path).await });
    let mut stays = tokio::spawn(async move { lasting.text_until_cut(path).await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!ended.is_finished());
    world.pass(601);
    let text = tokio::time::timeout(Duration::from_secs(10), &mut ended).await.expect("it is cut").unwrap();
    assert!(text.contains("kube-system"), "it had been answered: {text}");
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut stays).await.is_err(), "the other one goes on");
    stays.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_certificate_opens_no_route() {
    let world = World::start().await;
    let owner = ClientKey::generate().unwrap();
    let agent = world.join("north", "u1", &owner).await.certificate(&owner);
    let issue = |name: &str, groups: &[&str]| {
        let organizations = groups.iter().map(|group| (*group).to_owned()).collect();
        let subject = Subject { common_name: name.to_owned(), organizations };
        let now = jiff::Timestamp::now();
        world
            .hub
            .data
            .authorities()
            .signing()
            .issue_client_with_key(&subject, crate::world::HOUR, now)
            .unwrap()
    };
    // Names that an older hub may have signed on approval.
    let odd = issue("system:karmada:agent:north", &["system:masters"]);
    let cased = issue("jane", &["System:Karmada:Agents"]);
    for (who, certificate) in [("the agent", &agent), ("its name among masters", &odd), ("its group", &cased)]
    {
        let mut https = world.https(Some(certificate)).await;
        for (method, path) in [
            ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/north"),
            ("PATCH", "/apis/cluster.karmada.io/v1alpha1/clusters/north/status"),
            ("GET", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works"),
            ("PUT", "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-north/works/a/status"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
            ("GET", "/api"),
            ("GET", "/version"),
        ] {
            assert_eq!(https.send(method, path).await.unwrap().0, 401, "{who}: {method} {path}");
        }
    }
    // A join writes no role for it.
    let roles = world.hub.registry.definition("rbac.authorization.k8s.io", "v1", "clusterroles").unwrap();
    assert!(world.hub.registry.get(&roles, "", "system:karmada:north:agent").is_err());
}

/// Annotations of a Cluster say by which key its site speaks and which one may take over.
#[tokio::test(flavor = "multi_thread")]
async fn who_writes_a_clusters_status_changes_none_of_its_annotations() {
    let world = World::start().await;
    let owner = ClientKey::generate().unwrap();
    world.join("north", "u1", &owner).await.certificate(&owner);
    // The controller adds its finalizer some time after the join: what is compared is what stands once it has.
    until("the finalizer", || {
        world.cluster("north").is_some_and(|cluster| cluster["metadata"]["finalizers"].is_array())
    })
    .await;
    let before = world.cluster("north").unwrap()["metadata"].clone();
    let mut admin = world.https(Some(&world.administrator(Duration::from_secs(600)))).await;
    let patch = br#"{"metadata":{"annotations":{"edge.karmada.io/adopt-key":"stolen"},"labels":{"a":"b"},"finalizers":["x.io/y"]},"status":{"kubernetesVersion":"v1.2.3"}}"#;
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/north/status";
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, _) = admin.send_body("PATCH", path, &headers, patch).await;
    assert_eq!(code, 200);
    let after = world.cluster("north").unwrap();
    assert_eq!(after["status"]["kubernetesVersion"], "v1.2.3");
    for field in ["annotations", "labels", "finalizers"] {
        assert_eq!(after["metadata"][field], before[field], "{field}");
    }
}
