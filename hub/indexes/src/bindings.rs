//! Which bindings a change of something else can concern: by cluster, by placement, by template, by their permanent ids.
//!
//! In: changes of bindings, of both kinds. Out: keys to wake. A binding is read when its spec or its metadata change, not when its status does;
//! of it only what is asked for here is kept. Placements that many bindings share are kept and judged once.
//!
//! A key that is named in vain costs one look. So clusters are kept as digests of their names: two that fall together
//! wake a binding too many, never one too few.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use karmada_api::binding::{BindingSpec, ObjectReference};
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::{Placement, ResourceSelector};
use karmada_core::overrides;
use karmada_core::scheduler::cluster_changes;
use karmada_core::scheduler::workload_affinity::{AllowedClusters, WorkloadAffinityIndex};
use parking_lot::RwLock;
use serde::Deserialize;

use crate::binding_edits::{self, BindingEdits};
use crate::bindings_by_template::BindingsByTemplate;
use crate::dependencies::{DependenciesIndex, Metadata};
use crate::works::binding_id;
use karmada_controller_runtime::port::{Change, Key, Object};
use karmada_controller_runtime::runner::{Source, key_of};
use karmada_controller_runtime::typed::Transition;

/// The index.
#[derive(Default)]
pub struct BindingsIndex {
    state: RwLock<State>,
    /// Who depends on what.
    pub dependencies: Arc<DependenciesIndex>,
    edits: BindingEdits,
}

#[derive(Default)]
struct State {
    bindings: BTreeMap<Arc<Key>, Binding>,
    /// By the digests of the clusters that they name.
    by_cluster: BTreeMap<u32, BTreeSet<Arc<Key>>>,
    by_template: BindingsByTemplate,
    by_id: BTreeMap<Arc<str>, Key>,
    /// By the placement's text: what many bindings say alike.
    placements: BTreeMap<Arc<str>, Placed>,
    /// Where workloads are that want to be together, or apart.
    groups: WorkloadAffinityIndex,
    /// Those that are leaving a cluster.
    leaving: BTreeSet<Key>,
    /// Those that are to leave where they are unhealthy.
    failing_over: BTreeSet<Key>,
}

/// What is known of one binding.
struct Binding {
    seen: Seen,
    id: Option<Arc<str>>,
    template: ObjectReference,
    /// Digests of the names of all clusters that it has something in, or is to have; sorted.
    clusters: Box<[u32]>,
    placement: Option<Arc<str>>,
    /// Its `schedulePriority`; 0 where it has none.
    priority: i32,
    /// Of what the detector writes.
    detected: u64,
}

/// How it stood when it was read.
#[derive(PartialEq, Eq)]
struct Seen {
    uid: Arc<str>,
    generation: i64,
    metadata_digest: u64,
    deleting: bool,
}

/// A placement, and the bindings that look at every cluster by it each time that they are scheduled.
struct Placed {
    placement: Placement,
    seeking: BTreeSet<Key>,
    /// How many bindings say it.
    said: usize,
}

/// What is read of a binding.
#[derive(Deserialize)]
struct Read {
    metadata: Noted,
    spec: BindingSpec,
}

