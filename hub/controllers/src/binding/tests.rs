//! Bindings whose Works would have one name, over the port in memory.

use karmada_api::strings::annotations;
use karmada_interpreter::Chain;
use serde_json::json;

use super::*;
use crate::events::Recorder;
use crate::namespace::NamespaceSync;
use crate::port::Change;
use crate::port::fake::FakeApi;
use crate::runner::Clock;

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const WORK_API: &str = "work.karmada.io/v1alpha1";

/// Two namespaces with one hash for a ConfigMap named `same`: anybody finds such a pair within a second.
const PAIR: [&str; 2] = ["n512789", "n749192"];

struct Rig {
    api: Arc<FakeApi>,
    shared: Arc<Shared>,
}

impl Rig {
    fn new() -> Self {
        let api = Arc::new(FakeApi::default());
        api.seed_all([
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"}, "spec": {"syncMode": "Pull"}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-es-m1"}}),
        ]);
        let clock: Clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let port: Arc<dyn Api> = api.clone();
        let recorder = Recorder::new(port.clone(), "test", clock.clone());
        Rig { api, shared: Shared::new(port, Arc::new(Chain::default()), clock, recorder) }
    }

    /// A ConfigMap `name` that is placed in m1.
    fn place(&self, namespace: &str, name: &str) {
        let binding = format!("{name}-configmap");
        let id = format!("{namespace}-id");
        self.api.seed_all([
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"of": namespace}}),
            json!({"apiVersion": BINDING_API, "kind": "ResourceBinding", "metadata": {"name": binding, "namespace": namespace,
                    "labels": {"resourcebinding.karmada.io/permanent-id": id}, "finalizers": [finalizers::BINDING]},
                "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name},
                    "schedulerName": "default-scheduler", "placement": {}, "clusters": [{"name": "m1"}]}}),
        ]);
    }

    async fn reconcile(&self, namespace: &str, name: &str) -> Result<Action, Error> {
        let key = Key { namespace: namespace.into(), name: format!("{name}-configmap").into() };
        Binding::new(self.shared.clone()).reconcile(&key).await
    }

    /// The Works, as (name, template's namespace or name).
    fn works(&self) -> Vec<(String, String)> {
        let of = |work: &Value| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let named = manifest["metadata"]["annotations"][annotations::WORK_NAME].clone();
            assert_eq!(named, work["metadata"]["name"], "its object tells where it comes from");
            let namespace = &manifest["metadata"]["namespace"];
            let whose = if namespace.is_null() { &manifest["metadata"]["name"] } else { namespace };
            (text(&work["metadata"]["name"]), text(whose))
        };
        self.api.values(WORK_API, "Work").iter().map(of).collect()
    }

    /// As the watch of Works does.
    fn gone(&self, name: &str) {
        let work =
            self.api.values(WORK_API, "Work").into_iter().find(|work| work["metadata"]["name"] == name);
        self.shared.works.observe(&Change::Deleted(self.api.seed(work.unwrap())));
    }

    async fn remove(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let resource = self.api.resource_of(api_version, kind).unwrap();
        let key = Key { namespace: namespace.into(), name: name.into() };
        let mut object = self.api.value(api_version, kind, namespace, name).unwrap();
        object["metadata"]["finalizers"] = json!([]);
        self.api.update(&resource, object).await.unwrap();
        self.api.delete(&resource, &key, "", Propagation::Background).await.unwrap();
    }
}

#[tokio::test]
async fn two_bindings_whose_works_would_have_one_name_have_a_work_each() {
    let rig = Rig::new();
    for namespace in PAIR {
        rig.place(namespace, "same");
        rig.reconcile(namespace, "same").await.unwrap();
    }
    let works = rig.works();
    let [(first, one), (second, other)] = &works[..] else { panic!("{works:?}") };
    assert_eq!((one.as_str(), other.as_str()), (PAIR[0], PAIR[1]));
    assert!(second.starts_with(&format!("{first}-")), "{second}");
    let mut revision = 0;
    // The first round completes what admission completes on a hub.
    for round in 0..2 {
        for namespace in PAIR {
            rig.reconcile(namespace, "same").await.unwrap();
        }
        assert!(round == 0 || revision == rig.api.revision(), "at rest");
        revision = rig.api.revision();
    }
    assert_eq!(rig.works(), works);

    // The first goes: the second keeps its name, and does not appear twice.
    rig.gone(first);
    rig.remove(WORK_API, "Work", "karmada-es-m1", first).await;
    rig.reconcile(PAIR[1], "same").await.unwrap();
    assert_eq!(rig.works(), works[1..]);
    rig.reconcile(PAIR[0], "same").await.unwrap();
    assert_eq!(rig.works(), works, "and leaves the usual name to whoever had it");
    // Which binding a Work is of is known by the index, whatever its name.
    let binding: ResourceBinding =
        fetch::get(&*rig.api, &kinds::bindings(&*rig.api, PAIR[1]).unwrap(), PAIR[1], "same-configmap")
            .await
            .unwrap()
            .unwrap();
    let own = rig.shared.works_of(&binding).await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].metadata.name.as_deref(), Some(second.as_str()));
}

