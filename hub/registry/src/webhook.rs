//! Calls out: one HTTPS POST of JSON to a webhook, one GET of a document, bounded in time and size.
//!
//! In: where to ([`Target`]), the CA that the other end's certificate must come from, a body. Out: the answer's JSON, or why
//! there is none, in words. How many are under way at once, and to whom, stands in `call_slots`.

mod call_slots;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use karmada_definitions::ca_bundle::Trust;
use karmada_definitions::resource::StorageId;
use karmada_schema::object::ObjectKey;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub use self::call_slots::Purpose;
use crate::cache::Cache;

/// The largest answer that is read: what objects may weigh, many at once.
const LARGEST: usize = 64 << 20;
/// What may be answered to a request that says next to nothing.
const LEAST: usize = 4 << 20;

/// How much is read of the answer to a request of so many bytes: an answer is parsed into many times its size, and who sends little is
/// answered little.
fn room(sent: usize) -> usize {
    sent.saturating_mul(4).saturating_add(LEAST).min(LARGEST)
}

/// Kilobytes that all answers under way may hold together, those aside that are no longer than [`FREE`].
const ALL_ANSWERS: u32 = 192 << 10;
static ANSWERS: Semaphore = Semaphore::const_new(ALL_ANSWERS as usize);
/// What is not counted of an answer: nearly all are shorter.
const FREE: usize = 64 << 10;

/// An answer, and the room that it takes until it is dropped.
pub struct Answer {
    bytes: Bytes,
    _room: Option<SemaphorePermit<'static>>,
}

impl std::ops::Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body of at most so many bytes.
async fn read<B>(body: B, most: usize) -> Result<Answer, String>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let broke = |why: String| format!("the answer broke off: {why}");
    let (mut body, mut bytes) = (std::pin::pin!(body), BytesMut::new());
    let mut room: Option<SemaphorePermit<'static>> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broke(error.into().to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(broke(format!("it is longer than {most} bytes")));
        }
        bytes.extend_from_slice(&data);
        let wanted = bytes.len().saturating_sub(FREE).div_ceil(1024);
        let more = wanted.saturating_sub(room.as_ref().map_or(0, SemaphorePermit::num_permits));
        if more > 0 {
            let more = u32::try_from(more).map_err(|_| broke("it is too long".to_owned()))?;
            let more = ANSWERS.try_acquire_many(more);
            let more =
                more.map_err(|_| broke("the hub has no room for more long answers just now".to_owned()))?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
    }
    Ok(Answer { bytes: bytes.freeze(), _room: room })
}

/// The roots that a server's certificate must come from: those of `trust`, or else the machine's own.
///
/// # Errors
/// The bundle cannot be read, or holds no certificate.
pub fn roots(trust: &Trust) -> Result<Arc<rustls::RootCertStore>, String> {
    Ok(trust.roots()?.unwrap_or_else(of_the_machine))
}

/// The roots of a bundle in PEM; of an empty one the machine's own.
///
/// # Errors
/// The bundle cannot be read, or holds no certificate.
pub fn authorities(pem: &[u8]) -> Result<Arc<rustls::RootCertStore>, String> {
    roots(&Trust::of(pem.to_vec()))
}

