//! `clusters/proxy`: requests to a member cluster's API, by way of its agent.
//!
//! In: a request to the proxy of a Cluster, of a user who may make it. Out: the member's answer, by a tunnel that the agent dials: whole, a
//! stream, or a connection that became another protocol's. The hub holds no credential of a member: who asks is told to the agent, which asks the
//! member in that name, as far as the site allows it. Where the agent is away, the answer is there at once and says so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::header::{CONNECTION, HeaderMap, UPGRADE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Frame;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use karmada_apiserver::connect::{Connect, Connection};
use karmada_apiserver::http::Body;
use karmada_definitions::status::Status;
use karmada_gateway::{Gateway, OpenTunnel, TunnelError, TunnelGuard};
use karmada_proto::v1::{TunnelExtra, TunnelRequest, TunnelResetCode, TunnelResponse};
use karmada_registry::User;
use karmada_tunnel::{Incoming, Outgoing, Part, Reset, headers, relay};

use crate::listener::BrokenOff;

/// Under these keys stands what is known of credentials.
const OF_CREDENTIALS: &str = "authentication.kubernetes.io/";

/// Groups that an API server puts each user into itself, one whom it is asked for in another's name as well: named, they would have to be granted
/// to the agent like any other.
const OF_EVERYBODY: [&str; 2] = ["system:authenticated", "system:unauthenticated"];

/// How long an answer may take to begin: whoever is silent for longer gives its place back.
const HEAD: Duration = Duration::from_secs(300);

/// Answers for the proxies of Clusters.
pub struct ClusterProxy(pub Arc<Gateway>);

#[async_trait::async_trait]
impl Connect for ClusterProxy {
    async fn connect(&self, connection: Connection<'_>) -> Result<Response<Body>, Status> {
        let cluster = connection.object.key.name.to_string();
        let upgrade = connection.upgrade.filter(|_| headers::upgrades(&connection.parts.headers));
        let request = request(connection.parts, connection.user, upgrade.is_some())?;
        let OpenTunnel { outgoing, mut incoming, guard } =
            self.0.tunnel(&cluster, request).await.map_err(|error| unopened(&cluster, &error))?;
        let outgoing = match &upgrade {
            Some(_) => Some(outgoing),
            None => {
                let cancelled = TunnelResetCode::TunnelCancelled;
                tokio::spawn(relay::say(connection.body, outgoing, cancelled, |why| why));
                None
            }
        };
        let head = match tokio::time::timeout(HEAD, incoming.next()).await {
            Err(_) => {
                return Err(Status::routed(
                    504,
                    "Timeout",
                    format!("cluster {cluster}: no answer began in five minutes"),
                ));
            }
            Ok(Some(Ok(Part::Head(head)))) => head,
            Ok(Some(Err(reset))) => return Err(broken(&cluster, &reset)),
            Ok(Some(Ok(Part::Data(_))) | None) => {
                return Err(broken(&cluster, &Reset::new(TunnelResetCode::TunnelProtocol, "no answer came")));
            }
        };
        answer(&cluster, &head, (outgoing, incoming, guard), upgrade)
    }
}

/// The request as the agent gets it. What the client showed to the hub, and whom it said to be, goes no further than here.
fn request(parts: &http::request::Parts, user: &User, upgrade: bool) -> Result<TunnelRequest, Status> {
    let mut carried = headers::carried(&parts.headers);
    // A request for another protocol has no body.
    let is_untrue = |name: &str| if upgrade { name == "content-length" } else { name == "upgrade" };
    carried.retain_mut(|header| {
        let is_left = headers::is_claim(&header.name) || is_untrue(&header.name);
        !is_left && headers::without_credential(header)
    });
    // What is known of the credential that was shown here says nothing there.
    let extra = user.extra.iter().filter(|(key, _)| !key.starts_with(OF_CREDENTIALS));
    let extra = extra.map(|(key, values)| TunnelExtra { key: key.clone(), values: values.clone() });
    Ok(TunnelRequest {
        window: 0,
        method: parts.method.as_str().to_owned(),
        path: path(&parts.uri).ok_or_else(|| Status::bad_request("the path to the member cannot be read"))?,
        headers: carried,
        upgrade,
        user: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.iter().filter(|group| !OF_EVERYBODY.contains(&group.as_str())).cloned().collect(),
        extra: extra.collect(),
    })
}

/// What follows `/apis/GROUP/VERSION/clusters/NAME/proxy`, as it was written, with the query.
fn path(uri: &http::Uri) -> Option<String> {
    let mut segments = uri.path().splitn(8, '/');
    if segments.nth(6)? != "proxy" {
        return None;
    }
    let path = segments.next().unwrap_or_default();
    Some(match uri.query() {
        Some(query) => format!("/{path}?{query}"),
        None => format!("/{path}"),
    })
}

