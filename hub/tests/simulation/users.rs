//! Users of the hub, who make, change and delete Works, and the person who decides what the fleet waits for.
//!
//! In: what the script wants done. Out: writes through the hub's registry; and what was ever asked for, by which deletions are judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use karmada_agent::member::ObjectId;
use karmada_api::names::execution_namespace;
use karmada_api::strings::finalizers;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_gateway::body_hash;
use karmada_registry::{DeleteOptions, Origin, Registry, User, WriteOptions};
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::log::Log;

/// A Work's name at a site.
pub type Name = (String, String);

/// What users ever asked for.
#[derive(Default)]
pub struct Asked {
    /// How often a Work was deleted by somebody.
    pub deleted: BTreeMap<Name, u64>,
    /// How often a Work gave an object up.
    pub dropped: BTreeMap<(Name, ObjectId), u64>,
    /// Orphans of which a person said that they go.
    pub decided: BTreeSet<Name>,
    made: u64,
}

/// The users.
pub struct Users {
    pub asked: Asked,
    dice: Dice,
    log: Log,
}

fn options() -> WriteOptions {
    let user = user();
    WriteOptions { user, field_manager: "users".to_owned(), ..WriteOptions::default() }
}

fn user() -> User {
    User {
        name: "users".to_owned(),
        groups: vec!["system:masters".to_owned()],
        origin: Origin::Hub,
        ..User::default()
    }
}

/// Works whose objects stay in the member once they are deleted, by their names.
pub fn is_kept(name: &str) -> bool {
    name.starts_with('k')
}

/// Works that are never to be enforced, by their names.
pub fn is_suspended(name: &str) -> bool {
    name.starts_with('z')
}

pub fn config_map(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"text": text}})
}

fn deployment(name: &str, replicas: u64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas}})
}

