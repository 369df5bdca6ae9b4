//! kubectl acts: create in its typed forms (protobuf bodies), apply both ways, edit, patch, label, scale, delete.

use tests::wait::TIMEOUT;

use tests::subject::{is_hub, shared};

const MAP: &str =
    "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: m, labels: {set: a}}, data: {a: '1', b: '2'}}";

#[test]
fn typed_commands_create() {
    let subject = shared();
    let kubectl = subject.kubectl_in("create");
    let root = subject.kubectl();
    for command in [
        "create configmap cm --from-literal=a=b",
        "create secret generic sec --from-literal=a=b",
        "create secret docker-registry reg --docker-server=r --docker-username=u --docker-password=p",
        "create serviceaccount robot",
        "create deployment web --image=nginx --replicas=0 --port=80",
        "create job once --image=busybox",
        "create cronjob often --image=busybox --schedule=*/5_*_*_*_*",
        "create service clusterip svc --tcp=80:8080",
        "create service nodeport np --tcp=80:8080",
        "create service externalname ext --external-name=example.com",
        "create role reader --verb=get,list --resource=pods",
        "create rolebinding readers --role=reader --serviceaccount=default:robot",
        "create quota few --hard=count/widgets=2",
        "create ingress ing --rule=example.com/=svc:80",
        "create poddisruptionbudget pdb --selector=app=web --min-available=1",
        "run pod --image=nginx",
        "expose deployment web --port=80 --name=exposed",
        "autoscale deployment web --min=1 --max=3",
    ] {
        let words: Vec<String> = command.split(' ').map(|word| word.replace('_', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = kubectl.run(&words);
        assert!(output.status.success(), "{output}");
        let done = ["created", "exposed", "autoscaled"].iter().any(|word| output.stdout.contains(word));
        assert!(done, "{output}");
    }
    assert_eq!(kubectl.field(&["secret", "sec"], "{.data.a}"), "Yg==");
    assert_eq!(
        kubectl.field(&["deploy", "web"], "{.spec.template.spec.containers[0].image} {.spec.strategy.type}"),
        "nginx RollingUpdate"
    );
    assert_eq!(
        kubectl.field(&["svc", "exposed"], "{.spec.ports[0].targetPort} {.spec.selector.app}"),
        "80 web"
    );
    assert_eq!(kubectl.field(&["cronjob", "often"], "{.spec.schedule}"), "*/5 * * * *");
    assert_eq!(kubectl.field(&["hpa", "web"], "{.spec.maxReplicas}"), "3");
    root.ok(&["create", "clusterrole", "conformance", "--verb=get", "--resource=nodes"]);
    root.ok(&["create", "clusterrolebinding", "conformance", "--clusterrole=conformance", "--user=nobody"]);
    root.ok(&["create", "priorityclass", "conformance", "--value=7"]);
    root.ok(&[
        "delete",
        "clusterrole/conformance",
        "clusterrolebinding/conformance",
        "priorityclass/conformance",
    ]);
    let token = kubectl.ok(&["create", "token", "robot"]);
    assert_eq!(token.trim().split('.').count(), 3);
    assert!(kubectl.refused(&["create", "configmap", "cm"]).contains("configmaps \"cm\" already exists"));
    kubectl.ok(&["create", "configmap", "dry", "--dry-run=server"]);
    assert_eq!(kubectl.field(&["cm", "dry"], "{.metadata.name}"), "");
}

#[test]
fn apply_by_the_client_merges_and_prunes() {
    let subject = shared();
    let kubectl = subject.kubectl_in("apply");
    assert!(kubectl.apply(MAP).contains("configmap/m created"));
    assert!(kubectl.apply(MAP).contains("configmap/m unchanged"));
    // A field that the applied text no longer has goes, one that somebody else wrote stays.
    kubectl.ok(&["patch", "cm", "m", "-p", r#"{"data":{"c":"3"}}"#]);
    assert!(kubectl.apply(&MAP.replace(", b: '2'", "")).contains("configmap/m configured"));
    assert_eq!(kubectl.field(&["cm", "m"], "{.data}"), r#"{"a":"1","c":"3"}"#);
    assert!(kubectl.ok(&["apply", "view-last-applied", "cm/m"]).contains("a: \"1\""));
    let two = format!("{MAP}\n{}", MAP.replace("name: m,", "name: other,"));
    kubectl.apply(&two);
    let pruned = kubectl
        .with_manifests(&["apply", "--prune", "-l", "set=a", "--prune-allowlist=core/v1/ConfigMap"], MAP)
        .ok();
    assert!(pruned.contains("configmap/other pruned"), "{pruned}");
    let refused = kubectl.with_manifests(&["apply"], &MAP.replace("}, data:", "}, dataa:")).refused();
    assert!(refused.contains("strict decoding error: unknown field \"dataa\""), "{refused}");
    let warned = kubectl.with_manifests(
        &["apply", "--validate=warn"],
        &MAP.replace("name: m,", "name: w,").replace("}, data:", "}, dataa:"),
    );
    assert!(
        warned.status.success() && warned.stderr.contains("Warning: unknown field \"dataa\""),
        "{warned}"
    );
    let replaced = kubectl.with_manifests(&["replace"], &MAP.replace("'1'", "'9'")).ok();
    assert!(replaced.contains("configmap/m replaced"), "{replaced}");
    kubectl.with_manifests(&["replace", "--force"], MAP).ok();
    assert_eq!(kubectl.field(&["cm", "m"], "{.data.a}"), "1");
}

#[test]
fn apply_by_the_server_tells_who_owns_what() {
    let subject = shared();
    let kubectl = subject.kubectl_in("server-side");
    let apply = ["apply", "--server-side"];
    assert!(kubectl.with_manifests(&apply, MAP).ok().contains("configmap/m serverside-applied"));
    let other = MAP.replace("'1'", "'one'");
    let refused =
        kubectl.with_manifests(&["apply", "--server-side", "--field-manager=other"], &other).refused();
    assert!(
        refused.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .data.a"),
        "{refused}"
    );
    kubectl
        .with_manifests(&["apply", "--server-side", "--field-manager=other", "--force-conflicts"], &other)
        .ok();
    assert_eq!(kubectl.field(&["cm", "m"], "{.data.a}"), "one");
    let managers =
        kubectl.field(&["cm", "m", "--show-managed-fields"], "{.metadata.managedFields[*].manager}");
    assert!(managers.contains("kubectl") && managers.contains("other"), "{managers}");
    // From the client's way to the server's: the old manager's fields move over.
    let moved = MAP.replace("name: m,", "name: moved,");
    kubectl.apply(&moved);
    kubectl.with_manifests(&apply, &moved.replace(", b: '2'", "")).ok();
    assert_eq!(kubectl.field(&["cm", "moved"], "{.data}"), r#"{"a":"1"}"#);
    if is_hub() {
        let policy = "---\n{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: p}, spec: {resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: nobody}]}}";
        kubectl.with_manifests(&apply, policy).ok();
        kubectl.with_manifests(&apply, &policy.replace("nobody", "somebody")).ok();
        assert_eq!(kubectl.field(&["pp", "p"], "{.spec.resourceSelectors[*].name}"), "somebody");
    }
}

#[test]
fn objects_are_edited_patched_labelled_and_scaled() {
    let subject = shared();
    let kubectl = subject.kubectl_in("change");
    kubectl.apply(MAP);
    kubectl.ok(&["create", "deployment", "web", "--image=nginx:1", "--replicas=0"]);
    let edited = std::process::Command::new(&tests::kube_binaries::programs().kubectl)
        .args(["edit", "cm", "m", "--kubeconfig"])
        .arg(kubectl.kubeconfig())
        .args(["--namespace", &kubectl.field(&["cm", "m"], "{.metadata.namespace}")])
        .env("KUBE_EDITOR", "sed -i -e 's/^  a:.*/  a: edited/'")
        .output()
        .unwrap();
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    assert_eq!(kubectl.field(&["cm", "m"], "{.data.a}"), "edited");
    for (kind, patch, expected) in [
        ("strategic", r#"{"data":{"a":"strategic"}}"#, "strategic"),
        ("merge", r#"{"data":{"a":"merge"}}"#, "merge"),
        ("json", r#"[{"op":"replace","path":"/data/a","value":"json"}]"#, "json"),
    ] {
        kubectl.ok(&["patch", "cm", "m", "--type", kind, "-p", patch]);
        assert_eq!(kubectl.field(&["cm", "m"], "{.data.a}"), expected);
    }
    assert!(kubectl.ok(&["patch", "cm", "m", "-p", "{}"]).contains("(no change)"));
    kubectl.ok(&["label", "cm", "m", "x=y"]);
    assert!(kubectl.refused(&["label", "cm", "m", "x=z"]).contains("already has a value"));
    kubectl.ok(&["label", "cm", "m", "x=z", "--overwrite"]);
    kubectl.ok(&["label", "cm", "m", "x-"]);
    assert_eq!(kubectl.field(&["cm", "m"], "{.metadata.labels}"), r#"{"set":"a"}"#);
    kubectl.ok(&["annotate", "cm", "m", "note=words"]);
    assert_eq!(kubectl.field(&["cm", "m"], "{.metadata.annotations.note}"), "words");
    kubectl.ok(&["scale", "deploy", "web", "--replicas=3"]);
    assert_eq!(kubectl.field(&["deploy", "web"], "{.spec.replicas}"), "3");
    assert!(
        kubectl
            .refused(&["scale", "deploy", "web", "--current-replicas=1", "--replicas=5"])
            .contains("Expected replicas to be 1")
    );
    kubectl.ok(&["set", "image", "deploy/web", "nginx=nginx:2"]);
    kubectl.ok(&["set", "env", "deploy/web", "A=b"]);
    kubectl.ok(&["set", "resources", "deploy/web", "--limits=cpu=100m"]);
    let container =
        kubectl.field(&["deploy", "web"], "{.spec.template.spec.containers[0]['image','env','resources']}");
    assert_eq!(container, r#"nginx:2 [{"name":"A","value":"b"}] {"limits":{"cpu":"100m"}}"#);
    let scale = kubectl.ok(&["get", "deploy", "web", "--subresource=scale"]);
    assert!(scale.contains("DESIRED"), "{scale}");
}

#[test]
fn deletes_cascade_as_told() {
    let subject = shared();
    let kubectl = subject.kubectl_in("delete");
    for (mode, stays) in [("background", false), ("foreground", false), ("orphan", true)] {
        kubectl.ok(&["create", "configmap", mode]);
        let uid = kubectl.field(&["cm", mode], "{.metadata.uid}");
        kubectl.apply(&format!(
            "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: of-{mode}, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: {mode}, uid: {uid}, blockOwnerDeletion: true}}]}}}}"
        ));
        kubectl.ok(&["delete", "cm", mode, &format!("--cascade={mode}")]);
        kubectl.wait_gone(&["cm", mode], TIMEOUT);
        let dependant = format!("of-{mode}");
        if stays {
            assert_eq!(kubectl.field(&["secret", &dependant], "{.metadata.ownerReferences}"), "");
            assert_eq!(kubectl.field(&["secret", &dependant], "{.metadata.name}"), dependant);
        } else {
            kubectl.wait_gone(&["secret", &dependant], TIMEOUT);
        }
    }
    kubectl.apply(
        "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}",
    );
    assert!(kubectl.refused(&["delete", "cm", "held", "--timeout=1s"]).contains("timed out"));
    kubectl.ok(&["delete", "cm", "held", "--wait=false"]);
    kubectl.ok(&["patch", "cm", "held", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.wait_gone(&["cm", "held"], TIMEOUT);
    kubectl.ok(&["create", "configmap", "one"]);
    kubectl.ok(&["create", "configmap", "two"]);
    kubectl.ok(&["label", "cm", "one", "two", "go=yes"]);
    assert_eq!(kubectl.ok(&["delete", "cm", "-l", "go=yes"]).lines().count(), 2);
    kubectl.ok(&["delete", "cm", "nothing", "--ignore-not-found"]);
    assert!(kubectl.refused(&["delete", "cm", "nothing"]).contains("NotFound"));
    kubectl.ok(&["create", "secret", "generic", "last"]);
    kubectl.ok(&["delete", "secrets", "--all"]);
    kubectl.ok(&["run", "pod", "--image=nginx"]);
    kubectl.ok(&["delete", "pod", "pod", "--now"]);
    let namespace = kubectl.field(&["sa", "default"], "{.metadata.namespace}");
    subject.kubectl().ok(&["delete", "ns", &namespace, "--timeout=60s"]);
}