/// The roots that the machine trusts: who gives no caBundle is believed by those. Read again now and then, not at each call: there are
/// more than a hundred.
fn of_the_machine() -> Arc<rustls::RootCertStore> {
    const FRESH: Duration = Duration::from_secs(10);
    static KEPT: Mutex<Option<(Instant, Arc<rustls::RootCertStore>)>> = Mutex::new(None);
    let mut kept = KEPT.lock();
    if let Some((read, roots)) = kept.as_ref()
        && read.elapsed() < FRESH
    {
        return roots.clone();
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let roots = Arc::new(roots);
    *kept = Some((Instant::now(), roots.clone()));
    roots
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host and port to connect to.
    pub address: (String, u16),
    /// The name that the certificate must bear.
    pub server_name: String,
    /// Path.
    pub path: String,
    /// The URL as messages name it.
    pub url: String,
}

impl Target {
    /// From an `https://` URL.
    ///
    /// # Errors
    /// It is none.
    pub fn of_url(url: &str) -> Result<Target, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url:?} is no URL: {error}"))?;
        let host = uri.host().ok_or_else(|| format!("{url:?} names no host"))?.to_owned();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let address = (name.clone(), uri.port_u16().unwrap_or(443));
        Ok(Target { address, server_name: name, path, url: url.to_owned() })
    }

    /// From a `clientConfig`. A hub has no cluster network: a service is reached where its Endpoints on the hub say, or its
    /// external name.
    ///
    /// # Errors
    /// The URL is none, or nobody knows where the service is.
    pub fn of_client(cache: &Cache, client: &Value) -> Result<Target, String> {
        if let Some(url) = client["url"].as_str() {
            return Target::of_url(url);
        }
        let text = |field: &str| client["service"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let port = client["service"]["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let key = ObjectKey::new(namespace, name);
        let find =
            |plural: &str| cache.get(&StorageId(format!("core/{plural}").into()), &key).map(|o| o.value());
        let external = find("services").and_then(|s| s["spec"]["externalName"].as_str().map(str::to_owned));
        let endpoint = || {
            let endpoints = find("endpoints")?;
            let subset = endpoints["subsets"].as_array()?.iter().find(|s| s["addresses"].is_array())?.clone();
            let address = subset["addresses"][0]["ip"].as_str()?.to_owned();
            let port = subset["ports"][0]["port"].as_u64().and_then(|p| u16::try_from(p).ok());
            Some((address, port.unwrap_or(443)))
        };
        let address = external.map(|host| (host, port)).or_else(endpoint).ok_or_else(|| {
            format!(
                "service \"{namespace}/{name}\" cannot be reached: a hub has no cluster network. Give a clientConfig.url, or keep Endpoints (or a Service of type ExternalName) of that name on the hub"
            )
        })?;
        Ok(Target::of_service(namespace, name, text("path"), address, port))
    }

    /// The same place, asked to answer within a time, as kube-apiserver asks.
    #[must_use]
    pub fn with_timeout(mut self, within: Duration) -> Target {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        let query = format!("{mark}timeout={}s", within.as_secs());
        self.path.push_str(&query);
        self.url.push_str(&query);
        self
    }

    /// A service, reached at an address that is known for it.
    pub fn of_service(namespace: &str, name: &str, path: &str, address: (String, u16), port: u16) -> Target {
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        let server_name = format!("{name}.{namespace}.svc");
        Target { address, url: format!("https://{server_name}:{port}{path}"), server_name, path }
    }
}

/// Posts `body`, JSON, when it is its turn, and reads what comes back.
///
/// # Errors
/// No connection, no trust, no time, no room, no turn, or a code other than 200.
pub async fn post(
    purpose: Purpose<'_>,
    (target, trust): (&Target, &Trust),
    body: Bytes,
    within: Duration,
) -> Result<Answer, String> {
    // A large future: on the heap, as it is part of the future of every request.
    let call = Box::pin(exchange(target, roots(trust).and_then(client), http::Method::POST, body));
    let outcome = call_slots::in_turn(purpose, target, within, call).await;
    outcome.map_err(|why| format!("Post {:?}: {why}", target.url))
}

/// Reads an answer of [`post`] into its fields: a tree of what is sent can take forty times its bytes, and holds what nobody asked for.
///
/// # Errors
/// It is no JSON, or not of those fields.
pub(crate) fn parsed<'a, T: serde::Deserialize<'a>>(
    target: &Target,
    answer: &'a Answer,
) -> Result<T, String> {
    serde_json::from_slice(answer)
        .map_err(|error| format!("Post {:?}: the answer is no JSON: {error}", target.url))
}

/// Gets the JSON at `target`. Without a CA, those that the system trusts are believed.
///
/// # Errors
/// As of [`post`], or it is no JSON.
pub async fn get(target: &Target, ca_pem: &[u8], within: Duration) -> Result<Value, String> {
    let call = async {
        let trust = authorities(ca_pem).and_then(client);
        let answer = exchange(target, trust, http::Method::GET, Bytes::new()).await?;
        serde_json::from_slice(&answer).map_err(|error| format!("the answer is no JSON: {error}"))
    };
    let outcome = tokio::time::timeout(within, call).await;
    let outcome = outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
    outcome.map_err(|why| format!("Get {:?}: {why}", target.url))
}

/// The body's type is that of requests passed on to other API servers: one HTTP client is enough.
fn boxed(body: Bytes) -> UnsyncBoxBody<Bytes, String> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

async fn exchange(
    target: &Target,
    trust: Result<rustls::ClientConfig, String>,
    method: http::Method,
    body: Bytes,
) -> Result<Answer, String> {
    let (host, port) = &target.address;
    let most = room(body.len());
    let tcp = TcpStream::connect((host.as_str(), *port)).await;
    let tcp = tcp.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        _ => format!("dial tcp {host}:{port}: {error}"),
    })?;
    let name = ServerName::try_from(target.server_name.clone()).map_err(|error| format!("tls: {error}"))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trust?));
    let tls = connector.connect(name, tcp).await.map_err(|error| format!("tls: {error}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
        .await
        .map_err(|error| format!("http: {error}"))?;
    let request = Request::builder()
        .method(method)
        .uri(target.path.as_str())
        .header(http::header::HOST, target.server_name.as_str())
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json")
        .body(boxed(body))
        .map_err(|error| format!("http: {error}"))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| format!("http: {error}"))?;
        let code = response.status();
        let bytes = read(response.into_body(), most).await?;
        if code != http::StatusCode::OK {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim().to_owned();
            return Err(format!("the server answered {code}: {text}"));
        }
        Ok(bytes)
    };
    tokio::pin!(answer);
    tokio::select! {
        outcome = &mut answer => outcome,
        // The connection may end before the answer is read to its end; what was sent is still there.
        _ = connection => answer.await,
    }
}

