//! Who claims a template, and what its binding says.

use std::collections::BTreeSet;

use karmada_api::binding::ResourceBinding;
use karmada_api::policy::PropagationPolicy;
use karmada_core::detector::{self, BindingChange, BindingError, Decision, Parts, Reading, Takeover};
use karmada_core::skipped_resources::SkipRules;
use karmada_interpreter::{Chain, Native};
use serde_json::{Value, json};

use super::{all_deployments, deployment, policy};

const NATIVE: Reading<'_> = Reading { interpreter: &Native, parts: Parts::Together, quotas_count: false };

fn decide<'a>(
    template: &Value,
    namespaced: &'a [PropagationPolicy],
    cluster_wide: &'a [PropagationPolicy],
) -> Decision<'a> {
    detector::decide(template, namespaced, cluster_wide, &SkipRules::default(), Takeover::Never)
}

/// The labels of a claim.
fn marks(object: &Value) -> Value {
    let mut labels = object["metadata"]["labels"].clone();
    labels.as_object_mut().unwrap().retain(|key, _| key.ends_with("/permanent-id"));
    labels
}

fn winner<'a>(decision: &Decision<'a>) -> &'a str {
    match decision {
        Decision::Claimed(policy) | Decision::TakenOver(policy, _) => {
            policy.metadata.name.as_deref().unwrap()
        }
        Decision::Leave => "leave",
        Decision::Waits => "waits",
    }
}

#[test]
fn a_near_policy_beats_a_cluster_wide_one() {
    let spec = json!({"resourceSelectors": all_deployments()});
    let near = [policy("near", "default", spec.clone()), policy("elsewhere", "other", spec)];
    let wide = [policy("wide", "", json!({"resourceSelectors": all_deployments(), "priority": 9}))];
    assert_eq!(winner(&decide(&deployment(), &near, &wide)), "near");
    assert_eq!(winner(&decide(&deployment(), &near[1..], &wide)), "wide");
    assert_eq!(winner(&decide(&deployment(), &near[1..], &[])), "waits");
}

/// Whoever copies a policy copies its permanent id.
#[test]
fn a_copy_of_a_policy_has_nothing_of_the_original() {
    let with_id = |name: &str, priority: i64| {
        let mut one =
            policy(name, "default", json!({"resourceSelectors": all_deployments(), "priority": priority}));
        let id = ("propagationpolicy.karmada.io/permanent-id".to_owned(), "id".to_owned());
        one.metadata.labels.get_or_insert_default().extend([id]);
        one
    };
    let both = [with_id("a-copy", 0), with_id("web", 100)];
    let mut template = deployment();
    detector::claim(&mut template, &both[1]);
    assert_eq!(winner(&decide(&template, &both, &[])), "web");
    assert!(detector::is_claimed_by(&template, &both[1]) && !detector::is_claimed_by(&template, &both[0]));
    let annotations = template["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| !key.starts_with("propagationpolicy."));
    assert!(detector::is_claimed_by(&template, &both[0]), "marks that name none are of whoever has the id");
}

#[test]
fn a_claim_holds_until_the_policy_lets_go() {
    let spec = json!({"resourceSelectors": all_deployments()});
    let mut template = deployment();
    let first = [policy("b", "default", spec)];
    detector::claim(&mut template, &first[0]);
    let better = [
        first[0].clone(),
        policy("a", "default", json!({"resourceSelectors": all_deployments(), "priority": 9})),
    ];
    assert_eq!(winner(&decide(&template, &better, &[])), "b");

    let elsewhere =
        json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}]});
    let narrowed = [policy("b", "default", elsewhere), better[1].clone()];
    assert_eq!(winner(&decide(&template, &narrowed, &[])), "a");

    let mut leaving = better.clone();
    leaving[0].metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(super::now()));
    assert_eq!(winner(&decide(&template, &leaving, &[])), "a");
    // A policy of the same name made anew has another id.
    let mut anew = [first[0].clone()];
    anew[0]
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("propagationpolicy.karmada.io/permanent-id".to_owned(), "new".to_owned());
    assert_eq!(winner(&decide(&template, &anew, &better[1..])), "b");
}

