//! A member that does not answer for one Work, and an agent that ends meanwhile: by a signal that asks, which is nobody's fault, or by
//! one that does not, twice, for which the Work is left aside until a person says otherwise.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tests::wait::{TIMEOUT, eventually, so, throughout};

use crate::fleet::{await_object, get, has_condition};
use crate::private_site::{A_WHILE, Line, config, work};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// What kube-apiserver asks before it takes a ConfigMap, and which never answers. How often it was asked.
fn silence(line: &Line) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming().flatten() {
            held.push(stream);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let hook = json!({"name": "silence.example.com", "clientConfig": {"url": url}, "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 30,
        "matchConditions": [{"name": "stuck", "expression": "object.metadata.name == 'stuck'"}],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]});
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silence"}, "webhooks": [hook]});
    line.member.api().create(WEBHOOKS, &object).unwrap();
    // It takes a moment until the API server asks.
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stuck"}});
    let (api, path) = (line.member.api().clone(), "/api/v1/namespaces/kube-public/configmaps");
    std::thread::spawn(move || {
        while api.create(path, &probe).is_ok() {
            let _ = api.delete(&format!("{path}/stuck"));
        }
    });
    await_asked(&asked, 0);
    asked
}

#[track_caller]
fn await_asked(asked: &AtomicUsize, before: usize) {
    eventually("the member to hang", TIMEOUT, || {
        so(asked.load(Ordering::SeqCst) > before, || "it was not asked".to_owned())
    });
}

fn answers_again(line: &Line) {
    line.member.api().delete(&format!("{WEBHOOKS}/silence")).unwrap();
}

/// The condition of the Work that is stuck.
fn says(line: &Line, status: &str, text: &str) -> Result<(), String> {
    has_condition(&get(line.hub.api(), &work("stuck"))?, "Applied", status, text)
}

#[test]
fn a_work_whose_agent_was_killed_twice_is_left_aside_until_it_is_released() {
    let Some(mut line) = Line::start() else { return };
    line.put("innocent", "calm");
    line.await_agreement(&[("innocent", "calm")]);
    let asked = silence(&line);
    let mut before = asked.load(Ordering::SeqCst);
    line.put("stuck", "calm");
    for _ in 0..2 {
        await_asked(&asked, before);
        line.agent.kill();
        before = asked.load(Ordering::SeqCst);
        line.agent.start_again();
    }
    eventually("the Work to be left aside", TIMEOUT, || says(&line, "False", "karmadactl retry"));
    answers_again(&line);
    throughout("what is left aside", A_WHILE, || says(&line, "False", "karmadactl retry"));
    let absent = get(line.member.api(), &config("stuck"));
    assert!(absent.is_err(), "{absent:?}");
    // Others are worked on all the while.
    line.change("innocent", "brisk");
    line.await_mode("innocent", "brisk");
    let said = line.karmadactl(&["retry", "stuck", "--cluster", "lone"]);
    assert!(said.contains("work stuck is tried again by lone"), "{said}");
    line.await_agreement(&[("innocent", "brisk"), ("stuck", "calm")]);
}

#[test]
fn an_agent_that_is_asked_to_end_while_its_member_hangs_blames_no_work() {
    let Some(mut line) = Line::start() else { return };
    let asked = silence(&line);
    let mut before = asked.load(Ordering::SeqCst);
    line.put("stuck", "calm");
    for _ in 0..3 {
        await_asked(&asked, before);
        // Checks that it ends, in time and well.
        line.agent.stop();
        before = asked.load(Ordering::SeqCst);
        line.agent.start_again();
    }
    await_asked(&asked, before);
    answers_again(&line);
    line.await_mode("stuck", "calm");
    await_object(line.hub.api(), "the hub", &work("stuck"), |work| {
        has_condition(work, "Applied", "True", "")
    });
}

#[test]
fn a_token_in_a_file_is_on_no_command_line() {
    let Some(mut line) = Line::start() else { return };
    let agent = line.agent.process().unwrap();
    agent.alive().unwrap();
    let shown = std::fs::read(format!("/proc/{}/cmdline", agent.id())).unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", agent.id())).unwrap();
    let shown = String::from_utf8_lossy(&shown).replace('\0', " ");
    assert!(shown.contains("karmada-agent") && shown.contains("--token-file "), "{shown}");
    let (id, secret) = line.token.split_once('.').unwrap();
    assert!(!shown.contains(secret) && !shown.contains(id), "{shown}");
    assert!(!String::from_utf8_lossy(&environment).contains(secret));
}
