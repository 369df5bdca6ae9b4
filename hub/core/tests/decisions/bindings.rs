//! Works of a binding, and the statuses that come back.

use karmada_api::admission::{self, Context, Operation};
use karmada_api::binding::{AggregatedStatusItem, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::work::Work;
use karmada_core::belonging;
use karmada_core::binding::{self as works, Input, WorkError};
use karmada_core::targets::Places;
use karmada_core::{overrides, status};
use karmada_interpreter::Native;
use serde_json::{Value, json};

use super::{binding, deployment, later, member, now};

fn clusters() -> Vec<Cluster> {
    ["m1", "m2", "m3"].into_iter().map(member).collect()
}

fn placed(targets: Value) -> ResourceBinding {
    let mut binding = binding(
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}),
    );
    binding.spec.clusters = serde_json::from_value(targets).unwrap();
    binding
}

fn wanted(
    binding: &ResourceBinding,
    template: &Value,
    overrides: &[OverridePolicy],
) -> Vec<works::ClusterWork> {
    let clusters = clusters();
    let input = Input {
        binding,
        template,
        clusters: &clusters,
        cluster_overrides: &[],
        overrides,
        interpreter: &Native,
        injects_state: false,
        residency: &Default::default(),
    };
    works::render_works(&input).collect()
}

fn work(wanted: &works::ClusterWork) -> Value {
    serde_json::to_value(wanted.work.as_ref().unwrap()).unwrap()
}

/// A Work as the store has it: admitted.
fn stored(work: &Work) -> Work {
    let mut value = serde_json::to_value(work).unwrap();
    let context = Context { now: now(), new_uuid: &|| "w-1".to_owned() };
    admission::mutate("work.karmada.io", "Work", Operation::Create, &mut value, None, &context);
    value["metadata"]["resourceVersion"] = json!("5");
    value["metadata"]["uid"] = json!("uid");
    serde_json::from_value(value).unwrap()
}

#[test]
fn one_work_per_cluster() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let wanted = wanted(&binding, &deployment(), &[]);
    assert_eq!(wanted.iter().map(|w| w.cluster.as_str()).collect::<Vec<_>>(), ["m1", "m2"]);
    let first = work(&wanted[0]);
    assert_eq!((&first["apiVersion"], &first["kind"]), (&json!("work.karmada.io/v1alpha1"), &json!("Work")));
    assert_eq!(
        first["metadata"],
        json!({"name": "nginx-687f7fb96f", "namespace": "karmada-es-m1",
        "labels": {"resourcebinding.karmada.io/permanent-id": "b-1"},
        "annotations": {"resourcebinding.karmada.io/name": "nginx-deployment", "resourcebinding.karmada.io/namespace": "default"},
        "finalizers": ["karmada.io/execution-controller"]})
    );
    let manifest = &first["spec"]["workload"]["manifests"][0];
    assert_eq!(
        manifest["metadata"],
        json!({"name": "nginx", "namespace": "default",
        "labels": {"app": "nginx", "karmada.io/managed": "true", "resourcebinding.karmada.io/permanent-id": "b-1"},
        "annotations": {"resourcebinding.karmada.io/name": "nginx-deployment", "resourcebinding.karmada.io/namespace": "default",
            "work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "nginx-687f7fb96f",
            "resourcetemplate.karmada.io/uid": "t-1", "resourcetemplate.karmada.io/generation": "3",
            "work.karmada.io/conflict-resolution": "abort"}})
    );
    assert_eq!(manifest.get("status"), None);
    assert_eq!(manifest["spec"]["replicas"], 4);
    assert_eq!(work(&wanted[1])["spec"]["workload"]["manifests"][0]["spec"]["replicas"], 2);
}

