//! What is handed over, and where it stands in discovery.

use karmada_registry::cache::storage_key;
use karmada_schema::object::{ObjectKey, encode, meta};
use karmada_store::{Expect, MemoryStore, Store};
use serde_json::json;

use super::*;

async fn aggregator(objects: &[Value]) -> Arc<Aggregator> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for object in objects {
        let storage = StorageId(format!("{GROUP}/apiservices").into());
        let key = storage_key(&storage, &ObjectKey::new("", meta::name(object)));
        store.put(&key, encode(object, "APIService", &format!("{GROUP}/v1")), Expect::Absent).await.unwrap();
    }
    Aggregator::new(&Cache::load(&*store).await.unwrap(), ClientIdentity::default())
}

fn service(group: &str, version: &str, priority: i64, available: bool) -> Value {
    json!({
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": priority, "versionPriority": 10,
            "service": {"namespace": "n", "name": "s", "port": 443}},
        "status": {"conditions": [{"type": "Available", "status": if available { "True" } else { "False" }}]},
    })
}

#[tokio::test]
async fn paths_of_a_group_that_is_handed_over_are_the_other_servers() {
    let local = json!({"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1"}});
    let none = aggregator(&[]);
    let aggregator = aggregator(&[service("metrics.k8s.io", "v1beta1", 100, true), local]).await;
    for (path, theirs) in [
        ("/apis/metrics.k8s.io/v1beta1", true),
        ("/apis/metrics.k8s.io/v1beta1/nodes/a", true),
        ("/openapi/v3/apis/metrics.k8s.io/v1beta1", true),
        ("/apis/metrics.k8s.io/v1", false),
        ("/apis/metrics.k8s.io", false),
        ("/apis", false),
        ("/openapi/v3", false),
        ("/openapi/v2/apis/metrics.k8s.io/v1beta1", false),
        ("/api/metrics.k8s.io/v1beta1", false),
        ("/apis/apps/v1/deployments", false),
        ("/", false),
    ] {
        assert_eq!(aggregator.answers(path).is_some(), theirs, "{path}");
    }
    assert!(none.await.groups().is_none());
}

#[tokio::test]
async fn groups_stand_where_their_priority_says() {
    let all = [
        service("metrics.k8s.io", "v1beta1", 100, true),
        service("early.example.org", "v1", 17_750, true),
        service("apps", "v2", 17_800, false),
    ];
    let aggregator = aggregator(&all).await;
    let groups = aggregator.groups().unwrap();
    let mut list = vec![
        json!({"name": "apiregistration.k8s.io"}),
        json!({"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}),
        json!({"name": "batch"}),
        json!({"name": "work.karmada.io"}),
    ];
    groups.add_to_list(&mut list);
    let names: Vec<&str> = list.iter().map(|group| group["name"].as_str().unwrap()).collect();
    let order =
        ["apiregistration.k8s.io", "apps", "early.example.org", "batch", "work.karmada.io", "metrics.k8s.io"];
    assert_eq!(names, order);
    assert_eq!(list[1]["versions"].as_array().unwrap().len(), 2);
    assert_eq!(list[5]["preferredVersion"]["groupVersion"], "metrics.k8s.io/v1beta1");

    let place = ("metrics.k8s.io".into(), "v1beta1".into());
    let discovery = json!({"version": "v1beta1", "resources": [{"resource": "nodes"}]});
    let discovery = discovery.to_string().into();
    aggregator.describe(place, Described { discovery, openapi_hash: Some("ABC".into()) });
    let groups = aggregator.groups().unwrap();
    let mut items = vec![json!({"metadata": {"name": "apps"}, "versions": [{"version": "v1"}]})];
    groups.add_to_discovery(&mut items);
    assert_eq!(
        items[2]["versions"][0],
        json!({"version": "v1beta1", "freshness": "Current", "resources": [{"resource": "nodes"}]})
    );
    assert_eq!(items[0]["versions"][1], json!({"version": "v2", "freshness": "Stale"}));
    let mut index = json!({"paths": {}});
    groups.add_to_openapi(&mut index);
    assert_eq!(
        index["paths"],
        json!({"apis/metrics.k8s.io/v1beta1": {"serverRelativeURL": "/openapi/v3/apis/metrics.k8s.io/v1beta1?hash=ABC"}})
    );
}

#[tokio::test]
async fn what_all_servers_say_of_themselves_has_its_bound() {
    let aggregator = aggregator(&[]).await;
    for at in 0..100 {
        let discovery = vec![b' '; remote_discovery::LARGEST_ENTRY].into();
        aggregator
            .describe((format!("g{at}").into(), "v1".into()), Described { discovery, openapi_hash: None });
    }
    let kept: usize = aggregator.described.read().values().map(|one| one.discovery.len()).sum();
    assert!(kept <= MOST_DESCRIBED, "{kept}");
}
