//! Works that a change of placement would take too many of at once, over the port in memory: they wait, also after a restart, until a person
//! says otherwise; what a person deletes does not.

use karmada_api::binding::ObjectReference;
use karmada_api::strings::annotations::CONFIRM_REMOVALS;
use serde_json::json;

use super::*;
use crate::testing::{self, CLUSTER_API, POLICY_API, Rig};

const COUNT: usize = 30;

fn name(at: usize) -> String {
    format!("c{at:02}")
}

/// Two sites, and `COUNT` ConfigMaps in the first of them.
async fn placed(more: &[Value]) -> Rig {
    let sites = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"site": name})));
    let templates = (0..COUNT).map(|at| testing::config_map(&name(at)));
    let bindings = (0..COUNT).map(|at| testing::binding(&name(at), &json!({}), &["m1"]));
    let rig = Rig::new(sites.chain(templates).chain(bindings).chain(more.iter().cloned())).await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (COUNT, 0));
    rig
}

fn binding_key(at: usize) -> Key {
    testing::key("default", &format!("{}-configmap", name(at)))
}

async fn reconcile_all(rig: &Rig) {
    let controller = Binding::new(rig.shared.clone());
    rig.quiet().await;
    for at in 0..COUNT {
        controller.reconcile(&binding_key(at)).await.unwrap();
        rig.quiet().await;
    }
}

async fn move_all(rig: &Rig, to: &str) {
    for at in 0..COUNT {
        let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": to}]);
        rig.edit((BINDING_API, "ResourceBinding"), &binding_key(at), edit).await;
    }
    reconcile_all(rig).await;
}

/// How many Works of a cluster stay, and how many of them are marked.
fn works(rig: &Rig, cluster: &str) -> (usize, usize) {
    let all = rig.api.values(WORK_API, "Work");
    let there = |work: &&Value| work["metadata"]["namespace"] == format!("karmada-es-{cluster}");
    let staying = |work: &&Value| work["metadata"]["deletionTimestamp"].is_null();
    let staying: Vec<&Value> = all.iter().filter(there).filter(staying).collect();
    let marked = staying.iter().filter(|work| work["metadata"]["labels"][REMOVAL_HELD].is_string()).count();
    (staying.len(), marked)
}

async fn confirm(rig: &Rig, word: &str) {
    let edit = |cluster: &mut Value| cluster["metadata"]["annotations"][CONFIRM_REMOVALS] = json!(word);
    rig.edit((CLUSTER_API, "Cluster"), &testing::key("", "m1"), edit).await;
}

fn link_policy(deletes: &Value) -> Value {
    json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "LinkPolicy", "metadata": {"name": "p"},
        "spec": {"clusterSelector": {"matchLabels": {"site": "m1"}}, "deletes": deletes}})
}