#[test]
fn a_config_map_and_a_required_binding() {
    let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default", "uid": "t-1",
        "annotations": {"work.karmada.io/conflict-resolution": "overwrite"}}, "data": {"a": "b"}});
    let mut attached = placed(json!([]));
    attached.spec.replicas = 0;
    attached.spec.required_by = serde_json::from_value(
        json!([{"namespace": "default", "name": "x", "clusters": [{"name": "m3", "replicas": 2}]}]),
    )
    .unwrap();
    let wanted = wanted(&attached, &template, &[]);
    assert_eq!(wanted.len(), 1);
    let manifest = &work(&wanted[0])["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest["data"], json!({"a": "b"}));
    assert_eq!(manifest["metadata"]["annotations"]["work.karmada.io/conflict-resolution"], "overwrite");
    assert_eq!(manifest["metadata"]["annotations"].get("resourcetemplate.karmada.io/generation"), None);
}

/// What another binding requires is sent as its template has it: only clusters of its own get a share of its replicas.
#[test]
fn a_workload_that_is_required_is_not_divided_among_those_who_require_it() {
    let replicas = |binding: &ResourceBinding| -> Vec<(String, Value)> {
        let of = |wanted: &works::ClusterWork| {
            let replicas = work(wanted)["spec"]["workload"]["manifests"][0]["spec"]["replicas"].clone();
            (wanted.cluster.clone(), replicas)
        };
        wanted(binding, &deployment(), &[]).iter().map(of).collect()
    };
    let whole = deployment()["spec"]["replicas"].clone();
    let mut both = placed(json!([{"name": "m1", "replicas": 4}]));
    both.spec.required_by = serde_json::from_value(
        json!([{"namespace": "default", "name": "x", "clusters": [{"name": "m1", "replicas": 9}, {"name": "m3", "replicas": 2}]}]),
    )
    .unwrap();
    assert_ne!(whole, json!(4));
    assert_eq!(replicas(&both), [("m1".to_owned(), json!(4)), ("m3".to_owned(), whole.clone())]);
    both.spec.clusters.clear();
    both.spec.placement = None;
    assert_eq!(replicas(&both), [("m1".to_owned(), whole.clone()), ("m3".to_owned(), whole)]);
}

#[test]
fn a_job_is_divided_with_its_completions() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default", "uid": "t-1"},
        "spec": {"parallelism": 3, "completions": 9, "ttlSecondsAfterFinished": 5, "template": {"spec": {}}}});
    let mut divided = placed(json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]));
    divided.spec.replicas = 3;
    let specs: Vec<Value> = wanted(&divided, &job, &[])
        .iter()
        .map(|w| work(w)["spec"]["workload"]["manifests"][0]["spec"].clone())
        .collect();
    assert_eq!(specs[0], json!({"parallelism": 2, "completions": 6, "template": {"spec": {}}}));
    assert_eq!((&specs[1]["parallelism"], &specs[1]["completions"]), (&json!(1), &json!(3)));
    divided.spec.placement = Some(karmada_api::policy::Placement::default());
    let copied = wanted(&divided, &job, &[]);
    assert_eq!(work(&copied[0])["spec"]["workload"]["manifests"][0]["spec"]["completions"], 9);
}

/// Of another group's kind of that name, nobody knows what its completions are.
/// Nobody divides parts: of each the number stands in the template.
#[test]
fn a_workload_of_several_parts_is_sent_as_it_is() {
    let mut binding = placed(json!([{"name": "m1"}, {"name": "m2"}]));
    binding.spec.replicas = 0;
    let parts = ["leader", "worker"].map(|name| json!({"name": name, "replicas": 3}));
    binding.spec.components = serde_json::from_value(json!(parts)).unwrap();
    let works = wanted(&binding, &deployment(), &[]);
    for one in &works {
        let manifest = &work(one)["spec"]["workload"]["manifests"][0];
        assert_eq!(manifest["spec"]["replicas"], deployment()["spec"]["replicas"], "{manifest}");
    }
    assert_eq!(works.len(), 2);
}

