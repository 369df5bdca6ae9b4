//! What one account holds by watches with large selectors: as much as an account may hold, and no more.

use karmada_apiserver::http::Body;
use karmada_registry::User;
use serde_json::{Value, json};

use super::ALONE;
use super::server::{Ask, Server};

/// How many watches are tried.
const MANY: usize = 800;

/// A watch by a selector of 60 KB, another for each number.
fn watch(number: usize) -> Ask {
    let values: Vec<String> = (0..13_000).map(|value| format!("{value:03x}")).collect();
    let selector = format!("l{number}%20in%20({})", values.join(","));
    let path = format!("/api/v1/namespaces/shop/configmaps?watch=1&labelSelector={selector}");
    assert!((60_000..65_000).contains(&path.len()), "{}", path.len());
    Ask::new("GET", path, "application/json", &Value::Null)
}

fn viewer() -> User {
    User { name: "viewer".into(), ..User::default() }
}

/// Lets the viewer watch, and nothing else.
async fn server() -> Server {
    let server = Server::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}]);
    let role = json!({"metadata": {"name": "watches"}, "rules": rules});
    let group = "rbac.authorization.k8s.io";
    let subject = json!({"apiGroup": group, "kind": "User", "name": "viewer"});
    let named = json!({"apiGroup": group, "kind": "ClusterRole", "name": "watches"});
    let binding = json!({"metadata": {"name": "watches"}, "subjects": [subject], "roleRef": named});
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{group}/v1/{plural}");
        let (code, text) = server.ask(Ask::new("POST", path, "application/json", &object)).await;
        assert_eq!(code, 201, "{text}");
    }
    server
}

#[tokio::test]
async fn one_account_holds_a_bounded_number_of_large_selectors() {
    let _alone = ALONE.lock().await;
    let server = server().await;
    let mut open: Vec<Body> = Vec::new();
    let refused = loop {
        let response = server.answer_to(viewer(), watch(open.len())).await;
        if response.status() != 200 || open.len() == MANY {
            break response.status();
        }
        open.push(response.into_body());
    };
    assert_eq!(refused, 429, "after {}", open.len());
    assert!((50..200).contains(&open.len()), "{}: some 500 KB each, of 64 MB", open.len());
    let again = server.answer_to(viewer(), watch(0)).await;
    assert_eq!(again.status(), 200, "one that selects as another does takes nothing");
    open.clear();
    let other = server.answer_to(viewer(), watch(MANY)).await;
    assert_eq!(other.status(), 200, "what a watch held comes back with its end");
}
