//! Plain requests to a Kubernetes API, member's or hub's: for predicates that look many times a second, where
//! starting kubectl would cost more than what is tested.
//!
//! In: a kubeconfig, then method, path and body. Out: the server's JSON or text, or an error whose HTTP status [`code`] tells. Calls block,
//! for a minute at most.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::runtime;

/// A connection to one API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    /// By the current context of a kubeconfig.
    ///
    /// # Errors
    /// The file cannot be read, or its current context leads to no server.
    pub fn from_kubeconfig(path: &Path) -> Result<Api> {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
        let _entered = runtime().enter();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options);
        let config = runtime().block_on(config).with_context(|| format!("{} is no use", path.display()))?;
        Ok(Api { client: Client::try_from(config)? })
    }

    /// The client itself, for watches; its futures must run on [`runtime`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The object or list at `path` (`/api/v1/…`), `None` where there is none.
    ///
    /// # Errors
    /// As of [`Api::send`], save a 404.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.send(Method::GET, path, "application/json", None) {
            Ok(value) => Ok(Some(value)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of the list at `path`.
    ///
    /// # Errors
    /// As of [`Api::send`]; there is nothing at `path`, or it is no list.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path)?.with_context(|| format!("{path} is not served"))?;
        match list.get("items") {
            Some(Value::Array(items)) => Ok(items.clone()),
            _ => bail!("{path} is no list: {list}"),
        }
    }

    /// Creates `object` in the collection at `path`.
    ///
    /// # Errors
    /// As of [`Api::send`].
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", Some(object))
    }

    /// Merges `patch` into the object at `path`.
    ///
    /// # Errors
    /// As of [`Api::send`].
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch))
    }

    /// Deletes what is at `path`.
    ///
    /// # Errors
    /// As of [`Api::send`].
    pub fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, "application/json", None)
    }

    /// Any request with a JSON answer.
    ///
    /// # Errors
    /// No answer within a minute, or one that is no success: [`code`] tells its status.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let what = format!("{method} {path}");
        let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request =
            Request::builder().method(method).uri(path).header("content-type", content_type).body(body)?;
        bounded(self.client.request(request)).context(what)
    }

    /// The text at `path` (`/readyz`, `/metrics`).
    ///
    /// # Errors
    /// As of [`Api::send`].
    pub fn text(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        bounded(self.client.request_text(request)).with_context(|| format!("GET {path}"))
    }

    /// `Ok` when `/readyz` says so: for waiting.
    ///
    /// # Errors
    /// In words: it does not say so, or does not answer.
    pub fn ready(&self) -> Result<(), String> {
        self.text("/readyz").map(drop).map_err(|error| format!("{error:#}"))
    }
}

/// A request that is never answered ends here: a test that hangs says nothing.
const ANSWER: Duration = Duration::from_secs(60);

fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T> {
    let answered = runtime().block_on(async { tokio::time::timeout(ANSWER, request).await });
    match answered {
        Ok(answer) => Ok(answer?),
        Err(_) => bail!("no answer within {} s", ANSWER.as_secs()),
    }
}

/// The HTTP status that an error of this module carries, if the server answered at all.
pub fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Text at a JSON pointer, empty where there is none.
pub fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The `status` of a condition (`True`, `False`, `Unknown`), empty where it is absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| text_at(condition, "/type") == kind);
    found.map_or("", |condition| text_at(condition, "/status"))
}
