//! What is one object under two names: another version of its kind, a namespace that it is not in; and what can be no object at all.

use super::departures::delete;
use super::*;

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "stores.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Store", "plural": "stores"},
            "versions": [{"name": "v1beta1"}, {"name": "v1"}]}})
}

fn store(version: &str, size: i64) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Store", "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"size": size}})
}

fn role(namespace: &str, verb: &str) -> Value {
    let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]});
    if !namespace.is_empty() {
        karmada_api::object::metadata(&mut role).insert("namespace".into(), namespace.into());
    }
    role
}

fn uid(rig: &Rig, manifest: &Value) -> Option<String> {
    Some(karmada_api::object::uid(&rig.member.read(&ObjectId::of(manifest))?).to_owned())
}

/// A member that serves Stores in two versions.
pub(super) async fn of_stores() -> MemoryMember {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.apply(&definition()).await.unwrap();
    member
}

/// A definition gets a new version, and the policy names it; a manifest loses a namespace that it never needed.
#[tokio::test(start_paused = true)]
async fn an_object_that_a_newer_body_names_otherwise_is_not_taken_away() {
    let bodies = [
        (store("v1beta1", 1), store("v1", 2)),
        (store("v1", 1), store("v1beta1", 2)),
        (role("default", "get"), role("", "list")),
        (role("", "get"), role("default", "list")),
        (role("one", "get"), role("two", "list")),
    ];
    for (before, after) in bodies {
        let rig = Rig::new(of_stores().await, Ledger::in_memory().unwrap());
        rig.commit(&[put("a", 1, std::slice::from_ref(&before), false)]);
        rig.until("applied", |rig| rig.applied("a")).await;
        let made = uid(&rig, &before);
        rig.commit(&[put("a", 2, std::slice::from_ref(&after), false)]);
        rig.until("applied", |rig| rig.applied("a")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(made.is_some() && uid(&rig, &after) == made, "{before} became {after}");
        let (_, shared) = rig.end().await;
        assert_eq!(
            shared.ledger.entry("a").unwrap().unwrap().former,
            [],
            "and nothing waits to be taken away"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_no_namespace_is_brought_back_whatever_namespace_its_manifest_says() {
    let rig = Rig::fresh();
    let role = role("default", "get");
    rig.commit(&[put("a", 1, std::slice::from_ref(&role), false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    rig.member.edit(&ObjectId::of(&role), |role| role["rules"] = json!([]));
    let is_right =
        |rig: &Rig| rig.member.read(&ObjectId::of(&role)).is_some_and(|is| is["rules"] == role["rules"]);
    rig.until("brought back", is_right).await;
    rig.member.remove(&ObjectId::of(&role));
    rig.until("made again", is_right).await;
    let writes = rig.member.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(rig.member.writes(), writes);
}

/// Of one Work the old version is told about by a row of found objects; a person's word on that row is not of what a Work names now.
#[tokio::test(start_paused = true)]
async fn a_word_on_what_was_found_is_not_of_what_a_work_names_in_another_version() {
    let rig = Rig::new(of_stores().await, Ledger::in_memory().unwrap());
    rig.shared.ledger.found("a/former", &[ObjectId::of(&store("v1beta1", 1))]).unwrap();
    rig.commit(&[put("a", 1, &[store("v1", 1)], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    let made = uid(&rig, &store("v1", 1));
    let word = Change::Delete {
        key: "a/former".into(),
        uid: String::new(),
        revision: i64::MAX as u64,
        preserve: false,
        retry: String::new(),
    };
    rig.commit(&[word]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(made.is_some() && uid(&rig, &store("v1", 1)) == made);
}

/// A name that the server is to make up, one that leads elsewhere, none of a namespace where there must be one: the object cannot be found again.
#[tokio::test(start_paused = true)]
async fn what_can_be_no_object_is_refused_in_words_and_its_work_ends_at_once() {
    let mut made_up = config("", "1");
    made_up["metadata"] = json!({"generateName": "log-", "namespace": "default"});
    let mut nowhere = config("a", "1");
    karmada_api::object::metadata(&mut nowhere).remove("namespace");
    let mut elsewhere = config("a", "1");
    elsewhere["metadata"]["namespace"] = json!("../kube-system");
    let bodies = [
        (made_up, "generateName"),
        (nowhere, "namespace"),
        (elsewhere, "../kube-system"),
        (config("../../../apis", "1"), "../../../apis"),
        (config("..", "1"), ".."),
    ];
    for (manifest, words) in bodies {
        let rig = Rig::fresh();
        let before = rig.member.ids();
        rig.commit(&[put("a", 1, std::slice::from_ref(&manifest), false)]);
        rig.until("refused", |rig| said(rig, "a").contains(words)).await;
        assert_eq!(rig.member.ids(), before, "{manifest}");
        rig.commit(&[delete("a", 2)]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.shared.ledger.held().unwrap()["a"].phase, Phase::Removed, "{manifest}");
    }
}

/// What is told of them is told once.
#[tokio::test(start_paused = true)]
async fn manifests_that_are_the_same_are_one_object() {
    let rig = Rig::fresh();
    rig.commit(&[put("w", 1, &vec![config("a", "1"); 50], false)]);
    rig.until("applied", |rig| rig.applied("w")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    rig.member.edit(&id("a"), |o| karmada_api::object::set_label(o, "site", "note"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let report = rig.shared.outbox.lock().report("w").cloned().unwrap();
    let statuses: Value = serde_json::from_slice(&report.manifest_statuses.unwrap()).unwrap();
    assert_eq!(statuses.as_array().map(Vec::len), Some(1), "{statuses}");
}

#[tokio::test(start_paused = true)]
async fn more_manifests_than_an_agent_takes_are_refused_in_words() {
    let rig = Rig::fresh();
    rig.commit(&[put("many", 1, &vec![json!({}); 6000], false)]);
    let outcome = |rig: &Rig| rig.shared.ledger.entry("many").unwrap().unwrap().applied;
    rig.until("refused", |rig| outcome(rig).is_some()).await;
    let (applied, _) = outcome(&rig).unwrap();
    assert!(!applied.ok && applied.message.contains("more than 5000 manifests"), "{}", applied.message);
}

/// A Work that names the agent's own identity, whatever it says of conflicts and though the object bears its marks.
#[tokio::test(start_paused = true)]
async fn what_the_agent_lives_by_is_neither_changed_nor_removed() {
    let rig = Rig::fresh();
    let mut identity = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "karmada-agent-identity", "namespace": "agents"},
        "data": {"identity.json": "b3Vycw=="}});
    rig.member.seed(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}}));
    rig.member.seed(member_body::stamped(&identity, "m", "w"));
    let named = ObjectId::of(&identity);
    let before = rig.member.read(&named);
    identity["data"]["identity.json"] = json!("dGhlaXJz");
    karmada_api::object::set_annotation(&mut identity, "work.karmada.io/conflict-resolution", "overwrite");
    rig.commit(&[put("w", 1, &[identity, config("a", "1")], false)]);
    let outcome = |rig: &Rig| rig.shared.ledger.entry("w").unwrap().and_then(|entry| entry.applied);
    rig.until("refused", |rig| outcome(rig).is_some()).await;
    let (applied, _) = outcome(&rig).unwrap();
    assert!(!applied.ok && applied.message.contains("belongs to the agent"), "{}", applied.message);
    assert_eq!((rig.member.read(&named), rig.value("a").as_deref()), (before.clone(), Some("1")));
    rig.commit(&[put("w", 2, &[config("b", "1")], false)]);
    rig.until("what is named no more is gone", |rig| rig.value("a").is_none()).await;
    rig.commit(&[delete("w", 3)]);
    rig.until("removed", |rig| rig.value("b").is_none()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(rig.member.read(&named), before);
    assert_eq!(rig.shared.ledger.held().unwrap()["w"].phase, Phase::Removed);
}
