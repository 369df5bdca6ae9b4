//! Every label, annotation, finalizer, taint, condition and event reason that is part of the Karmada API.
//!
//! Constants alone, by module: namespaces, labels, annotations, finalizers, taints, reasons of evictions, conditions, events, names of
//! agents.
//!
//! They are read by users, by upstream's tools and by objects already stored: none may ever change.

/// Namespaces that the control plane owns.
pub mod namespaces {
    /// Where the control plane's own objects live.
    pub const SYSTEM: &str = "karmada-system";
    /// Where a cluster's secrets and leases live.
    pub const CLUSTER: &str = "karmada-cluster";
    /// Prefix of the namespace that holds the Works of one cluster.
    pub const EXECUTION_PREFIX: &str = "karmada-es-";
    /// Where `cluster-info` is published.
    pub const PUBLIC: &str = "kube-public";
    /// Where bootstrap tokens live.
    pub const KUBE_SYSTEM: &str = "kube-system";
}

/// Label keys and the values they take.
pub mod labels {
    /// Id of the PropagationPolicy that claimed the object.
    pub const PROPAGATION_POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";
    /// Id of the ClusterPropagationPolicy that claimed the object.
    pub const CLUSTER_PROPAGATION_POLICY_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
    /// Namespace of the FederatedResourceQuota that a Work is of.
    pub const QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
    /// Name of the FederatedResourceQuota that a Work is of.
    pub const QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";
    /// Id of a ResourceBinding, on itself and on its Works.
    pub const RESOURCE_BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
    /// Id of a ClusterResourceBinding, on itself and on its Works.
    pub const CLUSTER_RESOURCE_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
    /// Id of a Work, on itself and on its manifests.
    pub const WORK_ID: &str = "work.karmada.io/permanent-id";
    /// Namespace of the MultiClusterService that a Work or a binding is of.
    pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
    /// Name of the MultiClusterService that a Work or a binding is of.
    pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
    /// Id of a MultiClusterService.
    pub const MULTI_CLUSTER_SERVICE_ID: &str = "multiclusterservice.karmada.io/permanent-id";
    /// Namespace of the exported Service that a Work asks for.
    pub const SLICE_OF_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
    /// Name of the exported Service that a Work asks for.
    pub const SLICE_OF_NAME: &str = "endpointslice.karmada.io/name";
    /// On a Work that asks for a Service: the kind of object for which it does.
    pub const SLICE_ASKED_BY: &str = "endpointslice.karmada.io/managed-by";
    /// Value of [`SLICE_ASKED_BY`].
    pub const BY_SERVICE_EXPORT: &str = "ServiceExport";
    /// `true` on a namespace that is not carried along.
    pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
    /// Who manages a binding that no policy made.
    pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
    /// `true` on every object that an agent applied.
    pub const MANAGED: &str = "karmada.io/managed";
    /// Value of [`MANAGED`].
    pub const MANAGED_VALUE: &str = "true";
    /// On a Work that its binding wants no more and that stays until a person says otherwise: since when, `20260131T235959Z`.
    pub const REMOVAL_HELD: &str = "edge.karmada.io/removal-held";
    /// `true` on namespaces that the control plane made.
    pub const SYSTEM: &str = "karmada.io/system";
    /// `true` on a template whose replicas the member decides.
    pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
    /// On a template that something else than the detector propagates.
    pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
    /// `Always` refuses deletion.
    pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
    /// The one value of [`DELETION_PROTECTED`] that protects.
    pub const DELETION_PROTECTED_ALWAYS: &str = "Always";
    /// Value of [`CLAIMED_BY`] and of [`BINDING_MANAGED_BY`]: a MultiClusterService.
    pub const BY_MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";
    /// Name of the Service that an EndpointSlice is of.
    pub const SLICE_SERVICE: &str = "kubernetes.io/service-name";
    /// Who keeps an EndpointSlice.
    pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// Value of [`SLICE_MANAGED_BY`]: it came from another cluster by a MultiClusterService.
    pub const SLICE_DISPATCHED: &str = "endpointslice-dispatch-controller.karmada.io";
    /// Value of [`SLICE_MANAGED_BY`]: it came from another cluster by a ServiceExport.
    pub const SLICE_IMPORTED: &str = "endpointslice-controller.karmada.io";
    /// Prefix of the label that ties an attached binding to the binding that needs it.
    pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
    /// `rbac-defaults` on the default roles.
    pub const BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
}

