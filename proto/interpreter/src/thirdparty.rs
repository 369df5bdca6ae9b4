//! Kinds of other projects that are known without being taught: one table of what each can be asked, as for the native kinds.
//!
//! In: objects as JSON. Out: what [`crate::Native`] answers of its kinds. A [`crate::Chain`] asks it after customizations and before
//! the native interpreter, operation by operation: what a kind has no answer to here, the native one answers as for any kind.
//!
//! What is known of each kind (a test holds the list against the table):
//!
//! | Kind | Known |
//! | --- | --- |
//! | apps.kruise.io/v1alpha1 AdvancedCronJob | aggregation, dependencies |
//! | apps.kruise.io/v1alpha1 BroadcastJob | replicas, revision, retention, aggregation, reflection, health, dependencies |
//! | apps.kruise.io/v1alpha1 CloneSet | replicas, revision, aggregation, reflection, health, dependencies |
//! | apps.kruise.io/v1alpha1 DaemonSet | aggregation, reflection, health, dependencies |
//! | apps.kruise.io/v1alpha1 SidecarSet | replicas, retention, aggregation, reflection, health, dependencies |
//! | apps.kruise.io/v1alpha1 UnitedDeployment | replicas, revision, aggregation, reflection, health, dependencies |
//! | apps.kruise.io/v1beta1 StatefulSet | replicas, revision, aggregation, reflection, health, dependencies |
//! | argoproj.io/v1alpha1 Workflow | replicas, revision, retention, health, dependencies |
//! | batch.volcano.sh/v1alpha1 Job | components, aggregation, reflection, health |
//! | flink.apache.org/v1beta1 FlinkDeployment | replicas, components, aggregation, reflection, health |
//! | helm.toolkit.fluxcd.io/v2beta1 HelmRelease | retention, aggregation, reflection, health, dependencies |
//! | jobset.x-k8s.io/v1alpha2 JobSet | components, aggregation, reflection, health, dependencies |
//! | kubeflow.org/v1 Notebook | replicas, aggregation, reflection, health |
//! | kubeflow.org/v1 PyTorchJob | components, aggregation, health, dependencies |
//! | kubeflow.org/v1 TFJob | components, aggregation, health, dependencies |
//! | kubeflow.org/v2beta1 MPIJob | components, aggregation, reflection, health |
//! | kustomize.toolkit.fluxcd.io/v1 Kustomization | retention, aggregation, reflection, health, dependencies |
//! | kyverno.io/v1 ClusterPolicy | aggregation, reflection, health |
//! | kyverno.io/v1 Policy | aggregation, reflection, health |
//! | leaderworkerset.x-k8s.io/v1 LeaderWorkerSet | replicas, components, revision, aggregation, reflection, health, dependencies |
//! | ray.io/v1 RayCluster | components, aggregation, health |
//! | ray.io/v1 RayJob | components, aggregation, health, dependencies |
//! | ray.io/v1 RayService | replicas, revision, aggregation, health, dependencies |
//! | source.toolkit.fluxcd.io/v1 GitRepository | retention, aggregation, reflection, health, dependencies |
//! | source.toolkit.fluxcd.io/v1beta2 Bucket | retention, aggregation, reflection, health, dependencies |
//! | source.toolkit.fluxcd.io/v1beta2 HelmChart | retention, aggregation, reflection, health, dependencies |
//! | source.toolkit.fluxcd.io/v1beta2 HelmRepository | retention, aggregation, reflection, health, dependencies |
//! | source.toolkit.fluxcd.io/v1beta2 OCIRepository | retention, aggregation, reflection, health, dependencies |
//! | sparkoperator.k8s.io/v1beta2 SparkApplication | components, aggregation, reflection, health |

mod conditions;
mod flink;
mod flux;
mod job_set;
mod kruise;
mod kruise_jobs;
mod kyverno;
mod leader_worker_set;
mod notebook;
mod pods;
mod ray;
mod ray_service;
mod read;
mod reflect;
mod retain;
mod rollup;
mod sidecar_set;
mod spark;
mod training;
mod volcano;
mod workflow;

use crate::row::{NONE, Row, Table};

/// All of them.
const KINDS: [(&str, &str, Row); 29] = [
    ("apps.kruise.io/v1alpha1", "AdvancedCronJob", kruise_jobs::ADVANCED_CRON_JOB),
    ("apps.kruise.io/v1alpha1", "BroadcastJob", kruise_jobs::BROADCAST_JOB),
    ("apps.kruise.io/v1alpha1", "CloneSet", kruise::CLONE_SET),
    ("apps.kruise.io/v1alpha1", "DaemonSet", kruise::DAEMON_SET),
    ("apps.kruise.io/v1alpha1", "SidecarSet", sidecar_set::SIDECAR_SET),
    ("apps.kruise.io/v1alpha1", "UnitedDeployment", kruise::UNITED_DEPLOYMENT),
    ("apps.kruise.io/v1beta1", "StatefulSet", kruise::STATEFUL_SET),
    ("argoproj.io/v1alpha1", "Workflow", workflow::WORKFLOW),
    ("batch.volcano.sh/v1alpha1", "Job", volcano::JOB),
    ("flink.apache.org/v1beta1", "FlinkDeployment", flink::FLINK_DEPLOYMENT),
    ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease", flux::HELM_RELEASE),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", job_set::JOB_SET),
    ("kubeflow.org/v1", "Notebook", notebook::NOTEBOOK),
    ("kubeflow.org/v1", "PyTorchJob", training::PY_TORCH_JOB),
    ("kubeflow.org/v1", "TFJob", training::TF_JOB),
    ("kubeflow.org/v2beta1", "MPIJob", training::MPI_JOB),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", flux::KUSTOMIZATION),
    ("kyverno.io/v1", "ClusterPolicy", kyverno::POLICY),
    ("kyverno.io/v1", "Policy", kyverno::POLICY),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", leader_worker_set::LEADER_WORKER_SET),
    ("ray.io/v1", "RayCluster", ray::RAY_CLUSTER),
    ("ray.io/v1", "RayJob", ray::RAY_JOB),
    ("ray.io/v1", "RayService", ray_service::RAY_SERVICE),
    ("source.toolkit.fluxcd.io/v1", "GitRepository", flux::GIT_REPOSITORY),
    ("source.toolkit.fluxcd.io/v1beta2", "Bucket", flux::BUCKET),
    ("source.toolkit.fluxcd.io/v1beta2", "HelmChart", flux::HELM_CHART),
    ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository", flux::HELM_REPOSITORY),
    ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository", flux::OCI_REPOSITORY),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication", spark::SPARK_APPLICATION),
];

/// Knows the kinds of other projects.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThirdParty;

impl ThirdParty {
    /// The kinds, as apiVersion and kind.
    pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
        KINDS.iter().map(|(api_version, kind, _)| (*api_version, *kind))
    }
}

impl Table for ThirdParty {
    fn row(&self, api_version: &str, kind: &str) -> Row {
        let known = KINDS.iter().find(|(version, name, _)| *name == kind && *version == api_version);
        known.map_or(NONE, |(_, _, row)| *row)
    }
}
