//! Tunnels: requests of the hub's users to the member's API, each by a call of its own that the agent dials because the hub asked for it.
//!
//! In: the id of a tunnel, and over it the head of a request, who makes it, and its body. Out: the member's answer, as it comes. The member is
//! asked in the name of who asks (impersonation), over the agent's credentials, and only for what the site allows ([`allowed`]); without a name
//! nothing is asked.

pub mod allowed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONNECTION, CONTENT_LENGTH, Entry, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Frame;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use karmada_proto::v1::fleet_client::FleetClient;
use karmada_proto::v1::{
    AskRefusal, AskRefusalCode, OpenTunnel, TunnelComes, TunnelFrame, TunnelHello, TunnelRequest,
    TunnelResetCode, TunnelResponse, answer, tunnel_frame,
};
use karmada_proto::{frame, one_line, quoted};
use karmada_tunnel::{Flow, Incoming, MESSAGE, Outgoing, Part, Reset, WINDOW, headers, relay};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use self::allowed::Allowed;
use crate::link::hub::Hub;
use crate::member::{Member, Passing};

/// Tunnels at once.
const MOST: usize = 128;
/// Frames on their way to the hub.
const OUTBOUND: usize = 4;
/// How long the hub may take to say what it asks.
const FIRST: Duration = Duration::from_secs(30);

/// The site's end of tunnels.
pub struct Tunnels {
    member: Arc<dyn Member>,
    allowed: Allowed,
    places: Arc<Semaphore>,
}

impl Tunnels {
    /// To this member, for what is allowed.
    pub fn new(member: Arc<dyn Member>, allowed: Allowed) -> Self {
        Self { member, allowed, places: Arc::new(Semaphore::new(MOST)) }
    }

