//! Every field of the fleet's kinds is acted on somewhere, or whoever writes it is told that nothing does.
//!
//! A field that comes new into a schema fails here until it stands in one of the two lists: `karmada_api::ignored_fields` for what is told, [`ACTED_ON`]
//! for what is read, each with a file that reads it and a word that stands there.

use std::collections::BTreeSet;

use karmada_api::ignored_fields;
use karmada_kinds::catalogue;
use karmada_schema::{SchemaRef, Schemas};

const POLICIES: &[&str] = &["PropagationPolicy", "ClusterPropagationPolicy"];
const OVERRIDES: &[&str] = &["OverridePolicy", "ClusterOverridePolicy"];
const BINDINGS: &[&str] = &["ResourceBinding", "ClusterResourceBinding"];
const PLACED: &[&str] =
    &["PropagationPolicy", "ClusterPropagationPolicy", "ResourceBinding", "ClusterResourceBinding"];
const SELECTING: &[&str] =
    &["PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy", "ClusterOverridePolicy"];

const SELECTOR: &str = "proto/api/src/selector.rs";
const DETECTOR: &str = "hub/core/src/detector.rs";
const PREEMPTION: &str = "hub/core/src/detector/preemption.rs";
const ACTIVATION: &str = "hub/core/src/detector/activation.rs";
const FILTER: &str = "hub/core/src/scheduler/filter.rs";
const SPREAD: &str = "hub/core/src/scheduler/spread.rs";
const FIELDS: &str = "hub/core/src/scheduler/spread/fields.rs";
const WORKLOAD_AFFINITY: &str = "hub/core/src/scheduler/workload_affinity.rs";
const DIVISION: &str = "hub/core/src/scheduler/division.rs";
const ESTIMATE: &str = "hub/core/src/scheduler/estimate.rs";
const TRIGGER: &str = "hub/core/src/scheduler/trigger.rs";
const TARGETS: &str = "hub/core/src/targets.rs";
const ATTACHED: &str = "hub/core/src/dependencies/attached.rs";
const WORKS: &str = "hub/core/src/binding.rs";
const OVERRIDING: &str = "hub/core/src/overrides/mod.rs";
const EVICTION: &str = "hub/core/src/eviction.rs";
const NO_EXECUTE: &str = "hub/core/src/eviction/no_execute.rs";
const FAILOVER: &str = "hub/core/src/failover.rs";
const PRESERVATION: &str = "hub/core/src/failover/preservation.rs";
const TAINTING: &str = "hub/core/src/taint_policy.rs";
const REMEDY: &str = "hub/core/src/remedy.rs";
const REBALANCER: &str = "hub/core/src/rebalancer.rs";
const SCRIPTS: &str = "proto/lua/src/customization.rs";
const DETECTING: &str = "hub/controllers/src/detector.rs";
const BINDINGS_INDEX: &str = "hub/indexes/src/bindings.rs";
const QUOTAS: &str = "hub/core/src/quota.rs";
const QUOTA_WORKS: &str = "hub/core/src/quota/works.rs";
const REMOVAL_LIMIT: &str = "hub/core/src/removal_limit.rs";
const LINK_POLICY: &str = "proto/api/src/link_policy.rs";
const LINKS: &[&str] = &["LinkPolicy"];
const RESIDENCY: &str = "hub/core/src/residency.rs";
const RESIDENCY_RULE: &[&str] = &["ResidencyRule"];
const QUOTA: &[&str] = &["FederatedResourceQuota"];
const SERVICES: &str = "hub/core/src/multi_cluster_service.rs";
const SERVICE: &[&str] = &["MultiClusterService"];
const IMPORT: &[&str] = &["ServiceImport"];
const DERIVED_SERVICE: &str = "hub/core/src/service_import.rs";
const CUSTOMIZATION: &[&str] = &["ResourceInterpreterCustomization"];
const WEBHOOKS: &[&str] = &["ResourceInterpreterWebhookConfiguration"];
const WEBHOOK: &str = "hub/core/src/interpreter_webhook/configuration.rs";
const CALLS: &str = "hub/registry/src/webhook.rs";
const CRON: &str = "hub/autoscaling/src/cron_federated_hpa.rs";
const CRON_HPA: &[&str] = &["CronFederatedHPA"];
const HPA: &[&str] = &["FederatedHPA"];
const BEHAVIOR: &str = "hub/autoscaling/src/federated_hpa/behavior.rs";
const REPLICA_CALCULATOR: &str = "hub/autoscaling/src/federated_hpa/replica_calculator.rs";
const SCALING: &str = "hub/controllers/src/federated_hpa.rs";
const POD_USAGE: &str = "agent/pods/src/usage.rs";
const POD_READING: &str = "agent/pods/src/usage/reading.rs";
const TAINT_POLICY: &[&str] = &["ClusterTaintPolicy"];

