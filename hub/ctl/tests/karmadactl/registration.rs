//! Tokens, `register`, and every way in which a cluster does not come to its hub.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::cluster::{Cluster, NAMESPACE, identity, register_line, stderr};

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
