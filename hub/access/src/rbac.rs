//! The authorizer: Kubernetes' RBAC over the cache.
//!
//! In: a user and the attributes of a request. Out: a [`Decision`]. Bindings are indexed by subject; the index follows the
//! cache's events and is built anew only where it fell behind. Roles are parsed when first needed and kept in a bounded memo
//! that is right by construction: an entry is used only at the revision it was parsed from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use karmada_definitions::resource::StorageId;
use karmada_registry::cache::{Cache, CacheEvent, ResourceCache};
use karmada_registry::user::{MASTERS, SERVICE_ACCOUNT};
use karmada_registry::{Attributes, Authorize, Decision, User};
use karmada_schema::object::{ObjectKey, Stored};
use parking_lot::RwLock;
use serde_json::Value;

use crate::Rule;

/// Parsed roles kept, at most. Where there is a role for each of many who ask rarely, those are parsed again.
const MEMO: usize = 512;

/// Group of the RBAC kinds.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// A user or a group, as subjects of bindings name them; ServiceAccounts by their user name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Principal {
    User(Box<str>),
    Group(Box<str>),
}

struct Subject {
    principal: Principal,
    /// `User "u"`, as reasons name it.
    described: Box<str>,
}

struct Binding {
    cluster_role: bool,
    role: Box<str>,
    subjects: Box<[Subject]>,
}

#[derive(Default)]
struct Index {
    bindings: BTreeMap<ObjectKey, Arc<Binding>>,
    /// (namespace, or empty for the cluster scope; subject) → its bindings in name order.
    by_subject: BTreeMap<(Arc<str>, Principal), BTreeSet<ObjectKey>>,
    /// The revisions of the two kinds of binding that are in here.
    places: [u64; 2],
    built: bool,
}

/// A binding that speaks of a user, and the rules it brings.
struct Grant<'a> {
    key: &'a ObjectKey,
    binding: &'a Binding,
    /// The user and its groups.
    principals: &'a BTreeSet<Principal>,
    rules: Result<Arc<[Rule]>, String>,
}

impl Grant<'_> {
    /// The binding, its role and the first subject that is the user or one of its groups, as reasons name them.
    fn described(&self) -> String {
        let (key, binding) = (self.key, self.binding);
        let (kind, place) = match &*key.namespace {
            "" => ("ClusterRoleBinding", key.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", key.name)),
        };
        let role_kind = if binding.cluster_role { "ClusterRole" } else { "Role" };
        let subject = binding.subjects.iter().find(|subject| self.principals.contains(&subject.principal));
        let subject = subject.map_or("", |subject| &*subject.described);
        format!("{kind} \"{place}\" of {role_kind} \"{}\" to {subject}", binding.role)
    }
}

/// Decides who may do what.
pub struct Authorizer {
    cache: Arc<Cache>,
    resource_caches: [Arc<ResourceCache>; 2],
    roles: StorageId,
    cluster_roles: StorageId,
    index: RwLock<Index>,
    memo: RwLock<Memo>,
}

/// (whether it is a ClusterRole, its key) → the revision that was parsed, and its rules.
type Memo = BTreeMap<(bool, ObjectKey), (u64, Arc<[Rule]>)>;

impl Authorize for Authorizer {
    fn authorize(&self, user: &User, request: &Attributes) -> Decision {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut errors = Vec::new();
        let mut allowed_by = None;
        self.visit(user, &request.namespace, &mut |grant| match &grant.rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                allowed_by = Some(format!("RBAC: allowed by {}", grant.described()));
                false
            }
            Ok(_) => true,
            Err(error) => {
                errors.push(error.clone());
                true
            }
        });
        match allowed_by {
            Some(reason) => Decision { allowed: true, reason },
            None => Decision { allowed: false, reason: joined(&errors) },
        }
    }
}

impl Authorizer {
    /// An authorizer over the RBAC objects of `cache`.
    pub fn new(cache: Arc<Cache>) -> Arc<Self> {
        let id = |plural: &str| StorageId(format!("{GROUP}/{plural}").into());
        let resource_caches =
            [cache.of_resource(&id("clusterrolebindings")), cache.of_resource(&id("rolebindings"))];
        Arc::new(Authorizer {
            cache,
            resource_caches,
            roles: id("roles"),
            cluster_roles: id("clusterroles"),
            index: RwLock::default(),
            memo: RwLock::default(),
        })
    }

