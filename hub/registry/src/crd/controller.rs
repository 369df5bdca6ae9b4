//! Serves what definitions describe, says so in their status, and clears away after those that go.
//!
//! Level-triggered: whatever woke it, it looks at every definition, serves what should be served, writes the statuses that
//! should be written and takes the next step of every removal. A restart begins with the same look.
//!
//! In: the stored definitions, from the cache. Out: the catalogue that the registry serves and the one that discovery tells of; written
//! statuses, deleted instances, finalizers taken away. An error of one definition is answered after all others had their turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karmada_definitions::crd::{Crd, FINALIZER, GROUP, PLURAL, names};
use karmada_definitions::resource::{Catalogue, ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_schema::condition::{self, Said};
use karmada_schema::object::{ObjectKey, Stored, meta};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::reconciler::{Next, Reconciler};
use crate::registry::Registry;
use crate::request::{DeleteOptions, WriteOptions};
use crate::user::{Origin, User};

/// How often removals that wait for their instances are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Keeps the served kinds in step with the stored definitions.
pub struct DefinitionController {
    registry: Arc<Registry>,
    shipped: Vec<Arc<ResourceDefinition>>,
    served: Mutex<BTreeMap<Arc<str>, ServedDefinition>>,
    heads: Mutex<BTreeMap<Arc<str>, (u64, Value)>>,
    user: User,
}

/// What is served of one definition.
struct ServedDefinition {
    uid: Box<str>,
    generation: i64,
    crd: Arc<Crd>,
    definitions: Vec<Arc<ResourceDefinition>>,
    /// Whether discovery tells of it.
    announced: bool,
}

#[async_trait]
impl Reconciler for DefinitionController {
    fn keeps(&self) -> &'static str {
        "what is served of CustomResourceDefinitions"
    }

    fn reads(&self) -> &'static [&'static str] {
        &["apiextensions.k8s.io/customresourcedefinitions"]
    }

    async fn look(&mut self) -> Result<Next, Status> {
        let settled = self.look_at_all().await?;
        Ok(if settled { Next::OnChange } else { Next::After(LOOK) })
    }
}

impl DefinitionController {
    /// A controller over a registry that serves what ships with the hub.
    pub fn new(registry: Arc<Registry>) -> DefinitionController {
        let shipped = registry.catalogue().iter().cloned().collect();
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        let user =
            User { name: "system:apiserver".to_owned(), groups, origin: Origin::Hub, ..User::default() };
        DefinitionController { registry, shipped, served: Mutex::default(), heads: Mutex::default(), user }
    }

    /// Serves the definitions that the store holds. Call before the first request is answered.
    pub fn start(&self) {
        let stored = self.stored();
        let objects = self.heads(&stored);
        self.serve(&stored, &objects);
        self.announce(&BTreeSet::new());
    }

    fn stored(&self) -> Vec<Arc<Stored>> {
        self.registry.cache().of_resource(&storage()).snapshot("").items
    }

