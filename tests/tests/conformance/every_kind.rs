//! Every kind that is stored, through every verb: the same sequence for all, with the objects of `samples.yaml`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::{eventually, so};

use crate::request::{Answer, Caller, Calls as _, gone, short};
use crate::samples::{self, Sample};
use tests::subject::shared;

/// Kinds under way at once: most of a write is waiting for the disk.
const WORKERS: usize = 6;

const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn every_stored_kind_goes_through_every_verb() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("kinds");
    let samples = samples::all(&caller, &namespace);
    let queue = Mutex::new(samples.iter());
    let failed = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(sample) = next() {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| life(&caller, sample))) {
                        let words = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed.lock().unwrap().push(format!("{}: {words}", sample.kind()));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} kinds:\n{}", failed.len(), samples.len(), failed.join("\n"));
}

/// One object from creation to its end.
fn life(caller: &Caller, sample: &Sample) {
    let path = sample.path();
    let name = sample.name().to_owned();
    let by_name = format!("fieldSelector=metadata.name={name}");
    // From here on: what other tests left is not ours.
    let now = text_at(
        &caller.get(&format!("{}?{by_name}", sample.collection)).is(200).json(),
        "/metadata/resourceVersion",
    )
    .to_owned();
    let watch = caller.watch(&format!("{}?watch=1&{by_name}&resourceVersion={now}", sample.collection));

    let dry = caller.post(&format!("{}?dryRun=All", sample.collection), &sample.object).is(201).json();
    assert!(!text_at(&dry, "/metadata/uid").is_empty(), "{dry}");
    caller.get(&path).refusal(404, "NotFound");

    let created = caller.post(&sample.collection, &sample.object).is(201).json();
    assert_eq!(created["kind"], sample.object["kind"]);
    assert_eq!(created["apiVersion"], sample.object["apiVersion"]);
    for stamped in ["uid", "creationTimestamp", "resourceVersion"] {
        assert!(!text_at(&created, &format!("/metadata/{stamped}")).is_empty(), "{stamped}: {created}");
    }
    let has_status = sample.subresources.iter().any(|s| s == "status");
    if has_status {
        assert!(
            brings(sample) || !contains(&created["status"], &sample.object["status"]),
            "a create wrote the status: {created}"
        );
    }
    assert_eq!(short(&watch.next()), format!("ADDED {name}"));
    caller.post(&sample.collection, &sample.object).refusal(409, "AlreadyExists");

    read(caller, sample, &created);
    change(caller, sample, &created);
    if has_status {
        status(caller, sample);
    }
    if sample.subresources.iter().any(|s| s == "scale") {
        scale(caller, &path);
    }
    caller.delete(&format!("{path}?dryRun=All"), &Value::Null).is(200);
    let live = caller.get(&path).is(200).json();
    assert!(live["metadata"].get("deletionTimestamp").is_none(), "a dry run marked it: {live}");
    caller.delete(&path, &json!({"preconditions": {"uid": "another"}})).refusal(409, "Conflict");
    caller.delete(&path, &Value::Null).is(200);
    gone(caller, &path);
    caller.delete(&path, &Value::Null).refusal(404, "NotFound");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &String| !last.starts_with("DELETED")) {
        seen.push(short(&watch.next()));
    }
    assert!(seen.contains(&format!("MODIFIED {name}")), "{seen:?}");
    delete_many(caller, sample);
}

/// Whether a create may bring its status: a kubelet registers its Node with one, and nobody resets a ServiceCIDR's.
fn brings(sample: &Sample) -> bool {
    matches!(sample.plural.as_str(), "nodes" | "servicecidrs")
}

