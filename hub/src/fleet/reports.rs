//! What agents report, written where it differs: Work status, Cluster status, finalizers, events.
//!
//! In: reports of one cluster's agent, as the gateway unpacked them. Out: writes under the agent's own name, events, and what was written
//! told back; an error says whether the same report may succeed later.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use karmada_api::names::execution_namespace;
use karmada_api::strings::{annotations, events};
use karmada_controllers::events::{EventType, Recorder, Reference};
use karmada_controllers::port::Key;
use karmada_controllers::queue::Queue;
use karmada_definitions::resource::{ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_fleet::cluster_report;
use karmada_fleet::work_report::{self, Body};
use karmada_gateway::ports::{Batch, PortError, StatusSink, WorkNotice, WorkReport};
use karmada_gateway::{SharedFleet, body_hash};
use karmada_proto::digest::{self, Content};
use karmada_proto::quoted;
use karmada_registry::{Origin, Registry, User, WriteOptions};
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::Value;

use karmada_core::orphans::{Orphans, Reported};

/// Orphans that a line of the log names.
const ORPHANS_SHOWN: usize = 10;

/// The sink of all reports.
pub struct Reports {
    registry: Arc<Registry>,
    fleet: Arc<SharedFleet>,
    recorder: Arc<Recorder>,
    clusters: Arc<Queue<Key>>,
}

impl Reports {
    /// A sink over a registry, which tells `fleet` what was written of clusters. `clusters` is the cluster controller's queue.
    pub fn new(
        registry: Arc<Registry>,
        fleet: Arc<SharedFleet>,
        recorder: Arc<Recorder>,
        clusters: Arc<Queue<Key>>,
    ) -> Self {
        Reports { registry, fleet, recorder, clusters }
    }

    fn works(&self) -> Result<Arc<ResourceDefinition>, PortError> {
        self.registry.definition("work.karmada.io", "v1alpha1", "works").map_err(not_served)
    }

    fn works_of(&self, cluster: &str) -> Vec<Arc<Stored>> {
        let works = self.registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
        works.snapshot(&execution_namespace(cluster)).items
    }

    fn cluster(&self, name: &str) -> Option<Value> {
        let definition = self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters");
        Some(definition.and_then(|clusters| self.registry.get(&clusters, "", name)).ok()?.value())
    }

    /// Changes which orphans stand on a Cluster; writes nothing where they are the same after.
    async fn change_orphans(
        &self,
        cluster: &str,
        change: &mut (dyn FnMut(&mut Orphans) + Send),
    ) -> Result<(), PortError> {
        let clusters =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(not_served)?;
        let mut on_cluster = |found: &mut Value| {
            let mut orphans = Orphans::of(found);
            change(&mut orphans);
            let notes = &mut found["metadata"]["annotations"];
            match (orphans.text(), notes.as_object_mut()) {
                (Some(text), _) => notes[annotations::ORPHANS] = text.into(),
                (None, Some(notes)) => drop(notes.remove(annotations::ORPHANS)),
                (None, None) => {}
            }
            Ok(())
        };
        self.change(&clusters, &ObjectKey::new("", cluster), cluster, "", &mut on_cluster).await.map(drop)
    }

    /// The generation of a Work, and the hash of the body that it has in it.
    fn body_of(&self, works: &ResourceDefinition, key: &ObjectKey) -> Option<Body> {
        let work = self.registry.get(works, &key.namespace, &key.name).ok()?;
        Some((work_report::generation(&work.value()), body_hash(&work.json())?))
    }

    /// The template that a Work carries, as its manifest names it.
    fn template_of(&self, work: &Reference) -> Option<Reference> {
        let works = self.works().ok()?;
        let work = self.registry.get(&works, &work.namespace, &work.name).ok()?.value();
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let mut template = Reference::of(manifest);
        template.uid = manifest["metadata"]["annotations"][annotations::TEMPLATE_UID].as_str()?.to_owned();
        Some(template)
    }

    async fn change(
        &self,
        definition: &ResourceDefinition,
        key: &ObjectKey,
        cluster: &str,
        subresource: &str,
        change: &mut (dyn FnMut(&mut Value) -> Result<(), Status> + Send),
    ) -> Result<Option<Arc<Stored>>, PortError> {
        let options = WriteOptions {
            user: User {
                name: karmada_api::names::agent_common_name(cluster),
                origin: Origin::Hub,
                ..User::default()
            },
            field_manager: "karmada-agent".to_owned(),
            subresource: subresource.to_owned(),
            ..WriteOptions::default()
        };
        let mut whole = |live: Option<&Value>| {
            let mut object = live.cloned().ok_or_else(|| Status::not_found(definition, &key.name))?;
            change(&mut object)?;
            Ok(object)
        };
        match self.registry.update(definition, key, &options, &mut whole).await {
            Ok(written) => Ok(Some(written.object)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) if status.code >= 500 || status.code == 409 => Err(PortError::later(status.message)),
            Err(status) => Err(PortError::never(status.message)),
        }
    }
}

/// A Cluster, for events.
fn about(cluster: &str) -> Reference {
    Reference::of_cluster(cluster, "")
}

fn not_served(status: Status) -> PortError {
    PortError::never(status.message)
}

/// The deletes of which a Cluster says that they may go out.
pub(super) fn confirmed(cluster: &Value) -> Option<Batch> {
    cluster["metadata"]["annotations"][annotations::CONFIRM_DELETES].as_str()?.parse().ok()
}

#[async_trait]
impl StatusSink for Reports {
    async fn work_status(&self, cluster: &str, report: WorkReport) -> Result<(), PortError> {
        let statuses = work_report::statuses(&report)
            .map_err(|error| PortError::never(format!("manifestStatuses is no JSON: {error}")))?;
        let (definition, now) = (self.works()?, self.registry.now_text());
        let key = ObjectKey::new(&execution_namespace(cluster), &report.key);
        let present = report.applied.as_ref().and_then(|_| self.body_of(&definition, &key));
        let mut change = |work: &mut Value| {
            work_report::put(work, &report, statuses.as_ref(), present.as_ref(), &now);
            Ok(())
        };
        self.change(&definition, &key, cluster, "status", &mut change).await.map(drop)
    }

    async fn cluster_status(&self, cluster: &str, status: Bytes) -> Result<(), PortError> {
        let reported = cluster_report::read(&status)
            .map_err(|why| PortError::never(format!("the cluster's status is refused: {why}")))?;
        let definition =
            self.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").map_err(not_served)?;
        let now = self.registry.now_text();
        let mut change = |object: &mut Value| {
            cluster_report::put(object, &reported, &now);
            Ok(())
        };
        let key = ObjectKey::new("", cluster);
        if let Some(written) = self.change(&definition, &key, cluster, "status", &mut change).await? {
            self.fleet.wrote(cluster, &reported, &written.value());
        }
        self.clusters.add(Key { namespace: Arc::from(""), name: Arc::from(cluster) });
        Ok(())
    }

    async fn finalize_work(
        &self,
        cluster: &str,
        key: &str,
        uid: &str,
        objects: &[String],
    ) -> Result<(), PortError> {
        let definition = self.works()?;
        let key = ObjectKey::new(&execution_namespace(cluster), key);
        let mut is_meant = false;
        let mut change = |work: &mut Value| {
            is_meant = work_report::let_go(work, uid);
            Ok(())
        };
        self.change(&definition, &key, cluster, "", &mut change).await?;
        // A decision on an orphan is used once: it ends when the orphan is gone or a Work of its name appears.
        let was_decided = self.cluster(cluster).is_some_and(|found| Orphans::of(&found).gone(&key.name));
        if was_decided {
            let mut gone = |orphans: &mut Orphans| {
                orphans.gone(&key.name);
            };
            self.change_orphans(cluster, &mut gone).await?;
        }
        // Of a Work that is there and waits for it, and so once: what else a site says fills no log.
        if is_meant {
            tracing::info!(
                cluster,
                work = &*key.name,
                uid,
                ?objects,
                "the site removed what the Work carried"
            );
        } else if was_decided {
            tracing::info!(
                cluster,
                work = &*key.name,
                ?objects,
                "the site let go of what the hub knew nothing of"
            );
        }
        Ok(())
    }

    fn statuses(&self, cluster: &str) -> Vec<(Arc<str>, Content)> {
        let all = self.works_of(cluster);
        let content = |work: &Arc<Stored>| Some((work.key.name.clone(), work_report::content(&work.json())?));
        all.iter().filter_map(content).collect()
    }

    /// Every write gives a Work a newer revision, and each goes under its own.
    fn statuses_version(&self, cluster: &str) -> Option<u64> {
        let mut version = DefaultHasher::new();
        self.works_of(cluster).iter().for_each(|work| work.revision.hash(&mut version));
        Some(version.finish())
    }

    fn says(&self, cluster: &str, told: &Content) -> bool {
        let Some(found) = self.cluster(cluster) else { return false };
        digest::cluster_digest(&found["status"]) == *told
    }

    async fn event(&self, cluster: &str, notice: WorkNotice) -> Result<(), PortError> {
        // Events of a Work that was replaced (another uid) are dropped: the recorder limits events per object, and invented uids would get around that.
        let key = ObjectKey::new(&execution_namespace(cluster), &notice.key);
        let live = self.registry.get(&*self.works()?, &key.namespace, &key.name);
        if live.is_ok_and(|live| live.uid() != notice.uid) {
            return Ok(());
        }
        let kind = if notice.warning { EventType::Warning } else { EventType::Normal };
        let about = Reference {
            api_version: "work.karmada.io/v1alpha1".to_owned(),
            kind: "Work".to_owned(),
            namespace: execution_namespace(cluster),
            name: notice.key.clone(),
            uid: notice.uid.clone(),
        };
        self.recorder.record(&about, kind, &notice.reason, &notice.message);
        if let Some(template) = self.template_of(&about) {
            self.recorder.record(&template, kind, &notice.reason, &notice.message);
        }
        Ok(())
    }

    async fn orphans(&self, cluster: &str, keys: Vec<String>) -> Result<(), PortError> {
        let works = self.works()?;
        let namespace = execution_namespace(cluster);
        // One that cannot be read is held: nobody is asked whether it may go.
        let is_held = |key: &str| !matches!(self.registry.find(&works, &namespace, key), Ok(None));
        let (mut told, mut count) = (Reported { news: false, left_out: 0 }, 0);
        self.change_orphans(cluster, &mut |orphans| {
            told = orphans.reported(&keys, is_held);
            count = orphans.count();
        })
        .await?;
        if !told.news {
            return Ok(());
        }
        let left_out = told.left_out;
        let shown: Vec<_> = keys.iter().take(ORPHANS_SHOWN).map(|key| quoted(key)).collect();
        tracing::warn!(cluster, count, left_out, keys = ?shown, "the site has Works, or objects with their marks, that the hub does not hold; nothing is removed");
        let more =
            if left_out == 0 { String::new() } else { format!(" ({left_out} more are not listed yet)") };
        let message = format!(
            "the site has {count} Works{more}, or objects with their marks, that the hub knows nothing of, and keeps them until somebody decides: karmadactl orphans {cluster}"
        );
        self.recorder.record(&about(cluster), EventType::Warning, "OrphansFound", &message);
        Ok(())
    }

    fn orphans_decided(&self, cluster: &str) -> Vec<(String, bool)> {
        self.cluster(cluster).map(|found| Orphans::of(&found).decided()).unwrap_or_default()
    }

    fn deletes_confirmed(&self, cluster: &str) -> Option<Batch> {
        confirmed(&self.cluster(cluster)?)
    }

    fn deletes_held(&self, cluster: &str, batch: Batch, count: u64) {
        let command = format!("karmadactl confirm {cluster} --batch {batch}");
        let message = format!(
            "the hub was restored: {count} deletes wait and are not sent to this site; to let these go out, and no later ones: {command}"
        );
        tracing::warn!(cluster, %batch, count, "deletes are held back after a restore");
        self.recorder.record(&about(cluster), EventType::Warning, events::DELETES_HELD, &message);
    }

    fn clone_seen(&self, cluster: &str) {
        tracing::warn!(cluster, "two living agents showed this cluster's identity; the newcomer was refused");
    }
}