#[test]
fn completions_of_what_is_no_job_are_left_alone() {
    let divided = placed(json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]));
    for (api_version, kind) in [("example.io/v1", "Job"), ("batch/v1", "CronJob")] {
        let other = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "j", "namespace": "default", "uid": "t-1"},
            "spec": {"completions": 9}});
        for placed in wanted(&divided, &other, &[]) {
            assert_eq!(
                work(&placed)["spec"]["workload"]["manifests"][0]["spec"]["completions"],
                9,
                "{api_version} {kind}"
            );
        }
    }
}

/// The hub gives a Service an address; an override that takes it away takes the list of addresses along, which a member refuses alone.
#[test]
fn an_override_that_takes_a_services_address_takes_the_list_of_them() {
    let binding = placed(json!([{"name": "m1"}]));
    let takes: OverridePolicy = serde_json::from_value(json!({"metadata": {"name": "o", "namespace": "default"}, "spec": {
        "overrideRules": [{"overriders": {"plaintext": [{"path": "/spec/clusterIP", "operator": "remove"}]}}]}}))
    .unwrap();
    let of = |kind: &str, address: &str, overrides: &[OverridePolicy]| {
        let template = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "s", "namespace": "default", "uid": "t-1"},
            "spec": {"clusterIP": address, "clusterIPs": [address]}});
        let spec =
            work(&wanted(&binding, &template, overrides)[0])["spec"]["workload"]["manifests"][0]["spec"]
                .take();
        (spec["clusterIP"].is_string(), spec["clusterIPs"].is_array())
    };
    let takes = std::slice::from_ref(&takes);
    assert_eq!(of("Service", "10.0.0.9", takes), (false, false));
    assert_eq!(of("Service", "None", takes), (false, true), "it says so itself");
    assert_eq!(of("Service", "None", &[]), (true, true));
    assert_eq!(of("Thing", "10.0.0.9", takes), (false, true), "no Service");
}

#[test]
fn suspension_conflict_and_preservation() {
    let mut binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    binding.spec.conflict_resolution = Some(karmada_api::policy::ConflictResolution::Overwrite);
    binding.spec.preserve_resources_on_deletion = Some(true);
    binding.spec.suspension =
        serde_json::from_value(json!({"dispatchingOnClusters": {"clusterNames": ["m2"]}})).unwrap();
    let specs: Vec<Value> =
        wanted(&binding, &deployment(), &[]).iter().map(|w| work(w)["spec"].clone()).collect();
    assert_eq!(specs[0].get("suspendDispatching"), None);
    assert_eq!(specs[1]["suspendDispatching"], true);
    assert_eq!(specs[0]["preserveResourcesOnDeletion"], true);
    assert_eq!(
        specs[0]["workload"]["manifests"][0]["metadata"]["annotations"]["work.karmada.io/conflict-resolution"],
        "overwrite"
    );
    // What the template says itself comes first.
    for said in ["abort", "overwrite"] {
        let mut template = deployment();
        template["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": said});
        let manifest = work(&wanted(&binding, &template, &[])[0])["spec"]["workload"]["manifests"][0].take();
        assert_eq!(manifest["metadata"]["annotations"]["work.karmada.io/conflict-resolution"], said);
    }
    binding.spec.suspension = serde_json::from_value(json!({"dispatching": true})).unwrap();
    assert!(
        wanted(&binding, &deployment(), &[]).iter().all(|w| work(w)["spec"]["suspendDispatching"] == true)
    );
}

