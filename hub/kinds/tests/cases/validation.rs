//! Cases of validation of built-in kinds.

#![allow(clippy::needless_pass_by_value, reason = "a json! reads best where it is passed")]

use karmada_kinds::kind::Kind;
use serde_json::{Value, json};

/// The messages for an object as a client would send it.
fn problems(group: &str, version: &str, kind: &str, object: Value, old: Option<&Value>) -> Vec<String> {
    let kind = Kind::builtin(group, version, kind).unwrap();
    let object = crate::admitted::as_admitted(group, kind.kind, &stored(&kind, object));
    kind.validate(&object, old).unwrap().iter().map(ToString::to_string).collect()
}

fn stored(kind: &Kind<'_>, mut object: Value) -> Value {
    kind.decode(&mut object).unwrap();
    kind.default(&mut object);
    object
}

fn deployment(change: Value) -> Value {
    let mut object = json!({"metadata": {"name": "web", "namespace": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    json_patch::merge(&mut object, &change);
    object
}

const NONE: [&str; 0] = [];

#[test]
fn a_good_deployment_has_nothing_wrong() {
    assert_eq!(problems("apps", "v1", "Deployment", deployment(json!({})), None), NONE);
}

#[test]
fn deployments_are_refused_in_kubernetes_words() {
    let of = |change: Value| problems("apps", "v1", "Deployment", deployment(change), None);
    assert_eq!(
        of(json!({"spec": {"replicas": -1}})),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
    );
    assert_eq!(
        of(json!({"spec": {"template": {"metadata": {"labels": {"app": "other"}}}}})),
        [
            "spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`"
        ]
    );
    assert_eq!(
        of(json!({"spec": {"template": {"spec": {"containers": null}}}})),
        ["spec.template.spec.containers: Required value"]
    );
    assert_eq!(
        of(json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}})),
        ["spec.template.spec.containers[0].image: Required value"]
    );
    assert_eq!(
        of(json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}})),
        ["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""]
    );
    assert_eq!(
        of(json!({"spec": {"selector": null}})),
        [
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"
        ]
    );
    assert_eq!(
        of(json!({"metadata": {"name": "Web_1"}})),
        [
            "metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
          characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
          validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(
        of(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}})),
        [
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"
        ]
    );
}

#[test]
fn selectors_and_names_do_not_change() {
    let kind = Kind::builtin("apps", "v1", "Deployment").unwrap();
    let old = stored(&kind, deployment(json!({"metadata": {"uid": "a"}})));
    let new = deployment(json!({"metadata": {"uid": "b"}, "spec": {"selector": {"matchLabels": {"x": "y"}},
        "template": {"metadata": {"labels": {"x": "y"}}}}}));
    assert_eq!(
        problems("apps", "v1", "Deployment", new, Some(&old)),
        [
            "metadata.uid: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"b\": field is immutable",
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\",\"x\":\"y\"}}: field is immutable"
        ]
    );
    assert_eq!(
        problems("apps", "v1", "Deployment", deployment(json!({"spec": {"replicas": 7}})), Some(&old)),
        NONE
    );
}

#[test]
fn containers_are_checked_field_by_field() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [
            {"name": "a", "image": "x", "ports": [{"containerPort": 70000}, {"containerPort": 1, "protocol": "X"}],
             "volumeMounts": [{"name": "none", "mountPath": "/x"}],
             "env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
             "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
             "livenessProbe": {}},
            {"name": "a", "image": "x"}],
        "volumes": [{"name": "v"}, {"name": "v"}]}});
    assert_eq!(
        problems("", "v1", "Pod", pod, None),
        [
            "spec.volumes[1].name: Duplicate value: \"v\"",
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.containers[0].ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"x\": error converting fieldPath: field label not supported: x",
            "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            "spec.containers[0].volumeMounts[0].name: Not found: \"none\"",
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            "spec.containers[1].name: Duplicate value: \"a\"",
        ]
    );
}

#[test]
fn a_pods_spec_stays_but_for_images() {
    let kind = Kind::builtin("", "v1", "Pod").unwrap();
    let pod = |image: &str, node: &str| json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [{"name": "a", "image": image}]}});
    let old = stored(&kind, pod("x:1", "n"));
    assert_eq!(problems("", "v1", "Pod", pod("x:2", "n"), Some(&old)).len(), 0);
    let refused = problems("", "v1", "Pod", pod("x:1", "m"), Some(&old));
    assert!(
        refused[0].starts_with("spec: Forbidden: pod updates may not change fields other than"),
        "{refused:?}"
    );
}

#[test]
fn services_configuration_and_claims() {
    assert_eq!(
        problems(
            "",
            "v1",
            "Service",
            json!({"metadata": {"name": "1A"}, "spec": {"ports": [{"port": 80}, {"port": 80}]}}),
            None
        ),
        [
            "metadata.name: Invalid value: \"1A\": a lowercase RFC 1123 label must consist of lower case alphanumeric \
             characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex \
             used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Required value",
            "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\
             \"TargetPort\":0,\"NodePort\":0}",
        ]
    );
    let old = json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}});
    let new = json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.2",
        "clusterIPs": ["10.0.0.2"], "ports": [{"port": 80}]}});
    assert_eq!(
        problems("", "v1", "Service", new, Some(&old)),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
    let old = json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "1"}});
    assert_eq!(
        problems(
            "",
            "v1",
            "ConfigMap",
            json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "2"}}),
            Some(&old)
        ),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
    assert_eq!(
        problems(
            "",
            "v1",
            "Secret",
            json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            None
        ),
        ["data[tls.key]: Required value"]
    );
    assert_eq!(
        problems("", "v1", "PersistentVolumeClaim", json!({"metadata": {"name": "c"}, "spec": {}}), None),
        [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value"
        ]
    );
    assert!(
        problems("", "v1", "Namespace", json!({"metadata": {"name": "a.b"}}), None)[0]
            .ends_with("must not contain dots")
    );
}

