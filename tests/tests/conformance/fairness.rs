//! Priority and fairness: what is there from the start, what answers say of it, and that a flood does not keep others out.

use serde_json::json;
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::wait::eventually;

use crate::access::certificate_of;
use crate::request::{Caller, Calls as _};
use tests::subject::shared;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

#[test]
fn answers_say_by_what_they_were_judged() {
    let subject = shared();
    let admin = subject.caller();
    let uid = |path: &str| {
        text_at(&admin.get(&format!("{GROUP}/{path}")).is(200).json(), "/metadata/uid").to_owned()
    };
    let answer = admin.get("/api/v1/namespaces/default").is(200);
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), uid("flowschemas/exempt"));
    assert_eq!(answer.header("x-kubernetes-pf-prioritylevel-uid"), uid("prioritylevelconfigurations/exempt"));
    let answer = admin.anonymous().get("/version").is(200);
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), uid("flowschemas/global-default"));
}

#[test]
fn what_must_be_there_comes_back_and_what_a_user_takes_over_stays() {
    let hub = Hub::start(HubOptions::default());
    let admin = Caller::of_kubeconfig(&hub.kubeconfig());
    let path = |rest: &str| format!("{GROUP}/{rest}");
    admin.delete(&path("flowschemas/catch-all"), &json!(null)).is(200);
    eventually("catch-all to come back", std::time::Duration::from_secs(20), || {
        let answer = admin.get(&path("flowschemas/catch-all"));
        if answer.code == 200 { Ok(()) } else { Err(answer.text) }
    });
    let level = path("prioritylevelconfigurations/workload-low");
    let own = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
        "spec": {"limited": {"nominalConcurrencyShares": 7}}});
    admin.patch("merge", &level, &own).is(200);
    let lost = json!({"metadata": {"name": "lost"}, "spec": {"priorityLevelConfiguration": {"name": "nowhere"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "x"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
    admin.post(&path("flowschemas"), &lost).is(201);
    eventually("the schema to say that its level is missing", std::time::Duration::from_secs(20), || {
        let schema = admin.get(&path("flowschemas/lost")).json();
        let condition = &schema["status"]["conditions"][0];
        if condition["status"] == "True" && condition["reason"] == "NotFound" {
            Ok(())
        } else {
            Err(schema.to_string())
        }
    });
    let kept = admin.get(&level).is(200).json();
    assert_eq!(kept["spec"]["limited"]["nominalConcurrencyShares"], 7);
}

/// One seat for everybody, and many who want it at once: all are served or told to come back, and who comes after the flood is
/// served too.
#[test]
fn a_flood_waits_in_its_own_queues_and_others_are_served() {
    let args =
        ["--max-requests-inflight=1", "--max-mutating-requests-inflight=1"].map(str::to_owned).to_vec();
    let hub = Hub::start(HubOptions { args, ..HubOptions::default() });
    let admin = Caller::of_kubeconfig(&hub.kubeconfig());
    let pki = hub.data_dir().join("pki");
    let caller = |name: &str| admin.with(certificate_of(&pki, name, &[]));
    let level = format!("{GROUP}/prioritylevelconfigurations/global-default");
    let narrow = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
        "spec": {"limited": {"limitResponse": {"queuing": {"queues": 8, "handSize": 1, "queueLengthLimit": 2}}}}});
    admin.patch("merge", &level, &narrow).is(200);
    let codes = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (flood, codes) = (caller("flood"), &codes);
            scope.spawn(move || {
                for _ in 0..50 {
                    let answer = flood.get("/api");
                    if answer.code == 429 {
                        assert_eq!(
                            (answer.header("retry-after"), answer.text.trim()),
                            ("1", "Too many requests, please try again later.")
                        );
                    }
                    codes.lock().unwrap().push(answer.code);
                }
            });
        }
        let other = caller("other");
        for _ in 0..20 {
            other.get("/api").is(200);
        }
    });
    let codes = codes.into_inner().unwrap();
    assert_eq!(codes.len(), 200);
    assert!(codes.iter().all(|code| matches!(code, 200 | 429)), "{codes:?}");
    let metrics = admin.get("/metrics").is(200).text;
    let line = "apiserver_flowcontrol_current_executing_seats{priority_level=\"global-default\"} 0";
    assert!(metrics.contains(line), "{metrics}");
}