#[test]
fn one_bad_override_spoils_one_cluster() {
    let policy: OverridePolicy = serde_json::from_value(json!({"metadata": {"name": "o", "namespace": "default"}, "spec": {"overrideRules": [
        {"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "r.io"}]}},
        {"targetCluster": {"clusterNames": ["m2"]}, "overriders": {"plaintext": [{"path": "/spec/nope", "operator": "remove"}]}}]}})).unwrap();
    let binding = placed(
        json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}, {"name": "gone", "replicas": 1}]),
    );
    let wanted = wanted(&binding, &deployment(), &[policy]);
    let by_name = |name: &str| wanted.iter().find(|w| w.cluster == name).unwrap();
    assert!(matches!(by_name("gone").work, Err(WorkError::NoCluster(_))));
    assert!(matches!(by_name("m2").work, Err(WorkError::Override(_))));
    let good = by_name("m1");
    assert_eq!(good.applied.namespaced.names(), ["o"]);
    let good = work(good);
    assert_eq!(
        good["spec"]["workload"]["manifests"][0]["spec"]["template"]["spec"]["containers"][0]["image"],
        "r.io/nginx:1"
    );
    assert_eq!(
        good["metadata"]["annotations"]["policy.karmada.io/applied-overrides"],
        "[{\"policyName\":\"o\",\"overriders\":{\"imageOverrider\":[{\"component\":\"Registry\",\"operator\":\"replace\",\"value\":\"r.io\"}]}}]"
    );
}

#[test]
fn a_cluster_on_its_way_out_gets_no_work() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let mut clusters = clusters();
    clusters[0].metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let template = deployment();
    let none: [OverridePolicy; 0] = [];
    let input = Input {
        binding: &binding,
        template: &template,
        clusters: &clusters,
        cluster_overrides: &none,
        overrides: &none,
        interpreter: &Native,
        injects_state: false,
        residency: &Default::default(),
    };
    let wanted: Vec<works::ClusterWork> = works::render_works(&input).collect();
    assert_eq!(wanted[0].work, Err(WorkError::Leaving("m1".to_owned())));
    assert!(wanted[1].work.is_ok());
}

/// The rule against escalation judges what is written to the hub; what an agent applies, it does not see.
#[test]
fn an_override_policy_changes_nothing_of_what_a_role_or_its_binding_grants() {
    let cluster = Cluster::default();
    let granting = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "a", "namespace": "default"}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    for (path, value, stands) in [
        ("/roleRef/name", json!("cluster-admin"), false),
        ("/subjects", json!([{"kind": "User", "name": "mallory"}]), false),
        ("/rules", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]), false),
        ("/metadata/labels", json!({"team": "a"}), true),
        ("/metadata/annotations", json!({"work.karmada.io/conflict-resolution": "overwrite"}), true),
    ] {
        let mut policy: OverridePolicy = serde_json::from_value(
            json!({"metadata": {"name": "o", "namespace": "default"}, "spec": {"overrideRules": [
            {"overriders": {"plaintext": [{"path": path, "operator": "add", "value": value}]}}]}}),
        )
        .unwrap();
        let mut manifest = granting.clone();
        let applied = overrides::apply(&mut manifest, &cluster, &[], std::slice::from_ref(&policy));
        assert_eq!(applied.is_ok(), stands, "{path}");
        assert!(applied.is_ok_and(|_| manifest != granting) == stands, "{path}");
        policy.metadata.namespace = None;
        assert!(overrides::apply(&mut granting.clone(), &cluster, &[policy], &[]).is_ok(), "{path}");
    }
}

/// Who may write in one namespace must not reach others, nor kinds that they have no right to, by way of an agent that may apply everything.
#[test]
fn an_override_policy_makes_no_other_object_of_its_own() {
    let cluster = Cluster::default();
    let policy = |operation: &Value| -> OverridePolicy {
        serde_json::from_value(
            json!({"metadata": {"name": "o", "namespace": "default"}, "spec": {"overrideRules": [
            {"overriders": {"plaintext": [operation]}}]}}),
        )
        .unwrap()
    };
    let template =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    for (path, value) in [
        ("/kind", json!("ClusterRoleBinding")),
        ("/apiVersion", json!("rbac.authorization.k8s.io/v1")),
        ("/metadata/namespace", json!("kube-system")),
        ("/metadata/name", json!("coredns")),
        ("/metadata", json!({"name": "a", "namespace": "kube-system"})),
    ] {
        let change = policy(&json!({"path": path, "operator": "replace", "value": value}));
        let mut manifest = template.clone();
        let error =
            overrides::apply(&mut manifest, &cluster, &[], std::slice::from_ref(&change)).unwrap_err();
        assert!(
            error.to_string().contains("default/o") && error.message.contains("another object"),
            "{error}"
        );
        let mut wide = change;
        wide.metadata.namespace = None;
        let mut manifest = template.clone();
        assert!(
            overrides::apply(&mut manifest, &cluster, &[wide], &[]).is_ok(),
            "who may write those may write anything"
        );
    }
    let own = policy(&json!({"path": "/data", "operator": "add", "value": {"k": "v"}}));
    let mut manifest = template;
    assert!(overrides::apply(&mut manifest, &cluster, &[], &[own]).is_ok());
}