#[test]
fn jobs_ingresses_roles_and_the_rest() {
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}});
    assert_eq!(
        problems("batch", "v1", "Job", job, None),
        ["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""]
    );
    let cron = |schedule: &str| {
        let template =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
        let object = json!({"metadata": {"name": "j"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}});
        problems("batch", "v1", "CronJob", object, None)
    };
    for good in ["*/5 * * * *", "0 0 1,15 * mon-fri", "@daily", "@every 5m", "0-10/2 1 ? jan *"] {
        assert_eq!(cron(good), NONE, "{good}");
    }
    assert_eq!(
        cron("* * *"),
        ["spec.schedule: Invalid value: \"* * *\": expected exactly 5 fields, found 3: [* * *]"]
    );
    assert_eq!(cron("99 * * * *").len(), 1);
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": [{"host": "a.b", "http": {"paths": [
        {"path": "x", "pathType": "Prefix", "backend": {"service": {"name": "s"}}}, {"path": "/"}]}}]}});
    assert_eq!(
        problems("networking.k8s.io", "v1", "Ingress", ingress, None),
        [
            "spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path",
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            "spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified",
        ]
    );
    let role = json!({"metadata": {"name": "r"}, "rules": [{"verbs": [], "resources": ["pods"]}]});
    assert_eq!(
        problems("rbac.authorization.k8s.io", "v1", "Role", role, None),
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ]
    );
    let binding = json!({"metadata": {"name": "system:x"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s"}]});
    assert_eq!(
        problems("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", binding, None),
        ["subjects[0].namespace: Required value"]
    );
    let hpa = json!({"metadata": {"name": "h"}, "spec": {"minReplicas": 3, "maxReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    assert_eq!(
        problems("autoscaling", "v2", "HorizontalPodAutoscaler", hpa, None),
        ["spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"]
    );
}

#[test]
fn metadata_is_checked_for_every_kind() {
    let object = json!({"metadata": {"name": "c", "labels": {"a b": "x", "ok": "-bad-"}, "annotations": {"/x": ""},
        "finalizers": ["orphan", "foregroundDeletion"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n", "uid": ""}]}});
    let found = problems("", "v1", "ConfigMap", object, None);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(
        found[0]
            .starts_with("metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric")
    );
    assert!(found[2].contains("prefix part must be non-empty"));
    let none = problems("", "v1", "ConfigMap", json!({"metadata": {}}), None);
    assert_eq!(none, ["metadata.name: Required value: name or generateName is required"]);
    let generated = json!({"metadata": {"generateName": "a-", "name": "a-x1"}});
    assert_eq!(problems("", "v1", "ConfigMap", generated, None), NONE);
    let policy = Kind::builtin("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy").unwrap();
    let bad = json!({"metadata": {"name": "X"}, "spec": {"resourceSelectors": []}});
    let bad = policy.validate(&bad, None).unwrap();
    assert!(bad[0].to_string().starts_with("metadata.name: Invalid value: \"X\""));
}

#[test]
fn a_name_that_must_be_one_is_told_where_names_are_judged() {
    let service = |metadata: Value| {
        let spec = json!({"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
        json!({"metadata": metadata, "spec": spec})
    };
    let told =
        |metadata: Value| problems("apiregistration.k8s.io", "v1", "APIService", service(metadata), None);
    let of = |field: &str, name: &str| {
        format!(
            "metadata.{field}: Invalid value: \"{name}\": must be `spec.version+\".\"+spec.group`: \"v1.a.b\""
        )
    };
    assert_eq!(
        told(json!({"generateName": "x", "name": "y", "labels": {"a": "-"}}))[..2],
        [of("generateName", "x"), of("name", "y")]
    );
    let slash = told(json!({"generateName": "a/b", "name": "v1.a.b"}));
    assert_eq!(slash, ["metadata.generateName: Invalid value: \"a/b\": may not contain '/'"]);
}

#[test]
fn finalizers_are_kubernetes_own_where_the_core_rules_judge_them() {
    let metadata = json!({"name": "a", "namespace": "b", "finalizers": ["own"]});
    let lease = json!({"metadata": metadata, "spec": {}});
    assert_eq!(problems("coordination.k8s.io", "v1", "Lease", lease, None), Vec::<String>::new());
    let told = problems("", "v1", "ConfigMap", json!({"metadata": metadata}), None);
    assert_eq!(
        told,
        [
            "metadata.finalizers[0]: Invalid value: \"own\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
}

#[test]
fn what_is_there_and_empty_is_not_what_is_absent() {
    let class =
        |mode: Value| json!({"metadata": {"name": "a"}, "provisioner": "b", "volumeBindingMode": mode});
    let told = |mode: Value| problems("storage.k8s.io", "v1", "StorageClass", class(mode), None);
    assert_eq!(told(Value::Null), Vec::<String>::new());
    assert_eq!(
        told(json!("")),
        [
            "volumeBindingMode: Unsupported value: \"\": supported values: \"Immediate\", \"WaitForFirstConsumer\""
        ]
    );
    let mut terms = class(Value::Null);
    terms["allowedTopologies"] = json!([{}, {}]);
    let told = problems("storage.k8s.io", "v1", "StorageClass", terms, None);
    let duplicate =
        |at: usize| format!("allowedTopologies[{at}].matchLabelExpressions: Duplicate value: \"\"");
    // As often as there are terms, and once for each empty one before.
    let times = |at: usize| told.iter().filter(|one| **one == duplicate(at)).count();
    assert_eq!((times(0), times(1)), (2, 3));
}
