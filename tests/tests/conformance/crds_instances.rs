//! Objects of custom kinds: what their schema makes of them, what it refuses, and the parts that can be written alone.

use std::sync::Arc;

use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::crds::{change, definition, establish, spec_of};
use crate::request::{Answer, Caller, Calls as _};
use tests::subject::{Subject, shared};

fn properties() -> Value {
    json!({
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "x-kubernetes-validations": [{"rule": "self != 5", "message": "not five"}]},
        "color": {"type": "string", "enum": ["red", "green"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "fixed": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
        "size": {"type": "string", "default": "small"},
        "maybe": {"type": "string", "nullable": true, "default": "set"},
        "port": {"x-kubernetes-int-or-string": true},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 7}}},
        "parts": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "either": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "at": {"type": "string", "format": "date-time"},
        "address": {"type": "string", "format": "ipv4"},
        "spent": {"type": "object", "required": ["must"], "properties": {"must": {"type": "string"}}},
        "range": {"type": "object", "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}, "x-kubernetes-validations": [
            {"rule": "self.low <= self.high", "messageExpression": "'%d is above %d'.format([self.low, self.high])", "reason": "FieldValueForbidden", "fieldPath": ".low"}]},
        "replicas": {"type": "integer"},
    })
}

struct Kind {
    /// Runs as long as someone holds it.
    _subject: Arc<Subject>,
    caller: Caller,
    api_version: String,
    path: String,
}

impl Kind {
    fn object(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": self.api_version, "kind": "Thing", "metadata": {"name": name}, "spec": spec})
    }

    fn create(&self, name: &str, spec: &Value, query: &str) -> Answer {
        self.caller.post(&format!("{}?{query}", self.path), &self.object(name, spec))
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// A kind of the test's own, served.
#[track_caller]
fn kind(label: &str, with: &dyn Fn(&mut Value)) -> Kind {
    let subject = shared();
    let caller = subject.caller();
    let group = format!("{label}.example.com");
    let mut wanted = definition(&group, "things", "Thing", &spec_of(&properties()));
    with(&mut wanted);
    establish(&caller, &wanted);
    let namespace = subject.namespace(label);
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/things");
    Kind { _subject: subject, caller, api_version: format!("{group}/v1"), path }
}

#[test]
fn a_schema_prunes_defaults_and_refuses() {
    let kind = kind("judged", &|_| {});
    let basic = json!({"size": "small", "maybe": "set", "nested": {"deep": 7}});
    for (sent, kept) in [
        (json!({}), json!({})),
        (json!({"unknown": 1, "nested": {"deep": 1, "other": 2}}), json!({"nested": {"deep": 1}})),
        (json!({"maybe": null, "size": null}), json!({"maybe": null})),
        (json!({"port": 80}), json!({"port": 80})),
        (json!({"port": "http"}), json!({"port": "http"})),
        (
            json!({"free": {"any": {"thing": [1]}, "known": {"a": "b", "c": 1}}}),
            json!({"free": {"any": {"thing": [1]}, "known": {"a": "b"}}}),
        ),
        (
            json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nonsense": 1}, "spec": {"a": 1}}}),
            json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 1}}}),
        ),
        (json!({"either": {"a": 1}}), json!({"either": {"a": 1}})),
        (json!({"replicas": 2.0}), json!({"replicas": 2})),
    ] {
        let mut wanted = basic.clone();
        for (field, value) in kept.as_object().unwrap() {
            wanted[field] = value.clone();
        }
        let made = kind.create("x", &sent, "dryRun=All").is(201).json();
        assert_eq!(made["spec"], wanted, "{sent}");
        assert_eq!(made["metadata"]["generation"], 1);
    }
    let blocked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    for (sent, message) in [
        (json!({"count": 0}), "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1".to_owned()),
        (json!({"count": 5}), "spec.count: Invalid value: 5: not five".to_owned()),
        (json!({"name": "AB"}), "spec.name: Invalid value: \"AB\": spec.name in body should match '^[a-z]+$'".to_owned()),
        (json!({"range": {"low": 3, "high": 2}}), "spec.range.low: Forbidden: 3 is above 2".to_owned()),
        (json!({"range": {"low": 3}}), "spec.range: Invalid value: \"object\": no such key: high evaluating rule: self.low <= self.high".to_owned()),
        (json!({"parts": [{"name": "a"}, {"name": "a"}]}), "spec.parts[1]: Duplicate value: {\"name\":\"a\"}".to_owned()),
        (json!({"set": ["a", "a"]}), "spec.set[1]: Duplicate value: \"a\"".to_owned()),
        (json!({"either": {"a": 1, "b": 2}}), "<nil>: Invalid value: \"\": \"spec.either\" must validate one and only one schema (oneOf). Found 2 valid alternatives".to_owned()),
        (json!({"color": "blue"}), format!("[spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\", {blocked}]")),
        (json!({"name": "abcde"}), format!("[spec.name: Too long: may not be more than 4 bytes, {blocked}]")),
        (json!({"port": true}), format!("[spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\", {blocked}]")),
        (json!({"at": "noon"}), format!("[spec.at: Invalid value: \"noon\": spec.at in body must be of type date-time: \"noon\", {blocked}]")),
        (json!({"address": "1.2.3"}), format!("[spec.address: Invalid value: \"1.2.3\": spec.address in body must be of type ipv4: \"1.2.3\", {blocked}]")),
        (json!({"spent": {}}), format!("[spec.spent.must: Required value, {blocked}]")),
        (json!({"parts": [1]}), format!("[spec.parts[0]: Invalid value: \"integer\": spec.parts[0] in body must be of type object: \"integer\", spec.parts[0]: Invalid value: 1: must be an object for an array of list-type map, {blocked}]")),
        (json!({"template": {"kind": "Pod"}}), format!("[spec.template.apiVersion: Required value, {blocked}]")),
    ] {
        let told = kind.create("x", &sent, "").refusal(422, "Invalid");
        let (group, _) = kind.api_version.split_once('/').unwrap();
        assert_eq!(told, format!("Thing.{group} \"x\" is invalid: {message}"), "{sent}");
    }
}

