//! Plain requests with everything a client can get wrong, and answers with everything a client reads.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use http::{HeaderMap, Method, Request};
use kube::Client;
use kube::client::{Body, ConfigExt as _};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tests::api::text_at;
use tests::runtime;
use tests::subject::Subject;
use tests::wait::{TIMEOUT, eventually, so};

/// How long a watch may keep silent about what has happened.
const SOON: Duration = Duration::from_secs(20);

/// Who sends requests.
#[derive(Clone)]
pub struct Caller {
    client: Client,
    config: Config,
}

/// A server that plain requests are sent to.
pub trait Calls {
    /// Requests as its administrator.
    fn caller(&self) -> Caller;
}

impl Calls for Subject {
    fn caller(&self) -> Caller {
        Caller::of_kubeconfig(&self.kubeconfig())
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request, for messages.
    pub what: String,
    /// The HTTP status.
    pub code: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl Caller {
    /// By a kubeconfig's current context.
    #[track_caller]
    pub fn of_kubeconfig(path: &Path) -> Caller {
        let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig can be read");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options);
        Caller::of(runtime().block_on(config).expect("the kubeconfig is complete"))
    }

    fn of(mut config: Config) -> Caller {
        // A refusal is what is looked at, also one that asks to come back.
        config.default_retry = false;
        let _entered = runtime().enter();
        Caller { client: Client::try_from(config.clone()).expect("a client can be made"), config }
    }

    /// The same server, with other credentials: none, a token, a certificate.
    pub fn with(&self, credentials: AuthInfo) -> Caller {
        let mut config = self.config.clone();
        config.auth_info = credentials;
        Caller::of(config)
    }

    /// The same server as nobody.
    pub fn anonymous(&self) -> Caller {
        self.with(AuthInfo::default())
    }

    /// The same server with a bearer token.
    pub fn with_token(&self, token: &str) -> Caller {
        self.with(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() })
    }

    /// Any request.
    #[track_caller]
    pub fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let what = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.into())).expect("the request can be written");
        let sent = runtime().block_on(async {
            let response = self.client.send(request).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, kube::Error>((parts, body.collect_bytes().await?))
        });
        let (parts, bytes) = sent.unwrap_or_else(|error| panic!("{what}: no answer: {error:?}"));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { what, code: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// The object, list or text at `path`.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "")
    }

    /// As [`Caller::get`], asking for a form.
    #[track_caller]
    pub fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", accept)], "")
    }

    /// Creates.
    #[track_caller]
    pub fn post(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], object.to_string())
    }

    /// Creates where the server may be gone: the status and the body, if there was an answer.
    pub fn try_post(&self, path: &str, object: &Value) -> Option<(u16, Value)> {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(object.to_string().into_bytes())).expect("it can be written");
        runtime().block_on(async {
            let (parts, body) = self.client.send(request).await.ok()?.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.ok()?).ok()?;
            Some((parts.status.as_u16(), body))
        })
    }

    /// Replaces.
    #[track_caller]
    pub fn put(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, &[("content-type", "application/json")], object.to_string())
    }

    /// Patches: `kind` is `json`, `merge`, `strategic-merge` or `apply`.
    #[track_caller]
    pub fn patch(&self, kind: &str, path: &str, patch: &Value) -> Answer {
        let form = if kind == "apply" { "yaml" } else { "json" };
        let content_type = format!("application/{kind}-patch+{form}");
        self.send(Method::PATCH, path, &[("content-type", &content_type)], patch.to_string())
    }

    /// Deletes, with `DeleteOptions` where they are not null.
    #[track_caller]
    pub fn delete(&self, path: &str, options: &Value) -> Answer {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send(Method::DELETE, path, &[("content-type", "application/json")], body)
    }

    /// Sends a request that makes of the connection something else; what comes after its answer.
    pub async fn upgraded(
        &self,
        request: Request<http_body_util::Empty<hyper::body::Bytes>>,
    ) -> hyper_util::rt::TokioIo<hyper::upgrade::Upgraded> {
        let address = self.config.cluster_url.authority().expect("the server has an address").to_string();
        let mut tls = self.config.rustls_client_config().expect("the credentials are good");
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tcp = tokio::net::TcpStream::connect(&address).await.expect("the server listens");
        let host = address.rsplit_once(':').expect("the address has a port").0.to_owned();
        let name = tokio_rustls::rustls::pki_types::ServerName::try_from(host).expect("the host is a name");
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
        let stream = connector.connect(name, tcp).await.expect("the server speaks TLS");
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(io).await.expect("it speaks HTTP");
        tokio::spawn(connection.with_upgrades());
        let response = sender.send_request(request).await.expect("there is an answer");
        assert_eq!(response.status(), 101);
        hyper_util::rt::TokioIo::new(hyper::upgrade::on(response).await.expect("the connection is upgraded"))
    }

    /// Begins a watch; `path` bears the query. It is established when this returns.
    #[track_caller]
    pub fn watch(&self, path: &str) -> Watch {
        let request = Request::get(path).body(Vec::new()).expect("the request can be written");
        let lines = runtime().block_on(self.client.request_stream(request));
        let mut lines = Box::pin(lines.unwrap_or_else(|error| panic!("GET {path}: {error:?}")).lines());
        let (sender, events) = channel();
        // Ends with the stream, or with the test's end of the channel at the next line.
        let task = runtime().spawn(async move {
            while let Ok(Some(line)) = lines.try_next().await {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Watch { path: path.to_owned(), events, task }
    }
}

impl Answer {
    /// The answer, if it has this status.
    #[track_caller]
    pub fn is(self, code: u16) -> Answer {
        assert_eq!(self.code, code, "{}: {}", self.what, self.text);
        self
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.text))
    }

    /// A header, empty where absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The texts of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
        values
            .filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'))
            .map(|text| text.replace("\\\"", "\""))
            .collect()
    }

    /// Checks that this is a `Status` of that code and reason, and returns its message.
    #[track_caller]
    pub fn refusal(&self, code: u16, reason: &str) -> String {
        assert_eq!(self.code, code, "{}: {}", self.what, self.text);
        let body = self.json();
        let shape = (text_at(&body, "/kind"), text_at(&body, "/apiVersion"), text_at(&body, "/status"));
        assert_eq!(shape, ("Status", "v1", "Failure"), "{}: {}", self.what, self.text);
        assert_eq!(body["code"], code, "{}: {}", self.what, self.text);
        assert_eq!(text_at(&body, "/reason"), reason, "{}: {}", self.what, self.text);
        text_at(&body, "/message").to_owned()
    }

    /// The causes of a refusal as `reason field`, sorted.
    #[track_caller]
    pub fn causes(&self) -> Vec<String> {
        let body = self.json();
        let causes = body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut causes: Vec<String> =
            causes.iter().map(|c| format!("{} {}", text_at(c, "/reason"), text_at(c, "/field"))).collect();
        causes.sort();
        causes
    }
}