/// Annotation keys.
pub mod annotations {
    /// On a Cluster: which of `provider`, `region` and `zones` its spec ever said, whoever wrote it, with commas between. The hub writes for the agent what was
    /// never said: a person who takes it out is not answered by the same.
    pub const TOPOLOGY_SAID: &str = "edge.karmada.io/topology-said";
    /// On a Work: where it changes, the site tries again what it has put aside because it crashed the agent.
    pub const RETRY: &str = "edge.karmada.io/retry";
    /// On a Cluster: what is known of its agent while that is away, JSON: version, CA and end of the certificate it showed last.
    pub const AGENT: &str = "edge.karmada.io/agent";
    /// On a Cluster: the Works that its site enforces and the hub knows nothing of, JSON: by name, what a person decided of it
    /// (`undecided`, `release`, `delete`).
    pub const ORPHANS: &str = "edge.karmada.io/orphans";
    /// On a Cluster: the batch of held-back deletes that may go out, `EPOCH/REVISION`.
    pub const CONFIRM_DELETES: &str = "edge.karmada.io/confirm-deletes";
    /// On a Cluster: Works that were held back until this moment may go, `20260131T235959Z`.
    pub const CONFIRM_REMOVALS: &str = "edge.karmada.io/confirm-removals";
    /// Namespace of the claiming PropagationPolicy.
    pub const PROPAGATION_POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
    /// Name of the claiming PropagationPolicy.
    pub const PROPAGATION_POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
    /// Name of the claiming ClusterPropagationPolicy.
    pub const CLUSTER_PROPAGATION_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
    /// Namespace of the Work that a member object comes from.
    pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
    /// Name of the Work that a member object comes from.
    pub const WORK_NAME: &str = "work.karmada.io/name";
    /// Namespace of the ResourceBinding that a Work comes from.
    pub const RESOURCE_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
    /// Name of the ResourceBinding that a Work comes from.
    pub const RESOURCE_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
    /// Name of the ClusterResourceBinding that a Work comes from.
    pub const CLUSTER_RESOURCE_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
    /// Generation of the template that a manifest was made from.
    pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
    /// Uid of the template that a manifest was made from.
    pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
    /// Keys of the labels that the hub set, sorted, joined by commas.
    pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
    /// Keys of the annotations that the hub set, sorted, joined by commas.
    pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
    /// What to do with an object of the member that is in the way: `overwrite` or `abort`.
    pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
    /// Value of [`CONFLICT_RESOLUTION`]: take the object over.
    pub const CONFLICT_OVERWRITE: &str = "overwrite";
    /// Value of [`CONFLICT_RESOLUTION`]: leave the object alone.
    pub const CONFLICT_ABORT: &str = "abort";
    /// The placement that the scheduler last applied, as JSON.
    pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
    /// The OverridePolicies that changed a Work's manifest, as JSON.
    pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
    /// The ClusterOverridePolicies that changed a Work's manifest, as JSON.
    pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
    /// On a binding of a lazy policy, or on its template while there is none: a digest of the template as people wrote it when the policy acted last.
    pub const LAZILY_SEEN: &str = "edge.karmada.io/lazily-seen";
    /// On a template whose label [`super::labels::RETAIN_REPLICAS`] the hub set: name of the HorizontalPodAutoscaler for which it did.
    pub const RETAIN_REPLICAS_BY: &str = "edge.karmada.io/retain-replicas-by";
    /// On a PropagationPolicy or ClusterPropagationPolicy: how long an earlier group of its clusters must have been well before workloads return to
    /// it from a later one, such as `10m`; without it they stay.
    pub const FAILBACK_AFTER: &str = "edge.karmada.io/failback-after";
    /// On a PropagationPolicy or ClusterPropagationPolicy, and on its bindings: a CEL expression over `cluster` and `object` that holds for clusters that
    /// may be chosen.
    pub const CLUSTER_FILTER: &str = "edge.karmada.io/cluster-filter";
    /// The same, for an expression that yields how good a cluster is, from 0 to 100.
    pub const CLUSTER_SCORE: &str = "edge.karmada.io/cluster-score";
    /// On a binding: by which expressions it was scheduled last, as JSON.
    pub const APPLIED_EXPRESSIONS: &str = "edge.karmada.io/applied-cluster-expressions";
    /// On a binding that returned to an earlier group: the group and the clusters that it returned from, as JSON.
    pub const FAILBACK_FROM: &str = "edge.karmada.io/failback-from";
    /// On a binding that could not return: when that was given up, RFC 3339.
    pub const FAILBACK_GIVEN_UP: &str = "edge.karmada.io/failback-given-up";
    /// On a binding of which replicas were moved to where they would be placed now: what is to follow, and how long it rests, as JSON.
    pub const REBALANCED: &str = "edge.karmada.io/rebalanced";
    /// On a binding of what followed workloads that a person deleted: clusters, joined by commas, in which nobody else wants it.
    pub const LET_GO: &str = "edge.karmada.io/let-go";
    /// A binding's dependencies, as JSON.
    pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
    /// On a Cluster: `true` where what the hub placed there stays when the Cluster is deleted.
    pub const KEEP_WORKLOADS: &str = "edge.karmada.io/keep-workloads";
    /// On an object of a member that outlived its Work: uid of the template that it came from. The same template may have it back.
    pub const KEPT_FROM: &str = "edge.karmada.io/kept-from";
    /// On a binding whose policy moves it when it is unhealthy, JSON: since when it is, by cluster.
    pub const UNHEALTHY_SINCE: &str = "edge.karmada.io/unhealthy-since";
    /// On an EndpointSlice and on its Work: the cluster that it came from.
    pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";
}