    /// Every rule that `user` has in `namespace` (and in the whole cluster), and which roles could not be read.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        self.visit(user, namespace, &mut |grant| {
            match grant.rules {
                Ok(more) => rules.extend(more.iter().cloned()),
                Err(error) => errors.push(error),
            }
            true
        });
        (rules, errors)
    }

    /// The rules of the role that a `roleRef` names.
    ///
    /// # Errors
    /// In words: there is no such role; it is named.
    pub fn role_rules(&self, cluster_role: bool, namespace: &str, name: &str) -> Result<Arc<[Rule]>, String> {
        let (storage, key, kind) = if cluster_role {
            (&self.cluster_roles, ObjectKey::new("", name), "clusterrole")
        } else {
            (&self.roles, ObjectKey::new(namespace, name), "role")
        };
        let stored = self.cache.get(storage, &key);
        let stored = stored.ok_or_else(|| format!("{kind}.{GROUP} \"{name}\" not found"))?;
        let memo_key = (cluster_role, key);
        if let Some((revision, rules)) = self.memo.read().get(&memo_key)
            && *revision == stored.revision
        {
            return Ok(rules.clone());
        }
        let rules: Arc<[Rule]> = Rule::list(&stored.value()["rules"]).into();
        let mut memo = self.memo.write();
        if memo.len() >= MEMO {
            memo.pop_first();
        }
        memo.insert(memo_key, (stored.revision, rules.clone()));
        Ok(rules)
    }

    /// Shows each binding of the user, the cluster's before the namespace's, until `seen` returns false.
    ///
    /// The index is held for the look-up alone: a judgement may be long (a review names groups by the hundred thousand), and whoever
    /// writes a binding meanwhile would make everybody else wait for its end.
    fn visit(&self, user: &User, namespace: &str, seen: &mut dyn FnMut(Grant<'_>) -> bool) {
        self.follow();
        let groups = user.groups.iter().map(|group| Principal::Group(group.as_str().into()));
        let principals: BTreeSet<Principal> =
            groups.chain([Principal::User(user.name.as_str().into())]).collect();
        let scopes: &[&str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
        for scope in scopes {
            let found = self.index.read().of(&principals, scope);
            for (key, binding) in &found {
                let rules = self.role_rules(binding.cluster_role, &key.namespace, &binding.role);
                if !seen(Grant { key, binding, principals: &principals, rules }) {
                    return;
                }
            }
        }
    }

    /// Takes in what the cache saw since the last look.
    fn follow(&self) {
        let current = |index: &Index| {
            index.built && (0..2).all(|kind| index.places[kind] == revision_of(&self.resource_caches[kind]))
        };
        if current(&self.index.read()) {
            return;
        }
        let mut index = self.index.write();
        if !index.built {
            return self.rebuild(&mut index);
        }
        for kind in 0..2 {
            let mut events = self.resource_caches[kind].subscribe(index.places[kind]);
            match events.next().now_or_never() {
                None => {}
                Some(Ok(events)) => events.iter().for_each(|event| index.apply(kind, event)),
                Some(Err(_)) => return self.rebuild(&mut index),
            }
        }
    }

    fn rebuild(&self, index: &mut Index) {
        *index = Index { built: true, ..Index::default() };
        for (kind, resource_cache) in self.resource_caches.iter().enumerate() {
            let listing = resource_cache.snapshot("");
            listing.items.iter().for_each(|object| index.put(object));
            index.places[kind] = listing.revision;
        }
    }
}

/// The revision of the last event: a snapshot of a namespace that no object can be in.
fn revision_of(resource_cache: &ResourceCache) -> u64 {
    resource_cache.snapshot(".").revision
}

fn joined(errors: &[String]) -> String {
    let unique: BTreeSet<&String> = errors.iter().collect();
    let texts: Vec<&str> = unique.iter().map(|text| text.as_str()).collect();
    match texts.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

impl Index {
    fn apply(&mut self, kind: usize, event: &CacheEvent) {
        if event.removed {
            self.remove(&event.object.key);
        } else {
            self.put(&event.object);
        }
        self.places[kind] = event.revision;
    }

    fn put(&mut self, object: &Stored) {
        self.remove(&object.key);
        let binding = Binding::read(&object.key.namespace, &object.value());
        for subject in &binding.subjects {
            let place = (object.key.namespace.clone(), subject.principal.clone());
            self.by_subject.entry(place).or_default().insert(object.key.clone());
        }
        self.bindings.insert(object.key.clone(), Arc::new(binding));
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for subject in &binding.subjects {
            let place = (key.namespace.clone(), subject.principal.clone());
            if let Some(keys) = self.by_subject.get_mut(&place) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_subject.remove(&place);
                }
            }
        }
    }

    /// The bindings in `scope` that name one of these, in name order.
    fn of(&self, principals: &BTreeSet<Principal>, scope: &str) -> Vec<(ObjectKey, Arc<Binding>)> {
        let scope: Arc<str> = scope.into();
        let mut found: BTreeSet<&ObjectKey> = BTreeSet::new();
        for principal in principals {
            found.extend(self.by_subject.get(&(scope.clone(), principal.clone())).into_iter().flatten());
        }
        found.into_iter().filter_map(|key| Some((key.clone(), self.bindings.get(key)?.clone()))).collect()
    }
}

impl Binding {
    fn read(namespace: &str, object: &Value) -> Binding {
        let subjects = object["subjects"].as_array().into_iter().flatten();
        Binding {
            cluster_role: object["roleRef"]["kind"] == "ClusterRole",
            role: object["roleRef"]["name"].as_str().unwrap_or("").into(),
            subjects: subjects.filter_map(|subject| Subject::read(namespace, subject)).collect(),
        }
    }
}

impl Subject {
    fn read(binding_namespace: &str, subject: &Value) -> Option<Subject> {
        let name = subject["name"].as_str()?;
        let kind = subject["kind"].as_str()?;
        let (principal, described) = match kind {
            "User" => (Principal::User(name.into()), format!("User \"{name}\"")),
            "Group" => (Principal::Group(name.into()), format!("Group \"{name}\"")),
            "ServiceAccount" => {
                let own = subject["namespace"].as_str().filter(|n| !n.is_empty());
                let namespace = own.or(Some(binding_namespace).filter(|n| !n.is_empty()))?;
                let user = format!("{SERVICE_ACCOUNT}{namespace}:{name}");
                (Principal::User(user.into()), format!("ServiceAccount \"{name}/{namespace}\""))
            }
            _ => return None,
        };
        Some(Subject { principal, described: described.into() })
    }
}
