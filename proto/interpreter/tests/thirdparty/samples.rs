//! One object of each kind, with a status as a member has it.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// A pod template that asks for something and refers to something.
pub fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {
        "serviceAccountName": "runner", "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "env"}}],
                        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        "volumes": [{"name": "v", "secret": {"secretName": "volume"}}, {"name": "w", "configMap": {"name": "config"}}]}})
}

fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status,
           "metadata": {"name": "s", "namespace": "team", "generation": 2,
                        "annotations": {"resourcetemplate.karmada.io/generation": "2"}}})
}

fn counts() -> Value {
    json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 1, "updatedReplicas": 3,
           "updatedReadyReplicas": 1, "expectedUpdatedReplicas": 3, "unavailableReplicas": 1, "observedGeneration": 2,
           "generation": 2, "resourceTemplateGeneration": 2, "currentRevision": "a", "updateRevision": "b",
           "conditions": [{"type": "SubsetProvisioned", "status": "True", "reason": "A", "message": "m"}]})
}

fn kruise() -> Vec<Value> {
    let (v1, pod) = ("apps.kruise.io/v1alpha1", template());
    let job = json!({"active": 1, "succeeded": 1, "failed": 1, "desired": 3, "phase": "failed",
                     "conditions": [{"type": "Failed", "status": "True"}]});
    let nodes = json!({"currentNumberScheduled": 3, "numberMisscheduled": 1, "desiredNumberScheduled": 3, "numberReady": 2,
                       "updatedNumberScheduled": 2, "numberAvailable": 2, "numberUnavailable": 1, "daemonSetHash": "h",
                       "observedGeneration": 2});
    let subsets = json!({"replicas": 3, "template": {"deploymentTemplate": {"spec": {"template": pod}}}});
    vec![
        object(v1, "CloneSet", &json!({"replicas": 3, "template": pod}), &counts()),
        object("apps.kruise.io/v1beta1", "StatefulSet", &json!({"replicas": 3, "template": pod}), &counts()),
        object(v1, "DaemonSet", &json!({"template": pod}), &nodes),
        object(v1, "UnitedDeployment", &subsets, &counts()),
        object(v1, "BroadcastJob", &json!({"parallelism": 3, "template": pod}), &job),
        object(
            v1,
            "AdvancedCronJob",
            &json!({"template": {"jobTemplate": {"spec": {"template": pod}}}}),
            &json!({"type": "Job", "active": [{"kind": "Job", "name": "j"}], "lastScheduleTime": "2024-01-01T00:00:00Z"}),
        ),
        object(v1, "SidecarSet", &pod["spec"], &json!({"matchedPods": 3, "updatedPods": 2, "readyPods": 1})),
    ]
}

fn flux() -> Vec<Value> {
    let status = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "m"}],
                        "observedGeneration": 2, "lastAppliedRevision": "1", "failures": 2, "upgradeFailures": 1,
                        "lastReleaseRevision": 2, "url": "u", "artifact": {"revision": "r"}});
    let spec = json!({"suspend": false, "secretRef": {"name": "a"}, "certSecretRef": {"name": "b"},
                      "verify": {"secretRef": {"name": "c"}}, "serviceAccountName": "d",
                      "decryption": {"secretRef": {"name": "e"}}, "kubeConfig": {"secretRef": {"name": "f"}},
                      "valuesFrom": [{"kind": "Secret", "name": "g"}],
                      "chart": {"spec": {"verify": {"secretRef": {"name": "h"}}}}});
    let beta = "source.toolkit.fluxcd.io/v1beta2";
    [
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository"),
        (beta, "Bucket"),
        (beta, "HelmChart"),
        (beta, "HelmRepository"),
        (beta, "OCIRepository"),
    ]
    .iter()
    .map(|(api_version, kind)| object(api_version, kind, &spec, &status))
    .collect()
}