#[test]
fn some_things_are_left_alone() {
    let wide = [policy(
        "wide",
        "",
        json!({"resourceSelectors": [
        {"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "Event"}, {"apiVersion": "v1", "kind": "Namespace"},
        {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"}]}),
    )];
    let of = |api_version: &str, kind: &str, namespace: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    let table = [
        (of("v1", "ConfigMap", "default", "a"), "wide"),
        (of("v1", "ConfigMap", "kubernetes", "a"), "wide"),
        (of("v1", "ConfigMap", "kube-public", "a"), "leave"),
        (of("v1", "ConfigMap", "karmada-system", "a"), "leave"),
        (of("v1", "ConfigMap", "karmada-cluster", "a"), "leave"),
        (of("v1", "ConfigMap", "karmada-es-m1", "a"), "leave"),
        (of("v1", "ConfigMap", "my-kube-public", "a"), "wide"),
        (of("v1", "Event", "default", "a"), "leave"),
        (of("v1", "Namespace", "", "kube-system"), "leave"),
        (of("v1", "Namespace", "", "team"), "wide"),
        (of("work.karmada.io/v1alpha1", "Work", "default", "a"), "leave"),
    ];
    for (object, wanted) in table {
        assert_eq!(winner(&decide(&object, &[], &wide)), wanted, "{object}");
    }
    let mut mcs = deployment();
    mcs["metadata"]["labels"]["resourcetemplate.karmada.io/claimed-by"] = json!("x");
    assert_eq!(winner(&decide(&mcs, &[], &wide)), "leave");
    let auth = of("v1", "ConfigMap", "kube-system", "extension-apiserver-authentication");
    let nothing_skipped = SkipRules::new([]).unwrap();
    assert_eq!(detector::decide(&auth, &[], &wide, &nothing_skipped, Takeover::Never), Decision::Leave);
    assert!(SkipRules::new(["("]).is_err());
}

#[test]
fn the_hubs_own_objects_are_never_propagated() {
    let core = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": name}});
    let of = |api_version: &str, kind: &str, metadata: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    let (rbac, flow) = ("rbac.authorization.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1");
    let (services, priorities) = ("apiregistration.k8s.io/v1", "scheduling.k8s.io/v1");
    let made = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    let token = |kind: &str| {
        let mut secret = core("Secret", "t");
        secret["type"] = json!(kind);
        secret
    };
    let finds = |api_version: &str, kind: &str, namespace: &str| {
        of(api_version, kind, json!({"namespace": namespace, "name": "kubernetes"}))
    };
    let table = [
        (core("ConfigMap", "kube-root-ca.crt"), true),
        (core("ConfigMap", "my-root-ca.crt"), false),
        (core("ServiceAccount", "default"), true),
        (core("ServiceAccount", "web"), false),
        (core("Service", "default"), false),
        (token("bootstrap.kubernetes.io/token"), true),
        (token("Opaque"), false),
        (token("kubernetes.io/service-account-token"), false),
        (finds("v1", "Service", "default"), true),
        (finds("v1", "Service", "shop"), false),
        (finds("discovery.k8s.io/v1", "EndpointSlice", "default"), true),
        (finds("v1", "ConfigMap", "default"), false),
        (of(rbac, "ClusterRole", json!({"name": "cluster-admin", "labels": made})), true),
        (
            of(
                rbac,
                "ClusterRole",
                json!({"name": "karmada-view", "labels": {"karmada.io/bootstrapping": "rbac-defaults"}}),
            ),
            true,
        ),
        (of(rbac, "ClusterRole", json!({"name": "system:karmada:north:agent"})), true),
        (of(rbac, "ClusterRole", json!({"name": "shop-reader"})), false),
        (
            of(
                flow,
                "FlowSchema",
                json!({"name": "probes", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}),
            ),
            true,
        ),
        (
            of(
                flow,
                "PriorityLevelConfiguration",
                json!({"name": "exempt", "annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}),
            ),
            true,
        ),
        (of(flow, "FlowSchema", json!({"name": "mine"})), false),
        (
            of(
                services,
                "APIService",
                json!({"name": "v1.apps", "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}),
            ),
            true,
        ),
        (of(services, "APIService", json!({"name": "v1.example.org"})), false),
        (of(priorities, "PriorityClass", json!({"name": "system-node-critical"})), true),
        (of(priorities, "PriorityClass", json!({"name": "gold"})), false),
        (of("networking.k8s.io/v1", "ServiceCIDR", json!({"name": "kubernetes"})), true),
        (of("networking.k8s.io/v1", "IPAddress", json!({"name": "10.0.0.1"})), true),
        (of("networking.k8s.io/v1", "Ingress", json!({"name": "kubernetes", "namespace": "shop"})), false),
        (
            of("coordination.k8s.io/v1", "Lease", json!({"name": "karmada-scheduler", "namespace": "shop"})),
            true,
        ),
    ];
    for (object, wanted) in table {
        let wide = [policy(
            "wide",
            "",
            json!({"resourceSelectors": [{"apiVersion": object["apiVersion"], "kind": object["kind"]}]}),
        )];
        let left =
            detector::decide(&object, &[], &wide, &SkipRules::default(), Takeover::Never) == Decision::Leave;
        assert_eq!(left, wanted, "{object}");
    }
}

#[test]
fn claims_replace_each_other_and_go() {
    let spec = json!({"resourceSelectors": all_deployments()});
    let (near, wide) = (policy("near", "default", spec.clone()), policy("wide", "", spec));
    let bare = deployment();
    let mut template = bare.clone();
    assert!(detector::claim(&mut template, &wide));
    assert!(!detector::claim(&mut template, &wide));
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"clusterpropagationpolicy.karmada.io/name": "wide"})
    );
    assert_eq!(marks(&template), json!({"clusterpropagationpolicy.karmada.io/permanent-id": "id-wide"}));
    assert!(detector::claim(&mut template, &near));
    assert_eq!(marks(&template), json!({"propagationpolicy.karmada.io/permanent-id": "id-near"}));
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"propagationpolicy.karmada.io/name": "near", "propagationpolicy.karmada.io/namespace": "default"})
    );
    assert!(detector::unclaim(&mut template));
    assert!(!detector::unclaim(&mut template));
    assert_eq!(template["metadata"]["labels"], bare["metadata"]["labels"]);
}

fn made(template: &Value, policy: &PropagationPolicy) -> ResourceBinding {
    match detector::plan_binding(template, policy, None, NATIVE, None).unwrap() {
        BindingChange::Create(binding) => *binding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_binding_says_what_template_and_policy_say() {
    let policy = policy(
        "p",
        "default",
        json!({"resourceSelectors": all_deployments(), "propagateDeps": true,
        "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true, "suspension": {"dispatching": true},
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}, "dependentOverrides": ["o1", "o2"]}),
    );
    let binding = serde_json::to_value(made(&deployment(), &policy)).unwrap();
    assert_eq!(binding["metadata"]["name"], "nginx-deployment");
    assert_eq!(binding["metadata"]["finalizers"], json!(["karmada.io/binding-controller"]));
    assert_eq!(
        binding["metadata"]["ownerReferences"][0],
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "name": "nginx", "uid": "t-1", "controller": true, "blockOwnerDeletion": true})
    );
    assert_eq!(binding["metadata"]["labels"], json!({"propagationpolicy.karmada.io/permanent-id": "id-p"}));
    assert_eq!(
        binding["spec"],
        json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx", "uid": "t-1", "resourceVersion": "7"},
        "replicas": 6, "replicaRequirements": {"resourceRequest": {"cpu": "100m"}}, "propagateDeps": true,
        "schedulerName": "default-scheduler", "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true, "suspension": {"dispatching": true}})
    );
    assert_eq!(detector::missing_overrides(&policy, &BTreeSet::from(["o2".to_owned()])), ["o1"]);

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a:b", "uid": "u"}});
    let wide = made(&role, &super::policy("w", "", json!({"resourceSelectors": []})));
    assert_eq!(
        (wide.kind.as_str(), wide.name(), wide.namespace()),
        ("ClusterResourceBinding", "a.b-clusterrole", "")
    );
    assert_eq!(wide.spec.replicas, 0);
}

#[test]
fn a_binding_is_in_the_groups_that_its_templates_labels_name() {
    let placement = json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "tier"}}});
    let policy =
        policy("p", "default", json!({"resourceSelectors": all_deployments(), "placement": placement}));
    let groups = |template: &Value| {
        serde_json::to_value(made(template, &policy).spec.workload_affinity_groups).unwrap()
    };
    let mut template = deployment();
    assert_eq!(groups(&template), json!({"affinityGroup": "app=nginx"}), "it has no label for the other");
    template["metadata"]["labels"] = json!({"tier": "db"});
    assert_eq!(groups(&template), json!({"antiAffinityGroup": "tier=db"}));
    template["metadata"]["labels"] = json!({});
    assert_eq!(groups(&template), Value::Null);
}