/// The Works of m1, as they are now.
async fn works_of_m1(rig: &Rig) -> Vec<Arc<Object>> {
    let resource = kinds::works(&*rig.api).unwrap();
    rig.api.list(&resource, "karmada-es-m1").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_placement_takes_ten_and_the_rest_waits_for_a_word() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    assert_eq!((works(&rig, "m1"), works(&rig, "m2")), ((20, 20), (COUNT, 0)));
    // The same again changes nothing, and a restart lets nothing go.
    let revision = rig.api.revision();
    reconcile_all(&rig).await;
    assert_eq!(rig.api.revision(), revision);
    let rig = rig.restarted().await;
    reconcile_all(&rig).await;
    assert_eq!((works(&rig, "m1"), rig.api.revision()), ((20, 20), revision));
    // A word for an earlier moment is none.
    confirm(&rig, "20260501T115959Z").await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (20, 20));
    confirm(&rig, "20260501T120000Z").await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_first_that_waits_is_told_on_the_cluster_once() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    let stop = tokio_util::sync::CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.cancel();
    };
    tokio::join!(rig.shared.recorder.run(stop.clone()), soon);
    let events = rig.api.values("v1", "Event");
    let told: Vec<&Value> = events.iter().filter(|event| event["reason"] == events::DELETES_HELD).collect();
    let of_kind = |kind: &str| told.iter().filter(|event| event["involvedObject"]["kind"] == kind).count();
    assert_eq!(of_kind("Cluster"), 1, "{told:?}");
    // Whoever looks at a workload that runs twice is told why.
    let waiting = works(&rig, "m1").1;
    assert_eq!((of_kind("ResourceBinding"), of_kind("ConfigMap")), (waiting, waiting));
    let of_site: Vec<_> = told.iter().filter(|event| event["involvedObject"]["kind"] == "Cluster").collect();
    assert_eq!((&of_site[0]["involvedObject"]["name"], &of_site[0]["count"]), (&json!("m1"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_word_wakes_the_bindings_whose_works_wait() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    let woken = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let heard = woken.clone();
    rig.shared.clusters.listen({
        let shared = rig.shared.clone();
        move |transition| {
            heard.lock().extend(waiting_for_confirmation(
                &shared.bindings,
                &shared.removal_limit,
                transition,
            ));
        }
    });
    confirm(&rig, "20260501T120000Z").await;
    assert_eq!(woken.lock().len(), 20);
    woken.lock().clear();
    let edit = |cluster: &mut Value| cluster["spec"]["region"] = json!("eu");
    rig.edit((CLUSTER_API, "Cluster"), &testing::key("", "m1"), edit).await;
    assert_eq!(woken.lock().len(), 0, "nothing was said");
}

/// Whoever says that nothing waits at a site means what waits there too.
#[tokio::test(start_paused = true)]
async fn a_policy_that_holds_nothing_back_lets_go_what_waits() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (20, 20));
    let policy = |percent: i64| link_policy(&json!({"maxPercent": percent}));
    rig.api.seed(policy(99));
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (20, 20), "what waits is not counted anew");
    rig.api.seed(policy(100));
    rig.quiet().await;
    assert_eq!(rig.shared.removal_limit.all_held().len(), 20, "all of them are woken");
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_wanted_again_waits_no_more() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    move_all(&rig, "m1").await;
    // The ten that went wait for their site to remove them before they come again.
    assert_eq!(works(&rig, "m1"), (20, 0));
    assert_eq!(works(&rig, "m2"), (20, 20), "and the other site is as careful");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_deletes_goes_however_much_it_is() {
    let rig = placed(&[]).await;
    for at in 0..COUNT {
        rig.delete((BINDING_API, "ResourceBinding"), &binding_key(at)).await;
    }
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_is_leaving_everything_goes() {
    let rig = placed(&[]).await;
    rig.delete((CLUSTER_API, "Cluster"), &testing::key("", "m1")).await;
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (0, 0));
}

/// A site of the same name that joins later is another one.
#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_is_gone_nothing_is_remembered() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    assert_eq!(rig.shared.removal_limit.remembers(), 1);
    rig.remove((CLUSTER_API, "Cluster"), &testing::key("", "m1")).await;
    assert_eq!(rig.shared.removal_limit.remembers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_policy_says_how_many() {
    let part = json!({"maxObjects": 3, "maxPercent": 50, "within": "60s"});
    for (deletes, left) in
        [(json!({"maxPercent": 100}), 0), (part, 15), (json!({"maxObjects": 0, "maxPercent": 0}), COUNT)]
    {
        let rig = placed(&[link_policy(&deletes)]).await;
        move_all(&rig, "m2").await;
        assert_eq!(works(&rig, "m1"), (left, left), "{deletes}");
    }
}

/// Whatever a LinkPolicy says meanwhile: what waits goes by a word, and by nothing else.
#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_while_works_wait_lets_none_go_and_none_be_stuck() {
    let policies = [
        json!({"maxObjects": 0, "maxPercent": 0}),
        json!({"maxObjects": i32::MAX, "maxPercent": 99, "within": "24h"}),
        json!({"within": "soon"}),
    ];
    for deletes in policies {
        let rig = placed(&[]).await;
        move_all(&rig, "m2").await;
        rig.api.seed(link_policy(&deletes));
        reconcile_all(&rig).await;
        assert_eq!(works(&rig, "m1"), (20, 20), "{deletes}");
        rig.delete(("edge.karmada.io/v1alpha1", "LinkPolicy"), &testing::key("", "p")).await;
        reconcile_all(&rig).await;
        assert_eq!(works(&rig, "m1"), (20, 20), "{deletes} is gone");
        confirm(&rig, "20260501T120000Z").await;
        reconcile_all(&rig).await;
        assert_eq!(works(&rig, "m1"), (0, 0), "{deletes}");
    }
}