fn client(roots: Arc<rustls::RootCertStore>) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("tls: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_say_where_and_who() {
        let target = Target::of_url("https://a.b:8443/c").unwrap();
        assert_eq!(
            (target.address, target.server_name, target.path),
            (("a.b".into(), 8443), "a.b".into(), "/c".into())
        );
        assert_eq!(Target::of_url("https://[::1]/").unwrap().address, ("::1".into(), 443));
        let service = Target::of_service("n", "s", "", ("10.0.0.1".into(), 9443), 443);
        assert_eq!((service.server_name.as_str(), service.url.as_str()), ("s.n.svc", "https://s.n.svc:443/"));
        assert!(Target::of_url("https://").is_err());
    }

    #[tokio::test]
    async fn an_answer_is_read_as_far_as_what_was_sent_is_worth() {
        assert_eq!((room(0), room(1 << 20), room(usize::MAX)), (4 << 20, 8 << 20, 64 << 20));
        let body = |bytes: usize| Full::new(Bytes::from(vec![b' '; bytes]));
        assert_eq!(read(body(100), 100).await.unwrap().len(), 100);
        let refused = read(body(101), 100).await.err().unwrap();
        assert_eq!(refused, "the answer broke off: it is longer than 100 bytes");
    }

    #[tokio::test]
    async fn who_is_not_there_or_not_trusted_is_told_in_words() {
        let target = Target::of_url("https://127.0.0.1:1/").unwrap();
        let error = call(Purpose::Admission, &target, 5).await.unwrap();
        assert!(error.starts_with("Post \"https://127.0.0.1:1/\": dial tcp"), "{error}");
    }

    async fn call(purpose: Purpose<'_>, target: &Target, seconds: u64) -> Option<String> {
        let within = Duration::from_secs(seconds);
        post(purpose, (target, &Trust::default()), Bytes::new(), within).await.err()
    }

    #[tokio::test]
    async fn a_webhook_that_hangs_takes_no_place_from_another() {
        let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("https://{}/", hanging.local_addr().unwrap());
        let all = (0..700).map(|n| {
            let target = Target::of_url(&at).unwrap();
            let purpose = if n % 2 == 0 { Purpose::Admission } else { Purpose::Conversion("a.b") };
            tokio::spawn(async move { call(purpose, &target, 30).await })
        });
        let all: Vec<_> = all.collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let other = Target::of_url("https://127.0.0.1:1/").unwrap();
        for purpose in [Purpose::Admission, Purpose::Conversion("a.b")] {
            let why = call(purpose, &other, 1).await.unwrap();
            assert!(why.contains("dial tcp"), "{why}");
        }
        all.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
