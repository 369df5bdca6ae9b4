//! Requests over connections that are kept, with bodies as bytes: nothing is parsed, decompressed, followed or tried again.
//!
//! In: a kubeconfig. Out: answers as they were sent ([`Pool`]), or status codes and bodies as a bench wants them ([`Wire`]). Each
//! pool is a client of its own with its own connections (HTTP/1.1, as many as it has requests under way).

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

/// The server and the user of a kubeconfig's current context.
///
/// # Errors
/// The file cannot be read, or its current context leads to no server.
pub async fn config(kubeconfig: &Path) -> Result<Config> {
    let read =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    Ok(Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)
}

/// Connections with one identity.
pub struct Pool {
    server: String,
    send: Box<dyn Fn(Request<Full<Bytes>>) -> Sent + Send + Sync>,
}

impl Pool {
    /// To the server of `config`, with the certificate that is in it; its token is for the caller to send. Called on a runtime.
    ///
    /// # Errors
    /// What it says of certificates cannot be used.
    pub fn new(config: &Config) -> Result<Pool> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).build(config.rustls_https_connector()?);
        Ok(Pool { server, send: Box::new(move |request| Box::pin(client.request(request))) })
    }

    /// The server's address, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request; its answer's body is still to come.
    ///
    /// # Errors
    /// There is no connection, or it breaks before the answer's head.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        (self.send)(request).await
    }
}

/// One client of a bench.
pub struct Wire {
    user: Option<(String, String)>,
    pool: Pool,
}

impl Wire {
    /// By a kubeconfig's current context.
    ///
    /// # Errors
    /// As of [`config`] and [`Pool::new`].
    pub async fn new(kubeconfig: &Path) -> Result<Wire> {
        Ok(Wire { user: None, pool: Pool::new(&config(kubeconfig).await?)? })
    }

    /// The same as somebody else: a user and a group that the kubeconfig's user may impersonate.
    pub fn impersonating(mut self, user: &str, group: &str) -> Wire {
        self.user = Some((user.to_owned(), group.to_owned()));
        self
    }

    /// Sends a request; its answer's body is still to come.
    ///
    /// # Errors
    /// As of [`Pool::send`].
    pub async fn open(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.pool.server()))
            .header("user-agent", "bench/1.0")
            .header("content-type", "application/json");
        if let Some((user, group)) = &self.user {
            request = request.header("impersonate-user", user).header("impersonate-group", group);
        }
        let sent = self.pool.send(request.body(Full::new(body))?).await;
        sent.with_context(|| format!("{path} on {}", self.pool.server()))
    }

    /// Sends a request and reads its whole answer.
    ///
    /// # Errors
    /// As of [`Wire::open`]; the answer breaks off, or is no success: its words are the error's.
    pub async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.open(method, path, body).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(code.is_success(), "{path}: {code}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