/// Somebody mistook the year, or the clock was ahead when something was let go: that is no word for all that ever waits.
#[tokio::test(start_paused = true)]
async fn a_word_for_an_hour_to_come_lets_nothing_go_that_is_held_later() {
    for word in ["20260501T120000Z", "20260601T000000Z", "99991231T235959Z", "zzzzzzzzzzzzzzzz"] {
        let rig = placed(&[]).await;
        confirm(&rig, word).await;
        move_all(&rig, "m2").await;
        reconcile_all(&rig).await;
        assert_eq!(works(&rig, "m1"), (20, 20), "{word}");
        let mark = works_of_m1(&rig).await.iter().find_map(|work| work.labels.get(REMOVAL_HELD).cloned());
        confirm(&rig, &mark.unwrap()).await;
        reconcile_all(&rig).await;
        assert_eq!(works(&rig, "m1"), (0, 0), "{word}");
    }
}

/// Nobody could say the word for it, and all else of its site would wait with it.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_no_mark_holds_nothing() {
    let rig = placed(&[]).await;
    let held = works_of_m1(&rig).await[0].key.clone();
    let edit = |work: &mut Value| work["metadata"]["labels"][REMOVAL_HELD] = json!("soon");
    rig.edit((WORK_API, "Work"), &held, edit).await;
    let binding = rig.shared.bindings.of_work(&works_of_m1(&rig).await[0]).unwrap();
    let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m2"}]);
    rig.edit((BINDING_API, "ResourceBinding"), &binding, edit).await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (COUNT - 1, 0));
}

/// Workers judge side by side, and each waits for the count of a site's Works.
#[tokio::test(start_paused = true)]
async fn several_at_once_take_no_more_than_one_after_the_other() {
    let rig = placed(&[link_policy(&json!({"maxObjects": 0}))]).await;
    let works = works_of_m1(&rig).await;
    let count = async || {
        tokio::task::yield_now().await;
        Ok::<usize, Error>(COUNT)
    };
    let of = ObjectReference::default();
    let judged = works.iter().map(|work| rig.shared.removal_limit.judge(work, &of, count()));
    let judged = futures::future::try_join_all(judged).await.unwrap();
    assert_eq!(judged.iter().filter(|removal| **removal == Removal::Goes).count(), 7);
}

/// What a Cluster says that cannot be read any more counts as it was; it is not gone.
#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_cannot_be_read_no_more_goes_than_its_policy_says() {
    let rig = placed(&[link_policy(&json!({"maxObjects": 3, "maxPercent": 50}))]).await;
    let [mut unreadable, _] = testing::cluster("m1", &json!({"site": "m1"}));
    unreadable["status"]["resourceSummary"] = json!({"allocatableModelings": [{"grade": -1, "count": 1}]});
    rig.api.seed(unreadable);
    rig.quiet().await;
    assert_eq!(rig.shared.clusters.unread("").len(), 1);
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (15, 15));
    confirm(&rig, "20260501T120000Z").await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0), "a person's word is read all the same");
}

