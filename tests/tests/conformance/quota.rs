//! ResourceQuotas: what fits in a namespace, and what a client is told of the rest.

use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::Calls as _;
use tests::subject::shared;

fn pod(name: &str, cpu: &str) -> Value {
    let resources = if cpu.is_empty() { json!({}) } else { json!({"requests": {"cpu": cpu}}) };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[test]
fn what_does_not_fit_is_refused_and_what_is_used_is_told() {
    let subject = shared();
    let (caller, namespace) = (subject.caller(), subject.namespace("quota"));
    // The members' own controllers put a ConfigMap and an account into each namespace; they are there before the count begins.
    eventually("the namespace to be furnished", TIMEOUT, || {
        let account = caller.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")).code;
        let root = caller.get(&format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")).code;
        so((account, root) == (200, 200), || format!("{account} {root}"))
    });
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {
        "configmaps": "2", "pods": "2", "requests.cpu": "1", "count/deployments.apps": "0", "services.nodeports": "1"}}});
    let at = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let quotas = at("resourcequotas");
    caller.post(&quotas, &quota).is(201);
    let used = |wanted: &Value| {
        eventually("the use to be counted", TIMEOUT, || {
            let found = caller.get(&format!("{quotas}/q")).is(200).json();
            so(found["status"]["used"] == *wanted, || found["status"].to_string())
        });
    };
    used(
        &json!({"configmaps": "1", "pods": "0", "requests.cpu": "0", "count/deployments.apps": "0", "services.nodeports": "0"}),
    );
    caller.post(&at("configmaps"), &map("a")).is(201);
    let message = caller.post(&at("configmaps"), &map("b")).refusal(403, "Forbidden");
    assert_eq!(
        message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    );
    let message = caller.post(&at("pods"), &pod("silent", "")).refusal(403, "Forbidden");
    assert_eq!(message, "pods \"silent\" is forbidden: failed quota: q: must specify requests.cpu for: c");
    caller.post(&at("pods"), &pod("a", "600m")).is(201);
    let message = caller.post(&at("pods"), &pod("b", "500m")).refusal(403, "Forbidden");
    assert_eq!(
        message,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let refused = caller.post(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment);
    let message = refused.refusal(403, "Forbidden");
    assert_eq!(
        message,
        "deployments.apps \"d\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0"
    );
    used(
        &json!({"configmaps": "2", "pods": "1", "requests.cpu": "600m", "count/deployments.apps": "0", "services.nodeports": "0"}),
    );
    caller.delete(&format!("{}/a", at("configmaps")), &Value::Null).is(200);
    used(
        &json!({"configmaps": "1", "pods": "1", "requests.cpu": "600m", "count/deployments.apps": "0", "services.nodeports": "0"}),
    );
    caller.post(&at("configmaps"), &map("b")).is(201);
    let described = subject.kubectl().in_namespace(&namespace).ok(&["describe", "quota", "q"]);
    assert!(described.contains("requests.cpu"), "{described}");
}

#[test]
fn scopes_choose_the_pods() {
    let subject = shared();
    let (caller, namespace) = (subject.caller(), subject.namespace("quota-scopes"));
    let at = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    eventually("the account to be there", TIMEOUT, || {
        let code = caller.get(&format!("{}/default", at("serviceaccounts"))).code;
        so(code == 200, || code.to_string())
    });
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}});
    caller.post(&at("resourcequotas"), &quota).is(201);
    eventually("the quota to be in force", TIMEOUT, || {
        let answer = caller.post(&format!("{}?dryRun=All", at("pods")), &pod("a", ""));
        so(
            answer.text.contains("exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"),
            || answer.text.clone(),
        )
    });
    caller.post(&at("pods"), &pod("b", "100m")).is(201);
}

#[test]
fn limits_fill_in_and_bound_what_is_asked() {
    let subject = shared();
    let (caller, namespace) = (subject.caller(), subject.namespace("limits"));
    let at = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    eventually("the account to be there", TIMEOUT, || {
        let code = caller.get(&format!("{}/default", at("serviceaccounts"))).code;
        so(code == 200, || code.to_string())
    });
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "defaultRequest": {"cpu": "200m"}, "default": {"cpu": "500m"}}]}});
    caller.post(&at("limitranges"), &limits).is(201);
    let filled = eventually("the limits to be in force", TIMEOUT, || {
        let answer = caller.post(&format!("{}?dryRun=All", at("pods")), &pod("a", "")).is(201).json();
        so(answer["spec"]["containers"][0]["resources"] != json!({}), || answer["spec"].to_string())?;
        Ok(answer)
    });
    let resources = &filled["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "200m"}}));
    assert_eq!(
        filled["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let message = caller.post(&at("pods"), &pod("b", "50m")).refusal(403, "Forbidden");
    assert_eq!(
        message,
        "pods \"b\" is forbidden: minimum cpu usage per Container is 100m, but request is 50m"
    );
    let mut greedy = pod("c", "1");
    greedy["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "2"});
    let message = caller.post(&at("pods"), &greedy).refusal(403, "Forbidden");
    assert_eq!(message, "pods \"c\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
}
