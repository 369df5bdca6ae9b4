//! Bodies that are too large or too deep, and other attempts at the server's life.

use http::Method;
use serde_json::json;

use crate::request::{Caller, Calls as _};
use tests::subject::shared;

#[test]
fn bodies_that_are_too_large_are_refused() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("large");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = |bytes: usize| json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(bytes)}});
    let refused = caller.post(&path, &object(4 << 20));
    refused.refusal(413, "RequestEntityTooLarge");
    // Within the limit of a body, beyond that of a ConfigMap.
    let refused = caller.post(&path, &object(1_100_000));
    refused.refusal(422, "Invalid");
    assert_eq!(refused.causes(), ["FieldValueTooLong []"]);
    caller.post(&path, &object(900_000)).is(201);
    caller.get("/readyz").is(200);
}

#[test]
fn absurd_bodies_do_not_harm_the_server() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("absurd");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let bodies = [
        format!(r#"{{"metadata":{{"name":"x"}},"data":{}}}"#, deep("[", "]", 200_000)),
        deep(r#"{"a":"#, "1}", 100_000),
        "[".repeat(1_000_000),
        format!(r#"{{"metadata":{{"name":"x","labels":{}}}}}"#, deep(r#"{"a":"#, "}", 50_000)),
        format!("\"{}\"", "\\u0000".repeat(100_000)),
        format!("{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"a\":{}}}}}", "9".repeat(100_000)),
        "1e999999999".to_owned(),
    ];
    for body in &bodies {
        let short: String = body.chars().take(40).collect();
        // As YAML a number may be a word of many digits.
        let words = body.contains("99999");
        for content_type in
            if words { &["application/json"][..] } else { &["application/json", "application/yaml"] }
        {
            let answer = caller.send(Method::POST, &path, &[("content-type", content_type)], body.as_bytes());
            assert!(
                (400..500).contains(&answer.code),
                "{short} as {content_type}: {} {}",
                answer.code,
                answer.text
            );
        }
        if words {
            continue;
        }
        let apply = format!("{path}/x?fieldManager=m");
        let answer = caller.send(
            Method::PATCH,
            &apply,
            &[("content-type", "application/apply-patch+yaml")],
            body.as_bytes(),
        );
        assert!((400..500).contains(&answer.code), "{short} applied: {} {}", answer.code, answer.text);
    }
    yaml_bombs(&caller, &path);
    for bytes in [&b"{\"metadata\":{\"name\":\"\xff\xfe\"}}"[..], b"\xff\xfe", b"\0\0\0\0"] {
        let answer = caller.send(Method::POST, &path, &[("content-type", "application/json")], bytes);
        assert!(matches!(answer.code, 400 | 422), "{bytes:?}: {} {}", answer.code, answer.text);
    }
    let odd = ["configmaps/%00", "configmaps/..%2f..%2fsecrets", "configmaps/%ff", "configmaps/a%20b"];
    for path in odd {
        let answer = caller.get(&format!("/api/v1/namespaces/{namespace}/{path}"));
        assert!((400..500).contains(&answer.code), "{path}: {} {}", answer.code, answer.text);
    }
    let selector = format!("{path}?labelSelector={}", "a%3Db,".repeat(4000) + "a%3Db");
    assert!(matches!(caller.get(&selector).code, 200 | 400 | 414 | 431), "a long selector");
    caller.get("/readyz").is(200);
    let names = caller.get(&path).is(200).json();
    assert!(names["items"].as_array().unwrap().iter().all(|o| o["metadata"]["name"] != "x"), "{names}");
}

/// Aliases that unfold to gigabytes.
fn yaml_bombs(caller: &Caller, path: &str) {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let of = format!("*a{}", n - 1);
        let line = [of.as_str(); 10].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{line}]\n"));
    }
    bomb.push_str("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = caller.send(Method::PATCH, &format!("{path}/x?fieldManager=m"), &headers, bomb.as_bytes());
    assert!((400..500).contains(&answer.code), "{} {}", answer.code, answer.text);
}