/// A word that was said while it was wanted is none for the next time.
#[tokio::test(start_paused = true)]
async fn what_is_wanted_again_waits_no_more_also_where_it_cannot_be_made() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    let overrides = json!({"apiVersion": POLICY_API, "kind": "ClusterOverridePolicy", "metadata": {"name": "o"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]},
                "overriders": {"plaintext": [{"path": "/nothing/here", "operator": "replace", "value": 1}]}}]}});
    rig.api.seed(overrides);
    let controller = Binding::new(rig.shared.clone());
    for at in 0..COUNT {
        let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m1"}]);
        rig.edit((BINDING_API, "ResourceBinding"), &binding_key(at), edit).await;
        controller.reconcile(&binding_key(at)).await.unwrap_err();
        rig.quiet().await;
    }
    assert_eq!(works(&rig, "m1"), (20, 0));
    assert!(rig.shared.removal_limit.all_held().iter().all(|work| &*work.key.namespace != "karmada-es-m1"));
    confirm(&rig, "20260501T120000Z").await;
    move_all(&rig, "m2").await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn what_waits_goes_with_its_binding_and_with_its_cluster() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    for at in 0..COUNT {
        rig.delete((BINDING_API, "ResourceBinding"), &binding_key(at)).await;
    }
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0), "a person deleted the bindings");
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    rig.delete((CLUSTER_API, "Cluster"), &testing::key("", "m1")).await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (0, 0), "a person deleted the Cluster");
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_marked_whatever_happens_between() {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"site": name})));
    let mut objects: Vec<Value> = clusters.collect();
    objects.extend([testing::config_map("web"), testing::binding("web", &json!({}), &["m2"])]);
    objects.push(link_policy(&json!({"maxObjects": 0, "maxPercent": 0})));
    objects.push(json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "old", "namespace": "karmada-es-m1",
        "labels": {"resourcebinding.karmada.io/permanent-id": "b-web"}}, "spec": {"workload": {"manifests": []}}}));
    let look = async |rig: &Rig| {
        Binding::new(rig.shared.clone()).reconcile(&testing::key("default", "web-configmap")).await
    };
    let (api, writes) = testing::bears_trouble(&objects, look).await;
    assert_eq!(writes, 2, "the mark, and the Work of the other site");
    let old = api.value(WORK_API, "Work", "karmada-es-m1", "old").unwrap();
    assert_eq!(old["metadata"]["labels"][REMOVAL_HELD], "20260501T120000Z");
}

/// Has one binding follow another that left m1 for m2; `in_turn`: that follows others as well.
async fn follow(rig: &Rig, at: usize, referrer: usize, in_turn: bool) {
    let name = format!("{}-configmap", name(referrer));
    let edit = |binding: &mut Value| {
        binding["spec"]["clusters"] = json!([]);
        binding["spec"]["propagateDeps"] = json!(in_turn);
        binding["spec"]["requiredBy"] =
            json!([{"namespace": "default", "name": name, "clusters": [{"name": "m2"}]}]);
    };
    rig.edit((BINDING_API, "ResourceBinding"), &binding_key(at), edit).await;
}

/// Else what is held back might go on running without what it needs.
#[tokio::test(start_paused = true)]
async fn what_follows_goes_after_what_it_follows() {
    let rig = placed(&[]).await;
    let controller = Binding::new(rig.shared.clone());
    let look = async |at: usize| {
        controller.reconcile(&binding_key(at)).await.unwrap();
        rig.quiet().await;
        works(&rig, "m1").0
    };
    let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m2"}]);
    rig.edit((BINDING_API, "ResourceBinding"), &binding_key(0), edit).await;
    follow(&rig, 1, 0, false).await;
    assert_eq!(look(1).await, COUNT, "of the one that it follows nobody has decided");
    let looks_again = controller.reconcile(&binding_key(1)).await.unwrap();
    assert!(matches!(looks_again, Action::RequeueAfter(_)), "should nobody tell: {looks_again:?}");
    assert_eq!(look(0).await, COUNT - 1);
    assert_eq!(look(1).await, COUNT - 2);
    // Two that follow each other wait for nobody.
    follow(&rig, 2, 3, true).await;
    follow(&rig, 3, 2, true).await;
    assert_eq!((look(2).await, look(3).await), (COUNT - 3, COUNT - 4));
}

