//! Recorded cases of the reference implementation: names, pruning, managed lists, cluster affinity; and the
//! admission of the Karmada kinds by table.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod recorded;

use karmada_api::admission::{self, Context, Operation};
use karmada_api::cluster::Cluster;
use karmada_api::defaulting::cluster::Grades;
use karmada_api::policy::ClusterAffinity;
use karmada_api::{manifest, names, selector};
use proptest::prelude::*;
use recorded::{BESIDE, Differences, Verdict, compare};
use serde_json::{Value, json};

const NAMES: Differences = &[
    (16, "a Work's name that no API server takes: it is cut, and ends in a hash of the whole"),
    (58, "a binding's name that no API server takes: it is cut, and ends in a hash of the whole"),
];

const NOT_MADE: &str = "names of what is not made here: the hub dials no member and has no estimators, and slices are named by their place";

#[test]
fn recorded_names() {
    recorded::run("names.json", "recorded_names", NAMES, |case| {
        let args: Vec<&str> = case["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
        let out = match case["fn"].as_str().unwrap() {
            "workName" => json!(names::work_name(args[0], args[1], args[2])),
            "bindingName" => json!(names::binding_name(args[0], args[1])),
            "bindingReferenceKey" => json!(names::binding_reference_key(args[0], args[1])),
            "policyName" => json!(names::policy_name(args[0], args[1], args[2])),
            "executionNamespace" => json!(names::execution_namespace(args[0])),
            "clusterOfExecutionNamespace" => match names::cluster_of_execution_namespace(args[0]) {
                None if case.get("error").is_some() => return Verdict::Agrees,
                cluster => json!(cluster),
            },
            "serviceAccountName"
            | "roleName"
            | "impersonationSecretName"
            | "estimatorServiceName"
            | "estimatorDeploymentName"
            | "endpointSliceName" => return Verdict::Skip(NOT_MADE),
            "derivedServiceName" => json!(names::derived_service_name(args[0])),
            "isReservedNamespace" => json!(names::is_reserved_namespace(args[0])),
            "namespacedKey" => json!(names::namespaced_key(args[0], args[1])),
            "safeEncode" => json!(names::safe_encode(args[0])),
            "deepHash32" | "fnv32a" => json!(names::fnv32a(args[0])),
            other => return Verdict::Differs(format!("unknown function {other}")),
        };
        compare(&case["out"], &out)
    });
}

const PRUNE: Differences = &[
    (16, "a field of a wrong type: the schema refuses it before, pruning does not look at it"),
    (26, "recorded bug: of two adjacent token secrets the second survived"),
    (27, "recorded bug: of three adjacent token secrets the second survived"),
];

#[test]
fn recorded_prune() {
    recorded::run("prune.json", "recorded_prune", PRUNE, |case| {
        let mut object = case["in"].clone();
        manifest::prune(&mut object, case["dropJobTTL"].as_bool().unwrap());
        compare(&case["out"], &object)
    });
}

#[test]
fn recorded_managed_lists() {
    recorded::run("retention.json", "recorded_managed_lists", &[], |case| {
        if case["op"] != "recordManaged" {
            return Verdict::Skip(BESIDE);
        }
        let mut object = case["in"].clone();
        manifest::record_managed(&mut object);
        compare(&case["out"], &object)
    });
}

/// A cluster of the recordings: name, labels and place.
fn cluster(case: &Value) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": case["name"], "labels": case.get("labels")},
        "spec": {"provider": case.get("provider").unwrap_or(&json!("")), "region": case.get("region").unwrap_or(&json!("")),
                 "zones": case.get("zones").unwrap_or(&json!([]))},
    }))
    .unwrap()
}

#[test]
fn recorded_affinity() {
    recorded::run("affinity.json", "recorded_affinity", &[], |case| {
        if case["kind"] != "match" {
            return Verdict::Skip(BESIDE);
        }
        let affinity: ClusterAffinity = serde_json::from_value(case["affinity"].clone()).unwrap();
        compare(&case["match"], &json!(selector::affinity_matches(&affinity, &cluster(&case["cluster"]))))
    });
}

fn mutated(group: &str, kind: &str, operation: Operation, object: &Value, old: Option<&Value>) -> Value {
    mutated_by(Grades::Completed, (group, kind), operation, object, old)
}

