//! Services that clusters give to others: who is asked, and what the hub keeps of the answers.

use std::collections::BTreeSet;

use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use karmada_api::work::Work;
use karmada_core::service_export::{self as export, Importing, There};
use serde_json::{Value, json};

const API: &str = "multicluster.x-k8s.io/v1alpha1";

fn service_export() -> Value {
    json!({"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web", "namespace": "shop", "uid": "e"}})
}

/// The binding of a ServiceExport that is to be in these clusters, some of which say that they hold it.
fn binding(clusters: &[&str], holding: &[&str]) -> ResourceBinding {
    let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    let items: Vec<Value> =
        holding.iter().map(|name| json!({"clusterName": name, "applied": true})).collect();
    serde_json::from_value(json!({"metadata": {"name": "web-serviceexport", "namespace": "shop"},
        "spec": {"resource": {"apiVersion": API, "kind": "ServiceExport", "namespace": "shop", "name": "web", "uid": "e"}, "clusters": targets},
        "status": {"aggregatedStatus": items}}))
    .unwrap()
}

/// The Work by which a cluster is asked, answered by IPv4 slices of these names, or not yet.
fn question(cluster: &str, slices: Option<&[&str]>) -> Work {
    let slice = |name: &&str| json!({"name": name, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    let told = slices.map(|slices| json!({"endpointSlices": slices.iter().map(slice).collect::<Vec<_>>()}));
    serde_json::from_value(json!({"metadata": {"name": "q", "namespace": format!("karmada-es-{cluster}"), "labels": {"work.karmada.io/permanent-id": "w"}},
        "spec": {"workload": {"manifests": []}}, "status": {"manifestStatuses": told.map(|told| json!({"status": told})).into_iter().collect::<Vec<_>>()}}))
    .unwrap()
}

/// What comes of all answers together.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    create: Vec<Value>,
    update: Vec<Value>,
    remove: BTreeSet<String>,
    taken: BTreeSet<String>,
    waits: bool,
}

fn planned(name: &str, questions: &[Work], own: &[Value], there: &There<'_>, clusters: &[&str]) -> Plan {
    let mut there = there.clone();
    there.own = own
        .iter()
        .map(|slice| (object::name(slice), serde_json::from_value(slice.clone()).unwrap()))
        .collect();
    let mut importing = Importing::of(("shop", name), &there);
    let mut plan = Plan::default();
    for question in questions {
        let existing = |name: &str| own.iter().find(|slice| object::name(slice) == name).cloned();
        let writes = importing.take(question, |name| clusters.contains(&name), existing);
        plan.create.extend(writes.create);
        plan.update.extend(writes.update);
    }
    let rest = importing.end();
    Plan { remove: rest.remove, taken: rest.taken, waits: rest.waits, ..plan }
}

fn plan(questions: &[Work], own: &[Value]) -> Plan {
    planned("web", questions, own, &There::default(), &[])
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(object::name).collect()
}

fn asked(
    export: Option<&Value>,
    binding: Option<&ResourceBinding>,
    held: &[&str],
) -> (Vec<String>, Vec<String>) {
    let asked = export::questions(export, binding, |name| name != "leaving", held.iter().copied());
    (asked.ask, asked.remove.into_iter().collect())
}

#[test]
fn who_holds_the_export_is_asked_and_asked_on_until_he_is_not_to_hold_it() {
    let (export, none) = (service_export(), Vec::<String>::new);
    let all = binding(&["a", "b", "leaving"], &["a", "leaving"]);
    assert_eq!(asked(Some(&export), Some(&all), &[]), (vec!["a".into()], none()), "b does not hold it yet");
    assert_eq!(
        asked(Some(&export), Some(&binding(&["a"], &[])), &["a", "b"]),
        (vec!["a".into()], vec!["b".into()])
    );
    assert_eq!(asked(Some(&export), None, &["a"]), (none(), vec!["a".into()]));
    assert_eq!(asked(None, Some(&all), &["a", "b"]), (none(), vec!["a".into(), "b".into()]));
    let mut of_another = binding(&["a"], &["a"]);
    of_another.spec.resource.uid = "earlier".into();
    assert_eq!(asked(Some(&export), Some(&of_another), &[]), (none(), none()));
    let mut of_another = binding(&["a"], &["a"]);
    of_another.spec.resource.api_version = "other.example.com/v1".into();
    assert_eq!(asked(Some(&export), Some(&of_another), &[]), (none(), none()), "another kind of that name");
    let mut going = service_export();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(asked(Some(&going), Some(&all), &["a"]).1, ["a"]);
}

#[test]
fn what_is_told_is_kept_as_it_is_told_and_at_rest_nothing_is_written() {
    let first = plan(&[question("a", Some(&["web-1", "web-2"])), question("b", Some(&["web-1"]))], &[]);
    assert_eq!(names(&first.create), ["imported-a-web-1", "imported-a-web-2", "imported-b-web-1"]);
    let there = first.create;
    assert_eq!(there[0]["metadata"]["labels"]["kubernetes.io/service-name"], "derived-web");
    let same = plan(&[question("a", Some(&["web-1", "web-2"])), question("b", Some(&["web-1"]))], &there);
    assert_eq!(same, Plan::default());
    let mut noted = there.clone();
    noted[0]["metadata"]["labels"]["clusterpropagationpolicy.karmada.io/permanent-id"] = json!("p");
    noted[0]["endpoints"] = json!([]);
    let mended = plan(&[question("a", Some(&["web-1", "web-2"])), question("b", Some(&["web-1"]))], &noted);
    assert_eq!((names(&mended.update), mended.create.len()), (vec!["imported-a-web-1"], 0));
    let mended = &mended.update[0];
    assert_eq!(mended["endpoints"], there[0]["endpoints"]);
    assert_eq!(
        mended["metadata"]["labels"]["clusterpropagationpolicy.karmada.io/permanent-id"], "p",
        "it stays"
    );
}

#[test]
fn what_is_told_no_more_goes_and_what_is_not_told_yet_stays() {
    let there =
        plan(&[question("a", Some(&["web-1", "web-2"])), question("b", Some(&["web-1"]))], &[]).create;
    let removed = |questions: &[Work]| plan(questions, &there).remove.into_iter().collect::<Vec<_>>();
    assert_eq!(removed(&[question("a", Some(&["web-2"])), question("b", None)]), ["imported-a-web-1"]);
    assert_eq!(
        removed(&[question("a", Some(&["web-1", "web-2"]))]),
        ["imported-b-web-1"],
        "b is asked no more"
    );
    let mut going = question("b", Some(&["web-1"]));
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(removed(&[question("a", None), going]), ["imported-b-web-1"]);
    let mut other = there.clone();
    other[2]["addressType"] = json!("IPv6");
    let anew = plan(&[question("a", None), question("b", Some(&["web-1"]))], &other);
    assert_eq!(
        (anew.remove, anew.update),
        (["imported-b-web-1".to_owned()].into(), vec![]),
        "it cannot be changed to IPv4"
    );
}

#[test]
fn what_has_the_name_already_is_left_alone_or_waited_for() {
    let told = [question("a", Some(&["web-1"]))];
    let named: BTreeSet<&str> = ["imported-a-web-1"].into();
    let foreign = There { foreign: named.clone(), ..There::default() };
    let left = planned("web", &told, &[], &foreign, &[]);
    assert_eq!((left.create.len(), left.waits, left.taken.len()), (0, false, 1));
    let others = There { of_others: named, ..There::default() };
    let waits = planned("web", &told, &[], &others, &[]);
    assert_eq!((waits.create.len(), waits.waits, waits.taken.len()), (0, true, 0));
}

#[test]
fn slices_of_clusters_whose_names_begin_alike_have_two_names_on_the_hub() {
    let told = [question("a", Some(&["b-web"])), question("a-b", Some(&["web"]))];
    let plan = planned("web", &told, &[], &There::default(), &["a", "a-b"]);
    assert_eq!(names(&plan.create), ["imported-a.b-web", "imported-a-b-web"]);
}

#[test]
fn a_service_whose_derived_name_is_too_long_is_kept_nowhere() {
    let long = "w".repeat(56);
    let plan = planned(&long, &[question("a", Some(&["web-1"]))], &[], &There::default(), &[]);
    assert_eq!(plan, Plan::default());
    let fits = planned(&long[1..], &[question("a", Some(&["web-1"]))], &[], &There::default(), &[]);
    assert_eq!(fits.create.len(), 1);
}
