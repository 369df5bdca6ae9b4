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
