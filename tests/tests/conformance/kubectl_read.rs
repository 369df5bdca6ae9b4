//! kubectl looks: get in all its forms, describe, explain, the catalogue, auth, wait, rollout, diff.

use karmada_schema::KUBERNETES_VERSION;
use tests::kubectl::Kubectl;
use tests::process::logged;
use tests::wait::{TIMEOUT, eventually};

use tests::subject::{is_hub, shared};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {no: where}, containers: [{name: nginx, image: 'nginx:1'}]}
";

fn some_maps(kubectl: &Kubectl) {
    let mut all = String::new();
    for (n, tier) in [("one", "front"), ("two", "back"), ("three", "back")] {
        all += &format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {n}, labels: {{tier: {tier}}}}}\nstringData: {{word: {n}}}\n"
        );
    }
    kubectl.apply(&all);
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn get_prints_tables() {
    let subject = shared();
    let kubectl = subject.kubectl_in("tables");
    kubectl.apply(DEPLOYMENT);
    some_maps(&kubectl);
    let table = kubectl.ok(&["get", "deploy"]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert!(table.contains("web    0/2"), "{table}");
    let wide = kubectl.ok(&["get", "deploy", "-o", "wide"]);
    assert!(wide.contains("CONTAINERS") && wide.contains("nginx:1") && wide.contains("app=web"), "{wide}");
    let labels = kubectl.ok(&["get", "deploy", "--show-labels", "-L", "app"]);
    assert!(labels.contains("LABELS") && labels.contains("app=web") && labels.contains("APP"), "{labels}");
    let secrets = kubectl.ok(&["get", "secrets", "--no-headers"]);
    assert!(lines(&secrets).iter().all(|line| line.contains("Opaque") && line.contains(" 1 ")), "{secrets}");
    assert_eq!(
        lines(&kubectl.ok(&["get", "secrets", "-l", "tier=back", "-o", "name"])),
        ["secret/three", "secret/two"]
    );
    assert_eq!(
        lines(&kubectl.ok(&["get", "secrets", "--field-selector", "metadata.name=one", "-o", "name"])),
        ["secret/one"]
    );
    let across = kubectl.ok(&["get", "secrets", "-A", "-l", "tier"]);
    assert!(across.starts_with("NAMESPACE") && across.matches("tables").count() == 3, "{across}");
    assert_eq!(kubectl.ok(&["get", "secrets", "--chunk-size=1", "-o", "name"]).lines().count(), 3);
    let sorted = kubectl.ok(&[
        "get",
        "secrets",
        "--sort-by=.data.word",
        "-o",
        "custom-columns=NAME:.metadata.name,TIER:.metadata.labels.tier",
    ]);
    assert_eq!(lines(&sorted).len(), 4, "{sorted}");
    let first: Vec<&str> = lines(&sorted)[1].split_whitespace().collect();
    assert_eq!(first, ["one", "front"]);
    let json = kubectl.ok(&[
        "get",
        "secrets",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name}={.metadata.labels.tier};{end}",
    ]);
    assert_eq!(json, "one=front;three=back;two=back;");
    let yaml = kubectl.ok(&["get", "secret", "one", "-o", "yaml"]);
    assert!(yaml.contains("kind: Secret") && yaml.contains("tier: front"), "{yaml}");
    let template = kubectl.ok(&["get", "secret", "one", "-o", "go-template={{.metadata.name}}"]);
    assert_eq!(template, "one");
    let several = kubectl.ok(&["get", "deploy/web", "secret/one", "-o", "name"]);
    assert_eq!(lines(&several), ["deployment.apps/web", "secret/one"]);
    assert!(kubectl.ok(&["get", "all"]).contains("deployment.apps/web"));
    assert!(kubectl.run(&["get", "pods", "-l", "no=body"]).stderr.contains("No resources found"));
    assert!(
        kubectl
            .refused(&["get", "secret", "nothing"])
            .contains("Error from server (NotFound): secrets \"nothing\" not found")
    );
    assert!(
        kubectl.refused(&["get", "widgets"]).contains("the server doesn't have a resource type \"widgets\"")
    );
    assert!(kubectl.ok(&["get", "--raw", "/apis/apps/v1"]).contains("APIResourceList"));
    let events = kubectl.run(&["get", "events"]);
    assert!(events.status.success(), "{events}");
    let events = kubectl.run(&["events"]);
    assert!(events.status.success(), "{events}");
}

