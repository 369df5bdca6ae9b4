//! The ports for what is not stored, through the API server: pages, selectors, tables, watches, discovery, refusals, and who may.
//!
//! Resources of its own stand in for those of a hub ([`provider`]).

#![allow(clippy::disallowed_methods, reason = "tests are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used)]

mod provider;
mod server;

use serde_json::{Value, json};

use server::Server;

const BEACONS: &str = "/apis/test.example.org/v1/beacons";
const ECHOES: &str = "/apis/test.example.org/v1/echoes";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_pass_the_same_pages_and_selectors_as_those_of_stored_kinds() {
    let server = Server::start().await;
    for (name, colour) in [("a", "red"), ("b", "green"), ("c", "red"), ("d", "red")] {
        server.beacons.show(name, Some(colour));
    }
    let all = server.get(BEACONS, 200).await;
    assert_eq!((names(&all), &all["kind"]), (vec!["a", "b", "c", "d"], &json!("BeaconList")));
    let red = server.get(&format!("{BEACONS}?labelSelector=colour%3Dred"), 200).await;
    assert_eq!(names(&red), ["a", "c", "d"]);
    let one = server.get(&format!("{BEACONS}?fieldSelector=metadata.name%3Db"), 200).await;
    assert_eq!(names(&one), ["b"]);
    let first = server.get(&format!("{BEACONS}?limit=3"), 200).await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b", "c"], &json!(1)));
    server.beacons.show("d", None);
    server.beacons.show("e", Some("blue"));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = server.get(&format!("{BEACONS}?limit=3&continue={token}"), 200).await;
    assert_eq!(names(&second), ["d"], "the pages show one moment");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let exact = format!(
        "{BEACONS}?resourceVersionMatch=Exact&resourceVersion={}",
        all["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert_eq!(names(&server.get(&exact, 200).await), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn an_object_is_shown_in_every_form() {
    let server = Server::start().await;
    server.beacons.show("a", Some("red"));
    let one = server.get(&format!("{BEACONS}/a"), 200).await;
    assert_eq!((&one["kind"], &one["metadata"]["labels"]["colour"]), (&json!("Beacon"), &json!("red")));
    assert!(one["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let absent = server.get(&format!("{BEACONS}/x"), 404).await;
    assert_eq!(absent["message"], "beacons.test.example.org \"x\" not found");
    let table =
        server.get_as(BEACONS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200).await;
    let table: Value = serde_json::from_str(&table).unwrap();
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    let metadata =
        server.get_as(BEACONS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 200).await;
    assert!(metadata.contains("PartialObjectMetadataList"), "{metadata}");
    let yaml = server.get_as(&format!("{BEACONS}/a"), "application/yaml", 200).await;
    assert!(yaml.contains("kind: Beacon"), "{yaml}");
    let listed = server.get("/apis/test.example.org/v1", 200).await;
    let verbs: Vec<(&str, &Value)> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), &row["verbs"]))
        .collect();
    assert!(verbs.contains(&("beacons", &json!(["get", "list", "watch"]))), "{verbs:?}");
}

#[tokio::test]
async fn what_a_provider_leaves_out_is_a_405() {
    let server = Server::start().await;
    server.beacons.show("a", Some("red"));
    let beacon = json!({"kind": "Beacon", "apiVersion": "test.example.org/v1", "metadata": {"name": "b"}});
    let one = format!("{BEACONS}/a");
    for (method, path) in [
        ("POST", BEACONS),
        ("PUT", &one),
        ("PATCH", &one),
        ("DELETE", &one),
        ("DELETE", BEACONS),
        ("GET", &format!("{ECHOES}/a")),
        ("GET", &format!("{ECHOES}?watch=1")),
        ("GET", ECHOES),
    ] {
        let (code, text) = server.ask("root", method, path, beacon.to_string()).await;
        assert_eq!(code, 405, "{method} {path}: {text}");
    }
}

#[tokio::test]
async fn what_is_posted_is_answered_and_forgotten() {
    let server = Server::start().await;
    let echo = json!({"kind": "Echo", "apiVersion": "test.example.org/v1", "spec": {"word": "hello"}});
    let (code, text) = server.ask("root", "POST", ECHOES, echo.to_string()).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &answer["status"]["heard"], &answer["spec"]["word"]),
        (201, &json!("root"), &json!("hello"))
    );
}

