//! Who is entered in an attached binding, and who is taken out.

use serde_json::json;

use super::*;

fn attached(referrers: &[(&str, &[&str])]) -> ResourceBinding {
    let snapshot = |(name, clusters): &(&str, &[&str])| {
        let clusters: Vec<_> = clusters.iter().map(|name| json!({"name": name})).collect();
        json!({"namespace": "d", "name": name, "clusters": clusters})
    };
    let listed: Vec<_> = referrers.iter().map(snapshot).collect();
    serde_json::from_value(json!({"metadata": {"name": "c-configmap", "namespace": "d"},
        "spec": {"resource": {}, "requiredBy": listed}}))
    .unwrap()
}

fn without(binding: &ResourceBinding, name: &str, left: Left) -> ResourceBinding {
    let others =
        |_: &str, other: &str| (other != name).then(|| DependencyPreferences::of(&BindingSpec::default()));
    detach(binding, "d", name, &others, left).unwrap()
}

fn names(binding: &ResourceBinding) -> String {
    let_go(binding).into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_a_deleted_referrer_alone_wanted_is_let_go_until_somebody_wants_it_again() {
    let both = attached(&[("a", &["m1", "m2"]), ("b", &["m2"])]);
    let left = without(&both, "a", Left::Deleted);
    assert_eq!(names(&left), "m1", "the other wants it in m2");
    assert_eq!(names(&without(&both, "a", Left::Otherwise)), "");
    let alone = without(&left, "b", Left::Otherwise);
    assert_eq!(names(&alone), "m1", "what was let go stays so, and no more is");
    assert_eq!(names(&without(&left, "b", Left::Deleted)), "m1 m2");
    let mut placed = alone.clone();
    placed.spec.placement = Some(Default::default());
    assert_eq!(names(&placed), "", "a policy has it now");
    let referrer: ResourceBinding =
        serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "d"},
        "spec": {"resource": {}, "clusters": [{"name": "m1"}]}}))
        .unwrap();
    let again = attach(Some(&alone), &referrer, &ObjectReference::default(), &|_, _| None).unwrap();
    let Change::Update(again) = again.change else { panic!("{again:?}") };
    assert_eq!(names(&again), "", "it is wanted again");
}

#[test]
fn a_cluster_that_leaves_is_taken_out_of_whoever_does_not_say_it_any_more() {
    let both = attached(&[("a", &["m1", "m2"]), ("b", &["m2"])]);
    let left = without_cluster(&both, "m2", &|_, _| false).unwrap();
    assert_eq!(left, attached(&[("a", &["m1"]), ("b", &[])]));
    assert_eq!(without_cluster(&left, "m2", &|_, _| false), None);
    let listed = without_cluster(&both, "m2", &|namespace, name| (namespace, name) == ("d", "b"));
    assert_eq!(listed, Some(attached(&[("a", &["m1"]), ("b", &["m2"])])));
}

/// Its owner is no controller of it: what it places tells whose it is.
#[test]
fn a_binding_of_another_kind_of_that_name_is_left_as_it_is() {
    let of_a_service: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"name": "web-service", "namespace": "d",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s"}]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Service", "namespace": "d", "name": "web", "uid": "s"}}}))
    .unwrap();
    let referrer: ResourceBinding = serde_json::from_value(
        json!({"metadata": {"name": "app-deployment", "namespace": "d"}, "spec": {"resource": {}, "clusters": [{"name": "m1"}]}}),
    )
    .unwrap();
    let attach = |api_version: &str, kind: &str, uid: &str| {
        let object =
            json!({"apiVersion": api_version, "kind": kind, "namespace": "d", "name": "web", "uid": uid});
        let object: ObjectReference = serde_json::from_value(object).unwrap();
        attach(Some(&of_a_service), &referrer, &object, &|_, _| None).map(|came| came.change)
    };
    let refused = Err(AttachError::OtherOwner("web-service".to_owned()));
    assert_eq!(attach("serving.knative.dev/v1", "Service", "k"), refused);
    assert_eq!(attach("v1", "service", "k"), refused);
    // Made anew, and read in another version: it is the same Service to whoever depends on it.
    for (api_version, uid) in [("v1", "s"), ("v1", "newer"), ("v2", "s")] {
        assert!(matches!(attach(api_version, "Service", uid), Ok(Change::Update(_))), "{api_version} {uid}");
    }
}