#[test]
fn a_binding_keeps_what_others_decided() {
    let policy = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let mut existing = made(&deployment(), &policy);
    existing.metadata.resource_version = Some("11".to_owned());
    existing.metadata.labels.as_mut().unwrap().insert("mine".to_owned(), "yes".to_owned());
    existing
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("policy.karmada.io/applied-placement".to_owned(), "{}".to_owned());
    existing.spec = serde_json::from_value({
        let mut spec = serde_json::to_value(&existing.spec).unwrap();
        spec["clusters"] = json!([{"name": "m1", "replicas": 6}]);
        spec["gracefulEvictionTasks"] = json!([{"fromCluster": "m2", "reason": "r", "producer": "p"}]);
        spec["requiredBy"] = json!([{"namespace": "d", "name": "x"}]);
        spec["suspension"] = json!({"scheduling": true});
        spec["rescheduleTriggeredAt"] = json!("2024-01-01T00:00:00Z");
        spec
    })
    .unwrap();
    let mut template = deployment();
    assert_eq!(
        detector::plan_binding(&template, &policy, Some(&existing), NATIVE, None).unwrap(),
        BindingChange::Nothing
    );
    template["metadata"]["resourceVersion"] = json!("8");
    assert_eq!(
        detector::plan_binding(&template, &policy, Some(&existing), NATIVE, None).unwrap(),
        BindingChange::Nothing
    );
    template["spec"]["replicas"] = json!(9);
    let BindingChange::Update(updated) =
        detector::plan_binding(&template, &policy, Some(&existing), NATIVE, Some(5)).unwrap()
    else {
        panic!("nothing changed")
    };
    assert_eq!((updated.spec.replicas, updated.spec.resource.resource_version.as_str()), (9, "8"));
    assert_eq!(updated.spec.clusters, existing.spec.clusters);
    assert_eq!(updated.spec.graceful_eviction_tasks, existing.spec.graceful_eviction_tasks);
    assert_eq!(updated.spec.required_by, existing.spec.required_by);
    assert_eq!(updated.spec.suspension, existing.spec.suspension);
    assert_eq!(updated.spec.reschedule_triggered_at, existing.spec.reschedule_triggered_at);
    assert_eq!(updated.spec.schedule_priority.as_ref().unwrap().priority, 5);
    assert_eq!(updated.metadata, existing.metadata);

    let wide = super::policy("w", "", json!({"resourceSelectors": all_deployments()}));
    let BindingChange::Update(taken) =
        detector::plan_binding(&deployment(), &wide, Some(&existing), NATIVE, None).unwrap()
    else {
        panic!("nothing changed")
    };
    assert_eq!(taken.label("propagationpolicy.karmada.io/permanent-id"), None);
    assert_eq!(
        (taken.label("mine"), taken.annotation("clusterpropagationpolicy.karmada.io/name")),
        (Some("yes"), Some("w"))
    );
}

