//! What discovery tells of a kind while its definition is settled.

use karmada_definitions::resource::Family;
use karmada_schema::object::encode;
use karmada_store::{Expect, MemoryStore, Store};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Parts;
use crate::admission::Admission;
use crate::authorize::{Attributes, Authorize, Decision};
use crate::cache::{Cache, storage_key};
use crate::registry_context::RegistryContext as Serving;
use crate::request::AdmissionRequest;

struct Everybody;

impl Authorize for Everybody {
    fn authorize(&self, _: &User, _: &Attributes) -> Decision {
        Decision { allowed: true, reason: String::new() }
    }
}

/// What requests find and what discovery tells, at each write of a definition's status.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(bool, bool)>>>);

impl Admission for Seen {
    fn admit(&self, served: &Serving, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if request.subresource == "status" {
            let found = served.catalogue().resource("x.example.com", "v1", "widgets").is_some();
            self.0.lock().push((found, tells_of_widgets(served)));
        }
        Ok(())
    }
}

fn tells_of_widgets(served: &Serving) -> bool {
    served.announced().resource("x.example.com", "v1", "widgets").is_some()
}

fn definitions() -> Catalogue {
    Catalogue::new([Arc::new(ResourceDefinition {
        group: GROUP.into(),
        version: "v1".into(),
        plural: PLURAL.into(),
        singular: "customresourcedefinition".into(),
        kind: "CustomResourceDefinition".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: ["get", "update"].map(Arc::from).to_vec(),
        subresources: Vec::new(),
        family: Family::Builtin,
        structural: false,
        storage: storage(),
        storage_version: "v1".into(),
        storage_group: GROUP.into(),
        is_virtual: false,
        row: &karmada_definitions::kind_row::KindRow::GO,
        shipped: None,
        custom: None,
        live: Arc::default(),
    })])
}

fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": "widgets.x.example.com", "uid": "u-1", "generation": 1},
        "spec": {
            "group": "x.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[tokio::test]
async fn discovery_tells_of_a_kind_after_its_definition_says_that_it_is_established() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let key = storage_key(&storage(), &ObjectKey::new("", "widgets.x.example.com"));
    let bytes = encode(&widgets(), "CustomResourceDefinition", "apiextensions.k8s.io/v1");
    store.put(&key, bytes, Expect::Absent).await.unwrap();
    let cache = Cache::load(&*store).await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
    let seen = Seen::default();
    let registry = Arc::new(Registry::new(Parts {
        store,
        cache,
        catalogue: definitions(),
        admission: vec![Box::new(seen.clone())],
        authorizer: Arc::new(Everybody),
        clock: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
        ids: Arc::new(uuid::Uuid::nil),
    }));
    let definitions = DefinitionController::new(registry.clone());
    definitions.start();
    assert!(!tells_of_widgets(&registry), "nobody has said that it is established");
    assert_eq!(definitions.look_at_all().await, Ok(true));
    assert_eq!(*seen.0.lock(), [(true, false)], "served, and not yet told of, while its status is written");
    assert!(tells_of_widgets(&registry));
    stop.cancel();
}
