//! A kind as typed objects in memory: each is read once, when it changes.
//!
//! In: changes of the kind, in the order of its watch. Out: for readers, all objects of a namespace, sorted by name, shared and not
//! copied; for listeners, what an object was before a change and what it is. What cannot be read stays as it was read last, or is left out where it
//! never was, and is logged: it is not gone, and who would act on that asks [`Typed::unread`].
//!
//! A reader who is woken by a change sees at least that change: it is taken in before anybody is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;

use crate::port::{Change, Key, Object};
use crate::runner::Source;

/// What became of one object: absent where it was not there before, or is not any more.
pub struct Transition<T> {
    /// Where it stands.
    pub key: Key,
    /// As it was.
    pub before: Option<Arc<T>>,
    /// As it is.
    pub now: Option<Arc<T>>,
}

impl<T> Transition<T> {
    /// As it was and as it is, where it was and is.
    pub fn states(&self) -> impl Iterator<Item = &T> {
        self.before.iter().chain(&self.now).map(|state| &**state)
    }
}

type Listener<T> = Box<dyn Fn(&Transition<T>) + Send + Sync>;

/// Makes what was just read smaller, as by sharing what many objects say alike.
type Compact<T> = Box<dyn Fn(&mut T) + Send + Sync>;

/// The objects of one kind.
pub struct Typed<T> {
    namespaces: RwLock<BTreeMap<Arc<str>, Namespace<T>>>,
    /// What is there and cannot be read as it is now.
    unread: RwLock<BTreeSet<Key>>,
    listeners: RwLock<Vec<Listener<T>>>,
    compact: Option<Compact<T>>,
}

struct Namespace<T> {
    objects: BTreeMap<Arc<str>, (u64, Arc<T>)>,
    /// All of them for readers, until one changes.
    all: Mutex<Option<Arc<Vec<Arc<T>>>>>,
}

impl<T> Default for Namespace<T> {
    fn default() -> Self {
        Namespace { objects: BTreeMap::new(), all: Mutex::new(None) }
    }
}

impl<T> Default for Typed<T> {
    fn default() -> Self {
        Typed {
            namespaces: RwLock::default(),
            unread: RwLock::default(),
            listeners: RwLock::default(),
            compact: None,
        }
    }
}

impl<T: DeserializeOwned> Typed<T> {
    /// None yet; each is made smaller by `compact` when it is read.
    pub fn compacted(compact: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        Typed { compact: Some(Box::new(compact)), ..Typed::default() }
    }

