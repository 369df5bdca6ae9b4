//! Wrong input of every sort: the code, reason and causes that kube-apiserver gives, and nothing stored. The tables are
//! below; here is how they are held.

mod absurd;
mod bodies;
mod fixed;
mod paths;
mod policies;
mod rules;

use http::Method;
use serde_json::{Value, json};
use tests::api::text_at;

use crate::request::{Answer, Calls as _};
use tests::subject::shared;

/// One wrong request. `NS` in paths and bodies is the test's namespace.
#[derive(Clone, Copy)]
struct Wrong {
    what: &'static str,
    request: &'static str,
    content_type: &'static str,
    body: &'static str,
    /// `CODE Reason`, then every cause as `; Reason field`.
    answer: &'static str,
    /// What the message must contain.
    says: &'static str,
}

const fn wrong(
    what: &'static str,
    request: &'static str,
    body: &'static str,
    answer: &'static str,
    says: &'static str,
) -> Wrong {
    Wrong { what, request, content_type: "application/json", body, answer, says }
}

const fn typed(content_type: &'static str, wrong: Wrong) -> Wrong {
    Wrong { content_type, ..wrong }
}

const CM: &str = "POST /api/v1/namespaces/NS/configmaps";
const DEPLOY: &str = "POST /apis/apps/v1/namespaces/NS/deployments";
const PATCH: &str = "PATCH /api/v1/namespaces/NS/configmaps/there";

#[track_caller]
fn refuse(name: &str, table: &[Wrong]) {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace(name);
    let there = format!("/api/v1/namespaces/{namespace}/configmaps");
    caller.post(&there, &json!({"metadata": {"name": "there"}, "data": {"a": "b"}})).is(201);
    let mut different = Vec::new();
    for wrong in table {
        let request = wrong.request.replace("NS", &namespace);
        let (method, path) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let content_type = match (wrong.content_type, method.as_str(), path.contains("nothing")) {
            ("application/json", "PATCH", true) => "application/merge-patch+json",
            (given, ..) => given,
        };
        let headers = [("content-type", content_type)];
        let body = wrong.body.replace("NS", &namespace);
        let answer = caller.send(method, path, &headers, body);
        let (seen, message) = in_short(&answer);
        if seen != wrong.answer || !message.contains(wrong.says) {
            different.push(format!(
                "{}:\n  want {} {}\n  seen {seen} {message}",
                wrong.what, wrong.answer, wrong.says
            ));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), table.len(), different.join("\n"));
    for plural in ["configmaps", "secrets", "services", "pods"] {
        let list = caller.get(&format!("/api/v1/namespaces/{namespace}/{plural}")).is(200).json();
        let names: Vec<&str> =
            list["items"].as_array().unwrap().iter().map(|o| text_at(o, "/metadata/name")).collect();
        let strange = names.iter().find(|name| !matches!(**name, "there" | "kube-root-ca.crt"));
        assert_eq!(strange, None, "something was stored: {plural} {names:?}");
    }
}

fn in_short(answer: &Answer) -> (String, String) {
    let Ok(body) = serde_json::from_str::<Value>(&answer.text) else {
        return (format!("{} no Status", answer.code), answer.text.clone());
    };
    let mut parts = vec![format!("{} {}", answer.code, text_at(&body, "/reason"))];
    let mut causes = answer.causes();
    // A refused value is told once for every rule that it breaks; which rules those are is their own tests' matter.
    causes.dedup();
    parts.extend(causes.into_iter().filter(|cause| cause.trim().contains(' ')));
    (parts.join("; "), text_at(&body, "/message").to_owned())
}
