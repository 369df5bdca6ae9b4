//! kube-rs, as operators in Rust use it: typed and dynamic clients, discovery, reflectors in both ways, a controller of a kind of
//! its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use karmada_schema::KUBERNETES_VERSION;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch,
    PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::discovery::{self, Discovery, Scope, verbs};
use kube::{Client, Error, Resource, ResourceExt};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::finalizer::{Event as Finalizing, finalizer};
use kube_runtime::reflector::{ObjectRef, reflector, store};
use kube_runtime::wait::{await_condition, conditions};
use kube_runtime::watcher::{self, watcher};
use kube_runtime::{WatchStreamExt, predicates};
use serde_json::json;
use tests::runtime;
use tests::wait::TIMEOUT;

use tests::subject::shared;

/// Runs the future with a client of the shared server, in a namespace of the test's own.
#[track_caller]
fn with_client<F: Future<Output = ()>>(name: &str, run: impl FnOnce(Client, String) -> F) {
    let subject = shared();
    let namespace = subject.namespace(name);
    let done = async { tokio::time::timeout(TIMEOUT, run(subject.api().client(), namespace)).await };
    assert!(runtime().block_on(done).is_ok(), "{name} did not end within {TIMEOUT:?}");
}

fn map(name: &str, value: &str) -> ConfigMap {
    let labels = [("set".to_owned(), "ours".to_owned())].into();
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

#[test]
fn typed_objects_are_written_and_watched() {
    with_client("typed", |client, namespace| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let (post, ours) = (PostParams::default(), ListParams::default().labels("set=ours"));
        let made = maps.create(&post, &map("one", "1")).await.unwrap();
        let twice = maps.create(&post, &map("one", "1")).await.unwrap_err();
        assert!(matches!(&twice, Error::Api(status) if status.is_already_exists()), "{twice}");
        let since = made.resource_version().unwrap();
        let mut stale = made.clone();
        stale.data = map("one", "stale").data;
        let mut fresh = made;
        fresh.data = map("one", "2").data;
        maps.replace("one", &post, &fresh).await.unwrap();
        let conflict = maps.replace("one", &post, &stale).await.unwrap_err();
        assert!(matches!(&conflict, Error::Api(status) if status.is_conflict()), "{conflict}");
        let merge = Patch::Merge(json!({"data": {"value": "3"}}));
        maps.patch("one", &PatchParams::default(), &merge).await.unwrap();
        let json_patch = serde_json::from_value(json!([{"op": "test", "path": "/data/value", "value": "3"},
            {"op": "replace", "path": "/data/value", "value": "4"}]));
        let json_patch = Patch::Json::<()>(json_patch.unwrap());
        maps.patch("one", &PatchParams::default(), &json_patch).await.unwrap();
        let apply = PatchParams::apply("mine");
        let applied = maps.patch("two", &apply, &Patch::Apply(&map("two", "a"))).await.unwrap();
        assert_eq!(applied.managed_fields()[0].manager.as_deref(), Some("mine"));
        let theirs = maps.patch("two", &PatchParams::apply("theirs"), &Patch::Apply(&map("two", "b"))).await;
        let theirs = theirs.unwrap_err();
        assert!(theirs.to_string().contains("conflict with \"mine\": .data.value"), "{theirs}");
        let forced = PatchParams::apply("theirs").force();
        assert_eq!(value(&maps.patch("two", &forced, &Patch::Apply(&map("two", "b"))).await.unwrap()), "b");
        let listed = maps.list(&ours).await.unwrap();
        assert_eq!(listed.items.iter().map(value).collect::<Vec<_>>(), ["4", "b"]);
        let bare = maps.list_metadata(&ours).await.unwrap();
        assert_eq!(bare.items.iter().map(|one| one.name_any()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(maps.get_metadata("one").await.unwrap().name_any(), "one");
        assert!(maps.get_opt("three").await.unwrap().is_none());
        maps.delete("one", &DeleteParams::default()).await.unwrap();
        // What happened since the first object, from the log.
        let watch = maps.watch(&WatchParams::default().labels("set=ours"), &since).await.unwrap();
        let seen: Vec<String> = watch
            .try_filter_map(|event| async move {
                Ok(match event {
                    WatchEvent::Added(map) => Some(format!("+{} {}", map.name_any(), value(&map))),
                    WatchEvent::Modified(map) => Some(format!("~{} {}", map.name_any(), value(&map))),
                    WatchEvent::Deleted(map) => Some(format!("-{} {}", map.name_any(), value(&map))),
                    _ => None,
                })
            })
            .take(6)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(seen, ["~one 2", "~one 3", "~one 4", "+two a", "~two b", "-one 4"]);
    });
}

#[test]
fn everything_served_is_discovered() {
    with_client("discovered", |client, namespace| async move {
        let all = Discovery::new(client.clone()).run().await.unwrap();
        let aggregated = Discovery::new(client.clone()).run_aggregated().await.unwrap();
        let names = |discovery: &Discovery| {
            let mut names: Vec<String> =
                discovery.groups_alphabetical().iter().map(|group| group.name().to_owned()).collect();
            // Other tests define kinds of their own meanwhile.
            names.retain(|name| !name.contains("example.com"));
            names
        };
        assert_eq!(names(&all), names(&aggregated));
        assert!(all.has_group("apps") && all.has_group("apiextensions.k8s.io"));
        let mut lists = 0;
        for group in all.groups() {
            if group.name().contains("example.com") {
                continue;
            }
            for (resource, capabilities) in group.recommended_resources() {
                if !capabilities.supports_operation(verbs::LIST) {
                    continue;
                }
                let api: Api<DynamicObject> = match capabilities.scope {
                    Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
                    Scope::Cluster => Api::all_with(client.clone(), &resource),
                };
                api.list(&ListParams::default().limit(3))
                    .await
                    .unwrap_or_else(|e| panic!("{resource:?}: {e}"));
                lists += 1;
            }
        }
        assert!(lists > 40, "{lists} kinds could be listed");
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await.unwrap();
        assert_eq!((&*resource.plural, capabilities.scope), ("deployments", Scope::Namespaced));
        let version = client.apiserver_version().await.unwrap();
        assert_eq!((&*version.major, &*version.minor), ("1", KUBERNETES_VERSION.split('.').nth(1).unwrap()));
    });
}

#[test]
fn reflectors_hold_what_the_server_holds() {
    for (name, config) in [
        ("listed", watcher::Config::default().page_size(3)),
        ("streamed", watcher::Config::default().streaming_lists()),
    ] {
        // The server ends each watch after a second: the reflector goes on.
        let config = config.labels("set=ours").timeout(1);
        with_client(name, |client, namespace| async move {
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
            let apply = PatchParams::apply("mine");
            for n in 0..8 {
                let one = map(&format!("m-{n}"), "before");
                maps.patch(&one.name_any(), &apply, &Patch::Apply(&one)).await.unwrap();
            }
            let (reader, writer) = store();
            let stream = reflector(writer, watcher(maps.clone(), config)).default_backoff().touched_objects();
            let mut stream = Box::pin(stream);
            tokio::select! {
                ready = reader.wait_until_ready() => ready.unwrap(),
                () = async { while stream.next().await.is_some() {} } => panic!("the stream ended"),
            }
            assert_eq!(reader.len(), 8);
            let writes = async {
                for n in 0..6 {
                    let one = map(&format!("m-{n}"), "after");
                    maps.patch(&one.name_any(), &apply, &Patch::Apply(&one)).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(400)).await;
                }
                maps.delete("m-7", &DeleteParams::default()).await.unwrap();
                let settled = || {
                    let after = reader.state().iter().filter(|one| value(one) == "after").count();
                    after == 6 && reader.len() == 7
                };
                while !settled() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                () = writes => {}
                () = async { while stream.next().await.is_some() {} } => panic!("the stream ended"),
            }
            let found = reader.get(&ObjectRef::new("m-0").within(&namespace)).unwrap();
            assert_eq!(value(&found), "after");
        });
    }
}

/// A kind of the tests' own, and where it is served.
fn definition(group: &str) -> (serde_json::Value, ApiResource) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("boats.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Boat", "plural": "boats"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"sails": {"type": "integer"}}},
                "status": {"type": "object", "properties": {"sails": {"type": "integer"}}},
            }}},
        }]},
    });
    let gvk = GroupVersionKind::gvk(group, "v1", "Boat");
    (crd, ApiResource::from_gvk_with_plural(&gvk, "boats"))
}

