//! Numbers that fit their type and nothing else: seconds until the end of time, versions that never come. They are answered as any
//! other, and panic nowhere.

use serde_json::{Value, json};

use super::server::{Ask, Server};

const JSON: &str = "application/json";

/// The code of an answer, whose body is not waited for: a watch has no end.
async fn code(server: &Server, method: &'static str, path: String, body: &Value) -> u16 {
    server.answer(Ask::new(method, path, JSON, body)).await.status().as_u16()
}

#[tokio::test]
async fn numbers_that_no_clock_can_show_are_taken_as_far_as_it_goes() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/shop/pods";
    for number in [i64::MAX, i64::MAX / 1000, 1 << 40, i64::MIN, -1] {
        for question in ["watch=1&timeoutSeconds", "limit", "timeoutSeconds", "resourceVersion"] {
            let path = format!("{pods}?{question}={number}");
            let answered = tokio::time::timeout(
                std::time::Duration::from_secs(20),
                code(&server, "GET", path.clone(), &Value::Null),
            );
            assert!(
                matches!(answered.await, Ok(code) if code != 500 || question == "resourceVersion"),
                "{path}"
            );
        }
        let name = format!("p{}", number.unsigned_abs());
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "generation": number},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(code(&server, "POST", pods.to_owned(), &pod).await, 201, "{number}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": number});
        assert_eq!(
            code(&server, "DELETE", format!("{pods}/{name}?dryRun=All"), &options).await,
            200,
            "{number}"
        );
        let path = format!("{pods}/{name}?gracePeriodSeconds={number}");
        assert_eq!(code(&server, "DELETE", path, &Value::Null).await, 200, "{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "generation": number, "finalizers": ["a.b/c"]}});
        let maps = "/api/v1/namespaces/shop/configmaps";
        let made = code(&server, "POST", maps.to_owned(), &map).await;
        assert!(matches!(made, 201 | 422), "{number}: {made}");
        let gone = code(&server, "DELETE", format!("{maps}/{name}"), &Value::Null).await;
        assert!(matches!(gone, 200 | 404), "{number}: {gone}");
    }
}
