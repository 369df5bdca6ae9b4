//! What expressions of policies cost the requests that they judge, and everybody else.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
    let server = std::sync::Arc::new(Server::start().await);
    let sets = "sets.contains(object.data.x.split(''), object.data.y.split(''))";
    let loops = "object.data.x.split('').all(a, object.data.y.split('').all(b, a + b != 'none'))";
    enforce(&server, "sets", &[sets; 20].join(" || ")).await;
    enforce(&server, "loops", loops).await;
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
        // What fails is ignored here, as the policies ask for.
        assert_eq!(code, 201, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_policies_cost_a_request_no_more_than_its_budget() {
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
