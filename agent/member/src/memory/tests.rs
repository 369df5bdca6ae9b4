//! The member in memory: what its controllers play, and what it refuses.

use super::*;

fn deployment(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"karmada.io/managed": "true"}},
        "spec": {"replicas": replicas}})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_ready_and_a_watch_tells() {
    let member = MemoryMember::new("m", 1, Duration::from_secs(2));
    let watch = Watch {
        gvk: Gvk::new("apps/v1", "Deployment"),
        namespace: String::new(),
        labels: "karmada.io/managed=true".into(),
        fields: String::new(),
    };
    let mut events = member.watch(watch);
    member.apply(&deployment(3)).await.unwrap();
    let mut ready = Vec::new();
    for _ in 0..4 {
        ready.push(match events.next().await.unwrap().unwrap() {
            MemberEvent::Object(object) => object.pointer("/status/readyReplicas").and_then(Value::as_i64),
            _ => Some(-1),
        });
    }
    assert_eq!(ready, [Some(-1), Some(-1), None, Some(3)]);
    let writes = member.writes();
    let again = member.apply(&deployment(3)).await.unwrap();
    assert_eq!((member.writes(), object::generation(&again)), (writes, 1), "nothing changed");
}

#[tokio::test]
async fn namespaces_and_kinds_must_exist() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let mut lost = deployment(1);
    object::metadata(&mut lost).insert("namespace".into(), "nowhere".into());
    assert!(matches!(member.apply(&lost).await, Err(MemberError::NotFound(_))));
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}});
    assert!(matches!(member.apply(&custom).await, Err(MemberError::NoKind(_))));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1"}]}});
    member.apply(&definition).await.unwrap();
    member.apply(&custom).await.unwrap();
}

/// A controller that was about to write a status does not bring back what was removed meanwhile.
#[test]
fn what_is_removed_while_it_is_edited_stays_away() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let id = ObjectId::of(&deployment(1));
    member.seed(deployment(1));
    let other = member.clone();
    let removed = id.clone();
    let mut remover = None;
    let edited = member.edit(&id, |object| {
        remover = Some(std::thread::spawn(move || other.remove(&removed)));
        // Long enough that the other thread gets as far as it can.
        std::thread::sleep(Duration::from_millis(50));
        object::root(object).insert("status".into(), json!({"readyReplicas": 1}));
    });
    let removed = remover.map(|remover| remover.join().unwrap());
    assert_eq!((edited, removed), (true, Some(true)));
    assert_eq!(member.read(&id), None);
}