/// Finalizers.
pub mod finalizers {
    /// On Cluster: its Works and execution namespace go first.
    pub const CLUSTER: &str = "karmada.io/cluster-controller";
    /// On Work: the member object goes first.
    pub const EXECUTION: &str = "karmada.io/execution-controller";
    /// On ResourceBinding: its Works go first.
    pub const BINDING: &str = "karmada.io/binding-controller";
    /// On ClusterResourceBinding: its Works go first.
    pub const CLUSTER_BINDING: &str = "karmada.io/cluster-resource-binding-controller";
    /// On a ResourceBinding with propagateDeps: its attached bindings are released first.
    pub const DEPENDENCIES: &str = "karmada.io/binding-dependencies-distributor";
    /// On PropagationPolicy: its claims are given back first.
    pub const PROPAGATION_POLICY: &str = "karmada.io/propagation-policy-controller";
    /// On ClusterPropagationPolicy: its claims are given back first.
    pub const CLUSTER_PROPAGATION_POLICY: &str = "karmada.io/cluster-propagation-policy-controller";
    /// On MultiClusterService: what it brought into clusters goes first.
    pub const MULTI_CLUSTER_SERVICE: &str = "karmada.io/multiclusterservice-controller";
}

/// Taint keys of a Cluster.
pub mod taints {
    /// The cluster answers, but is not ready.
    pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
    /// Nothing is known of the cluster.
    pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
    /// A person cordoned the cluster.
    pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
    /// Effect: nothing new is placed here.
    pub const NO_SCHEDULE: &str = "NoSchedule";
    /// Effect: a wish, without force.
    pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
    /// Effect: nothing new, and what is here is evicted.
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Why and by whom a workload is taken away from a cluster, as the tasks of a binding tell it.
pub mod eviction {
    /// Reason: the cluster has a taint that the workload does not tolerate.
    pub const TAINT_UNTOLERATED: &str = "TaintUntolerated";
    /// Reason: the workload is unhealthy there.
    pub const APPLICATION_FAILURE: &str = "ApplicationFailure";
    /// Reason: an earlier group of clusters takes the workload back.
    pub const FAILBACK: &str = "Failback";
    /// Producer of evictions from the later group.
    pub const FAILBACK_CONTROLLER: &str = "failback-controller";
    /// Producer of evictions for taints.
    pub const TAINT_MANAGER: &str = "TaintManager";
    /// Producer of evictions of unhealthy workloads that a ResourceBinding places.
    pub const BINDING_FAILOVER: &str = "resource-binding-application-failover-controller";
    /// Producer of evictions of unhealthy workloads that a ClusterResourceBinding places.
    pub const CLUSTER_BINDING_FAILOVER: &str = "cluster-resource-binding-application-failover-controller";
}

/// Condition types, their reasons and messages.
pub mod conditions {
    /// Condition status: true.
    pub const TRUE: &str = "True";
    /// Condition status: false.
    pub const FALSE: &str = "False";
    /// Condition status: unknown.
    pub const UNKNOWN: &str = "Unknown";