struct Context {
    client: Client,
    boats: Api<DynamicObject>,
    resource: ApiResource,
    cleaned: AtomicUsize,
}

type Failure = kube_runtime::finalizer::Error<Error>;

/// One ConfigMap for each boat, and its status, until it goes.
async fn reconcile(boat: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &boat.namespace().unwrap_or_default());
    let inner = context.clone();
    finalizer(&context.boats, "example.com/harbour", boat, |event| async move {
        match event {
            Finalizing::Apply(boat) => {
                let sails = boat.data["spec"]["sails"].as_i64().unwrap_or(0);
                let mut child = map(&format!("{}-log", boat.name_any()), &sails.to_string());
                child.metadata.owner_references =
                    Some(vec![boat.controller_owner_ref(&inner.resource).expect("a stored object has a uid")]);
                maps.patch(&child.name_any(), &PatchParams::apply("boats").force(), &Patch::Apply(&child)).await?;
                let status = json!({"apiVersion": inner.resource.api_version, "kind": "Boat", "status": {"sails": sails}});
                let params = PatchParams::apply("boats").force();
                inner.boats.patch_status(&boat.name_any(), &params, &Patch::Apply(&status)).await?;
                Ok(Action::await_change())
            }
            Finalizing::Cleanup(_) => {
                inner.cleaned.fetch_add(1, Ordering::SeqCst);
                Ok(Action::await_change())
            }
        }
    })
    .await
}