/// Kinds, a field (`{…}`: the fields of a [`SHAPES`] below it), the file that reads it, a word of that file.
type Acted = (&'static [&'static str], &'static str, &'static str, &'static str);

/// What occurs in several places with the same fields.
const SHAPES: &[(&str, &[&str])] = &[
    (
        "{labels}",
        &[
            "matchExpressions[].key",
            "matchExpressions[].operator",
            "matchExpressions[].values[]",
            "matchLabels",
        ],
    ),
    ("{fields}", &["matchExpressions[].key", "matchExpressions[].operator", "matchExpressions[].values[]"]),
    ("{operation}", &["operator", "value"]),
    ("{arguments}", &["containerName", "operator", "value[]"]),
    ("{image}", &["component", "operator", "predicate.path", "value"]),
    (
        "{field}",
        &[
            "fieldPath",
            "json[].operator",
            "json[].subPath",
            "json[].value",
            "yaml[].operator",
            "yaml[].subPath",
            "yaml[].value",
        ],
    ),
    ("{object}", &["apiVersion", "kind", "name", "namespace"]),
    ("{target}", &["name", "replicas"]),
    ("{preserved}", &["rules[].aliasLabelName", "rules[].jsonPath"]),
    ("{condition}", &["conditionType", "operator", "statusValues[]"]),
    ("{taint}", &["effect", "key", "value"]),
    ("{policy}", &["periodSeconds", "type", "value"]),
    ("{aim}", &["averageUtilization", "averageValue", "type", "value"]),
    (
        "{metric}",
        &[
            "name",
            "selector.matchExpressions[].key",
            "selector.matchExpressions[].operator",
            "selector.matchExpressions[].values[]",
            "selector.matchLabels",
        ],
    ),
];

