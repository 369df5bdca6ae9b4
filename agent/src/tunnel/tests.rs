//! What the member is asked for a tunnel's request, and what it is not.

use std::collections::BTreeMap;

use karmada_proto::v1::{TunnelExtra, TunnelHeader};

use super::*;

fn request(method: &str, path: &str) -> TunnelRequest {
    TunnelRequest {
        method: method.into(),
        path: path.into(),
        user: "jane".into(),
        ..TunnelRequest::default()
    }
}

fn header(name: &str, value: &'static str) -> TunnelHeader {
    TunnelHeader { name: name.into(), value: Bytes::from_static(value.as_bytes()) }
}

fn nothing() -> Passing {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn said(request: &TunnelRequest) -> BTreeMap<String, Vec<String>> {
    let built = build(request, nothing()).unwrap();
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in built.headers() {
        all.entry(name.to_string()).or_default().push(value.to_str().unwrap().to_owned());
    }
    all
}

/// The agent's credentials may act for anybody: without a name, or by a header of the request, they would act as somebody else.
#[test]
fn the_member_is_asked_in_the_name_of_who_asks_and_no_other() {
    let mut forged = request("GET", "/api/v1/pods");
    forged.headers = [
        header("impersonate-user", "admin"),
        header("impersonate-group", "system:masters"),
        header("impersonate-extra-a", "b"),
        header("x-remote-user", "admin"),
        header("authorization", "Bearer s3cret"),
        header("host", "elsewhere"),
        header("accept", "application/json"),
    ]
    .into();
    forged.uid = "7".into();
    forged.groups = vec!["a".into(), "b".into()];
    forged.extra = vec![TunnelExtra { key: "acme.com/p".into(), values: vec!["1".into(), "2".into()] }];
    let wanted: BTreeMap<String, Vec<String>> = [
        ("accept", &["application/json"][..]),
        ("impersonate-user", &["jane"]),
        ("impersonate-uid", &["7"]),
        ("impersonate-group", &["a", "b"]),
        ("impersonate-extra-acme.com%2fp", &["1", "2"]),
    ]
    .map(|(name, values)| (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()))
    .into();
    assert_eq!(said(&forged), wanted);
    let nobody = TunnelRequest { user: String::new(), ..request("GET", "/api") };
    assert!(build(&nobody, nothing()).unwrap_err().contains("did not say who asks"));
    let two_lines =
        TunnelRequest { user: "jane\r\nimpersonate-group: system:masters".into(), ..request("GET", "/api") };
    assert!(build(&two_lines, nothing()).is_err());
}

#[test]
fn what_is_no_request_is_refused_in_words() {
    for (method, path) in [("GE T", "/api"), ("", "/api"), ("GET", "/a b"), ("GET", "")] {
        assert!(build(&request(method, path), nothing()).is_err(), "{method} {path}");
    }
    let headers = vec![header("a b", "c")];
    assert!(build(&TunnelRequest { headers, ..request("GET", "/api") }, nothing()).is_err());
}

/// What a request that reads carries is not sent: its length would be waited for.
#[test]
fn a_read_has_no_length() {
    let with_length =
        |method| TunnelRequest { headers: vec![header("content-length", "5")], ..request(method, "/api") };
    assert!(!said(&with_length("GET")).contains_key("content-length"));
    assert!(said(&with_length("POST")).contains_key("content-length"));
}

/// A request for another protocol is sent without a body: a member that waits for one, or something before it, would take the next request over
/// the same connection for it.
#[test]
fn a_request_for_another_protocol_promises_no_body() {
    for (length, promised) in [(Some("100"), Some("0")), (Some("0"), Some("0")), (None, None)] {
        let headers = length.map(|length| header("content-length", length)).into_iter();
        let headers = headers.chain([header("upgrade", "SPDY/3.1")]).collect();
        let exec =
            TunnelRequest { headers, upgrade: true, ..request("POST", "/api/v1/namespaces/a/pods/p/exec") };
        let said = said(&exec);
        let lengths = said.get("content-length").map(|all| all.join(" "));
        assert_eq!(lengths.as_deref(), promised, "{length:?}");
        assert_eq!(said["upgrade"], ["SPDY/3.1"]);
    }
    let lengths =
        vec![header("content-length", "7"), header("content-length", "8"), header("upgrade", "websocket")];
    let twice = TunnelRequest {
        headers: lengths,
        upgrade: true,
        ..request("POST", "/api/v1/namespaces/a/pods/p/exec")
    };
    assert_eq!(said(&twice)["content-length"], ["0"]);
}

/// What follows over such a connection is asked in nobody's name: by the agent itself, where the connection shows its certificate.
#[test]
fn no_connection_becomes_one_for_other_requests() {
    for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.2, HTTP/1.1"] {
        let headers = vec![TunnelHeader { name: "upgrade".into(), value: Bytes::from(protocol) }];
        let asked = TunnelRequest { headers, upgrade: true, ..request("GET", "/api/v1/pods?watch=1") };
        assert!(build(&asked, nothing()).is_err(), "{protocol}");
    }
}

