//! How long a request may take: a minute, or less where it asks for that (`?timeout=`); no end for what has none of its own.
//!
//! In: what is asked for. Out: the time, or a refusal of a `timeout` that is no duration; and the refusal (504) of a request whose time is over.

use std::time::Duration;

use karmada_definitions::status::Status;

use super::Attributes;
use super::target::{Query, Target};

/// How long a request may take that has an end.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a request may take: a minute, or the `timeout` that it asks for, where that is less. `None` where it has no end.
///
/// # Errors
/// A `timeout` that is no duration, of whatever is answered at once.
pub(super) fn patience(target: &Target, of: &Attributes, query: &Query) -> Result<Option<Duration>, Status> {
    let text = query.get("timeout");
    let long = matches!(target, Target::Resource(_))
        && (of.verb == "watch"
            || matches!(of.subresource.as_str(), "attach" | "exec" | "log" | "portforward" | "proxy"));
    if long {
        return Ok(None);
    }
    if text.is_empty() {
        return Ok(Some(LONGEST));
    }
    match go_duration(text) {
        Some(seconds) if seconds > 0.0 => {
            Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()))))
        }
        Some(_) => Ok(Some(LONGEST)),
        None => {
            let digits = !text.bytes().any(|byte| !byte.is_ascii_digit());
            let why = if digits { "missing unit in" } else { "invalid" };
            Err(Status::bad_request(format!(
                "invalid timeout specified in the request URL - time: {why} duration {text:?}"
            )))
        }
    }
}

/// How long the caller of a request that may change something waits; `None` where the request is refused for its `timeout` anyway.
pub(super) fn patience_of(target: &Target, parts: &http::request::Parts) -> Option<Duration> {
    let query = Query::of(&parts.uri);
    patience(target, &target.attributes(&parts.method, &query), &query).ok().flatten()
}

/// The refusal of a request whose time is over.
pub(super) fn too_late() -> Status {
    Status::timeout("request did not complete within requested timeout - context deadline exceeded")
}

/// A span of time as Go reads it, in seconds: `1h30m`, `-1.5s`, `0`. `None` for what is none.
fn go_duration(text: &str) -> Option<f64> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(0.0);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let unit = match &after[..end] {
            "ns" => 1e-9,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        if digits.matches('.').count() > 1 || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        seconds += format!("0{digits}0").parse::<f64>().unwrap_or(0.0) * unit;
        rest = &after[end..];
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    (!text.is_empty() && !text.ends_with(['-', '+'])).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_gos() {
        for text in ["0", "1s", "-1s", "+1.5h", "1h30m", ".5s", "1.s", "3\u{b5}s"] {
            assert!(go_duration(text).is_some(), "{text}");
        }
        for text in ["", "x", "5", "-", "1d", "s", "1..5s", ".s", "1s2"] {
            assert!(go_duration(text).is_none(), "{text}");
        }
    }
}
