//! Cases of defaulting of built-in kinds.

use karmada_kinds::kind::Kind;
use serde_json::{Value, json};

fn defaulted(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
    let kind = Kind::builtin(group, version, kind).unwrap();
    kind.decode(&mut object).unwrap();
    kind.default(&mut object);
    let once = object.clone();
    kind.decode(&mut object).unwrap();
    kind.default(&mut object);
    assert_eq!(object, once, "defaulting again changes something");
    object
}

#[test]
fn a_deployment_looks_as_kube_apiserver_stores_it() {
    let object = defaulted(
        "apps",
        "v1",
        "Deployment",
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
                    "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}},
                                {"name": "h", "hostPath": {"path": "/x"}}]}}}
        }),
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "containers": [{
                            "name": "c", "image": "nginx", "imagePullPolicy": "Always",
                            "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {},
                            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                            "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                                "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                            "env": [{"name": "N", "valueFrom": {"fieldRef":
                                {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]
                        }],
                        "volumes": [{"name": "v", "emptyDir": {}},
                            {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
                            {"name": "h", "hostPath": {"path": "/x", "type": ""}}],
                        "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                        "securityContext": {}, "terminationGracePeriodSeconds": 30
                    }
                }
            },
            "status": {}
        })
    );
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("reg:5000/nginx", "Always"),
        ("reg:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ] {
        let pod =
            defaulted("", "v1", "Pod", json!({"spec": {"containers": [{"name": "c", "image": image}]}}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
        assert_eq!(pod["spec"]["enableServiceLinks"], true);
    }
}

#[test]
fn pods_request_what_they_are_limited_to() {
    let container = json!({"name": "c", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "500m"}}, "ports": [{"containerPort": 80}]});
    let pod = defaulted("", "v1", "Pod", json!({"spec": {"hostNetwork": true, "containers": [container]}}));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(container["ports"][0]["hostPort"], 80);
}

#[test]
fn each_kind_has_its_own() {
    let service =
        defaulted("", "v1", "Service", json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}}));
    assert_eq!(
        service["spec"],
        json!({"type": "NodePort", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
               "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]})
    );
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    let namespace = defaulted("", "v1", "Namespace", json!({"metadata": {"name": "a"}}));
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "a");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
    let secret =
        defaulted("", "v1", "Secret", json!({"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "eA=="}}));
    assert_eq!(secret, json!({"metadata": {}, "type": "Opaque", "data": {"a": "Yg==", "c": "eA=="}}));
    let job =
        defaulted("batch", "v1", "Job", json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}));
    assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(job["spec"]["backoffLimit"], 6);
    assert_eq!(job["spec"]["completions"], 1);
    let mut job = job;
    job["metadata"]["uid"] = json!("u");
    (Kind::builtin("batch", "v1", "Job").unwrap().row.finish_create)(&mut job);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    let sets = defaulted(
        "apps",
        "v1",
        "StatefulSet",
        json!({"spec": {"serviceName": "s", "volumeClaimTemplates":
        [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}}),
    );
    assert_eq!(
        sets["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    );
    assert_eq!(sets["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem");
    assert_eq!(sets["spec"]["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
    let hpa = defaulted("autoscaling", "v2", "HorizontalPodAutoscaler", json!({"spec": {"behavior": {}}}));
    assert_eq!(hpa["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    assert_eq!(hpa["spec"]["behavior"]["scaleUp"]["policies"].as_array().unwrap().len(), 2);
    let binding = defaulted(
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
    );
    assert_eq!(binding["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(binding["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    assert!(binding["subjects"][1].get("apiGroup").is_none());
    let policy = defaulted(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}),
    );
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    let disk =
        defaulted("", "v1", "PersistentVolume", json!({"spec": {"rbd": {"image": "i", "monitors": ["m"]}}}));
    assert_eq!(disk["spec"]["rbd"]["pool"], "rbd");
    assert_eq!(disk["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    let crd = defaulted(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        json!({"spec": {"names": {"kind": "Foo"},
        "versions": [{"name": "v1", "storage": true}]}}),
    );
    assert_eq!(crd["spec"]["names"]["listKind"], "FooList");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
}
