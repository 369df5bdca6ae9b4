//! Passing a request on to the server that answers its group, and its answer back.
//!
//! In: a request whose user is known and allowed. Out: the other server's response: whole, a stream, or an upgraded connection
//! (exec and the like) whose bytes are copied both ways. Who asks stands in `X-Remote-*` headers; the client's own credentials
//! and headers of that name go no further than here.

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::{Response, StatusCode, request};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use karmada_definitions::status::Status;
use karmada_registry::User;

use super::connection::{self, Outgoing, Trust};
use super::{Aggregator, Handed, locate};
use crate::http::{Body, Received};

/// Headers that are about one connection only, beside those that `Connection` names.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Where a connection is to become another: what `Connection` says then, and nothing beside it.
const TO_UPGRADE: HeaderValue = HeaderValue::from_static("Upgrade");

impl Aggregator {
    /// Passes a request on. `upgrade`: the client's connection, where it may become something else.
    pub(crate) async fn pass(
        &self,
        handed: &Handed,
        user: &User,
        parts: &request::Parts,
        body: Received,
        upgrade: Option<OnUpgrade>,
    ) -> Result<Response<Body>, Status> {
        let unavailable = || Status::plain(503, "service unavailable\n");
        if !handed.available {
            return Err(unavailable());
        }
        let address = locate::address(&self.cache, &handed.service).map_err(|_| unavailable())?;
        let mut request = http::Request::builder()
            .method(parts.method.clone())
            .uri(parts.uri.path_and_query().map_or("/", |uri| uri.as_str()))
            .body(body)
            .map_err(|error| Status::plain(500, format!("{error}\n")))?;
        *request.headers_mut() = headers(&parts.headers, user);
        let host = HeaderValue::from_str(&handed.server_name());
        request.headers_mut().insert(HOST, host.map_err(|_| unavailable())?);
        let answer = self.ask(handed, &address, request).await.map_err(|why| {
            tracing::warn!(apiservice = handed.name, %why, "another API server cannot be reached");
            Status::plain(503, format!("error trying to reach service: {why}\n"))
        })?;
        Ok(passed_back(answer, upgrade))
    }

    /// Sends a request to the server that answers a group.
    pub(super) async fn ask(
        &self,
        handed: &Handed,
        address: &(String, u16),
        request: http::Request<Outgoing>,
    ) -> Result<Response<hyper::body::Incoming>, String> {
        let trust = Trust { server_name: handed.server_name(), ca: &handed.trust, insecure: handed.insecure };
        Box::pin(connection::send(address, &trust, &self.identity.load_full(), request)).await
    }
}

fn passed_back(answer: Response<hyper::body::Incoming>, upgrade: Option<OnUpgrade>) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    parts.headers = end_to_end(&parts.headers);
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = parts.extensions.remove::<OnUpgrade>();
        if let (Some(ours), Some(theirs)) = (upgrade, theirs) {
            tokio::spawn(copy(ours, theirs));
        }
        return Response::from_parts(parts, Empty::new().boxed_unsync());
    }
    parts.headers.remove(UPGRADE);
    parts.headers.remove(CONNECTION);
    // An answer that breaks off ends here; what was promised of its length tells the client.
    let frames = futures::stream::unfold(body, |mut body| async move {
        match body.frame().await? {
            Ok(frame) => Some((Ok(frame), body)),
            Err(error) => {
                tracing::debug!(%error, "another API server's answer broke off");
                None
            }
        }
    });
    let mut response = Response::from_parts(parts, StreamBody::new(Box::pin(frames)).boxed_unsync());
    response.extensions_mut().clear();
    response
}

async fn copy(ours: OnUpgrade, theirs: OnUpgrade) {
    let both = async { tokio::try_join!(ours, theirs) };
    match both.await {
        Ok((ours, theirs)) => {
            let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
        }
        Err(error) => tracing::debug!(%error, "a connection could not be upgraded"),
    }
}

