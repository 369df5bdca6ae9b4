//! Watches: where they begin, what they show, how they end.

use serde_json::{Value, json};
use tests::api::text_at;

use crate::request::{Caller, Calls as _, short};
use tests::subject::{is_hub, shared};

/// ConfigMaps of a namespace.
struct Maps {
    caller: Caller,
    path: String,
}

impl Maps {
    fn put(&self, name: &str, label: &str) -> u64 {
        let object = json!({"metadata": {"name": name, "labels": {"l": label}}, "data": {"a": label}});
        let answer = self.caller.post(&self.path, &object);
        let answer = match answer.code {
            409 => self.caller.patch("merge", &format!("{}/{name}", self.path), &object).is(200),
            _ => answer.is(201),
        };
        version(&answer.json())
    }

    fn delete(&self, name: &str) {
        self.caller.delete(&format!("{}/{name}", self.path), &Value::Null).is(200);
    }

    fn now(&self) -> u64 {
        version(&self.caller.get(&self.path).is(200).json())
    }

    /// A watch that leaves out what every namespace gets by itself.
    fn watch(&self, query: &str) -> crate::request::Watch {
        let others = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt";
        self.caller.watch(&format!("{}?watch=1&{others}&{query}", self.path))
    }
}

fn version(object: &Value) -> u64 {
    text_at(object, "/metadata/resourceVersion").parse().unwrap()
}

#[test]
fn a_watch_begins_where_it_is_told() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("begin")),
    };
    let first = maps.put("a", "1");
    let second = maps.put("b", "1");
    maps.put("a", "2");

    for query in ["", "resourceVersion=0", "resourceVersion="] {
        let watch = maps.watch(query);
        let mut seen = [watch.next_short(), watch.next_short()];
        seen.sort();
        assert_eq!(seen, ["ADDED a", "ADDED b"], "{query}");
        maps.put("c", "x");
        assert_eq!(watch.next_short(), "ADDED c", "{query}");
        maps.delete("c");
        assert_eq!(watch.next_short(), "DELETED c", "{query}");
    }
    let watch = maps.watch(&format!("resourceVersion={first}"));
    assert_eq!([watch.next_short(), watch.next_short()], ["ADDED b", "MODIFIED a"]);
    let watch = maps.watch(&format!("resourceVersion={second}"));
    assert_eq!(watch.next_short(), "MODIFIED a");
    let watch = maps.watch(&format!("resourceVersion={}&timeoutSeconds=1", maps.now()));
    assert_eq!(watch.rest(), [], "nothing happened");
}

#[test]
fn every_event_carries_its_own_version_in_order() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("order")),
    };
    let watch = maps.watch(&format!("resourceVersion={}", maps.now()));
    for round in 0..20 {
        maps.put("a", &round.to_string());
        maps.put("b", &round.to_string());
    }
    maps.delete("a");
    let mut last = 0;
    let mut seen = Vec::new();
    for _ in 0..41 {
        let event = watch.next();
        let now = version(&event.1);
        assert!(now > last, "{now} after {last}");
        last = now;
        seen.push(short(&event));
    }
    assert_eq!(
        (seen[0].as_str(), seen[2].as_str(), seen[40].as_str()),
        ("ADDED a", "MODIFIED a", "DELETED a")
    );
}

#[test]
fn a_deleted_object_is_shown_as_it_last_stood() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("last")),
    };
    let stood = maps.put("a", "alpha");
    let watch = maps.watch(&format!("resourceVersion={stood}"));
    maps.delete("a");
    let (kind, object) = watch.next();
    assert_eq!((kind.as_str(), text_at(&object, "/data/a")), ("DELETED", "alpha"));
    assert!(version(&object) > stood, "the removal has a version of its own: {object}");
}

#[test]
fn objects_enter_and_leave_a_selector() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("select")),
    };
    maps.put("in", "yes");
    let begin = maps.put("out", "no");
    let watch = maps.watch(&format!("resourceVersion={begin}&labelSelector=l%3Dyes"));
    maps.put("out", "yes");
    assert_eq!(watch.next_short(), "ADDED out");
    maps.put("out", "yes");
    maps.put("in", "no");
    let (kind, object) = watch.next();
    assert_eq!((kind.as_str(), text_at(&object, "/metadata/name")), ("DELETED", "in"));
    assert_eq!(text_at(&object, "/metadata/labels/l"), "yes", "it is shown as the watcher knew it");
    assert!(version(&object) > begin);
    maps.put("in", "never");
    maps.delete("in");
    maps.put("in", "yes");
    assert_eq!(watch.next_short(), "ADDED in");
    maps.delete("in");
    assert_eq!(watch.next_short(), "DELETED in");

    let watch = maps.caller.watch(&format!("{}?watch=1&fieldSelector=metadata.name%3Dout", maps.path));
    assert_eq!(watch.next_short(), "ADDED out");
    maps.put("else", "x");
    maps.put("out", "x");
    assert_eq!(watch.next_short(), "MODIFIED out");
}