    /// Dials a tunnel that the hub asks for, by a session that ends with `session`. What the hub is answered.
    pub fn open(
        self: &Arc<Self>,
        wanted: OpenTunnel,
        hub: Hub,
        session: &CancellationToken,
    ) -> answer::Result {
        let refusal = |code: AskRefusalCode, message: &str| {
            answer::Result::Refusal(AskRefusal { code: code.into(), message: message.to_owned() })
        };
        if self.allowed.is_none() {
            let message = "this site allows no requests by way of the hub (--allow-requests=none)";
            return refusal(AskRefusalCode::NotAllowed, message);
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return refusal(AskRefusalCode::AskBusy, "too many requests by way of the hub are open");
        };
        let (tunnels, session) = (self.clone(), session.clone());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                biased;
                () = session.cancelled() => {}
                dialled = Box::pin(tunnels.dial(wanted.id, hub, &session)) => {
                    if let Err(why) = dialled {
                        tracing::debug!(%why, "a tunnel");
                    }
                }
            }
        });
        answer::Result::TunnelComes(TunnelComes {})
    }

    async fn dial(&self, id: Bytes, hub: Hub, session: &CancellationToken) -> Result<(), String> {
        // Held until the tunnel ends.
        let connection = hub.client().await.map_err(|error| error.to_string())?;
        let mut client = FleetClient::clone(&connection).max_decoding_message_size(MESSAGE);
        let (out, frames) = mpsc::channel(OUTBOUND);
        let hello = TunnelHello { id, window: WINDOW };
        let _ = out.try_send(frame::tunnel(tunnel_frame::Body::Hello(hello)));
        let called = tokio::time::timeout(FIRST, client.tunnel(ReceiverStream::new(frames))).await;
        let late = |_| tonic::Status::deadline_exceeded("the hub did not take it in 30 s");
        let mut inbound = match called.map_err(late).flatten() {
            Ok(called) => called.into_inner(),
            Err(status) => {
                if !is_refused(&status) {
                    hub.is_lost(&connection).await;
                }
                return Err(one_line(status.message()));
            }
        };
        let first = tokio::time::timeout(FIRST, inbound.message()).await;
        let first =
            first.map_err(|_| "no request came in 30 s")?.map_err(|status| one_line(status.message()))?;
        let Some(TunnelFrame { body: Some(tunnel_frame::Body::Request(request)), .. }) = first else {
            return Err("the hub's first frame is no request".to_owned());
        };
        let frames = inbound.take_while(|frame| std::future::ready(frame.is_ok()));
        let frames = frames.filter_map(|frame| std::future::ready(frame.ok()));
        let flow = Flow::new(WINDOW, request.window);
        let (outgoing, incoming, guard, pump) = karmada_tunnel::open(flow, Box::pin(frames), out, session);
        let answering = async move {
            // Where the hub's end goes, what is asked of the member goes with it.
            self.answer(request, outgoing, incoming).await;
        };
        tokio::pin!(pump);
        tokio::select! {
            () = &mut pump => {}
            () = answering => pump.await,
        }
        drop(guard);
        Ok(())
    }

    async fn answer(&self, request: TunnelRequest, outgoing: Outgoing, incoming: Incoming) {
        let who = quoted(&request.user).to_string();
        let (path, _) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let (method, path) = (quoted(&request.method).to_string(), quoted(path).to_string());
        let refuse = |code, why: String| Reset::new(code, why);
        let allowed = self.allowed.check(&request.method, &request.path, request.upgrade);
        if let Err(why) = allowed {
            tracing::warn!(who, method, path, "a request by way of the hub is not allowed");
            return outgoing.reset(refuse(TunnelResetCode::TunnelNotAllowed, why)).await;
        }
        let upgrade = request.upgrade;
        let (body, incoming) = body(&request, incoming);
        let built = match build(&request, body) {
            Ok(built) => built,
            Err(why) => return outgoing.reset(refuse(TunnelResetCode::TunnelProtocol, why)).await,
        };
        tracing::info!(who, method, path, "a request by way of the hub");
        let answer = match self.member.pass(built).await {
            Ok(answer) => answer,
            Err(error) => {
                let why = format!("the agent cannot ask the member: {}", one_line(&error.to_string()));
                return outgoing.reset(refuse(TunnelResetCode::TunnelMember, why)).await;
            }
        };
        let head = TunnelResponse {
            status: answer.status().as_u16().into(),
            headers: headers::carried(answer.headers()),
        };
        let switches = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switches != (switches && upgrade) {
            let why = "the member changed the protocol unasked".to_owned();
            return outgoing.reset(refuse(TunnelResetCode::TunnelMember, why)).await;
        }
        if !outgoing.say(Part::Head(head)).await {
            return;
        }
        match incoming {
            Some(incoming) if switches => carry(answer, outgoing, incoming).await,
            _ => {
                let words = |error: std::io::Error| {
                    format!("the member's answer broke off: {}", one_line(&error.to_string()))
                };
                relay::say(answer.into_body(), outgoing, TunnelResetCode::TunnelMember, words).await;
            }
        }
    }
}

/// Whether the hub itself said no. Over the same connection it may take the next: who asked may be gone by now.
fn is_refused(status: &tonic::Status) -> bool {
    use tonic::Code::{PermissionDenied, ResourceExhausted, Unauthenticated};
    matches!(status.code(), PermissionDenied | ResourceExhausted | Unauthenticated)
}