/// The names in `Connection`.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// What goes further than one connection (RFC 9110, 7.6.1), and the wish to make the connection another, where both headers
/// that it takes say so.
fn end_to_end(from: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(from);
    let of_one_connection = |name: &HeaderName| {
        HOP_BY_HOP.contains(&name.as_str()) || named.iter().any(|named| named == name.as_str())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in from.iter().filter(|(name, _)| !of_one_connection(name)) {
        headers.append(name.clone(), value.clone());
    }
    if let Some(other) = from.get(UPGRADE).filter(|_| named.iter().any(|name| name == "upgrade")) {
        headers.insert(CONNECTION, TO_UPGRADE);
        headers.insert(UPGRADE, other.clone());
    }
    headers
}

/// The headers as the other server gets them. Who asks is said last: no header of the client's takes that away.
fn headers(from: &HeaderMap, user: &User) -> HeaderMap {
    let dropped = |name: &HeaderName| {
        let text = name.as_str();
        matches!(text, "authorization" | "host" | "x-remote-user" | "x-remote-uid" | "x-remote-group")
            || text.starts_with("x-remote-extra-")
            || text.starts_with("impersonate-")
    };
    let mut headers = HeaderMap::new();
    for (name, value) in end_to_end(from).iter().filter(|(name, _)| !dropped(name)) {
        headers.append(name.clone(), value.clone());
    }
    set_user(&mut headers, user);
    headers
}

/// Says who asks.
pub(super) fn set_user(headers: &mut HeaderMap, user: &User) {
    let mut say = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    };
    say("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        say("x-remote-uid", &user.uid);
    }
    user.groups.iter().for_each(|group| say("x-remote-group", group));
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escaped(key));
        values.iter().for_each(|value| say(&name, value));
    }
}

/// A key as part of a header's name: what cannot stand there is percent-encoded.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        let stands = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        if stands {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A GET of a document, as the aggregator itself.
pub(super) fn get(path: &str, host: &str, accept: &str) -> Option<http::Request<Outgoing>> {
    let nothing = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let request = http::Request::get(path).header(HOST, host).header(http::header::ACCEPT, accept);
    let mut request = request.body(nothing).ok()?;
    let groups = vec![karmada_registry::user::MASTERS.to_owned()];
    let user = User { name: "system:kube-aggregator".to_owned(), groups, ..User::default() };
    set_user(request.headers_mut(), &user);
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_stands_in_headers_and_the_clients_own_go_no_further() {
        let mut from = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer s3cret"),
            ("x-remote-user", "forged"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-a", "forged"),
            ("impersonate-user", "other"),
            ("connection", "keep-alive"),
            ("accept", "application/json"),
            ("x-custom", "stays"),
        ] {
            from.insert(name, value.parse().unwrap());
        }
        let extra = [("acme.com/project".to_owned(), vec!["p".to_owned()])].into();
        let user =
            User { name: "jane".into(), groups: vec!["a".into(), "b".into()], extra, ..User::default() };
        let sent = headers(&from, &user);
        let all = |name: &str| {
            sent.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (all("x-remote-user"), all("x-remote-group")),
            (vec!["jane".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(
            (all("x-remote-extra-acme.com%2Fproject"), all("x-custom")),
            (vec!["p".to_owned()], vec!["stays".to_owned()])
        );
        for gone in ["authorization", "x-remote-extra-a", "impersonate-user", "connection", "x-remote-uid"] {
            assert!(!sent.contains_key(gone), "{gone}");
        }
    }

    fn of(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn headers_of_one_connection_end_here_and_who_asks_is_said_all_the_same() {
        let from = of(&[
            ("connection", "upgrade, X-Remote-User ,x-remote-group"),
            ("connection", "x-mine,, close"),
            ("upgrade", "SPDY/3.1"),
            ("x-remote-user", "forged"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("trailer", "x-after"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("x-stays", "1"),
        ]);
        let user = User { name: "jane".into(), groups: vec!["a".into()], ..User::default() };
        let wanted = of(&[
            ("x-stays", "1"),
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-remote-user", "jane"),
            ("x-remote-group", "a"),
        ]);
        assert_eq!(headers(&from, &user), wanted);
    }

    #[test]
    fn a_connection_becomes_another_where_both_headers_say_so() {
        for (from, is_upgraded) in [
            (of(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]), true),
            (of(&[("connection", "keep-alive"), ("upgrade", "websocket")]), false),
            (of(&[("upgrade", "h2c")]), false),
            (of(&[("connection", "upgrade")]), false),
        ] {
            let kept = end_to_end(&from);
            let wanted = if is_upgraded { 2 } else { 0 };
            assert_eq!(kept.len(), wanted, "{from:?} {kept:?}");
        }
    }
}
