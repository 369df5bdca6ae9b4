//! The detector as a shell: conflicts, ends between two writes, restarts.

use karmada_resource_interpreter::customizations;
use serde_json::json;

use super::*;
use crate::port::Api;
use crate::testing::{self, BINDING_API, POLICY_API, Rig, bears_trouble, key};

fn policy() -> Value {
    json!({"apiVersion": POLICY_API, "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default", "generation": 1, "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}}})
}

fn detector(rig: &Rig, scheduler: Option<Arc<Scheduler>>) -> Arc<Detector> {
    let (works, statuses, debounce) = Default::default();
    let readers = TemplateReaders { scheduler, works, statuses, debounce };
    Detector::new(rig.shared.clone(), SkipRules::default(), Takeover::AsPoliciesSay, readers)
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    let detector = detector(rig, None);
    let resource = rig.api.resource_of("v1", "ConfigMap").unwrap();
    detector.reconcile(&TemplateKey { resource, key: key("default", "web") }).await
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_and_gets_its_binding_whatever_happens_between() {
    let (api, writes) = bears_trouble(&[policy(), testing::config_map("web")], look).await;
    assert_eq!(writes, 2, "the claim, and the binding");
    let template = api.value("v1", "ConfigMap", "default", "web").unwrap();
    assert_eq!(template["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "p");
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], "t-web");
}

/// Its clusters come with it, and the scheduler has only to say so; where they are not taken, it comes without.
#[tokio::test(start_paused = true)]
async fn a_new_binding_is_placed_by_the_write_that_creates_it() {
    for refused in [false, true] {
        let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
        let rig = Rig::new(clusters.chain([policy(), testing::config_map("web")])).await;
        if refused {
            let (reason, message) = ("Forbidden".into(), "the quota is used up".into());
            rig.api.refuse("create", "ResourceBinding", ApiError::Forbidden { reason, message });
        }
        let scheduler = Scheduler::new(rig.shared.clone(), None);
        let detector = detector(&rig, Some(scheduler.clone()));
        let resource = rig.api.resource_of("v1", "ConfigMap").unwrap();
        detector.reconcile(&TemplateKey { resource, key: key("default", "web") }).await.unwrap();
        let binding = || rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        let placed = json!([{"name": "m1"}, {"name": "m2"}]);
        let expected = if refused { Value::Null } else { placed.clone() };
        assert_eq!(binding()["spec"]["clusters"], expected);
        rig.quiet().await;
        let written = rig.api.writes();
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        assert_eq!(rig.api.writes() - written, if refused { 2 } else { 1 });
        assert_eq!(binding()["status"]["conditions"][0]["reason"], "Success");
        assert_eq!(binding()["spec"]["clusters"], placed);
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
    }
}

/// Where more is to be known than where it goes, the scheduler decides in its turn, and says so.
#[tokio::test(start_paused = true)]
async fn a_new_binding_waits_for_the_scheduler_where_that_has_more_to_say() {
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    let affinities = json!([{"affinityName": "first", "clusterNames": ["m1"]}]);
    for (replicas, waits, placement) in [
        (0, false, json!({"replicaScheduling": divided})),
        (2, true, json!({"replicaScheduling": divided, "clusterAffinities": affinities})),
    ] {
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "uid": "t-web"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
        let mut policy = policy();
        policy["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
        policy["spec"]["placement"] = placement.clone();
        let rig = Rig::new(testing::cluster("m1", &json!({})).into_iter().chain([policy, template])).await;
        let scheduler = Scheduler::new(rig.shared.clone(), None);
        let detector = detector(&rig, Some(scheduler.clone()));
        let resource = rig.api.resource_of("apps/v1", "Deployment").unwrap();
        detector.reconcile(&TemplateKey { resource, key: key("default", "web") }).await.unwrap();
        let binding = || rig.api.value(BINDING_API, "ResourceBinding", "default", "web-deployment").unwrap();
        assert_eq!(binding()["spec"]["clusters"].is_null(), waits, "{placement}");
        rig.quiet().await;
        scheduler.reconcile(&key("default", "web-deployment")).await.unwrap();
        assert_eq!(binding()["status"]["conditions"][0]["reason"], "Success", "{placement}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_policy_means_any_more_loses_its_marks_whatever_happens_between() {
    let mut template = testing::config_map("web");
    template["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "gone"});
    let mut binding = testing::binding("web", &json!({}), &["m1"]);
    binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("gone");
    let (api, writes) = bears_trouble(&[template, binding], look).await;
    assert_eq!(writes, 2);
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert!(binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].is_null());
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "m1"}]), "what runs stays");
}

/// What the hub keeps for who imports a Service follows the ServiceImport: nobody is told that it waits for a policy.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_policy_says_so_unless_it_is_there_for_importers() {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "imported-a-web", "namespace": "default",
        "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io"}}});
    let rig = Rig::new([testing::config_map("web"), slice]).await;
    look(&rig).await.unwrap();
    let detector = detector(&rig, None);
    let resource = rig.api.resource_of("discovery.k8s.io/v1", "EndpointSlice").unwrap();
    detector.reconcile(&TemplateKey { resource, key: key("default", "imported-a-web") }).await.unwrap();
    let stop = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    let events = rig.api.values("v1", "Event");
    let about: Vec<&Value> = events.iter().map(|event| &event["involvedObject"]["kind"]).collect();
    assert_eq!(about, ["ConfigMap"]);
}

