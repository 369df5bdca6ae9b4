//! Works of a binding: what each cluster is sent, and which go.

use karmada_api::admission::{self, Context, Operation};
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::work::Work;
use karmada_core::binding::{self as works, Input, WorkError};
use karmada_core::overrides;
use karmada_core::targets::Places;
use karmada_core::template_ownership;
use karmada_interpreter::Native;
use serde_json::{Value, json};

use super::{binding, deployment, member, now};

fn clusters() -> Vec<Cluster> {
    ["m1", "m2", "m3"].into_iter().map(member).collect()
}

pub(super) fn placed(targets: Value) -> ResourceBinding {
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
    let context = Context { now: now(), new_uuid: &|| "w-1".to_owned(), grades: Default::default() };
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

/// Of another group's kind of that name, nobody knows what its completions are.
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
        assert_eq!(
            template_ownership::is_left_over(of, template),
            left_over,
            "{:?} {template:?}",
            of.metadata
        );
    }
    assert!(
        template_ownership::is_of_another(&owned, &anew) && !template_ownership::is_of_another(&owned, &same)
    );
    assert!(!template_ownership::is_of_another(&by_hand, &anew));
}
