//! Ends namespaces: one that is being deleted is emptied, says what is left, and is let go when nothing is.
//!
//! In: Namespaces, every namespaced resource, those of other servers among them. Out: deletes of what is inside, `status.conditions`, and at last a Namespace
//! without `spec.finalizers`, which the registry takes as its end. Conditions are worded as kube-controller-manager's.

mod aggregated;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_schema::{condition, time};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::other_servers::OtherServers;
use super::{find, gone_is_fine, resource, runs_nothing};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, ApiError, Change, DeletionPropagation, Key, Resource};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Clock, Controller, Error, Source};

/// How soon to look again while something is left: finalizers may take their time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a namespace that is being deleted keeps its content, as with kube-controller-manager: clients delete one and still
/// read, or tidy up, what is in it.
const GRACE: Duration = Duration::from_secs(5);
const FINALIZER: &str = "kubernetes";

/// Runs the controller until told to stop.
pub async fn run(
    informers: impl Into<Informers>,
    others: Arc<dyn OtherServers>,
    clock: Clock,
    stop: CancellationToken,
) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let controller = Arc::new(Namespaces { api: api.clone(), others, clock });
    let deleted = |empty: bool| {
        move |change: &Change| match change {
            Change::Applied(namespace)
                if namespace.deleting && runs_nothing(&namespace.key.name) == empty =>
            {
                vec![namespace.key.clone()]
            }
            _ => Vec::new(),
        }
    };
    let sources = vec![
        Source::new("v1", "Namespace", deleted(false)).debounced(GRACE),
        // Nobody but the hub is in an execution namespace, and a cluster may come back at once.
        Source::new("v1", "Namespace", deleted(true)),
    ];
    runner::run(informers, controller, Arc::new(Queue::default()), sources, 4, stop).await;
}

struct Namespaces {
    api: Arc<dyn Api>,
    others: Arc<dyn OtherServers>,
    clock: Clock,
}

/// What is left in a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// `plural.group` → how many objects.
    objects: BTreeMap<String, usize>,
    /// Finalizer → how many objects it holds.
    finalizers: BTreeMap<String, usize>,
    /// Why something could not be deleted.
    failures: Vec<String>,
    /// Groups whose servers did not say what they serve, and why.
    undiscovered: Vec<(String, String)>,
}

#[async_trait::async_trait]
impl Controller for Namespaces {
    type Key = Key;

    fn name(&self) -> &'static str {
        "namespace"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let namespaces = resource(&*self.api, "v1", "Namespace")?;
        let Some(object) = find(&*self.api, &namespaces, "", &key.name).await? else {
            return Ok(Action::Done);
        };
        if !object.deleting {
            return Ok(Action::Done);
        }
        let mut namespace = object.value()?;
        if !holds(&namespace) {
            return Ok(Action::Done);
        }
        let left = self.empty(&key.name).await?;
        let wanted = with_conditions(&namespace, &left, (self.clock)());
        if wanted != namespace {
            namespace = self.api.update_status(&namespaces, wanted).await?.value()?;
        }
        if left != Left::default() {
            return Ok(Action::RequeueAfter(LOOK_AGAIN));
        }
        gone_is_fine(self.api.update(&namespaces, let_go(namespace)).await)?;
        Ok(Action::Done)
    }
}

impl Namespaces {
    /// Deletes what is in the namespace; returns what stays nevertheless.
    async fn empty(&self, namespace: &str) -> Result<Left, ApiError> {
        let mut left = Left::default();
        for resource in self.api.resources().iter().filter(|resource| resource.namespaced) {
            match self.empty_of(resource, namespace, &mut left).await {
                // Served no longer: nothing of it is left.
                Ok(()) | Err(ApiError::NotFound(_)) => {}
                Err(error) => left.failures.push(error.to_string()),
            }
        }
        aggregated::empty(&*self.others, namespace, &mut left).await;
        left.failures.sort();
        Ok(left)
    }

