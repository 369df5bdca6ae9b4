//! An API server over loopback whose answers are a function of what is asked, for tests.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::KubeMember;

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The member that answers so, by what is asked for.
pub(super) async fn member(answer: impl Fn(&Uri) -> Answer + Send + Sync + 'static) -> KubeMember {
    member_that(move |request| answer(request.uri())).await
}

/// The member that answers so.
pub(super) async fn member_that(
    answer: impl Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
) -> KubeMember {
    let answer = Arc::new(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    KubeMember::connect(Some(&file)).await.unwrap()
}

/// An answer that is said at once.
pub(super) fn said(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(BoxBody::new(http_body_util::Full::new(body.into())));
    *response.status_mut() = status;
    response
}