    /// Calls `hear` with every transition from now on.
    pub fn listen(&self, hear: impl Fn(&Transition<T>) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(hear));
    }

    /// Wakes the keys that `map` names for each transition.
    pub fn wakes<K: 'static>(
        self: &Arc<Self>,
        map: impl Fn(&Transition<T>) -> Vec<K> + Send + Sync + 'static,
    ) -> Source<K>
    where
        T: Send + Sync + 'static,
    {
        let typed = self.clone();
        Source::told(move |wake| typed.listen(move |transition| wake(map(transition))))
    }

    /// Takes a change in, and tells the listeners where it is one.
    pub fn observe(&self, change: &Change) {
        let transition = match change {
            Change::Applied(object) => self.put(object),
            Change::Deleted(object) => self.remove(&object.key),
        };
        if let Some(transition) = transition {
            self.listeners.read().iter().for_each(|hear| hear(&transition));
        }
    }

    fn put(&self, object: &Object) -> Option<Transition<T>> {
        let key = &object.key;
        let held = |namespaces: &BTreeMap<Arc<str>, Namespace<T>>| {
            let (revision, held) = namespaces.get(&key.namespace)?.objects.get(&key.name)?;
            Some((*revision, held.clone()))
        };
        let before = held(&self.namespaces.read());
        if before.as_ref().is_some_and(|(revision, _)| *revision == object.revision) {
            return None;
        }
        let mut read: T = match object.parse() {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(namespace = &*key.namespace, name = &*key.name, %error, "an object cannot be read");
                self.unread.write().insert(key.clone());
                return None;
            }
        };
        self.unread.write().remove(key);
        if let Some(compact) = &self.compact {
            compact(&mut read);
        }
        let now = Arc::new(read);
        let mut namespaces = self.namespaces.write();
        let namespace = namespaces.entry(key.namespace.clone()).or_default();
        namespace.objects.insert(key.name.clone(), (object.revision, now.clone()));
        *namespace.all.get_mut() = None;
        Some(Transition { key: key.clone(), before: before.map(|(_, object)| object), now: Some(now) })
    }

    fn remove(&self, key: &Key) -> Option<Transition<T>> {
        self.unread.write().remove(key);
        let mut namespaces = self.namespaces.write();
        let namespace = namespaces.get_mut(&key.namespace)?;
        let (_, before) = namespace.objects.remove(&key.name)?;
        *namespace.all.get_mut() = None;
        if namespace.objects.is_empty() {
            namespaces.remove(&key.namespace);
        }
        Some(Transition { key: key.clone(), before: Some(before), now: None })
    }

    /// Every object of all namespaces.
    pub fn everywhere(&self) -> Vec<(Key, Arc<T>)> {
        let namespaces = self.namespaces.read();
        let objects = namespaces.iter().flat_map(|(namespace, known)| {
            let key = |name: &Arc<str>| Key { namespace: namespace.clone(), name: name.clone() };
            known.objects.iter().map(move |(name, (_, object))| (key(name), object.clone()))
        });
        objects.collect()
    }

    /// The names of what is there in a namespace (empty: of a kind without namespaces) and cannot be read as it is now.
    pub fn unread(&self, namespace: &str) -> Vec<Arc<str>> {
        let unread = self.unread.read();
        unread.iter().filter(|key| *key.namespace == *namespace).map(|key| key.name.clone()).collect()
    }

    /// Those of them of which nothing is known: they could be read at no time since this began. Of the others, what they said last holds.
    pub fn never_read(&self, namespace: &str) -> Vec<Arc<str>> {
        self.unread(namespace).into_iter().filter(|name| self.get(namespace, name).is_none()).collect()
    }

    /// One object (empty namespace: of a kind without namespaces).
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let namespaces = self.namespaces.read();
        namespaces.get(namespace)?.objects.get(name).map(|(_, object)| object.clone())
    }

    /// Every object of a namespace (empty: of a kind without namespaces), sorted by name.
    pub fn all(&self, namespace: &str) -> Arc<Vec<Arc<T>>> {
        let namespaces = self.namespaces.read();
        let Some(namespace) = namespaces.get(namespace) else { return Arc::default() };
        let mut all = namespace.all.lock();
        let made = || Arc::new(namespace.objects.values().map(|(_, object)| object.clone()).collect());
        all.get_or_insert_with(made).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::fake::FakeApi;
    use serde_json::{Value, json};

    #[test]
    fn each_object_is_read_once_and_listeners_hear_what_it_was() {
        let api = FakeApi::default();
        let typed: Typed<Value> = Typed::default();
        let heard: Arc<Mutex<Vec<(bool, bool)>>> = Arc::default();
        let log = heard.clone();
        typed.listen(move |transition| {
            log.lock().push((transition.before.is_some(), transition.now.is_some()));
        });
        let mut last = Vec::new();
        for name in ["b", "a", "c"] {
            let object = api.seed(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
            typed.observe(&Change::Applied(object.clone()));
            last.push(object);
        }
        typed.observe(&Change::Applied(last[0].clone()));
        assert_eq!(api.calls("read", "Node"), 3, "what is known is not read again");
        let names = |all: &[Arc<Value>]| -> Vec<String> {
            all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        let all = typed.all("");
        assert_eq!(names(&all), ["a", "b", "c"]);
        assert!(Arc::ptr_eq(&all, &typed.all("")), "nothing changed");
        let changed = api.seed(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"x": "y"}}}),
        );
        typed.observe(&Change::Applied(changed));
        assert_eq!(api.calls("read", "Node"), 4);
        assert!(Arc::ptr_eq(&all[1], &typed.all("")[1]), "the others stay where they are");
        typed.observe(&Change::Deleted(last[0].clone()));
        typed.observe(&Change::Deleted(last[0].clone()));
        assert_eq!(names(&typed.all("")), ["a", "c"]);
        let (first, same, gone) = ((false, true), (true, true), (true, false));
        assert_eq!(*heard.lock(), [first, first, first, same, gone]);
        for object in &last {
            typed.observe(&Change::Deleted(object.clone()));
        }
        assert!(typed.namespaces.read().is_empty(), "nothing is kept of what is gone");
    }

    /// What cannot be read is not gone.
    #[test]
    fn what_cannot_be_read_stays_as_it_was_and_is_named() {
        #[derive(serde::Deserialize)]
        struct Sized {
            size: u32,
        }
        let (api, typed) = (FakeApi::default(), Typed::<Sized>::default());
        let heard: Arc<Mutex<Vec<Option<u32>>>> = Arc::default();
        let log = heard.clone();
        typed.listen(move |transition| log.lock().push(transition.now.as_ref().map(|now| now.size)));
        let seed = |name: &str, size: Value| {
            api.seed(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "size": size}))
        };
        typed.observe(&Change::Applied(seed("a", json!(1))));
        let unreadable = seed("a", json!("one"));
        typed.observe(&Change::Applied(unreadable.clone()));
        typed.observe(&Change::Applied(seed("b", json!("two"))));
        let sizes = || typed.all("").iter().map(|node| node.size).collect::<Vec<_>>();
        let unread = || typed.unread("").iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (sizes(), unread(), &**heard.lock()),
            (vec![1], vec!["a".into(), "b".into()], &[Some(1)][..])
        );
        typed.observe(&Change::Applied(seed("b", json!(2))));
        assert_eq!((sizes(), unread()), (vec![1, 2], vec!["a".to_owned()]));
        typed.observe(&Change::Deleted(unreadable));
        assert_eq!((sizes(), unread(), heard.lock().last()), (vec![2], vec![], Some(&None)));
    }
}