/// What is sent is what was judged: an address that would lose a part on its way is none, and neither is one with a host.
#[test]
fn the_member_is_asked_for_the_path_that_was_judged() {
    for path in ["/", "/api?", "/api/v1/pods?watch=1&a=%23", "/api/v1/namespaces/a/pods/p%20q"] {
        let built = build(&request("GET", path), nothing()).unwrap();
        assert_eq!(built.uri().to_string(), path);
    }
    let only_watch: Allowed = "watch".parse().unwrap();
    let list = "/api/v1/pods?a#&watch=1";
    assert!(
        only_watch.check("GET", list, false).is_err() || build(&request("GET", list), nothing()).is_err()
    );
    for path in ["/api#b", "http://elsewhere/api", "//elsewhere/api#", "elsewhere:443", "*"] {
        assert!(build(&request("GET", path), nothing()).is_err(), "{path}");
    }
}

/// Who reads a header's value trims it (RFC 9110, 5.5): `admin ` of the hub would be `admin` of the member, and a blank name nobody, for whom
/// the agent's own account then stands.
#[test]
fn names_that_change_on_the_way_are_not_said() {
    for name in ["admin ", " admin", "admin\t", " ", "\t"] {
        let user = TunnelRequest { user: name.into(), ..request("GET", "/api") };
        assert!(build(&user, nothing()).is_err(), "user {name:?}");
        let groups = TunnelRequest { groups: vec![name.into()], ..request("GET", "/api") };
        assert!(build(&groups, nothing()).is_err(), "group {name:?}");
        let extra = TunnelExtra { key: "k".into(), values: vec![name.into()] };
        let extra = TunnelRequest { extra: vec![extra], ..request("GET", "/api") };
        assert!(build(&extra, nothing()).is_err(), "extra {name:?}");
    }
}

/// What is allowed is judged by the request's own word for an upgrade: where that says no, no header may say yes.
#[test]
fn a_request_that_says_it_is_no_upgrade_is_none() {
    let path = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/v/console";
    let headers = vec![header("upgrade", "websocket")];
    let said = said(&TunnelRequest { headers, upgrade: false, ..request("GET", path) });
    assert!(!said.contains_key("upgrade") && !said.contains_key("connection"), "{said:?}");
}

/// A map of headers holds some 24,000 names, a frame of 4 MiB many more.
#[test]
fn more_headers_than_a_map_holds_are_refused_in_words() {
    let extra = |at: usize| TunnelExtra { key: format!("k{at}"), values: vec!["v".into()] };
    let extra = (0..40_000).map(extra).collect();
    assert!(build(&TunnelRequest { extra, ..request("GET", "/api") }, nothing()).is_err());
}
