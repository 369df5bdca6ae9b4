//! Requests as a bench sends them: one identity, connections that are kept, bodies as bytes, nothing parsed that is not asked for.
//!
//! In: a kubeconfig. Out: status codes and bodies. Each [`Wire`] is a client of its own with its own connections (HTTP/1.1, as
//! many as it has requests under way).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

type Sent = BoxFuture<'static, Result<Response<Incoming>, hyper_util::client::legacy::Error>>;

/// One client.
pub struct Wire {
    server: String,
    user: Option<(String, String)>,
    send: Box<dyn Fn(Request<Full<Bytes>>) -> Sent + Send + Sync>,
}

impl Wire {
    /// By a kubeconfig's current context.
    pub async fn new(kubeconfig: &Path) -> Result<Wire> {
        let read = Kubeconfig::read_from(kubeconfig)
            .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).build(config.rustls_https_connector()?);
        Ok(Wire { server, user: None, send: Box::new(move |request| Box::pin(client.request(request))) })
    }

    /// The same as somebody else: a user and a group that the kubeconfig's user may impersonate.
    pub fn impersonating(mut self, user: &str, group: &str) -> Wire {
        self.user = Some((user.to_owned(), group.to_owned()));
        self
    }

    /// Sends a request; its answer's body is still to come.
    pub async fn open(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("user-agent", "bench/1.0")
            .header("content-type", "application/json");
        if let Some((user, group)) = &self.user {
            request = request.header("impersonate-user", user).header("impersonate-group", group);
        }
        (self.send)(request.body(Full::new(body))?)
            .await
            .with_context(|| format!("{path} on {}", self.server))
    }

    /// Sends a request and reads its whole answer; anything but success is an error with the answer's words.
    pub async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.open(method, path, body).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(code.is_success(), "{path}: {code}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
