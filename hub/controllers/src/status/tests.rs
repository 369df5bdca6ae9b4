//! The status controller as a shell.

use serde_json::json;

use super::*;
use crate::testing::{self, Rig, bears_trouble, key};

fn objects() -> Vec<Value> {
    let report = |replicas: u64| json!({"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas});
    let work = |cluster: &str, replicas: u64| {
        json!({"apiVersion": WORK_API, "kind": "Work",
            "metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}"), "generation": 1,
                "labels": {"resourcebinding.karmada.io/permanent-id": "b-web"}},
            "spec": {"workload": {"manifests": []}},
            "status": {"conditions": [{"type": "Applied", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "manifestStatuses": [{"identifier": {}, "status": report(replicas), "health": "Healthy"}]}})
    };
    let mut binding = testing::binding("web", &json!({}), &["m1", "m2"]);
    binding["spec"]["resource"] =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    let template = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "generation": 1}, "spec": {"replicas": 5}});
    vec![binding, template, work("m1", 2), work("m2", 3)]
}

async fn look(rig: &Rig) -> Result<Action, Error> {
    BindingStatus::new(rig.shared.clone()).reconcile(&key("default", "web-configmap")).await
}

#[tokio::test(start_paused = true)]
async fn reports_reach_the_binding_and_the_template_whatever_happens_between() {
    let (api, writes) = bears_trouble(&objects(), look).await;
    assert_eq!(writes, 2);
    let template = api.value("apps/v1", "Deployment", "default", "web").unwrap();
    assert_eq!(template["status"]["readyReplicas"], 5);
}

/// A fleet of which one site or another reports all the time.
#[tokio::test(start_paused = true)]
async fn what_many_sites_report_is_told_at_a_pace_and_all_of_it_in_the_end() {
    let mut objects = objects();
    let work = objects.pop().unwrap();
    for at in 0..400 {
        let mut work = work.clone();
        work["metadata"]["namespace"] = json!(format!("karmada-es-s{at}"));
        objects.push(work);
    }
    let rig = Rig::new(objects).await;
    let controller = BindingStatus::new(rig.shared.clone());
    let mut rests = 0;
    for replicas in 0..20 {
        let mut work = rig.api.value(WORK_API, "Work", "karmada-es-s7", "w").unwrap();
        work["status"]["manifestStatuses"][0]["status"]["readyReplicas"] = json!(replicas);
        rig.api.seed(work);
        rig.quiet().await;
        let action = controller.reconcile(&key("default", "web-configmap")).await.unwrap();
        rests += usize::from(matches!(action, Action::RequeueAfter(rest) if rest <= Duration::from_secs(2)));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!((14..=16).contains(&rests), "{rests} of 20 wait");
    tokio::time::sleep(Duration::from_secs(2)).await;
    controller.reconcile(&key("default", "web-configmap")).await.unwrap();
    let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    let items = binding["status"]["aggregatedStatus"].as_array().unwrap();
    let told = items.iter().find(|item| item["clusterName"] == "s7").unwrap();
    assert_eq!(told["status"]["readyReplicas"], 19);
}

#[tokio::test(start_paused = true)]
async fn works_are_read_again_when_one_changed_and_not_for_ones_own_words() {
    let rig = Rig::new(objects()).await;
    let controller = BindingStatus::new(rig.shared.clone());
    let reads = async || {
        let before = rig.api.calls("read", "Work");
        rig.quiet().await;
        controller.reconcile(&key("default", "web-configmap")).await.unwrap();
        rig.api.calls("read", "Work") - before
    };
    assert_eq!((reads().await, reads().await), (2, 0));
    let mut work = rig.api.value(WORK_API, "Work", "karmada-es-m1", "w").unwrap();
    work["status"]["manifestStatuses"][0]["status"]["readyReplicas"] = json!(1);
    rig.api.seed(work);
    assert_eq!(reads().await, 1, "the other says what it said");
    let template = rig.api.value("apps/v1", "Deployment", "default", "web").unwrap();
    assert_eq!(template["status"]["readyReplicas"], 4);
    let mut spoilt = template.clone();
    spoilt["status"]["readyReplicas"] = json!(99);
    rig.api.seed(spoilt);
    assert_eq!(reads().await, 0, "somebody else wrote the template");
    let mended = rig.api.value("apps/v1", "Deployment", "default", "web").unwrap();
    assert_eq!(mended["status"], template["status"]);
    let mut spoilt = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    spoilt["status"]["aggregatedStatus"] = json!([]);
    rig.api.seed(spoilt);
    assert_eq!(reads().await, 2, "somebody else wrote the binding");
    let mended = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    assert_eq!(mended["status"]["aggregatedStatus"].as_array().map(Vec::len), Some(2));
    rig.remove((WORK_API, "Work"), &key("karmada-es-m1", "w")).await;
    assert_eq!(reads().await, 0, "what is gone is not told, and the rest stands");
    let one = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
    let named: Vec<&Value> = one["status"]["aggregatedStatus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["clusterName"])
        .collect();
    assert_eq!(named, ["m2"]);
    rig.remove((BINDING_API, "ResourceBinding"), &key("default", "web-configmap")).await;
    reads().await;
    assert!(controller.settled.lock().is_empty(), "nothing is kept of what is gone");
}

/// Nine clusters whose statuses are a megabyte each, more than a binding may have: the template has what all of them report, also after one of them
/// reported anew, and the binding says what it has room for.
#[tokio::test(start_paused = true)]
async fn statuses_that_are_too_large_together_are_added_up_all_the_same() {
    let mut objects = objects();
    let mut work = objects.pop().unwrap();
    objects.pop();
    work["status"]["manifestStatuses"][0]["status"]["conditions"] = json!([{"type": "Progressing", "status": "True",
        "reason": "r", "message": "x".repeat(1 << 20), "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let clusters: Vec<String> = (1..=9).map(|at| format!("m{at}")).collect();
    objects[0]["spec"]["clusters"] =
        clusters.iter().map(|name| json!({"name": name, "replicas": 3})).collect();
    objects.extend(clusters.iter().map(|name| {
        let mut work = work.clone();
        work["metadata"]["namespace"] = json!(format!("karmada-es-{name}"));
        work
    }));
    let rig = Rig::new(objects).await;
    let controller = BindingStatus::new(rig.shared.clone());
    let tell = async || {
        rig.quiet().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        controller.reconcile(&key("default", "web-configmap")).await.unwrap();
        let binding = rig.api.value(BINDING_API, "ResourceBinding", "default", "web-configmap").unwrap();
        assert!(binding.to_string().len() < karmada_api::binding::LARGEST_BINDING);
        let template = rig.api.value("apps/v1", "Deployment", "default", "web").unwrap();
        let items = binding["status"]["aggregatedStatus"].as_array().unwrap().clone();
        let without = items.iter().filter(|item| item["status"].is_null()).count();
        (items.len(), without, template["status"]["readyReplicas"].clone())
    };
    assert_eq!(tell().await, (9, 2, json!(27)));
    let mut news = rig.api.value(WORK_API, "Work", "karmada-es-m9", "w").unwrap();
    news["status"]["manifestStatuses"][0]["status"]["readyReplicas"] = json!(1);
    rig.api.seed(news);
    assert_eq!(tell().await, (9, 2, json!(25)), "those that are left out count on");
    let mut less = rig.api.value(WORK_API, "Work", "karmada-es-m1", "w").unwrap();
    less["status"]["manifestStatuses"][0]["status"]["conditions"] = json!([]);
    rig.api.seed(less);
    assert_eq!(tell().await, (9, 1, json!(25)));
}
