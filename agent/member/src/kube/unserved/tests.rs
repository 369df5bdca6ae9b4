//! A kind that discovery does not name, on API servers over loopback that know more or less of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::kube::{KubeMember, fake};
use crate::{Member, ObjectId};

type Answers = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

fn group(name: &str, version: &str, kind: &str) -> Value {
    json!({"metadata": {"name": name}, "versions": [{"version": version, "freshness": "Current",
        "resources": [{"resource": format!("{}s", kind.to_lowercase()), "responseKind": {"kind": kind}, "scope": "Namespaced"}]}]})
}

fn groups(groups: &[Value]) -> String {
    json!({"kind": "APIGroupDiscoveryList", "items": groups}).to_string()
}

fn names(names: &[&str]) -> String {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    json!({"metadata": {}, "items": items}).to_string()
}

/// A member that is ready and serves what every one does; nothing of `example.com`.
async fn member() -> (KubeMember, Answers) {
    let services = group(SERVICES_GROUP, "v1", "APIService");
    let answers = BTreeMap::from([
        ("/readyz".to_owned(), (200, "ok".to_owned())),
        ("/api".to_owned(), (200, groups(&[]))),
        ("/apis".to_owned(), (200, groups(&[services]))),
        (DEFINITIONS.to_owned(), (200, names(&["others.example.org"]))),
        (SERVICES.to_owned(), (200, names(&["v1.", "v1.apps"]))),
    ]);
    let answers = Arc::new(Mutex::new(answers));
    let asked = answers.clone();
    let member = fake::member(move |uri| match asked.lock().get(uri.path()) {
        Some((status, body)) => fake::said(StatusCode::from_u16(*status).unwrap(), body.clone()),
        None => fake::said(StatusCode::NOT_FOUND, "404 page not found\n"),
    });
    (member.await, answers)
}

fn things() -> Gvk {
    Gvk::new("example.com/v1", "Thing")
}

async fn known(member: &KubeMember) -> Result<Unserved, MemberError> {
    let id = ObjectId { gvk: things(), namespace: "d".into(), name: "t".into() };
    assert_eq!(member.get(&id).await, Err(MemberError::NoKind(things())));
    member.unserved(&things()).await
}

fn set(answers: &Answers, path: &str, status: u16, body: String) {
    answers.lock().insert(path.to_owned(), (status, body));
}

#[tokio::test]
async fn a_kind_that_nobody_defines_has_no_objects() {
    let (member, answers) = member().await;
    assert_eq!(known(&member).await, Ok(Unserved::Undefined));
    // A member without any definition, in kube-apiserver's words.
    let none =
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":null}"#;
    set(&answers, DEFINITIONS, 200, none.into());
    assert_eq!(known(&member).await, Ok(Unserved::Undefined));
    // Another kind of the group is no definition of this one.
    set(&answers, DEFINITIONS, 200, names(&["others.example.com"]));
    let other = json!({"spec": {"names": {"kind": "Other"}}}).to_string();
    set(&answers, &format!("{DEFINITIONS}/others.example.com"), 200, other);
    assert_eq!(known(&member).await, Ok(Unserved::Undefined));
}

#[tokio::test]
async fn a_kind_that_is_defined_and_not_served_may_have_objects() {
    let (member, answers) = member().await;
    set(&answers, DEFINITIONS, 200, names(&["others.example.org", "things.example.com"]));
    let definition = json!({"spec": {"names": {"kind": "Thing"}}}).to_string();
    set(&answers, &format!("{DEFINITIONS}/things.example.com"), 200, definition);
    assert_eq!(known(&member).await, Ok(Unserved::Hidden));
}

#[tokio::test]
async fn a_kind_of_an_aggregated_server_that_is_away_may_have_objects() {
    let (member, answers) = member().await;
    set(&answers, SERVICES, 200, names(&["v1.apps", "v1.example.com"]));
    assert_eq!(known(&member).await, Ok(Unserved::Hidden));
}

#[tokio::test]
async fn a_member_that_is_not_ready_or_does_not_say_what_it_defines_proves_nothing() {
    let (member, answers) = member().await;
    set(&answers, "/readyz", 500, "[-]poststarthook/crd-informer-synced failed".into());
    assert_eq!(known(&member).await, Ok(Unserved::Hidden));
    set(&answers, "/readyz", 200, "ok".into());
    for (status, body) in [(404, "404 page not found"), (200, "{}"), (200, "{\"items\":null}"), (503, "")] {
        set(&answers, DEFINITIONS, status, body.into());
        assert!(known(&member).await.is_err(), "{status} {body}");
    }
    let forbidden =
        json!({"message": "cannot list resource \"customresourcedefinitions\" in API group"}).to_string();
    set(&answers, DEFINITIONS, 403, forbidden);
    assert!(matches!(known(&member).await, Err(MemberError::Forbidden(_))));
}

#[tokio::test]
async fn another_version_of_the_kind_serves_its_objects() {
    let (member, answers) = member().await;
    set(&answers, "/apis", 200, groups(&[group("example.com", "v2", "Thing")]));
    assert_eq!(known(&member).await, Ok(Unserved::As(Gvk::new("example.com/v2", "Thing"))));
}

#[tokio::test]
async fn a_path_that_is_not_there_says_nothing_of_the_object() {
    let (member, answers) = member().await;
    set(&answers, "/apis", 200, groups(&[group("example.com", "v1", "Thing")]));
    let id = ObjectId { gvk: things(), namespace: "d".into(), name: "t".into() };
    let error = member.get(&id).await.unwrap_err().to_string();
    assert!(error.contains("not served"), "{error}");
    assert!(member.delete(&id, "uid").await.is_err());
    let path = "/apis/example.com/v1/namespaces/d/things/t";
    let gone = json!({"kind": "Status", "reason": "NotFound", "message": "things \"t\" not found", "details": {"name": "t"}});
    set(&answers, path, 404, gone.to_string());
    assert_eq!(member.get(&id).await, Ok(None));
}