#[test]
fn a_binding_of_an_older_template_waits() {
    let policy = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let existing = made(&deployment(), &policy);
    let mut anew = deployment();
    anew["metadata"]["uid"] = json!("t-2");
    let error = detector::plan_binding(&anew, &policy, Some(&existing), NATIVE, None).unwrap_err();
    assert!(matches!(error, BindingError::OtherOwner { .. }));
    let mut broken = deployment();
    broken["spec"]["replicas"] = json!("many");
    assert!(matches!(
        detector::plan_binding(&broken, &policy, None, NATIVE, None),
        Err(BindingError::Interpret(_))
    ));
}

/// By its name it could be this one's, and no controller owns it, as where a MultiClusterService made it.
#[test]
fn a_binding_of_another_kind_of_that_name_is_neither_written_nor_replaced() {
    let policy = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let mut existing = made(&deployment(), &policy);
    existing.metadata.owner_references = Some(Vec::new());
    let change = |api_version: &str, kind: &str| {
        let mut template = deployment();
        template["apiVersion"] = json!(api_version);
        template["kind"] = json!(kind);
        detector::plan_binding(&template, &policy, Some(&existing), NATIVE, None)
    };
    for (api_version, kind) in
        [("other.example.com/v1", "Deployment"), ("v1", "Deployment"), ("apps/v1", "deployment")]
    {
        let error = change(api_version, kind).unwrap_err();
        assert!(matches!(&error, BindingError::OtherKind { .. }), "{api_version} {kind}: {error}");
        assert!(error.to_string().contains("places Deployment of apps/v1"));
    }
    assert!(change("apps/v1beta1", "Deployment").is_ok(), "in another version it is the same");
}