#[derive(Deserialize)]
struct Noted {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// What a Work says of whose it is.
#[derive(Deserialize)]
struct WorkHead {
    metadata: WorkMetadata,
}

#[derive(Deserialize)]
struct WorkMetadata {
    #[serde(default)]
    annotations: BindingAnnotations,
}

#[derive(Default, Deserialize)]
struct BindingAnnotations {
    #[serde(rename = "resourcebinding.karmada.io/namespace")]
    namespace: Option<Arc<str>>,
    #[serde(rename = "resourcebinding.karmada.io/name")]
    name: Option<Arc<str>>,
    #[serde(rename = "clusterresourcebinding.karmada.io/name")]
    wide: Option<Arc<str>>,
}

impl BindingAnnotations {
    fn binding(self) -> Option<Key> {
        match (self.namespace, self.name) {
            (Some(namespace), Some(name)) => Some(Key { namespace, name }),
            _ => Some(Key { namespace: "".into(), name: self.wide? }),
        }
    }
}

fn digest(cluster: &str) -> u32 {
    let mut digest = DefaultHasher::new();
    cluster.hash(&mut digest);
    // The lower half.
    digest.finish() as u32
}

/// Every cluster that a binding names, chosen, required or being left.
fn named(spec: &BindingSpec) -> Box<[u32]> {
    let required = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    let chosen = spec.clusters.iter().chain(required).map(|target| target.name.as_str());
    let left = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.as_str());
    let mut all: Vec<u32> = chosen.chain(left).map(digest).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

impl BindingsIndex {
    /// Every change of those bindings, of both kinds, that something `concerns`, their statuses too. Others cost a look here.
    pub fn wakes(self: &Arc<Self>, concerns: fn(&Self, &Key) -> bool) -> Vec<Source<Key>> {
        let source = |kind: &&str| {
            let bindings = self.clone();
            Source::new("work.karmada.io/v1alpha2", kind, move |change| {
                let key = key_of(change);
                if concerns(&bindings, &key) { vec![key] } else { Vec::new() }
            })
        };
        ["ResourceBinding", "ClusterResourceBinding"].iter().map(source).collect()
    }

    /// Takes note of a change.
    pub fn observe(&self, change: &Change) {
        self.take(change, true);
    }

    /// Takes note of what the detector wrote itself: it is not woken by that.
    pub fn observe_detected(&self, binding: &Arc<Object>) {
        self.take(&Change::Applied(binding.clone()), false);
    }

    fn take(&self, change: &Change, tells: bool) {
        match change {
            Change::Applied(object) => {
                let Object { key, uid, generation, metadata_digest: marks, deleting, .. } = &**object;
                let seen = Seen {
                    uid: uid.clone(),
                    generation: *generation,
                    metadata_digest: *marks,
                    deleting: *deleting,
                };
                let known = self.state.read().bindings.get(key).is_some_and(|binding| binding.seen == seen);
                if known && *generation != 0 {
                    return;
                }
                // What was written is noted at once; what the watch tells of before that is older.
                let newer =
                    |binding: &Binding| binding.seen.uid == *uid && binding.seen.generation > *generation;
                if self.state.read().bindings.get(key).is_some_and(newer) {
                    return;
                }
                match object.parse::<Read>() {
                    Ok(read) => {
                        let Noted { annotations, finalizers } = read.metadata;
                        let labels = Some(&object.labels);
                        let metadata = Metadata { labels, annotations, finalizers, deleting: *deleting };
                        self.dependencies.put(key, &metadata, &read.spec);
                        let detected = binding_edits::digest(&read.spec, &object.labels);
                        let template = read.spec.resource.clone();
                        let before =
                            self.state.write().put(key, seen, (binding_id(object), detected), read.spec);
                        if tells && before.is_some_and(|before| before != detected) {
                            self.edits.tell(&template);
                        }
                    }
                    Err(error) => {
                        // What was placed by it is placed still: it counts as it was read last.
                        tracing::warn!(namespace = &*key.namespace, name = &*key.name, %error, "a binding cannot be read");
                    }
                }
            }
            Change::Deleted(object) => self.remove(&object.key),
        }
    }

    fn remove(&self, key: &Key) {
        let gone = self.state.write().remove(key);
        self.dependencies.remove(key);
        if let Some(gone) = gone {
            self.edits.tell(&gone.template);
        }
    }

    /// Wakes the keys that `map` names for the template of each binding that goes, or of which somebody changes what the detector writes.
    pub fn edited<K: 'static>(
        self: &Arc<Self>,
        map: impl Fn(&ObjectReference) -> Option<K> + Send + Sync + 'static,
    ) -> Source<K> {
        let bindings = self.clone();
        Source::told(move |wake| {
            bindings.edits.listen(move |template| wake(map(template).into_iter().collect()));
        })
    }