fn mutated_by(
    grades: Grades,
    (group, kind): (&str, &str),
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Value {
    let mut object = object.clone();
    let now = "2024-01-02T03:04:05Z".parse().unwrap();
    let context = Context { now, new_uuid: &|| "fresh".to_owned(), grades };
    admission::mutate(group, kind, operation, &mut object, old, &context);
    object
}

fn policy(spec: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
           "metadata": {"name": "p", "namespace": "default"}, "spec": spec})
}

const POLICY: &str = "policy.karmada.io";

#[test]
fn a_new_policy_is_completed() {
    let given = policy(json!({
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"},
                              {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}],
        "placement": {"spreadConstraints": [{"maxGroups": 2}, {"spreadByField": "region", "minGroups": 2}],
                      "replicaScheduling": {"replicaSchedulingType": "Divided"}},
        "failover": {"application": {"purgeMode": "Gracefully"}},
    }));
    let out = mutated(POLICY, "PropagationPolicy", Operation::Create, &given, None);
    assert_eq!(out["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "fresh");
    assert_eq!(out["metadata"]["finalizers"], json!(["karmada.io/propagation-policy-controller"]));
    assert_eq!(out["spec"]["resourceSelectors"][0]["namespace"], "default");
    assert_eq!(out["spec"]["propagateDeps"], true);
    assert_eq!(
        out["spec"]["placement"]["spreadConstraints"],
        json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}, {"spreadByField": "region", "minGroups": 2}])
    );
    assert_eq!(out["spec"]["placement"]["replicaScheduling"]["replicaDivisionPreference"], "Weighted");
    assert_eq!(out["spec"]["failover"]["application"]["gracePeriodSeconds"], 600);
    let again = mutated(POLICY, "PropagationPolicy", Operation::Update, &out, Some(&out));
    assert_eq!(again, out);
}

#[test]
fn a_cluster_wide_policy_keeps_its_selectors() {
    let given = json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}});
    let out = mutated(POLICY, "ClusterPropagationPolicy", Operation::Create, &given, None);
    assert_eq!(out["spec"], given["spec"]);
    assert_eq!(out["metadata"]["labels"]["clusterpropagationpolicy.karmada.io/permanent-id"], "fresh");
    assert_eq!(out["metadata"]["finalizers"], json!(["karmada.io/cluster-propagation-policy-controller"]));
}

#[test]
fn a_work_carries_pruned_and_recorded_manifests() {
    let given = json!({"metadata": {"name": "w", "namespace": "karmada-es-m1"}, "spec": {"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u", "labels": {"a": "b"}}}]}}});
    let out = mutated("work.karmada.io", "Work", Operation::Create, &given, None);
    let manifest = &out["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest["metadata"].get("uid"), None);
    assert_eq!(manifest["metadata"]["labels"]["work.karmada.io/permanent-id"], "fresh");
    assert_eq!(
        manifest["metadata"]["annotations"],
        json!({"resourcetemplate.karmada.io/managed-labels": "a,work.karmada.io/permanent-id",
               "resourcetemplate.karmada.io/managed-annotations":
                   "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels"})
    );
    assert_eq!(mutated("work.karmada.io", "Work", Operation::Update, &out, Some(&out)), out);
}

#[test]
fn grades_of_nodes_are_completed_where_they_count_and_else_stay_as_they_are_written() {
    let at = ("cluster.karmada.io", "Cluster");
    let grades = |models: Value, grades| {
        let given =
            json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Pull", "resourceModels": models}});
        mutated_by(grades, at, Operation::Create, &given, None)["spec"]["resourceModels"].clone()
    };
    let written = json!([{"grade": 1, "ranges": []}, {"grade": 0, "ranges": []}]);
    let ordered = json!([written[1], written[0]]);
    assert_eq!(grades(written.clone(), Grades::Completed), ordered);
    assert_eq!(grades(written.clone(), Grades::AsWritten), written);
    assert_eq!(grades(json!([]), Grades::Completed).as_array().map(Vec::len), Some(9));
    assert_eq!(grades(json!([]), Grades::AsWritten), json!([]));
}