#[test]
fn overriders_see_the_template_before_it_is_pruned() {
    let template = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "namespace": "default", "uid": "t-1", "finalizers": ["example.org/x"]},
        "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80}]}, "status": {"loadBalancer": {}}});
    let policy: OverridePolicy = serde_json::from_value(json!({"metadata": {"name": "o", "namespace": "default"}, "spec": {"overrideRules": [
        {"overriders": {"plaintext": [
            {"path": "/spec/clusterIP", "operator": "remove"},
            {"path": "/status", "operator": "remove"},
            {"path": "/metadata/finalizers", "operator": "replace", "value": ["example.org/y"]},
            {"path": "/metadata/annotations", "operator": "add", "value": {"work.karmada.io/conflict-resolution": "overwrite"}}]}}]}})).unwrap();
    let binding = placed(json!([{"name": "m1", "replicas": 0}]));
    let wanted = wanted(&binding, &template, &[policy]);
    let manifest = &work(&wanted[0])["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest["spec"], json!({"ports": [{"port": 80}]}), "and it is pruned all the same");
    assert_eq!((manifest.get("status"), manifest["metadata"].get("finalizers")), (None, None));
    assert_eq!(
        manifest["metadata"]["annotations"]["work.karmada.io/conflict-resolution"], "overwrite",
        "an overrider may say what happens to what is in the way"
    );
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}]));
    let first = wanted(&binding, &deployment(), &[])[0].work.clone().unwrap();
    let existing = stored(&first);
    assert_eq!(works::merged(&existing, &first), None);
    let mut template = deployment();
    template["metadata"]["resourceVersion"] = json!("8");
    template["status"] = json!({"replicas": 2});
    assert_eq!(works::merged(&existing, wanted(&binding, &template, &[])[0].work.as_ref().unwrap()), None);
    template["metadata"]["labels"]["new"] = json!("label");
    let changed =
        works::merged(&existing, wanted(&binding, &template, &[])[0].work.as_ref().unwrap()).unwrap();
    assert_eq!(changed.metadata.resource_version.as_deref(), Some("5"));
    let manifest = &changed.spec.workload.manifests[0]["metadata"];
    assert_eq!(manifest["labels"]["work.karmada.io/permanent-id"], "w-1");
    assert!(
        manifest["annotations"]["resourcetemplate.karmada.io/managed-labels"]
            .as_str()
            .unwrap()
            .contains("new")
    );
    // An override that no longer applies is no longer noted.
    let mut noted = existing.clone();
    noted
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("policy.karmada.io/applied-overrides".to_owned(), "[]".to_owned());
    assert_eq!(works::merged(&noted, &first).unwrap().metadata.annotations, existing.metadata.annotations);
}

fn items(works: &[Work]) -> Vec<AggregatedStatusItem> {
    let binding = placed(json!([]));
    works.iter().filter_map(|work| status::item(&binding, work)).collect()
}

fn work_in(cluster: &str, applied: Option<bool>, status: Value) -> Work {
    let conditions = applied.map(|applied| json!([{"type": "Applied", "status": if applied { "True" } else { "False" },
        "reason": "r", "message": if applied { "" } else { "it broke" }, "lastTransitionTime": "2024-01-01T00:00:00Z"}]));
    serde_json::from_value(json!({"metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}")}, "spec": {},
        "status": {"conditions": conditions.unwrap_or(json!([])),
                   "manifestStatuses": if status.is_null() { json!([]) } else { json!([{"identifier": {}, "status": status, "health": "Healthy"}]) }}})).unwrap()
}