fn read(caller: &Caller, sample: &Sample, created: &Value) {
    let path = sample.path();
    let got = caller.get(&path).is(200).json();
    assert_eq!(got["metadata"]["uid"], created["metadata"]["uid"]);
    let list = caller.get(&sample.collection).is(200).json();
    assert_eq!(text_at(&list, "/kind"), format!("{}List", text_at(created, "/kind")));
    assert_eq!(list["apiVersion"], created["apiVersion"]);
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["metadata"]["name"] == sample.name()), "{} is not listed", path);
    let table = caller.get_as(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").is(200).json();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], sample.name(), "{table}");
    let (columns, cells) =
        (table["columnDefinitions"].as_array().unwrap(), table["rows"][0]["cells"].as_array().unwrap());
    // An IPAddress has a cell without a column in kube-apiserver.
    assert!(columns.len() == cells.len() || sample.plural == "ipaddresses", "{table}");
    let partial =
        caller.get_as(&path, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").is(200).json();
    assert_eq!(text_at(&partial, "/kind"), "PartialObjectMetadata");
    assert!(
        partial.get("spec").is_none() && partial["metadata"]["uid"] == created["metadata"]["uid"],
        "{partial}"
    );
    let yaml = caller.get_as(&path, "application/yaml").is(200);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    let parsed: Value = serde_saphyr::from_str(&yaml.text).unwrap();
    assert_eq!(parsed["metadata"]["uid"], created["metadata"]["uid"]);
}

fn change(caller: &Caller, sample: &Sample, created: &Value) {
    let path = sample.path();
    let label = json!({"metadata": {"labels": {"conformance": "merge"}}});
    let patched = caller.patch("merge", &path, &label).is(200).json();
    assert_eq!(patched["metadata"]["labels"]["conformance"], "merge");
    assert!(version(&patched) > version(created), "{patched}");
    assert!(
        contains(&patched["spec"], &created["spec"]),
        "a label's patch changed the spec: {created} {patched}"
    );

    let applied = json!({
        "apiVersion": created["apiVersion"], "kind": created["kind"],
        "metadata": {"name": sample.name(), "annotations": {"conformance": "applied"}},
    });
    let applied = caller
        .patch("apply", &format!("{path}?fieldManager=conformance&force=true"), &applied)
        .is(200)
        .json();
    assert_eq!(applied["metadata"]["annotations"]["conformance"], "applied");
    let managers = applied["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|m| m["manager"] == "conformance" && m["operation"] == "Apply");
    assert!(own.is_some(), "{managers:?}");

    let mut stale = created.clone();
    stale["metadata"]["labels"] = json!({"conformance": "stale"});
    caller.put(&path, &stale).refusal(409, "Conflict");
    let put = update(caller, &path, |object| object["metadata"]["labels"]["conformance"] = json!("put"));
    assert_eq!(put["metadata"]["labels"]["conformance"], "put");
    let same =
        caller.patch("merge", &path, &json!({"metadata": {"labels": {"conformance": "put"}}})).is(200).json();
    assert!(contains(&same["spec"], &created["spec"]));
}

fn status(caller: &Caller, sample: &Sample) {
    let path = sample.path();
    let wanted = &sample.object["status"];
    assert!(wanted.is_object(), "{} has a status, its sample has none", sample.kind());
    let before = caller.get(&path).is(200).json();
    caller.patch("merge", &path, &json!({"status": wanted})).is(200);
    let after = caller.get(&path).is(200).json();
    // A policy's types are looked at by the server as soon as it is written.
    let told = sample.kind().ends_with("ValidatingAdmissionPolicy");
    assert!(
        told || brings(sample) || !contains(&after["status"], wanted),
        "a patch of the whole wrote the status: {after}"
    );

    let part = format!("{path}/status");
    let got = caller.get(&part).is(200).json();
    assert_eq!(got["metadata"]["uid"], before["metadata"]["uid"]);
    // Written again where a controller was faster with its own.
    eventually(&format!("the status of {path}"), TIMEOUT, || {
        let mut patch = json!({"status": wanted});
        if sample.object.get("spec").is_some() {
            patch["spec"] = Value::Null;
        }
        let answer = caller.patch("merge", &part, &patch);
        if answer.code == 409 {
            return Err(answer.text);
        }
        let written = answer.is(200).json();
        so(contains(&written["status"], wanted), || written.to_string())
    });
    let after = caller.get(&path).is(200).json();
    assert!(contains(&after["spec"], &before["spec"]), "a status update changed the spec: {before} {after}");
}

fn scale(caller: &Caller, path: &str) {
    let part = format!("{path}/scale");
    let scale = caller.get(&part).is(200).json();
    assert_eq!((text_at(&scale, "/kind"), text_at(&scale, "/apiVersion")), ("Scale", "autoscaling/v1"));
    let mut wanted = scale;
    wanted["spec"]["replicas"] = json!(2);
    wanted["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let answer = caller.put(&part, &wanted).is(200).json();
    assert_eq!((&answer["spec"]["replicas"], &answer["kind"]), (&json!(2), &json!("Scale")), "{answer}");
    assert_eq!(caller.get(path).is(200).json()["spec"]["replicas"], 2);
    let answer = caller.patch("merge", &part, &json!({"spec": {"replicas": 0}})).is(200).json();
    assert!(answer["spec"].get("replicas").is_none(), "zero is left out: {answer}");
    let refused = caller.patch("merge", &part, &json!({"spec": {"replicas": -1}}));
    refused.refusal(422, "Invalid");
    assert_eq!(refused.causes(), ["FieldValueInvalid spec.replicas"]);
    wanted["metadata"]["resourceVersion"] = json!("1");
    caller.put(&part, &wanted).refusal(409, "Conflict");
}

fn delete_many(caller: &Caller, sample: &Sample) {
    if !sample.verbs.iter().any(|verb| verb == "deletecollection") {
        caller.delete(&sample.collection, &Value::Null).refusal(405, "MethodNotAllowed");
        return;
    }
    let mut object = sample.object.clone();
    object["metadata"]["labels"] = json!({"conformance": sample.name()});
    caller.post(&sample.collection, &object).is(201);
    let none = format!("{}?labelSelector=conformance%3Dnone", sample.collection);
    caller.delete(&none, &Value::Null).is(200);
    caller.get(&sample.path()).is(200);
    let some = format!("{}?labelSelector=conformance%3D{}", sample.collection, sample.name());
    let list = caller.delete(&some, &Value::Null).is(200).json();
    assert_eq!(list["items"][0]["metadata"]["name"], sample.name(), "{list}");
    gone(caller, &sample.path());
}

/// Reads, changes and puts, again where another writer was faster.
#[track_caller]
fn update(caller: &Caller, path: &str, change: impl Fn(&mut Value)) -> Value {
    eventually(&format!("an update of {path}"), TIMEOUT, || {
        let mut object = caller.get(path).is(200).json();
        change(&mut object);
        let answer: Answer = caller.put(path, &object);
        if answer.code == 409 { Err(answer.text) } else { Ok(answer.is(200).json()) }
    })
}

fn version(object: &Value) -> u64 {
    text_at(object, "/metadata/resourceVersion").parse().unwrap()
}

/// Whether everything in `part` is in `whole`.
pub fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|held| contains(held, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|held| contains(held, value)))
        }
        (whole, part) => whole == part,
    }
}
