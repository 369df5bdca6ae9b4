//! Where Services are reached, as the hub asks it by a Work that is held back.

use super::departures::delete;
use super::*;

fn question() -> Value {
    json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"types": ["CrossCluster"]}})
}

fn slice(name: &str, address: &str) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": [{"port": 80}]})
}

/// The addresses that are told, and whether applying it is.
fn told(rig: &Rig) -> Option<(Vec<String>, bool)> {
    let report = rig.shared.outbox.lock().report("ask").cloned()?;
    let statuses: Value = serde_json::from_slice(&report.manifest_statuses?).ok()?;
    let slices = statuses.pointer("/0/status/endpointSlices")?.as_array()?;
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let addresses = endpoints.filter_map(|endpoint| endpoint["addresses"][0].as_str().map(str::to_owned));
    Some((addresses.collect(), report.applied.is_some()))
}

fn is(addresses: &[&str]) -> Option<(Vec<String>, bool)> {
    Some((addresses.iter().map(|one| (*one).to_owned()).collect(), false))
}

#[tokio::test(start_paused = true)]
async fn a_work_that_asks_is_answered_by_its_status_and_nothing_is_made_of_it() {
    let rig = Rig::fresh();
    rig.member.seed(slice("web-1", "10.0.0.1"));
    rig.commit(&[put("ask", 5, &[question()], true)]);
    rig.until("what there is is told", |rig| told(rig) == is(&["10.0.0.1"])).await;
    rig.member.seed(slice("web-2", "10.0.0.2"));
    rig.until("what comes is told", |rig| told(rig) == is(&["10.0.0.1", "10.0.0.2"])).await;
    let writes = rig.member.writes();
    rig.commit(&[put("second", 6, &[question()], true)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.member.writes(), writes);
    rig.commit(&[delete("ask", 7)]);
    rig.until("it is gone", |rig| rig.shared.outbox.lock().report("ask").is_none()).await;
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn that_there_is_nothing_is_told_and_one_that_is_not_held_back_asks_nothing() {
    let rig = Rig::fresh();
    rig.commit(&[put("ask", 5, &[question()], true)]);
    rig.until("that there is nothing is told", |rig| told(rig) == is(&[])).await;
    rig.commit(&[put("ask", 6, &[question()], false)]);
    rig.until("it is applied, and fails", |rig| {
        let report = rig.shared.outbox.lock().report("ask").cloned();
        report.is_some_and(|report| report.manifest_statuses.is_none() && report.applied.is_some())
    })
    .await;
    rig.end().await;
}
