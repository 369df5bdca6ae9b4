//! How each Work stands: the outcome of applying it, and what the interpreter reads from its objects.
//!
//! In: entries, outcomes, objects as the member has them. Out: the report of a Work; an object whose status cannot be read keeps the last
//! one that could, and why it cannot is told apart from the report, once. Pure.
//!
//! One row per Work, one slot per manifest; nothing of an object is kept but what is reported, and a digest of what was told to be wrong.

use std::collections::BTreeMap;

use bytes::Bytes;
use karmada_api::NETWORKING_GROUP;
use karmada_api::multi_cluster_service::ServiceEndpoints;
use karmada_api::strings::events;
use karmada_api::work::{ManifestStatus, ResourceIdentifier};
use karmada_interpreter::{Answer, InterpretError, Interpreter, health_by};
use karmada_proto::body;
use karmada_proto::v1::Applied;
use serde_json::Value;

use crate::ledger::Entry;
use crate::member::ObjectId;
use crate::outbox::WorkReport;

#[derive(Debug, Default)]
struct Row {
    uid: String,
    revision: u64,
    hash: Bytes,
    generation: u64,
    applied: Option<Applied>,
    /// JSON of one ManifestStatus per manifest that the member has.
    slots: Vec<Option<String>>,
    /// JSON of the one ManifestStatus of a Work that asks where a Service is reached, and that nothing is made of.
    answer: Option<String>,
    /// What was told to be wrong with reading a manifest's object, by its reason, as digests of the words; it is told again once it is
    /// another. Empty where all can be read, as nearly always.
    troubles: BTreeMap<(usize, &'static str), Bytes>,
}

impl Row {
    /// What reading the object of manifest `ordinal` came to. The words of what went wrong, where they are news.
    fn trouble<T>(&mut self, ordinal: usize, reason: &'static str, read: &Answer<T>) -> Option<Trouble> {
        // What nobody knows to read, or somebody else is yet to be asked about, is no failure.
        let why = match read {
            Ok(_) => {
                self.troubles.remove(&(ordinal, reason));
                return None;
            }
            Err(InterpretError::NoHook { .. } | InterpretError::Unanswered(_)) => return None,
            Err(error) => error.to_string(),
        };
        let digest = body::hash(why.as_bytes());
        let before = self.troubles.insert((ordinal, reason), digest.clone());
        (before != Some(digest)).then(|| Trouble { uid: self.uid.clone(), reason, why })
    }
}

/// Why an object's status or health cannot be read, where that is news: it becomes an event of the Work.
#[derive(Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The Work's.
    pub uid: String,
    /// The reason of the event.
    pub reason: &'static str,
    /// Which script, or what else, failed, and how.
    pub why: String,
}

/// The rows of all Works.
#[derive(Debug, Default)]
pub struct WorkStatuses {
    rows: BTreeMap<String, Row>,
}

impl WorkStatuses {
    /// The ledger's entry of `key` is this; it has `manifests` manifests.
    pub fn set_entry(&mut self, key: &str, entry: &Entry, manifests: usize) {
        let row = self.rows.entry(key.to_owned()).or_default();
        row.uid.clone_from(&entry.uid);
        row.revision = entry.revision;
        row.hash = entry.hash.clone();
        row.generation = entry.generation;
        row.applied = entry.applied.clone().filter(|(_, current)| *current).map(|(applied, _)| applied);
        row.slots.resize(manifests, None);
        row.troubles.retain(|(ordinal, _), _| *ordinal < manifests);
    }

    /// Applying `key` came out like this. True where that is news.
    pub fn set_applied(&mut self, key: &str, applied: Applied) -> bool {
        let Some(row) = self.rows.get_mut(key) else { return false };
        let news = row.applied.as_ref() != Some(&applied);
        row.applied = Some(applied);
        news
    }

