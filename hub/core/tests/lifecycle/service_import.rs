//! Services of other clusters: the Service that is derived from a ServiceImport.

use karmada_core::service_import::{Derived, derive, is_made_for_importers, with_status};
use serde_json::{Value, json};

const AT: (&str, &str) = ("shop", "web");

fn import(spec: &Value) -> Value {
    json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": {"name": "web", "namespace": "shop", "uid": "i"}, "spec": spec})
}

fn cluster_set_ip() -> Value {
    import(&json!({"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80}]}))
}

/// The derived Service as an API server has it: with all that it fills in.
fn stored() -> Value {
    let Derived::Create(mut service) = derive(AT, Some(&cluster_set_ip()), None) else {
        panic!("it is made")
    };
    let filled = json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "type": "ClusterIP", "sessionAffinity": "None",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]});
    service["spec"] = filled;
    service["status"] = json!({"loadBalancer": {}});
    service
}

fn updated(import: &Value, service: &Value) -> Value {
    let Derived::Update(wanted) = derive(AT, Some(import), Some(service)) else { panic!("it is changed") };
    wanted
}

#[test]
fn a_service_is_derived_once_and_at_rest_nothing_is_written() {
    let service = stored();
    assert_eq!(
        (&service["metadata"]["name"], &service["metadata"]["namespace"]),
        (&json!("derived-web"), &json!("shop"))
    );
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "i", "it ends with its ServiceImport");
    assert!(service["spec"]["selector"].is_null());
    assert_eq!(derive(AT, Some(&cluster_set_ip()), Some(&service)), Derived::Stays);
    assert_eq!(with_status(&cluster_set_ip(), &service), None);
}

#[test]
fn what_the_import_says_otherwise_is_changed_and_the_address_stays() {
    let more = import(
        &json!({"type": "ClusterSetIP", "ports": [{"name": "http", "port": 81}], "sessionAffinity": "ClientIP"}),
    );
    let wanted = updated(&more, &stored());
    assert_eq!(
        wanted["spec"],
        json!({"type": "ClusterIP", "ports": [{"name": "http", "port": 81}], "sessionAffinity": "ClientIP", "clusterIP": "10.96.0.9"})
    );
    let mut selecting = stored();
    selecting["spec"]["selector"] = json!({"app": "web"});
    assert!(updated(&cluster_set_ip(), &selecting)["spec"]["selector"].is_null());
    let addressed = import(&json!({"type": "ClusterSetIP", "ports": [], "ips": ["10.1.0.1"]}));
    assert_eq!(
        with_status(&addressed, &stored()).unwrap()["status"]["loadBalancer"],
        json!({"ingress": [{"ip": "10.1.0.1"}]})
    );
}

#[test]
fn marks_of_the_hub_stay_on_it_and_no_others() {
    let mut marked = stored();
    marked["metadata"]["labels"] =
        json!({"propagationpolicy.karmada.io/permanent-id": "p", "mine": "x", "notkarmada.io/x": "y"});
    marked["metadata"]["annotations"] = json!({"a": "b"});
    let wanted = updated(&cluster_set_ip(), &marked);
    assert_eq!(wanted["metadata"]["labels"], json!({"propagationpolicy.karmada.io/permanent-id": "p"}));
    assert!(wanted["metadata"]["annotations"].is_null());
}

#[test]
fn it_goes_with_its_import_and_a_persons_own_stays() {
    let service = stored();
    assert_eq!(derive(AT, None, Some(&service)), Derived::Delete);
    let mut going = cluster_set_ip();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(derive(AT, Some(&going), Some(&service)), Derived::Delete);
    let mut own = service.clone();
    own["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "c"}]);
    assert_eq!(derive(AT, None, Some(&own)), Derived::Stays);
    let taken = updated(&cluster_set_ip(), &own);
    assert_eq!(derive(AT, None, Some(&taken)), Derived::Delete, "it was taken over");
    let mut anew = cluster_set_ip();
    anew["metadata"]["uid"] = json!("later");
    assert_eq!(updated(&anew, &service)["metadata"]["ownerReferences"][0]["uid"], "later");
    let mut leaving = service;
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        derive(AT, Some(&cluster_set_ip()), Some(&leaving)),
        Derived::Stays,
        "it is made anew once it is gone"
    );
    assert_eq!(derive(AT, None, Some(&leaving)), Derived::Stays);
}

#[test]
fn of_a_headless_import_none_is_derived_and_one_without_a_possible_name_is_refused() {
    let headless = import(&json!({"type": "Headless", "ports": []}));
    assert_eq!(derive(AT, Some(&headless), None), Derived::Stays);
    assert_eq!(derive(AT, Some(&headless), Some(&stored())), Derived::Stays);
    let long = "w".repeat(56);
    let refused = derive(("shop", &long), Some(&cluster_set_ip()), None);
    assert!(matches!(&refused, Derived::Refused(words) if words.contains("63 characters")), "{refused:?}");
}

#[test]
fn what_is_there_for_importers_is_known_and_a_persons_own_is_not() {
    let slice = |by: &str| json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": by}}});
    assert!(
        is_made_for_importers(&stored())
            && is_made_for_importers(&slice("endpointslice-controller.karmada.io"))
    );
    let mut own = stored();
    own["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    assert!(
        !is_made_for_importers(&own) && !is_made_for_importers(&slice("endpointslice-controller.k8s.io"))
    );
}