#[test]
fn works_nobody_wants_go() {
    let mut binding = placed(json!([{"name": "m1", "replicas": 4}]));
    binding.spec.graceful_eviction_tasks = serde_json::from_value(json!([
        {"fromCluster": "m2", "purgeMode": "Gracefully", "reason": "r", "producer": "p"},
        {"fromCluster": "m3", "purgeMode": "Directly", "reason": "r", "producer": "p"}]))
    .unwrap();
    let places = Places::of(&binding);
    let all = ["karmada-es-m1", "karmada-es-m2", "karmada-es-m3", "karmada-es-m4", "elsewhere"];
    assert_eq!(all.map(|namespace| places.is_unwanted(namespace)), [false, false, true, true, true]);
    assert_eq!(all.map(|namespace| places.goes_first(namespace)), [false, false, true, false, false]);
    assert_eq!(works::work_selector(&binding), ("resourcebinding.karmada.io/permanent-id", "b-1".to_owned()));
}

#[test]
fn statuses_come_together() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let (good, bad) =
        (work_in("m2", Some(true), json!({"replicas": 2})), work_in("m1", Some(false), Value::Null));
    let mut leaving = work_in("m3", Some(true), Value::Null);
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let partly = status::binding_status(&binding, items(&[good.clone(), bad, leaving]), now()).unwrap();
    assert_eq!(
        serde_json::to_value(&partly.aggregated_status).unwrap(),
        json!([
        {"clusterName": "m1", "appliedMessage": "it broke", "health": "Unknown"},
        {"clusterName": "m2", "applied": true, "health": "Healthy", "status": {"replicas": 2}}])
    );
    assert_eq!(partly.condition("FullyApplied").unwrap().reason, "FullyAppliedFailed");
    let works = [good, work_in("m1", Some(true), Value::Null)];
    let mut known = binding.clone();
    known.status = status::binding_status(&binding, items(&works), now()).unwrap();
    assert_eq!(known.status.condition("FullyApplied").unwrap().status, "True");
    assert_eq!(status::binding_status(&known, items(&works), later()), None);
    assert_eq!(
        status::binding_status(&known, items(&works[..1]), later())
            .unwrap()
            .condition("FullyApplied")
            .unwrap()
            .status,
        "False"
    );
    assert!(!status::fully_applied(&placed(json!([])), &[]));
}

#[test]
fn fully_applied_goes_by_the_clusters_names() {
    let mut binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let of = |clusters: &[&str]| {
        items(&clusters.iter().map(|c| work_in(c, Some(true), Value::Null)).collect::<Vec<_>>())
    };
    assert!(status::fully_applied(&binding, &of(&["m1", "m2"])));
    assert!(!status::fully_applied(&binding, &of(&["m1", "m3"])), "as many, but others");
    assert!(status::fully_applied(&binding, &of(&["m1", "m2", "m3"])), "one more is on its way out");
    binding.spec.graceful_eviction_tasks = serde_json::from_value(json!([
        {"fromCluster": "m3", "purgeMode": "Gracefully", "reason": "r", "producer": "p"}]))
    .unwrap();
    assert!(
        !status::fully_applied(&binding, &of(&["m1", "m2"])),
        "what is being left counts until it is left"
    );
    assert!(status::fully_applied(&binding, &of(&["m1", "m2", "m3"])));
}