#[tokio::test]
async fn a_watch_tells_changes_as_they_happen_and_one_of_another_process_expires() {
    let server = Server::start().await;
    server.beacons.show("a", Some("red"));
    let list = server.get(BEACONS, 200).await;
    let seen = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch =
        format!("{BEACONS}?watch=1&timeoutSeconds=5&labelSelector=colour%3Dred&resourceVersion={seen}");
    let mut events = server.watch(&watch).await;
    server.beacons.show("b", Some("red"));
    server.beacons.show("a", Some("green"));
    server.beacons.show("c", Some("green"));
    server.beacons.show("b", None);
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(events.next().await.unwrap());
    }
    assert_eq!(told, ["ADDED b", "DELETED a", "DELETED b"]);
    for (from, what) in [("1", "too old"), ("99999999999999999", "of a process whose clock was ahead")] {
        let mut events =
            server.watch(&format!("{BEACONS}?watch=1&timeoutSeconds=5&resourceVersion={from}")).await;
        assert_eq!(events.next().await.unwrap(), ["ERROR 410"], "{what}");
    }
    // Of what is stored such a revision is of a data directory that was restored since. One that comes in a moment is waited for.
    let stored = "/api/v1/namespaces?watch=1&timeoutSeconds=20&resourceVersion=99999999";
    assert_eq!(server.watch(stored).await.next().await.unwrap(), ["ERROR 410"]);
    let begin = format!(
        "{BEACONS}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = server.watch(&begin).await;
    let mut told = Vec::new();
    while let Some(more) = events.next().await {
        told.extend(more);
    }
    assert_eq!(told[..3], ["ADDED a", "ADDED c", "BOOKMARK "], "then it ends by its time");
}

#[tokio::test]
async fn who_has_no_role_sees_nothing_of_it() {
    let server = Server::start().await;
    server.beacons.show("a", Some("red"));
    server.beacons.show("b", Some("red"));
    server
        .allow("vera", json!([{"apiGroups": ["test.example.org"], "resources": ["beacons"], "verbs": ["get"], "resourceNames": ["a"]}]))
        .await;
    for (path, code) in
        [(format!("{BEACONS}/a"), 200), (format!("{BEACONS}/b"), 403), (BEACONS.to_owned(), 403)]
    {
        assert_eq!(server.ask("vera", "GET", &path, String::new()).await.0, code, "{path}");
    }
    let (code, text) = server.ask("vera", "GET", &format!("{BEACONS}/a/line/x"), String::new()).await;
    assert_eq!(code, 403, "{text}");
}

#[tokio::test]
async fn a_connection_sees_the_request_before_its_body() {
    let server = Server::start().await;
    server.beacons.show("a", Some("red"));
    let line = format!("{BEACONS}/a/line");
    let (code, text) =
        server.ask("root", "POST", &format!("{line}/some/where?timeout=odd"), "words".into()).await;
    assert_eq!((code, text.as_str()), (200, "POST a some/where by root: words"));
    let deaf = server.unending("POST", &format!("{line}/deaf")).await;
    assert_eq!(deaf, (200, "POST a deaf by root".to_owned()));
    assert_eq!(server.ask("root", "DELETE", &line, String::new()).await.0, 405);
    assert_eq!(server.ask("root", "GET", &format!("{BEACONS}/x/line"), String::new()).await.0, 404);
}

/// What is waited for is somebody else's answer: no work of this server is done meanwhile, and a seat is for work.
#[tokio::test]
async fn a_connection_that_is_waited_for_holds_no_seat() {
    let server = std::sync::Arc::new(Server::with_seats(Some(12)).await);
    server.beacons.show("a", Some("red"));
    let rules = json!([{"apiGroups": ["test.example.org"], "resources": ["beacons", "beacons/line"], "verbs": ["get"]}]);
    server.allow("vera", rules).await;
    let asks = |path: String| {
        let server = server.clone();
        async move { server.ask("vera", "GET", &path, String::new()).await.0 }
    };
    let silent = tokio::spawn(asks(format!("{BEACONS}/a/line/silent")));
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let answered =
        tokio::time::timeout(std::time::Duration::from_secs(20), asks(format!("{BEACONS}/a"))).await;
    silent.abort();
    assert_eq!(answered, Ok(200));
}
