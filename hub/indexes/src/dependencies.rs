//! Who depends on what, so that a change of one object wakes those alone whom it concerns.
//!
//! In: bindings, as the index of bindings reads them. Out: for an object, the referrers that must look at what follows them; for a referrer, the
//! attached bindings that list it, and what it wishes. Kept are referrers and attached bindings; of all others nothing.
//!
//! An object stands here by the key of its binding, which kind, namespace and name make; objects that share one wake each other's referrers, and
//! cost a look. A selector is found by the first label that it asks for; those that ask for none are tried one by one, within their
//! namespace and kind.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use karmada_api::binding::BindingSpec;
use karmada_api::names;
use karmada_api::policy::ConflictResolution;
use karmada_api::strings::{annotations, finalizers, labels};
use karmada_core::dependencies::agreement::DependencyPreferences;
use karmada_core::dependencies::attached;
use karmada_core::dependencies::label_key;
use karmada_core::dependencies::recorded::{self, Candidate};
use karmada_interpreter::DependentObject;
use parking_lot::RwLock;

use karmada_controller_runtime::port::Key;
use karmada_controller_runtime::runner::{Source, Wake};

/// The index.
#[derive(Default)]
pub struct DependenciesIndex {
    state: RwLock<State>,
    listeners: RwLock<Vec<Wake<Key>>>,
}

/// What is asked of a binding beside its spec.
#[derive(Default)]
pub struct Metadata<'a> {
    /// Its labels.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// A label that a selector asks for.
type RequiredLabel = Option<(String, String)>;

/// Where a selector stands: namespace, kind, and a label that it asks for.
type Selection = (Arc<str>, String, RequiredLabel);

#[derive(Default)]
struct State {
    referrers: BTreeMap<Key, Referrer>,
    attached: BTreeMap<Key, Attached>,
    /// Referrers by the bindings of the objects that they name.
    naming: BTreeMap<Key, BTreeSet<Key>>,
    /// Referrers that select objects by labels, with what they select so.
    selecting: BTreeMap<Selection, BTreeMap<Key, Vec<DependentObject>>>,
    /// Attached bindings by the referrers that they list.
    listing: BTreeMap<Key, BTreeSet<Key>>,
    /// Attached bindings by the labels that they have for referrers.
    labelled: BTreeMap<String, BTreeSet<Key>>,
}

/// A binding that things follow, or followed.
struct Referrer {
    /// What it wishes; none where nothing follows it any more.
    wish: Option<DependencyPreferences>,
    dependencies: Vec<DependentObject>,
    /// A digest of all that decides what follows it, and where to.
    seen: u64,
}

/// A binding that follows others.
#[derive(Default, PartialEq, Eq)]
struct Attached {
    /// Uid of its object.
    object: String,
    /// The referrers that it lists, each with a digest of what it has of them.
    entries: BTreeMap<Key, u64>,
    /// Its labels for referrers.
    labels: BTreeMap<String, String>,
    /// What its referrers agreed on; none where a policy places it.
    agreed: Option<(Option<bool>, Option<bool>)>,
}

fn digest(of: impl Hash) -> u64 {
    let mut digest = DefaultHasher::new();
    of.hash(&mut digest);
    digest.finish()
}

impl Referrer {
    fn of(marks: &Metadata<'_>, spec: &BindingSpec) -> Option<Self> {
        let noted = marks.annotations.get(annotations::DEPENDENCIES).map(String::as_str);
        let held = marks.finalizers.iter().any(|finalizer| finalizer == finalizers::DEPENDENCIES);
        if !spec.propagate_deps && !held && noted.is_none() {
            return None;
        }
        let wish = DependencyPreferences::of(spec);
        let follows = spec.propagate_deps && !marks.deleting;
        let id = marks.labels.and_then(|labels| labels.get(labels::RESOURCE_BINDING_ID));
        let clusters = serde_json::to_string(&attached::clusters(spec)).unwrap_or_default();
        let object = &spec.resource;
        Some(Referrer {
            wish: follows.then_some(wish),
            // A note that cannot be read is written anew when its referrer is looked at.
            dependencies: recorded::read(noted).unwrap_or_default(),
            seen: digest((
                (follows, held, noted, id, wish.overwrite, wish.preserve),
                clusters,
                (&object.api_version, &object.kind, &object.name, &object.uid),
            )),
        })
    }
}