/// The same, which may take up what an earlier Work of its name left behind.
fn kept(mut manifest: Value) -> Value {
    manifest["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    manifest
}

/// The bodies of a site's Works as its agent is to name them.
pub fn bodies(registry: &Registry, site: &str) -> BTreeMap<String, Bytes> {
    let resource_cache = registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
    let all = resource_cache.snapshot(&execution_namespace(site)).items;
    let body = |work: &Arc<Stored>| Some((work.key.name.to_string(), body_hash(&work.json())?));
    all.iter().filter_map(body).collect()
}

/// The Works of a site as the hub has them.
pub fn works(registry: &Registry, site: &str) -> BTreeMap<String, Value> {
    let resource_cache = registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
    let all = resource_cache.snapshot(&execution_namespace(site)).items;
    all.iter().map(|work| (work.key.name.to_string(), work.value())).collect()
}

/// The names and uids of a site's Works, and whether they are on their way out.
pub fn lives(registry: &Registry, site: &str) -> Vec<(String, String, bool)> {
    let resource_cache = registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
    let all = resource_cache.snapshot(&execution_namespace(site)).items;
    all.iter().map(|work| (work.key.name.to_string(), work.uid().to_owned(), work.deleting)).collect()
}

/// The manifests of a Work.
pub fn manifests(work: &Value) -> Vec<Value> {
    work["spec"]["workload"]["manifests"].as_array().cloned().unwrap_or_default()
}

pub fn is_deleting(work: &Value) -> bool {
    !work["metadata"]["deletionTimestamp"].is_null()
}

/// The Cluster of a site.
pub fn cluster(registry: &Registry, site: &str) -> Value {
    let clusters = registry.definition("cluster.karmada.io", "v1alpha1", "clusters").unwrap();
    registry.get(&clusters, "", site).map(|found| found.value()).unwrap_or_default()
}

impl Users {
    pub fn new(dice: Dice, log: Log) -> Self {
        Self { asked: Asked::default(), dice, log }
    }

    fn text(&mut self) -> String {
        let length = match self.dice.between(0, 99) {
            0..=84 => self.dice.between(1, 200),
            85..=96 => self.dice.between(1_000, 60_000),
            _ => self.dice.between(60_000, 300_000),
        };
        // Not to be packed to nothing.
        let words: Vec<String> = (0..length / 16 + 1).map(|_| format!("{:016x}", self.dice.next())).collect();
        words.concat()
    }

    fn manifests(&mut self, name: &str) -> Vec<Value> {
        let count = if self.dice.chance(75) { 1 } else { self.dice.between(2, 4) };
        (0..count)
            .map(|at| {
                let object = format!("{name}-{at}");
                let manifest = if self.dice.chance(50) {
                    deployment(&object, self.dice.between(1, 9))
                } else {
                    config_map(&object, &self.text())
                };
                if is_kept(name) { kept(manifest) } else { manifest }
            })
            .collect()
    }

    /// A Work with these manifests; with some, where none are given.
    pub async fn create(
        &mut self,
        registry: &Registry,
        site: &str,
        name: Option<String>,
    ) -> Result<String, Status> {
        self.asked.made += 1;
        let sort = match self.dice.between(0, 99) {
            0..=7 => "k",
            8..=14 => "z",
            _ => "w",
        };
        let name = name.unwrap_or_else(|| format!("{sort}{}", self.asked.made));
        let manifests = self.manifests(&name);
        self.write(registry, site, &name, manifests).await?;
        Ok(name)
    }

    /// A Work of this name once more, whose life before had `former` objects.
    pub async fn make_again(
        &mut self,
        registry: &Registry,
        site: &str,
        name: &str,
        former: &[Value],
    ) -> Result<(), Status> {
        let manifests = self.manifests(name);
        self.drops(site, name, former, &manifests);
        self.write(registry, site, name, manifests).await
    }

    /// Notes which objects a Work gives up as it goes from one body to the next.
    fn drops(&mut self, site: &str, name: &str, before: &[Value], after: &[Value]) {
        let kept: BTreeSet<ObjectId> = after.iter().map(ObjectId::of).collect();
        for gone in before.iter().map(ObjectId::of).filter(|id| !kept.contains(id)) {
            *self.asked.dropped.entry(((site.to_owned(), name.to_owned()), gone)).or_default() += 1;
        }
    }

    /// One of many, with one small object.
    pub async fn create_small(&mut self, registry: &Registry, site: &str) -> Result<(), Status> {
        self.asked.made += 1;
        let name = format!("w{}", self.asked.made);
        let manifests = vec![config_map(&format!("{name}-0"), &name)];
        self.write(registry, site, &name, manifests).await
    }

    /// The name of a Work that is large.
    pub fn large_name(&mut self) -> String {
        self.asked.made += 1;
        format!("w{}", self.asked.made)
    }

    /// It is made, or its body is another, which takes more than any line has room for at once.
    pub async fn write_large(&mut self, registry: &Registry, site: &str, name: &str) -> Result<(), Status> {
        let text: Vec<String> = (0..75_000).map(|_| format!("{:016x}", self.dice.next())).collect();
        let manifests = vec![config_map(&format!("{name}-0"), &text.concat())];
        if !works(registry, site).contains_key(name) {
            return self.write(registry, site, name, manifests).await;
        }
        Self::change(registry, site, name, |work| {
            work["spec"]["workload"]["manifests"] = manifests.clone().into();
        })
        .await
    }

    /// What every agent is to be told: nothing that changes how it works, of any size.
    pub fn document(&mut self) -> String {
        let text = self.text();
        let target = json!({"apiVersion": "example.com/v1", "kind": "Nothing"});
        json!([{"metadata": {"name": "c", "annotations": {"text": text}}, "spec": {"target": target, "customizations": {}}}])
            .to_string()
    }

    /// A Work whose objects the member refuses, or ends the agent over.
    pub async fn create_bad(&mut self, registry: &Registry, site: &str, name: &str) -> Result<(), Status> {
        let manifests = vec![config_map(name, "bad")];
        self.write(registry, site, name, manifests).await
    }

    async fn write(
        &mut self,
        registry: &Registry,
        site: &str,
        name: &str,
        manifests: Vec<Value>,
    ) -> Result<(), Status> {
        let works = registry.definition("work.karmada.io", "v1alpha1", "works")?;
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": name, "finalizers": [finalizers::EXECUTION]},
            "spec": {"workload": {"manifests": manifests}, "suspendDispatching": is_suspended(name),
                "preserveResourcesOnDeletion": is_kept(name)}});
        let namespace = execution_namespace(site);
        registry.create(&works, &namespace, work, &options()).await?;
        self.log.line(format_args!("{name} of {site} is made"));
        Ok(())
    }

    async fn change(
        registry: &Registry,
        site: &str,
        name: &str,
        mut change: impl FnMut(&mut Value) + Send,
    ) -> Result<(), Status> {
        let works = registry.definition("work.karmada.io", "v1alpha1", "works")?;
        let key = ObjectKey::new(&execution_namespace(site), name);
        let mut whole = |live: Option<&Value>| {
            let mut work = live.cloned().ok_or_else(|| Status::not_found(&works, name))?;
            change(&mut work);
            Ok(work)
        };
        registry.update(&works, &key, &options(), &mut whole).await.map(drop)
    }

    /// Other content; some objects may go, others come.
    pub async fn update(&mut self, registry: &Registry, site: &str, name: &str) -> Result<(), Status> {
        let Some(work) = works(registry, site).remove(name) else { return Ok(()) };
        let before = manifests(&work);
        let mut after = before.clone();
        for manifest in &mut after {
            if manifest["kind"] == "Deployment" {
                manifest["spec"]["replicas"] = self.dice.between(1, 9).into();
            } else {
                manifest["data"] = json!({ "text": self.text(), "more": "x" });
                if self.dice.chance(50) {
                    manifest["data"] = json!({ "text": self.text() });
                }
            }
        }
        // What is kept is not dropped one by one.
        if after.len() > 1 && !is_kept(name) && self.dice.chance(40) {
            after.remove(0);
        }
        if !is_kept(name) && self.dice.chance(20) {
            let added = config_map(&format!("{name}-{}", self.dice.between(5, 9)), "added");
            after.retain(|other| ObjectId::of(other) != ObjectId::of(&added));
            after.push(added);
        }
        self.drops(site, name, &before, &after);
        let changed = after.clone();
        Self::change(registry, site, name, |work| {
            work["spec"]["workload"]["manifests"] = changed.clone().into();
        })
        .await?;
        self.log.line(format_args!("{name} of {site} is changed"));
        Ok(())
    }

    pub async fn delete(&mut self, registry: &Registry, site: &str, name: &str) -> Result<(), Status> {
        let works = registry.definition("work.karmada.io", "v1alpha1", "works")?;
        let key = ObjectKey::new(&execution_namespace(site), name);
        if !is_kept(name) {
            *self.asked.deleted.entry((site.to_owned(), name.to_owned())).or_default() += 1;
        }
        registry.delete(&works, &key, &DeleteOptions::default(), &user()).await?;
        self.log.line(format_args!("{name} of {site} is deleted"));
        Ok(())
    }

    /// A person has what the agent put aside tried again.
    pub async fn release(&mut self, registry: &Registry, site: &str, name: &str) -> Result<(), Status> {
        let word = format!("{:x}", self.dice.next());
        Self::change(registry, site, name, |work| {
            work["metadata"]["annotations"]["edge.karmada.io/retry"] = word.clone().into();
        })
        .await?;
        self.log.line(format_args!("{name} of {site} is released"));
        Ok(())
    }

    /// A person writes something on a Cluster.
    pub async fn annotate(
        &mut self,
        registry: &Registry,
        site: &str,
        annotation: &str,
        text: &str,
    ) -> Result<(), Status> {
        let clusters = registry.definition("cluster.karmada.io", "v1alpha1", "clusters")?;
        let mut whole = |live: Option<&Value>| {
            let mut cluster = live.cloned().ok_or_else(|| Status::not_found(&clusters, site))?;
            cluster["metadata"]["annotations"][annotation] = text.into();
            Ok(cluster)
        };
        registry.update(&clusters, &ObjectKey::new("", site), &options(), &mut whole).await.map(drop)?;
        self.log.line(format_args!("a person says of {site}: {annotation} {text}"));
        Ok(())
    }
}