#[test]
fn get_watches() {
    let subject = shared();
    let kubectl = subject.kubectl_in("watching");
    some_maps(&kubectl);
    let folder = tests::folder::Folder::new("watching");
    let namespaced =
        kubectl.background(&["get", "secrets", "-w", "--output-watch-events"], "watch", folder.path());
    eventually("the first rows", TIMEOUT, || logged(&namespaced, "three"));
    kubectl.ok(&["label", "secret", "one", "seen=yes"]);
    kubectl.ok(&["delete", "secret", "two"]);
    eventually("both events", TIMEOUT, || {
        logged(&namespaced, "MODIFIED")?;
        logged(&namespaced, "DELETED")
    });
}

#[test]
fn describe_tells_about_every_sort_of_thing() {
    let subject = shared();
    let kubectl = subject.kubectl_in("describe");
    kubectl.apply(DEPLOYMENT);
    some_maps(&kubectl);
    let text = kubectl.ok(&["describe", "deployment", "web"]);
    for part in
        ["Name:", "Selector:", "app=web", "StrategyType:", "RollingUpdate", "Image:", "nginx:1", "Events:"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = kubectl.ok(&["describe", "secret", "one"]);
    assert!(text.contains("word:  3 bytes") && text.contains("tier=front"), "{text}");
    assert!(kubectl.ok(&["describe", "ns", "default"]).contains("Status:       Active"));
    assert!(kubectl.ok(&["describe", "clusterrole", "view"]).contains("PolicyRule"));
    assert!(kubectl.ok(&["describe", "sa", "default"]).contains("Name:"));
    if is_hub() {
        kubectl.apply("---\n{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: p}, spec: {resourceSelectors: [{apiVersion: v1, kind: Secret, name: nobody}]}}");
        let text = kubectl.ok(&["describe", "pp", "p"]);
        assert!(
            text.contains("Resource Selectors:") && text.contains("Conflict Resolution:  Abort"),
            "{text}"
        );
    }
}

#[test]
fn explain_knows_the_fields() {
    let subject = shared();
    let kubectl = subject.kubectl();
    let text = kubectl.ok(&["explain", "deployment.spec.replicas"]);
    assert!(text.contains("FIELD: replicas <integer>") && text.contains("DESCRIPTION"), "{text}");
    assert!(text.contains("Number of desired pods. This is a pointer to distinguish"), "{text}");
    let text = kubectl.ok(&["explain", "pod.spec.containers.livenessProbe"]);
    assert!(text.contains("Periodic probe of container liveness") && text.contains("httpGet"), "{text}");
    let text = kubectl.ok(&["explain", "cm"]);
    assert!(text.contains("ConfigMap holds configuration data"), "{text}");
    let text = kubectl.ok(&["explain", "crd.spec.names"]);
    assert!(text.contains("names specify the resource and kind names"), "{text}");
    let text = kubectl.ok(&["explain", "pods", "--recursive"]);
    assert!(
        text.contains("containers\t<[]Container> -required-")
            && text.contains("terminationGracePeriodSeconds"),
        "{text}"
    );
    assert!(kubectl.ok(&["explain", "ns"]).contains("KIND:       Namespace"));
    assert!(kubectl.refused(&["explain", "pods.spec.nothing"]).contains("does not exist"));
    if is_hub() {
        let text = kubectl.ok(&["explain", "propagationpolicy.spec.placement"]);
        assert!(text.contains("GROUP:      policy.karmada.io") && text.contains("clusterAffinity"), "{text}");
        assert!(text.contains("Which clusters, and how many replicas in each."), "{text}");
        let text = kubectl.ok(&["explain", "op.spec.overrideRules.overriders.imageOverrider"]);
        assert!(text.contains("Registry, Repository or Tag"), "{text}");
        let text = kubectl.ok(&["explain", "propagationpolicy.metadata.labels"]);
        assert!(text.contains("organize and categorize"), "{text}");
        let text = kubectl.ok(&["explain", "rb", "--recursive", "--api-version=work.karmada.io/v1alpha2"]);
        assert!(text.contains("replicaRequirements"), "{text}");
        let text = kubectl.ok(&["explain", "cluster.spec"]);
        assert!(text.contains("syncMode") && text.contains("its agent fetches what it is to hold"), "{text}");
    }
}

#[test]
fn the_catalogue_is_printed() {
    let subject = shared();
    let kubectl = subject.kubectl();
    let all = kubectl.ok(&["api-resources"]);
    let deployments = all.lines().find(|line| line.starts_with("deployments ")).unwrap();
    let cells: Vec<&str> = deployments.split_whitespace().collect();
    assert_eq!(cells, ["deployments", "deploy", "apps/v1", "true", "Deployment"]);
    let wide = kubectl.ok(&["api-resources", "-o", "wide", "--api-group=batch"]);
    assert!(wide.contains("create,delete,deletecollection,get,list,patch,update,watch"), "{wide}");
    let scoped = kubectl.ok(&["api-resources", "--namespaced=false", "-o", "name"]);
    assert!(lines(&scoped).contains(&"nodes") && !lines(&scoped).contains(&"pods"), "{scoped}");
    let versions = kubectl.ok(&["api-versions"]);
    assert!(lines(&versions).contains(&"v1") && lines(&versions).contains(&"apps/v1"), "{versions}");
    assert!(kubectl.ok(&["version"]).contains(&format!("Server Version: {KUBERNETES_VERSION}")));
    assert!(kubectl.ok(&["cluster-info"]).contains("is running at"));
    if is_hub() {
        let karmada = kubectl.ok(&["api-resources", "--categories=karmada-io", "-o", "name"]);
        assert!(karmada.contains("propagationpolicies.policy.karmada.io"), "{karmada}");
        assert!(lines(&versions).contains(&"policy.karmada.io/v1alpha1"), "{versions}");
    }
}

#[test]
fn auth_tells_what_may_be_done() {
    let subject = shared();
    let kubectl = subject.kubectl_in("may");
    assert_eq!(kubectl.ok(&["auth", "can-i", "delete", "nodes"]).trim(), "yes");
    let answer = kubectl.run(&["auth", "can-i", "get", "pods", "--as=jane"]);
    assert_eq!((answer.stdout.trim(), answer.status.code()), ("no", Some(1)), "{answer}");
    kubectl.ok(&["create", "rolebinding", "jane", "--clusterrole=view", "--user=jane"]);
    assert_eq!(kubectl.ok(&["auth", "can-i", "get", "pods", "--as=jane"]).trim(), "yes");
    assert!(!kubectl.run(&["auth", "can-i", "get", "secrets", "--as=jane"]).status.success());
    assert_eq!(
        kubectl
            .ok(&["auth", "can-i", "list", "configmaps", "--as=someone", "--as-group=system:masters"])
            .trim(),
        "yes"
    );
    let list = kubectl.ok(&["auth", "can-i", "--list", "--as=jane"]);
    assert!(
        list.contains("configmaps") && list.contains("selfsubjectaccessreviews.authorization.k8s.io"),
        "{list}"
    );
    let me = kubectl.ok(&["auth", "whoami"]);
    assert!(me.contains("Username") && me.contains("system:masters"), "{me}");
    let refused = kubectl.refused(&["get", "secrets", "--as=jane"]);
    assert!(refused.contains("Error from server (Forbidden): secrets is forbidden: User \"jane\" cannot list resource \"secrets\""), "{refused}");
    let namespace = kubectl.field(&["sa", "default"], "{.metadata.namespace}");
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: extra, namespace: NAMESPACE}\n\
        rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    let reconciled =
        kubectl.with_manifests(&["auth", "reconcile"], &role.replace("NAMESPACE", &namespace)).ok();
    assert!(reconciled.contains("role.rbac.authorization.k8s.io/extra"), "{reconciled}");
}

