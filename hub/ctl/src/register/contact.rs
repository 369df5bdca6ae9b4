//! Whether the hub can be joined as the member will be told to, asked from this machine before a member is touched. In: the hub's
//! address, its pin, the token. Out: nothing, or the first of DNS, TCP, TLS, pin, HTTP/2, clock and token that stands in the way.
//!
//! The token is shown to the hub's API over a connection whose CA has the pinned key, and is used up by nothing here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use karmada_api::strings::identity::BOOTSTRAP_GROUP;
use karmada_certs::{HandshakeFailure, Trust, client_config_h2};
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::output::words;
use crate::register::manifests::Installation;
use crate::register::{HubAddress, wait};

/// Each step takes at most this.
const STEP: Duration = Duration::from_secs(10);

/// What the hub answers here is far smaller.
const ANSWER: usize = 64 * 1024;

/// As far as the hub's certificates are backdated.
const CLOCKS: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

/// What stands in the way.
#[derive(Debug, PartialEq, Eq)]
pub struct Obstacle {
    cause: &'static str,
    message: String,
}

impl Obstacle {
    fn new(cause: &'static str, message: impl Into<String>) -> Obstacle {
        Obstacle { cause, message: message.into() }
    }

    /// In words, with what to do next.
    pub fn told(&self, installation: &Installation) -> String {
        let hub = &installation.hub;
        let next = match self.cause {
            "DNS" => format!(
                "check the name in {hub}, and this machine's resolver, or make the line anew with token create --advertise"
            ),
            "TCP" => format!("let connections to {hub} through, and check that the hub listens there"),
            "Clock" => "set this machine's clock (NTP), or the hub's, and run this again".to_owned(),
            other => wait::next(other, installation),
        };
        format!(
            "cluster {} cannot join {hub}: {}: {}\nnext: {next}\nNothing was made in the member. If the member reaches the hub by a \
             way that this machine does not have, --skip-hub-check leaves this check out.",
            installation.cluster, self.cause, self.message
        )
    }
}

/// Goes through the steps. An agent that has joined needs no token: `with_token` says whether it must hold.
pub async fn check(installation: &Installation, with_token: bool, now: Timestamp) -> Result<(), Obstacle> {
    let hub = &installation.hub;
    let stream = secure(hub, connect(hub).await?, installation).await?;
    let answer = ask(hub, stream, &installation.token.reveal()).await?;
    clocks(&answer.date, now)?;
    if with_token { token(&answer) } else { Ok(()) }
}

async fn connect(hub: &HubAddress) -> Result<TcpStream, Obstacle> {
    let dns = |why: String| Obstacle::new("DNS", format!("{} does not resolve: {why}", hub.bare_host()));
    let found = tokio::time::timeout(STEP, tokio::net::lookup_host((hub.bare_host(), hub.port))).await;
    let found = found.map_err(|_| dns("no answer in 10 s".to_owned()))?;
    let mut why = "no address".to_owned();
    for address in found.map_err(|error| dns(error.to_string()))? {
        match tokio::time::timeout(STEP, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = "no answer in 10 s".to_owned(),
        }
    }
    Err(Obstacle::new("TCP", format!("no connection to {hub}: {why}")))
}

async fn secure(
    hub: &HubAddress,
    stream: TcpStream,
    installation: &Installation,
) -> Result<TlsStream<TcpStream>, Obstacle> {
    let config = client_config_h2(&Trust::Pinned(vec![installation.pin]), None)
        .map_err(|error| Obstacle::new("TLS", error.to_string()))?;
    let name = ServerName::try_from(hub.bare_host().to_owned())
        .map_err(|_| Obstacle::new("DNS", format!("{} is no host's name", hub.bare_host())))?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = tokio::time::timeout(STEP, handshake)
        .await
        .map_err(|_| Obstacle::new("TLS", format!("{hub}: no answer to the handshake in 10 s")))?
        .map_err(|error| refused(hub, HandshakeFailure::of(&error)))?;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Ok(stream),
        _ => Err(refused(hub, HandshakeFailure::NoHttp2)),
    }
}

fn refused(hub: &HubAddress, failure: HandshakeFailure) -> Obstacle {
    match failure {
        HandshakeFailure::Closed(why) => Obstacle::new("TCP", format!("{hub}: {why}")),
        HandshakeFailure::Pin(mismatch) => Obstacle::new("PinMismatch", format!("at {hub} {mismatch}")),
        HandshakeFailure::Clock(why) => Obstacle::new(
            "Clock",
            format!("the certificate of {hub} is not valid at this machine's time ({why})"),
        ),
        HandshakeFailure::NoHttp2 => Obstacle::new(
            "HTTP2Refused",
            format!("HTTP/2 is refused at {hub}: is there a proxy in between that speaks HTTP/1.1 only?"),
        ),
        HandshakeFailure::OtherName(why) => Obstacle::new(
            "TLS",
            format!(
                "the hub's certificate is not for this name ({why}): start the hub with --advertise {hub}"
            ),
        ),
        HandshakeFailure::Refused(why) => Obstacle::new("TLS", format!("{hub}: {why}")),
    }
}

