//! Helm 3: a release from its installation to its end, hooks, a kind of its own, and what `--wait` waits for.
//!
//! On a hub, as on Karmada, `--wait` waits for what members report: a Deployment is ready to Helm when a **ReplicaSet** of it is,
//! and ReplicaSets live in members alone, so that a chart with Deployments is waited for until `--timeout`; StatefulSets,
//! DaemonSets, Jobs and claims are judged by their own status, which the hub aggregates; Services of type ClusterIP,
//! configuration, custom kinds and their definitions are ready at once.

use std::sync::Arc;

use karmada_schema::KUBERNETES_VERSION;
use serde_json::{Value, json};
use tests::clients::{programs_or_skip, run};
use tests::kubectl::{Kubectl, Output};
use tests::wait::{TIMEOUT, eventually};

use tests::subject::{Subject, is_hub, shared};

/// Helm in a namespace of the test's own.
struct Helm {
    subject: Arc<Subject>,
    namespace: String,
    // Its cache and configuration: none of the person's who runs the tests.
    home: tests::folder::Folder,
}

fn chart() -> String {
    tests::folder::workspace_root().join("tests/tests/clients/chart").display().to_string()
}

impl Helm {
    fn new(name: &str) -> Option<Helm> {
        programs_or_skip()?;
        let subject = shared();
        let namespace = subject.namespace(name);
        Some(Helm { subject, namespace, home: tests::folder::Folder::new(name) })
    }

    fn kubectl(&self) -> Kubectl {
        self.subject.kubectl().in_namespace(&self.namespace)
    }