/// Everything that is read, with one place where it is.
const ACTED_ON: &[Acted] = &[
    (SELECTING, "spec.resourceSelectors[].{object}", DETECTOR, "rank_of_selector"),
    (SELECTING, "spec.resourceSelectors[].labelSelector.{labels}", SELECTOR, "labels_match"),
    (POLICIES, "spec.conflictResolution", DETECTOR, "conflict_resolution"),
    (POLICIES, "spec.dependentOverrides[]", DETECTOR, "dependent_overrides"),
    (POLICIES, "spec.preserveResourcesOnDeletion", DETECTOR, "preserve_resources_on_deletion"),
    (POLICIES, "spec.priority", DETECTOR, "priority"),
    (POLICIES, "spec.schedulerName", DETECTOR, "scheduler_name"),
    (POLICIES, "spec.suspension.dispatching", DETECTOR, "suspension"),
    (POLICIES, "spec.suspension.dispatchingOnClusters.clusterNames[]", DETECTOR, "suspension"),
    (POLICIES, "spec.preemption", PREEMPTION, "preemption"),
    (POLICIES, "spec.propagateDeps", DETECTOR, "propagate_deps"),
    (POLICIES, "spec.activationPreference", ACTIVATION, "activation_preference"),
    (PLACED, "spec.placement.clusterAffinity.clusterNames[]", SELECTOR, "cluster_names"),
    (PLACED, "spec.placement.clusterAffinity.exclude[]", SELECTOR, "exclude"),
    (PLACED, "spec.placement.clusterAffinity.fieldSelector.{fields}", SELECTOR, "fields_match"),
    (PLACED, "spec.placement.clusterAffinity.labelSelector.{labels}", SELECTOR, "labels_match"),
    (PLACED, "spec.placement.clusterAffinities[].affinityName", FILTER, "affinity_name"),
    (PLACED, "spec.placement.clusterAffinities[].clusterNames[]", SELECTOR, "cluster_names"),
    (PLACED, "spec.placement.clusterAffinities[].exclude[]", SELECTOR, "exclude"),
    (PLACED, "spec.placement.clusterAffinities[].fieldSelector.{fields}", SELECTOR, "fields_match"),
    (PLACED, "spec.placement.clusterAffinities[].labelSelector.{labels}", SELECTOR, "labels_match"),
    // A name by which nothing refers to it; it has to be one of its own.
    (
        PLACED,
        "spec.placement.clusterAffinities[].overflowAffinities[].affinityName",
        "proto/api/src/validation/placement.rs",
        "overflow_affinities",
    ),
    (
        PLACED,
        "spec.placement.clusterAffinities[].overflowAffinities[].clusterNames[]",
        FILTER,
        "overflow_affinities",
    ),
    (
        PLACED,
        "spec.placement.clusterAffinities[].overflowAffinities[].exclude[]",
        FILTER,
        "overflow_affinities",
    ),
    (
        PLACED,
        "spec.placement.clusterAffinities[].overflowAffinities[].fieldSelector.{fields}",
        FILTER,
        "overflow_affinities",
    ),
    (
        PLACED,
        "spec.placement.clusterAffinities[].overflowAffinities[].labelSelector.{labels}",
        FILTER,
        "overflow_affinities",
    ),
    (PLACED, "spec.placement.clusterTolerations[].effect", SELECTOR, "toleration.effect"),
    (PLACED, "spec.placement.clusterTolerations[].key", SELECTOR, "toleration.key"),
    (PLACED, "spec.placement.clusterTolerations[].operator", SELECTOR, "toleration.operator"),
    (PLACED, "spec.placement.clusterTolerations[].value", SELECTOR, "toleration.value"),
    (PLACED, "spec.placement.clusterTolerations[].tolerationSeconds", NO_EXECUTE, "toleration_seconds"),
    (
        PLACED,
        "spec.failover.application.decisionConditions.tolerationSeconds",
        FAILOVER,
        "decision_conditions.toleration_seconds",
    ),
    (PLACED, "spec.failover.application.gracePeriodSeconds", FAILOVER, "grace_period_seconds"),
    (PLACED, "spec.failover.application.purgeMode", FAILOVER, "purge_mode"),
    (PLACED, "spec.failover.application.statePreservation.{preserved}", PRESERVATION, "rule.json_path"),
    (PLACED, "spec.failover.cluster.purgeMode", NO_EXECUTE, "failover.purge_mode"),
    (PLACED, "spec.failover.cluster.statePreservation.{preserved}", PRESERVATION, "rule.json_path"),
    (
        PLACED,
        "spec.placement.replicaScheduling.replicaDivisionPreference",
        DIVISION,
        "replica_division_preference",
    ),
    (
        PLACED,
        "spec.placement.replicaScheduling.replicaSchedulingType",
        "proto/api/src/binding.rs",
        "replica_scheduling_type",
    ),
    (PLACED, "spec.placement.replicaScheduling.weightPreference.dynamicWeight", DIVISION, "dynamic_weight"),
    (
        PLACED,
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.clusterNames[]",
        DIVISION,
        "target_cluster",
    ),
    (
        PLACED,
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.exclude[]",
        DIVISION,
        "target_cluster",
    ),
    (
        PLACED,
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.fieldSelector.{fields}",
        DIVISION,
        "target_cluster",
    ),
    (
        PLACED,
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.labelSelector.{labels}",
        DIVISION,
        "target_cluster",
    ),
    (
        PLACED,
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[].weight",
        DIVISION,
        "weight",
    ),
    (PLACED, "spec.placement.spreadConstraints[].maxGroups", SPREAD, "max_groups"),
    (PLACED, "spec.placement.spreadConstraints[].minGroups", SPREAD, "min_groups"),
    (PLACED, "spec.placement.spreadConstraints[].spreadByField", FILTER, "spread_by_field"),
    (PLACED, "spec.placement.spreadConstraints[].spreadByLabel", FIELDS, "spread_by_label"),
    (PLACED, "spec.placement.workloadAffinity.affinity.groupByLabelKey", DETECTOR, "group_by_label_key"),
    (PLACED, "spec.placement.workloadAffinity.antiAffinity.groupByLabelKey", DETECTOR, "group_by_label_key"),
    (BINDINGS, "spec.workloadAffinityGroups.affinityGroup", WORKLOAD_AFFINITY, "affinity_group"),
    (BINDINGS, "spec.workloadAffinityGroups.antiAffinityGroup", WORKLOAD_AFFINITY, "anti_affinity_group"),
    (OVERRIDES, "spec.targetCluster.clusterNames[]", OVERRIDING, "target_cluster"),
    (OVERRIDES, "spec.targetCluster.exclude[]", OVERRIDING, "target_cluster"),
    (OVERRIDES, "spec.targetCluster.fieldSelector.{fields}", OVERRIDING, "target_cluster"),
    (OVERRIDES, "spec.targetCluster.labelSelector.{labels}", OVERRIDING, "target_cluster"),
    (OVERRIDES, "spec.overriders.annotationsOverrider[].{operation}", OVERRIDING, "annotations_overrider"),
    (OVERRIDES, "spec.overriders.labelsOverrider[].{operation}", OVERRIDING, "labels_overrider"),
    (OVERRIDES, "spec.overriders.argsOverrider[].{arguments}", OVERRIDING, "args_overrider"),
    (OVERRIDES, "spec.overriders.commandOverrider[].{arguments}", OVERRIDING, "command_overrider"),
    (OVERRIDES, "spec.overriders.fieldOverrider[].{field}", OVERRIDING, "field_overrider"),
    (OVERRIDES, "spec.overriders.imageOverrider[].{image}", OVERRIDING, "image_overrider"),
    (OVERRIDES, "spec.overriders.plaintext[].path", OVERRIDING, "plaintext"),
    (OVERRIDES, "spec.overriders.plaintext[].{operation}", OVERRIDING, "plaintext"),
    (OVERRIDES, "spec.overrideRules[].targetCluster.clusterNames[]", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].targetCluster.exclude[]", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].targetCluster.fieldSelector.{fields}", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].targetCluster.labelSelector.{labels}", OVERRIDING, "override_rules"),
    (
        OVERRIDES,
        "spec.overrideRules[].overriders.annotationsOverrider[].{operation}",
        OVERRIDING,
        "override_rules",
    ),
    (
        OVERRIDES,
        "spec.overrideRules[].overriders.labelsOverrider[].{operation}",
        OVERRIDING,
        "override_rules",
    ),
    (OVERRIDES, "spec.overrideRules[].overriders.argsOverrider[].{arguments}", OVERRIDING, "override_rules"),
    (
        OVERRIDES,
        "spec.overrideRules[].overriders.commandOverrider[].{arguments}",
        OVERRIDING,
        "override_rules",
    ),
    (OVERRIDES, "spec.overrideRules[].overriders.fieldOverrider[].{field}", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].overriders.imageOverrider[].{image}", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].overriders.plaintext[].path", OVERRIDING, "override_rules"),
    (OVERRIDES, "spec.overrideRules[].overriders.plaintext[].{operation}", OVERRIDING, "override_rules"),
    (BINDINGS, "spec.clusters[].{target}", DIVISION, "TargetCluster"),
    (BINDINGS, "spec.conflictResolution", WORKS, "conflict_resolution"),
    (BINDINGS, "spec.gracefulEvictionTasks[].fromCluster", TARGETS, "from_cluster"),
    (BINDINGS, "spec.gracefulEvictionTasks[].purgeMode", TARGETS, "purge_mode"),
    (
        BINDINGS,
        "spec.gracefulEvictionTasks[].clustersBeforeFailover[]",
        PRESERVATION,
        "clusters_before_failover",
    ),
    (BINDINGS, "spec.gracefulEvictionTasks[].creationTimestamp", EVICTION, "creation_timestamp"),
    (BINDINGS, "spec.gracefulEvictionTasks[].gracePeriodSeconds", EVICTION, "grace_period_seconds"),
    (BINDINGS, "spec.gracefulEvictionTasks[].preservedLabelState", PRESERVATION, "preserved_label_state"),
    (BINDINGS, "spec.gracefulEvictionTasks[].suppressDeletion", EVICTION, "suppress_deletion"),
    // For people: who made a task, and why.
    (BINDINGS, "spec.gracefulEvictionTasks[].message", "proto/api/src/binding.rs", "message"),
    (BINDINGS, "spec.gracefulEvictionTasks[].producer", NO_EXECUTE, "producer"),
    (BINDINGS, "spec.gracefulEvictionTasks[].reason", NO_EXECUTE, "reason"),
    (BINDINGS, "spec.gracefulEvictionTasks[].replicas", EVICTION, "replicas"),
    (BINDINGS, "spec.preserveResourcesOnDeletion", WORKS, "preserve_resources_on_deletion"),
    (BINDINGS, "spec.replicaRequirements.resourceRequest", ESTIMATE, "resource_request"),
    (BINDINGS, "spec.replicas", "hub/core/src/scheduler/cluster_affinities.rs", "spec.replicas"),
    (BINDINGS, "spec.requiredBy[].clusters[].{target}", TARGETS, "required_by"),
    (BINDINGS, "spec.requiredBy[].name", ATTACHED, "entry.name"),
    (BINDINGS, "spec.requiredBy[].namespace", ATTACHED, "entry.namespace"),
    (&["ResourceBinding"], "spec.propagateDeps", "hub/controllers/src/dependencies.rs", "propagate_deps"),
    (BINDINGS, "spec.rescheduleTriggeredAt", TRIGGER, "reschedule_triggered_at"),
    (BINDINGS, "spec.resource.{object}", "hub/controllers/src/binding.rs", "spec.resource"),
    (BINDINGS, "spec.resource.resourceVersion", DETECTOR, "resource_version"),
    (BINDINGS, "spec.resource.uid", DETECTOR, "uid"),
    (BINDINGS, "spec.schedulerName", TRIGGER, "scheduler_name"),
    (BINDINGS, "spec.suspension.dispatching", WORKS, "suspension"),
    (BINDINGS, "spec.suspension.dispatchingOnClusters.clusterNames[]", WORKS, "suspension"),
    (BINDINGS, "spec.suspension.scheduling", TRIGGER, "scheduling"),
    (
        &["Work"],
        "spec.preserveResourcesOnDeletion",
        "hub/gateway/src/ports/works.rs",
        "preserve_resources_on_deletion",
    ),
    (&["Work"], "spec.suspendDispatching", "hub/core/src/status.rs", "suspend_dispatching"),
    (&["Work"], "spec.workload.manifests[]", "hub/core/src/binding.rs", "manifests"),
    (&["Cluster"], "spec.id", "hub/src/fleet/member_ids.rs", "spec.id"),
    (&["Cluster"], "spec.provider", SELECTOR, "provider"),
    (&["Cluster"], "spec.region", SELECTOR, "region"),
    (&["Cluster"], "spec.zone", "proto/api/src/defaulting/cluster.rs", "zone"),
    (&["Cluster"], "spec.zones[]", SELECTOR, "zones"),
    (&["Cluster"], "spec.resourceModels[].grade", ESTIMATE, "grade"),
    (&["Cluster"], "spec.resourceModels[].ranges[].max", ESTIMATE, "ranges"),
    (&["Cluster"], "spec.resourceModels[].ranges[].min", ESTIMATE, "ranges"),
    (&["Cluster"], "spec.resourceModels[].ranges[].name", ESTIMATE, "ranges"),
    (&["Cluster"], "spec.taints[].effect", NO_EXECUTE, "taint.effect"),
    (&["Cluster"], "spec.taints[].key", FILTER, "taint.key"),
    (&["Cluster"], "spec.taints[].value", FILTER, "taint.value"),
    (&["Cluster"], "spec.taints[].timeAdded", NO_EXECUTE, "time_added"),
    (TAINT_POLICY, "spec.addOnConditions[].{condition}", TAINTING, "add_on_conditions"),
    (TAINT_POLICY, "spec.removeOnConditions[].{condition}", TAINTING, "remove_on_conditions"),
    (TAINT_POLICY, "spec.taints[].{taint}", TAINTING, "spec.taints"),
    (TAINT_POLICY, "spec.targetClusters.clusterNames[]", TAINTING, "target_clusters"),
    (TAINT_POLICY, "spec.targetClusters.exclude[]", TAINTING, "target_clusters"),
    (TAINT_POLICY, "spec.targetClusters.fieldSelector.{fields}", TAINTING, "target_clusters"),
    (TAINT_POLICY, "spec.targetClusters.labelSelector.{labels}", TAINTING, "target_clusters"),
    (LINKS, "spec.clusterSelector.{labels}", REMOVAL_LIMIT, "cluster_selector"),
    (LINKS, "spec.priority", REMOVAL_LIMIT, "spec.priority"),
    (LINKS, "spec.deletes.maxObjects", REMOVAL_LIMIT, "max_objects"),
    (LINKS, "spec.deletes.maxPercent", REMOVAL_LIMIT, "max_percent"),
    (LINKS, "spec.deletes.within", LINK_POLICY, "within_seconds"),
    (RESIDENCY_RULE, "spec.clusterAffinity.clusterNames[]", RESIDENCY, "cluster_affinity"),
    (RESIDENCY_RULE, "spec.clusterAffinity.exclude[]", RESIDENCY, "cluster_affinity"),
    (RESIDENCY_RULE, "spec.clusterAffinity.fieldSelector.{fields}", RESIDENCY, "cluster_affinity"),
    (RESIDENCY_RULE, "spec.clusterAffinity.labelSelector.{labels}", RESIDENCY, "cluster_affinity"),
    (RESIDENCY_RULE, "spec.namespaces[]", RESIDENCY, "spec.namespaces"),
    (RESIDENCY_RULE, "spec.resourceSelectors[].{object}", RESIDENCY, "wanted.kind"),
    (RESIDENCY_RULE, "spec.resourceSelectors[].labelSelector.{labels}", RESIDENCY, "label_selector"),
    (&["Remedy"], "spec.actions[]", REMEDY, "spec.actions"),
    (&["Remedy"], "spec.clusterAffinity.clusterNames[]", REMEDY, "cluster_affinity"),
    (&["Remedy"], "spec.decisionMatches[].clusterConditionMatch.conditionStatus", REMEDY, "condition_status"),
    (&["Remedy"], "spec.decisionMatches[].clusterConditionMatch.conditionType", REMEDY, "condition_type"),
    (&["Remedy"], "spec.decisionMatches[].clusterConditionMatch.operator", REMEDY, "operator"),
    (WEBHOOKS, "webhooks[].clientConfig.caBundle", "hub/src/fleet/interpreter_webhook_client.rs", "caBundle"),
    (WEBHOOKS, "webhooks[].clientConfig.service.name", CALLS, "\"name\""),
    (WEBHOOKS, "webhooks[].clientConfig.service.namespace", CALLS, "\"namespace\""),
    (WEBHOOKS, "webhooks[].clientConfig.service.path", CALLS, "\"path\""),
    (WEBHOOKS, "webhooks[].clientConfig.service.port", CALLS, "\"port\""),
    (WEBHOOKS, "webhooks[].clientConfig.url", CALLS, "\"url\""),
    // One version is known, and a webhook that does not speak it is refused.
    (
        WEBHOOKS,
        "webhooks[].interpreterContextVersions[]",
        "hub/kinds/src/validation/interpreter_webhooks.rs",
        "interpreterContextVersions",
    ),
    (WEBHOOKS, "webhooks[].name", WEBHOOK, "\"name\""),
    (WEBHOOKS, "webhooks[].rules[].apiGroups[]", WEBHOOK, "apiGroups"),
    (WEBHOOKS, "webhooks[].rules[].apiVersions[]", WEBHOOK, "apiVersions"),
    (WEBHOOKS, "webhooks[].rules[].kinds[]", WEBHOOK, "\"kinds\""),
    (WEBHOOKS, "webhooks[].rules[].operations[]", WEBHOOK, "\"operations\""),
    (WEBHOOKS, "webhooks[].timeoutSeconds", WEBHOOK, "timeoutSeconds"),
    (CUSTOMIZATION, "spec.target.apiVersion", SCRIPTS, "apiVersion"),
    (CUSTOMIZATION, "spec.target.kind", SCRIPTS, "kind"),
    (CUSTOMIZATION, "spec.customizations.retention.luaScript", SCRIPTS, "retention"),
    (CUSTOMIZATION, "spec.customizations.statusReflection.luaScript", SCRIPTS, "statusReflection"),
    (CUSTOMIZATION, "spec.customizations.healthInterpretation.luaScript", SCRIPTS, "healthInterpretation"),
    (CUSTOMIZATION, "spec.customizations.replicaResource.luaScript", SCRIPTS, "replicaResource"),
    (CUSTOMIZATION, "spec.customizations.replicaRevision.luaScript", SCRIPTS, "replicaRevision"),
    (CUSTOMIZATION, "spec.customizations.statusAggregation.luaScript", SCRIPTS, "statusAggregation"),
    (
        CUSTOMIZATION,
        "spec.customizations.dependencyInterpretation.luaScript",
        SCRIPTS,
        "dependencyInterpretation",
    ),
    (POLICIES, "spec.schedulePriority.priorityClassName", DETECTING, "priority_class_name"),
    (POLICIES, "spec.schedulePriority.priorityClassSource", DETECTING, "schedule_priority"),
    (BINDINGS, "spec.schedulePriority.priority", BINDINGS_INDEX, "schedule_priority"),
    (QUOTA, "spec.overall", QUOTAS, "spec.overall"),
    (SERVICE, "spec.providerClusters[].name", SERVICES, "provider_clusters"),
    (SERVICE, "spec.consumerClusters[].name", SERVICES, "consumer_clusters"),
    (QUOTA, "spec.staticAssignments[].clusterName", QUOTA_WORKS, "cluster_name"),
    (QUOTA, "spec.staticAssignments[].hard", QUOTA_WORKS, "hard"),
    (&["WorkloadRebalancer"], "spec.ttlSecondsAfterFinished", REBALANCER, "ttl_seconds_after_finished"),
    (&["WorkloadRebalancer"], "spec.workloads[].{object}", REBALANCER, "spec.workloads"),
    (CRON_HPA, "spec.rules[].failedHistoryLimit", CRON, "failed_history_limit"),
    (CRON_HPA, "spec.rules[].name", CRON, "rule.name"),
    (CRON_HPA, "spec.rules[].schedule", CRON, "rule.schedule"),
    (CRON_HPA, "spec.rules[].successfulHistoryLimit", CRON, "successful_history_limit"),
    (CRON_HPA, "spec.rules[].suspend", CRON, "is_suspended"),
    (CRON_HPA, "spec.rules[].targetMaxReplicas", CRON, "target_max_replicas"),
    (CRON_HPA, "spec.rules[].targetMinReplicas", CRON, "target_min_replicas"),
    (CRON_HPA, "spec.rules[].targetReplicas", CRON, "target_replicas"),
    (CRON_HPA, "spec.rules[].timeZone", CRON, "time_zone"),
    (CRON_HPA, "spec.scaleTargetRef.apiVersion", CRON, "api_version"),
    (CRON_HPA, "spec.scaleTargetRef.kind", CRON, "target.kind"),
    (CRON_HPA, "spec.scaleTargetRef.name", "hub/controllers/src/cron_federated_hpa.rs", "target.name"),
    (HPA, "spec.behavior.scaleDown.policies[].{policy}", BEHAVIOR, "period_seconds"),
    (HPA, "spec.behavior.scaleDown.selectPolicy", BEHAVIOR, "select_policy"),
    (HPA, "spec.behavior.scaleDown.stabilizationWindowSeconds", BEHAVIOR, "stabilization_window_seconds"),
    (HPA, "spec.behavior.scaleDown.tolerance", REPLICA_CALCULATOR, "rules.tolerance"),
    (HPA, "spec.behavior.scaleUp.policies[].{policy}", BEHAVIOR, "period_seconds"),
    (HPA, "spec.behavior.scaleUp.selectPolicy", BEHAVIOR, "select_policy"),
    (HPA, "spec.behavior.scaleUp.stabilizationWindowSeconds", BEHAVIOR, "stabilization_window_seconds"),
    (HPA, "spec.behavior.scaleUp.tolerance", REPLICA_CALCULATOR, "rules.tolerance"),
    (HPA, "spec.maxReplicas", "proto/api/src/federated_hpa.rs", "max_replicas"),
    (HPA, "spec.minReplicas", "proto/api/src/federated_hpa.rs", "min_replicas"),
    (HPA, "spec.metrics[].type", REPLICA_CALCULATOR, "metric.type_"),
    (HPA, "spec.metrics[].containerResource.container", POD_READING, "source.container"),
    (HPA, "spec.metrics[].containerResource.name", POD_READING, "source.name"),
    (HPA, "spec.metrics[].containerResource.target.{aim}", REPLICA_CALCULATOR, "average_utilization"),
    // Nothing outside of the clusters is measured: such a metric is refused before it is stored.
    (HPA, "spec.metrics[].external.metric.{metric}", "hub/kinds/src/validation/autoscaling.rs", "External"),
    (HPA, "spec.metrics[].external.target.{aim}", "hub/kinds/src/validation/autoscaling.rs", "External"),
    (HPA, "spec.metrics[].object.describedObject.apiVersion", POD_USAGE, "object.api_version"),
    (HPA, "spec.metrics[].object.describedObject.kind", POD_USAGE, "object.kind"),
    (HPA, "spec.metrics[].object.describedObject.name", POD_USAGE, "object.name"),
    (HPA, "spec.metrics[].object.metric.{metric}", POD_USAGE, "metric.selector"),
    (HPA, "spec.metrics[].object.target.{aim}", REPLICA_CALCULATOR, "target.value"),
    (HPA, "spec.metrics[].pods.metric.{metric}", POD_USAGE, "metric.selector"),
    (HPA, "spec.metrics[].pods.target.{aim}", REPLICA_CALCULATOR, "average_value"),
    (HPA, "spec.metrics[].resource.name", POD_READING, "source.name"),
    (HPA, "spec.metrics[].resource.target.{aim}", REPLICA_CALCULATOR, "average_utilization"),
    (IMPORT, "spec.ips[]", DERIVED_SERVICE, "[\"ips\"]"),
    (IMPORT, "spec.ports[].appProtocol", DERIVED_SERVICE, "\"appProtocol\""),
    (IMPORT, "spec.ports[].name", DERIVED_SERVICE, "\"name\""),
    (IMPORT, "spec.ports[].port", DERIVED_SERVICE, "\"port\""),
    (IMPORT, "spec.ports[].protocol", DERIVED_SERVICE, "\"protocol\""),
    (IMPORT, "spec.sessionAffinity", DERIVED_SERVICE, "\"sessionAffinity\""),
    (
        IMPORT,
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        DERIVED_SERVICE,
        "\"sessionAffinityConfig\"",
    ),
    (IMPORT, "spec.type", DERIVED_SERVICE, "ClusterSetIP"),
    (HPA, "spec.scaleTargetRef.apiVersion", SCALING, "api_version"),
    (HPA, "spec.scaleTargetRef.kind", SCALING, "meant.kind"),
    (HPA, "spec.scaleTargetRef.name", SCALING, "meant.name"),
];