#[test]
fn a_cluster_is_completed() {
    let given = json!({"metadata": {"name": "m1"}, "status": {"kubernetesVersion": "lie"},
        "spec": {"syncMode": "Pull", "zone": "z", "taints": [{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}]}});
    let out = mutated("cluster.karmada.io", "Cluster", Operation::Create, &given, None);
    assert_eq!(out.get("status"), None);
    assert_eq!(out["metadata"]["generation"], 1);
    assert_eq!(out["spec"]["zones"], json!(["z"]));
    assert_eq!(out["spec"]["taints"][0]["timeAdded"], "2024-01-02T03:04:05Z");
    assert_eq!(out["spec"]["taints"][1].get("timeAdded"), None);
    assert_eq!(out["spec"]["resourceModels"].as_array().unwrap().len(), 9);
    assert_eq!(
        out["spec"]["resourceModels"][8]["ranges"][1],
        json!({"name": "memory", "min": "1Ti", "max": "9223372036854775807"})
    );
    assert_eq!(admission::validate("cluster.karmada.io", "Cluster", Operation::Create, &out, None), vec![]);

    let mut changed = out.clone();
    changed["spec"]["region"] = json!("r");
    let changed = mutated("cluster.karmada.io", "Cluster", Operation::Update, &changed, Some(&out));
    assert_eq!(changed["metadata"]["generation"], 2);
    let same = mutated("cluster.karmada.io", "Cluster", Operation::Update, &changed, Some(&changed));
    assert_eq!(same, changed);
}

fn complaints(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    admission::validate(group, kind, operation, object, old).into_iter().map(|error| error.field).collect()
}

#[test]
fn wrong_policies_are_refused() {
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "n"}]);
    let with = |field: &str, value: Value| {
        let mut spec = json!({"resourceSelectors": selectors});
        spec[field] = value;
        policy(spec)
    };
    let placement = |value: Value| with("placement", value);
    let table: Vec<(Value, &[&str])> = vec![
        (with("priority", json!(1)), &[]),
        (
            policy(json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "A", "namespace": "other"}]})),
            &["spec.resourceSelectors[0].namespace"],
        ),
        (
            policy(json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "A"}], "preemption": "Always"})),
            &["spec.resourceSelectors[0].name"],
        ),
        (with("preemption", json!("Always")), &[]),
        (
            placement(json!({"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]})),
            &["spec.placement"],
        ),
        (
            placement(json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]})),
            &["spec.placement.clusterAffinities[1].affinityName"],
        ),
        (
            placement(json!({"clusterAffinities": [{"affinityName": "a b"}]})),
            &["spec.placement.clusterAffinities[0].affinityName"],
        ),
        (
            placement(
                json!({"clusterAffinities": [{"affinityName": "a", "overflowAffinities": [{"affinityName": "b"}]}]}),
            ),
            &[
                "spec.placement.clusterAffinities[0].overflowAffinities",
                "spec.placement.clusterAffinities[0].overflowAffinities",
            ],
        ),
        (
            placement(
                json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m"], "overflowAffinities": [{"affinityName": "b"}]}],
                          "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}),
            ),
            &[],
        ),
        (
            placement(
                json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}}),
            ),
            &[
                "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key",
                "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].operator",
            ],
        ),
        (
            placement(json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"a b": "c d"}}}})),
            &[
                "spec.placement.clusterAffinity.labelSelector.matchLabels",
                "spec.placement.clusterAffinity.labelSelector.matchLabels",
            ],
        ),
        (
            placement(json!({"clusterTolerations": [{"key": "a", "operator": "Gt"}]})),
            &["spec.placement.clusterTolerations[0].operator"],
        ),
        (
            placement(
                json!({"clusterTolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}),
            ),
            &[],
        ),
        (
            placement(json!({"clusterTolerations": [{"value": "b"}]})),
            &["spec.placement.clusterTolerations[0].operator"],
        ),
        (
            placement(
                json!({"clusterTolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]}),
            ),
            &["spec.placement.clusterTolerations[0].effect"],
        ),
        (
            placement(json!({"spreadConstraints": [{"spreadByField": "region", "minGroups": 1}]})),
            &["spec.placement.spreadConstraints"],
        ),
        (
            placement(
                json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 2}]}),
            ),
            &["spec.placement.spreadConstraints[0].maxGroups"],
        ),
        (
            placement(
                json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": -1, "maxGroups": -1}]}),
            ),
            &[
                "spec.placement.spreadConstraints[0].maxGroups",
                "spec.placement.spreadConstraints[0].minGroups",
            ],
        ),
        (
            placement(json!({"spreadConstraints": [{"spreadByField": "cluster", "spreadByLabel": "l"}]})),
            &["spec.placement.spreadConstraints[0].spreadByLabel"],
        ),
        (
            placement(
                json!({"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "cluster"}]}),
            ),
            &["spec.placement.spreadConstraints[1]"],
        ),
        (
            placement(
                json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "a"}, "antiAffinity": {"groupByLabelKey": "a"}}}),
            ),
            &["spec.placement.workloadAffinity"],
        ),
        (
            with(
                "failover",
                json!({"application": {"decisionConditions": {"tolerationSeconds": -1}, "gracePeriodSeconds": 3}}),
            ),
            &[
                "spec.propagateDeps",
                "spec.failover.application.decisionConditions.tolerationSeconds",
                "spec.failover.application.gracePeriodSeconds",
            ],
        ),
        (
            with(
                "suspension",
                json!({"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m"]}}),
            ),
            &["spec.suspension.dispatchingOnClusters"],
        ),
        (
            with(
                "suspension",
                json!({"dispatching": false, "dispatchingOnClusters": {"clusterNames": ["m"]}}),
            ),
            &[],
        ),
        (with("placement", json!("text")), &["spec"]),
    ];
    for (object, wanted) in table {
        assert_eq!(complaints(POLICY, "PropagationPolicy", &object, None), wanted, "{object}");
    }
}

