//! The harness on real parts: a member comes up, runs a workload, survives restarts, and a Pod of it becomes a
//! process.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]

use std::time::{Duration, Instant};

use tests::api::{condition, text_at};
use tests::folder::Folder;
use tests::kube_binaries::{member_version, programs_or_skip};
use tests::kubelet::Kubelet;
use tests::member::{Member, MemberOptions};
use tests::wait::{TIMEOUT, eventually, so};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx}
spec:
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: nginx}]}
";

#[test]
fn a_member_runs_workloads_and_survives_restarts() {
    if programs_or_skip().is_none() {
        return;
    }
    let begin = Instant::now();
    let mut member = Member::start(MemberOptions::new("alpha"));
    println!("the member was up after {:?}", begin.elapsed());
    let kubectl = member.kubectl();
    assert!(kubectl.ok(&["version"]).contains(&format!("Server Version: {}", member_version())));
    kubectl.apply(DEPLOYMENT);
    kubectl.ok(&["rollout", "status", "deployment/nginx", "--timeout=60s"]);
    assert_eq!(member.running_pods("default").unwrap().len(), 3);

    member.kill_apiserver();
    assert!(!kubectl.run(&["get", "deploy", "--request-timeout=5s"]).status.success());
    member.start_apiserver();
    kubectl.ok(&["scale", "deployment/nginx", "--replicas=5"]);
    kubectl.wait_for_field(&["deploy", "nginx"], "{.status.readyReplicas}", "5", TIMEOUT);

    member.stop();
    member.start_again();
    kubectl.ok(&["delete", "deployment", "nginx"]);
    eventually("the Pods to go", TIMEOUT, || {
        let pods = member.running_pods("default").map_err(|error| format!("{error:#}"))?;
        so(pods.is_empty(), || format!("{pods:?}"))
    });
    let node = member.api().get("/api/v1/nodes/alpha-node-1").unwrap().unwrap();
    assert_eq!((condition(&node, "Ready"), text_at(&node, "/status/allocatable/cpu")), ("True", "8"));
}

/// As an agent is installed: a Deployment with a Secret, arguments, variables and rights.
const AGENT_LIKE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: edge}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: edge}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: agent, namespace: edge}]
---
apiVersion: v1
kind: Secret
metadata: {name: agent, namespace: edge}
stringData: {token: abcdef.0123456789abcdef}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent, namespace: edge}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      serviceAccountName: agent
      containers:
      - name: agent
        image: agent
        command: [/karmada-agent]
        args: [--token-file=/etc/agent/token, --name=$(NAME)]
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        volumeMounts: [{name: config, mountPath: /etc/agent}]
      volumes: [{name: config, secret: {secretName: agent}}]
";

/// Stands for the agent: says what it was given, and asks the API server what it may.
const PROGRAM: &str = r#"#!/bin/sh
trap 'echo asked to end; exit 0' TERM
echo "args $*"
echo "secret $(cat "${1#--token-file=}")"
echo "namespace $(cat "$KUBERNETES_SERVICE_ACCOUNT_DIR/namespace")"
"$KUBECTL" --server "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT" \
  --certificate-authority "$KUBERNETES_SERVICE_ACCOUNT_DIR/ca.crt" \
  --token "$(cat "$KUBERNETES_SERVICE_ACCOUNT_DIR/token")" --kubeconfig /dev/null \
  --cache-dir "$PWD/cache" get pods -n edge -o name
while :; do sleep 0.05; done
"#;

#[test]
fn a_pod_of_the_agent_becomes_a_process() {
    let Some(programs) = programs_or_skip() else { return };
    let member = Member::start(MemberOptions::new("beta"));
    let folder = Folder::new("program");
    let program = folder.join("agent");
    let text = PROGRAM.replace("$KUBECTL", &programs.kubectl.display().to_string());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let kubectl = member.kubectl();
    kubectl.apply(AGENT_LIKE);
    let kubelet = Kubelet::start(&member, "edge", &program);

    let first = only_pod(&kubelet, "");
    let log = kubelet.folder().join(format!("{first}.log"));
    let said = |line: &str| {
        eventually(&format!("{line:?}"), TIMEOUT, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            so(text.lines().any(|said| said == line), || text)
        });
    };
    said("secret abcdef.0123456789abcdef");
    said("namespace edge");
    said(&format!("pod/{first}"));
    let args = std::fs::read_to_string(&log).unwrap();
    assert!(args.contains(&format!("--name={first}")) && !args.contains("=/etc/agent"), "{args}");

    // Killed: started again in the same Pod.
    let before = kubelet.process_ids();
    kubelet.kill_processes();
    eventually("a restart", TIMEOUT, || so(kubelet.restarts(&first) == 1, || kubelet.tails()));
    assert_ne!(kubelet.process_ids(), before);

    eventually("the restarted process's first line", TIMEOUT, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        so(text.matches("args ").count() == 2, || text)
    });

    // Replaced: another Pod, another process, and the first was asked to end.
    kubectl.in_namespace("edge").ok(&["delete", "pod", &first]);
    let second = only_pod(&kubelet, &first);
    assert_ne!(second, first);
    said("asked to end");

    kubectl.in_namespace("edge").ok(&["scale", "deployment/agent", "--replicas=0"]);
    eventually("no process", Duration::from_secs(30), || so(kubelet.pods().is_empty(), || kubelet.tails()));
}

/// The one Pod that runs, which is not `other`.
fn only_pod(kubelet: &Kubelet, other: &str) -> String {
    eventually("the Pod's process", TIMEOUT, || match &kubelet.pods()[..] {
        [pod] if pod != other => Ok(pod.clone()),
        pods => Err(format!("{pods:?}")),
    })
}