    async fn empty_of(&self, resource: &Resource, namespace: &str, left: &mut Left) -> Result<(), ApiError> {
        for object in self.api.list(resource, namespace).await?.iter().filter(|object| !object.deleting) {
            match self.api.delete(resource, &object.key, &object.uid, DeletionPropagation::Background).await {
                Ok(()) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
                Err(error) => left.failures.push(error.to_string()),
            }
        }
        for object in self.api.list(resource, namespace).await? {
            *left.objects.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
            let object = object.value()?;
            for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
                let name = finalizer.as_str().unwrap_or("").to_owned();
                *left.finalizers.entry(name).or_default() += 1;
            }
        }
        Ok(())
    }
}

fn holds(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|f| f == FINALIZER))
}

/// The namespace without the finalizer that stands for its content.
fn let_go(mut namespace: Value) -> Value {
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    namespace
}

/// A condition's type, whether it holds, its reason and its message.
type Condition = (&'static str, bool, &'static str, String);

/// The condition that tells whose resources nobody knows.
fn discovery_failure(undiscovered: &[(String, String)]) -> Condition {
    const KIND: &str = "NamespaceDeletionDiscoveryFailure";
    if undiscovered.is_empty() {
        return (KIND, false, "ResourcesDiscovered", "All resources successfully discovered".into());
    }
    let mut groups: Vec<String> = undiscovered.iter().map(|(group, why)| format!("{group}: {why}")).collect();
    groups.sort();
    let message = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        groups.len(),
        groups.join(", ")
    );
    (KIND, true, "DiscoveryFailed", message)
}

/// The condition that tells what could not be deleted.
fn content_failure(failures: &[String]) -> Condition {
    const KIND: &str = "NamespaceDeletionContentFailure";
    if failures.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        return (KIND, false, "ContentDeleted", message.into());
    }
    let (many, all) = (failures.len(), failures.join(", "));
    let message = format!("Failed to delete all resource types, {many} remaining: {all}");
    (KIND, true, "ContentDeletionFailed", message)
}

/// The condition that tells which objects are there still, by resource.
fn content_remaining(objects: &BTreeMap<String, usize>) -> Condition {
    const KIND: &str = "NamespaceContentRemaining";
    if objects.is_empty() {
        return (KIND, false, "ContentRemoved", "All content successfully removed".into());
    }
    let what = counted(objects, " has ");
    (KIND, true, "SomeResourcesRemain", format!("Some resources are remaining: {what}"))
}

/// The condition that tells which finalizers are waited for.
fn finalizers_remaining(finalizers: &BTreeMap<String, usize>) -> Condition {
    const KIND: &str = "NamespaceFinalizersRemaining";
    if finalizers.is_empty() {
        let message = "All content-preserving finalizers finished";
        return (KIND, false, "ContentHasNoFinalizers", message.into());
    }
    let what = counted(finalizers, " in ");
    let message = format!("Some content in the namespace has finalizers remaining: {what}");
    (KIND, true, "SomeFinalizersRemain", message)
}

fn counted(counts: &BTreeMap<String, usize>, between: &str) -> String {
    let texts: Vec<String> =
        counts.iter().map(|(name, n)| format!("{name}{between}{n} resource instances")).collect();
    texts.join(", ")
}