#[test]
fn wait_and_rollout_follow_the_status() {
    let subject = shared();
    if !is_hub() {
        return;
    }
    let kubectl = subject.kubectl_in("rollout");
    kubectl.apply(DEPLOYMENT);
    assert!(
        kubectl
            .refused(&["wait", "deploy/web", "--for=condition=Available", "--timeout=1s"])
            .contains("timed out")
    );
    assert!(!kubectl.run(&["rollout", "status", "deploy/web", "--timeout=1s"]).status.success());
    let folder = tests::folder::Folder::new("rollout");
    let mut waits = kubectl.background(
        &["wait", "deploy/web", "--for=condition=Available", "--timeout=60s"],
        "wait",
        folder.path(),
    );
    let mut rollout =
        kubectl.background(&["rollout", "status", "deploy/web", "--timeout=60s"], "rollout", folder.path());
    let status = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,
        "conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"}]}}"#;
    kubectl.ok(&["patch", "deploy", "web", "--subresource=status", "--type=merge", "-p", status]);
    for process in [&mut waits, &mut rollout] {
        let ended = eventually("the end of the wait", TIMEOUT, || {
            process.ended().ok_or_else(|| "it waits".to_owned())
        });
        assert!(ended.success(), "{}", process.tail(5));
    }
    assert!(kubectl.ok(&["get", "deploy", "web"]).contains("2/2"));
    kubectl.ok(&["rollout", "restart", "deploy/web"]);
    assert!(
        !kubectl
            .field(
                &["deploy", "web"],
                "{.spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}"
            )
            .is_empty()
    );
    assert!(kubectl.ok(&["rollout", "history", "deploy/web"]).contains("deployment.apps/web"));
    kubectl.ok(&["rollout", "pause", "deploy/web"]);
    assert_eq!(kubectl.field(&["deploy", "web"], "{.spec.paused}"), "true");
    kubectl.ok(&["rollout", "resume", "deploy/web"]);
    kubectl.ok(&["wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=10s"]);
    let mut gone =
        kubectl.background(&["wait", "deploy/web", "--for=delete", "--timeout=60s"], "gone", folder.path());
    kubectl.ok(&["delete", "deploy", "web"]);
    let ended =
        eventually("the end of the wait", TIMEOUT, || gone.ended().ok_or_else(|| "it waits".to_owned()));
    assert!(ended.success(), "{}", gone.tail(5));
}

#[test]
fn diff_shows_what_apply_would_do() {
    let subject = shared();
    let kubectl = subject.kubectl_in("diff");
    kubectl.apply(DEPLOYMENT);
    let same = kubectl.with_manifests(&["diff"], DEPLOYMENT);
    assert_eq!(same.status.code(), Some(0), "{same}");
    for extra in [&["diff"][..], &["diff", "--server-side", "--force-conflicts"]] {
        let other = kubectl.with_manifests(extra, &DEPLOYMENT.replace("nginx:1", "nginx:2"));
        assert_eq!(other.status.code(), Some(1), "{other}");
        assert!(other.stdout.contains("nginx:2"), "{other}");
    }
    assert_eq!(kubectl.field(&["deploy", "web"], "{.spec.template.spec.containers[0].image}"), "nginx:1");
}
