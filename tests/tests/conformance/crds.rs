//! CustomResourceDefinitions: how a kind that a user brings comes, changes and goes, as every client sees it.

use serde_json::{Value, json};
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::{Answer, Caller, Calls as _};
use tests::subject::{is_hub, shared};

/// Where definitions are.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A namespaced definition `plural.group` of kind `kind` with one version.
pub fn definition(group: &str, plural: &str, kind: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Any object of these properties.
pub fn spec_of(properties: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

/// Creates a definition and returns once its kind is served.
#[track_caller]
pub fn establish(caller: &Caller, definition: &Value) -> Value {
    caller.post(DEFINITIONS, definition).is(201);
    let name = text_at(definition, "/metadata/name");
    let (group, plural) = (text_at(definition, "/spec/group"), text_at(definition, "/spec/names/plural"));
    let version = text_at(definition, "/spec/versions/0/name");
    let object = eventually("the definition to be established", TIMEOUT, || {
        let object = caller.get(&format!("{DEFINITIONS}/{name}")).json();
        so(condition(&object, "Established") == "True", || object["status"].to_string())?;
        Ok(object)
    });
    eventually("the kind to be served", TIMEOUT, || {
        let answer = caller.get(&format!("/apis/{group}/{version}/{plural}"));
        so(answer.code == 200, || answer.text.clone())
    });
    object
}

/// A condition's status.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().find(|one| one["type"] == kind).map_or("", |one| text_at(one, "/status"))
}

/// Changes a definition, trying again where someone else was faster.
#[track_caller]
pub fn change(caller: &Caller, name: &str, change: &dyn Fn(&mut Value)) -> Answer {
    loop {
        let path = format!("{DEFINITIONS}/{name}");
        let mut object = caller.get(&path).is(200).json();
        change(&mut object);
        let answer = caller.put(&path, &object);
        if answer.code != 409 {
            return answer;
        }
    }
}

#[test]
fn a_kind_comes_is_discovered_and_goes_with_its_instances() {
    let subject = shared();
    let (caller, namespace) = (subject.caller(), subject.namespace("crontabs"));
    let kubectl = subject.kubectl().in_namespace(&namespace);
    let mut wanted = definition(
        "come.example.com",
        "crontabs",
        "CronTab",
        &json!({"type": "object", "description": "A table of times.", "properties": {
            "spec": {"type": "object", "description": "What is wanted.", "properties": {
                "when": {"type": "string", "description": "The times."}, "replicas": {"type": "integer"},
            }},
        }}),
    );
    wanted["spec"]["names"]["shortNames"] = json!(["ct"]);
    wanted["spec"]["names"]["categories"] = json!(["tables"]);
    wanted["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "When", "type": "string", "jsonPath": ".spec.when"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
    ]);
    kubectl.apply(&wanted.to_string());
    kubectl.await_established("crontabs.come.example.com");
    let made = caller.get(&format!("{DEFINITIONS}/crontabs.come.example.com")).is(200).json();
    let names = json!({
        "plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList",
        "shortNames": ["ct"], "categories": ["tables"],
    });
    assert_eq!(made["status"]["acceptedNames"], names);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!((condition(&made, "NamesAccepted"), condition(&made, "Established")), ("True", "True"));

    discovered(&caller);
    let object = json!({
        "apiVersion": "come.example.com/v1", "kind": "CronTab",
        "metadata": {"name": "a", "finalizers": ["example.com/hold"]}, "spec": {"when": "noon", "replicas": 2},
    });
    kubectl.apply(&object.to_string());
    let table = kubectl.ok(&["get", "ct"]);
    assert!(table.starts_with("NAME   WHEN\na      noon"), "{table}");
    let wide = kubectl.ok(&["get", "tables", "-o", "wide"]);
    assert!(wide.contains("REPLICAS") && wide.contains("noon   2"), "{wide}");
    let explained = eventually("the texts to be published", TIMEOUT, || {
        let told = kubectl.run(&["explain", "crontabs.spec.when"]);
        so(told.stdout.contains("The times."), || format!("{told:?}"))?;
        Ok(told.stdout)
    });
    assert!(explained.contains("FIELD: when <string>"), "{explained}");

    goes(&caller, &namespace);
}