/// A policy that cannot be read is not gone: what it may mean goes to nobody else, and what it claimed keeps its marks.
#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_read_keeps_what_it_may_mean() {
    let named = |name: &str, kind: &str| {
        let mut policy = policy();
        (policy["kind"], policy["metadata"]["name"]) = (json!(kind), json!(name));
        policy["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!(name);
        policy
    };
    let unreadable = |kind: &str, namespace: Value| {
        let mut policy = named("damaged", kind);
        policy["spec"]["resourceSelectors"] = json!("none");
        policy["metadata"]["namespace"] = namespace;
        policy
    };
    let readable = named("another", "PropagationPolicy");
    for (damaged, id, is_near) in [
        (
            unreadable("PropagationPolicy", json!("default")),
            "propagationpolicy.karmada.io/permanent-id",
            true,
        ),
        (
            unreadable("ClusterPropagationPolicy", Value::Null),
            "clusterpropagationpolicy.karmada.io/permanent-id",
            false,
        ),
    ] {
        let mut claimed = testing::config_map("web");
        claimed["metadata"]["labels"] = json!({id: "damaged"});
        for (template, is_claimed) in [(testing::config_map("web"), false), (claimed, true)] {
            for policies in [vec![], vec![readable.clone()]] {
                let is_anothers = !policies.is_empty() && !is_near && !is_claimed;
                let rig = Rig::new(policies.into_iter().chain([damaged.clone(), template.clone()])).await;
                if is_anothers {
                    assert!(
                        is_bound(&rig).await,
                        "a policy of the namespace comes before all of the fleet's"
                    );
                    continue;
                }
                let words = look(&rig).await.expect_err("it waits").to_string();
                assert!(words.contains("PropagationPolicy damaged cannot be read"), "{words}");
                let kept = rig.api.value("v1", "ConfigMap", "default", "web").unwrap();
                assert_eq!(kept["metadata"]["labels"], template["metadata"]["labels"]);
                assert_eq!(rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap"), None);
            }
        }
        // What another has already stays with that one, and what could be read before holds.
        let mut kept = testing::config_map("web");
        kept["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "another"});
        let rig = Rig::new([readable.clone(), damaged, kept]).await;
        look(&rig).await.unwrap();
        assert!(is_bound(&rig).await);
    }
    let mut damaged = named("damaged", "PropagationPolicy");
    (damaged["metadata"]["namespace"], damaged["metadata"]["uid"]) = (json!("default"), json!("u-p"));
    let rig = Rig::new([damaged, testing::config_map("web")]).await;
    let mut unreadable = unreadable("PropagationPolicy", json!("default"));
    unreadable["metadata"]["uid"] = json!("u-p");
    rig.api.seed(unreadable);
    rig.quiet().await;
    look(&rig).await.unwrap();
    assert!(is_bound(&rig).await, "as it said when it could be read");
}

/// Looks once more, and says whether the template has a binding.
async fn is_bound(rig: &Rig) -> bool {
    rig.quiet().await;
    look(rig).await.unwrap();
    rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").is_some()
}

#[tokio::test(start_paused = true)]
async fn statement_13_a_policy_waits_for_the_overrides_that_it_names() {
    let mut waiting = policy();
    waiting["spec"]["dependentOverrides"] = json!(["first", "second"]);
    let rig = Rig::new([waiting, testing::config_map("web")]).await;
    for name in ["first", "second"] {
        assert!(!is_bound(&rig).await, "before {name}");
        rig.api.seed(json!({"apiVersion": POLICY_API, "kind": "OverridePolicy", "metadata": {"name": name, "namespace": "default"}, "spec": {}}));
    }
    assert!(is_bound(&rig).await);
}

#[tokio::test(start_paused = true)]
async fn statement_14_a_priority_class_that_does_not_exist_makes_no_binding() {
    let mut urgent = policy();
    urgent["spec"]["schedulePriority"] =
        json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"});
    let rig = Rig::new([urgent, testing::config_map("web")]).await;
    assert!(!is_bound(&rig).await);
    rig.api.seed(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}));
    assert!(is_bound(&rig).await);
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["schedulePriority"]["priority"], 7);
}

fn customization(replicas: i64) -> Value {
    let script = format!("function GetReplicas(o)\n  return {replicas}\nend");
    json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "c"},
        "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"}, "customizations": {"replicaResource": {"luaScript": script}}}})
}

