//! Plays the controllers and nodes of a demo's member: workloads get Pods that run at once, and become ready; Pods that are deleted
//! end. Nothing really runs.
//!
//! In: the member's API. Out: Pods and statuses. What there should be is decided by pure functions of the workload.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::object;
use karmada_controllers::port::{Api, ApiError, Change, Key, Object};
use karmada_controllers::queue::Queue;
use karmada_controllers::runner::{self, Action, Controller, Error, Source, key_of};
use karmada_registry::{DeleteOptions, Registry};
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How long after a change a workload has its Pods.
const READY_AFTER: Duration = Duration::from_millis(300);

/// What is played: apiVersion, kind.
const PLAYED: [(&str, &str); 6] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
];

/// The place in [`PLAYED`], and which object.
type Played = (usize, Key);

/// Plays until told to stop.
pub async fn run(api: Arc<dyn Api>, registry: Arc<Registry>, stop: CancellationToken) {
    let queue: Arc<Queue<Played>> = Arc::default();
    let sources = (0..PLAYED.len()).map(|at| {
        let (api_version, kind) = PLAYED[at];
        Source::new(api_version, kind, move |change| woken(at, change)).debounced(READY_AFTER)
    });
    let players = Players { api: api.clone(), registry };
    runner::run(api, Arc::new(players), queue, sources.collect(), 1, stop).await;
}

/// What a change is looked at for: the object itself, and of a Pod the workload that is to have it.
fn woken(at: usize, change: &Change) -> Vec<Played> {
    let (Change::Applied(object) | Change::Deleted(object)) = change;
    let owner = object.value().ok().and_then(|value| {
        let owner = &value["metadata"]["ownerReferences"][0];
        let (kind, version) = (owner["kind"].as_str()?, owner["apiVersion"].as_str()?);
        let owners = PLAYED.iter().position(|played| *played == (version, kind))?;
        Some((owners, Key { namespace: object.key.namespace.clone(), name: owner["name"].as_str()?.into() }))
    });
    [Some((at, key_of(change))), owner].into_iter().flatten().collect()
}

struct Players {
    api: Arc<dyn Api>,
    registry: Arc<Registry>,
}

#[async_trait::async_trait]
impl Controller for Players {
    type Key = Played;

    fn name(&self) -> &'static str {
        "played-workloads"
    }

    async fn reconcile(&self, (at, key): &Played) -> Result<Action, Error> {
        let (api_version, kind) = PLAYED[*at];
        let Some(resource) = self.api.resource_of(api_version, kind) else { return Ok(Action::Done) };
        let found = match self.api.get(&resource, &key.namespace, &key.name).await {
            Ok(found) => found,
            Err(ApiError::NotFound(_)) => return Ok(Action::Done),
            Err(error) => return Err(error.into()),
        };
        match (kind, found.deleting) {
            ("Pod", true) => self.end_pod(key).await?,
            ("Pod", false) => self.run_pod(&found).await?,
            (_, true) => {}
            (_, false) => {
                let mut workload = found.value()?;
                self.keep_pods(&workload).await?;
                if let Some(status) = status(&workload, &self.registry.now_text()) {
                    workload["status"] = status;
                    self.api.update_status(&resource, workload).await?;
                }
            }
        }
        Ok(Action::Done)
    }
}

impl Players {
    /// A Pod ends as soon as somebody deletes it.
    async fn end_pod(&self, key: &Key) -> Result<(), Error> {
        let other = |status: karmada_definitions::status::Status| Error::Other(status.message);
        let pods = self.registry.definition("", "v1", "pods").map_err(other)?;
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        let key = ObjectKey::new(&key.namespace, &key.name);
        match self.registry.delete(&pods, &key, &options, &super::options().user).await {
            Err(status) if status.code != 404 => Err(other(status)),
            _ => Ok(()),
        }
    }

    async fn run_pod(&self, found: &Object) -> Result<(), Error> {
        let mut pod = found.value()?;
        if pod["status"]["phase"] == "Running" || pod["spec"]["nodeName"].is_null() {
            return Ok(());
        }
        pod["status"] = running(&pod, &self.registry.now_text());
        if let Some(pods) = self.api.resource_of("v1", "Pod") {
            self.api.update_status(&pods, pod).await?;
        }
        Ok(())
    }