#[test]
fn what_never_changes_in_a_policy() {
    let spec = json!({"resourceSelectors": [], "schedulerName": "default-scheduler"});
    let mut old = policy(spec);
    old["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "1"});
    let mut new = old.clone();
    new["spec"]["schedulerName"] = json!("other");
    new["metadata"]["labels"] = json!({});
    assert_eq!(
        complaints(POLICY, "PropagationPolicy", &new, Some(&old)),
        ["spec.schedulerName", "metadata.labels[propagationpolicy.karmada.io/permanent-id]"]
    );
    new["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    assert_eq!(complaints(POLICY, "PropagationPolicy", &new, Some(&old)), Vec::<String>::new());
}

#[test]
fn wrong_override_policies_are_refused() {
    let rule = |overriders: Value| json!({"metadata": {"namespace": "d"}, "spec": {"overrideRules": [{"overriders": overriders}]}});
    let at = "spec.overrideRules[0].overriders";
    let table: Vec<(Value, Vec<String>)> = vec![
        (
            rule(
                json!({"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": "/a/b~1c"}}]}),
            ),
            vec![],
        ),
        (
            rule(
                json!({"imageOverrider": [{"component": "Tag", "operator": "replace", "predicate": {"path": "a"}}]}),
            ),
            vec![format!("{at}.imageOverrider[0].predicate.path")],
        ),
        (
            rule(
                json!({"labelsOverrider": [{"operator": "add", "value": {"a": "b c"}}], "annotationsOverrider": [{"operator": "add", "value": {"a": "b c"}}]}),
            ),
            vec![format!("{at}.labelsOverrider[0].value")],
        ),
        (
            rule(json!({"fieldOverrider": [{"fieldPath": "/data/x"}]})),
            vec![format!("{at}.fieldOverrider[0]")],
        ),
        (
            rule(
                json!({"fieldOverrider": [{"fieldPath": "/data/x", "json": [{"subPath": "/a", "operator": "add"}, {"subPath": "~", "operator": "remove", "value": 1}]}]}),
            ),
            vec![
                format!("{at}.fieldOverrider[0].json[0].value"),
                format!("{at}.fieldOverrider[0].json[1].subPath"),
                format!("{at}.fieldOverrider[0].json[1].value"),
            ],
        ),
        (
            json!({"metadata": {}, "spec": {"overrideRules": [{"overriders": {}}], "targetCluster": {}}}),
            vec!["spec.overrideRules".to_owned()],
        ),
    ];
    for (object, wanted) in table {
        assert_eq!(complaints(POLICY, "OverridePolicy", &object, None), wanted, "{object}");
    }
}

