//! Writes what is used of each ResourceQuota into its status.
//!
//! In: quotas, and the objects they count. Out: `status.hard` and `status.used`. Whether a write fits is decided when it is made
//! (the API server's admission); this only tells. Kinds that nothing here watches (those that users bring, and rare ones) are
//! counted again every few seconds in the namespaces whose quotas name them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_resource_quota::{self as quota, Amounts, Objects};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{gone_is_fine, resource};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, Object, Resource};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Controller, Error, Source};

/// Kinds whose changes are counted at once, beside quotas themselves.
const WATCHED: [(&str, &str, &str); 13] = [
    ("v1", "Pod", "pods"),
    ("v1", "Service", "services"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("v1", "ReplicationController", "replicationcontrollers"),
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("batch/v1", "Job", "jobs"),
    ("batch/v1", "CronJob", "cronjobs"),
    ("networking.k8s.io/v1", "Ingress", "ingresses"),
];

/// How long a count of what is watched may be old.
const RESYNC: Duration = Duration::from_secs(300);

/// How long a count of what is not watched may be old.
const UNWATCHED: Duration = Duration::from_secs(3);

/// Runs the controller until told to stop.
pub async fn run(informers: impl Into<Informers>, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let limited: Arc<Mutex<BTreeSet<Arc<str>>>> = Arc::default();
    let seen = limited.clone();
    let mut sources = vec![Source::new("v1", "ResourceQuota", move |change: &Change| {
        let (Change::Applied(quota) | Change::Deleted(quota)) = change;
        seen.lock().insert(quota.key.namespace.clone());
        vec![quota.key.namespace.clone()]
    })];
    for (api_version, kind, _) in WATCHED {
        let limited = limited.clone();
        let source = Source::new(api_version, kind, move |change: &Change| {
            let (Change::Applied(object) | Change::Deleted(object)) = change;
            let counts = limited.lock().contains(&object.key.namespace);
            if counts { vec![object.key.namespace.clone()] } else { Vec::new() }
        });
        sources.push(source.debounced(Duration::from_millis(100)));
    }
    let controller = Arc::new(Quotas { api: api.clone(), limited });
    runner::run(informers, controller, Arc::new(Queue::default()), sources, 1, stop).await;
}

struct Quotas {
    api: Arc<dyn Api>,
    /// Namespaces that have quotas, or had one.
    limited: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

/// The objects of one namespace that its quotas count.
#[derive(Default)]
struct Found(Vec<(Resource, Vec<Arc<Object>>)>);

impl Found {
    fn of(&self, group: &str, plural: &str) -> &[Arc<Object>] {
        let found = self.0.iter().find(|(kind, _)| *kind.group == *group && *kind.plural == *plural);
        found.map_or(&[], |(_, objects)| objects)
    }
}

impl Objects for Found {
    fn count(&self, group: &str, plural: &str) -> usize {
        self.of(group, plural).len()
    }

    fn all(&self, group: &str, plural: &str) -> Vec<Value> {
        self.of(group, plural).iter().filter_map(|object| object.value().ok()).collect()
    }
}

#[async_trait::async_trait]
impl Controller for Quotas {
    type Key = Arc<str>;

    fn name(&self) -> &'static str {
        "resourcequota"
    }

    async fn reconcile(&self, namespace: &Arc<str>) -> Result<Action, Error> {
        let kind = resource(&*self.api, "v1", "ResourceQuota")?;
        let quotas = self.api.list(&kind, namespace).await?;
        if quotas.is_empty() {
            self.limited.lock().remove(namespace);
            return Ok(Action::Done);
        }
        let mut next = RESYNC;
        for quota in quotas {
            let quota = quota.value()?;
            next = next.min(count_again(&quota));
            let found = self.count(namespace, &quota).await?;
            if let Some(new) = counted(&quota, &found) {
                gone_is_fine(self.api.update_status(&kind, new).await)?;
            }
        }
        Ok(Action::RequeueAfter(next))
    }
}

impl Quotas {
    async fn count(&self, namespace: &str, quota: &Value) -> Result<Found, Error> {
        let hard = quota::hard(quota);
        let kinds: BTreeSet<(&str, &str)> = hard.keys().filter_map(|name| quota::counts(name)).collect();
        let served = self.api.resources();
        let mut found = Found::default();
        for (group, plural) in kinds {
            let kind = served.iter().find(|kind| *kind.group == *group && *kind.plural == *plural);
            if let Some(kind) = kind {
                found.0.push((kind.clone(), self.api.list(kind, namespace).await?));
            }
        }
        Ok(found)
    }
}

/// When the quota's objects are to be counted again though nothing told of them. Pure.
fn count_again(quota: &Value) -> Duration {
    let watched = |kind: &quota::Kind| {
        let plain =
            |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        let mut all = WATCHED.iter().map(|(version, _, plural)| (plain(version), *plural));
        (&*kind.group, &*kind.plural) == ("", "resourcequotas")
            || all.any(|(group, plural)| group == kind.group && plural == kind.plural)
    };
    if quota::kinds(quota).iter().all(watched) { RESYNC } else { UNWATCHED }
}

/// The quota with its status as it should be; `None` where it is. Pure.
fn counted(quota: &Value, found: &dyn Objects) -> Option<Value> {
    let list = |amounts: Amounts| -> Map<String, Value> {
        amounts.into_iter().map(|(name, amount)| (name, Value::String(amount.to_string()))).collect()
    };
    let mut new = quota.clone();
    new["status"] = serde_json::json!({
        "hard": quota["spec"]["hard"].clone(), "used": list(quota::used(quota, found)),
    });
    if quota["spec"]["hard"].is_null() {
        new["status"] = serde_json::json!({});
    }
    (new != *quota).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Maps(usize);

    impl Objects for Maps {
        fn count(&self, _: &str, plural: &str) -> usize {
            if plural == "configmaps" { self.0 } else { 0 }
        }
        fn all(&self, _: &str, _: &str) -> Vec<Value> {
            Vec::new()
        }
    }

    #[test]
    fn a_status_is_written_only_where_it_is_wrong() {
        let quota = json!({"spec": {"hard": {"configmaps": "3", "pods": "1"}}, "status": {}});
        let new = counted(&quota, &Maps(2)).unwrap();
        assert_eq!(new["status"]["used"], json!({"configmaps": "2", "pods": "0"}));
        assert_eq!(new["status"]["hard"], quota["spec"]["hard"]);
        assert_eq!(counted(&new, &Maps(2)), None);
    }

    #[test]
    fn what_nothing_tells_of_is_counted_again_soon() {
        let quota = |name: &str| json!({"spec": {"hard": {"pods": "1", name: "1"}}});
        for name in [
            "resourcequotas",
            "count/deployments.apps",
            "services.nodeports",
            "count/ingresses.networking.k8s.io",
        ] {
            assert_eq!(count_again(&quota(name)), RESYNC, "{name}");
        }
        for name in [
            "count/lamps.example.org",
            "count/leases.coordination.k8s.io",
            "a.deviceclass.resource.k8s.io/devices",
        ] {
            assert_eq!(count_again(&quota(name)), UNWATCHED, "{name}");
        }
    }
}
