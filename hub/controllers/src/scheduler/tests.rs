//! The scheduler as a shell.

use karmada_core::feature_gates::FeatureGates;
use karmada_core::scheduler::estimator_answers::Wanted;
use serde_json::{Value, json};

use super::*;
use crate::queue::WorkQueue;
use crate::testing::{self, CLUSTER_API, Rig, bears_trouble, key};

async fn look(rig: &Rig) -> Result<Action, Error> {
    Scheduler::new(rig.shared.clone(), None).reconcile(&key("default", "web-configmap")).await
}

fn objects(placement: &Value, replicas: u64) -> Vec<Value> {
    let mut objects: Vec<Value> =
        ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({}))).collect();
    let mut binding = testing::binding("web", placement, &[]);
    binding["spec"]["replicas"] = json!(replicas);
    objects.push(binding);
    objects
}

fn condition(binding: &Value) -> (&Value, &Value) {
    (&binding["status"]["conditions"][0]["status"], &binding["status"]["conditions"][0]["reason"])
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_placed_and_says_so_whatever_happens_between() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let terms = json!({"clusterAffinities": [{"affinityName": "first", "clusterNames": ["m2"]}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    for (placement, replicas) in [(json!({}), 0), (divided, 6), (terms, 6)] {
        let (api, writes) = bears_trouble(&objects(&placement, replicas), look).await;
        assert_eq!(writes, 2, "where it goes, and that it was placed");
        let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert_eq!(condition(&binding), (&json!("True"), &json!("Success")), "{placement}");
        assert!(binding["status"]["lastScheduledTime"].is_string(), "{placement}");
        assert!(!binding["spec"]["clusters"].as_array().unwrap().is_empty(), "{placement}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_a_place_says_so_whatever_happens_between() {
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["m9"]}});
    let (api, _) = bears_trouble(&objects(&nowhere, 0), look).await;
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(condition(&binding), (&json!("False"), &json!("NoClusterFit")));
}

/// It is not gone: nobody is taken away from there, whether it could be read before or never.
#[tokio::test(start_paused = true)]
async fn what_is_placed_in_a_cluster_that_cannot_be_read_stays_there() {
    let placed = json!([{"name": "m1"}, {"name": "m2"}]);
    for was_read in [true, false] {
        let mut objects = objects(&json!({}), 0);
        objects[4]["spec"]["clusters"] = placed.clone();
        objects[0]["metadata"]["uid"] = json!("u-m1");
        let mut unreadable = objects[0].clone();
        unreadable["spec"]["taints"] = json!("none");
        if !was_read {
            objects[0] = unreadable.clone();
        }
        let rig = Rig::new(objects.clone()).await;
        rig.api.seed(unreadable);
        rig.quiet().await;
        match look(&rig).await {
            Ok(_) => assert!(was_read, "what it said holds"),
            Err(error) => {
                let words = error.to_string();
                assert!(!was_read && words.contains("the Cluster m1 cannot be read"), "{was_read}: {words}");
            }
        }
        let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert_eq!(binding["spec"]["clusters"], placed, "was read before: {was_read}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_goes_is_left_whatever_happens_between() {
    let mut objects = objects(&json!({}), 0);
    objects[0]["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    assert_eq!(objects[0]["apiVersion"], CLUSTER_API);
    objects[4]["spec"]["clusters"] = json!([{"name": "m1"}, {"name": "m2"}]);
    let (api, _) = bears_trouble(&objects, look).await;
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "m2"}]));
}

fn residency_rule(selector: &Value) -> Value {
    json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "ResidencyRule", "metadata": {"name": "home"},
        "spec": {"resourceSelectors": [selector], "clusterAffinity": {"clusterNames": ["m2"]}}})
}