    /// The member's object for manifest `ordinal` is this; `resource` is its plural. What of it cannot be read, where that is news.
    pub fn observe(
        &mut self,
        interpreter: &dyn Interpreter,
        key: &str,
        ordinal: usize,
        resource: &str,
        observed: &Value,
    ) -> Vec<Trouble> {
        let Some(row) = self.rows.get_mut(key).filter(|row| ordinal < row.slots.len()) else {
            return Vec::new();
        };
        let (status, health) = (interpreter.reflect_status(observed), interpreter.health(observed));
        let troubles = [
            row.trouble(ordinal, events::REFLECT_STATUS_FAILED, &status),
            row.trouble(ordinal, events::INTERPRET_HEALTH_FAILED, &health),
        ];
        if let Some(slot) = row.slots.get_mut(ordinal) {
            let status = ManifestStatus {
                identifier: identifier(ordinal, resource, observed),
                status: status.unwrap_or_else(|_| last_status(slot.as_deref())),
                health: Some(health_by(&health)),
            };
            *slot = serde_json::to_string(&status).ok();
        }
        troubles.into_iter().flatten().collect()
    }

    /// The Work `key` asks where this Service is reached, and this is known of it; or it asks nothing, or nothing is known yet.
    pub fn answer(&mut self, key: &str, answer: Option<(&(String, String), &ServiceEndpoints)>) {
        let Some(row) = self.rows.get_mut(key) else { return };
        row.answer = answer.and_then(|((namespace, name), endpoints)| {
            let status = ManifestStatus {
                identifier: ResourceIdentifier {
                    ordinal: 0,
                    group: NETWORKING_GROUP.to_owned(),
                    version: "v1alpha1".to_owned(),
                    kind: "MultiClusterService".to_owned(),
                    resource: "multiclusterservices".to_owned(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                },
                status: serde_json::to_value(endpoints).ok(),
                health: None,
            };
            serde_json::to_string(&status).ok()
        });
    }

    /// The member has no object for manifest `ordinal`.
    pub fn gone(&mut self, key: &str, ordinal: usize) {
        if let Some(slot) = self.rows.get_mut(key).and_then(|row| row.slots.get_mut(ordinal)) {
            *slot = None;
        }
    }

    /// The Works of which there is a row.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.rows.keys()
    }

    /// Nothing is known of `key` any more.
    pub fn forget(&mut self, key: &str) {
        self.rows.remove(key);
    }

    /// What to report. Statuses only of what is applied: those of an older body would be taken for this one's.
    pub fn report(&self, key: &str) -> Option<WorkReport> {
        let row = self.rows.get(key)?;
        let applied = row.applied.as_ref().is_some_and(|applied| applied.ok);
        let statuses = || {
            let slots: Vec<&str> = row.slots.iter().flatten().map(String::as_str).collect();
            Bytes::from(format!("[{}]", slots.join(",")))
        };
        let answer = row.answer.as_ref().map(|answer| Bytes::from(format!("[{answer}]")));
        Some(WorkReport {
            uid: row.uid.clone(),
            revision: row.revision,
            hash: row.hash.clone(),
            generation: row.generation,
            applied: row.applied.clone(),
            manifest_statuses: answer.or_else(|| applied.then(statuses)),
        })
    }
}

fn identifier(ordinal: usize, resource: &str, observed: &Value) -> ResourceIdentifier {
    let id = ObjectId::of(observed);
    ResourceIdentifier {
        ordinal: ordinal as i64,
        group: id.gvk.group,
        version: id.gvk.version,
        kind: id.gvk.kind,
        resource: resource.to_owned(),
        namespace: id.namespace,
        name: id.name,
    }
}

