//! Statements of what Karmada does that no other table holds the decisions to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_core::binding::{self as works, Input};
use karmada_core::detector::{self, BindingChange, Decision, Parts, Reading, Takeover};
use karmada_core::skipped_resources::SkipRules;
use karmada_interpreter::Native;
use serde_json::{Value, json};

use super::{all_deployments, deployment, member, now, policy};

const NATIVE: Reading<'_> = Reading { interpreter: &Native, parts: Parts::Together, quotas_count: false };

fn changed(
    template: &Value,
    policy: &PropagationPolicy,
    existing: Option<&ResourceBinding>,
    priority: Option<i32>,
) -> Option<ResourceBinding> {
    match detector::plan_binding(template, policy, existing, NATIVE, priority).unwrap() {
        BindingChange::Create(binding) | BindingChange::Update(binding) => Some(*binding),
        _ => None,
    }
}

/// Every field that is the policy's, and none that others decide, in the old binding as in a new one.
#[test]
fn statement_15_all_that_a_policy_says_is_copied_and_what_others_decided_is_kept() {
    let failover =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 7}, "purgeMode": "Directly"}});
    let says = json!({"resourceSelectors": all_deployments(), "propagateDeps": true, "schedulerName": "mine",
        "conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true, "failover": failover,
        "suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}},
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}, "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}});
    let mine = policy("p", "default", says.clone());
    let plain = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let mut existing = changed(&deployment(), &plain, None, None).unwrap();
    existing.metadata.resource_version = Some("1".to_owned());
    let decided = json!({"clusters": [{"name": "m1", "replicas": 6}],
        "gracefulEvictionTasks": [{"fromCluster": "m2", "producer": "p", "reason": "r"}],
        "requiredBy": [{"name": "x", "namespace": "d"}]});
    let mut spec = serde_json::to_value(&existing.spec).unwrap();
    spec.as_object_mut().unwrap().extend(decided.as_object().unwrap().clone());
    spec["suspension"] = json!({"scheduling": true});
    existing.spec = serde_json::from_value(spec).unwrap();

    let new = serde_json::to_value(changed(&deployment(), &mine, None, Some(5)).unwrap().spec).unwrap();
    let told =
        serde_json::to_value(changed(&deployment(), &mine, Some(&existing), Some(5)).unwrap().spec).unwrap();
    for spec in [&new, &told] {
        for field in [
            "propagateDeps",
            "schedulerName",
            "conflictResolution",
            "preserveResourcesOnDeletion",
            "failover",
            "placement",
        ] {
            assert_eq!(spec[field], says[field], "{field}");
        }
        assert_eq!(spec["suspension"]["dispatchingOnClusters"], says["suspension"]["dispatchingOnClusters"]);
        assert_eq!(spec["schedulePriority"], json!({"priority": 5}));
    }
    for (field, wanted) in decided.as_object().unwrap() {
        assert_eq!(&told[field], wanted, "{field}");
        assert_eq!(new.get(field), None, "{field}");
    }
    assert_eq!(
        (&told["suspension"]["scheduling"], new["suspension"].get("scheduling")),
        (&json!(true), None)
    );
}