    /// ResidencyRule: nothing that it covers is in a cluster that it does not allow; this product's own.
    pub const COMPLIANT: &str = "Compliant";
    /// Reason of Compliant=True.
    pub const NO_VIOLATIONS: &str = "NoViolations";
    /// Reason of Compliant=False, and of the answer to a write that would make it so.
    pub const RESIDENCY_VIOLATED: &str = "ResidencyViolated";

    /// Cluster: accepts workloads.
    pub const READY: &str = "Ready";
    /// Reason of Ready=True.
    pub const CLUSTER_READY: &str = "ClusterReady";
    /// Message of [`CLUSTER_READY`].
    pub const CLUSTER_READY_MESSAGE: &str = "cluster is healthy and ready to accept workloads";
    /// Reason of Ready=False: the API server says it is not healthy.
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    /// Message of [`CLUSTER_NOT_READY`].
    pub const CLUSTER_NOT_READY_MESSAGE: &str =
        "cluster is reachable but health endpoint responded without ok";
    /// Reason of Ready=False: the API server does not answer.
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    /// Message of [`CLUSTER_NOT_REACHABLE`].
    pub const CLUSTER_NOT_REACHABLE_MESSAGE: &str = "cluster is not reachable";
    /// Reason of Ready=False: healthy, but its state could not be read.
    pub const STATUS_COLLECTION_FAILED: &str = "StatusCollectionFailed";
    /// Reason of Ready=Unknown: the agent went quiet.
    pub const CLUSTER_STATUS_UNKNOWN: &str = "ClusterStatusUnknown";
    /// Message of [`CLUSTER_STATUS_UNKNOWN`].
    pub const CLUSTER_STATUS_UNKNOWN_MESSAGE: &str = "Cluster status is unknown.";
    /// Reason of Ready=Unknown: the agent never reported.
    pub const CLUSTER_STATUS_NEVER_UPDATED: &str = "ClusterStatusNeverUpdated";
    /// Message of [`CLUSTER_STATUS_NEVER_UPDATED`].
    pub const CLUSTER_STATUS_NEVER_UPDATED_MESSAGE: &str = "Cluster status was never updated.";

    /// Cluster: whether `status.apiEnablements` is the whole list.
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
    /// Reason: the whole list was read.
    pub const API_ENABLEMENTS_COMPLETE: &str = "Complete";
    /// Reason: some groups did not answer.
    pub const API_ENABLEMENTS_PARTIAL: &str = "Partial";
    /// Reason: nothing was read.
    pub const API_ENABLEMENTS_EMPTY: &str = "Empty";

