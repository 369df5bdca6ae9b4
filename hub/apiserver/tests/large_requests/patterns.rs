//! What patterns that are sent cost everybody else: those of selectors of devices, of definitions, of the objects that these describe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ALONE;
use super::server::{Ask, Server};

const JSON: &str = "application/json";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Takes long to be compiled, and is too large in the end.
fn heavy(at: usize) -> String {
    format!("^(\\p{{L}}{{1,200}}|\\p{{Greek}}{{1,50}}x{at})$")
}

/// Takes a while to be compiled, and can be.
fn costly(at: usize) -> String {
    format!("^\\pL{{20}}x{at}$")
}

/// A claim with a selector for each pattern.
fn claim(name: usize, patterns: impl Iterator<Item = String>) -> Ask {
    let selector =
        |pattern: String| json!({"cel": {"expression": format!("device.driver.matches(r'{pattern}')")}});
    let exactly = json!({"deviceClassName": "c", "selectors": patterns.map(selector).collect::<Vec<_>>()});
    let claim = json!({"metadata": {"name": format!("claim{name}")},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    Ask::new("POST", CLAIMS, JSON, &claim)
}

/// A kind of its own, with a field for each pattern.
fn kind(name: usize, patterns: impl Iterator<Item = String>) -> Ask {
    let fields: serde_json::Map<String, Value> = patterns
        .enumerate()
        .map(|(at, pattern)| (format!("p{at}"), json!({"type": "string", "pattern": pattern})))
        .collect();
    let schema = json!({"type": "object", "properties": fields});
    let kind = json!({"metadata": {"name": format!("kind{name}s.example.com")}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": format!("kind{name}s"), "kind": format!("Kind{name}")},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    Ask::new("POST", DEFINITIONS, JSON, &kind)
}

/// Sends all at once, and asks for something small meanwhile. Answers codes and bodies.
async fn beside_somebody_else(server: &Arc<Server>, asks: Vec<Ask>) -> Vec<(u16, String)> {
    let sent: Vec<_> = asks
        .into_iter()
        .map(|ask| {
            let server = server.clone();
            tokio::spawn(async move { server.ask(ask).await })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    while sent.iter().any(|one| !one.is_finished()) {
        let asked = Instant::now();
        let other = server.clone();
        let small = Ask::new("GET", "/api/v1/namespaces/shop", JSON, &Value::Null);
        // By the threads that serve the others: this one serves nobody.
        assert_eq!(tokio::spawn(async move { other.ask(small).await.0 }).await.unwrap(), 200);
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(slowest < Duration::from_secs(2), "somebody else waited for {slowest:?}");
    let mut answers = Vec::new();
    for one in sent {
        answers.push(one.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_of_devices_hold_up_nobody() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let one = |name: usize| claim(name, (0..12).map(move |at| heavy(100 * name + at)));
    let begun = Instant::now();
    for (code, text) in beside_somebody_else(&server, (0..6).map(one).collect()).await {
        assert!(matches!(code, 422 | 429), "{code} {text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the claims took {:?}", begun.elapsed());
    let (code, text) = server.ask(claim(9, (0..4).map(costly))).await;
    assert_eq!(code, 201, "what can be compiled is taken: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_beyond_the_most_are_not_compiled() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let begun = Instant::now();
    let (code, text) = server.ask(claim(0, (0..10_000).map(|at| format!("a{at}")))).await;
    assert_eq!(code, 422, "{text}");
    assert!(text.contains("Too many: 10000: must have at most 32 items"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(3), "it took {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_of_a_definition_hold_up_nobody() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let begun = Instant::now();
    let answers =
        beside_somebody_else(&server, vec![kind(0, (0..300).map(heavy)), kind(1, (0..300).map(heavy))]);
    for (code, text) in answers.await {
        assert!(matches!(code, 422 | 429), "{code} {text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the definitions took {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_whose_patterns_are_too_large_together_is_refused() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let (code, text) = server.ask(kind(0, (0..500).map(costly))).await;
    assert_eq!(code, 422, "{}", text.chars().take(600).collect::<String>());
    assert!(text.contains("too large together"), "{}", text.chars().take(600).collect::<String>());
    let (code, text) = server.ask(kind(1, (0..500).map(|_| costly(0)))).await;
    assert_eq!(code, 201, "equal patterns are one: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_many_patterns_hold_up_nobody() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    const FIELDS: usize = 20;
    for name in 0..4 {
        let (code, text) = server.ask(kind(name, (0..FIELDS).map(|at| costly(100 * name + at)))).await;
        assert_eq!(code, 201, "{text}");
        let path = format!("/apis/example.com/v1/namespaces/shop/kind{name}s");
        while server.ask(Ask::new("GET", path.clone(), JSON, &Value::Null)).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let object = |at: usize| {
        let name = at % 4;
        let mut object = json!({"apiVersion": "example.com/v1", "kind": format!("Kind{name}"),
            "metadata": {"name": format!("o{at}")}});
        for field in 0..FIELDS {
            object[format!("p{field}")] = json!(format!("{}x{}", "a".repeat(20), 100 * name + field));
        }
        Ask::new("POST", format!("/apis/example.com/v1/namespaces/shop/kind{name}s"), JSON, &object)
    };
    for (code, text) in beside_somebody_else(&server, (0..8).map(object).collect()).await {
        assert!(matches!(code, 201 | 429), "{code} {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_a_kind_in_many_versions_hold_up_nobody() {
    let _alone = ALONE.lock().await;
    let server = Arc::new(Server::start().await);
    let version = |at: usize| {
        json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0,
        "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let kind = json!({"metadata": {"name": "crowds.example.com"}, "spec": {"group": "example.com",
        "scope": "Namespaced", "names": {"plural": "crowds", "kind": "Crowd"},
        "versions": (0..1_000).map(version).collect::<Vec<_>>()}});
    let (code, text) = server.ask(Ask::new("POST", DEFINITIONS, JSON, &kind)).await;
    assert_eq!(code, 201, "{text}");
    let last = "/apis/example.com/v1000";
    while server.ask(Ask::new("GET", last, JSON, &Value::Null)).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let paths = ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v7?hash=", "/apis/example.com"];
    let asks = paths.iter().flat_map(|path| (0..4).map(move |_| Ask::new("GET", *path, JSON, &Value::Null)));
    let begun = Instant::now();
    for (code, text) in beside_somebody_else(&server, asks.collect()).await {
        assert_eq!(code, 200, "{}", text.chars().take(600).collect::<String>());
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the documents took {:?}", begun.elapsed());
    let begun = Instant::now();
    let (code, _) = server.ask(Ask::new("GET", "/openapi/v2", JSON, &Value::Null)).await;
    assert!(code == 200 && begun.elapsed() < Duration::from_secs(1), "again: {:?}", begun.elapsed());
}