#[test]
fn statement_19_a_policy_that_changed_lets_go_of_what_it_selects_no_more_and_refreshes_the_rest() {
    let named = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]);
    let before = policy("p", "default", json!({"resourceSelectors": all_deployments()}));
    let mut template = deployment();
    detector::claim(&mut template, &before);
    let mut stored = changed(&template, &before, None, None).unwrap();
    stored.metadata.resource_version = Some("1".to_owned());
    let decided = |policies: &[PropagationPolicy]| match detector::decide(
        &template,
        policies,
        &[],
        &SkipRules::default(),
        Takeover::Never,
    ) {
        Decision::Claimed(policy) => Some(policy.metadata.name.clone().unwrap()),
        Decision::Waits => None,
        other => panic!("{other:?}"),
    };
    let narrowed = policy("p", "default", json!({"resourceSelectors": named("another")}));
    assert_eq!(decided(std::slice::from_ref(&narrowed)), None, "it waits for another policy");
    let other = policy("other", "default", json!({"resourceSelectors": named("nginx")}));
    assert_eq!(decided(&[narrowed, other]).as_deref(), Some("other"), "and is matched anew");
    let mut bare = template.clone();
    assert!(detector::unclaim(&mut bare) && !detector::is_claimed_by(&bare, &before));

    let placement = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    let moved = policy("p", "default", json!({"resourceSelectors": named("nginx"), "placement": placement}));
    assert_eq!(decided(std::slice::from_ref(&moved)).as_deref(), Some("p"), "it is still its own");
    let refreshed = changed(&template, &moved, Some(&stored), None).unwrap();
    assert_eq!(serde_json::to_value(&refreshed.spec.placement).unwrap(), placement);
    assert_eq!(changed(&template, &before, Some(&stored), None), None, "without a change nothing is written");
}

#[test]
fn statement_34_a_manifest_says_of_which_work_template_binding_and_policy_it_is() {
    for (of, namespace) in [("propagationpolicy", "default"), ("clusterpropagationpolicy", "")] {
        let policy = policy("p", namespace, json!({"resourceSelectors": all_deployments()}));
        let mut template = deployment();
        detector::claim(&mut template, &policy);
        let mut binding = changed(&template, &policy, None, None).unwrap();
        let labels = binding.metadata.labels.get_or_insert_default();
        labels.insert("resourcebinding.karmada.io/permanent-id".to_owned(), "b-1".to_owned());
        binding.spec.clusters = serde_json::from_value(json!([{"name": "m1", "replicas": 6}])).unwrap();
        let clusters = [member("m1")];
        let input: Input<'_, Cluster, OverridePolicy> = Input {
            binding: &binding,
            template: &template,
            clusters: &clusters,
            cluster_overrides: &[],
            overrides: &[],
            interpreter: &Native,
            injects_state: false,
            residency: &Default::default(),
        };
        let wanted: Vec<_> = works::render_works(&input).collect();
        let work = serde_json::to_value(wanted[0].work.as_ref().unwrap()).unwrap();
        let metadata = &work["spec"]["workload"]["manifests"][0]["metadata"];
        let notes = &metadata["annotations"];
        assert_eq!(notes["work.karmada.io/name"], work["metadata"]["name"]);
        assert_eq!(notes["work.karmada.io/namespace"], "karmada-es-m1");
        assert_eq!(notes["resourcetemplate.karmada.io/uid"], "t-1");
        assert_eq!(notes["resourcetemplate.karmada.io/generation"], "3");
        assert_eq!(notes["resourcebinding.karmada.io/name"], "nginx-deployment");
        assert_eq!(notes[format!("{of}.karmada.io/name")], "p");
        assert_eq!(metadata["labels"]["karmada.io/managed"], "true");
        assert_eq!(metadata["labels"]["resourcebinding.karmada.io/permanent-id"], "b-1");
        assert_eq!(metadata["labels"][format!("{of}.karmada.io/permanent-id")], "id-p");
    }
}

/// The same of policies: none that is on its way out takes a template, and one that has it lets it go.
#[test]
fn statement_18_a_policy_on_its_way_out_lets_go_and_the_next_one_takes_over() {
    let all = json!({"resourceSelectors": all_deployments()});
    let mut leaving = policy("a", "default", all.clone());
    let mut template = deployment();
    detector::claim(&mut template, &leaving);
    leaving.metadata.deletion_timestamp = Some(Time(now()));
    let both = [leaving, policy("b", "default", all)];
    let decision = detector::decide(&template, &both, &[], &SkipRules::default(), Takeover::Never);
    assert_eq!(decision, Decision::Claimed(&both[1]));
    let decision = detector::decide(&template, &both[..1], &[], &SkipRules::default(), Takeover::Never);
    assert_eq!(decision, Decision::Waits);
}