    /// Cluster: whether names of Services resolve in it, where its agent is asked to look.
    pub const SERVICE_NAMES_READY: &str = "ServiceDomainNameResolutionReady";
    /// Reason: they do not.
    pub const SERVICE_NAMES_NOT_READY: &str = "ServiceDomainNameResolutionNotReady";

    /// Binding: clusters were chosen.
    pub const SCHEDULED: &str = "Scheduled";
    /// Reason of Scheduled=True.
    pub const SCHEDULED_SUCCESS: &str = "Success";
    /// Message of [`SCHEDULED_SUCCESS`].
    pub const SCHEDULED_SUCCESS_MESSAGE: &str = "Binding has been scheduled successfully.";
    /// Reason: the scheduler failed; it tries again.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Reason: no cluster passes the filters.
    pub const NO_CLUSTER_FIT: &str = "NoClusterFit";
    /// Reason: there is not enough room.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Reason: a quota refused the result.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

    /// Binding: every Work was applied.
    pub const FULLY_APPLIED: &str = "FullyApplied";
    /// Reason of FullyApplied=True.
    pub const FULLY_APPLIED_SUCCESS: &str = "FullyAppliedSuccess";
    /// Message of [`FULLY_APPLIED_SUCCESS`].
    pub const FULLY_APPLIED_SUCCESS_MESSAGE: &str = "All works have been successfully applied";
    /// Reason of FullyApplied=False.
    pub const FULLY_APPLIED_FAILED: &str = "FullyAppliedFailed";
    /// Message of [`FULLY_APPLIED_FAILED`].
    pub const FULLY_APPLIED_FAILED_MESSAGE: &str =
        "Failed to apply all works, see status.aggregatedStatus for details";

    /// Work: the manifest was applied.
    pub const APPLIED: &str = "Applied";
    /// Reason of Applied=True.
    pub const APPLIED_SUCCESSFUL: &str = "AppliedSuccessful";
    /// Message of [`APPLIED_SUCCESSFUL`].
    pub const APPLIED_SUCCESSFUL_MESSAGE: &str = "Manifest has been successfully applied";
    /// Reason of Applied=False.
    pub const APPLIED_FAILED: &str = "AppliedFailed";

    /// Work: whether it is sent to its cluster.
    pub const DISPATCHING: &str = "Dispatching";
    /// Reason of Dispatching=False.
    pub const SUSPEND_DISPATCHING: &str = "SuspendDispatching";
    /// Message of [`SUSPEND_DISPATCHING`].
    pub const SUSPEND_DISPATCHING_MESSAGE: &str = "Work dispatching is in a suspended state.";
    /// Reason of Dispatching=True.
    pub const DISPATCHING_REASON: &str = "Dispatching";
    /// Message of [`DISPATCHING_REASON`].
    pub const DISPATCHING_MESSAGE: &str = "Work is being dispatched to member clusters.";

    /// MultiClusterService: its Service is placed.
    pub const SERVICE_APPLIED: &str = "ServiceApplied";
    /// Reason of ServiceApplied=True.
    pub const SERVICE_APPLIED_SUCCEED: &str = "ServiceAppliedSucceed";
    /// Message of [`SERVICE_APPLIED_SUCCEED`].
    pub const SERVICE_APPLIED_MESSAGE: &str = "Service is propagated to target clusters.";
    /// Reason of ServiceApplied=False.
    pub const SERVICE_APPLIED_FAILED: &str = "ServiceAppliedFailed";

