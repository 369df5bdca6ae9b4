//! A custom kind in several versions: what is stored, what is shown, and who converts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::crds::{DEFINITIONS, change, definition, establish, spec_of};
use crate::request::Calls as _;
use crate::webhook_server::WebhookServer;
use tests::subject::shared;

fn two_versions(group: &str) -> Value {
    let mut wanted = definition(
        group,
        "things",
        "Thing",
        &spec_of(&json!({"a": {"type": "string"}, "old": {"type": "string"}})),
    );
    let mut second = wanted["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["schema"]["openAPIV3Schema"] =
        spec_of(&json!({"a": {"type": "string"}, "new": {"type": "string", "default": "n"}}));
    wanted["spec"]["versions"].as_array_mut().unwrap().push(second);
    wanted["spec"]["versions"][0]["deprecated"] = json!(true);
    wanted
}

#[test]
fn without_conversion_only_the_version_changes() {
    let subject = shared();
    let caller = subject.caller();
    establish(&caller, &two_versions("plain.example.com"));
    let namespace = subject.namespace("plain");
    let path = |version: &str| format!("/apis/plain.example.com/{version}/namespaces/{namespace}/things");
    let group = caller.get("/apis/plain.example.com").is(200).json();
    assert_eq!(group["preferredVersion"]["version"], "v2", "{group}");
    let object = json!({"apiVersion": "plain.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"a": "1", "old": "o"}});
    let made = caller.post(&path("v1"), &object).is(201);
    assert_eq!(made.warnings(), ["plain.example.com/v1 Thing is deprecated; use plain.example.com/v2 Thing"]);
    let shown = caller.get(&format!("{}/a", path("v2"))).is(200);
    assert!(shown.warnings().is_empty());
    let shown = shown.json();
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("plain.example.com/v2"), &json!({"a": "1"})));
    assert_eq!(shown["metadata"]["uid"], made.json()["metadata"]["uid"]);
    let list = caller.get(&path("v2")).is(200).json();
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]["apiVersion"]),
        (&json!("plain.example.com/v2"), &json!("plain.example.com/v2"))
    );
    let watch = caller.watch(&format!("{}?watch=1", path("v2")));
    assert_eq!(watch.next().1["apiVersion"], "plain.example.com/v2");
    let wrong = caller.post(&path("v2"), &object);
    let message = wrong.refusal(400, "BadRequest");
    assert!(message.contains("does not match the expected API version"), "{message}");

    // The other version is stored from now on; what is stored already stays readable in both.
    change(&caller, "things.plain.example.com", &|object| {
        object["spec"]["versions"][0]["storage"] = json!(false);
        object["spec"]["versions"][1]["storage"] = json!(true);
    })
    .is(200);
    eventually("both versions to be remembered", TIMEOUT, || {
        let object = caller.get(&format!("{DEFINITIONS}/things.plain.example.com")).is(200).json();
        so(object["status"]["storedVersions"] == json!(["v1", "v2"]), || object["status"].to_string())
    });
    let old = caller.get(&format!("{}/a", path("v1"))).is(200).json();
    assert_eq!(old["spec"]["a"], "1");
    eventually("a write in the new version", TIMEOUT, || {
        let answer =
            caller.patch("merge", &format!("{}/a", path("v2")), &json!({"spec": {"a": "2"}})).is(200).json();
        so(answer["spec"]["new"] == "n", || answer["spec"].to_string())
    });
    let old = caller.get(&format!("{}/a", path("v1"))).is(200).json();
    assert_eq!(old["spec"], json!({"a": "2"}), "what the stored version does not have is gone");

    change(&caller, "things.plain.example.com", &|object| {
        object["spec"]["versions"][0]["served"] = json!(false);
    })
    .is(200);
    eventually("v1 to be served no more", TIMEOUT, || {
        let answer = caller.get(&path("v1"));
        so(answer.code == 404, || answer.text.clone())
    });
    caller.get(&format!("{}/a", path("v2"))).is(200);
}

/// A webhook on this machine that turns `spec.size` of v1 (`"2x3"`) into `spec.width` and `spec.height` of v2, and back.
struct Converter {
    server: WebhookServer,
    fails: Arc<AtomicBool>,
}

impl Converter {
    fn start() -> Converter {
        let fails = Arc::new(AtomicBool::new(false));
        let failing = fails.clone();
        let server =
            WebhookServer::start(move |_, review| converted(&review, failing.load(Ordering::Relaxed)));
        Converter { server, fails }
    }

