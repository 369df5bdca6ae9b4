//! Requests to servers of the tests' own, which answer late, half, wrong or not at all.

use serde_json::json;

use super::*;

async fn member_at(address: std::net::SocketAddr) -> KubeMember {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    std::fs::write(&file, text).unwrap();
    KubeMember::connect(Some(&file)).await.unwrap()
}

/// What is served changed in both documents, and the second could not be read at first.
#[tokio::test]
async fn discovery_that_failed_half_way_is_not_taken_for_what_is_known() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = AtomicUsize::new(0);
    let member = fake::member_that(move |request| {
        let is_known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|tag| tag == "now");
        let versions = |resources: Value| {
            json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "apps"},
                "versions": [{"version": "v1", "resources": resources}]}]})
        };
        let deployments = json!([{"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
            "verbs": ["get", "list", "watch"]}]);
        let (status, body) = match request.uri().path() {
            _ if is_known => (StatusCode::NOT_MODIFIED, Value::Null),
            "/api" => (StatusCode::OK, json!({"kind": "APIGroupDiscoveryList", "items": []})),
            _ if asked.fetch_add(1, Ordering::Relaxed) == 0 => (StatusCode::SERVICE_UNAVAILABLE, Value::Null),
            _ => (StatusCode::OK, versions(deployments)),
        };
        let mut answer = fake::said(status, body.to_string());
        answer.headers_mut().insert(header::CONTENT_TYPE, AGGREGATED.parse().unwrap());
        answer.headers_mut().insert(header::ETAG, "now".parse().unwrap());
        answer
    })
    .await;
    assert!(member.inner.discover().await.is_err());
    let served = member.inner.discover().await.unwrap();
    let deployment = Gvk { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() };
    assert!(served.resource(&deployment).is_some(), "what was read before the failure was read again");
}

#[tokio::test]
async fn a_write_that_was_sent_and_not_answered_is_told_from_one_that_was_not_sent() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let member = member_at(listener.local_addr().unwrap()).await;
    let ends = [
        "",
        "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{",
    ];
    let serving = tokio::spawn(async move {
        for answer in ends.iter().flat_map(|answer| [answer; 2]) {
            let (mut connection, _) = listener.accept().await.unwrap();
            let _ = connection.read(&mut [0; 4096]).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    for answer in ends {
        for method in [Method::GET, Method::POST] {
            let request = Request::builder().method(&method).uri("/api").body(Body::empty()).unwrap();
            let error = member.inner.call(request).await.unwrap_err();
            assert_eq!(error.leaves_open(), method == Method::POST, "{answer:?} {method}: {error}");
        }
    }
    serving.await.unwrap();
    let request = Request::post("/api").body(Body::empty()).unwrap();
    let error = member.inner.call(request).await.unwrap_err();
    assert!(matches!(error, MemberError::Unreachable(_)), "nobody listens: {error:?}");
}

/// A proxy, a portal before the network, a server that is another by now: what is there is not known by it.
#[tokio::test]
async fn a_success_that_names_another_object_is_none() {
    let config = |namespace: &str, name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "uid": uid}});
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "d", "uid": "u"}});
    let others = [
        json!({}),
        json!([]),
        json!("ok"),
        status,
        secret,
        config("d", "b", "u"),
        config("e", "a", "u"),
        config("", "a", "u"),
        json!({"apiVersion": "example.com/v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d", "uid": "u"}}),
    ];
    let answers: Arc<Mutex<Value>> = Arc::default();
    let told = answers.clone();
    let served = json!({"kind": "APIResourceList", "groupVersion": "v1",
        "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get", "create"]}]});
    let member = fake::member(move |uri| match uri.path() {
        "/api" | "/apis" => fake::said(StatusCode::OK, "{}"),
        "/api/v1" => fake::said(StatusCode::OK, served.to_string()),
        _ => fake::said(StatusCode::OK, told.lock().to_string()),
    })
    .await;
    let object = config("d", "a", "");
    let id = ObjectId::of(&object);
    for answer in others.into_iter().chain([config("d", "a", "")]) {
        *answers.lock() = answer.clone();
        let writes = [
            member.create(&object).await,
            member.apply(&object).await,
            member.update(&object).await,
            member.merge(&id, &json!({})).await,
        ];
        for written in writes {
            let error = written.expect_err(&answer.to_string());
            assert!(error.leaves_open() && error.to_string().contains("something else"), "{answer}: {error}");
        }
        let read = member.get(&id).await;
        assert_eq!(read.is_err(), answer != config("d", "a", ""), "{answer}: {read:?}");
        member.delete(&id, "u").await.unwrap();
    }
    *answers.lock() = config("d", "a", "u");
    member.create(&object).await.unwrap();
    member.merge(&id, &json!({})).await.unwrap();
    assert!(member.get(&id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_member_that_is_down_is_not_said_to_serve_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let member = member_at(closed).await;
    let breaks = member.breaks();
    for _ in 0..3 {
        let error = crate::cluster_uid(&member).await.unwrap_err();
        assert!(matches!(error, MemberError::Unreachable(_)), "{error}");
    }
    assert!(member.breaks() > breaks);
}

/// Whether an older member, which has no readyz, is healthy says its healthz; where there is a readyz nothing else is asked.
#[tokio::test]
async fn statement_62_a_member_is_healthy_as_its_readyz_says_or_its_healthz_where_there_is_none() {
    let (ok, absent, broken) = (StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR);
    for (readyz, healthz, wanted) in [
        (ok, broken, Probe::Ok),
        (absent, ok, Probe::Ok),
        (broken, ok, Probe::Unhealthy),
        (absent, broken, Probe::Unhealthy),
        (absent, absent, Probe::Unhealthy),
    ] {
        let member = fake::member(move |uri| match uri.path() {
            "/readyz" => fake::said(readyz, ""),
            "/healthz" => fake::said(healthz, ""),
            _ => fake::said(ok, "{}"),
        })
        .await;
        assert_eq!(member.probe().await, wanted, "{readyz} {healthz}");
    }
}
