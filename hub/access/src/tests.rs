//! A hub with users, and the tests of who gets through which door.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use karmada_definitions::resource::{Catalogue, Family, ResourceDefinition, StorageId};
use karmada_registry::admission::Admission;
use karmada_registry::cache::{Cache, storage_key};
use karmada_registry::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use karmada_registry::{
    Attributes, Authorize as _, Decision, DeleteOptions, Parts, Registry, User, WriteOptions,
};
use karmada_schema::object::{ObjectKey, encode, meta};
use karmada_store::{Expect, MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

mod credentials;
mod doors;
mod reviews;
mod writes;

const NOW: &str = "2026-05-01T12:00:00Z";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn now() -> jiff::Timestamp {
    NOW.parse().unwrap()
}

fn kind(group: &str, plural: &str, kind: &str, namespaced: bool) -> Arc<ResourceDefinition> {
    let stored = if group.is_empty() { "core" } else { group };
    Arc::new(ResourceDefinition {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        kind: kind.into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: ["create", "delete", "get", "list", "update", "watch"].map(Arc::from).to_vec(),
        subresources: Vec::new(),
        family: Family::Builtin,
        structural: false,
        storage: StorageId(format!("{stored}/{plural}").into()),
        storage_version: "v1".into(),
        storage_group: group.into(),
        is_virtual: false,
        row: &karmada_definitions::kind_row::KindRow::GO,
        shipped: None,
        custom: None,
        live: Arc::default(),
    })
}

fn catalogue() -> Catalogue {
    let rbac = "rbac.authorization.k8s.io";
    let (asks, who) = ("authorization.k8s.io", "authentication.k8s.io");
    Catalogue::new([
        kind("", "namespaces", "Namespace", false),
        kind("", "secrets", "Secret", true),
        kind("", "serviceaccounts", "ServiceAccount", true),
        kind("", "pods", "Pod", true),
        kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", false),
        kind(rbac, "clusterroles", "ClusterRole", false),
        kind(rbac, "clusterrolebindings", "ClusterRoleBinding", false),
        kind(rbac, "roles", "Role", true),
        kind(rbac, "rolebindings", "RoleBinding", true),
        kind(asks, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
        kind(asks, "subjectaccessreviews", "SubjectAccessReview", false),
        kind(asks, "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
        kind(asks, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
        kind(who, "selfsubjectreviews", "SelfSubjectReview", false),
        kind(who, "tokenreviews", "TokenReview", false),
    ])
}

/// Signs by a prefix.
struct Signed;

impl ServiceAccountTokens for Signed {
    fn issue(&self, claims: &Claims) -> Result<String, String> {
        Ok(format!("signed.{}", STANDARD.encode(serde_json::to_vec(claims).unwrap())))
    }
    fn verify(&self, token: &str) -> Option<Claims> {
        serde_json::from_slice(&STANDARD.decode(token.strip_prefix("signed.")?).ok()?).ok()
    }
}

struct Hub {
    registry: Arc<Registry>,
    authorizer: Arc<Authorizer>,
    authenticator: Arc<Authenticator>,
    reviews: Reviews,
    _stop: tokio_util::sync::DropGuard,
}

/// A hub that holds `objects`, with the escalation gate closed behind the loading.
async fn hub(objects: Vec<Value>) -> Hub {
    let (store, catalogue) = (Arc::new(MemoryStore::new()), catalogue());
    for object in objects {
        let (group, version) =
            karmada_definitions::version::split_api_version(object["apiVersion"].as_str().unwrap());
        let definition = catalogue.kind(group, version, object["kind"].as_str().unwrap()).unwrap();
        let key = ObjectKey::new(meta::namespace(&object), meta::name(&object));
        let bytes = encode(&object, &definition.kind, &definition.api_version());
        store.put(&storage_key(&definition.storage, &key), bytes, Expect::Absent).await.unwrap();
    }
    let store: Arc<dyn Store> = store;
    let cache = Cache::load(&*store).await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
    let authorizer = Authorizer::new(cache.clone());
    let gates: Vec<Box<dyn Admission>> = vec![Box::new(Escalation::new(authorizer.clone()))];
    let registry = Arc::new(Registry::new(Parts {
        store,
        cache,
        catalogue,
        admission: gates,
        authorizer: authorizer.clone(),
        clock: Arc::new(now),
        ids: Arc::new(uuid::Uuid::new_v4),
    }));
    let tokens: Arc<dyn ServiceAccountTokens> = Arc::new(Signed);
    let authenticator = Arc::new(Authenticator::new(registry.clone(), tokens.clone()));
    let reviews = Reviews::new(registry.clone(), authorizer.clone(), authenticator.clone(), tokens);
    Hub { registry, authorizer, authenticator, reviews, _stop: stop.drop_guard() }
}

/// What the hub adds to the default roles.
fn hubs() -> OwnRoles {
    serde_json::from_str(include_str!("../../data/default_roles.json")).unwrap()
}

/// The default roles with the aggregated ones filled in, as the aggregation controller leaves them.
fn default_roles() -> Vec<Value> {
    let mut all = bootstrap_roles();
    all.extend(hubs().roles);
    for aggregate in ["view", "edit", "admin"] {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}");
        let parts = all.iter().filter(|role| role["metadata"]["labels"][&label] == "true");
        let rules: Vec<Value> = parts.flat_map(|role| role["rules"].as_array().cloned().unwrap()).collect();
        let role = all.iter_mut().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == aggregate);
        role.unwrap()["rules"] = json!(rules);
    }
    all
}

#[allow(clippy::needless_pass_by_value, reason = "the calls read better")]
fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    let mut role = json!({"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, "rules": rules});
    if !namespace.is_empty() {
        role["metadata"]["namespace"] = json!(namespace);
    }
    role
}

#[allow(clippy::needless_pass_by_value, reason = "the calls read better")]
fn bound(namespace: &str, name: &str, role_kind: &str, role: &str, subject: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role});
    let mut binding = json!({"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    if !namespace.is_empty() {
        binding["metadata"]["namespace"] = json!(namespace);
    }
    binding
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..User::default() }
}

/// A viewer of everything, an editor of the namespace shop, a robot with odd rules.
fn world() -> Vec<Value> {
    let person = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    let robot = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "shop"});
    let odd = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["own"], "verbs": ["get", "update"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["update"]},
    ]);
    let mut all = default_roles();
    all.push(bound("", "vera", "ClusterRole", "view", person("vera")));
    all.push(bound(
        "shop",
        "developers",
        "ClusterRole",
        "edit",
        json!({"kind": "Group", "name": "developers"}),
    ));
    all.push(role("shop", "odd", odd));
    all.push(bound("shop", "odd", "Role", "odd", robot));
    all
}

fn masters() -> WriteOptions {
    WriteOptions { user: user("root", &[MASTERS]), ..WriteOptions::default() }
}

fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text)))).collect();
    let namespace = if name.starts_with("bootstrap") { "kube-system" } else { "shop" };
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "type": kind, "data": data})
}

fn join_token(id: &str, changed: &[(&str, &str)]) -> Value {
    let mut fields = BTreeMap::from([
        ("token-id", id),
        ("token-secret", "0123456789abcdef"),
        ("expiration", "2026-05-02T00:00:00Z"),
        ("usage-bootstrap-authentication", "true"),
        ("auth-extra-groups", "system:bootstrappers:karmada:default-cluster-token"),
    ]);
    fields.extend(changed.iter().copied());
    let fields: Vec<(&str, &str)> = fields.into_iter().collect();
    secret(&format!("bootstrap-token-{id}"), "bootstrap.kubernetes.io/token", &fields)
}

fn bearing(token: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::header::AUTHORIZATION,
        HeaderValue::from_str(&format!("Bearer {token}")).unwrap(),
    )])
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}})
}

fn pod(name: &str, account: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "spec": {"serviceAccountName": account}})
}