#[tokio::test(start_paused = true)]
async fn a_customization_takes_effect_as_it_comes_changes_and_goes() {
    const KIND: (&str, &str) = ("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization");
    let rig = Rig::new([policy(), testing::config_map("web"), customization(7)]).await;
    let version = rig.shared.customized.version();
    let woken: Arc<std::sync::atomic::AtomicUsize> = Arc::default();
    let (heard, bindings) = (woken.clone(), rig.shared.bindings.clone());
    rig.shared.customizations.listen(move |transition| {
        let of_kind = |_: &str, kind: &str| transition.states().any(|one| one.kind == kind);
        let count =
            if customizations::concerns(transition) { bindings.to_interpret(of_kind).len() } else { 0 };
        heard.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
    });
    let replicas = async |rig: &Rig| {
        look(rig).await.unwrap();
        rig.quiet().await;
        rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap()["spec"]["replicas"]
            .clone()
    };
    assert_eq!(replicas(&rig).await, json!(7));
    rig.edit(KIND, &key("", "c"), |object| object["spec"] = customization(9)["spec"].clone()).await;
    assert!(rig.shared.customized.version() > version, "who remembers answers forgets them");
    assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 1, "its template is woken");
    assert_eq!(replicas(&rig).await, json!(9));
    rig.edit(KIND, &key("", "c"), |object| object["metadata"]["labels"] = json!({"a": "b"})).await;
    assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 1, "a label changes no answer");
    rig.delete(KIND, &key("", "c")).await;
    assert_eq!(replicas(&rig).await, Value::Null);
    let again = rig.restarted().await;
    assert_eq!(replicas(&again).await, Value::Null);
}

fn lazy(mut policy: Value) -> Value {
    policy["spec"]["activationPreference"] = json!("Lazy");
    policy["metadata"]["creationTimestamp"] = json!("2026-04-01T00:00:00Z");
    policy
}

fn aged(mut template: Value) -> Value {
    template["metadata"]["creationTimestamp"] = json!("2026-03-01T00:00:00Z");
    template
}

#[tokio::test(start_paused = true)]
async fn statement_17_a_lazy_policy_waits_for_a_persons_change_whatever_happens_between() {
    let objects = [lazy(policy()), aged(testing::config_map("web"))];
    let (api, writes) = bears_trouble(&objects, look).await;
    assert_eq!(writes, 1, "the claim, and what was seen");
    assert!(api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").is_none());
    let rig = Rig::over(api).await;
    rig.edit(("v1", "ConfigMap"), &key("default", "web"), |map| map["data"]["of"] = json!("changed")).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    assert!(rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").is_some());
    // Bound, the mark is the binding's; and a change of the policy waits again.
    look(&rig).await.unwrap();
    rig.edit((POLICY_API, "PropagationPolicy"), &key("default", "p"), |policy| {
        policy["spec"]["conflictResolution"] = json!("Overwrite");
    })
    .await;
    let revision = rig.api.revision();
    look(&rig).await.unwrap();
    assert_eq!(rig.api.revision(), revision);
    rig.edit(("v1", "ConfigMap"), &key("default", "web"), |map| map["data"]["of"] = json!("again")).await;
    look(&rig).await.unwrap();
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["conflictResolution"], "Overwrite");
}

#[tokio::test(start_paused = true)]
async fn statement_20_a_policy_that_takes_over_gets_template_and_binding_whatever_happens_between() {
    let mut stronger = policy();
    stronger["metadata"] = json!({"name": "q", "namespace": "default", "generation": 1,
        "labels": {"propagationpolicy.karmada.io/permanent-id": "q"}});
    stronger["spec"] = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}],
        "placement": {}, "priority": 1, "preemption": "Always"});
    let mut template = testing::config_map("web");
    template["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p"});
    let mut binding = testing::binding("web", &json!({}), &["m1"]);
    binding["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "t-web", "controller": true}]);
    let (api, writes) = bears_trouble(&[policy(), stronger, template, binding], look).await;
    assert_eq!(writes, 2);
    for (api_version, kind, name) in
        [("v1", "ConfigMap", "web"), (BINDING_API, "ResourceBinding", "web-configmap")]
    {
        let object = api.value(api_version, kind, "default", name).unwrap();
        assert_eq!(object["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "q");
        assert_eq!(object["metadata"]["annotations"]["propagationpolicy.karmada.io/name"], "q");
    }
}

/// `kubectl replace` takes a template's marks away, and the label by which its policy means it.
#[tokio::test(start_paused = true)]
async fn a_binding_loses_its_claim_though_its_template_lost_its_own_before() {
    let mut policy = policy();
    policy["spec"]["resourceSelectors"][0]["labelSelector"] = json!({"matchLabels": {"a": "b"}});
    policy["spec"]["resourceSelectors"][0].as_object_mut().unwrap().remove("name");
    let mut template = testing::config_map("web");
    template["metadata"]["labels"] = json!({"a": "b"});
    let rig = Rig::new([policy, template].into_iter().chain(testing::cluster("m1", &json!({})))).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    let claim = |rig: &Rig| {
        let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].clone()
    };
    assert!(claim(&rig).is_string());
    let replace = |template: &mut Value| {
        template["metadata"]["labels"] = json!({});
        template["metadata"]["annotations"] = json!({});
    };
    rig.edit(("v1", "ConfigMap"), &key("default", "web"), replace).await;
    look(&rig).await.unwrap();
    rig.quiet().await;
    assert_eq!(claim(&rig), Value::Null);
}