#[test]
fn unknown_fields_are_told_as_asked() {
    let kind = kind("strict", &|_| {});
    let spec = json!({"unknown": 1, "nested": {"other": 2}});
    let warned = kind.create("a", &spec, "dryRun=All").is(201);
    let mut told = warned.warnings();
    told.sort();
    assert_eq!(told, ["unknown field \"spec.nested.other\"", "unknown field \"spec.unknown\""]);
    assert!(kind.create("a", &spec, "dryRun=All&fieldValidation=Ignore").is(201).warnings().is_empty());
    let message = kind.create("a", &spec, "fieldValidation=Strict").refusal(400, "BadRequest");
    assert_eq!(
        message,
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.nested.other\", unknown field \"spec.unknown\""
    );
}

#[test]
fn rules_see_what_was() {
    let kind = kind("were", &|_| {});
    kind.create("a", &json!({"fixed": "one", "count": 2}), "").is(201);
    let patch = |spec: Value| kind.caller.patch("merge", &kind.at("a"), &json!({"spec": spec}));
    let message = patch(json!({"fixed": "two"})).refusal(422, "Invalid");
    assert!(message.ends_with("spec.fixed: Invalid value: \"two\": is immutable"), "{message}");
    let changed = patch(json!({"count": 3})).is(200).json();
    assert_eq!((&changed["spec"]["count"], &changed["metadata"]["generation"]), (&json!(3), &json!(2)));
    let same = patch(json!({"count": 3})).is(200).json();
    assert_eq!(
        same["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"],
        "nothing was written"
    );
    patch(json!({"fixed": null})).is(200);
}

#[test]
fn a_stricter_schema_lets_be_what_was_before() {
    let kind = kind("ratchet", &|_| {});
    kind.create("a", &json!({"name": "abc", "count": 4}), "").is(201);
    let answer = change(&kind.caller, "things.ratchet.example.com", &|object| {
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let fields = object.pointer_mut(spec).unwrap();
        fields["name"]["maxLength"] = json!(2);
        fields["count"]["x-kubernetes-validations"][0]["rule"] = json!("self > 4");
        fields["size"]["default"] = json!("large");
        fields["more"] = json!({"type": "string", "default": "later"});
    });
    assert_eq!(answer.is(200).json()["metadata"]["generation"], 2);
    // The new schema is in force when what it says is seen: also on what was stored before.
    eventually("the new default", TIMEOUT, || {
        let object = kind.caller.get(&kind.at("a")).is(200).json();
        so(object["spec"]["more"] == "later" && object["spec"]["size"] == "small", || {
            object["spec"].to_string()
        })
    });
    let patch = |spec: Value| kind.caller.patch("merge", &kind.at("a"), &json!({"spec": spec}));
    let other = patch(json!({"color": "red"})).is(200);
    assert_eq!(other.warnings(), ["spec.count: Invalid value: 4: not five"]);
    patch(json!({"name": "abd"})).refusal(422, "Invalid");
    patch(json!({"count": 3})).refusal(422, "Invalid");
    patch(json!({"name": "ab", "count": 6})).is(200);
}

