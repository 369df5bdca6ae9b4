//! HTTP's headers as a tunnel's frames carry them.
//!
//! In: headers. Out: the same in the other form, without those that are of one connection only (RFC 9110, 7.6.1). The wish to make the
//! connection another protocol's is carried beside them: the headers for it are made anew where it is passed on.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use karmada_proto::v1::TunnelHeader;

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

/// More headers than these are no request's or answer's: each takes room however short it is.
pub const MOST: usize = 1024;

/// Whether a header says who asks, or shows a credential: none goes on from where it was shown.
pub fn is_claim(name: &str) -> bool {
    matches!(name, "authorization" | "cookie" | "host")
        || name.starts_with("impersonate-")
        || name.starts_with("x-remote-")
}

/// How a browser, which can set no header of a websocket, shows a credential to a Kubernetes API server: as one of the protocols that it offers.
const CREDENTIAL: &str = "base64url.bearer.authorization.k8s.io.";

/// Takes a credential out of the protocols that a websocket offers. False where nothing is left of the header.
pub fn without_credential(header: &mut TunnelHeader) -> bool {
    let Ok(offered) = std::str::from_utf8(&header.value) else { return true };
    if header.name != "sec-websocket-protocol" || !offered.contains(CREDENTIAL) {
        return true;
    }
    let others = offered.split(',').map(str::trim).filter(|name| !name.starts_with(CREDENTIAL));
    let others = others.collect::<Vec<_>>().join(", ");
    header.value = others.into();
    !header.value.is_empty()
}

/// The names in `Connection`.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// Whether the connection is to become another protocol's: both headers say so.
pub fn upgrades(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && named_by_connection(headers).iter().any(|name| name == "upgrade")
}

/// What goes further than one connection, and the protocol's name where the connection is to become another's.
pub fn carried(headers: &HeaderMap) -> Vec<TunnelHeader> {
    let named = named_by_connection(headers);
    let is_upgraded = upgrades(headers);
    let goes_on = |name: &HeaderName| {
        let text = name.as_str();
        let of_one_connection = HOP_BY_HOP.contains(&text) || named.iter().any(|named| named == text);
        !of_one_connection || (is_upgraded && *name == UPGRADE)
    };
    let all = headers.iter().filter(|(name, _)| goes_on(name));
    all.map(|(name, value)| TunnelHeader {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    })
    .collect()
}

/// The same again, with `Connection: Upgrade` where they name another protocol. `None`: some are no headers, or there are too many.
pub fn restored(carried: &[TunnelHeader]) -> Option<HeaderMap> {
    if carried.len() > MOST {
        return None;
    }
    let mut headers = HeaderMap::new();
    for TunnelHeader { name, value } in carried {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(value.clone()).ok()?);
    }
    // An end that is not ours may name them all the same.
    let protocol = headers.get(UPGRADE).cloned();
    HOP_BY_HOP.iter().for_each(|name| {
        headers.remove(*name);
    });
    if let Some(protocol) = protocol {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn what_is_of_one_connection_ends_there() {
        let from = of(&[
            ("accept", "a"),
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "b"),
        ]);
        assert!(!upgrades(&from));
        assert_eq!(restored(&carried(&from)).unwrap(), of(&[("accept", "a"), ("accept", "b")]));
    }

    #[test]
    fn the_wish_for_another_protocol_goes_on() {
        let from = of(&[("connection", "keep-alive, upgrade"), ("upgrade", "SPDY/3.1"), ("x-a", "1")]);
        assert!(upgrades(&from));
        let wanted = of(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-a", "1")]);
        assert_eq!(restored(&carried(&from)).unwrap(), wanted);
    }

    #[test]
    fn what_is_no_header_is_found_and_what_frames_a_message_is_not_taken_from_a_frame() {
        let header = |name: &str, value: &'static [u8]| TunnelHeader {
            name: name.into(),
            value: Bytes::from_static(value),
        };
        assert_eq!(restored(&[header("a b", b"1")]), None);
        assert_eq!(restored(&[header("a", b"1\r\nx: 2")]), None);
        assert_eq!(
            restored(&[header("transfer-encoding", b"chunked"), header("connection", b"close")]).unwrap(),
            HeaderMap::new()
        );
    }

    /// An end that is not ours may send as many as its frame holds: two bytes each.
    #[test]
    fn more_headers_than_a_map_holds_are_no_headers() {
        let one = TunnelHeader { name: "a".into(), value: Bytes::new() };
        let most = 4 * 1024 * 1024 / 5;
        assert_eq!(restored(&vec![one; most]), None);
    }
}