    /// One look at everything. Answers whether nothing is left to wait for.
    async fn look_at_all(&self) -> Result<bool, Status> {
        let stored = self.stored();
        let mut objects = self.heads(&stored);
        let now = self.registry.now_text();
        let mut changed = Vec::new();
        // The kinds that the hub serves itself have their names, as if each had a definition.
        let own: Vec<Value> = self.shipped.iter().map(|one| names::of_served(one)).collect();
        for at in 0..objects.len() {
            let own = if self.ships(&objects[at]) { &[][..] } else { &own };
            let status = names::status_beside(&objects[at], &[&objects, own], &now);
            if status != objects[at]["status"] {
                objects[at]["status"] = status;
                changed.push(at);
            }
        }
        // Served before the status says so, because whoever waits for the condition uses the kind at once. In discovery only
        // afterwards: whoever finds the kind there may update its definition at once, and must not meet a conflict with us.
        self.serve(&stored, &objects);
        // One that fails keeps no other from what is due to it.
        let (mut failed, mut unwritten) = (None, BTreeSet::new());
        for at in changed {
            match self.write_status(&objects[at]).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(status) => failed = Some(status),
            }
            unwritten.insert(meta::name(&objects[at]));
        }
        self.announce(&unwritten);
        let mut settled = true;
        for object in objects.iter().filter(|object| meta::deleting(object)) {
            match self.remove(object).await {
                Ok(done) => settled &= done,
                Err(status) => failed = Some(status),
            }
        }
        failed.map_or(Ok(settled), Err)
    }

    /// What is looked at of each definition. Schemas are not: only what changed is read again, and little of it.
    fn heads(&self, stored: &[Arc<Stored>]) -> Vec<Value> {
        let mut known = self.heads.lock();
        let mut now = BTreeMap::new();
        let heads = stored.iter().map(|object| {
            let name = object.key.name.clone();
            let before = known.remove(&name).filter(|(revision, _)| *revision == object.revision);
            let entry = before.unwrap_or_else(|| (object.revision, head(object)));
            let head = entry.1.clone();
            now.insert(name, entry);
            head
        });
        let heads = heads.collect();
        *known = now;
        heads
    }

    /// Serves the established definitions, unless that is what is served already.
    fn serve(&self, stored: &[Arc<Stored>], objects: &[Value]) {
        let mut served = self.served.lock();
        let mut changed = false;
        let mut kept: BTreeMap<Arc<str>, ServedDefinition> = BTreeMap::new();
        for (stored, object) in stored.iter().zip(objects) {
            if !condition::is_true(object, "Established") || self.ships(object) {
                continue;
            }
            let name = stored.key.name.clone();
            let before = served.remove(&name);
            let same =
                before.as_ref().is_some_and(|b| *b.uid == *stored.uid() && b.generation == stored.generation);
            match before.filter(|_| same) {
                Some(before) if before.crd.terminating == stored.deleting => {
                    kept.insert(name, before);
                }
                before => match self.compiled(stored, before.as_ref()) {
                    Some(now) => {
                        changed = true;
                        kept.insert(name, now);
                    }
                    None => changed |= before.is_some(),
                },
            }
        }
        changed |= !served.is_empty();
        *served = kept;
        if changed {
            self.registry.serve(self.catalogue(served.values()));
        }
    }

    /// Has discovery tell of all that is served, but for what is new and named in `unwritten`: its status was not written.
    fn announce(&self, unwritten: &BTreeSet<&str>) {
        let mut served = self.served.lock();
        for (name, one) in served.iter_mut() {
            one.announced |= !unwritten.contains(&**name);
        }
        let everything = served.values().all(|one| one.announced);
        self.registry.announce(if everything {
            self.registry.catalogue()
        } else {
            Arc::new(self.catalogue(served.values().filter(|one| one.announced)))
        });
    }

    /// What ships with the hub, and these.
    fn catalogue<'a>(&self, served: impl Iterator<Item = &'a ServedDefinition>) -> Catalogue {
        let mut own: Vec<Arc<ResourceDefinition>> =
            served.flat_map(|one| one.definitions.iter().cloned()).collect();
        own.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
        Catalogue::new(self.shipped.iter().cloned().chain(own))
    }

    fn compiled(&self, stored: &Arc<Stored>, before: Option<&ServedDefinition>) -> Option<ServedDefinition> {
        let crd = match before {
            Some(before) => before.crd.with(stored),
            None => {
                // At the start the schema has been this one since the definition was last written.
                let started = self.registry.catalogue().iter().count() > self.shipped.len();
                let since = if started { self.registry.cache().revision() } else { stored.revision };
                match Crd::read(stored, since) {
                    Ok(crd) => crd,
                    Err(error) => {
                        tracing::error!(name = &*stored.key.name, %error, "a stored definition cannot be served");
                        return None;
                    }
                }
            }
        };
        let crd = Arc::new(crd);
        let definitions = crd.definitions();
        let announced = before.is_some_and(|before| before.announced && *before.uid == *stored.uid());
        Some(ServedDefinition {
            uid: stored.uid().into(),
            generation: stored.generation,
            crd,
            definitions,
            announced,
        })
    }

    /// Whether the hub brings this kind itself: then the definition is kept and changes nothing.
    fn ships(&self, object: &Value) -> bool {
        let (group, plural) = (&object["spec"]["group"], &object["spec"]["names"]["plural"]);
        self.shipped.iter().any(|one| *group == *one.group && *plural == *one.plural)
    }

    fn definition(&self) -> Result<Arc<ResourceDefinition>, Status> {
        self.registry.definition(GROUP, "v1", PLURAL)
    }

    fn options(&self, subresource: &str) -> WriteOptions {
        WriteOptions {
            user: self.user.clone(),
            field_manager: "kube-apiserver".to_owned(),
            subresource: subresource.to_owned(),
            ..WriteOptions::default()
        }
    }

    /// Writes the status that was decided on, unless the definition has changed since. Answers whether it was written.
    async fn write_status(&self, object: &Value) -> Result<bool, Status> {
        let key = ObjectKey::new("", meta::name(object));
        let (revision, status) = (meta::text(object, "resourceVersion"), &object["status"]);
        let options = self.options("status");
        let definition = self.definition()?;
        let mut change = |live: Option<&Value>| {
            let mut live = live.cloned().unwrap_or_default();
            if meta::text(&live, "resourceVersion") != revision {
                return Err(Status::conflict(&definition, meta::name(object)));
            }
            live["status"] = status.clone();
            Ok(live)
        };
        match self.registry.update(&definition, &key, &options, &mut change).await {
            // Another look follows: the change that was faster woke the loop.
            Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Takes the next step of a definition's removal. Answers whether it is done.
    async fn remove(&self, object: &Value) -> Result<bool, Status> {
        if !meta::finalizers(object).iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(true);
        }
        let mut object = object.clone();
        let (left, outcome) = if self.ships(&object) || !condition::is_true(&object, "Established") {
            (0, ("False", "NeverEstablished", "resource was never established".to_owned()))
        } else {
            match self.delete_instances(&object).await {
                Ok(0) => (0, ("False", "InstanceDeletionCompleted", "removed all instances".to_owned())),
                Ok(left) => (
                    left,
                    (
                        "True",
                        "InstanceDeletionInProgress",
                        "CustomResource deletion is in progress".to_owned(),
                    ),
                ),
                Err(error) => {
                    (1, ("True", "InstanceDeletionFailed", format!("could not issue all deletes: {error}")))
                }
            }
        };
        let before = object.clone();
        let now = self.registry.now_text();
        let (status, reason, message) = outcome;
        let said = Said { kind: "Terminating", status, reason, message: &message };
        condition::say(&mut object, said, &now);
        if left > 0 {
            if object != before {
                self.write_status(&object).await?;
            }
            return Ok(false);
        }
        let key = ObjectKey::new("", meta::name(&object));
        let uid = object["metadata"]["uid"].clone();
        let definition = self.definition()?;
        let mut done = |live: Option<&Value>| {
            let mut live = live.cloned().unwrap_or_default();
            if live["metadata"]["uid"] == uid {
                let mut finalizers = meta::finalizers(&live);
                finalizers.retain(|finalizer| finalizer != FINALIZER);
                meta::of(&mut live).insert("finalizers".into(), json!(finalizers));
            }
            Ok(live)
        };
        match self.registry.update(&definition, &key, &self.options(""), &mut done).await {
            Err(status) if &*status.reason == "NotFound" => Ok(true),
            other => other.map(|_| true),
        }
    }

    /// Deletes every instance that is not being deleted yet; answers how many there still are.
    async fn delete_instances(&self, object: &Value) -> Result<usize, Status> {
        let Some(definition) = self.instances_of(object) else { return Ok(0) };
        let resource_cache = self.registry.cache().of_resource(&definition.storage);
        for instance in resource_cache.snapshot("").items.iter().filter(|instance| !instance.deleting) {
            let options = DeleteOptions::default();
            let deleted = self.registry.delete(&definition, &instance.key, &options, &self.user).await;
            if let Err(status) = deleted
                && &*status.reason != "NotFound"
            {
                return Err(status);
            }
        }
        Ok(resource_cache.len())
    }

    /// Any served version of the kind, or one made for the purpose where none is.
    fn instances_of(&self, object: &Value) -> Option<Arc<ResourceDefinition>> {
        let served = self.served.lock();
        let one = served.get(meta::name(object))?;
        one.definitions.first().cloned().or_else(|| one.crd.any_definition())
    }
}

/// Identity, names and status of a definition, without the rest.
fn head(stored: &Stored) -> Value {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        metadata: Value,
        #[serde(default)]
        spec: Spec,
        #[serde(default)]
        status: Value,
    }
    #[derive(Default, Deserialize)]
    struct Spec {
        #[serde(default)]
        group: Value,
        #[serde(default)]
        names: Value,
    }
    let Ok(mut head) = serde_json::from_slice::<Head>(&stored.json()) else { return Value::Null };
    if let Some(metadata) = head.metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(annotations) = head.metadata["annotations"].as_object_mut() {
        annotations.retain(|name, _| name == names::APPROVED);
    }
    json!({
        "metadata": head.metadata, "spec": {"group": head.spec.group, "names": head.spec.names}, "status": head.status,
    })
}

fn storage() -> StorageId {
    StorageId(format!("{GROUP}/{PLURAL}").into())
}

#[cfg(test)]
mod tests;
