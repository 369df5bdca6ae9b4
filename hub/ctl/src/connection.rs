//! One Kubernetes API, spoken in JSON objects. In: a kubeconfig's context, paths, objects. Out: objects, or an error that says
//! which server, what was asked of it, and what it answered.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::kubeconfig::{self, Chosen};
use crate::output::words;

/// The owner of the fields that karmadactl applies.
pub const FIELD_MANAGER: &str = "karmadactl";

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a server may be silent within an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// How long a whole answer may take, however it comes: the largest that is taken comes in this time at 5 Mbit/s.
const WHOLE: Duration = Duration::from_secs(120);

/// No answer may be larger: it is held in memory, as what it says takes several times as much. A list of a fleet of thousands is of some
/// ten.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server answered, and said no.
    #[error("{server} refused: {method} {path}: {message}{}", hint(*code))]
    Refused {
        /// Its URL.
        server: String,
        /// What was asked.
        method: Method,
        /// Of which object.
        path: String,
        /// The HTTP status.
        code: u16,
        /// Its words.
        message: String,
    },
    /// An answer that cannot be read.
    #[error("the answer of {server} cannot be used: {why}: is this the address of a Kubernetes API?")]
    Unusable {
        /// Its URL.
        server: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// No answer.
    #[error(
        "cannot reach {server}: {cause}: check the server's address and that this machine can connect to it"
    )]
    Unreachable {
        /// Its URL.
        server: String,
        /// What the connection said.
        cause: String,
    },
}

impl ApiError {
    /// The HTTP status, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Refused { code, .. } => Some(*code),
            ApiError::Unusable { .. } | ApiError::Unreachable { .. } => None,
        }
    }

    /// Whether the API server cannot be reached: no connection at all, or a proxy's 502, 503 or 504.
    pub fn is_away(&self) -> bool {
        self.code().is_none_or(|code| (502..=504).contains(&code))
    }
}

fn hint(code: u16) -> &'static str {
    match code {
        401 => ": the kubeconfig's credential is not accepted there: check --kubeconfig and --context",
        403 => ": use a kubeconfig whose user may do this",
        _ => "",
    }
}

/// An API server and the context by which it was found.
pub struct Connection {
    client: Client,
    /// How long a whole answer may take.
    patience: Duration,
    /// Its URL, without a slash at the end.
    pub server: String,
    /// The context.
    pub chosen: Chosen,
    /// The CA certificates that the kubeconfig trusts, as PEM.
    pub ca: Option<String>,
}

impl Connection {
    /// Reads the kubeconfig; nothing is sent yet.
    pub async fn open(file: Option<&Path>, context: Option<&str>) -> Result<Connection> {
        let config = kubeconfig::load(file)?;
        let chosen = kubeconfig::choose(&config, context)?;
        let ca = authority(&config, &chosen.cluster)?;
        let options = KubeConfigOptions { context: Some(chosen.context.clone()), ..Default::default() };
        let mut config = Config::from_custom_kubeconfig(config, &options)
            .await
            .with_context(|| format!("the kubeconfig's context {} cannot be used", chosen.context))?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(ANSWER);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client =
            Client::try_from(config).with_context(|| format!("preparing the connection to {server}"))?;
        Ok(Connection { client, patience: WHOLE, server, chosen, ca })
    }

    /// Whether the server answers within `patience`; an error that says so where it does not. What it answers does not matter.
    pub async fn answers(&self, patience: Duration) -> Result<(), ApiError> {
        match tokio::time::timeout(patience, self.get("/version")).await {
            Ok(Err(error)) if error.is_away() => Err(error),
            Ok(_) => Ok(()),
            Err(_) => Err(ApiError::Unreachable {
                server: self.server.clone(),
                cause: format!("no answer in {}", crate::duration::human(patience)),
            }),
        }
    }