/// The status that was known last: where an object's cannot be read now, it stands.
fn last_status(slot: Option<&str>) -> Option<Value> {
    let mut known: Value = serde_json::from_str(slot?).ok()?;
    known.get_mut("status").map(Value::take).filter(|status| !status.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::outcome;
    use crate::session::Phase;
    use karmada_interpreter::{Native, Operation};
    use karmada_lua::{Customization, Scripts};
    use serde_json::json;
    use std::sync::Arc;

    fn entry() -> Entry {
        Entry {
            uid: "u".into(),
            revision: 3,
            hash: Bytes::from_static(b"h"),
            body: Bytes::new(),
            suspended: false,
            preserve: false,
            phase: Phase::Desired,
            crashes: 0,
            applied: None,
            placed: false,
            generation: 2,
            retry: String::new(),
            written: Vec::new(),
            unanswered: false,
            former: Vec::new(),
        }
    }

    #[test]
    fn statuses_are_reported_of_what_is_applied() {
        let mut statuses = WorkStatuses::default();
        statuses.set_entry("w", &entry(), 1);
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "d", "generation": 1},
            "spec": {"replicas": 2}, "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}});
        statuses.observe(&Native, "w", 0, "deployments", &object);
        assert_eq!(statuses.report("w").unwrap().manifest_statuses, None);
        assert!(statuses.set_applied("w", outcome(true, "")));
        assert!(!statuses.set_applied("w", outcome(true, "")));
        let report = statuses.report("w").unwrap();
        assert_eq!(report.generation, 2, "what is told is told for the generation that is held");
        let manifests: Vec<ManifestStatus> =
            serde_json::from_slice(&report.manifest_statuses.unwrap()).unwrap();
        assert_eq!(manifests[0].identifier.resource, "deployments");
        assert_eq!(manifests[0].status.as_ref().unwrap().get("readyReplicas"), Some(&json!(2)));
        assert_eq!(serde_json::to_value(manifests[0].health).unwrap(), "Healthy");
        statuses.gone("w", 0);
        assert_eq!(statuses.report("w").unwrap().manifest_statuses.unwrap(), Bytes::from_static(b"[]"));
        statuses.forget("w");
        assert_eq!(statuses.report("w"), None);
    }

    fn scripts(reflects: &str, says: &str) -> Scripts {
        let scripts = [
            (Operation::InterpretStatus, format!("function ReflectStatus(o) {reflects} end")),
            (Operation::InterpretHealth, format!("function InterpretHealth(o) {says} end")),
        ];
        let (name, api_version, kind) = ("c".into(), "v1".into(), "ConfigMap".into());
        let one = Customization { name, api_version, kind, scripts: scripts.into() };
        Scripts::new(vec![one], Arc::new(jiff::Timestamp::now))
    }

    #[test]
    fn a_script_that_fails_is_told_once_and_again_when_it_fails_otherwise() {
        let mut statuses = WorkStatuses::default();
        statuses.set_entry("w", &entry(), 1);
        statuses.set_applied("w", outcome(true, ""));
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d"}});
        let mut reads = |reflects: &str, says: &str| {
            let scripts = scripts(reflects, says);
            let told = statuses.observe(&scripts, "w", 0, "configmaps", &object);
            let report = statuses.report("w").unwrap().manifest_statuses.unwrap();
            let rows: Value = serde_json::from_slice(&report).unwrap();
            let told: Vec<String> =
                told.iter().map(|one| format!("{} {} {}", one.uid, one.reason, one.why)).collect();
            (told, rows[0]["status"].clone(), rows[0]["health"].clone())
        };
        let fine = reads("return {a = 1}", "return true");
        assert_eq!(fine, (Vec::new(), json!({"a": 1}), json!("Healthy")));
        let (told, status, health) = reads("return o.spec.a", "return true");
        assert_eq!(told.len(), 1, "{told:?}");
        let words =
            "u ReflectStatusFailed the InterpretStatus script of ResourceInterpreterCustomization c: ";
        assert!(told[0].starts_with(words), "{told:?}");
        assert_eq!((status, health), (json!({"a": 1}), json!("Healthy")), "what was read last stands");
        assert!(reads("return o.spec.a", "return true").0.is_empty(), "it was told");
        let (told, _, health) = reads("return o.spec.a", "return o.spec.a");
        assert!(told.len() == 1 && told[0].contains("InterpretHealthFailed"), "{told:?}");
        assert_eq!(health, "Unknown");
        assert_eq!(reads("error('another')", "return true").0.len(), 1, "it fails for another reason");
        assert!(reads("return {}", "return true").0.is_empty());
        assert_eq!(reads("error('another')", "return true").0.len(), 1, "it was well meanwhile");
    }
}
