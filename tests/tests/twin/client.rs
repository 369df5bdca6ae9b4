//! Requests with everything a client can get wrong, answers as they were sent: nothing is decompressed, followed or tried again.

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use kube::config::AuthInfo;
use serde_json::Value;
use tests::runtime;
use tests::wire::{Pool, config};

use crate::protobuf;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// One server, as its administrator or as nobody.
pub struct Caller {
    admin: Pool,
    nobody: Pool,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum As {
    /// The administrator.
    Admin,
    /// Nobody.
    Anonymous,
    /// The bearer of a token.
    Token(String),
    /// A user that the administrator impersonates, and groups.
    User(String, Vec<String>),
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status; 0 where the connection broke off, with the reason as the body.
    pub code: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Its content type.
    pub fn media(&self) -> Option<&str> {
        self.headers.get("content-type").and_then(|value| value.to_str().ok())
    }

    /// The body as JSON, which protobuf is made into; null where it is neither.
    pub fn json(&self) -> Value {
        if protobuf::is_one(self.media()) {
            return protobuf::answer(&self.body);
        }
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    fn broken(why: String) -> Answer {
        Answer { code: 0, headers: HeaderMap::new(), body: why.into_bytes() }
    }
}

/// The answer, or why there is none in the words of whoever noticed.
async fn send(pool: &Pool, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, String> {
    let again = request.clone();
    match pool.send(request).await.map_err(|error| format!("{error:?}")) {
        // The server closed the connection after the answer before: it has not seen this one.
        Err(error) if error.contains("IncompleteMessage") => {
            pool.send(again).await.map_err(|error| format!("{error:?}"))
        }
        other => other,
    }
}

impl Caller {
    /// By a kubeconfig's current context.
    pub fn new(path: &Path) -> Caller {
        let _entered = runtime().enter();
        let pool = |config| Pool::new(&config).expect("the kubeconfig's keys can be used");
        let mut config = runtime().block_on(config(path)).expect("the kubeconfig is complete");
        let admin = pool(config.clone());
        config.auth_info = AuthInfo::default();
        Caller { admin, nobody: pool(config) }
    }

    /// A JSON request of the administrator's.
    pub fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        self.send(method, path, &headers, bytes, &As::Admin)
    }

    /// Any request.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
        who: &As,
    ) -> Answer {
        runtime().block_on(async {
            let all = async {
                match self.open(method, path, headers, body, who).await {
                    Ok(response) => {
                        let (parts, body) = response.into_parts();
                        match body.collect().await {
                            Ok(body) => Answer {
                                code: parts.status.as_u16(),
                                headers: parts.headers,
                                body: body.to_bytes().to_vec(),
                            },
                            Err(error) => Answer::broken(format!("{error:?}")),
                        }
                    }
                    Err(why) => Answer::broken(why),
                }
            };
            tokio::time::timeout(PATIENCE, all)
                .await
                .unwrap_or_else(|_| Answer::broken("no answer".to_owned()))
        })
    }

    /// Any request, answered as soon as its headers are there.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
        who: &As,
    ) -> Result<http::Response<Incoming>, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.admin.server()));
        if !headers.iter().any(|(name, _)| name == "user-agent") {
            request = request.header("user-agent", "twin/1.0");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match who {
            As::Token(token) => request = request.header("authorization", format!("Bearer {token}")),
            As::User(user, groups) => {
                request = request.header("impersonate-user", user);
                for group in groups {
                    request = request.header("impersonate-group", group);
                }
            }
            As::Admin | As::Anonymous => {}
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let pool = if matches!(who, As::Admin | As::User(..)) { &self.admin } else { &self.nobody };
        send(pool, request).await
    }
}