#[test]
fn wrong_clusters_are_refused() {
    let with = |name: &str, field: &str, value: Value| {
        let mut object = json!({"metadata": {"name": name}, "spec": {"syncMode": "Pull"}});
        object["spec"][field] = value;
        object
    };
    let long = "a".repeat(49);
    let table: Vec<(Value, &[&str])> = vec![
        (with("m1", "region", json!("eu")), &[]),
        (with("M1", "region", json!("eu")), &["metadata.name"]),
        (with("a.b", "region", json!("eu")), &["metadata.name"]),
        (with(&long, "region", json!("eu")), &["metadata.name"]),
        (with("", "region", json!("eu")), &["metadata.name"]),
        (with("m1", "syncMode", json!("")), &["spec.syncMode"]),
        (with("m1", "region", json!("a b")), &["spec.region"]),
        (with("m1", "apiEndpoint", json!("https://1.2.3.4:6443/x")), &[]),
        (with("m1", "apiEndpoint", json!("1.2.3.4:6443")), &["spec.apiEndpoint"]),
        (with("m1", "apiEndpoint", json!("https://u@h")), &["spec.apiEndpoint"]),
        (with("m1", "apiEndpoint", json!("https://h?q")), &["spec.apiEndpoint"]),
        (with("m1", "apiEndpoint", json!("https:///p")), &["spec.apiEndpoint"]),
        (with("m1", "proxyURL", json!("socks5://h:1")), &[]),
        (with("m1", "proxyURL", json!("ftp://h:1")), &["spec.proxyURL"]),
        (
            with(
                "m1",
                "taints",
                json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
            ),
            &["spec.taints[1]"],
        ),
        (
            with("m1", "taints", json!([{"key": "a b", "effect": "Never"}])),
            &["spec.taints[0].key", "spec.taints[0].effect"],
        ),
        (
            with(
                "m1",
                "resourceModels",
                json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "3", "max": "9223372036854775807"}]}]),
            ),
            &["spec.resourceModels[1].ranges[0].min"],
        ),
        (
            with(
                "m1",
                "resourceModels",
                json!([{"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "1"}]}]),
            ),
            &[
                "spec.resourceModels[0].grade",
                "spec.resourceModels[0].ranges[0]",
                "spec.resourceModels[0].ranges[0].min",
                "spec.resourceModels[0].ranges[0].max",
            ],
        ),
    ];
    for (object, wanted) in table {
        assert_eq!(complaints("cluster.karmada.io", "Cluster", &object, None), wanted, "{object}");
    }
}

#[test]
fn a_protected_object_is_not_deleted() {
    let label = |value: &str| json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": value}}});
    assert!(admission::refuse_deletion(&label("Always")).is_some());
    assert!(admission::refuse_deletion(&label("always")).is_none());
    assert!(admission::refuse_deletion(&json!({})).is_none());
}

#[test]
fn a_binding_is_checked() {
    let wrong = json!({"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": "{"}},
                       "spec": {"components": [{"name": "a"}, {"name": "a"}]}});
    assert_eq!(
        complaints("work.karmada.io", "ResourceBinding", &wrong, None),
        ["metadata.annotations[resourcebinding.karmada.io/dependencies]", "spec.components[1].name"]
    );
}

#[test]
fn causes_read_as_kube_apiserver_writes_them() {
    use karmada_field::FieldError;
    let table = [
        (FieldError::required("a", "b"), "FieldValueRequired", "a: Required value: b"),
        (FieldError::invalid("a", "v", "b"), "FieldValueInvalid", "a: Invalid value: \"v\": b"),
        (
            FieldError::not_supported("a", "v", &["x", "y"]),
            "FieldValueNotSupported",
            "a: Unsupported value: \"v\": supported values: \"x\", \"y\"",
        ),
        (FieldError::forbidden("a", "b"), "FieldValueForbidden", "a: Forbidden: b"),
        (FieldError::duplicate("a", "v"), "FieldValueDuplicate", "a: Duplicate value: \"v\""),
        (FieldError::too_long("a", 9), "FieldValueTooLong", "a: Too long: may not be more than 9 bytes"),
    ];
    for (error, reason, text) in table {
        assert_eq!((error.kind.reason(), error.to_string().as_str()), (reason, text));
    }
}