/// A controller tries again; a test that does not end shows what stood in its way.
#[allow(clippy::needless_pass_by_value, reason = "kube-rs calls it so")]
fn again_soon(_: Arc<DynamicObject>, error: &Failure, _: Arc<Context>) -> Action {
    println!("reconciling: {error}");
    Action::requeue(Duration::from_millis(50))
}

#[test]
fn a_controller_of_its_own_kind_reconciles() {
    with_client("controller", |client, namespace| async move {
        let (crd, resource) = definition(&format!("{namespace}.example.com"));
        let crds = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        ));
        let crds: Api<DynamicObject> = Api::all_with(client.clone(), &crds);
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        let crd: DynamicObject = serde_json::from_value(crd).unwrap();
        crds.create(&PostParams::default(), &crd).await.unwrap();
        await_condition(crds.clone(), &name, |object: Option<&DynamicObject>| {
            let conditions = object.and_then(|object| object.data["status"]["conditions"].as_array());
            conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Established" && one["status"] == "True")
        })
        .await
        .unwrap();
        let boats: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        let context = Arc::new(Context {
            client: client.clone(),
            boats: boats.clone(),
            resource: resource.clone(),
            cleaned: AtomicUsize::new(0),
        });
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let controller = Controller::new_with(boats.clone(), watcher::Config::default(), resource.clone())
            .owns(maps.clone(), watcher::Config::default())
            .run(reconcile, again_soon, context.clone())
            .for_each(|_| std::future::ready(()));
        let drive = async {
            let boat = |sails: i64| {
                let mut boat = DynamicObject::new("one", &resource);
                boat.data = json!({"spec": {"sails": sails}});
                boat
            };
            let params = PatchParams::apply("owner");
            for sails in [2, 3] {
                boats.patch("one", &params, &Patch::Apply(boat(sails))).await.unwrap();
                let settled = move |boat: Option<&DynamicObject>| {
                    boat.is_some_and(|b| b.data["status"]["sails"] == sails)
                };
                await_condition(boats.clone(), "one", settled).await.unwrap();
                assert_eq!(value(&maps.get("one-log").await.unwrap()), sails.to_string());
            }
            // The child wakes its owner.
            let uid = maps.get("one-log").await.unwrap().uid().unwrap();
            maps.delete("one-log", &DeleteParams::default()).await.unwrap();
            let again = |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid().as_ref() != Some(&uid));
            await_condition(maps.clone(), "one-log", again).await.unwrap();
            let uid = boats.get("one").await.unwrap().uid().unwrap();
            boats.delete("one", &DeleteParams::default()).await.unwrap();
            await_condition(boats.clone(), "one", conditions::is_deleted(&uid)).await.unwrap();
            assert_eq!(context.cleaned.load(Ordering::SeqCst), 1);
        };
        tokio::select! {
            () = controller => panic!("the controller ended"),
            () = drive => {}
        }
    });
}

#[test]
fn workloads_are_scaled_and_restarted() {
    with_client("workloads", |client, namespace| async move {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
        let web: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}},
        }))
        .unwrap();
        let watched = watcher(deployments.clone(), watcher::Config::default()).applied_objects();
        let mut generations = Box::pin(watched.predicate_filter(predicates::generation, Default::default()));
        deployments.create(&PostParams::default(), &web).await.unwrap();
        assert_eq!(generations.next().await.unwrap().unwrap().metadata.generation, Some(1));
        let scale = deployments.get_scale("web").await.unwrap();
        assert_eq!(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0), 0);
        let wanted = Patch::Merge(json!({"spec": {"replicas": 2}}));
        deployments.patch_scale("web", &PatchParams::default(), &wanted).await.unwrap();
        // Not a new generation, and so not seen.
        deployments
            .patch_metadata(
                "web",
                &PatchParams::default(),
                &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})),
            )
            .await
            .unwrap();
        deployments.restart("web").await.unwrap();
        assert_eq!(generations.next().await.unwrap().unwrap().spec.unwrap().replicas, Some(2));
        let restarted = generations.next().await.unwrap().unwrap();
        assert_eq!(restarted.metadata.generation, Some(3));
        let status = Patch::Merge(json!({"status": {"observedGeneration": 3, "replicas": 2, "conditions": [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}, {"type": "Available", "status": "True"}]}}));
        deployments.patch_status("web", &PatchParams::default(), &status).await.unwrap();
        await_condition(deployments.clone(), "web", conditions::is_deployment_completed()).await.unwrap();
    });
}