    /// The binding whose Work this is. That of an earlier binding concerns the one that has its name now: it may be in its way. Such a Work alone
    /// is read.
    pub fn of_work(&self, work: &Object) -> Option<Key> {
        let id = binding_id(work)?;
        if let Some(key) = self.state.read().by_id.get(id) {
            return Some(key.clone());
        }
        let marked: WorkHead = work.parse().ok()?;
        let key = marked.metadata.annotations.binding()?;
        self.contains(&key).then_some(key)
    }

    /// The permanent id of a binding, by which its Works are found.
    pub fn id_of(&self, key: &Key) -> Option<Arc<str>> {
        self.state.read().bindings.get(key)?.id.clone()
    }

    /// Whether a Work is of a binding that is not there any more, whatever has its name now.
    pub fn is_left_over(&self, work: &Object) -> bool {
        binding_id(work).is_some_and(|id| !self.state.read().by_id.contains_key(id))
    }

    /// Whether there is such a binding.
    pub fn contains(&self, key: &Key) -> bool {
        self.state.read().bindings.contains_key(key)
    }

    /// Whether a binding has tasks by which it leaves clusters.
    pub fn is_leaving(&self, key: &Key) -> bool {
        self.state.read().leaving.contains(key)
    }

    /// Whether a binding is to leave where it is unhealthy.
    pub fn fails_over(&self, key: &Key) -> bool {
        self.state.read().failing_over.contains(key)
    }

    /// How urgently a binding is to be scheduled: 0 where it says nothing.
    pub fn priority(&self, key: &Key) -> i32 {
        self.state.read().bindings.get(key).map_or(0, |binding| binding.priority)
    }

    /// Where the workloads are that a binding wants to be with, or apart from.
    pub fn neighbours(&self, key: &Key, spec: &BindingSpec) -> AllowedClusters {
        self.state.read().groups.neighbours(&key.namespace, &key.name, spec)
    }

    /// The bindings that name a cluster: chosen, required or being left.
    pub fn naming(&self, cluster: &str) -> Vec<Key> {
        let state = self.state.read();
        state.by_cluster.get(&digest(cluster)).into_iter().flatten().map(|key| (**key).clone()).collect()
    }

    /// The bindings whose place is to be decided again when a cluster comes, goes or changes: those that name it, and those that
    /// look for clusters such as it was or is.
    pub fn to_schedule(&self, transition: &Transition<Cluster>) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = self.naming(&transition.key.name).into_iter().collect();
        for placed in self.state.read().placements.values().filter(|placed| !placed.seeking.is_empty()) {
            if transition.states().any(|cluster| cluster_changes::may_use(&placed.placement, cluster)) {
                keys.extend(placed.seeking.iter().cloned());
            }
        }
        keys
    }

    /// The bindings of the templates of the kinds that are meant, by apiVersion and kind, with those.
    pub fn to_interpret(&self, is_meant: impl Fn(&str, &str) -> bool) -> Vec<(Key, ObjectReference)> {
        let state = self.state.read();
        let meant = state.by_template.of_kinds(is_meant);
        let with_template =
            |key: &Arc<Key>| Some(((**key).clone(), state.bindings.get(key)?.template.clone()));
        meant.into_iter().filter_map(with_template).collect()
    }

    /// The kinds of all templates, as apiVersion and kind.
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        self.state.read().by_template.kinds()
    }

    /// The bindings whose Works an override policy may change, as it was or as it is.
    pub fn to_render(&self, transition: &Transition<OverridePolicy>) -> Vec<Key> {
        let of = |policy: &OverridePolicy| {
            let namespace = Some(policy.namespace()).filter(|namespace| !namespace.is_empty());
            let namespaces: Vec<&str> = namespace.into_iter().collect();
            self.placing(&policy.spec.resource_selectors, &namespaces, |template| {
                overrides::may_mean(policy, template)
            })
        };
        let keys: BTreeSet<Key> = transition.states().flat_map(of).collect();
        keys.into_iter().collect()
    }

    /// The bindings whose templates selectors mean, by kind, namespace and name, within these namespaces (none: in any), and `is_meant` does: only of those
    /// it is asked.
    pub fn placing(
        &self,
        selectors: &[ResourceSelector],
        namespaces: &[&str],
        is_meant: impl Fn(&ObjectReference) -> bool,
    ) -> Vec<Key> {
        let state = self.state.read();
        let selected = state.by_template.selected(selectors, namespaces).into_iter();
        let meant = |key: &&Arc<Key>| state.bindings.get(*key).is_some_and(|known| is_meant(&known.template));
        selected.filter(meant).map(|key| (**key).clone()).collect()
    }
}