/// By name, and by labels that only the template has; what was placed elsewhere goes with the next decision.
#[tokio::test(start_paused = true)]
async fn what_a_residency_rule_covers_is_placed_where_the_rule_allows_it() {
    let labels = json!({"matchLabels": {"data": "personal"}});
    for (selector, is_covered) in [
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}), true),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": labels}), true),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other"}), false),
    ] {
        let mut template = testing::config_map("web");
        template["metadata"]["labels"] = json!({"data": "personal"});
        let mut objects = objects(&json!({}), 0);
        objects[4]["spec"]["clusters"] = json!([{"name": "m1"}]);
        objects.extend([template, residency_rule(&selector)]);
        let (api, _) = bears_trouble(&objects, look).await;
        let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        let placed =
            if is_covered { json!([{"name": "m2"}]) } else { json!([{"name": "m1"}, {"name": "m2"}]) };
        assert_eq!(binding["spec"]["clusters"], placed, "{selector}");
    }
    let mut objects = objects(&json!({"clusterAffinity": {"clusterNames": ["m1"]}}), 0);
    objects.push(residency_rule(&json!({"apiVersion": "v1", "kind": "ConfigMap"})));
    let (api, _) = bears_trouble(&objects, look).await;
    let binding = api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(
        binding["status"]["conditions"][0]["message"],
        "0/2 clusters are available: 1 cluster(s) did not match residency rule home, 1 cluster(s) did not match the placement cluster affinity constraint."
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_quota_refuses_is_told_and_tried_again() {
    let rig = Rig::new(objects(&json!({}), 6)).await;
    let words = "FederatedResourceQuota(default/q) exceeded for resource cpu: requested sum 6, limit 4";
    let refusal = ApiError::Forbidden { reason: "QuotaExceeded".into(), message: words.into() };
    rig.api.refuse("update", "ResourceBinding", refusal);
    assert!(look(&rig).await.is_err(), "it is tried again");
    let now = || rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(condition(&now()), (&json!("False"), &json!("QuotaExceeded")));
    assert_eq!(now()["status"]["conditions"][0]["message"], words);
    look(&rig).await.unwrap();
    assert_eq!(condition(&now()), (&json!("True"), &json!("Success")));
}

#[tokio::test(start_paused = true)]
async fn workloads_that_keep_apart_see_each_other_at_once() {
    let mut objects = objects(&json!({"clusterAffinity": {"clusterNames": ["m1"]}}), 0);
    let mut other = testing::binding("other", &json!({}), &[]);
    for binding in [objects.last_mut().unwrap(), &mut other] {
        binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "app=db"});
    }
    objects.push(other);
    let affinity = FeatureGates::default().with(Gate::WorkloadAffinity);
    for (gates, second) in [
        (affinity, json!([{"name": "m2"}])),
        (FeatureGates::default(), json!([{"name": "m1"}, {"name": "m2"}])),
    ] {
        let before = Rig::new(objects.clone()).await;
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let scheduler = Scheduler::new(rig.shared.clone(), None);
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        scheduler.reconcile(&key("default", "other-configmap")).await.unwrap();
        let clusters = |name| {
            let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", name).unwrap();
            binding["spec"]["clusters"].clone()
        };
        assert_eq!(clusters("web-configmap"), json!([{"name": "m1"}]));
        assert_eq!(clusters("other-configmap"), second);
    }
}

/// Two that come at once do not both find the one gap.
#[tokio::test(start_paused = true)]
async fn what_was_placed_a_moment_ago_is_taken_where_the_gate_is_on() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let workload = |name: &str, replicas: u64| {
        let mut binding = testing::binding(name, &divided, &[]);
        binding["spec"]["replicas"] = json!(replicas);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        binding
    };
    let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
    cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "10"}});
    for (gates, second) in [
        (FeatureGates::default(), "True"),
        (FeatureGates::default().with(Gate::SchedulingOvercommitProtection), "False"),
    ] {
        let before =
            Rig::new([cluster.clone(), namespace.clone(), workload("web", 3), workload("db", 3)]).await;
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let scheduler = Scheduler::new(rig.shared.clone(), None);
        let place = async |name: &str| {
            scheduler.reconcile(&key("default", name)).await.unwrap();
            rig.quiet().await;
            let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", name).unwrap();
            condition(&binding).0.clone()
        };
        assert_eq!(place("web-configmap").await, "True");
        assert_eq!(place("db-configmap").await, second);
        // The first is seen in the cluster: its report says the same from now on, and nothing is assumed beside it.
        let resource = rig.api.resource_of(BINDING_API, "ResourceBinding").unwrap();
        let mut web = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        web["status"]["aggregatedStatus"] =
            json!([{"clusterName": "m1", "applied": true, "health": "Healthy"}]);
        let told = rig.api.update_status(&resource, web).await.unwrap();
        rig.shared.reservations.hear(&Change::Applied(told));
        assert_eq!(place("db-configmap").await, "True");
    }
}