/// A Work by hand under the usual name, or one of an object that was there before: taken over as ever.
#[tokio::test]
async fn a_work_that_is_nobodys_is_taken_over() {
    let rig = Rig::new();
    rig.place("n1", "web");
    let name = karmada_api::names::work_name("ConfigMap", "web", "n1");
    rig.api.seed(json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": name, "namespace": "karmada-es-m1"},
        "spec": {"workload": {"manifests": []}}}));
    rig.reconcile("n1", "web").await.unwrap();
    assert_eq!(rig.works(), [(name, "n1".to_owned())]);
}

/// Somebody who may choose a namespace's name could else have an object of theirs take the place of another namespace.
#[tokio::test]
async fn a_namespace_and_a_binding_have_a_work_each() {
    let rig = Rig::new();
    let usual = karmada_api::names::work_name("Namespace", "team", "");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    rig.api.seed(namespace);
    rig.place("n1", "other");
    rig.reconcile("n1", "other").await.unwrap();
    let mut work = rig.api.values(WORK_API, "Work").pop().unwrap();
    rig.remove(WORK_API, "Work", "karmada-es-m1", work["metadata"]["name"].as_str().unwrap()).await;
    // As if their hashes were one.
    work["metadata"]["name"] = json!(usual);
    work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"][annotations::WORK_NAME] =
        json!(usual);
    rig.api.seed(work);
    let sync = NamespaceSync::new(rig.shared.clone(), karmada_core::skip::SkipRules::default());
    let key = Key { namespace: "".into(), name: "team".into() };
    for _ in 0..2 {
        sync.reconcile(&key).await.unwrap();
        let works = rig.works();
        assert_eq!(works[0], (usual.clone(), "n1".to_owned()));
        assert_eq!((works.len(), works[1].1.as_str()), (2, "team"), "{works:?}");
    }
}

/// Deleted and made anew at once: the Work of the first waits for its cluster, and the second's is made when it is gone.
#[tokio::test]
async fn a_namespace_that_is_made_anew_waits_for_the_work_of_the_one_before() {
    let rig = Rig::new();
    let sync = NamespaceSync::new(rig.shared.clone(), karmada_core::skip::SkipRules::default());
    let key = Key { namespace: "".into(), name: "team".into() };
    let namespace = |uid: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "uid": uid}});
    rig.api.seed(namespace("u1"));
    sync.reconcile(&key).await.unwrap();
    let owner = |rig: &Rig| {
        let works = rig.api.values(WORK_API, "Work");
        works.iter().map(|work| work["metadata"]["ownerReferences"][0]["uid"].clone()).collect::<Vec<_>>()
    };
    rig.api.seed(namespace("u2"));
    let before = rig.api.values(WORK_API, "Work");
    let waits = sync.reconcile(&key).await.unwrap();
    assert!(
        matches!(waits, Action::RequeueAfter(_)),
        "the garbage collector has not come to it yet: {waits:?}"
    );
    let resource = rig.api.resource_of(WORK_API, "Work").unwrap();
    let name = before[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let work = Key { namespace: "karmada-es-m1".into(), name: name.as_str().into() };
    assert_eq!(rig.api.values(WORK_API, "Work"), before, "it is the first one's, and goes with it");
    rig.api.delete(&resource, &work, "", Propagation::Background).await.unwrap();
    let waits = sync.reconcile(&key).await.unwrap();
    assert!(matches!(waits, Action::RequeueAfter(_)), "its cluster has not let go yet: {waits:?}");
    assert_eq!(owner(&rig), [json!("u1")]);
    let mut old = rig.api.values(WORK_API, "Work").pop().unwrap();
    old["metadata"]["finalizers"] = json!([]);
    rig.api.update(&resource, old).await.unwrap();
    assert!(matches!(sync.reconcile(&key).await.unwrap(), Action::Done));
    assert_eq!(owner(&rig), [json!("u2")]);
}