/// Nothing of a stored object may be lost when a controller reads it as typed and writes it back.
#[test]
fn typed_kinds_lose_nothing() {
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "b"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "n", "uid": "u", "resourceVersion": "7"},
            "propagateDeps": true, "replicas": 3, "schedulerName": "s", "conflictResolution": "Abort", "preserveResourcesOnDeletion": false,
            "replicaRequirements": {"namespace": "d", "priorityClassName": "p", "resourceRequest": {"cpu": "100m"},
                "nodeClaim": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}],
                    "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}},
            "components": [{"name": "c", "replicas": 1, "replicaRequirements": {"resourceRequest": {"memory": "1Gi"}}}],
            "clusters": [{"name": "m1", "replicas": 2, "components": [{"name": "c", "replicas": 1}]}],
            "gracefulEvictionTasks": [{"fromCluster": "m2", "purgeMode": "Gracefully", "replicas": 1, "reason": "r", "message": "m",
                "producer": "p", "gracePeriodSeconds": 3, "suppressDeletion": true, "creationTimestamp": "2024-01-01T00:00:00Z",
                "preservedLabelState": {"a": "b"}, "clustersBeforeFailover": ["m3"]}],
            "requiredBy": [{"namespace": "d", "name": "x", "clusters": [{"name": "m1"}]}],
            "rescheduleTriggeredAt": "2024-01-01T00:00:00Z",
            "suspension": {"dispatching": true, "scheduling": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}},
            "schedulePriority": {"priority": 3},
            "workloadAffinityGroups": {"affinityGroup": "a=b", "antiAffinityGroup": "c=d"},
            "failover": {"application": {"decisionConditions": {"tolerationSeconds": 3}, "purgeMode": "Never", "gracePeriodSeconds": 4,
                "statePreservation": {"rules": [{"aliasLabelName": "a", "jsonPath": "{.b}"}]}}, "cluster": {"purgeMode": "Directly"}},
            "placement": {"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "exclude": ["m2"],
                    "labelSelector": {"matchLabels": {"a": "b"}}, "fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]},
                    "overflowAffinities": [{"affinityName": "o", "clusterNames": ["m4"]}]}],
                "clusterTolerations": [{"key": "k", "operator": "Exists"}],
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["m1"]}, "weight": 2}], "dynamicWeight": "AvailableReplicas"}},
                "workloadAffinity": {"affinity": {"groupByLabelKey": "k"}, "antiAffinity": {"groupByLabelKey": "l"}}}},
        "status": {"schedulerObservedGeneration": 3, "schedulerObservingAffinityName": "a", "lastScheduledTime": "2024-01-01T00:00:00Z",
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
            "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy", "status": {"n": 9_007_199_254_740_993_i64}},
                                 {"clusterName": "m2", "appliedMessage": "no"}]}});
    let typed: karmada_api::binding::ResourceBinding = serde_json::from_value(binding.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), binding);
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"id": "i", "syncMode": "Pull", "apiEndpoint": "https://h", "secretRef": {"namespace": "a", "name": "b"},
            "impersonatorSecretRef": {"namespace": "a", "name": "c"}, "insecureSkipTLSVerification": true, "proxyURL": "http://p",
            "proxyHeader": {"h": "v"}, "provider": "p", "region": "r", "zone": "z", "zones": ["z"],
            "taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}],
            "resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}]},
        "status": {"kubernetesVersion": "v1", "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "nodeSummary": {"totalNum": 2, "readyNum": 1}, "remedyActions": ["TrafficControl"],
            "resourceSummary": {"allocatable": {"cpu": "1"}, "allocating": {"cpu": "1"}, "allocated": {"cpu": "1"},
                "allocatableModelings": [{"grade": 0, "count": 0}]}}});
    let typed: Cluster = serde_json::from_value(cluster.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), cluster);
}

proptest! {
    #[test]
    fn names_are_lower_case_and_stable(name in "[A-Za-z:0-9-]{1,30}", namespace in "[a-z]{0,5}") {
        let work = names::work_name("Role", &name, &namespace);
        prop_assert_eq!(&work, &names::work_name("role", &name.to_lowercase(), &namespace));
        prop_assert!(!work.contains(':') && work == work.to_lowercase());
    }

    #[test]
    fn execution_namespaces_lead_back(cluster in "[a-z0-9-]{1,48}") {
        let namespace = names::execution_namespace(&cluster);
        prop_assert_eq!(names::cluster_of_execution_namespace(&namespace), Some(cluster.as_str()));
    }

    #[test]
    fn pruning_twice_is_pruning_once(kind in prop::sample::select(vec!["Deployment", "Job", "Service", "Secret", "ServiceAccount"])) {
        let mut once = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "uid": "u", "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "type": "kubernetes.io/service-account-token", "data": {"a": "b"}, "secrets": [{"name": "a-token-x"}],
            "spec": {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ttlSecondsAfterFinished": 3}, "status": {}});
        manifest::prune(&mut once, true);
        let mut twice = once.clone();
        manifest::prune(&mut twice, true);
        prop_assert_eq!(once, twice);
    }
}