impl State {
    /// Takes a binding in, with its permanent id and what it says of what the detector writes; what it said of that before.
    fn put(
        &mut self,
        key: &Key,
        seen: Seen,
        (id, detected): (Option<&str>, u64),
        spec: BindingSpec,
    ) -> Option<u64> {
        let before = self.take_out(key);
        let key = &before.as_ref().map_or_else(|| Arc::new(key.clone()), |(key, _)| key.clone());
        let before = before.map(|(_, before)| before);
        self.groups.put(&key.namespace, &key.name, &spec);
        if !spec.graceful_eviction_tasks.is_empty() {
            self.leaving.insert((**key).clone());
        }
        if spec.failover.as_ref().is_some_and(|failover| failover.application.is_some()) {
            self.failing_over.insert((**key).clone());
        }
        let seeks = cluster_changes::seeks_clusters(&spec);
        let clusters = named(&spec);
        self.name(key, before.as_ref().map_or(&[], |before| &before.clusters), &clusters);
        let priority = spec.schedule_priority.as_ref().map_or(0, |said| said.priority);
        let placement = spec.placement.and_then(|placement| {
            let text: Arc<str> = serde_json::to_string(&placement).ok()?.into();
            let (text, _) = match self.placements.get_key_value(&text) {
                Some((held, _)) => (held.clone(), ()),
                None => (text, ()),
            };
            let placed = self.placements.entry(text.clone()).or_insert_with(|| Placed {
                placement,
                seeking: BTreeSet::new(),
                said: 0,
            });
            placed.said += 1;
            if seeks {
                placed.seeking.insert((**key).clone());
            }
            Some(text)
        });
        let id: Option<Arc<str>> = id.map(Arc::from);
        if let Some(id) = &id {
            self.by_id.insert(id.clone(), (**key).clone());
        }
        let template = ObjectReference { resource_version: String::new(), ..spec.resource };
        self.by_template.put(&template, key);
        let binding = Binding { seen, id, template, clusters, placement, priority, detected };
        self.bindings.insert(key.clone(), binding);
        before.map(|before| before.detected)
    }