    /// FederatedHPA: its target can be measured, and is scaled by it.
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    /// FederatedHPA: its target can be scaled.
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    /// FederatedHPA: a bound or a rule holds back what the metrics ask for.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
    /// FederatedHPA: every cluster told what was asked; this product's own.
    pub const CLUSTERS_MEASURED: &str = "ClustersMeasured";
}

/// Event reasons and the texts that stand with them.
pub mod events {
    /// On a Cluster: deletes wait for a person's word.
    pub const DELETES_HELD: &str = "DeletesHeld";
    /// On a template and its binding: a ResidencyRule keeps it out of a cluster. On a ResidencyRule: something that it covers is in one.
    pub const RESIDENCY_VIOLATED: &str = "ResidencyViolated";
    /// A policy claimed the template.
    pub const APPLY_POLICY_SUCCEED: &str = "ApplyPolicySucceed";
    /// A policy could not be applied, or none matches.
    pub const APPLY_POLICY_FAILED: &str = "ApplyPolicyFailed";
    /// Message of the Warning on a template that waits for a policy.
    pub const NO_POLICY_MATCH_MESSAGE: &str = "No policy match for resource";
    /// Overrides were applied to a Work.
    pub const APPLY_OVERRIDE_POLICY_SUCCEED: &str = "ApplyOverridePolicySucceed";
    /// An override failed.
    pub const APPLY_OVERRIDE_POLICY_FAILED: &str = "ApplyOverridePolicyFailed";
    /// The scheduler chose clusters.
    pub const SCHEDULE_BINDING_SUCCEED: &str = "ScheduleBindingSucceed";
    /// The scheduler could not choose.
    pub const SCHEDULE_BINDING_FAILED: &str = "ScheduleBindingFailed";
    /// A workload returns to an earlier group of its policy's clusters.
    pub const FAILBACK: &str = "Failback";
    /// The descheduler moved replicas.
    pub const DESCHEDULE_BINDING_SUCCEED: &str = "DescheduleBindingSucceed";
    /// The descheduler failed.
    pub const DESCHEDULE_BINDING_FAILED: &str = "DescheduleBindingFailed";
    /// Replicas were moved to where they would be placed now; this product's own.
    pub const REBALANCE_BINDING_SUCCEED: &str = "RebalanceBindingSucceed";
    /// They could not be moved.
    pub const REBALANCE_BINDING_FAILED: &str = "RebalanceBindingFailed";
    /// Works could not be written.
    pub const SYNC_WORK_FAILED: &str = "SyncWorkFailed";
    /// Works that nobody wants could not be removed.
    pub const CLEANUP_WORK_FAILED: &str = "CleanupWorkFailed";
    /// The statuses of members were aggregated onto the binding.
    pub const AGGREGATE_STATUS_SUCCEED: &str = "AggregateStatusSucceed";
    /// Aggregation failed.
    pub const AGGREGATE_STATUS_FAILED: &str = "AggregateStatusFailed";
    /// What is used of a quota overall was counted.
    pub const COLLECT_OVERALL_STATUS_SUCCEED: &str = "CollectOverallStatusSucceed";
    /// It could not be counted or written.
    pub const COLLECT_OVERALL_STATUS_FAILED: &str = "CollectOverallStatusFailed";
    /// A Work's manifest was applied to the member.
    pub const SYNC_SUCCEED: &str = "SyncSucceed";
    /// A Work's manifest could not be applied.
    pub const SYNC_FAILED: &str = "SyncFailed";
    /// A Work is held back or sent again.
    pub const WORK_DISPATCHING: &str = "WorkDispatching";
    /// A member object's status could not be collected.
    pub const REFLECT_STATUS_FAILED: &str = "ReflectStatusFailed";
    /// A member object's health could not be read.
    pub const INTERPRET_HEALTH_FAILED: &str = "InterpretHealthFailed";
    /// An execution namespace was made.
    pub const CREATE_EXECUTION_SPACE_SUCCEED: &str = "CreateExecutionSpaceSucceed";
    /// An execution namespace could not be made.
    pub const CREATE_EXECUTION_SPACE_FAILED: &str = "CreateExecutionSpaceFailed";
    /// A cluster's taints follow its Ready condition.
    pub const TAINT_CLUSTER_SUCCEED: &str = "TaintClusterSucceed";
    /// A cluster's taints could not be written.
    pub const TAINT_CLUSTER_FAILED: &str = "TaintClusterFailed";
    /// Dependencies of a template were read.
    pub const GET_DEPENDENCIES_SUCCEED: &str = "GetDependenciesSucceed";
    /// Dependencies of a template could not be read.
    pub const GET_DEPENDENCIES_FAILED: &str = "GetDependenciesFailed";
    /// What a template refers to follows its binding.
    pub const SYNC_DEPENDENCIES_SUCCEED: &str = "SyncScheduleResultToDependenciesSucceed";
    /// Something that a template refers to does not follow its binding.
    pub const SYNC_DEPENDENCIES_FAILED: &str = "SyncScheduleResultToDependenciesFailed";
    /// Referrers of one dependency disagree.
    pub const DEPENDENCY_POLICY_CONFLICT: &str = "DependencyPolicyConflict";
    /// A policy took a template over from a weaker one.
    pub const PREEMPT_POLICY_SUCCEED: &str = "PreemptPolicySucceed";
    /// A policy could not take a template over.
    pub const PREEMPT_POLICY_FAILED: &str = "PreemptPolicyFailed";
    /// A workload was moved away from a cluster.
    pub const EVICT_WORKLOAD_SUCCEED: &str = "EvictWorkloadFromClusterSucceed";
    /// A workload could not be moved away.
    pub const EVICT_WORKLOAD_FAILED: &str = "EvictWorkloadFromClusterFailed";
    /// Who may be impersonated in a cluster could not be written.
    pub const SYNC_IMPERSONATION_CONFIG_FAILED: &str = "SyncImpersonationConfigFailed";
    /// A MultiClusterService was carried out.
    pub const SYNC_SERVICE_SUCCEED: &str = "SyncServiceSucceed";
    /// A MultiClusterService could not be carried out.
    pub const SYNC_SERVICE_FAILED: &str = "SyncServiceFailed";
    /// Where a Service is reached could not be told to clusters.
    pub const DISPATCH_ENDPOINT_SLICE_FAILED: &str = "DispatchEndpointSliceFailed";
    /// Several clusters tell the same address of a Service.
    pub const CLUSTER_NETWORKS_OVERLAP: &str = "ClusterNetworksOverlap";
    /// The Service of a ServiceImport was written.
    pub const SYNC_DERIVED_SERVICE_SUCCEED: &str = "SyncDerivedServiceSucceed";
    /// The Service of a ServiceImport could not be written.
    pub const SYNC_DERIVED_SERVICE_FAILED: &str = "SyncDerivedServiceFailed";
    /// A cluster that a MultiClusterService names is not there.
    pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
    /// A cluster that a MultiClusterService names does not serve what it takes.
    pub const API_INCOMPATIBLE: &str = "APIIncompatible";
    /// A rule's schedule or time zone cannot be read, so that it never runs.
    pub const START_RULE_FAILED: &str = "StartRuleFailed";
    /// A status leaves out what does not fit into an object; this product's own.
    pub const STATUS_TRUNCATED: &str = "StatusTruncated";
    /// A run of a rule could not scale what it is for.
    pub const SCALE_FAILED: &str = "ScaleFailed";
    /// What came of a rule's runs could not be written.
    pub const UPDATE_CRON_FEDERATED_HPA_FAILED: &str = "UpdateCronFederatedHPAFailed";
    /// What a FederatedHPA scales was scaled.
    pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
    /// What a FederatedHPA scales could not be scaled.
    pub const FAILED_RESCALE: &str = "FailedRescale";
    /// What a FederatedHPA scales, or its replicas, cannot be read.
    pub const FAILED_GET_SCALE: &str = "FailedGetScale";
    /// Metrics of a FederatedHPA could not be measured.
    pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
    /// What became of a FederatedHPA could not be written.
    pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";
}

/// Who a cluster's agent is.
pub mod identity {
    /// Prefix of an agent's common name; the cluster follows.
    pub const AGENT_PREFIX: &str = "system:karmada:agent:";
    /// Group that a join token authenticates as.
    pub const BOOTSTRAP_GROUP: &str = "system:bootstrappers:karmada:default-cluster-token";
}

/// Name of the scheduler that takes bindings without another name.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
