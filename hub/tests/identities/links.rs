//! ClusterLinks over HTTP: what a hub shows of a cluster's link, to whom, and what a watch tells of it.

use std::time::Duration;

use karmada_certs::ClientKey;
use serde_json::{Value, json};

use crate::world::{HOUR, World, until};

const LINKS: &str = "/apis/edge.karmada.io/v1alpha1/clusterlinks";

async fn get(world: &World, path: &str) -> (u16, Value) {
    let administrator = world.administrator(HOUR);
    world.https(Some(&administrator)).await.send("GET", path).await.unwrap()
}

/// Waits until the link of `north` shows `value` at `pointer`.
async fn await_shown(world: &World, pointer: &str, value: Value) -> Value {
    let mut shown = Value::Null;
    for _ in 0..150 {
        shown = get(world, &format!("{LINKS}/north")).await.1;
        if shown.pointer(pointer) == Some(&value) {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{pointer} is not {value}: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_shown_from_its_join_to_its_end() {
    let world = World::start().await;
    let key = ClientKey::generate().unwrap();
    let certificate = world.join("north", "u1", &key).await.certificate(&key);
    let joined = await_shown(&world, "/status/state", json!("Offline")).await;
    assert_eq!(joined["status"]["conditions"][0]["reason"], "NeverSeen");
    assert!(joined["metadata"]["uid"] != world.cluster("north").unwrap()["metadata"]["uid"]);

    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    let live = await_shown(&world, "/status/state", json!("Connected")).await;
    assert_eq!(live["status"]["session"]["address"], "127.0.0.1");
    assert!(live["status"]["session"]["epoch"].as_u64().unwrap() > 0, "{live}");
    assert_eq!(live["status"]["pending"]["works"], 0);

    world.place("north", "web").await;
    let waits = await_shown(&world, "/status/pending/works", json!(1)).await;
    assert_eq!(waits["status"]["pending"]["oldestWork"]["name"], "web");
    assert_eq!(waits["status"]["conditions"][1]["status"], "False");

    let (code, list) = get(&world, &format!("{LINKS}?fieldSelector=metadata.name%3Dnorth")).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1), "{list}");
    drop(session);
    await_shown(&world, "/status/conditions/0/reason", json!("NoSession")).await;
    // Nothing was placed there that would have to be removed first.
    let key = ClientKey::generate().unwrap();
    world.join("south", "u2", &key).await.certificate(&key);
    assert_eq!(get(&world, &format!("{LINKS}/south")).await.0, 200);
    world.delete_cluster("south").await;
    until("the cluster's end", || world.cluster("south").is_none()).await;
    for _ in 0..100 {
        if get(&world, &format!("{LINKS}/south")).await.0 == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the link of a cluster that is gone is still shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_that_a_link_stands_otherwise_and_no_heartbeats() {
    let world = World::start().await;
    let key = ClientKey::generate().unwrap();
    let certificate = world.join("north", "u1", &key).await.certificate(&key);
    let mut session = world.connect(&certificate, "north").await;
    session.welcomed().await;
    let live = await_shown(&world, "/status/state", json!("Connected")).await;
    let seen = live["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{LINKS}?watch=1&timeoutSeconds=5&resourceVersion={seen}");
    let administrator = world.administrator(HOUR);
    let mut https = world.https(Some(&administrator)).await;
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(session);
    };
    let (told, ()) = tokio::join!(https.text(&watch), ends);
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<&Value> = events.iter().map(|event| &event["object"]["status"]["state"]).collect();
    assert_eq!(states.last(), Some(&&json!("Offline")), "{told}");
    assert!(events.len() <= 3 && events.iter().all(|event| event["type"] == "MODIFIED"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_writes_links_and_an_agent_sees_none_over_http() {
    let world = World::start().await;
    let key = ClientKey::generate().unwrap();
    let certificate = world.join("north", "u1", &key).await.certificate(&key);
    let one = format!("{LINKS}/north");
    let agent = world.https(Some(&certificate)).await.send("GET", &one).await.unwrap();
    assert_eq!(agent.0, 401, "an agent speaks through its stream alone");
    assert_eq!(world.https(None).await.send("GET", &one).await.unwrap().0, 403);
    let administrator = world.administrator(HOUR);
    for (method, path) in [("DELETE", one.as_str()), ("PUT", &one), ("POST", LINKS), ("DELETE", LINKS)] {
        let mut https = world.https(Some(&administrator)).await;
        let (code, answer) = https.send(method, path).await.unwrap();
        assert_eq!(code, 405, "{method} {path}: {answer}");
    }
    let mut https = world.https(Some(&administrator)).await;
    let (code, answer) =
        https.send("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/north/proxy/api").await.unwrap();
    assert_eq!((code, &answer["reason"]), (503, &json!("ServiceUnavailable")), "{answer}");
}