impl Attached {
    fn of(marks: &Metadata<'_>, spec: &BindingSpec) -> Option<Self> {
        let labels = marks.labels.into_iter().flatten();
        let labels: BTreeMap<String, String> = labels
            .filter(|(key, _)| key.starts_with(labels::DEPENDED_BY_PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if spec.required_by.is_empty() && labels.is_empty() {
            return None;
        }
        let entries = spec.required_by.iter().map(|entry| {
            let key = Key { namespace: (*entry.namespace).into(), name: (*entry.name).into() };
            let clusters = serde_json::to_string(&entry.clusters).unwrap_or_default();
            let label = labels.get(&label_key(&entry.namespace, &entry.name));
            (key, digest((clusters, label)))
        });
        let overwrites = spec.conflict_resolution.map(|said| said == ConflictResolution::Overwrite);
        let agreed = (overwrites, spec.preserve_resources_on_deletion);
        Some(Attached {
            object: spec.resource.uid.clone(),
            entries: entries.collect(),
            agreed: spec.placement.is_none().then_some(agreed),
            labels,
        })
    }

    /// The referrers that must look at a change from one state to the other: those of whom another thing is said. Where nothing is but what they
    /// agreed on, one of them is enough.
    fn to_look(before: Option<&Self>, now: Option<&Self>) -> BTreeSet<Key> {
        let none = Attached::default();
        let (before, now) = (before.unwrap_or(&none), now.unwrap_or(&none));
        let all = before.entries.keys().chain(now.entries.keys());
        let mut keys: BTreeSet<Key> =
            all.filter(|key| before.entries.get(*key) != now.entries.get(*key)).cloned().collect();
        if keys.is_empty() && before != now {
            keys.extend(now.entries.keys().next().cloned());
        }
        keys
    }
}

impl DependenciesIndex {
    /// Wakes each referrer that must look: all of them first, then those whom a change concerns.
    pub fn wakes(self: &Arc<Self>) -> Source<Key> {
        let index = self.clone();
        Source::told(move |wake| index.listen(wake))
    }

    /// Calls `wake` with each referrer that must look: with all of them first, then with those whom a change concerns.
    pub fn listen(&self, wake: Wake<Key>) {
        let mut listeners = self.listeners.write();
        let state = self.state.read();
        let all: BTreeSet<Key> = state.referrers.keys().chain(state.listing.keys()).cloned().collect();
        wake(all.into_iter().collect());
        listeners.push(wake);
    }

    /// Takes in a binding as it is now.
    pub fn put(&self, key: &Key, marks: &Metadata<'_>, spec: &BindingSpec) {
        if key.namespace.is_empty() {
            return;
        }
        let (referrer, attached) = (Referrer::of(marks, spec), Attached::of(marks, spec));
        self.tell(|state| state.turn(key, referrer, attached));
    }

    /// A binding is gone. Those that name its object hear of it as well: it may have been in the way of theirs.
    pub fn remove(&self, key: &Key) {
        self.tell(|state| {
            let mut keys = state.turn(key, None, None);
            keys.extend(state.naming.get(key).into_iter().flatten().cloned());
            keys
        });
    }

    fn tell(&self, turn: impl FnOnce(&mut State) -> BTreeSet<Key>) {
        let listeners = self.listeners.read();
        let keys: Vec<Key> = turn(&mut self.state.write()).into_iter().collect();
        if !keys.is_empty() {
            listeners.iter().for_each(|wake| wake(keys.clone()));
        }
    }

    /// Whether a binding is one that things follow, or followed.
    pub fn is_referrer(&self, key: &Key) -> bool {
        self.state.read().referrers.contains_key(key)
    }

    /// Whether a binding follows others.
    pub fn is_attached(&self, key: &Key) -> bool {
        self.state.read().attached.contains_key(key)
    }

    /// What a referrer wishes; none where nothing follows it, or there is no such binding.
    pub fn wish(&self, key: &Key) -> Option<DependencyPreferences> {
        self.state.read().referrers.get(key)?.wish
    }

    /// The attached bindings that list a referrer, or have its label.
    pub fn attached_to(&self, referrer: &Key) -> BTreeSet<Key> {
        let state = self.state.read();
        let labelled = state.labelled.get(&label_key(&referrer.namespace, &referrer.name));
        state.listing.get(referrer).into_iter().chain(labelled).flatten().cloned().collect()
    }

    /// The referrers that must look when the object of the binding `at` is like this now: its own, whose dependencies may be others; and those that
    /// it follows and shall not, or does not follow and shall.
    pub fn of_object(&self, at: &Key, object: &Candidate<'_>) -> BTreeSet<Key> {
        let state = self.state.read();
        let meant = state.meaning(at, object);
        let (entries, same) = match state.attached.get(at) {
            Some(attached) => (Some(&attached.entries), attached.object == object.uid),
            None => (None, true),
        };
        let follows: BTreeSet<Key> = entries.into_iter().flat_map(BTreeMap::keys).cloned().collect();
        let mut keys: BTreeSet<Key> = match same {
            true => meant.symmetric_difference(&follows).cloned().collect(),
            false => meant.union(&follows).cloned().collect(),
        };
        keys.extend(state.referrers.contains_key(at).then(|| at.clone()));
        keys
    }

    /// The referrers that an object followed that is gone.
    pub fn of_gone(&self, at: &Key) -> BTreeSet<Key> {
        let state = self.state.read();
        state.attached.get(at).into_iter().flat_map(|attached| attached.entries.keys()).cloned().collect()
    }
}

impl State {
    /// Takes in what a binding is now; who must look.
    fn turn(&mut self, key: &Key, referrer: Option<Referrer>, attached: Option<Attached>) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        let before = self.referrers.get(key).map(|referrer| referrer.seen);
        let changed = before != referrer.as_ref().map(|referrer| referrer.seen);
        // Whom others list, though nothing follows it, lets go of them.
        let listed = self.listing.contains_key(key);
        if changed || (referrer.is_none() && listed) {
            keys.insert(key.clone());
        }
        if changed {
            self.forget_referrer(key);
            if let Some(referrer) = referrer {
                self.note_referrer(key, &referrer.dependencies);
                self.referrers.insert(key.clone(), referrer);
            }
        }
        if self.attached.get(key) != attached.as_ref() {
            keys.extend(Attached::to_look(self.attached.get(key), attached.as_ref()));
            self.forget_attached(key);
            if let Some(attached) = attached {
                self.note_attached(key, &attached);
                self.attached.insert(key.clone(), attached);
            }
        }
        keys
    }

    fn note_referrer(&mut self, key: &Key, dependencies: &[DependentObject]) {
        for dependency in dependencies {
            match place(dependency) {
                IndexPosition::Named(at) => drop(self.naming.entry(at).or_default().insert(key.clone())),
                IndexPosition::Selected(at) => {
                    let selecting = self.selecting.entry(at).or_default().entry(key.clone()).or_default();
                    selecting.push(dependency.clone());
                }
            }
        }
    }

    fn forget_referrer(&mut self, key: &Key) {
        let Some(referrer) = self.referrers.remove(key) else { return };
        for dependency in &referrer.dependencies {
            match place(dependency) {
                IndexPosition::Named(at) => forget(&mut self.naming, &at, key),
                IndexPosition::Selected(at) => {
                    if let Some(selecting) = self.selecting.get_mut(&at) {
                        selecting.remove(key);
                        if selecting.is_empty() {
                            self.selecting.remove(&at);
                        }
                    }
                }
            }
        }
    }

    fn note_attached(&mut self, key: &Key, attached: &Attached) {
        for referrer in attached.entries.keys() {
            self.listing.entry(referrer.clone()).or_default().insert(key.clone());
        }
        for label in attached.labels.keys() {
            self.labelled.entry(label.clone()).or_default().insert(key.clone());
        }
    }

    fn forget_attached(&mut self, key: &Key) {
        let Some(attached) = self.attached.remove(key) else { return };
        attached.entries.keys().for_each(|referrer| forget(&mut self.listing, referrer, key));
        attached.labels.keys().for_each(|label| forget(&mut self.labelled, label, key));
    }

    /// The referrers that name an object, or select it by the labels that it has.
    fn meaning(&self, at: &Key, object: &Candidate<'_>) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = self.naming.get(at).into_iter().flatten().cloned().collect();
        if self.selecting.is_empty() {
            return keys;
        }
        let asked = object.labels.iter().map(|(key, value)| Some((key.clone(), value.clone())));
        for asked in asked.chain([None]) {
            let place = (at.namespace.clone(), object.kind.to_owned(), asked);
            for (key, selecting) in self.selecting.get(&place).into_iter().flatten() {
                if selecting.iter().any(|dependency| recorded::means(dependency, object) == Ok(true)) {
                    keys.insert(key.clone());
                }
            }
        }
        keys
    }
}

/// Where a dependency stands in the index.
enum IndexPosition {
    Named(Key),
    Selected(Selection),
}

fn place(dependency: &DependentObject) -> IndexPosition {
    let namespace: Arc<str> = (*dependency.namespace).into();
    if !dependency.name.is_empty() {
        let name = names::binding_name(&dependency.kind, &dependency.name).into();
        return IndexPosition::Named(Key { namespace, name });
    }
    let selector = dependency.label_selector.as_ref();
    let asked = selector.and_then(|selector| selector.match_labels.iter().next());
    let asked = asked.map(|(key, value)| (key.clone(), value.clone()));
    IndexPosition::Selected((namespace, dependency.kind.clone(), asked))
}

fn forget<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<Key>>, at: &K, key: &Key) {
    if let Some(set) = sets.get_mut(at) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