/// Agents by what they answer, and whom the scheduler asked.
#[derive(Default)]
struct Told {
    answers: estimator::Answers,
    asked: Mutex<Vec<String>>,
    /// What room was wanted for last, in which namespace, and whether quotas counted.
    question: Mutex<String>,
}

#[async_trait::async_trait]
impl Estimator for Told {
    async fn room(&self, clusters: &[&str], question: estimator::RoomQuestion<'_>) -> estimator::Answers {
        let wanted = match question.wanted {
            Wanted::Replicas(_) => "replicas".to_owned(),
            Wanted::Sets(parts) => format!("sets of {}", parts.len()),
        };
        let taken: usize = question.taken.values().map(Vec::len).sum();
        let taken = if taken > 0 { format!(", beside {taken}") } else { String::new() };
        *self.question.lock() =
            format!("{wanted} in {}, quotas {}{taken}", question.namespace, question.quotas_count);
        self.asked.lock().push(clusters.join(","));
        self.answers.clone()
    }

    async fn unschedulable(
        &self,
        _: &[&str],
        _: &karmada_api::binding::ObjectReference,
        _: std::time::Duration,
    ) -> estimator::Answers {
        panic!("the scheduler does not ask this")
    }
}

/// The summaries promise four in each; what the agents know of their nodes counts, and of who does not answer the summary does.
#[tokio::test(start_paused = true)]
async fn what_agents_say_of_their_nodes_counts_beside_what_clusters_report() {
    let aggregated = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let duplicated = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let silent = || Err("its agent is not connected".to_owned());
    let cases = [
        (&aggregated, [Ok(0), Ok(4)], "m1,m2", json!([{"name": "m2", "replicas": 3}])),
        (&aggregated, [Ok(4), Ok(0)], "m1,m2", json!([{"name": "m1", "replicas": 3}])),
        (&aggregated, [silent(), Ok(1)], "m1,m2", json!([{"name": "m1", "replicas": 3}])),
        (
            &aggregated,
            [Ok(1), Ok(2)],
            "m1,m2",
            json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}]),
        ),
        (
            &duplicated,
            [Ok(0), Ok(0)],
            "",
            json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 3}]),
        ),
    ];
    for (placement, [first, second], asked, placed) in cases {
        let mut all = Vec::new();
        for name in ["m1", "m2"] {
            let [mut cluster, namespace] = testing::cluster(name, &json!({}));
            cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "4", "pods": "10"}});
            all.extend([cluster, namespace]);
        }
        let mut binding = testing::binding("web", placement, &[]);
        binding["spec"]["replicas"] = json!(3);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        all.push(binding);
        let rig = Rig::new(all).await;
        let answers = [("m1".to_owned(), first), ("m2".to_owned(), second)].into();
        let told = Arc::new(Told { answers, ..Told::default() });
        let scheduler = Scheduler::new(rig.shared.clone(), Some(told.clone()));
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        rig.quiet().await;
        let now = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert_eq!(now["spec"]["clusters"], placed, "{placement}");
        assert_eq!(told.asked.lock().join(" "), asked, "{placement}");
        // What stands is not asked about again.
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        assert_eq!(told.asked.lock().join(" "), asked, "{placement}");
    }
}