/// The namespace with the conditions that tell how far its end has come. Pure.
fn with_conditions(namespace: &Value, left: &Left, now: jiff::Timestamp) -> Value {
    let wanted = [
        discovery_failure(&left.undiscovered),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into(),
        ),
        content_failure(&left.failures),
        content_remaining(&left.objects),
        finalizers_remaining(&left.finalizers),
    ];
    let mut new = namespace.clone();
    let now = time::seconds(now);
    for (kind, holds, reason, message) in wanted {
        let status = if holds { "True" } else { "False" };
        let told = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        condition::put(&mut new, told);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::super::other_servers::Nobody;
    use super::super::tests::{api, fixed, now, settle};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_ends_when_its_content_has() {
        let api = api();
        let namespaces = api.resource_of("v1", "Namespace").unwrap();
        api.create(&namespaces, json!({"metadata": {"name": "shop"}})).await.unwrap();
        api.create(&namespaces, json!({"metadata": {"name": "other"}})).await.unwrap();
        let held = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "held", "namespace": "shop", "finalizers": ["example.org/wait"]}});
        let map = |ns: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": ns}});
        api.seed_all([held, map("shop"), map("other")]);
        let key = Key { namespace: "".into(), name: "shop".into() };
        api.delete(&namespaces, &key, "", DeletionPropagation::Background).await.unwrap();

        let stop = CancellationToken::new();
        settle(run(api.clone(), Arc::new(Nobody), fixed(), stop.clone()), stop).await;
        let waiting = api.value("v1", "Namespace", "", "shop").unwrap();
        let conditions = waiting["status"]["conditions"].as_array().unwrap();
        let message = |kind: &str| conditions.iter().find(|c| c["type"] == kind).unwrap()["message"].clone();
        assert_eq!(
            message("NamespaceContentRemaining"),
            "Some resources are remaining: pods. has 1 resource instances"
        );
        assert_eq!(
            message("NamespaceFinalizersRemaining"),
            "Some content in the namespace has finalizers remaining: example.org/wait in 1 resource instances"
        );
        assert_eq!(waiting["status"]["phase"], "Terminating");
        assert_eq!(api.value("v1", "ConfigMap", "shop", "m"), None);
        assert!(api.value("v1", "ConfigMap", "other", "m").is_some(), "other namespaces are left alone");

        let mut pod = api.value("v1", "Pod", "shop", "held").unwrap();
        pod["metadata"]["finalizers"] = json!([]);
        let pods = api.resource_of("v1", "Pod").unwrap();
        api.update(&pods, pod).await.unwrap();
        let stop = CancellationToken::new();
        settle(run(api.clone(), Arc::new(Nobody), fixed(), stop.clone()), stop).await;
        assert_eq!(api.value("v1", "Namespace", "", "shop"), None);
        assert!(api.value("v1", "Namespace", "", "other").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn content_stays_for_five_seconds() {
        let api = api();
        let namespaces = api.resource_of("v1", "Namespace").unwrap();
        for name in ["shop", "karmada-es-north"] {
            api.create(&namespaces, json!({"metadata": {"name": name}})).await.unwrap();
        }
        api.seed(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop"}}),
        );
        let stop = CancellationToken::new();
        let acts = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            for name in ["shop", "karmada-es-north"] {
                let key = Key { namespace: "".into(), name: name.into() };
                api.delete(&namespaces, &key, "", DeletionPropagation::Background).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(4_900)).await;
            let execution = api.value("v1", "Namespace", "", "karmada-es-north");
            assert_eq!(execution, None, "nobody but the hub was in it");
            let waiting = api.value("v1", "Namespace", "", "shop").unwrap();
            assert_eq!(
                (&waiting["status"]["phase"], waiting["status"].get("conditions")),
                (&json!("Terminating"), None)
            );
            assert!(api.value("v1", "ConfigMap", "shop", "m").is_some());
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(api.value("v1", "Namespace", "", "shop"), None);
            stop.cancel();
        };
        tokio::join!(run(api.clone(), Arc::new(Nobody), fixed(), stop.clone()), acts);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_turn() {
        let left = Left::default();
        let first = with_conditions(&json!({"status": {}}), &left, now());
        let later = now() + jiff::SignedDuration::from_secs(60);
        assert_eq!(with_conditions(&first, &left, later), first);
        let stuck = Left { objects: BTreeMap::from([("pods.".into(), 1)]), ..Left::default() };
        let unheard = Left { undiscovered: vec![("b/v1".into(), "why".into())], ..Left::default() };
        let told = with_conditions(&first, &unheard, later)["status"]["conditions"][0].clone();
        assert_eq!(
            (&told["status"], &told["message"]),
            (
                &json!("True"),
                &json!(
                    "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: b/v1: why"
                )
            )
        );
        let turned = with_conditions(&first, &stuck, later);
        assert_eq!(turned["status"]["conditions"][3]["lastTransitionTime"], "2026-05-01T12:01:00Z");
        assert_eq!(turned["status"]["conditions"][4]["lastTransitionTime"], "2026-05-01T12:00:00Z");
    }
}