/// The fields of a schema that have none below them. What every object has, and what its status says, are nobody's wish.
fn leaves(schema: SchemaRef<'_>, path: &str, out: &mut BTreeSet<String>) {
    if let Some(items) = schema.items() {
        return leaves(items, &format!("{path}[]"), out);
    }
    if schema.properties().len() == 0 {
        out.insert(path.to_owned());
        return;
    }
    for (name, inner, _) in schema.properties() {
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if !matches!(below.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            leaves(inner, &below, out);
        }
    }
}

/// A row's fields, its shape written out.
fn fields(path: &str) -> Vec<String> {
    let Some((before, _)) = path.split_once('{') else { return vec![path.to_owned()] };
    let shape = SHAPES.iter().find(|(name, _)| path.ends_with(name)).unwrap_or_else(|| panic!("{path}"));
    shape.1.iter().map(|field| format!("{before}{field}")).collect()
}

/// The fleet's kinds in the version that is stored, which every other one is converted to.
fn stored() -> impl Iterator<Item = (&'static str, &'static str, BTreeSet<String>)> {
    let fleet = |group: &str| group.ends_with(".karmada.io") || group == "multicluster.x-k8s.io";
    let resources = catalogue::resources().iter().filter(move |resource| {
        let is_older = BINDINGS.contains(&resource.kind.as_str()) && resource.version == "v1alpha1";
        fleet(&resource.group) && !resource.is_virtual && !is_older
    });
    resources.map(|resource| {
        let schema = Schemas::builtin().of(&resource.group, &resource.version, &resource.kind).unwrap();
        let mut fields = BTreeSet::new();
        leaves(schema, "", &mut fields);
        (&*resource.group, &*resource.kind, fields)
    })
}

