//! A watch of a member that goes and comes back, over loopback.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Response;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::*;
use crate::member::kube::KubeMember;
use crate::member::{Gvk, Member};

type Answer = StreamBody<BoxStream<'static, Result<Frame<bytes::Bytes>, std::io::Error>>>;

/// Serves lists of one ConfigMap at a version, and watches that are silent until they are cut.
struct Server {
    version: AtomicU64,
    cuts: tokio::sync::watch::Sender<u64>,
    /// Versions that watches were opened at.
    opened: parking_lot::Mutex<Vec<String>>,
}

impl Server {
    fn answer(&self, uri: &http::Uri) -> Response<Answer> {
        let query = uri.query().unwrap_or_default();
        let version = self.version.load(Ordering::Acquire);
        let body = match uri.path() {
            "/api" => json!({"versions": ["v1"]}),
            "/apis" => json!({"groups": []}),
            "/api/v1" => json!({"groupVersion": "v1", "resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get", "list", "watch", "create"]}]}),
            _ if query.contains("watch=true") => {
                let at = query.rsplit("resourceVersion=").next().unwrap_or_default();
                self.opened.lock().push(at.to_owned());
                let mut cuts = self.cuts.subscribe();
                let end = async move {
                    let _ = cuts.changed().await;
                    None
                };
                return Response::new(StreamBody::new(
                    stream::once(end).filter_map(|end| async { end }).boxed(),
                ));
            }
            _ => json!({"metadata": {"resourceVersion": version.to_string()},
                "items": [{"metadata": {"name": format!("at-{version}"), "namespace": "default"}}]}),
        };
        let body = bytes::Bytes::from(body.to_string());
        Response::new(StreamBody::new(stream::iter([Ok(Frame::data(body))]).boxed()))
    }
}

async fn serve(server: Arc<Server>, listener: tokio::net::TcpListener) {
    // They end with the server.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let server = server.clone();
        let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = server.answer(request.uri());
            async move { Ok::<_, Infallible>(answer) }
        });
        connections.spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

/// What is told from now on: `(`, names, `)`.
async fn told(events: &mut BoxStream<'static, Result<MemberEvent, MemberError>>) -> String {
    let mut told = String::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(2), events.next()).await;
        match next.ok().flatten().map(Result::unwrap) {
            Some(MemberEvent::Listing) => told.push('('),
            Some(MemberEvent::Object(object)) => told.push_str(object::name(&object)),
            Some(MemberEvent::Listed) => told.push(')'),
            Some(MemberEvent::Gone(_)) => told.push('-'),
            None => return told,
        }
    }
}

#[tokio::test]
async fn a_member_that_is_behind_what_was_seen_is_listed_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::new(Server {
        version: AtomicU64::new(100),
        cuts: tokio::sync::watch::Sender::new(0),
        opened: parking_lot::Mutex::default(),
    });
    let serving = tokio::spawn(serve(server.clone(), listener));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    let member = KubeMember::connect(Some(&file)).await.unwrap();
    let gvk = Gvk::new("v1", "ConfigMap");
    let mut events =
        member.watch(Watch { gvk, namespace: String::new(), labels: String::new(), fields: String::new() });
    assert_eq!(told(&mut events).await, "(at-100)");
    let cut = || server.cuts.send_modify(|cuts| *cuts += 1);
    // A watch that is cut while the member goes on is resumed.
    server.version.store(105, Ordering::Release);
    cut();
    assert_eq!(told(&mut events).await, "");
    assert_eq!(*server.opened.lock(), ["100", "100"]);
    // Put back to a backup, without a request that failed meanwhile.
    server.version.store(50, Ordering::Release);
    cut();
    assert_eq!(told(&mut events).await, "(at-50)");
    assert_eq!(server.opened.lock().last().unwrap(), "50");
    // Put back, and past what was seen already: all that tells of it is that it was away.
    serving.abort();
    let _ = serving.await;
    assert_eq!(told(&mut events).await, "");
    server.version.store(200, Ordering::Release);
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    tokio::spawn(serve(server.clone(), listener));
    assert_eq!((told(&mut events).await + &told(&mut events).await), "(at-200)");
}