/// A watch under way.
pub struct Watch {
    path: String,
    events: Receiver<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// The next event: its type and object.
    #[track_caller]
    pub fn next(&self) -> (String, Value) {
        match self.events.recv_timeout(SOON) {
            Ok(line) => event(&line),
            Err(RecvTimeoutError::Timeout) => panic!("{}: no event within {SOON:?}", self.path),
            Err(RecvTimeoutError::Disconnected) => panic!("{}: the watch ended", self.path),
        }
    }

    /// The next event as `TYPE name`.
    #[track_caller]
    pub fn next_short(&self) -> String {
        short(&self.next())
    }

    /// Every further event until the server ends the watch.
    #[track_caller]
    pub fn rest(&self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        loop {
            match self.events.recv_timeout(SOON) {
                Ok(line) => all.push(event(&line)),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("{}: not ended within {SOON:?}", self.path),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An event as `TYPE name`.
pub fn short((kind, object): &(String, Value)) -> String {
    format!("{kind} {}", text_at(object, "/metadata/name"))
}

#[track_caller]
fn event(line: &str) -> (String, Value) {
    let mut event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (text_at(&event, "/type").to_owned(), event["object"].take())
}

/// Waits until there is nothing at `path` any more.
#[track_caller]
pub fn gone(caller: &Caller, path: &str) {
    eventually(&format!("{path} to go"), TIMEOUT, || {
        let answer = caller.get(path);
        so(answer.code == 404, || answer.text)
    });
}