/// The member's answer as the client gets it.
fn answer(
    cluster: &str,
    head: &TunnelResponse,
    (outgoing, incoming, guard): (Option<Outgoing>, Incoming, TunnelGuard),
    upgrade: Option<OnUpgrade>,
) -> Result<Response<Body>, Status> {
    let unreadable = || Reset::new(TunnelResetCode::TunnelProtocol, "its answer cannot be read");
    let status = u16::try_from(head.status).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let (Some(status), Some(mut fields)) = (status, headers::restored(&head.headers)) else {
        return Err(broken(cluster, &unreadable()));
    };
    if status != StatusCode::SWITCHING_PROTOCOLS {
        fields.remove(UPGRADE);
        fields.remove(CONNECTION);
        let broken = BrokenOff::default();
        let body = StreamBody::new(frames(incoming, guard, broken.clone()));
        let mut answer = with(status, fields, body.boxed_unsync());
        answer.extensions_mut().insert(broken);
        return Ok(answer);
    }
    let (Some(outgoing), Some(upgrade)) = (outgoing, upgrade) else {
        return Err(broken(cluster, &unreadable()));
    };
    tokio::spawn(carry(upgrade, outgoing, incoming, guard));
    Ok(with(status, fields, Empty::new().boxed_unsync()))
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

/// What follows the head. Of an answer that breaks off, `broken` says so: what came of a log may look like all of it. Where the client goes, the
/// tunnel does.
fn frames<G: Send + Unpin>(
    incoming: Incoming,
    guard: G,
    broken: BrokenOff,
) -> impl stream::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send + Unpin {
    let parts = incoming.into_stream().map(move |part| {
        let _open = &guard;
        match part {
            Ok(Part::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Ok(Part::Head(_)) => None,
            Err(reset) => {
                tracing::debug!(why = reset.message, "a member's answer broke off");
                broken.breaks_off();
                None
            }
        }
    });
    parts.take_while(|frame| std::future::ready(frame.is_some())).filter_map(std::future::ready)
}

/// Carries a connection that became another protocol's, until the member ends it.
async fn carry(upgrade: OnUpgrade, outgoing: Outgoing, incoming: Incoming, guard: TunnelGuard) {
    let Ok(upgraded) = upgrade.await else { return };
    let (says, hears) = relay::both(TokioIo::new(upgraded), outgoing, incoming);
    // A client that says no more may still hear; a member that does is gone.
    tokio::select! {
        () = async { says.await; std::future::pending().await } => {}
        () = hears => {}
    }
    drop(guard);
}

fn unopened(cluster: &str, error: &TunnelError) -> Status {
    let message = error.to_string();
    match error {
        TunnelError::NotConnected(_) | TunnelError::NotOpened(..) => Status::routed(
            503,
            "ServiceUnavailable",
            format!("{message}: kubectl get clusterlink {cluster} says since when, and why"),
        ),
        TunnelError::TooOld(_) => Status::routed(501, "NotImplemented", message),
        TunnelError::Busy => Status::routed(429, "TooManyRequests", message),
        TunnelError::Refused(..) => Status::routed(403, "Forbidden", message),
    }
}

fn broken(cluster: &str, reset: &Reset) -> Status {
    let (code, reason) = match reset.code {
        TunnelResetCode::TunnelNotAllowed => (403, "Forbidden"),
        _ => (502, "BadGateway"),
    };
    Status::routed(code, reason, format!("cluster {cluster}: {}", reset.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> http::request::Parts {
        let mut request = http::Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const PROXY: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/m/proxy";

    #[test]
    fn the_path_goes_on_as_it_was_written() {
        for (written, passed) in [
            ("", "/"),
            ("/", "/"),
            ("/api/v1/pods?limit=5&watch=1", "/api/v1/pods?limit=5&watch=1"),
            ("/api/v1/namespaces/a/pods/b%2fc/log", "/api/v1/namespaces/a/pods/b%2fc/log"),
            ("//api/../x", "//api/../x"),
            ("?timeout=3s", "/?timeout=3s"),
        ] {
            let uri = format!("{PROXY}{written}").parse().unwrap();
            assert_eq!(path(&uri).as_deref(), Some(passed), "{written}");
        }
        assert_eq!(path(&"//apis/cluster.karmada.io/v1alpha1/clusters/m/proxy/api".parse().unwrap()), None);
    }

    /// The client's `Authorization` and `Impersonate-*` headers do not reach the site.
    #[test]
    fn credentials_and_claims_end_at_the_hub() {
        let parts = parts(
            &format!("{PROXY}/api"),
            &[
                ("authorization", "Bearer s3cret"),
                ("cookie", "s3cret"),
                ("host", "hub"),
                ("impersonate-user", "admin"),
                ("impersonate-extra-scopes", "all"),
                ("x-remote-group", "system:masters"),
                ("connection", "upgrade, keep-alive"),
                ("upgrade", "SPDY/3.1"),
                ("accept", "application/json"),
            ],
        );
        let extra = [
            ("k".to_owned(), vec!["v".to_owned()]),
            ("authentication.kubernetes.io/credential-id".to_owned(), vec!["JTI=1".to_owned()]),
        ];
        let user = User {
            name: "jane".into(),
            uid: "1".into(),
            groups: vec!["a".into(), "system:authenticated".into()],
            extra: extra.into(),
            ..User::default()
        };
        let names = |request: &TunnelRequest| -> Vec<String> {
            request.headers.iter().map(|header| header.name.clone()).collect()
        };
        let sent = request(&parts, &user, true).unwrap();
        assert_eq!(names(&sent), ["upgrade", "accept"]);
        assert_eq!(
            (sent.user.as_str(), sent.uid.as_str(), &sent.groups[..]),
            ("jane", "1", &["a".to_owned()][..])
        );
        assert_eq!(sent.extra, [TunnelExtra { key: "k".into(), values: vec!["v".into()] }]);
        assert_eq!(names(&request(&parts, &user, false).unwrap()), ["accept"]);
    }

    /// A browser can set no `Authorization`: it shows its token as one of the protocols that it offers.
    #[test]
    fn a_token_among_the_protocols_of_a_websocket_ends_at_the_hub() {
        let user = User { name: "jane".into(), ..User::default() };
        let offered = |protocols: &str| {
            let headers =
                [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", protocols)];
            let sent = request(&parts(&format!("{PROXY}/api"), &headers), &user, true).unwrap();
            let value =
                |header: &karmada_proto::v1::TunnelHeader| String::from_utf8(header.value.to_vec()).unwrap();
            let offered = sent.headers.iter().find(|header| header.name == "sec-websocket-protocol");
            offered.map(value)
        };
        const TOKEN: &str = "base64url.bearer.authorization.k8s.io.czNjcmV0";
        assert_eq!(offered(&format!("{TOKEN}, v4.channel.k8s.io")).as_deref(), Some("v4.channel.k8s.io"));
        assert_eq!(
            offered("v5.channel.k8s.io, v4.channel.k8s.io").as_deref(),
            Some("v5.channel.k8s.io, v4.channel.k8s.io")
        );
        assert_eq!(offered(TOKEN), None);
    }

    /// The agent sends nothing after the head of such a request: what was promised would be taken from the next one.
    #[test]
    fn a_request_for_another_protocol_promises_no_body() {
        let headers = [("connection", "upgrade"), ("upgrade", "SPDY/3.1"), ("content-length", "100")];
        let parts = parts(&format!("{PROXY}/api"), &headers);
        let user = User { name: "jane".into(), ..User::default() };
        let sent = request(&parts, &user, true).unwrap();
        assert!(sent.headers.iter().all(|header| header.name != "content-length"), "{:?}", sent.headers);
    }

    /// A tunnel's frames by hand, and what the client gets of them.
    #[tokio::test]
    async fn an_answer_that_breaks_off_says_so() {
        use karmada_proto::frame;
        use karmada_proto::v1::{TunnelData, TunnelEnd, tunnel_frame};
        for is_whole in [true, false] {
            let (out, _sent) = tokio::sync::mpsc::channel(4);
            let data = TunnelData { offset: 0, bytes: Bytes::from_static(b"half") };
            let mut said = vec![tunnel_frame::Body::Data(data)];
            said.extend(is_whole.then_some(tunnel_frame::Body::End(TunnelEnd { offset: 4 })));
            let said = stream::iter(said.into_iter().map(frame::tunnel));
            // An end that is done waits for the other one's.
            let said = if is_whole { said.chain(stream::pending()).boxed() } else { said.boxed() };
            let flow = karmada_tunnel::Flow::new(100, 100);
            let (outgoing, incoming, open, pump) = karmada_tunnel::open(flow, said, out, &Default::default());
            drop(outgoing);
            tokio::spawn(pump);
            let broken = BrokenOff::default();
            let mut body = StreamBody::new(frames(incoming, open, broken.clone()));
            let mut came = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                came.extend_from_slice(&frame.into_data().unwrap());
            }
            assert_eq!((came.as_slice(), broken.is_broken()), (&b"half"[..], !is_whole));
        }
    }
}