    /// Runs a command; `CHART` stands for the chart.
    #[track_caller]
    fn run(&self, args: &[&str]) -> Output {
        let programs = programs_or_skip().unwrap();
        let (chart, kubeconfig) = (chart(), self.subject.kubeconfig().display().to_string());
        let mut all = vec!["--kubeconfig", &kubeconfig, "--namespace", &self.namespace];
        all.extend(args.iter().map(|arg| if *arg == "CHART" { chart.as_str() } else { arg }));
        let home = self.home.path().display().to_string();
        run(&programs.helm, &all, &[("HOME", &home), ("KUBECACHEDIR", &home)])
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    #[track_caller]
    fn data(&self, name: &str) -> Value {
        self.kubectl().json(&["cm", name]).map_or(Value::Null, |map| map["data"].clone())
    }
}

#[test]
fn a_release_comes_changes_and_goes() {
    let Some(helm) = Helm::new("release") else { return };
    let kubectl = helm.kubectl();
    let installed = helm.ok(&["install", "shop", "CHART"]);
    assert!(installed.contains("STATUS: deployed") && installed.contains("shop is red."), "{installed}");
    let fleet = if is_hub() { "true" } else { "false" };
    let expected = json!({"colour": "red", "revision": "1", "version": KUBERNETES_VERSION.split('.').nth(1), "apps": "true", "fleet": fleet,
        "namespace": helm.namespace});
    assert_eq!(helm.data("shop-config"), expected);
    assert_eq!(kubectl.field(&["lamp", "shop"], "{.spec}"), r#"{"colour":"red","watts":5}"#);
    assert_eq!(helm.data("shop-before")["revision"], "1");
    assert!(helm.ok(&["list"]).contains("shop-1.0.0"), "the release is listed");

    // An upgrade merges three ways: what the chart says wins over who changed it, and fields of others stay.
    kubectl.ok(&["annotate", "deploy", "shop-web", "note=stays"]);
    kubectl.ok(&["scale", "deploy", "shop-web", "--replicas=7"]);
    helm.ok(&["upgrade", "shop", "CHART", "--set", "colour=blue,image=nginx:2"]);
    let shown = "{.spec.template.spec.containers[0].image} {.spec.replicas} {.metadata.annotations.note}";
    assert_eq!(kubectl.field(&["deploy", "shop-web"], shown), "nginx:2 1 stays");
    assert_eq!(
        (&helm.data("shop-config")["colour"], &helm.data("shop-before")["revision"]),
        (&json!("blue"), &json!("2"))
    );
    assert_eq!(kubectl.field(&["lamp", "shop"], "{.spec.colour}"), "blue");
    helm.ok(&["upgrade", "shop", "CHART", "--reuse-values", "--set", "workloads=false"]);
    kubectl.wait_gone(&["deploy", "shop-web"], TIMEOUT);

    let rolled = helm.ok(&["rollback", "shop", "1"]);
    assert!(rolled.contains("Rollback was a success"), "{rolled}");
    assert_eq!(
        kubectl.field(&["deploy", "shop-web"], "{.spec.template.spec.containers[0].image}"),
        "nginx:1"
    );
    let history = helm.ok(&["history", "shop"]);
    assert!(history.contains("Rollback to 1") && history.matches("superseded").count() == 3, "{history}");
    assert!(helm.ok(&["get", "manifest", "shop"]).contains("kind: Lamp"), "the manifest is kept");
    assert!(helm.ok(&["status", "shop"]).contains("REVISION: 4"), "the status is told");

    let gone = helm.ok(&["uninstall", "shop", "--wait", "--cascade", "foreground"]);
    assert!(gone.contains("release \"shop\" uninstalled"), "{gone}");
    for what in [&["deploy", "shop-web"], &["lamp", "shop"], &["cm", "shop-config"]] {
        kubectl.wait_gone(what, TIMEOUT);
    }
    // As Helm has it: definitions and hooks are not part of the release.
    assert_eq!(
        kubectl.field(&["crd", "lamps.shop.example.com"], "{.metadata.name}"),
        "lamps.shop.example.com"
    );
    assert_eq!(kubectl.ok(&["get", "secrets", "-l", "owner=helm", "-o", "name"]), "");
}

#[test]
fn what_cannot_be_installed_is_told_and_taken_back() {
    let Some(helm) = Helm::new("refused") else { return };
    let dry = helm.ok(&["install", "shop", "CHART", "--dry-run=server", "--skip-crds"]);
    assert!(dry.contains("colour: \"red\"") && helm.data("shop-config").is_null(), "{dry}");
    let refused = helm.run(&["install", "shop", "CHART", "--set", "replicas=-1"]).refused();
    assert!(refused.contains("spec.replicas: Invalid value: -1"), "{refused}");
    helm.ok(&["uninstall", "shop"]);
    helm.ok(&["install", "shop", "CHART", "--set", "workloads=false"]);
    let twice = helm.run(&["install", "shop", "CHART"]).refused();
    assert!(twice.contains("cannot re-use a name that is still in use"), "{twice}");
    // Somebody else's object is not taken over.
    helm.kubectl().ok(&["create", "configmap", "other-config"]);
    let taken = helm.run(&["install", "other", "CHART", "--set", "workloads=false"]).refused();
    assert!(taken.contains("exists and cannot be imported into the current release"), "{taken}");
    // Atomic: what does not become ready in time is rolled back.
    let atomic =
        helm.run(&["upgrade", "shop", "CHART", "--set", "colour=green", "--atomic", "--timeout", "2s"]);
    let why = atomic.refused();
    assert!(why.contains("has been rolled back"), "{why}");
    assert_eq!(helm.data("shop-config")["colour"], "red");
}

#[test]
fn waiting_is_for_what_members_report() {
    if !is_hub() {
        return;
    }
    let Some(helm) = Helm::new("waiting") else { return };
    let kubectl = helm.kubectl();
    // Nothing that has to run: at once.
    helm.ok(&["install", "plain", "CHART", "--set", "workloads=false", "--wait", "--timeout", "60s"]);
    // No member: never.
    let late = helm.run(&["install", "late", "CHART", "--wait", "--timeout", "2s"]).refused();
    assert!(late.contains("context deadline exceeded") || late.contains("not ready"), "{late}");
    // Reported: then.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| helm.run(&["install", "shop", "CHART", "--wait", "--timeout", "60s"]));
        let exists = |what: &[&str]| {
            eventually(&what.join(" "), TIMEOUT, || match kubectl.json(what) {
                Some(object) => Ok(object),
                None => Err("it is not there".to_owned()),
            })
        };
        let deployment = exists(&["deploy", "shop-web"]);
        let status = |kind: &str, name: &str, status: Value| {
            let patch = json!({"status": status}).to_string();
            kubectl.ok(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch]);
        };
        exists(&["sts", "shop-db"]);
        status(
            "sts",
            "shop-db",
            json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
            "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "a"}),
        );
        status(
            "deploy",
            "shop-web",
            json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
            "updatedReplicas": 1, "availableReplicas": 1}),
        );
        // Helm asks for the Deployment's ReplicaSet, which a member has and the hub has not.
        let mut template = deployment["spec"]["template"].clone();
        template["metadata"]["labels"]["pod-template-hash"] = json!("abc");
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "shop-web-abc",
            "labels": {"app": "web"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment",
            "name": "shop-web", "uid": deployment["metadata"]["uid"], "controller": true}]},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "abc"}}, "template": template}});
        kubectl.run_with_input(&["create", "-f", "-"], &set.to_string()).ok();
        status("rs", "shop-web-abc", json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}));
        let done = waiting.join().unwrap().ok();
        assert!(done.contains("STATUS: deployed"), "{done}");
    });
}

#[test]
fn hooks_run_to_their_end() {
    if !is_hub() {
        return;
    }
    let Some(helm) = Helm::new("hooks") else { return };
    let kubectl = helm.kubectl();
    let patch_when_there = |what: &[&str; 2], status: Value| {
        eventually(&what.join(" "), TIMEOUT, || {
            let there = kubectl.field(what, "{.metadata.name}");
            tests::wait::so(!there.is_empty(), || "it is not there".to_owned())
        });
        let patch = json!({"status": status}).to_string();
        kubectl.ok(&["patch", what[0], what[1], "--subresource=status", "--type=merge", "-p", &patch]);
    };
    let args = ["install", "shop", "CHART", "--set", "job=true,workloads=false", "--timeout", "60s"];
    std::thread::scope(|scope| {
        let installing = scope.spawn(|| helm.run(&args));
        let complete = json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "succeeded": 1,
            "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
        patch_when_there(&["job", "shop-after"], complete);
        let done = installing.join().unwrap().ok();
        assert!(done.contains("STATUS: deployed"), "{done}");
    });
    kubectl.wait_gone(&["job", "shop-after"], TIMEOUT);
    std::thread::scope(|scope| {
        let testing = scope.spawn(|| helm.run(&["test", "shop", "--timeout", "60s"]));
        patch_when_there(&["pod", "shop-test"], json!({"phase": "Succeeded"}));
        let done = testing.join().unwrap().ok();
        assert!(done.contains("Phase:          Succeeded"), "{done}");
    });
}
