//! Works that a change of placement would take too many of at once, over the port in memory: they wait, also after a restart, until a person
//! says otherwise; what a person deletes does not.

use serde_json::json;

use super::*;
use crate::rig::{self, CLUSTER_API, Rig};

const COUNT: usize = 30;

fn name(at: usize) -> String {
    format!("c{at:02}")
}

/// Two sites, and `COUNT` ConfigMaps in the first of them.
async fn placed(more: &[Value]) -> Rig {
    let sites = ["m1", "m2"].into_iter().flat_map(|name| rig::cluster(name, &json!({"site": name})));
    let templates = (0..COUNT).map(|at| rig::config_map(&name(at)));
    let bindings = (0..COUNT).map(|at| rig::binding(&name(at), &json!({}), &["m1"]));
    let rig = Rig::new(sites.chain(templates).chain(bindings).chain(more.iter().cloned())).await;
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (COUNT, 0));
    rig
}

fn binding_key(at: usize) -> Key {
    rig::key("default", &format!("{}-configmap", name(at)))
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
    rig.edit((CLUSTER_API, "Cluster"), &rig::key("", "m1"), edit).await;
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
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["involvedObject"]["name"], &told[0]["count"]), (&json!("m1"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_word_wakes_the_bindings_whose_works_wait() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    let woken = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let heard = woken.clone();
    rig.shared.clusters.listen({
        let shared = rig.shared.clone();
        move |turn| heard.lock().extend(waiting_for_a_word(&shared.bindings, &shared.safe_deletes, turn))
    });
    confirm(&rig, "20260501T120000Z").await;
    assert_eq!(woken.lock().len(), 20);
    woken.lock().clear();
    let edit = |cluster: &mut Value| cluster["spec"]["region"] = json!("eu");
    rig.edit((CLUSTER_API, "Cluster"), &rig::key("", "m1"), edit).await;
    assert_eq!(woken.lock().len(), 0, "nothing was said");
}

/// Whoever says that nothing waits at a site means what waits there too.
#[tokio::test(start_paused = true)]
async fn a_policy_that_holds_nothing_back_lets_go_what_waits() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (20, 20));
    let policy = |percent: i64| json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "LinkPolicy", "metadata": {"name": "p"}, "spec": {"deletes": {"maxPercent": percent}}});
    rig.api.seed(policy(99));
    reconcile_all(&rig).await;
    assert_eq!(works(&rig, "m1"), (20, 20), "what waits is not counted anew");
    rig.api.seed(policy(100));
    rig.quiet().await;
    assert_eq!(rig.shared.safe_deletes.all_marked().len(), 20, "all of them are woken");
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
    rig.delete((CLUSTER_API, "Cluster"), &rig::key("", "m1")).await;
    move_all(&rig, "m2").await;
    assert_eq!(works(&rig, "m1"), (0, 0));
}

/// A site of the same name that joins later is another one.
#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_is_gone_nothing_is_remembered() {
    let rig = placed(&[]).await;
    move_all(&rig, "m2").await;
    assert_eq!(rig.shared.safe_deletes.remembers(), 1);
    rig.remove((CLUSTER_API, "Cluster"), &rig::key("", "m1")).await;
    assert_eq!(rig.shared.safe_deletes.remembers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_policy_says_how_many() {
    let policy = |deletes: &Value| {
        json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "LinkPolicy", "metadata": {"name": "p"},
            "spec": {"clusterSelector": {"matchLabels": {"site": "m1"}}, "deletes": deletes}})
    };
    let part = json!({"maxObjects": 3, "maxPercent": 50, "within": "60s"});
    for (deletes, left) in
        [(json!({"maxPercent": 100}), 0), (part, 15), (json!({"maxObjects": 0, "maxPercent": 0}), COUNT)]
    {
        let rig = placed(&[policy(&deletes)]).await;
        move_all(&rig, "m2").await;
        assert_eq!(works(&rig, "m1"), (left, left), "{deletes}");
    }
}