/// One Work, and with it everything of a kind that the site has, whoever made it.
#[tokio::test(start_paused = true)]
async fn a_definition_of_a_kind_waits_alone() {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"site": name})));
    let name = "widgets.example.com";
    let binding = format!("{name}-customresourcedefinition");
    let definition = |clusters: &[&str]| {
        let mut made = testing::binding("web", &json!({}), clusters);
        made["kind"] = json!("ClusterResourceBinding");
        made["metadata"] = json!({"name": binding, "generation": 1, "finalizers": ["karmada.io/cluster-resource-binding-controller"],
            "labels": {"clusterresourcebinding.karmada.io/permanent-id": "b-widgets"}});
        made["spec"]["resource"] = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": name});
        made
    };
    let template = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}});
    let others = [testing::config_map(&self::name(0)), testing::binding(&self::name(0), &json!({}), &["m1"])];
    let rig = Rig::new(clusters.chain([template, definition(&["m1"])]).chain(others)).await;
    let controller = Binding::new(rig.shared.clone());
    let look = async || {
        controller.reconcile(&testing::key("", &binding)).await.unwrap();
        controller.reconcile(&binding_key(0)).await.unwrap();
        rig.quiet().await;
        (works(&rig, "m1"), works(&rig, "m2"))
    };
    assert_eq!(look().await, ((2, 0), (0, 0)));
    let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m2"}]);
    rig.edit((BINDING_API, "ClusterResourceBinding"), &testing::key("", &binding), edit).await;
    assert_eq!(look().await, ((2, 1), (1, 0)));
    // It says nothing of what else goes, which is one of one.
    rig.edit((BINDING_API, "ResourceBinding"), &binding_key(0), edit).await;
    assert_eq!(look().await, ((1, 1), (2, 0)));
    confirm(&rig, "20260501T120000Z").await;
    assert_eq!(look().await, ((0, 0), (2, 0)));
}

/// What stays in the member takes nothing away, however much it takes along.
#[tokio::test(start_paused = true)]
async fn a_definition_that_the_member_keeps_does_not_wait() {
    let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({"site": name})));
    let mut space = testing::binding("web", &json!({}), &["m1"]);
    space["kind"] = json!("ClusterResourceBinding");
    space["metadata"] = json!({"name": "team-namespace", "generation": 1, "finalizers": ["karmada.io/cluster-resource-binding-controller"],
        "labels": {"clusterresourcebinding.karmada.io/permanent-id": "b-team"}});
    space["spec"]["resource"] = json!({"apiVersion": "v1", "kind": "Namespace", "name": "team"});
    space["spec"]["preserveResourcesOnDeletion"] = json!(true);
    let template = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let rig = Rig::new(clusters.chain([template, space])).await;
    let controller = Binding::new(rig.shared.clone());
    let key = testing::key("", "team-namespace");
    let look = async || {
        controller.reconcile(&key).await.unwrap();
        rig.quiet().await;
        (works(&rig, "m1"), works(&rig, "m2"))
    };
    assert_eq!(look().await, ((1, 0), (0, 0)));
    let edit = |binding: &mut Value| binding["spec"]["clusters"] = json!([{"name": "m2"}]);
    rig.edit((BINDING_API, "ClusterResourceBinding"), &key, edit).await;
    assert_eq!(look().await, ((0, 0), (1, 0)));
}

/// Every site has as many Works of namespaces as the hub has namespaces.
#[tokio::test(start_paused = true)]
async fn a_fifth_is_of_what_was_placed_there() {
    let namespaces = (0..300).map(|at| {
        json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": format!("n-{at}"), "namespace": "karmada-es-m1",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": format!("n-{at}"), "uid": "u"}]},
            "spec": {"workload": {"manifests": []}}})
    });
    let rig = placed(&[]).await;
    rig.api.seed_all(namespaces);
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (300 + 20, 20));
}