/// What has several parts is asked about as a whole; quotas count where the gate says so.
#[tokio::test(start_paused = true)]
async fn agents_are_asked_for_sets_and_by_quotas() {
    let mut all = Vec::new();
    for name in ["m1", "m2"] {
        let [mut cluster, namespace] = testing::cluster(name, &json!({}));
        cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "4", "pods": "10"}});
        all.extend([cluster, namespace]);
    }
    let one = json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]});
    let mut binding = testing::binding("web", &one, &[]);
    binding["spec"]["replicas"] = json!(0);
    let part = |name: &str| json!({"name": name, "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}});
    binding["spec"]["components"] = json!([part("head"), part("worker")]);
    all.push(binding);
    let on = FeatureGates::default().with(Gate::ResourceQuotaEstimate);
    for (gates, quotas_count) in [(on, true), (FeatureGates::default(), false)] {
        let before = Rig::new(all.clone()).await;
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let answers = [("m1".to_owned(), Ok(0)), ("m2".to_owned(), Ok(1))].into();
        let told = Arc::new(Told { answers, ..Told::default() });
        let scheduler = Scheduler::new(rig.shared.clone(), Some(told.clone()));
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        rig.quiet().await;
        let wanted = format!("sets of 2 in default, quotas {quotas_count}");
        assert_eq!(*told.question.lock(), wanted);
        let now = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert_eq!(now["spec"]["clusters"][0]["name"], "m2", "{now}");
    }
}

/// Agents that take their time, as those at the end of a long line do.
struct Slow;

#[async_trait::async_trait]
impl Estimator for Slow {
    async fn room(&self, clusters: &[&str], _: estimator::RoomQuestion<'_>) -> estimator::Answers {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        clusters.iter().map(|cluster| ((*cluster).to_owned(), Ok(5))).collect()
    }

    async fn unschedulable(
        &self,
        _: &[&str],
        _: &karmada_api::binding::ObjectReference,
        _: std::time::Duration,
    ) -> estimator::Answers {
        panic!("the scheduler does not ask this")
    }
}

/// While agents are asked for one binding, another worker places the next: what that took is seen all the same.
#[tokio::test(start_paused = true)]
async fn what_was_placed_while_agents_were_asked_is_taken() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let workload = |name: &str| {
        let mut binding = testing::binding(name, &divided, &[]);
        binding["spec"]["replicas"] = json!(3);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        binding
    };
    let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
    cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "10"}});
    for estimator in [None, Some(Arc::new(Slow) as Arc<dyn Estimator>)] {
        let before = Rig::new([cluster.clone(), namespace.clone(), workload("web"), workload("db")]).await;
        let gates = FeatureGates::default().with(Gate::SchedulingOvercommitProtection);
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let asks = estimator.is_some();
        let scheduler = Scheduler::new(rig.shared.clone(), estimator);
        let (web, db) = (key("default", "web-configmap"), key("default", "db-configmap"));
        let (first, second) = tokio::join!(scheduler.reconcile(&web), scheduler.reconcile(&db));
        first.unwrap();
        second.unwrap();
        rig.quiet().await;
        let mut placed = ["web-configmap", "db-configmap"].map(|name| {
            let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", name).unwrap();
            condition(&binding).0.clone()
        });
        placed.sort_by_key(Value::to_string);
        assert_eq!(placed, ["False", "True"], "six replicas in room for five; asks agents: {asks}");
    }
}

/// What was placed a moment ago is told to the agents that are asked, where clusters are protected; else nobody keeps it.
#[tokio::test(start_paused = true)]
async fn agents_are_told_what_was_placed_a_moment_ago() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let workload = |name: &str| {
        let mut binding = testing::binding(name, &divided, &[]);
        binding["spec"]["replicas"] = json!(1);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        binding
    };
    let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
    cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "10"}});
    for (protected, told) in [(false, ""), (true, ", beside 1")] {
        let before = Rig::new([cluster.clone(), namespace.clone(), workload("web"), workload("db")]).await;
        let mut gates = FeatureGates::default();
        if protected {
            gates = gates.with(Gate::SchedulingOvercommitProtection);
        }
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let agents = Arc::new(Told::default());
        let scheduler = Scheduler::new(rig.shared.clone(), Some(agents.clone()));
        scheduler.reconcile(&key("default", "web-configmap")).await.unwrap();
        scheduler.reconcile(&key("default", "db-configmap")).await.unwrap();
        assert_eq!(*agents.question.lock(), format!("replicas in default, quotas false{told}"));
    }
}