    fn conversion(&self) -> Value {
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": self.server.at("/convert")}})
    }
}

fn converted(review: &Value, fails: bool) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let one = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = json!(wanted);
        let spec = object["spec"].as_object().cloned().unwrap_or_default();
        if wanted.ends_with("/v2") {
            let size = spec.get("size").and_then(Value::as_str).unwrap_or("0x0").to_owned();
            let (width, height) = size.split_once('x').unwrap();
            object["spec"] =
                json!({"width": width.parse::<i64>().unwrap(), "height": height.parse::<i64>().unwrap()});
        } else {
            object["spec"] = json!({"size": format!("{}x{}", spec["width"], spec["height"])});
        }
        object
    };
    let result = if fails {
        json!({"status": "Failure", "message": "out of paper"})
    } else {
        json!({"status": "Success"})
    };
    let objects: Vec<Value> =
        if fails { Vec::new() } else { request["objects"].as_array().unwrap().iter().map(one).collect() };
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": result}})
}

#[test]
fn a_webhook_converts_between_versions() {
    let subject = shared();
    let caller = subject.caller();
    let converter = Converter::start();
    let mut wanted = two_versions("asked.example.com");
    let versions = wanted["spec"]["versions"].as_array_mut().unwrap();
    versions[0]["schema"]["openAPIV3Schema"] = spec_of(&json!({"size": {"type": "string"}}));
    versions[1]["schema"]["openAPIV3Schema"] =
        spec_of(&json!({"width": {"type": "integer"}, "height": {"type": "integer"}}));
    wanted["spec"]["conversion"] = converter.conversion();
    establish(&caller, &wanted);
    let namespace = subject.namespace("asked");
    let path = |version: &str| format!("/apis/asked.example.com/{version}/namespaces/{namespace}/things");
    let object = |version: &str, name: &str, spec: Value| json!({"apiVersion": format!("asked.example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    caller.post(&path("v1"), &object("v1", "a", json!({"size": "2x3"}))).is(201);
    let made = caller.post(&path("v2"), &object("v2", "b", json!({"width": 4, "height": 5}))).is(201).json();
    assert_eq!(
        (&made["apiVersion"], &made["spec"]),
        (&json!("asked.example.com/v2"), &json!({"width": 4, "height": 5}))
    );
    let spec = |version: &str, name: &str| {
        caller.get(&format!("{}/{name}", path(version))).is(200).json()["spec"].take()
    };
    assert_eq!(spec("v2", "a"), json!({"width": 2, "height": 3}));
    assert_eq!(spec("v1", "b"), json!({"size": "4x5"}));
    let list = caller.get(&path("v2")).is(200).json();
    let widths: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|item| &item["spec"]["width"]).collect();
    assert_eq!(widths, [2, 4]);
    let watch = caller.watch(&format!("{}?watch=1", path("v2")));
    let mut seen = [watch.next().1["spec"]["height"].clone(), watch.next().1["spec"]["height"].clone()];
    seen.sort_by_key(ToString::to_string);
    assert_eq!(seen, [3, 5]);
    let patched =
        caller.patch("merge", &format!("{}/a", path("v2")), &json!({"spec": {"height": 9}})).is(200).json();
    assert_eq!(patched["spec"], json!({"width": 2, "height": 9}));
    assert_eq!(spec("v1", "a"), json!({"size": "2x9"}));
    let (kind, event) = watch.next();
    assert_eq!((kind.as_str(), &event["spec"]), ("MODIFIED", &json!({"width": 2, "height": 9})));

    converter.fails.store(true, Ordering::Relaxed);
    let refused = caller.get(&format!("{}/a", path("v2")));
    assert_eq!(refused.code, 500, "{}", refused.text);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "conversion webhook for asked.example.com/v1, Kind=Thing failed: out of paper");
    assert_eq!(spec("v1", "a"), json!({"size": "2x9"}), "what is stored in this version needs nobody");
    // Deleting needs no conversion of what is stored in the version that is asked for.
    caller.delete(&format!("{}/a", path("v1")), &Value::Null).is(200);
    converter.fails.store(false, Ordering::Relaxed);
    caller.delete(&format!("{DEFINITIONS}/things.asked.example.com"), &Value::Null).is(200);
    eventually("the definition to be gone", TIMEOUT, || {
        let answer = caller.get(&format!("{DEFINITIONS}/things.asked.example.com"));
        so(answer.code == 404, || answer.text.clone())
    });
}