#[test]
fn status_and_scale_are_written_alone() {
    let kind = kind("parts", &|object| {
        let version = &mut object["spec"]["versions"][0];
        version["subresources"] = json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}});
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}});
    });
    let mut object = kind.object("a", &json!({"replicas": 2}));
    object["status"] = json!({"replicas": 9});
    let mut made = kind.caller.post(&kind.path, &object).is(201).json();
    assert_eq!(made.get("status"), None, "a create brings no status");
    made["status"] = json!({"replicas": 1, "selector": "a=b", "other": 1});
    made["spec"]["replicas"] = json!(5);
    let told = kind.caller.put(&format!("{}/status", kind.at("a")), &made).is(200).json();
    assert_eq!(told["status"], json!({"replicas": 1, "selector": "a=b"}));
    assert_eq!((&told["spec"]["replicas"], &told["metadata"]["generation"]), (&json!(2), &json!(1)));
    let scale = kind.caller.get(&format!("{}/scale", kind.at("a"))).is(200).json();
    assert_eq!((&scale["kind"], &scale["spec"]), (&json!("Scale"), &json!({"replicas": 2})));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b"}));
    let path = format!("{}/scale", kind.at("a"));
    let scaled = kind.caller.patch("merge", &path, &json!({"spec": {"replicas": 4}})).is(200).json();
    assert_eq!(scaled["spec"]["replicas"], 4);
    let message =
        kind.caller.patch("merge", &path, &json!({"spec": {"replicas": -1}})).refusal(422, "Invalid");
    assert!(
        message.ends_with(".spec.replicas: Invalid value: -1: should be a non-negative integer"),
        "{message}"
    );
    let now = kind.caller.get(&kind.at("a")).is(200).json();
    assert_eq!((&now["spec"]["replicas"], &now["metadata"]["generation"]), (&json!(4), &json!(2)));
    let mut put = now;
    put["status"]["replicas"] = json!(7);
    assert_eq!(kind.caller.put(&kind.at("a"), &put).is(200).json()["status"]["replicas"], 1);
}

#[test]
fn appliers_share_lists_by_their_keys() {
    let kind = kind("shared", &|_| {});
    let apply = |manager: &str, force: bool, spec: &Value| {
        let path = format!("{}?fieldManager={manager}&force={force}", kind.at("a"));
        kind.caller.patch("apply", &path, &kind.object("a", spec))
    };
    apply("one", false, &json!({"parts": [{"name": "x", "v": 1}], "set": ["a"]})).is(201);
    let both = apply("two", false, &json!({"parts": [{"name": "y", "v": 2}], "set": ["b"]})).is(200).json();
    assert_eq!(both["spec"]["parts"], json!([{"name": "x", "v": 1}, {"name": "y", "v": 2}]));
    assert_eq!(both["spec"]["set"], json!(["a", "b"]));
    let answer = apply("two", false, &json!({"parts": [{"name": "x", "v": 3}]}));
    let message = answer.refusal(409, "Conflict");
    assert!(
        message.contains("conflict with \"one\"") && message.contains(".spec.parts[name=\"x\"].v"),
        "{message}"
    );
    let mut left = apply("one", false, &json!({"set": ["a"]})).is(200).json();
    assert_eq!(left["spec"]["parts"].take(), json!([{"name": "y", "v": 2}]));
    let strategic = kind.caller.patch("strategic-merge", &kind.at("a"), &json!({}));
    strategic.refusal(415, "UnsupportedMediaType");
}

#[test]
fn lists_and_watches_are_selected_by_the_fields_a_kind_names() {
    let kind = kind("chosen", &|object| {
        object["spec"]["versions"][0]["selectableFields"] =
            json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.count"}]);
    });
    for (name, color, count) in [("a", "red", 1), ("b", "green", 1), ("c", "red", 2)] {
        kind.create(name, &json!({"color": color, "count": count}), "").is(201);
    }
    let names = |query: &str| {
        let list = kind.caller.get(&format!("{}?fieldSelector={query}", kind.path)).is(200).json();
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("spec.color%3Dred"), ["a", "c"]);
    assert_eq!(names("spec.color%3Dred,spec.count%3D2"), ["c"]);
    assert_eq!(names("spec.color!%3Dred"), ["b"]);
    let watch = kind.caller.watch(&format!("{}?watch=1&fieldSelector=spec.color%3Dgreen", kind.path));
    assert_eq!(watch.next_short(), "ADDED b");
    kind.caller.patch("merge", &kind.at("a"), &json!({"spec": {"color": "green"}})).is(200);
    assert_eq!(watch.next_short(), "ADDED a");
    kind.caller.patch("merge", &kind.at("b"), &json!({"spec": {"color": "red"}})).is(200);
    assert_eq!(watch.next_short(), "DELETED b");
    let refused = kind.caller.get(&format!("{}?fieldSelector=spec.name%3Dx", kind.path));
    assert_eq!(refused.refusal(400, "BadRequest"), "field label not supported: spec.name");
}

#[test]
fn a_kind_that_names_no_fields_is_selected_by_none() {
    let kind = kind("fieldless", &|_| {});
    let refused = kind.caller.get(&format!("{}?fieldSelector=spec.color%3Dred", kind.path));
    assert_eq!(refused.refusal(400, "BadRequest"), "field label not supported: spec.color");
}