fn discovered(caller: &Caller) {
    let list = caller.get("/apis/come.example.com/v1").is(200).json();
    let mut row = list["resources"][0].clone();
    row.as_object_mut().unwrap().remove("storageVersionHash");
    row["verbs"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    let wanted = json!({
        "name": "crontabs", "singularName": "crontab", "namespaced": true, "kind": "CronTab", "shortNames": ["ct"],
        "categories": ["tables"],
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    assert_eq!(row, wanted, "{list}");
    let group = caller.get("/apis/come.example.com").is(200).json();
    assert_eq!(group["preferredVersion"]["groupVersion"], "come.example.com/v1");
    let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let groups = caller.get_as("/apis", form).is(200).json();
    let found =
        groups["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "come.example.com");
    let resource = &found.unwrap()["versions"][0]["resources"][0];
    assert_eq!((text_at(resource, "/resource"), text_at(resource, "/scope")), ("crontabs", "Namespaced"));
    let document = eventually("OpenAPI v3", TIMEOUT, || {
        let answer = caller.get("/openapi/v3/apis/come.example.com/v1");
        so(answer.code == 200, || answer.text.clone())?;
        Ok(answer.json())
    });
    let schema = &document["components"]["schemas"]["com.example.come.v1.CronTab"];
    assert_eq!(schema["description"], "A table of times.");
    assert_eq!(schema["properties"]["spec"]["properties"]["when"]["description"], "The times.");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "CronTab");
}

fn goes(caller: &Caller, namespace: &str) {
    let instances = format!("/apis/come.example.com/v1/namespaces/{namespace}/crontabs");
    let path = format!("{DEFINITIONS}/crontabs.come.example.com");
    let watch = caller.watch(&format!("{instances}?watch=1"));
    assert_eq!(watch.next_short(), "ADDED a");
    let marked = caller.delete(&path, &Value::Null).is(200).json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(condition(&marked, "Terminating"), "True");
    // Its instance is deleted, but someone holds it: the definition waits, and nothing new comes.
    eventually("the instance to be deleted", TIMEOUT, || {
        let object = caller.get(&format!("{instances}/a")).is(200).json();
        so(object.pointer("/metadata/deletionTimestamp").is_some(), || object.to_string())
    });
    let another = json!({"apiVersion": "come.example.com/v1", "kind": "CronTab", "metadata": {"name": "b"}});
    eventually("creates to be refused", TIMEOUT, || {
        let answer = caller.post(&instances, &another);
        so(answer.code == 403, || answer.text.clone())?;
        let why = "create not allowed while custom resource definition is terminating";
        let wanted = format!("crontabs.come.example.com \"b\" is forbidden: {why}");
        so(answer.refusal(403, "Forbidden") == wanted, || answer.text.clone())
    });
    caller.patch("merge", &format!("{instances}/a"), &json!({"metadata": {"finalizers": null}})).is(200);
    eventually("the definition to be gone", TIMEOUT, || {
        let answer = caller.get(&path);
        so(answer.code == 404, || answer.text.clone())
    });
    eventually("the kind to be gone", TIMEOUT, || {
        let answer = caller.get(&instances);
        so(
            answer.code == 404 && answer.text.contains("the server could not find")
                || answer.text.contains("404 page"),
            || answer.text.clone(),
        )
    });
    eventually("the group to be gone", TIMEOUT, || {
        let list = caller.get("/apis").is(200).text;
        so(!list.contains("come.example.com"), || list.clone())
    });
    // The watch was told of the end of its object, or just ended with its kind.
    assert!(watch.rest().iter().all(|(kind, _)| kind != "ERROR"));
}

#[test]
fn names_belong_to_the_first_who_asks() {
    let subject = shared();
    let caller = subject.caller();
    establish(&caller, &definition("names.example.com", "firsts", "First", &spec_of(&json!({}))));
    let mut second = definition("names.example.com", "seconds", "Second", &spec_of(&json!({})));
    second["spec"]["names"]["shortNames"] = json!(["firsts"]);
    caller.post(DEFINITIONS, &second).is(201);
    let path = format!("{DEFINITIONS}/seconds.names.example.com");
    let object = eventually("the conflict to be told", TIMEOUT, || {
        let object = caller.get(&path).is(200).json();
        so(condition(&object, "NamesAccepted") == "False", || object["status"].to_string())?;
        Ok(object)
    });
    let conditions = object.pointer("/status/conditions").unwrap().as_array().unwrap();
    let told = conditions.iter().find(|one| one["type"] == "NamesAccepted").unwrap();
    assert_eq!(told["reason"], "ShortNamesConflict");
    assert_eq!(told["message"], "\"firsts\" is already in use");
    assert_eq!(condition(&object, "Established"), "False");
    assert_eq!(caller.get("/apis/names.example.com/v1/seconds").code, 404);
    // Once nobody else has them, the names are given.
    caller.delete(&format!("{DEFINITIONS}/firsts.names.example.com"), &Value::Null).is(200);
    eventually("the names to be accepted", TIMEOUT, || {
        let object = caller.get(&path).is(200).json();
        so(condition(&object, "Established") == "True", || object["status"].to_string())
    });
}

#[test]
fn what_is_established_cannot_change_what_it_is() {
    let subject = shared();
    let caller = subject.caller();
    establish(&caller, &definition("fixed.example.com", "things", "Thing", &spec_of(&json!({}))));
    let name = "things.fixed.example.com";
    for (pointer, value, cause) in [
        ("/spec/scope", "Cluster", "FieldValueInvalid spec.scope"),
        ("/spec/names/kind", "Other", "FieldValueInvalid spec.names.kind"),
        ("/spec/group", "other.example.com", "FieldValueInvalid spec.group"),
        ("/spec/names/plural", "others", "FieldValueInvalid spec.names.plural"),
    ] {
        let answer = change(&caller, name, &|object| *object.pointer_mut(pointer).unwrap() = json!(value));
        answer.refusal(422, "Invalid");
        assert!(answer.causes().contains(&cause.to_owned()), "{pointer}: {:?}", answer.causes());
    }
    let answer = change(&caller, name, &|object| object["spec"]["versions"][0]["name"] = json!("v2"));
    let message = answer.refusal(422, "Invalid");
    assert!(
        message.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{message}"
    );
}

#[test]
fn definitions_and_instances_outlive_the_hub() {
    if !is_hub() {
        return;
    }
    let mut hub = Hub::start(HubOptions::default());
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    let schema = spec_of(&json!({"a": {"type": "string", "default": "x"}}));
    establish(&caller, &definition("kept.example.com", "things", "Thing", &schema));
    let things = "/apis/kept.example.com/v1/namespaces/default/things";
    let object =
        json!({"apiVersion": "kept.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}});
    let made = caller.post(things, &object).is(201).json();
    assert_eq!(made["spec"], json!({"a": "x"}));
    hub.kill();
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    // At once: a definition that was established is served before the first request is answered.
    assert_eq!(caller.get(&format!("{things}/a")).is(200).json(), made);
    let mut named = object;
    named["metadata"]["name"] = json!("b");
    caller.post(things, &named).is(201);
    caller.delete(&format!("{DEFINITIONS}/things.kept.example.com"), &Value::Null).is(200);
    eventually("all of it to be gone", TIMEOUT, || {
        let answer = caller.get(&format!("{DEFINITIONS}/things.kept.example.com"));
        so(answer.code == 404, || answer.text.clone())
    });
}

#[test]
fn instances_go_with_their_owners_and_their_namespace() {
    let subject = shared();
    let caller = subject.caller();
    establish(&caller, &definition("owned.example.com", "things", "Thing", &spec_of(&json!({}))));
    let namespace = subject.namespace("owned");
    let things = format!("/apis/owned.example.com/v1/namespaces/{namespace}/things");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let owner = |object: &Value| json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]}]);
    let thing = |name: &str, owners: Value| json!({"apiVersion": "owned.example.com/v1", "kind": "Thing", "metadata": {"name": name, "ownerReferences": owners}});
    let map = |name: &str, owners: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let first = caller.post(&things, &thing("first", json!([]))).is(201).json();
    let second = caller.post(&maps, &map("second", owner(&first))).is(201).json();
    caller.post(&things, &thing("third", owner(&second))).is(201);
    caller.post(&things, &thing("other", json!([]))).is(201);
    caller.delete(&format!("{things}/first"), &Value::Null).is(200);
    for path in [format!("{maps}/second"), format!("{things}/third")] {
        eventually("what was owned to be gone", TIMEOUT, || {
            let answer = caller.get(&path);
            so(answer.code == 404, || answer.text.clone())
        });
    }
    caller.get(&format!("{things}/other")).is(200);
    caller.delete(&format!("/api/v1/namespaces/{namespace}"), &Value::Null);
    eventually("the namespace to be gone", TIMEOUT, || {
        let answer = caller.get(&format!("/api/v1/namespaces/{namespace}"));
        so(answer.code == 404, || answer.text.clone())
    });
    let left = caller.get(&things).json();
    assert_eq!(left["items"], json!([]));
}