/// The request's body, where it has one; what the hub says stays for the protocol that the connection may become.
fn body(request: &TunnelRequest, incoming: Incoming) -> (Passing, Option<Incoming>) {
    let nothing = || Empty::new().map_err(|never| match never {}).boxed_unsync();
    if request.upgrade {
        return (nothing(), Some(incoming));
    }
    // What a GET carries has no meaning (RFC 9110, 9.3.1).
    if ["GET", "HEAD"].contains(&request.method.as_str()) {
        return (nothing(), None);
    }
    let parts = incoming.into_stream().filter_map(|part| {
        std::future::ready(match part {
            Ok(Part::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Ok(Part::Head(_)) => None,
            Err(reset) => Some(Err(std::io::Error::other(reset.message))),
        })
    });
    (StreamBody::new(parts).boxed_unsync(), None)
}

/// The request in the name of who makes it. What it says itself of whom it is from counts for nothing.
fn build(request: &TunnelRequest, body: Passing) -> Result<Request<Passing>, String> {
    let wrong = |what: &str| format!("the request's {what} cannot be read");
    if request.user.is_empty() {
        return Err("the hub did not say who asks".to_owned());
    }
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| wrong("method"))?;
    let mut all = headers::restored(&request.headers).ok_or_else(|| wrong("headers"))?;
    let claims: Vec<HeaderName> =
        all.keys().filter(|name| headers::is_claim(name.as_str())).cloned().collect();
    for name in claims {
        all.remove(name);
    }
    if !request.upgrade {
        // What is allowed was judged by that word.
        all.remove(UPGRADE);
        all.remove(CONNECTION);
    } else if all.get(UPGRADE).is_some_and(asks_anew) {
        return Err(wrong("wish for another protocol"));
    }
    if [Method::GET, Method::HEAD].contains(&method) {
        all.remove(CONTENT_LENGTH);
    } else if request.upgrade
        && let Entry::Occupied(mut length) = all.entry(CONTENT_LENGTH)
    {
        // Nothing follows: the next request over this connection would be taken for what was promised.
        length.insert(HeaderValue::from_static("0"));
    }
    impersonate(&mut all, request).ok_or_else(|| wrong("user"))?;
    let mut built = Request::new(body);
    *built.method_mut() = method;
    *built.uri_mut() = as_written(&request.path).ok_or_else(|| wrong("path"))?;
    *built.headers_mut() = all;
    Ok(built)
}

/// The path as an address: all of it, as what is allowed was judged by all of it.
fn as_written(path: &str) -> Option<Uri> {
    let uri: Uri = path.parse().ok()?;
    let kept = uri.path_and_query().is_some_and(|kept| kept.as_str() == path);
    (kept && path.starts_with('/')).then_some(uri)
}

/// Whether requests may follow in the protocol that a connection is to become: they would be in nobody's name.
fn asks_anew(protocols: &HeaderValue) -> bool {
    let protocols = String::from_utf8_lossy(protocols.as_bytes()).to_ascii_lowercase();
    protocols.split(',').any(|name| ["h2", "http", "tls"].iter().any(|http| name.trim().starts_with(http)))
}

/// Says in whose name the member is asked (`Impersonate-*`). A name with a blank at an end would be another there, as who reads a header
/// trims it (RFC 9110, 5.5): nothing is asked in it.
fn impersonate(all: &mut HeaderMap, request: &TunnelRequest) -> Option<()> {
    let values = request.extra.iter().map(|extra| extra.values.len()).sum::<usize>();
    if request.groups.len().saturating_add(values) > headers::MOST {
        return None;
    }
    let mut say = |name: &str, value: &str| {
        if value.trim_matches([' ', '\t']) != value {
            return None;
        }
        all.append(HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        Some(())
    };
    say("impersonate-user", &request.user)?;
    if !request.uid.is_empty() {
        say("impersonate-uid", &request.uid)?;
    }
    for group in &request.groups {
        say("impersonate-group", group)?;
    }
    for extra in &request.extra {
        let name = format!("impersonate-extra-{}", escaped(&extra.key));
        for value in &extra.values {
            say(&name, value)?;
        }
    }
    Some(())
}

/// A key as part of a header's name: what cannot stand there is percent-encoded.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Carries a connection that became another protocol's, until the member ends it.
async fn carry(answer: Response<Passing>, outgoing: Outgoing, incoming: Incoming) {
    let Some(upgrade) = answer.extensions().get::<OnUpgrade>().cloned() else {
        let why = "the member's connection cannot become another protocol's";
        return outgoing.reset(Reset::new(TunnelResetCode::TunnelMember, why)).await;
    };
    let Ok(upgraded) = upgrade.await else { return };
    let (says, hears) = relay::both(TokioIo::new(upgraded), outgoing, incoming);
    tokio::select! {
        () = says => {}
        () = async { hears.await; std::future::pending().await } => {}
    }
}

#[cfg(test)]
mod tests;