/// As an orphaning deletion leaves it: the new template's Works are not those of the one before.
#[test]
fn a_binding_that_nobody_owns_any_more_is_replaced_where_its_template_is_another() {
    let policy = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let mut orphaned = made(&deployment(), &policy);
    orphaned.metadata.owner_references = Some(Vec::new());
    let mut anew = deployment();
    anew["metadata"]["uid"] = json!("t-2");
    let change = |existing: &ResourceBinding, template: &Value| {
        detector::plan_binding(template, &policy, Some(existing), NATIVE, None).unwrap()
    };
    assert_eq!(change(&orphaned, &anew), BindingChange::Replace);
    // Of this very template it is taken up again, and so is one by hand that names no uid.
    let taken = |change: BindingChange, uid: &str| match change {
        BindingChange::Update(taken) => {
            assert_eq!(taken.metadata.owner_references.unwrap()[0].uid, uid);
            assert_eq!(taken.spec.resource.uid, uid);
        }
        other => panic!("{other:?}"),
    };
    taken(change(&orphaned, &deployment()), "t-1");
    orphaned.spec.resource.uid.clear();
    taken(change(&orphaned, &anew), "t-2");
}

#[test]
fn statement_20_a_policy_takes_over_what_it_names_from_those_below_it() {
    let named = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]);
    let spec = |selectors: &Value, priority: i32, preemption: &str| json!({"resourceSelectors": selectors, "priority": priority, "preemption": preemption});
    let name = deployment()["metadata"]["name"].clone();
    let named = {
        let mut named = named;
        named[0]["name"] = name;
        named
    };
    let near = |priority, preemption: &str| policy("near", "default", spec(&named, priority, preemption));
    let wide = |priority, preemption: &str| policy("wide", "", spec(&named, priority, preemption));
    let holder = |namespace: &str| policy("holder", namespace, spec(&all_deployments(), 5, "Never"));
    let takes = |holder: PropagationPolicy, others: Vec<PropagationPolicy>| {
        let mut template = deployment();
        detector::claim(&mut template, &holder);
        let (wides, nears): (Vec<_>, Vec<_>) =
            others.into_iter().chain([holder]).partition(|policy| policy.namespace().is_empty());
        let decide = |takeover| {
            let decision = detector::decide(&template, &nears, &wides, &SkipRules::default(), takeover);
            winner(&decision).to_owned()
        };
        assert_eq!(decide(Takeover::Never), "holder", "only where the gate is open");
        decide(Takeover::AsPoliciesSay)
    };
    assert_eq!(takes(holder("default"), vec![near(6, "Always")]), "near");
    assert_eq!(takes(holder("default"), vec![near(5, "Always")]), "holder", "strictly above");
    assert_eq!(takes(holder("default"), vec![near(6, "Never")]), "holder");
    assert_eq!(takes(holder("default"), vec![wide(9, "Always")]), "holder", "never from a nearer one");
    assert_eq!(
        takes(holder(""), vec![near(0, "Always")]),
        "near",
        "from a wider one whatever the priorities"
    );
    assert_eq!(takes(holder(""), vec![wide(6, "Always")]), "wide");
    assert_eq!(takes(holder(""), vec![wide(5, "Always")]), "holder");
    assert_eq!(takes(holder(""), vec![wide(9, "Always"), near(0, "Always")]), "near");
    let unnamed = policy("near", "default", spec(&all_deployments(), 9, "Always"));
    assert_eq!(takes(holder("default"), vec![unnamed]), "holder", "only what it names");
}

