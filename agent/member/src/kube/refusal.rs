//! What the member's answers and the transport's errors mean for the agent. Pure.
//!
//! In: an answer's status, headers and body, or an error. Out: a [`MemberError`]: whether to try again, when, and whether a write may have
//! been carried out.

use std::time::Duration;

use http::{StatusCode, header};
use hyper_util::client::legacy;
use karmada_proto::one_line;
use serde_json::Value;

use crate::MemberError;

/// The `Status` of an answer that is not a success.
pub(super) fn of_answer(status: StatusCode, headers: &http::HeaderMap, body: &[u8]) -> MemberError {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let text = |key: &str| parsed.as_ref().and_then(|s| s.get(key)).and_then(Value::as_str);
    let message = text("message").map_or_else(|| format!("the member answered {status}"), one_line);
    match status.as_u16() {
        404 if parsed.as_ref().is_some_and(names_an_object) => MemberError::NotFound(message),
        // Whatever stands there (a proxy, an API server that is starting, a kind's definition that is gone): no word of any object.
        404 => MemberError::Other(format!("what was asked for is not served: {message}")),
        // Gone: history or a continue token; like a conflict, it is solved by reading anew.
        409 | 410 => MemberError::Conflict(message),
        401 | 403 => MemberError::Forbidden(message),
        429 => MemberError::Throttled(pause(headers).unwrap_or(Duration::from_secs(1))),
        // It goes down or comes up, and says for how long.
        503 if pause(headers).is_some() => MemberError::Throttled(pause(headers).unwrap_or_default()),
        400..=599 if not_mergeable(&message) => MemberError::NotMergeable(message),
        400..=499 => MemberError::Invalid(message),
        502..=504 => MemberError::Unreachable(message),
        500.. => match pause(headers) {
            Some(pause) => MemberError::Overloaded(message, pause),
            None => MemberError::Internal(message),
        },
        _ => MemberError::Other(message),
    }
}

/// Whether a `Status` speaks of one object, and not of a path.
fn names_an_object(status: &Value) -> bool {
    let name = status.pointer("/details/name").and_then(Value::as_str);
    name.is_some_and(|name| !name.is_empty())
}

/// `Retry-After` in seconds, as kube-apiserver gives it.
fn pause(headers: &http::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// What kube-apiserver says where structured merge cannot read an object that create takes.
fn not_mergeable(message: &str) -> bool {
    message.contains("typed patch object") || message.contains("duplicate entries for key")
}

/// Whether a request that failed had left for the member: not where no connection came to be, or no credential.
pub(super) fn was_sent(error: &kube::Error) -> bool {
    let transport = match error {
        kube::Error::Service(error) => error.downcast_ref::<legacy::Error>(),
        _ => None,
    };
    transport.is_some_and(|error| !error.is_connect())
}

/// An error with its causes, each once.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let of = |code: u16, body: &str| {
            of_answer(StatusCode::from_u16(code).unwrap(), &http::HeaderMap::new(), body.as_bytes())
        };
        let gone =
            r#"{"kind":"Status","reason":"NotFound","message":"gone","details":{"name":"a","kind":"pods"}}"#;
        assert_eq!(of(404, gone), MemberError::NotFound("gone".into()));
        let path = r#"{"kind":"Status","reason":"NotFound","message":"the server could not find the requested resource","details":{}}"#;
        for nobody in [path, "404 page not found\n", "<html>default backend - 404</html>", ""] {
            assert!(matches!(of(404, nobody), MemberError::Other(_)), "{nobody}");
        }
        assert!(matches!(of(403, "no json"), MemberError::Forbidden(m) if m.contains("403")));
        assert!(matches!(of(429, ""), MemberError::Throttled(_)));
        assert!(matches!(of(503, ""), MemberError::Unreachable(_)));
        assert!(matches!(
            of(500, r#"{"message":"etcdserver: request timed out"}"#),
            MemberError::Internal(_)
        ));
        assert!(matches!(of(422, r#"{"message":"field is immutable"}"#), MemberError::Invalid(_)));
        let forged =
            serde_json::json!({"message": format!("no\n2026-01-01 INFO all is well{}", "x".repeat(1 << 20))});
        let MemberError::Invalid(told) = of(422, &forged.to_string()) else { panic!() };
        assert!(!told.contains('\n') && told.len() < 3000 && told.starts_with("no 2026"), "{}", told.len());
        let mut asks = http::HeaderMap::new();
        asks.insert(header::RETRY_AFTER, http::HeaderValue::from_static("7"));
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
            let asked = of_answer(status, &asks, b"");
            assert_eq!(asked, MemberError::Throttled(Duration::from_secs(7)), "{status}");
        }
        // A write that it failed over may have been carried out all the same, and is not tried again before the pause is over.
        let failed = of_answer(StatusCode::INTERNAL_SERVER_ERROR, &asks, br#"{"message":"timed out"}"#);
        assert_eq!(failed, MemberError::Overloaded("timed out".into(), Duration::from_secs(7)));
        assert!(failed.leaves_open());
        let duplicate = r#"{"message":"failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"a\"].env: duplicate entries for key [name=\"X\"]"}"#;
        assert!(matches!(of(500, duplicate), MemberError::NotMergeable(_)));
    }
}