#[test]
fn a_watch_of_one_namespace_sees_no_other() {
    let subject = shared();
    let caller = subject.caller();
    let (one, two) = (subject.namespace("one"), subject.namespace("two"));
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/secrets");
    let all = caller.watch("/api/v1/secrets?watch=1&labelSelector=conformance%3Dwatch");
    let watch = caller.watch(&format!("{}?watch=1&labelSelector=conformance%3Dwatch", path(&two)));
    let object = |name: &str| json!({"metadata": {"name": name, "labels": {"conformance": "watch"}}});
    caller.post(&path(&one), &object("a")).is(201);
    caller.post(&path(&two), &object("b")).is(201);
    assert_eq!(watch.next_short(), "ADDED b");
    assert_eq!([all.next_short(), all.next_short()], ["ADDED a", "ADDED b"]);
    // One object is got, whatever the query says.
    let named = caller.get(&format!("{}/b?watch=1", path(&two))).is(200).json();
    assert_eq!(text_at(&named, "/metadata/name"), "b");
    let namespace = caller.get(&format!("/api/v1/namespaces/{one}?watch=1")).is(200).json();
    assert_eq!(text_at(&namespace, "/kind"), "Namespace");
}

#[test]
fn bookmarks_come_when_asked_for() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("marks")),
    };
    let first = maps.put("a", "1");
    let initial = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for query in [
        initial.to_owned(),
        format!("{initial}&resourceVersion={first}"),
        format!("{initial}&resourceVersion=0"),
    ] {
        let watch = maps.watch(&query);
        assert_eq!(watch.next_short(), "ADDED a", "{query}");
        let (kind, object) = watch.next();
        assert_eq!(kind, "BOOKMARK", "{query}: {object}");
        assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{object}");
        assert_eq!((text_at(&object, "/kind"), text_at(&object, "/apiVersion")), ("ConfigMap", "v1"));
        assert!(version(&object) >= first, "{object}");
        maps.put("b", &query.len().to_string());
        assert!(watch.next_short().ends_with(" b"));
        maps.delete("b");
    }
    let none = maps.watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1");
    assert_eq!(none.rest().iter().map(short).collect::<Vec<_>>(), Vec::<String>::new());
    if !is_hub() {
        // kube-apiserver sends one in the last two seconds of longer watches only.
        return;
    }
    // Before a watch ends by its timeout, it says how far it came.
    let watch =
        maps.watch(&format!("allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={}", maps.now()));
    let rest = watch.rest();
    assert!(rest.iter().any(|(kind, _)| kind == "BOOKMARK"), "{rest:?}");
    let without = maps.watch(&format!("timeoutSeconds=3&resourceVersion={}", maps.now()));
    assert_eq!(without.rest(), []);
}

#[test]
fn versions_of_the_future_are_told_apart() {
    let subject = shared();
    let maps = Maps {
        caller: subject.caller(),
        path: format!("/api/v1/namespaces/{}/configmaps", subject.namespace("future")),
    };
    let future = maps.now() + 1_000_000;
    let answer = maps.caller.get(&format!("{}?resourceVersion={future}", maps.path));
    let message = answer.refusal(504, "Timeout");
    assert!(message.contains("Too large resource version"), "{message}");
    assert_eq!(answer.causes(), ["ResourceVersionTooLarge "]);
}

#[test]
fn a_watch_has_the_form_that_was_asked_for() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("form");
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    caller.post(&path, &json!({"metadata": {"name": "a"}})).is(201);
    let ask = |accept: &str| {
        let path = format!("{path}?watch=1&timeoutSeconds=1");
        let answer = caller.get_as(&path, accept).is(200);
        let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!lines.is_empty(), "{accept}: {}", answer.text);
        lines[0].clone()
    };
    let table = ask("application/json;as=Table;v=v1;g=meta.k8s.io");
    assert_eq!((text_at(&table, "/type"), text_at(&table, "/object/kind")), ("ADDED", "Table"));
    assert_eq!(table["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(table["object"]["columnDefinitions"][0]["name"], "Name");
    let partial = ask("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    assert_eq!(text_at(&partial, "/object/kind"), "PartialObjectMetadata");
    assert!(partial["object"].get("type").is_none(), "{partial}");
}