    /// Makes the Pods that are missing and deletes those too many.
    async fn keep_pods(&self, workload: &Value) -> Result<(), Error> {
        let (Some(pods), Some(nodes)) =
            (self.api.resource_of("v1", "Pod"), self.api.resource_of("v1", "Node"))
        else {
            return Ok(());
        };
        let nodes: Vec<String> =
            self.api.list(&nodes, "").await?.iter().map(|node| node.key.name.to_string()).collect();
        let namespace = object::namespace(workload);
        let mut missing = wanted_pods(workload, &nodes);
        for pod in self.api.list(&pods, namespace).await? {
            let value = pod.value()?;
            if value["metadata"]["ownerReferences"][0]["uid"] != workload["metadata"]["uid"] {
                continue;
            }
            let before = missing.len();
            missing.retain(|wanted| object::name(wanted) != &*pod.key.name);
            if missing.len() == before && !pod.deleting {
                self.end_pod(&pod.key).await?;
            }
        }
        for pod in missing {
            match self.api.create(&pods, pod).await {
                Ok(_) | Err(ApiError::AlreadyExists(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The Pods that a workload should have on these nodes. One that is made of another template has another name.
fn wanted_pods(workload: &Value, nodes: &[String]) -> Vec<Value> {
    let (kind, name) = (object::kind(workload), object::name(workload));
    let replicas = workload["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let count = match kind {
        "Deployment" | "StatefulSet" => replicas,
        "DaemonSet" => nodes.len(),
        _ => 0,
    };
    let template = &workload["spec"]["template"];
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    let hash = format!("{:08x}", hasher.finish() as u32);
    let owner = json!({"apiVersion": workload["apiVersion"], "kind": kind, "name": name, "uid": workload["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true});
    let pod = |at: usize| {
        let name = if kind == "StatefulSet" { format!("{name}-{at}") } else { format!("{name}-{hash}-{at}") };
        let mut spec = template["spec"].clone();
        spec["nodeName"] =
            nodes.get(at % nodes.len().max(1)).map_or(Value::Null, |node| node.as_str().into());
        let metadata = json!({"name": name, "namespace": object::namespace(workload), "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"], "ownerReferences": [owner]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    (0..count).map(pod).collect()
}

/// The status of a Pod whose containers run.
fn running(pod: &Value, now: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions: Vec<Value> =
        ["Initialized", "Ready", "ContainersReady", "PodScheduled"].into_iter().map(condition).collect();
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let state = |container: &Value| {
        json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": now}}})
    };
    let states: Vec<Value> = containers.iter().map(state).collect();
    json!({"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": states})
}

/// The status of a workload whose Pods all run; none where it is right already.
fn status(workload: &Value, now: &str) -> Option<Value> {
    let generation = object::generation(workload);
    let old = &workload["status"];
    if old["observedGeneration"].as_i64() == Some(generation) {
        return None;
    }
    let replicas = workload["spec"]["replicas"].as_i64().unwrap_or(1);
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "lastUpdateTime": now, "lastTransitionTime": now});
    let done = |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now});
    Some(match object::kind(workload) {
        "Deployment" => json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")],
        }),
        "StatefulSet" => json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas, "currentReplicas": replicas,
        }),
        "DaemonSet" => json!({
            "observedGeneration": generation, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
            "numberReady": 3, "numberAvailable": 3, "updatedNumberScheduled": 3, "numberMisscheduled": 0,
        }),
        "Job" if old["completionTime"].is_null() => json!({
            "startTime": now, "completionTime": now, "succeeded": workload["spec"]["completions"].as_i64().unwrap_or(1),
            "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [done("SuccessCriteriaMet"), done("Complete")],
        }),
        "PersistentVolumeClaim" if old["phase"] != "Bound" => json!({"phase": "Bound"}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: i64, image: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2},
            "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]}}}})
    }

    #[test]
    fn pods_follow_their_template_and_are_spread_over_the_nodes() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let pods = wanted_pods(&deployment(3, "v1"), &nodes);
        let on: Vec<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        assert_eq!(on, ["a", "b", "a"]);
        assert_eq!(pods[0]["metadata"]["labels"]["app"], "web");
        let other = wanted_pods(&deployment(3, "v2"), &nodes);
        assert!(pods.iter().all(|pod| other.iter().all(|other| object::name(pod) != object::name(other))));
        assert!(wanted_pods(&json!({"kind": "Job"}), &nodes).is_empty());
        assert_eq!(wanted_pods(&json!({"kind": "DaemonSet", "spec": {}}), &nodes).len(), 2);
        assert_eq!(running(&pods[0], "now")["containerStatuses"][0]["image"], "v1");
    }

    #[test]
    fn a_status_is_told_once_for_a_generation() {
        let mut workload = deployment(3, "v1");
        let told = status(&workload, "now").unwrap();
        assert_eq!((told["readyReplicas"].as_i64(), told["observedGeneration"].as_i64()), (Some(3), Some(2)));
        workload["status"] = told;
        assert_eq!(status(&workload, "later"), None);
        assert_eq!(status(&json!({"kind": "ConfigMap"}), "now"), None);
        let done = json!({"kind": "Job", "status": {"completionTime": "then"}});
        assert_eq!(status(&done, "now"), None);
    }
}