#[test]
fn what_was_applied_of_an_older_generation_is_not_applied() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}]));
    let at = |observed: Option<i64>| {
        let mut work = work_in("m1", Some(true), json!({"replicas": 4}));
        work.metadata.generation = Some(2);
        work.status.conditions[0].observed_generation = observed;
        let known = status::binding_status(&binding, items(&[work]), now()).unwrap();
        let item = &known.aggregated_status[0];
        (item.applied, known.condition("FullyApplied").unwrap().status.clone(), item.applied_message.clone())
    };
    assert_eq!((at(Some(2)).0, at(Some(2)).1.as_str()), (true, "True"));
    assert_eq!((at(None).0, at(None).1.as_str()), (true, "True"), "from before generations were told");
    let mut held_back = work_in("m1", Some(true), json!({"replicas": 4}));
    held_back.metadata.generation = Some(2);
    held_back.status.conditions[0].observed_generation = Some(1);
    held_back.spec.suspend_dispatching = Some(true);
    assert!(items(&[held_back])[0].applied, "what is held back waits for nobody");
    let (applied, fully, message) = at(Some(1));
    assert_eq!((applied, fully.as_str()), (false, "False"));
    assert_eq!(message, "generation 2 has not been applied yet; the cluster has generation 1");
}

#[test]
fn what_no_deployment_can_say_is_left_out() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let good = json!({"replicas": 2, "readyReplicas": 2, "observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": 3});
    for bad in [json!(1.5), json!(i64::MAX), json!(-3), json!("2"), json!(2_147_483_648_i64)] {
        let works = [
            work_in("m1", Some(true), json!({"readyReplicas": bad})),
            work_in("m2", Some(true), good.clone()),
        ];
        let known = status::binding_status(&binding, items(&works), now()).unwrap();
        let item = serde_json::to_value(&known.aggregated_status[0]).unwrap();
        let why = item["appliedMessage"].as_str().unwrap_or_default();
        assert!(
            why.starts_with("what this cluster reports was left out: status.readyReplicas is "),
            "{bad}: {item}"
        );
        assert_eq!(
            (&item["health"], item.get("status"), &item["applied"]),
            (&json!("Unknown"), None, &json!(true))
        );
        let template = status::template_status(&deployment(), &known.aggregated_status, &Native, now())
            .unwrap()
            .unwrap();
        assert_eq!(template["status"]["readyReplicas"], 2, "{bad}: the other's counts");
        assert_eq!(template["status"].get("observedGeneration"), None, "{bad}: not all have seen it");
        assert_eq!(status::newly_left_out(&binding.status, &known), [format!("m1: {why}")]);
        assert!(status::newly_left_out(&known, &known).is_empty(), "told once");
    }
    let most = json!({"readyReplicas": i32::MAX});
    let works = ["m1", "m2"].map(|cluster| work_in(cluster, Some(true), most.clone()));
    let known = status::binding_status(&binding, items(&works), now()).unwrap();
    let template =
        status::template_status(&deployment(), &known.aggregated_status, &Native, now()).unwrap().unwrap();
    assert_eq!(template["status"]["readyReplicas"], i32::MAX, "as much as the API can hold");
}

/// Karmada's rule: a generation is observed once every cluster has said so. One whose word is left out has not said so, which takes
/// nothing back of what was observed before, and holds up nobody's numbers.
#[test]
fn a_cluster_whose_word_is_left_out_takes_back_no_generation() {
    let binding = placed(json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]));
    let seen = |replicas: Value, generation: u64| json!({"replicas": replicas, "observedGeneration": 1, "generation": 1, "resourceTemplateGeneration": generation});
    let told = |template: &Value, m1: Value, m2: Value| {
        let works = [work_in("m1", Some(true), m1), work_in("m2", Some(true), m2)];
        let known = status::binding_status(&binding, items(&works), now()).unwrap();
        let told = status::template_status(template, &known.aggregated_status, &Native, now()).unwrap();
        told.unwrap_or_else(|| template.clone())
    };
    let numbers =
        |template: &Value| ["replicas", "observedGeneration"].map(|field| template["status"][field].clone());
    let before = told(&deployment(), seen(json!(4), 3), seen(json!(2), 3));
    assert_eq!(numbers(&before), [6, 3]);
    for bad in [json!(-4), json!(1.5), json!(i64::MAX)] {
        let same = told(&before, seen(bad.clone(), 3), seen(json!(2), 3));
        assert_eq!(numbers(&same), [2, 3], "{bad}: what was observed stays observed");
        let mut newer = before.clone();
        newer["metadata"]["generation"] = json!(4);
        let newer = told(&newer, seen(bad.clone(), 4), seen(json!(3), 4));
        assert_eq!(numbers(&newer), [3, 3], "{bad}: nobody knows whether it has seen the newer one");
        assert_eq!(numbers(&told(&newer, seen(json!(3), 4), seen(json!(3), 4))), [6, 4], "until it says so");
    }
}