#[test]
fn a_workload_of_parts_is_told_by_its_parts_where_these_are_placed() {
    let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
    let template = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "f", "namespace": "default", "uid": "u"},
        "spec": {"jobManager": {"replicas": 1}, "taskManager": {"replicas": 3}, "podTemplate": pod}});
    let every = json!([{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"}]);
    let policy = policy("p", "default", json!({"resourceSelectors": every, "placement": {}}));
    let chain = Chain::default();
    let told = |parts| {
        let reading = Reading { interpreter: &chain, parts, quotas_count: false };
        match detector::plan_binding(&template, &policy, None, reading, None).unwrap() {
            BindingChange::Create(binding) => binding.spec,
            other => panic!("{other:?}"),
        }
    };
    let together = told(Parts::Together);
    assert_eq!((together.replicas, together.components.len()), (4, 0));
    let apart = told(Parts::Apart);
    let parts: Vec<_> = apart.components.iter().map(|part| (part.name.as_str(), part.replicas)).collect();
    assert_eq!((apart.replicas, parts), (0, vec![("jobmanager", 1), ("taskmanager", 3)]));
    // One part alone is a workload of replicas: of none, it would go to every cluster whole.
    let template = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "j", "namespace": "default", "uid": "u"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 3, "template": {"spec": {"template": pod}}}]}});
    let every = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}]);
    let of_jobs = self::policy("p", "default", json!({"resourceSelectors": every, "placement": {}}));
    let reading = Reading { interpreter: &chain, parts: Parts::Apart, quotas_count: false };
    let BindingChange::Create(one) =
        detector::plan_binding(&template, &of_jobs, None, reading, None).unwrap()
    else {
        panic!("none is made");
    };
    assert_eq!((one.spec.replicas, one.spec.components.len(), one.spec.is_workload()), (3, 1, true));
    let asked = one.spec.replica_requirements.unwrap_or_default().resource_request;
    assert_eq!(asked["cpu"].to_string(), "2");
    // What has no parts is a workload of replicas either way.
    let reading = Reading { interpreter: &chain, parts: Parts::Apart, quotas_count: false };
    let all = self::policy("p", "default", json!({"resourceSelectors": all_deployments(), "placement": {}}));
    match detector::plan_binding(&deployment(), &all, None, reading, None).unwrap() {
        BindingChange::Create(binding) => {
            assert!(binding.spec.replicas > 0 && binding.spec.components.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

/// Quotas may be for Pods of one priority class: the class is told where they count.
#[test]
fn the_priority_class_is_told_where_quotas_count() {
    let mut template = deployment();
    template["spec"]["template"]["spec"]["priorityClassName"] = json!("gold");
    template["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let policy = policy("p", "default", json!({"resourceSelectors": all_deployments(), "placement": {}}));
    for (quotas_count, told) in [(true, "gold"), (false, "")] {
        let reading = Reading { quotas_count, ..NATIVE };
        let BindingChange::Create(binding) =
            detector::plan_binding(&template, &policy, None, reading, None).unwrap()
        else {
            panic!("none is made");
        };
        assert_eq!(binding.spec.replica_requirements.unwrap().priority_class_name, told);
    }
}

/// So are the classes of parts, each that of its own Pod template.
#[test]
fn the_priority_classes_of_parts_are_told_where_quotas_count() {
    let pod = |class: &str| {
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]);
        json!({"spec": {"priorityClassName": class, "containers": containers}})
    };
    let group = |name: &str| json!({"name": name, "template": {"spec": {"template": pod(name)}}});
    let task = |name: &str| json!({"name": name, "minAvailable": 1, "template": pod(name)});
    let kinds = [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": [group("gold"), group("lead")]})),
        ("batch.volcano.sh/v1alpha1", "Job", json!({"tasks": [task("gold"), task("lead")]})),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"replicatedJobs": [group("gold")]})),
    ];
    for (api_version, kind, spec) in kinds {
        let template = json!({"apiVersion": api_version, "kind": kind, "spec": spec,
            "metadata": {"name": "j", "namespace": "default", "uid": "u"}});
        let every = json!([{"apiVersion": api_version, "kind": kind}]);
        let policy = policy("p", "default", json!({"resourceSelectors": every, "placement": {}}));
        for quotas_count in [true, false] {
            let reading = Reading { interpreter: &Chain::default(), parts: Parts::Apart, quotas_count };
            let BindingChange::Create(binding) =
                detector::plan_binding(&template, &policy, None, reading, None).unwrap()
            else {
                panic!("none is made");
            };
            for part in &binding.spec.components {
                let told = &part.replica_requirements.as_ref().unwrap().priority_class_name;
                assert_eq!(told, if quotas_count { &part.name } else { "" }, "{kind}");
            }
            let alone = binding.spec.replica_requirements.map(|asked| asked.priority_class_name);
            let wanted =
                (binding.spec.components.len() == 1).then_some(if quotas_count { "gold" } else { "" });
            assert_eq!(alone.as_deref(), wanted, "{kind}");
        }
    }
}