    /// Notes which clusters a binding names, where it named those of `before`: what stays costs nothing.
    fn name(&mut self, key: &Arc<Key>, before: &[u32], now: &[u32]) {
        for gone in before.iter().filter(|one| now.binary_search(one).is_err()) {
            if let Some(keys) = self.by_cluster.get_mut(gone) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_cluster.remove(gone);
                }
            }
        }
        for came in now.iter().filter(|one| before.binary_search(one).is_err()) {
            self.by_cluster.entry(*came).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Binding> {
        let (key, gone) = self.take_out(key)?;
        self.name(&key, &gone.clusters, &[]);
        Some(gone)
    }

    /// Forgets a binding, but for the clusters that it names.
    fn take_out(&mut self, key: &Key) -> Option<(Arc<Key>, Binding)> {
        self.groups.remove(&key.namespace, &key.name);
        self.leaving.remove(key);
        self.failing_over.remove(key);
        let (key, binding) = self.bindings.remove_entry(key)?;
        self.by_template.remove(&binding.template, &key);
        if let Some(id) = binding.id.as_ref().filter(|id| self.by_id.get(*id) == Some(&*key)) {
            self.by_id.remove(id);
        }
        if let Some(text) = &binding.placement
            && let Some(placed) = self.placements.get_mut(text)
        {
            placed.seeking.remove(&key);
            placed.said -= 1;
            if placed.said == 0 {
                self.placements.remove(text);
            }
        }
        Some((key, binding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_controller_runtime::port::fake::FakeApi;
    use serde_json::{Value, json};

    const API: &str = "work.karmada.io/v1alpha2";

    fn binding(name: &str, placement: &Value, clusters: &[&str]) -> Value {
        let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
        json!({"apiVersion": API, "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "n", "generation": 1,
                "labels": {"resourcebinding.karmada.io/permanent-id": format!("id-{name}")}},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": name},
                "placement": placement, "clusters": targets}})
    }

    fn cluster(name: &str, group: &str) -> Arc<Cluster> {
        let value =
            json!({"metadata": {"name": name, "labels": {"group": group}}, "spec": {"syncMode": "Pull"}});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn transition<T>(name: &str, before: Option<Arc<T>>, now: Option<Arc<T>>) -> Transition<T> {
        Transition { key: Key { namespace: "".into(), name: name.into() }, before, now }
    }

    fn names(keys: impl IntoIterator<Item = Key>) -> Vec<String> {
        keys.into_iter().map(|key| key.name.to_string()).collect()
    }

    fn index(api: &FakeApi) -> BindingsIndex {
        let (index, group) = (
            BindingsIndex::default(),
            |name: &str| json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"group": name}}}}),
        );
        for value in [
            binding("east", &group("east"), &["m1"]),
            binding("east-too", &group("east"), &["m1", "m2"]),
            binding("west", &group("west"), &["m3"]),
            binding("all", &json!({}), &["m1", "m3"]),
        ] {
            index.observe(&Change::Applied(api.seed(value)));
        }
        index
    }

    #[test]
    fn a_cluster_concerns_those_that_name_it_or_look_for_such_as_it() {
        let index = index(&FakeApi::default());
        let woken = |before: Option<&str>, now: Option<&str>| {
            let of = |group: Option<&str>| group.map(|group| cluster("m9", group));
            names(index.to_schedule(&transition("m9", of(before), of(now))))
        };
        assert_eq!(woken(None, Some("east")), ["all", "east", "east-too"], "it came");
        assert_eq!(woken(Some("east"), Some("west")), ["all", "east", "east-too", "west"], "it moved");
        assert_eq!(woken(Some("west"), None), ["all", "west"], "it went");
        let other = transition("m3", Some(cluster("m3", "x")), Some(cluster("m3", "y")));
        assert_eq!(names(index.to_schedule(&other)), ["all", "west"]);
        assert_eq!(names(index.naming("m1")), ["all", "east", "east-too"]);
        assert_eq!(index.state.read().placements.len(), 3, "what many say is kept once");
    }

    #[test]
    fn what_is_divided_and_placed_hears_of_its_own_clusters_alone() {
        let api = FakeApi::default();
        let index = BindingsIndex::default();
        let mut value =
            binding("divided", &json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}}), &["m1"]);
        value["spec"]["replicas"] = json!(3);
        index.observe(&Change::Applied(api.seed(value)));
        assert!(index.to_schedule(&transition("m9", None, Some(cluster("m9", "x")))).is_empty());
        assert_eq!(names(index.to_schedule(&transition("m1", Some(cluster("m1", "x")), None))), ["divided"]);
    }

    #[test]
    fn an_override_concerns_the_templates_that_it_selects_or_selected() {
        let index = index(&FakeApi::default());
        let policy = |namespace: Value, selectors: Value| -> Arc<OverridePolicy> {
            let spec = json!({"resourceSelectors": selectors, "overrideRules": []});
            Arc::new(
                serde_json::from_value(
                    json!({"metadata": {"name": "o", "namespace": namespace}, "spec": spec}),
                )
                .unwrap(),
            )
        };
        let by_name = |name: &str| json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]);
        let (east, west) = (policy(json!("n"), by_name("east")), policy(json!("n"), by_name("west")));
        assert_eq!(
            names(index.to_render(&transition("o", Some(east.clone()), Some(west)))),
            ["east", "west"]
        );
        assert_eq!(names(index.to_render(&transition("o", Some(east), None))), ["east"]);
        let elsewhere = policy(json!("other"), by_name("east"));
        assert!(index.to_render(&transition("o", None, Some(elsewhere))).is_empty());
        let secrets = policy(json!("n"), json!([{"apiVersion": "v1", "kind": "Secret"}]));
        assert!(index.to_render(&transition("o", None, Some(secrets))).is_empty());
        assert_eq!(
            index.to_render(&transition("o", None, Some(policy(Value::Null, json!([]))))).len(),
            4,
            "all"
        );
    }

    #[test]
    fn a_status_is_not_read_and_nothing_is_kept_of_what_is_gone() {
        let api = FakeApi::default();
        let index = index(&api);
        let read = api.calls("read", "ResourceBinding");
        let mut east = api.value(API, "ResourceBinding", "n", "east").unwrap();
        east["status"] = json!({"schedulerObservedGeneration": 1});
        let told = api.seed(east);
        index.observe(&Change::Applied(told.clone()));
        assert_eq!(api.calls("read", "ResourceBinding"), read);
        assert_eq!(names(index.of_work(&told)), ["east"]);
        for name in ["east", "east-too", "west", "all"] {
            let object = api.seed(binding(name, &json!({}), &[]));
            index.observe(&Change::Deleted(object));
        }
        let state = index.state.read();
        assert!(state.bindings.is_empty() && state.by_id.is_empty() && state.placements.is_empty());
        assert!(state.by_cluster.is_empty() && state.by_template.is_empty());
    }

    #[test]
    fn a_binding_that_leaves_a_cluster_or_becomes_another_templates_is_found_where_it_is_alone() {
        let api = FakeApi::default();
        let index = index(&api);
        let mut moved = binding("east-too", &json!({}), &["m2", "m9"]);
        moved["metadata"]["generation"] = json!(2);
        moved["spec"]["resource"]["kind"] = json!("Secret");
        index.observe(&Change::Applied(api.seed(moved)));
        let naming = |cluster: &str| names(index.naming(cluster));
        assert_eq!(naming("m1"), ["all", "east"]);
        assert_eq!((naming("m2"), naming("m9")), (vec!["east-too".to_owned()], vec!["east-too".to_owned()]));
        let of_kind = |wanted: &str| {
            names(index.to_interpret(|_, kind| kind == wanted).into_iter().map(|(key, _)| key))
        };
        assert_eq!((of_kind("Secret"), of_kind("ConfigMap").len()), (vec!["east-too".to_owned()], 3));
        let kinds = index.kinds();
        assert_eq!(kinds.iter().map(|(_, kind)| kind.as_str()).collect::<Vec<_>>(), ["ConfigMap", "Secret"]);
    }

    /// How many kinds are looked at for what is to be interpreted anew; how many templates for a selector of one name, for one within another namespace,
    /// and for one of another kind.
    fn looks(bindings: usize) -> [usize; 4] {
        let api = FakeApi::default();
        let index = BindingsIndex::default();
        for at in 0..bindings {
            let value = binding(&format!("b{at}"), &json!({}), &[&format!("m{at}")]);
            index.observe(&Change::Applied(api.seed(value)));
        }
        let looks = std::cell::Cell::new(0);
        let count = |selector: Value, namespaces: &[&str]| {
            let selector: ResourceSelector = serde_json::from_value(selector).unwrap();
            looks.set(0);
            index.placing(&[selector], namespaces, |_| {
                looks.set(looks.get() + 1);
                true
            });
            looks.get()
        };
        let of = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name});
        looks.set(0);
        index.to_interpret(|_, _| {
            looks.set(looks.get() + 1);
            false
        });
        [
            looks.get(),
            count(of("ConfigMap", "b7"), &["n"]),
            count(of("ConfigMap", ""), &["elsewhere"]),
            count(of("Secret", ""), &[]),
        ]
    }

    #[test]
    fn what_is_looked_at_does_not_grow_with_the_bindings() {
        assert_eq!(looks(10), [1, 1, 0, 0]);
        assert_eq!(looks(1000), [1, 1, 0, 0]);
    }
}