/// Two of one group that keep apart, placed by two workers: both may decide before either write is done.
#[tokio::test(start_paused = true)]
async fn workloads_that_keep_apart_see_each_other_also_while_agents_are_asked() {
    let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let workload = |name: &str| {
        let mut binding = testing::binding(name, &divided, &[]);
        binding["spec"]["replicas"] = json!(1);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "app=db"});
        binding
    };
    for estimator in [None, Some(Arc::new(Slow) as Arc<dyn Estimator>)] {
        let mut all = vec![workload("web"), workload("db")];
        for name in ["m1", "m2"] {
            let [mut cluster, namespace] = testing::cluster(name, &json!({}));
            cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "10"}});
            all.extend([cluster, namespace]);
        }
        let before = Rig::new(all).await;
        let gates = FeatureGates::default().with(Gate::WorkloadAffinity);
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        rig.api.write_late();
        let asks = estimator.is_some();
        let scheduler = Scheduler::new(rig.shared.clone(), estimator);
        let (web, db) = (key("default", "web-configmap"), key("default", "db-configmap"));
        let (first, second) = tokio::join!(scheduler.reconcile(&web), scheduler.reconcile(&db));
        first.unwrap();
        second.unwrap();
        let cluster = |name| {
            let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", name).unwrap();
            binding["spec"]["clusters"][0]["name"].clone()
        };
        let (web, db) = (cluster("web-configmap"), cluster("db-configmap"));
        assert_ne!(web, db, "both are in one cluster; asks agents: {asks}");
    }
}

/// The hub writes where a binding goes, and then that it was decided; between the two somebody asks for a new division.
#[tokio::test(start_paused = true)]
async fn what_is_asked_between_the_two_writes_is_heard() {
    let groups = json!({"clusterAffinities": [{"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2"]}],
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    let mut objects = objects(&groups, 3);
    let binding = objects.last_mut().unwrap();
    binding["spec"]["clusters"] = json!([{"name": "m2", "replicas": 2}]);
    binding["status"] = json!({"schedulerObservedGeneration": 0, "schedulerObservingAffinityName": "second",
        "lastScheduledTime": "2026-05-01T11:00:00Z"});
    let rig = Rig::new(objects).await;
    let api: &dyn Api = &*rig.api;
    let resource = kinds::bindings(api, "default").unwrap();
    let scheduler = Scheduler::new(rig.shared.clone(), None);
    let binding: ResourceBinding =
        fetch::get(api, &resource, "default", "web-configmap").await.unwrap().unwrap();
    let clusters = rig.shared.clusters.all("");
    let decision = scheduler::schedule(&scheduler.input(&binding, &clusters, None).await.unwrap());
    let wanted = scheduler::apply(&binding, &decision).unwrap();
    let written = api.update(&resource, fetch::to_value(&wanted).unwrap()).await.unwrap().parse().unwrap();
    rig.edit((BINDING_API, "ResourceBinding"), &key("default", "web-configmap"), |binding| {
        binding["spec"]["rescheduleTriggeredAt"] = json!("2026-05-01T11:59:59Z");
        binding["metadata"]["generation"] = json!(9);
    })
    .await;
    scheduler.write_status(&resource, written, &binding.spec.clusters, &decision).await.unwrap();
    rig.quiet().await;
    look(&rig).await.unwrap();
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(binding["spec"]["clusters"], json!([{"name": "m1", "replicas": 3}]), "the first group again");
    assert_eq!(binding["status"]["schedulerObservingAffinityName"], "first");
}

#[tokio::test(start_paused = true)]
async fn the_higher_priority_is_first_where_the_gate_is_on_and_else_who_came_first() {
    let urgent = |name: &str, priority: i32| {
        let mut binding = testing::binding(name, &json!({}), &[]);
        binding["spec"]["schedulePriority"] = json!({"priority": priority});
        binding
    };
    let off = FeatureGates::default().without(Gate::PriorityBasedScheduling);
    for (gates, order) in [(FeatureGates::default(), ["b", "c", "a"]), (off, ["a", "b", "c"])] {
        let before = Rig::new([urgent("a", 1), urgent("b", 9), urgent("c", 3)]).await;
        let rig = Rig::started(before.api.clone(), "2026-05-01T12:00:00Z", gates).await;
        let queue = Scheduler::new(rig.shared.clone(), None).queue();
        for name in ["a", "b", "c"] {
            queue.add_after(key("default", &format!("{name}-configmap")), std::time::Duration::ZERO);
        }
        for name in order {
            assert_eq!(queue.next().await, Some(key("default", &format!("{name}-configmap"))));
        }
    }
}