/// What the hub said.
#[derive(Debug, Default)]
struct Answer {
    status: StatusCode,
    /// Its `Date` header.
    date: String,
    body: Value,
}

/// Asks the hub whom it takes the token's holder for.
async fn ask(hub: &HubAddress, stream: TlsStream<TcpStream>, token: &str) -> Result<Answer, Obstacle> {
    let broken = |error: String| Obstacle::new("HTTP2Refused", format!("{hub}: {error}"));
    let opened = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(|error| broken(error.to_string()))?;
    tokio::spawn(connection);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let request = Request::post(format!("https://{hub}/apis/authentication.k8s.io/v1/selfsubjectreviews"))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(review)))
        .map_err(|error| broken(error.to_string()))?;
    let answered = tokio::time::timeout(STEP, async {
        let (parts, body) =
            sender.send_request(request).await.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, ANSWER).collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((parts, body))
    });
    let answered = answered.await.unwrap_or_else(|_| Err("no answer in 10 s".to_owned()));
    let (parts, body) = answered.map_err(broken)?;
    let date = parts.headers.get(header::DATE).and_then(|date| date.to_str().ok()).unwrap_or_default();
    Ok(Answer {
        status: parts.status,
        date: date.to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Certificates hold on both clocks only where these are less than an hour apart. No date tells nothing.
fn clocks(date: &str, now: Timestamp) -> Result<(), Obstacle> {
    let Ok(there) = jiff::fmt::rfc2822::parse(date) else { return Ok(()) };
    let ahead = now.duration_since(there.timestamp());
    if ahead.abs() <= CLOCKS {
        return Ok(());
    }
    let way = if ahead.is_negative() { "behind" } else { "ahead of" };
    let seconds = ahead.abs().as_secs();
    Err(Obstacle::new("Clock", format!("this machine's clock is {seconds} s {way} the hub's")))
}

fn token(answer: &Answer) -> Result<(), Obstacle> {
    let groups = answer.body["status"]["userInfo"]["groups"].as_array();
    let joins = groups.is_some_and(|groups| groups.iter().any(|group| group == BOOTSTRAP_GROUP));
    let message = words(answer.body["message"].as_str().unwrap_or_default());
    let why = answer.body["details"]["causes"][0]["reason"].as_str().unwrap_or_default();
    match answer.status {
        StatusCode::UNAUTHORIZED if why == "TokenExpired" => {
            Err(Obstacle::new("TokenExpired", "the token has expired"))
        }
        StatusCode::UNAUTHORIZED if why == "TokenUsedUp" => {
            Err(Obstacle::new("TokenUsedUp", "the token was used as often as it may be"))
        }
        StatusCode::UNAUTHORIZED => Err(Obstacle::new(
            "TokenUnknown",
            "the hub does not take this token: it was mistyped, deleted, made on another hub, or ended more than a day ago",
        )),
        status if status.is_success() && joins => Ok(()),
        status if status.is_success() => {
            Err(Obstacle::new("TokenUnknown", "the token is not for joining clusters"))
        }
        // A hub may be set up to answer nobody this question: then the join itself tells.
        StatusCode::FORBIDDEN => Ok(()),
        status => Err(Obstacle::new("Failed", format!("the hub answered {status} {message}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, groups: &[&str]) -> Answer {
        let body = json!({"status": {"userInfo": {"groups": groups}}});
        Answer { status: StatusCode::from_u16(status).unwrap(), date: String::new(), body }
    }

    #[test]
    fn a_token_must_be_known_and_for_joining() {
        assert_eq!(token(&answer(201, &["system:authenticated", BOOTSTRAP_GROUP])), Ok(()));
        assert_eq!(token(&answer(403, &[])), Ok(()));
        let over = |why: &str| {
            let body = json!({"message": "Unauthorized", "details": {"causes": [{"reason": why}]}});
            Answer { status: StatusCode::UNAUTHORIZED, date: String::new(), body }
        };
        for (refused, cause) in [
            (answer(401, &[]), "TokenUnknown"),
            (answer(201, &["system:bootstrappers"]), "TokenUnknown"),
            (answer(503, &[]), "Failed"),
            (over("TokenExpired"), "TokenExpired"),
            (over("TokenUsedUp"), "TokenUsedUp"),
        ] {
            assert_eq!(token(&refused).unwrap_err().cause, cause);
        }
    }

    #[test]
    fn clocks_may_be_an_hour_apart() {
        let date = "Fri, 01 May 2026 12:00:00 GMT";
        for (now, way) in [
            ("2026-05-01T12:59:59Z", None),
            ("2026-05-01T11:00:01Z", None),
            ("2026-05-01T13:00:01Z", Some("3601 s ahead of")),
            ("2026-05-01T10:00:00Z", Some("7200 s behind")),
        ] {
            let told = clocks(date, now.parse().unwrap()).err().map(|obstacle| obstacle.message);
            assert_eq!(told.is_some(), way.is_some(), "{now}");
            assert!(told.unwrap_or_default().contains(way.unwrap_or_default()), "{now}");
        }
        assert_eq!(clocks("", Timestamp::UNIX_EPOCH), Ok(()));
    }
}