#[test]
fn every_field_is_acted_on_or_told_of() {
    let mut silent = Vec::new();
    let mut known = BTreeSet::new();
    for (group, kind, schema) in stored() {
        let rows = ACTED_ON.iter().filter(|(kinds, ..)| kinds.contains(&kind));
        let acted: BTreeSet<String> = rows.flat_map(|(_, path, ..)| fields(path)).collect();
        for field in &schema {
            if !acted.contains(field) && !ignored_fields::is_told(group, kind, field) {
                silent.push(format!("{kind}: {field}"));
            }
        }
        known.extend(schema.into_iter().map(|field| (kind, field)));
    }
    assert!(silent.is_empty(), "nothing acts on these, and nobody is told:\n{}", silent.join("\n"));
    for (kinds, path, ..) in ACTED_ON {
        for (kind, field) in kinds.iter().flat_map(|kind| fields(path).into_iter().map(move |f| (*kind, f))) {
            assert!(known.contains(&(kind, field.clone())), "{kind} has no {field}");
        }
    }
}

#[test]
fn what_is_acted_on_is_read_where_it_is_said_to_be() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reads = |file: &str, word: &str| {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        text.split("#[cfg(test)]\nmod tests {").next().is_some_and(|code| code.contains(word))
    };
    let wrong = ACTED_ON.iter().filter(|(_, _, file, word)| !reads(file, word));
    let wrong: Vec<String> =
        wrong.map(|(_, path, file, word)| format!("{path}: {file} has no {word}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
