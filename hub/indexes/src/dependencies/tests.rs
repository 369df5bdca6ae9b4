//! Who is woken by what, and that nothing is kept of what is gone.

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

fn at(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

/// An index, and who was woken since it was asked last.
struct Watched {
    index: DependenciesIndex,
    woken: Arc<Mutex<BTreeSet<String>>>,
}

impl Watched {
    fn new() -> Self {
        let (index, woken) = (DependenciesIndex::default(), Arc::<Mutex<BTreeSet<String>>>::default());
        let heard = woken.clone();
        index.listen(Box::new(move |keys| {
            heard.lock().extend(keys.into_iter().map(|key| key.name.to_string()));
        }));
        Watched { index, woken }
    }

    fn put(
        &self,
        name: &str,
        annotations: &[(&str, String)],
        labels: &[(String, &str)],
        spec: Value,
    ) -> Vec<String> {
        let labels = labels.iter().map(|(key, value)| (key.clone(), (*value).to_owned())).collect();
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let metadata = Metadata { labels: Some(&labels), annotations, ..Metadata::default() };
        self.index.put(&at(name), &metadata, &serde_json::from_value(spec).unwrap());
        self.woken()
    }

    /// A referrer that notes these dependencies.
    fn refer(&self, name: &str, dependencies: &Value, clusters: &Value) -> Vec<String> {
        let note = [("resourcebinding.karmada.io/dependencies", dependencies.to_string())];
        self.put(name, &note, &[], json!({"resource": {}, "propagateDeps": true, "clusters": clusters}))
    }

    /// A binding of the object `uid` that is required by these.
    fn attach(&self, name: &str, uid: &str, referrers: &[&str]) -> Vec<String> {
        let entries: Vec<Value> = referrers
            .iter()
            .map(|name| json!({"namespace": "n", "name": name, "clusters": [{"name": "m1"}]}))
            .collect();
        let labels: Vec<_> = referrers.iter().map(|name| (label_key("n", name), "id")).collect();
        self.put(name, &[], &labels, json!({"resource": {"uid": uid}, "requiredBy": entries}))
    }

    fn woken(&self) -> Vec<String> {
        std::mem::take(&mut *self.woken.lock()).into_iter().collect()
    }

    fn of_object(&self, name: &str, uid: &str, labels: &[(&str, &str)]) -> Vec<String> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let object =
            Candidate { kind: "Secret", namespace: "n", name, uid, resource_version: "", labels: &labels };
        let keys = self.index.of_object(&at(&format!("{name}-secret")), &object);
        keys.into_iter().map(|key| key.name.to_string()).collect()
    }
}

fn named(name: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": name}])
}

fn selected(selector: &Value) -> Value {
    json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "labelSelector": selector}])
}

#[test]
fn an_object_wakes_those_that_name_it_and_those_that_its_labels_are_selected_by() {
    let watched = Watched::new();
    watched.refer("a", &named("s"), &json!([]));
    watched.refer("b", &named("t"), &json!([]));
    watched.refer("c", &selected(&json!({"matchLabels": {"x": "1", "y": "2"}})), &json!([]));
    watched.refer(
        "d",
        &selected(&json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]})),
        &json!([]),
    );
    watched.woken();
    assert_eq!(watched.of_object("s", "u", &[]), ["a"]);
    assert_eq!(watched.of_object("q", "u", &[("x", "1"), ("y", "2")]), ["c", "d"]);
    assert_eq!(watched.of_object("q", "u", &[("x", "1")]), ["d"]);
    assert_eq!(watched.of_object("q", "u", &[]), [""; 0]);
}

#[test]
fn what_follows_already_wakes_nobody_until_something_about_that_changes() {
    let watched = Watched::new();
    watched.refer("a", &named("s"), &json!([]));
    watched.refer("c", &selected(&json!({"matchLabels": {"x": "1"}})), &json!([]));
    watched.attach("s-secret", "u", &["a", "c"]);
    assert_eq!(watched.of_object("s", "u", &[("x", "1")]), [""; 0], "its content alone");
    assert_eq!(watched.of_object("s", "u", &[]), ["c"], "it is selected no more");
    assert_eq!(watched.of_object("s", "u-2", &[("x", "1")]), ["a", "c"], "it is another object");
    assert_eq!(watched.index.of_gone(&at("s-secret")).len(), 2);
}

#[test]
fn of_an_attached_binding_those_are_woken_of_whom_another_thing_is_said() {
    let watched = Watched::new();
    for name in ["a", "b"] {
        assert_eq!(watched.refer(name, &named("s"), &json!([])), [name]);
    }
    assert_eq!(watched.attach("s-secret", "u", &["a"]), ["a"]);
    assert_eq!(watched.attach("s-secret", "u", &["a", "b"]), ["b"], "the first is as it was");
    assert_eq!(watched.attach("s-secret", "u", &["a", "b"]), [""; 0]);
    assert_eq!(watched.refer("a", &named("s"), &json!([])), [""; 0], "nothing changed");
    assert_eq!(watched.refer("a", &named("s"), &json!([{"name": "m2"}])), ["a"]);
    watched.index.remove(&at("s-secret"));
    assert_eq!(watched.woken(), ["a", "b"], "all must attach anew");
}

#[test]
fn a_referrer_that_leaves_a_cluster_or_goes_looks_again() {
    let watched = Watched::new();
    let put = |tasks: Value| {
        let spec = json!({"resource": {}, "propagateDeps": true, "clusters": [{"name": "m1"}], "gracefulEvictionTasks": tasks});
        watched.put("a", &[], &[], spec)
    };
    assert_eq!(put(json!([])), ["a"]);
    let task = |mode: &str| json!([{"fromCluster": "m2", "purgeMode": mode, "reason": "r", "producer": "p"}]);
    assert_eq!(put(task("Directly")), [""; 0], "nothing is needed there any more");
    assert_eq!(put(task("Gracefully")), ["a"]);
    assert_eq!(put(json!([])), ["a"]);
    assert!(watched.index.wish(&at("a")).is_some());
    let spec =
        serde_json::from_value(json!({"resource": {}, "propagateDeps": true, "clusters": [{"name": "m1"}]}));
    watched.index.put(&at("a"), &Metadata { deleting: true, ..Metadata::default() }, &spec.unwrap());
    assert_eq!((watched.woken(), watched.index.wish(&at("a"))), (vec!["a".to_owned()], None));
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let watched = Watched::new();
    watched.refer("a", &named("s"), &json!([]));
    watched.refer("c", &selected(&json!({})), &json!([]));
    watched.attach("s-secret", "u", &["a", "c"]);
    assert_eq!(watched.index.attached_to(&at("a")), BTreeSet::from([at("s-secret")]));
    for name in ["a", "c", "s-secret"] {
        watched.index.remove(&at(name));
    }
    let state = watched.index.state.read();
    assert!(state.referrers.is_empty() && state.attached.is_empty() && state.naming.is_empty());
    assert!(state.selecting.is_empty() && state.listing.is_empty() && state.labelled.is_empty());
}
