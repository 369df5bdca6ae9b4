//! A member whose address leads new connections to another cluster, over loopback.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::kube::KubeMember;
use crate::verified_member::ProvenMember;
use crate::{Member, MemberError};

/// One address, behind which is `ours`, and `theirs` for connections that are made once it has moved.
#[derive(Default)]
struct Address {
    moved: AtomicBool,
    /// `ours` says 403 to who asks who it is.
    silent: AtomicBool,
    /// Every connection ends with its first answer.
    one_each: AtomicBool,
    /// Who was asked to create something.
    creates: Mutex<Vec<&'static str>>,
}

impl Address {
    async fn serve(self: Arc<Self>, listener: tokio::net::TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let address = self.clone();
            let who = if self.moved.load(Ordering::Acquire) { "theirs" } else { "ours" };
            let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                let address = address.clone();
                async move { Ok::<_, Infallible>(address.answer(who, &request).await) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    }

    async fn answer(&self, who: &'static str, request: &Request<hyper::body::Incoming>) -> Response<String> {
        let body = match request.uri().path() {
            "/api" => json!({"versions": ["v1"]}),
            "/apis" => json!({"groups": []}),
            "/api/v1" => json!({"groupVersion": "v1", "resources": [
                {"name": "namespaces", "kind": "Namespace", "namespaced": false, "verbs": ["get", "list", "watch", "create"]},
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get", "list", "watch", "create"]}]}),
            WHO => {
                json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": who}})
            }
            _ => {
                self.creates.lock().push(who);
                // Long enough that each of several at once needs a connection.
                tokio::time::sleep(Duration::from_millis(50)).await;
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default", "uid": "u"}})
            }
        };
        let mut response = Response::new(body.to_string());
        if self.silent.load(Ordering::Acquire) && request.uri().path() == WHO {
            *response.status_mut() = http::StatusCode::FORBIDDEN;
        }
        if self.one_each.load(Ordering::Acquire) {
            response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        response
    }
}

async fn rig() -> (Arc<Address>, Arc<KubeMember>, ProvenMember) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let address = Arc::new(Address::default());
    tokio::spawn(address.clone().serve(listener));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    let member = Arc::new(KubeMember::connect(Some(&file)).await.unwrap());
    let proven = ProvenMember::new(member.clone(), "ours".into());
    (address, member, proven)
}

async fn creates(proven: &ProvenMember, count: usize) -> Vec<Result<Value, MemberError>> {
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    futures::future::join_all((0..count).map(|_| proven.create(&config))).await
}

#[tokio::test]
async fn nothing_is_written_over_a_new_connection_that_leads_elsewhere() {
    let (address, member, proven) = rig().await;
    assert!(creates(&proven, 1).await[0].is_ok());
    address.moved.store(true, Ordering::Release);
    // The connection that stands is used on; the others that these need are new.
    let outcomes = creates(&proven, 8).await;
    assert!(outcomes.iter().any(Result::is_err));
    assert!(!address.creates.lock().contains(&"theirs"), "{:?}", address.creates.lock());
    assert_eq!(member.stranger().as_deref(), Some("theirs"));
    let found = tokio::time::timeout(Duration::from_secs(20), proven.watch_identity()).await;
    assert_eq!(found.expect("it is told at once"), "theirs");
    let written = address.creates.lock().len();
    let error = creates(&proven, 1).await.remove(0).unwrap_err().to_string();
    assert!(error.contains("theirs, not ours"), "{error}");
    assert_eq!(address.creates.lock().len(), written);
}

#[tokio::test]
async fn connections_that_lead_to_the_expected_cluster_are_used_as_ever() {
    let (address, member, proven) = rig().await;
    assert!(creates(&proven, 8).await.iter().all(Result::is_ok));
    assert!(creates(&proven, 8).await.iter().all(Result::is_ok));
    assert_eq!(*address.creates.lock(), ["ours"; 16]);
    assert_eq!((member.stranger(), member.breaks()), (None, 0));
}

/// What cannot say who it is may be read from, and is not written to before it can.
#[tokio::test]
async fn where_it_does_not_say_who_it_is_nothing_is_written() {
    let (address, member, proven) = rig().await;
    address.silent.store(true, Ordering::Release);
    let error = creates(&proven, 1).await.remove(0).unwrap_err();
    assert!(matches!(error, MemberError::Unproven(_)), "{error}");
    assert!(address.creates.lock().is_empty() && member.breaks() > 0);
    address.silent.store(false, Ordering::Release);
    assert!(creates(&proven, 1).await[0].is_ok());
}

/// A proxy that ends each connection after one answer: each is as good as the proof before it.
#[tokio::test]
async fn connections_for_one_request_each_are_usable() {
    let (address, _, proven) = rig().await;
    address.one_each.store(true, Ordering::Release);
    let id = crate::ObjectId {
        gvk: crate::Gvk::new("v1", "Namespace"),
        namespace: String::new(),
        name: "kube-system".into(),
    };
    assert!(proven.get(&id).await.unwrap().is_some());
}