fn training() -> Vec<Value> {
    let sorts = json!({"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template()}});
    let status = json!({"conditions": [{"type": "Created", "status": "True", "lastUpdateTime": "2024-01-01T00:00:00Z"},
                                       {"type": "Succeeded", "status": "True", "lastUpdateTime": "2024-01-02T00:00:00Z"}],
                        "replicaStatuses": {"Worker": {"active": 1, "failed": 1, "succeeded": 1}},
                        "startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-02T00:00:00Z"});
    vec![
        object("kubeflow.org/v1", "PyTorchJob", &json!({"pytorchReplicaSpecs": sorts}), &status),
        object("kubeflow.org/v1", "TFJob", &json!({"tfReplicaSpecs": sorts}), &status),
        object("kubeflow.org/v2beta1", "MPIJob", &json!({"mpiReplicaSpecs": sorts}), &status),
        object(
            "kubeflow.org/v1",
            "Notebook",
            &json!({"template": template()}),
            &json!({"readyReplicas": 1, "containerState": {"waiting": {"reason": "ContainerCreating"}},
                       "conditions": [{"type": "Running", "status": "True"}]}),
        ),
    ]
}

fn ray() -> Vec<Value> {
    let cluster = json!({"headGroupSpec": {"template": template()},
                         "workerGroupSpecs": [{"groupName": "a", "replicas": 2, "template": template()}, {"replicas": 1}]});
    let applications = json!({"a": {"status": "RUNNING", "message": "m"}, "b": {"status": "DEPLOYING"}});
    vec![
        object(
            "ray.io/v1",
            "RayCluster",
            &cluster,
            &json!({"availableWorkerReplicas": 2, "desiredWorkerReplicas": 3, "desiredCPU": "2500m", "desiredMemory": "3Gi",
                       "state": "ready", "head": {"podIP": "10.0.0.1"}, "lastUpdateTime": "2024-01-01T00:00:00Z",
                       "conditions": [{"type": "HeadPodReady", "status": "True"}]}),
        ),
        object(
            "ray.io/v1",
            "RayJob",
            &json!({"rayClusterSpec": cluster, "submitterPodTemplate": template()}),
            &json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "message": "m", "reason": "r"}),
        ),
        object(
            "ray.io/v1",
            "RayService",
            &json!({"rayClusterConfig": cluster}),
            &json!({"numServeEndpoints": 2, "observedGeneration": 2, "serviceStatus": "Running",
                       "activeServiceStatus": {"applicationStatuses": applications},
                       "conditions": [{"type": "Ready", "status": "True"}]}),
        ),
    ]
}

fn batch() -> Vec<Value> {
    let volcano = json!({"state": {"phase": "Failed"}, "minAvailable": 1, "running": 2, "failed": 1, "version": 3,
                         "runningDuration": "1m30s", "taskStatusCount": {"w": {"phase": {"Running": 2}}},
                         "controlledResources": {"plugin-svc": "s"},
                         "conditions": [{"status": "Failed", "lastTransitionTime": "2024-01-01T00:00:00Z"}]});
    let jobs = json!([{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3, "template": template()}}},
                      {"name": "driver", "template": {"spec": {"template": template()}}}]);
    vec![
        object(
            "batch.volcano.sh/v1alpha1",
            "Job",
            &json!({"tasks": [{"name": "w", "replicas": 2, "minAvailable": 1, "template": template()}]}),
            &volcano,
        ),
        object(
            "argoproj.io/v1alpha1",
            "Workflow",
            &json!({"parallelism": 2, "suspend": false, "serviceAccountName": "a", "executor": {"serviceAccountName": "b"},
                       "volumeClaimTemplates": [{"metadata": {"name": "work"}}], "volumes": template()["spec"]["volumes"]}),
            &json!({"phase": "Running", "nodes": {"n": {"phase": "Running"}}}),
        ),
        object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            &json!({"replicatedJobs": jobs}),
            &json!({"restarts": 1, "conditions": [{"type": "Completed", "status": "True"}],
                       "replicatedJobsStatus": [{"name": "w", "ready": 2, "succeeded": 1, "failed": 0, "active": 1, "suspended": 0}]}),
        ),
        object(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            &json!({"replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template(), "workerTemplate": template()}}),
            &json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "observedGeneration": 2, "hpaPodSelector": "s",
                       "conditions": [{"type": "Available", "status": "True"}]}),
        ),
        object(
            "flink.apache.org/v1beta1",
            "FlinkDeployment",
            &json!({"flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"}, "job": {"parallelism": 5},
                       "jobManager": {"replicas": 1, "resource": {"cpu": 1, "memory": "2048m"}},
                       "taskManager": {"resource": {"cpu": 2, "memory": "4Gi"}}, "podTemplate": template()}),
            &json!({"jobStatus": {"state": "RUNNING"}, "lifecycleState": "STABLE", "observedGeneration": 2}),
        ),
        object(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            &json!({"type": "Scala", "driver": {"cores": 1, "memory": "512m", "gpu": {"name": "x/gpu", "quantity": 1}},
                       "executor": {"instances": 3, "cores": 2, "memory": "4g", "memoryOverhead": "1g"},
                       "dynamicAllocation": {"enabled": true, "minExecutors": 2}}),
            &json!({"applicationState": {"state": "RUNNING"}, "executorState": {"e": "RUNNING"}, "executionAttempts": 1,
                       "submissionAttempts": 1, "lastSubmissionAttemptTime": "2024-01-01T00:00:00Z"}),
        ),
    ]
}

fn policies() -> Vec<Value> {
    let status = json!({"ready": true, "rulecount": {"validate": 1, "generate": 1, "mutate": 1, "verifyimages": 1},
                        "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "m"}]});
    ["Policy", "ClusterPolicy"]
        .map(|kind| object("kyverno.io/v1", kind, &json!({"rules": []}), &status))
        .to_vec()
}

/// One of each kind.
pub fn samples() -> &'static [Value] {
    static SAMPLES: LazyLock<Vec<Value>> =
        LazyLock::new(|| [kruise(), flux(), training(), ray(), batch(), policies()].concat());
    &SAMPLES
}