    /// Sends one request; an empty `body` sends none. `headers` are (name, value).
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = self.exchange(&method, path, headers, body).await;
        // Neither headers nor bodies: they may hold credentials.
        match &answer {
            Ok(_) => tracing::debug!(server = self.server, %method, path, "answered"),
            Err(error) => tracing::debug!(server = self.server, %method, path, %error, "refused"),
        }
        serde_json::from_slice(&answer?).map_err(|error| self.unusable(format!("it is no JSON: {error}")))
    }

    /// One request and its whole answer, which ends in time and is no larger than an answer may be.
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Bytes, ApiError> {
        let mut request = Request::builder().method(method.clone()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| self.unreachable(&kube::Error::HttpError(error)))?;
        let exchanged = tokio::time::timeout(self.patience, async {
            let sent = self.client.send(request).await.map_err(|error| self.unreachable(&error))?;
            let (parts, body) = sent.into_parts();
            Ok((parts.status, Limited::new(body, ANSWER_LIMIT).collect().await))
        });
        let late = |_| self.unusable(format!("it did not end in {}", crate::duration::human(self.patience)));
        let (status, answer) = exchanged.await.map_err(late)??;
        let answer = answer.map_err(|error| {
            if error.is::<LengthLimitError>() {
                self.unusable(format!("it is larger than {} MiB", ANSWER_LIMIT >> 20))
            } else {
                self.unreachable(&*error)
            }
        })?;
        let answer = answer.to_bytes();
        if status.is_success() {
            return Ok(answer);
        }
        let path = path.split('?').next().unwrap_or(path).to_owned();
        let (server, message) = (self.server.clone(), refusal(status, &answer));
        Err(ApiError::Refused { server, method: method.clone(), path, code: status.as_u16(), message })
    }

    fn unusable(&self, why: String) -> ApiError {
        ApiError::Unusable { server: self.server.clone(), why }
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> ApiError {
        // The outer errors of the stack say only that there was one inside.
        let mut innermost = error;
        while let Some(inner) = innermost.source() {
            innermost = inner;
        }
        ApiError::Unreachable { server: self.server.clone(), cause: words(&innermost.to_string()) }
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, &[("accept", "application/json")], None).await
    }

    /// Reads what is no object.
    pub async fn text(&self, path: &str) -> Result<String, ApiError> {
        let answer = self.exchange(&Method::GET, path, &[], Vec::new()).await?;
        String::from_utf8(answer.into()).map_err(|_| self.unusable("it is no text".to_owned()))
    }

    /// Reads an object that may not be there.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, ApiError> {
        absent_is_none(self.get(path).await)
    }

    /// Creates an object in the collection at `path`.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let path = with_query(path, &format!("fieldManager={FIELD_MANAGER}"));
        self.send(Method::POST, &path, &[("content-type", "application/json")], Some(object)).await
    }

    /// Applies an object on the server's side, taking over the fields it names.
    pub async fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        let path = with_query(&object_path(object), &format!("fieldManager={FIELD_MANAGER}&force=true"));
        // JSON is YAML.
        self.send(Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], Some(object))
            .await
    }

    /// Merges `patch` into an object.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let path = with_query(path, &format!("fieldManager={FIELD_MANAGER}"));
        self.send(Method::PATCH, &path, &[("content-type", "application/merge-patch+json")], Some(patch))
            .await
    }

    /// Asks for an object's deletion; false if it is not there.
    pub async fn delete(&self, path: &str) -> Result<bool, ApiError> {
        let options = serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let headers = [("content-type", "application/json")];
        Ok(absent_is_none(self.send(Method::DELETE, path, &headers, Some(&options)).await)?.is_some())
    }
}

/// Why a server did not do what was asked: its own words, where it has any.
fn refusal(status: StatusCode, answer: &[u8]) -> String {
    let parsed: Option<Value> = serde_json::from_slice(answer).ok();
    let said = parsed.as_ref().and_then(|status| status["message"].as_str()).map(words);
    let said = said.unwrap_or_else(|| words(&String::from_utf8_lossy(answer)));
    if said.is_empty() { format!("it answered {status}") } else { said }
}

fn absent_is_none(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `path?query`, or `path&query` where there is one already.
fn with_query(path: &str, query: &str) -> String {
    let mark = if path.contains('?') { '&' } else { '?' };
    format!("{path}{mark}{query}")
}

/// The path of an object of one of the kinds that an agent's installation consists of (their plurals all end in `s`).
pub fn object_path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let plural = format!("{}s", text(&object["kind"]).to_lowercase());
    let name = text(&object["metadata"]["name"]);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{version}/{plural}/{name}"),
    }
}

/// The CA of a kubeconfig's cluster, from its data or its file.
fn authority(config: &Kubeconfig, cluster: &str) -> Result<Option<String>> {
    let named = config.clusters.iter().find(|named| named.name == cluster);
    let Some(cluster) = named.and_then(|named| named.cluster.as_ref()) else { return Ok(None) };
    if let Some(data) = &cluster.certificate_authority_data {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(data.trim())
            .context("the kubeconfig's certificate-authority-data is not base64")?;
        return Ok(Some(String::from_utf8(bytes).context("the kubeconfig's CA is not PEM")?));
    }
    let Some(file) = &cluster.certificate_authority else { return Ok(None) };
    let text = std::fs::read_to_string(file).with_context(|| format!("reading the CA {file}"))?;
    Ok(Some(text))
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_know_their_path() {
        for (object, path) in [
            (
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
                "/api/v1/namespaces/n",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}),
                "/api/v1/namespaces/n/secrets/s",
            ),
            (
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}}),
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/c",
            ),
        ] {
            assert_eq!(object_path(&object), path);
        }
        assert_eq!(with_query("/a", "x=1"), "/a?x=1");
        assert_eq!(with_query("/a?b=2", "x=1"), "/a?b=2&x=1");
    }
}
