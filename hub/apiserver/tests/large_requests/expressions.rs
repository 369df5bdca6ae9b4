//! What expressions of policies cost the requests that they judge, and everybody else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::ALONE;
use super::server::{Ask, Server};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const JSON: &str = "application/json";

/// Puts a policy of one expression in force for new ConfigMaps.
async fn enforce(server: &Server, name: &str, expression: &str) {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let spec = json!({"failurePolicy": "Ignore", "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression}]});
    let policy = json!({"metadata": {"name": name}, "spec": spec});
    let binding =
        json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (path, object) in [(POLICIES, policy), (BINDINGS, binding)] {
        let (code, text) = server.ask(Ask::new("POST", path, JSON, &object)).await;
        assert_eq!(code, 201, "{text}");
    }
}

/// Tries to create a ConfigMap with two long texts.
fn write(name: usize) -> Ask {
    let text = |first: &str, last: &str| first.repeat(30_000) + last;
    let data = json!({"x": text("a", "b"), "y": text("b", "c")});
    let map = json!({"metadata": {"name": format!("map{name}")}, "data": data});
    Ask::new("POST", "/api/v1/namespaces/shop/configmaps?dryRun=All", JSON, &map)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_costs_holds_up_nobody() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let sets = "sets.contains(object.data.x.split(''), object.data.y.split(''))";
    enforce(&server, "sets", &[sets; 20].join(" || ")).await;
    enforce(&server, "loops", LOOPS).await;
    let begun = Instant::now();
    let writes: Vec<_> = (0..4)
        .map(|name| {
            let server = server.clone();
            tokio::spawn(async move { server.ask(write(name)).await })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    while writes.iter().any(|write| !write.is_finished()) {
        let asked = Instant::now();
        let (code, _) = server.ask(Ask::new("GET", "/api/v1/namespaces/shop", JSON, &Value::Null)).await;
        assert_eq!(code, 200);
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = begun.elapsed();
    assert!(slowest < Duration::from_secs(2), "somebody else waited for {slowest:?}");
    assert!(took < Duration::from_secs(30), "the writes took {took:?}");
    for write in writes {
        let (code, text) = write.await.unwrap();
        // What fails is ignored here, as the policies ask for; who found too many others computing comes back.
        assert!(matches!(code, 201 | 429), "{code} {text}");
    }
}

/// Sends a crowd of them at once: some have their turn and are answered by that code, each other one is told to come back, and when.
async fn some_have_their_turn(server: &Arc<Server>, code: u16, ask: impl Fn(usize) -> Ask) {
    // More than have their turn before those at the end of the line lose patience, however many processors there are.
    let crowd = 40 * (std::thread::available_parallelism().unwrap().get() / 2).max(1);
    let send = |ask: Ask| {
        let server = server.clone();
        tokio::spawn(async move { server.answer(ask).await })
    };
    let mut judged = 0;
    for answer in (0..crowd).map(|name| send(ask(name))).collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        if answer.status() == code {
            judged += 1;
            continue;
        }
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (429, &"1".parse().unwrap())
        );
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["reason"], "TooManyRequests");
        assert_eq!(status["message"], "too many long expressions are being evaluated: try again later");
    }
    assert!((1..crowd).contains(&judged), "{judged} of {crowd} had their turn");
}

const LOOPS: &str = "object.data.x.split('').all(a, object.data.y.split('').all(b, a + b != 'none'))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_long_judgements_is_told_to_come_back_and_never_let_by() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    enforce(&server, "loops", LOOPS).await;
    // What is judged fails, which the policy ignores; what is not judged is something else.
    some_have_their_turn(&server, 201, write).await;
    let (code, text) = server.ask(write(0)).await;
    assert_eq!(code, 201, "once the crowd is gone: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_long_rules_of_a_custom_kind_is_told_to_come_back() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    // Each rule is within the bounds of one expression, but all of them together are not.
    let rule =
        |at: usize| json!({"rule": format!("self.numbers.all(a, self.numbers.all(b, a + b != -{at}))")});
    let numbers = json!({"type": "array", "maxItems": 500, "items": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["numbers"],
        "properties": {"numbers": numbers}, "x-kubernetes-validations": (1..40).map(rule).collect::<Vec<_>>()}}});
    let kind = json!({"metadata": {"name": "tallies.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "tallies", "kind": "Tally"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    const TALLIES: &str = "/apis/example.com/v1/tallies";
    let kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, text) = server.ask(Ask::new("POST", kinds, JSON, &kind)).await;
    assert_eq!(code, 201, "{text}");
    let tally = |name: usize| {
        let numbers: Vec<usize> = (0..200).collect();
        let tally = json!({"apiVersion": "example.com/v1", "kind": "Tally", "metadata": {"name": format!("t{name}")},
            "spec": {"numbers": numbers}});
        Ask::new("POST", TALLIES, JSON, &tally)
    };
    while server.ask(Ask::new("GET", TALLIES, JSON, &Value::Null)).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    some_have_their_turn(&server, 422, tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_policies_cost_a_request_no_more_than_its_budget() {
    let _alone = ALONE.lock().await;
    let server = Server::start().await;
    for at in 0..20 {
        // Each of them is within what one expression may cost.
        let expression = format!("object.data.x.split('').all(a, a != 'none{at}' || '{at}'.startsWith(a))");
        enforce(&server, &format!("policy{at}"), &expression).await;
    }
    let begun = Instant::now();
    let (code, text) = server.ask(write(0)).await;
    assert_eq!(code, 201, "{text}");
    assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
}
