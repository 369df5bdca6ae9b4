//! Lists: pages that agree with each other, versions, selectors, order.

use serde_json::{Value, json};
use tests::api::text_at;

use crate::request::{Caller, Calls as _};
use tests::subject::shared;

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|o| text_at(o, "/metadata/name")).collect()
}

/// Twelve Secrets `s-00`…`s-11`, in a namespace where nothing else makes Secrets; even ones are labelled so.
fn dozen(caller: &Caller, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    for n in 0..12 {
        let labels = if n % 2 == 0 {
            json!({"parity": "even", "n": n.to_string()})
        } else {
            json!({"n": n.to_string()})
        };
        caller.post(&path, &json!({"metadata": {"name": format!("s-{n:02}"), "labels": labels}})).is(201);
    }
    path
}

#[test]
fn pages_show_one_moment() {
    let subject = shared();
    let caller = subject.caller();
    let path = dozen(&caller, &subject.namespace("pages"));
    let first = caller.get(&format!("{path}?limit=5")).is(200).json();
    assert_eq!(names(&first), ["s-00", "s-01", "s-02", "s-03", "s-04"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 7);
    // What happens between two pages is not in the second: not the change, the end or the beginning of an object.
    caller.delete(&format!("{path}/s-06"), &Value::Null).is(200);
    caller.patch("merge", &format!("{path}/s-07"), &json!({"metadata": {"labels": {"late": "yes"}}})).is(200);
    caller.post(&path, &json!({"metadata": {"name": "s-055"}})).is(201);
    let token = text_at(&first, "/metadata/continue");
    let second = caller.get(&format!("{path}?limit=5&continue={token}")).is(200).json();
    assert_eq!(names(&second), ["s-05", "s-06", "s-07", "s-08", "s-09"]);
    assert_eq!(second["items"][2]["metadata"]["labels"].get("late"), None, "{second}");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 2);
    let token = text_at(&second, "/metadata/continue");
    let third = caller.get(&format!("{path}?limit=5&continue={token}")).is(200).json();
    assert_eq!(names(&third), ["s-10", "s-11"]);
    assert!(third["metadata"].get("continue").is_none_or(|c| c == ""), "{third}");
    assert!(third["metadata"].get("remainingItemCount").is_none(), "{third}");
    let fresh = caller.get(&path).is(200).json();
    assert!(names(&fresh).contains(&"s-055") && !names(&fresh).contains(&"s-06"));

    let exactly = caller.get(&format!("{path}?limit=12")).is(200).json();
    assert!(
        exactly["metadata"].get("continue").is_none_or(|c| c == ""),
        "twelve of twelve have no next page"
    );
    let selected = caller.get(&format!("{path}?limit=2&labelSelector=parity%3Deven")).is(200).json();
    assert_eq!(names(&selected), ["s-00", "s-02"]);
    assert!(selected["metadata"].get("remainingItemCount").is_none(), "nobody counts what a selector leaves");
    let answer = caller.get(&format!("{path}?limit=5&continue={token}&resourceVersion=1"));
    answer.refusal(400, "BadRequest");
}

#[test]
fn a_list_shows_the_version_it_is_asked_for() {
    let subject = shared();
    let caller = subject.caller();
    let path = dozen(&caller, &subject.namespace("versions"));
    let then = caller.get(&path).is(200).json();
    let version = text_at(&then, "/metadata/resourceVersion").to_owned();
    caller.delete(&format!("{path}/s-00"), &Value::Null).is(200);
    for query in [
        "",
        "resourceVersion=0",
        &format!("resourceVersion={version}"),
        &format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    ] {
        let list = caller.get(&format!("{path}?{query}")).is(200).json();
        assert!(names(&list).len() == 11 || query.ends_with("=0"), "{query}: {:?}", names(&list));
        let now: u64 = text_at(&list, "/metadata/resourceVersion").parse().unwrap();
        assert!(now > version.parse().unwrap() || query.ends_with("=0"), "{query}");
    }
    let exact =
        caller.get(&format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact")).is(200).json();
    assert_eq!((names(&exact).len(), text_at(&exact, "/metadata/resourceVersion")), (12, version.as_str()));
}

#[test]
fn selectors_select() {
    let subject = shared();
    let caller = subject.caller();
    let namespace = subject.namespace("selectors");
    let path = dozen(&caller, &namespace);
    for (selector, count) in [
        ("parity", 6),
        ("parity=even", 6),
        ("parity==even", 6),
        ("parity!=even", 6),
        ("!parity", 6),
        ("n in (1,2,3)", 3),
        ("n notin (1,2,3)", 9),
        ("parity=even,n notin (0)", 5),
        ("n>8", 3),
        ("n<2", 2),
        ("n in (1,2),n in (2,3)", 1),
        ("nothing", 0),
        ("", 12),
    ] {
        let query = format!("{path}?labelSelector={}", encoded(selector));
        let list = caller.get(&query).is(200).json();
        assert_eq!(names(&list).len(), count, "{selector}: {:?}", names(&list));
    }
    for (selector, count) in [
        ("metadata.name=s-03", 1),
        ("metadata.name!=s-03", 11),
        ("metadata.name=s-03,metadata.name=s-04", 0),
        ("type=Opaque", 12),
        ("type!=Opaque", 0),
    ] {
        let query = format!("{path}?fieldSelector={}", encoded(selector));
        assert_eq!(names(&caller.get(&query).is(200).json()).len(), count, "{selector}");
    }
    let query =
        format!("/api/v1/secrets?fieldSelector={}", encoded(&format!("metadata.namespace={namespace}")));
    assert_eq!(names(&caller.get(&query).is(200).json()).len(), 12);
}

#[test]
fn lists_are_in_the_order_of_namespace_and_name() {
    let subject = shared();
    let caller = subject.caller();
    let (b, a) = (subject.namespace("order-b"), subject.namespace("order-a"));
    for (namespace, name) in [(&b, "z"), (&b, "a"), (&a, "m"), (&a, "m.a"), (&a, "m-a")] {
        let object = json!({"metadata": {"name": name, "labels": {"order": "yes"}}});
        caller.post(&format!("/api/v1/namespaces/{namespace}/secrets"), &object).is(201);
    }
    let list = caller.get("/api/v1/secrets?labelSelector=order%3Dyes").is(200).json();
    assert_eq!(names(&list), ["m", "m-a", "m.a", "a", "z"]);
    for item in list["items"].as_array().unwrap() {
        assert!(item.get("kind").is_none(), "items of typed lists do not repeat their kind: {item}");
    }
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = caller.get_as("/api/v1/secrets?labelSelector=order%3Dyes", metadata).is(200).json();
    assert_eq!((text_at(&partial, "/kind"), names(&partial).len()), ("PartialObjectMetadataList", 5));
    assert!(partial["items"][0].get("type").is_none(), "{partial}");
    let yaml = caller.get_as("/api/v1/secrets?labelSelector=order%3Dyes", "application/yaml").is(200);
    let parsed: Value = serde_saphyr::from_str(&yaml.text).unwrap();
    assert_eq!(names(&parsed).len(), 5);
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}