#[test]
fn a_template_that_is_placed_nowhere_any_more_is_told_so() {
    let mut binding = placed(json!([]));
    assert!(!status::tells_the_template(&binding, false), "nothing was placed yet");
    binding.status.last_scheduled_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert!(status::tells_the_template(&binding, false));
    let mut template = deployment();
    template["status"] = json!({"replicas": 6, "readyReplicas": 6, "availableReplicas": 6, "updatedReplicas": 6, "observedGeneration": 3});
    let told = status::template_status(&template, &[], &Native, now()).unwrap().unwrap();
    assert_eq!((told["status"].get("readyReplicas"), told["status"].get("replicas")), (None, None));
    let of = |api_version: &str, kind: &str, status: Value| {
        let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {}, "status": status});
        status::template_status(&template, &[], &Native, now()).unwrap().map(|told| told["status"].clone())
    };
    assert_eq!(of("batch/v1", "Job", json!({"active": 2})), Some(json!({})));
    assert_eq!(of("batch/v1", "Job", json!({})), None);
    assert_eq!(
        of("batch/v1", "Job", json!({"conditions": [{"type": "Complete", "status": "True"}]})),
        None,
        "it is over"
    );
    assert_eq!(
        of("autoscaling/v2", "HorizontalPodAutoscaler", json!({"currentReplicas": 2})),
        Some(json!({}))
    );
    assert_eq!(of("v1", "Service", json!({"loadBalancer": {}})), None);
}

#[test]
fn a_template_shows_all_its_members() {
    let item = |replicas: i64| {
        json!({"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 3})
    };
    let items = items(&[work_in("m1", Some(true), item(4)), work_in("m2", Some(true), item(2))]);
    let template = status::template_status(&deployment(), &items, &Native, now()).unwrap().unwrap();
    assert_eq!(
        (&template["status"]["readyReplicas"], &template["status"]["observedGeneration"]),
        (&json!(6), &json!(3))
    );
    assert_eq!(status::template_status(&template, &items, &Native, later()).unwrap(), None);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert_eq!(status::template_status(&config, &items, &Native, now()).unwrap(), None);
}

#[test]
fn a_binding_whose_template_is_gone_is_left_over_unless_somebody_else_ends_it() {
    let mut anew = deployment();
    anew["metadata"]["uid"] = json!("t-2");
    let same = deployment();
    let loose = binding(json!({}));
    let mut owned = loose.clone();
    owned.metadata.owner_references =
        serde_json::from_value(json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "nginx", "uid": "t-1", "controller": true}]))
        .unwrap();
    let mut by_hand = loose.clone();
    by_hand.spec.resource.uid.clear();
    for (of, template, left_over) in [
        (&loose, None, true),
        (&loose, Some(&anew), true),
        (&loose, Some(&same), false),
        (&owned, None, false),
        (&owned, Some(&anew), false),
        (&by_hand, None, false),
        (&by_hand, Some(&anew), false),
    ] {
        assert_eq!(belonging::is_left_over(of, template), left_over, "{:?} {template:?}", of.metadata);
    }
    assert!(belonging::is_of_another(&owned, &anew) && !belonging::is_of_another(&owned, &same));
    assert!(!belonging::is_of_another(&by_hand, &anew));
}
