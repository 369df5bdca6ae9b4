//! How each Work stands: the outcome of applying it, and what the interpreter reads from its objects.
//!
//! In: entries, outcomes, objects as the member has them. Out: the report of a Work; an object whose status cannot be read keeps the last
//! one that could, and why it cannot is told apart from the report, from time to time. Pure.
//!
//! One row per Work, one slot per manifest; nothing of an object is kept but what is reported, and a digest of what was told to be wrong.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// What was told to be wrong with reading a manifest's object, by its reason. Empty where all can be read, as nearly always.
    troubles: BTreeMap<(usize, &'static str), Told>,
}

/// What was told of a script that failed.
#[derive(Debug)]
struct Told {
    /// Digest of the words; nothing where it was well since.
    words: Option<Bytes>,
    /// When.
    at: Duration,
}

/// So long nothing more is told of one script and object: a script may say other words each time.
const PACE: Duration = Duration::from_mins(5);

/// After so long the same is told again: the hub forgets events after an hour.
const AGAIN: Duration = Duration::from_mins(60);

impl Row {
    /// What reading the object of manifest `ordinal` came to. The words of what went wrong, where they are news.
    fn trouble<T>(
        &mut self,
        (ordinal, reason): (usize, &'static str),
        read: &Answer<T>,
        now: Duration,
    ) -> Option<Trouble> {
        let why = match read {
            // Whom somebody else is to be asked about first, or who rests, did not fail.
            Err(InterpretError::Unanswered(_) | InterpretError::Outside { .. }) => return None,
            Ok(_) | Err(InterpretError::NoHook { .. }) => {
                self.well(ordinal, reason, now);
                return None;
            }
            Err(error) => error.to_string(),
        };
        let words = Some(body::hash(why.as_bytes()));
        if let Some(told) = self.troubles.get(&(ordinal, reason)) {
            let passed = now.saturating_sub(told.at);
            if passed < PACE || (told.words == words && passed < AGAIN) {
                return None;
            }
        }
        self.troubles.insert((ordinal, reason), Told { words, at: now });
        Some(Trouble { uid: self.uid.clone(), reason, why })
    }

    /// The script did not fail: when it does, that is news, though not sooner than it may be told.
    fn well(&mut self, ordinal: usize, reason: &'static str, now: Duration) {
        let Some(told) = self.troubles.get_mut(&(ordinal, reason)) else { return };
        told.words = None;
        if now.saturating_sub(told.at) >= PACE {
            self.troubles.remove(&(ordinal, reason));
        }
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
        if row.uid != entry.uid {
            // Another Work of that name: nobody was told anything of it.
            row.troubles.clear();
        }
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

    /// The member's object for a Work's manifest is this; `resource` is its plural, `now` a moment of a clock that does not go back. What of it
    /// cannot be read, where that is news.
    pub fn observe(
        &mut self,
        interpreter: &dyn Interpreter,
        (key, ordinal): (&str, usize),
        resource: &str,
        observed: &Value,
        now: Duration,
    ) -> Vec<Trouble> {
        let Some(row) = self.rows.get_mut(key).filter(|row| ordinal < row.slots.len()) else {
            return Vec::new();
        };
        let (status, health) = (interpreter.reflect_status(observed), interpreter.health(observed));
        let troubles = [
            row.trouble((ordinal, events::REFLECT_STATUS_FAILED), &status, now),
            row.trouble((ordinal, events::INTERPRET_HEALTH_FAILED), &health, now),
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
        statuses.observe(&Native, ("w", 0), "deployments", &object, Duration::ZERO);
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
    fn a_script_that_fails_is_told_when_that_is_news_and_each_hour_while_it_does() {
        let mut statuses = WorkStatuses::default();
        statuses.set_entry("w", &entry(), 1);
        statuses.set_applied("w", outcome(true, ""));
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d"}});
        let mut reads = |minute: u64, reflects: &str, says: &str| {
            let now = Duration::from_mins(minute);
            let told = statuses.observe(&scripts(reflects, says), ("w", 0), "configmaps", &object, now);
            let report = statuses.report("w").unwrap().manifest_statuses.unwrap();
            let rows: Value = serde_json::from_slice(&report).unwrap();
            let told: Vec<String> =
                told.iter().map(|one| format!("{} {} {}", one.uid, one.reason, one.why)).collect();
            (told, rows[0]["status"].clone(), rows[0]["health"].clone())
        };
        let fine = reads(0, "return {a = 1}", "return true");
        assert_eq!(fine, (Vec::new(), json!({"a": 1}), json!("Healthy")));
        let (told, status, health) = reads(1, "return o.spec.a", "return true");
        assert_eq!(told.len(), 1, "{told:?}");
        let words =
            "u ReflectStatusFailed the InterpretStatus script of ResourceInterpreterCustomization c: ";
        assert!(told[0].starts_with(words), "{told:?}");
        assert_eq!((status, health), (json!({"a": 1}), json!("Healthy")), "what was read last stands");
        assert!(reads(20, "return o.spec.a", "return true").0.is_empty(), "it was told");
        let (told, _, health) = reads(21, "return o.spec.a", "return o.spec.a");
        assert!(told.len() == 1 && told[0].contains("InterpretHealthFailed"), "{told:?}");
        assert_eq!(health, "Unknown");
        assert_eq!(reads(22, "error('another')", "return true").0.len(), 1, "it fails for another reason");
        for minute in 23..27 {
            let other = format!("error('at {minute}')");
            assert!(reads(minute, &other, "return true").0.is_empty(), "other words each time");
        }
        assert!(reads(27, "return {}", "return true").0.is_empty());
        assert_eq!(reads(28, "error('another')", "return true").0.len(), 1, "it was well meanwhile");
        assert!(reads(87, "error('another')", "return true").0.is_empty());
        assert_eq!(reads(88, "error('another')", "return true").0.len(), 1, "its event is forgotten by now");
    }

    #[test]
    fn what_was_told_ends_with_the_script_and_with_the_work() {
        let mut statuses = WorkStatuses::default();
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "d"}});
        let read = |statuses: &mut WorkStatuses, scripts: &Scripts, minute| {
            statuses.observe(scripts, ("w", 0), "configmaps", &object, Duration::from_mins(minute)).len()
        };
        let none = Scripts::new(Vec::new(), Arc::new(jiff::Timestamp::now));
        let broken = scripts("return o.spec.a", "return true");
        statuses.set_entry("w", &entry(), 1);
        assert_eq!(read(&mut statuses, &broken, 0), 1);
        assert_eq!(read(&mut statuses, &none, 6), 0);
        assert_eq!(read(&mut statuses, &broken, 7), 1, "the customization was gone meanwhile");
        let another = Entry { uid: "v".into(), ..entry() };
        statuses.set_entry("w", &another, 1);
        assert_eq!(read(&mut statuses, &broken, 8), 1, "of this Work nobody was told");
    }
}
