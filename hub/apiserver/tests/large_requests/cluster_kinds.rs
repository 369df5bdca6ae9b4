//! Rows of kinds that hold no Pods: networks, roles, webhooks, endpoints, nodes, devices, fleets.

use serde_json::{Value, json};

use super::rows::{Row, create, create_wide, list, map, path_of};
use super::server::Ask;

pub fn rows() -> Vec<Row> {
    let mut all = of_networks();
    all.extend(of_roles());
    all.extend(of_hooks());
    all.extend(of_endpoints());
    all.extend(of_clusters());
    all.extend(of_devices());
    all.extend(of_fleets());
    all
}

fn address(at: usize) -> String {
    format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255)
}

fn of_networks() -> Vec<Row> {
    const SERVICE: (&str, &str) = ("services", "Service");
    const INGRESS: (&str, &str) = ("ingresses", "Ingress");
    const POLICY: (&str, &str) = ("networkpolicies", "NetworkPolicy");
    const V1: &str = "networking.k8s.io/v1";
    let backend = || json!({"service": {"name": "x", "port": {"number": 1}}});
    vec![
        create(
            "service ports",
            "v1",
            SERVICE,
            |n| json!({"spec": {"ports": list(n, |at| json!({"name": format!("p{at}"), "port": 1 + at % 65_000}))}}),
        ),
        create("node ports", "v1", SERVICE, |n| {
            let ports = list(n, |at| json!({"name": format!("p{at}"), "port": 1 + at % 65_000}));
            json!({"spec": {"type": "NodePort", "ports": ports}})
        })
        // Of 2,768 that there are.
        .at_most(1_000),
        create(
            "service ports of one number",
            "v1",
            SERVICE,
            |n| json!({"spec": {"ports": list(n, |_| json!({"name": "p", "port": 1}))}}),
        ),
        create(
            "external addresses",
            "v1",
            SERVICE,
            |n| json!({"spec": {"ports": [{"port": 1}], "externalIPs": list(n, |at| json!(address(at)))}}),
        ),
        create("source ranges", "v1", SERVICE, |n| {
            let ranges = list(n, |at| json!(format!("{}/32", address(at))));
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 1}], "loadBalancerSourceRanges": ranges}})
        }),
        create("families", "v1", SERVICE, |n| {
            json!({"spec": {"ports": [{"port": 1}], "ipFamilies": list(n, |_| json!("IPv4")),
                "clusterIPs": list(n, |at| json!(address(at)))}})
        }),
        create("ingress rules", V1, INGRESS, move |n| {
            let rule = |at: usize| {
                json!({"host": format!("h{at}.x"), "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend()}]}})
            };
            json!({"spec": {"rules": list(n, rule)}})
        }),
        create("ingress paths", V1, INGRESS, move |n| {
            let path =
                |at: usize| json!({"path": format!("/{at}"), "pathType": "Prefix", "backend": backend()});
            json!({"spec": {"rules": [{"http": {"paths": list(n, path)}}]}})
        }),
        create(
            "ingress certificates",
            V1,
            INGRESS,
            move |n| json!({"spec": {"defaultBackend": backend(), "tls": list(n, |at| json!({"hosts": [format!("h{at}.x")]}))}}),
        ),
        create(
            "network rules",
            V1,
            POLICY,
            |n| json!({"spec": {"podSelector": {}, "ingress": list(n, |_| json!({}))}}),
        ),
        create("network peers", V1, POLICY, |n| {
            let peers = list(n, |at| json!({"ipBlock": {"cidr": format!("{}/32", address(at))}}));
            json!({"spec": {"podSelector": {}, "ingress": [{"from": peers}]}})
        }),
        create("network ports", V1, POLICY, |n| {
            let ports = list(n, |at| json!({"port": 1 + at % 65_000}));
            json!({"spec": {"podSelector": {}, "egress": [{"ports": ports}]}})
        }),
        create("network exceptions", V1, POLICY, |n| {
            let ranges = list(n, |at| json!(format!("{}/32", address(at))));
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ranges}}]}]}})
        }),
        create(
            "policy types",
            V1,
            POLICY,
            |n| json!({"spec": {"podSelector": {}, "policyTypes": list(n, |_| json!("Ingress"))}}),
        ),
    ]
}

fn of_roles() -> Vec<Row> {
    const V1: &str = "rbac.authorization.k8s.io/v1";
    const ROLE: (&str, &str) = ("roles", "Role");
    vec![
        create(
            "role rules",
            V1,
            ROLE,
            |n| json!({"rules": list(n, |at| json!({"apiGroups": [format!("g{at}")], "resources": ["r"], "verbs": ["get"]}))}),
        ),
        create(
            "resources of a rule",
            V1,
            ROLE,
            |n| json!({"rules": [{"apiGroups": [""], "resources": list(n, |at| json!(format!("r{at}"))), "verbs": ["get"]}]}),
        ),
        create("subjects", V1, ("rolebindings", "RoleBinding"), |n| {
            let group = "rbac.authorization.k8s.io";
            json!({"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "x"},
                "subjects": list(n, |at| json!({"apiGroup": group, "kind": "User", "name": format!("u{at}")}))})
        }),
        create_wide("aggregated roles", V1, ("clusterroles", "ClusterRole"), |n| {
            let selectors = list(n, |at| json!({"matchLabels": {format!("k{at}"): "v"}}));
            json!({"aggregationRule": {"clusterRoleSelectors": selectors}})
        }),
        create(
            "access reviews",
            "authorization.k8s.io/v1",
            ("localsubjectaccessreviews", "LocalSubjectAccessReview"),
            |n| {
                json!({"metadata": {"namespace": "shop"}, "spec": {"user": "u", "groups": list(n, |at| json!(format!("g{at}"))),
                "resourceAttributes": {"namespace": "shop", "verb": "get", "resource": "pods"}}})
            },
        ),
        Row::new("access reviews of who is bound with many others", |n| {
            let group = "rbac.authorization.k8s.io";
            let subject = |at: usize| json!({"apiGroup": group, "kind": "Group", "name": format!("h{at}")});
            let binding = json!({"metadata": {"name": format!("many-{n}")},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"}, "subjects": list(n, subject)});
            let groups = list(n, |at| json!(if at + 1 == n { format!("h{at}") } else { format!("g{at}") }));
            let review = json!({"metadata": {"namespace": "shop"}, "spec": {"user": "u", "groups": groups,
                "resourceAttributes": {"namespace": "shop", "verb": "get", "resource": "pods"}}});
            let bindings = path_of(V1, "rolebindings");
            vec![
                Ask::new("PUT", format!("{bindings}/many-{n}"), "application/json", &binding),
                Ask::new("POST", path_of("authorization.k8s.io/v1", "localsubjectaccessreviews"), "application/json", &review),
            ]
        })
        .at_most(12_000),
        create_wide(
            "usages of a request",
            "certificates.k8s.io/v1",
            ("certificatesigningrequests", "CertificateSigningRequest"),
            |n| json!({"spec": {"request": "", "signerName": "a.b/c", "usages": list(n, |_| json!("client auth"))}}),
        ),
        create_wide(
            "wrong usages of a request",
            "certificates.k8s.io/v1",
            ("certificatesigningrequests", "CertificateSigningRequest"),
            |n| json!({"spec": {"request": "", "signerName": "a.b/c", "usages": list(n, |at| json!(format!("u{at}")))}}),
        ),
    ]
}

fn of_hooks() -> Vec<Row> {
    const V1: &str = "admissionregistration.k8s.io/v1";
    const HOOKS: (&str, &str) = ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration");
    const POLICY: (&str, &str) = ("validatingadmissionpolicies", "ValidatingAdmissionPolicy");
    fn hook(more: Value) -> Value {
        let mut hook = json!({"name": "a.b.c", "clientConfig": {"url": "https://x/y"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]});
        hook.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        hook
    }
    fn policy(more: Value) -> Value {
        let mut spec = json!({"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["pods"]}]}});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({"spec": spec})
    }
    vec![
        create_wide(
            "webhooks",
            V1,
            HOOKS,
            |n| json!({"webhooks": list(n, |at| hook(json!({"name": format!("a.b.c{at}")})))}),
        ),
        create_wide("webhook rules", V1, HOOKS, |n| {
            let rule = |at: usize| {
                json!({"apiGroups": [format!("g{at}")], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["r"]})
            };
            json!({"webhooks": [hook(json!({"rules": list(n, rule)}))]})
        }),
        create_wide("resources of a webhook rule", V1, HOOKS, |n| {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": list(n, |at| json!(format!("r{at}/*")))});
            json!({"webhooks": [hook(json!({"rules": [rule]}))]})
        }),
        create_wide("parts of a webhook rule", V1, HOOKS, |n| {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": list(n, |at| json!(format!("*/r{at}")))});
            json!({"webhooks": [hook(json!({"rules": [rule]}))]})
        }),
        create_wide("webhook conditions", V1, HOOKS, |n| {
            let all = list(n, |at| json!({"name": format!("c{at}"), "expression": "true"}));
            json!({"webhooks": [hook(json!({"matchConditions": all}))]})
        }),
        create_wide(
            "review versions",
            V1,
            HOOKS,
            |n| json!({"webhooks": [hook(json!({"admissionReviewVersions": list(n, |at| json!(format!("v{at}")))}))]}),
        ),
        create_wide("policy validations", V1, POLICY, |n| {
            policy(json!({"validations": list(n, |_| json!({"expression": "true"}))}))
        }),
        create_wide("policy variables", V1, POLICY, |n| {
            policy(json!({"validations": [{"expression": "true"}],
                "variables": list(n, |at| json!({"name": format!("v{at}"), "expression": "1"}))}))
        }),
        create_wide("policy variables in a chain", V1, POLICY, |n| {
            let variable = |at: usize| match at {
                0 => json!({"name": "v0", "expression": "1"}),
                at => json!({"name": format!("v{at}"), "expression": format!("variables.v{}", at - 1)}),
            };
            policy(json!({"validations": [{"expression": "true"}], "variables": list(n, variable)}))
        }),
        create_wide("policy variables that are wrong", V1, POLICY, |n| {
            policy(json!({"validations": [{"expression": "true"}],
                "variables": list(n, |at| json!({"name": format!("v{at}"), "expression": "x"}))}))
        }),
        create_wide("policy annotations", V1, POLICY, |n| {
            policy(
                json!({"auditAnnotations": list(n, |at| json!({"key": format!("k{at}"), "valueExpression": "'x'"}))}),
            )
        }),
        create_wide("policy conditions", V1, POLICY, |n| {
            policy(json!({"validations": [{"expression": "true"}],
                "matchConditions": list(n, |at| json!({"name": format!("c{at}"), "expression": "true"}))}))
        }),
        create_wide("names of a policy rule", V1, POLICY, |n| {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                "resourceNames": list(n, |at| json!(format!("n{at}")))});
            policy(
                json!({"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [rule]}}),
            )
        }),
        create_wide(
            "actions of a policy's binding",
            V1,
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
            |n| json!({"spec": {"policyName": "p", "validationActions": list(n, |_| json!("Deny"))}}),
        ),
    ]
}

fn of_endpoints() -> Vec<Row> {
    const SLICE: (&str, &str) = ("endpointslices", "EndpointSlice");
    const V1: &str = "discovery.k8s.io/v1";
    vec![
        create(
            "subsets",
            "v1",
            ("endpoints", "Endpoints"),
            |n| json!({"subsets": list(n, |at| json!({"addresses": [{"ip": address(at)}], "ports": [{"port": 1}]}))}),
        ),
        create(
            "subset addresses",
            "v1",
            ("endpoints", "Endpoints"),
            |n| json!({"subsets": [{"addresses": list(n, |at| json!({"ip": address(at)})), "ports": [{"port": 1}]}]}),
        ),
        create("subset ports", "v1", ("endpoints", "Endpoints"), |n| {
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}],
                "ports": list(n, |at| json!({"name": format!("p{at}"), "port": 1 + at % 65_000}))}]})
        }),
        create(
            "endpoints",
            V1,
            SLICE,
            |n| json!({"addressType": "IPv4", "endpoints": list(n, |at| json!({"addresses": [address(at)]}))}),
        ),
        create(
            "endpoint addresses",
            V1,
            SLICE,
            |n| json!({"addressType": "IPv4", "endpoints": [{"addresses": list(n, |at| json!(address(at)))}]}),
        ),
        create("endpoint ports", V1, SLICE, |n| {
            json!({"addressType": "IPv4", "endpoints": [],
                "ports": list(n, |at| json!({"name": format!("p{at}"), "port": 1 + at % 65_000}))})
        }),
        create("endpoint zones", V1, SLICE, |n| {
            let zones = list(n, |at| json!({"name": format!("z{at}")}));
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": zones}}]})
        }),
    ]
}

fn of_clusters() -> Vec<Row> {
    vec![
        create_wide(
            "taints",
            "v1",
            ("nodes", "Node"),
            |n| json!({"spec": {"taints": list(n, |at| json!({"key": format!("k{at}"), "effect": "NoSchedule"}))}}),
        ),
        create_wide(
            "pod ranges",
            "v1",
            ("nodes", "Node"),
            |n| json!({"spec": {"podCIDRs": list(n, |at| json!(format!("{}/32", address(at))))}}),
        ),
        create_wide(
            "node addresses",
            "v1",
            ("nodes", "Node"),
            |n| json!({"status": {"addresses": list(n, |at| json!({"type": "InternalIP", "address": address(at)}))}}),
        ),
        create_wide("access modes", "v1", ("persistentvolumes", "PersistentVolume"), |n| {
            json!({"spec": {"capacity": {"storage": "1"}, "hostPath": {"path": "/a"},
                "accessModes": list(n, |_| json!("ReadWriteOnce"))}})
        }),
        create(
            "quota",
            "v1",
            ("resourcequotas", "ResourceQuota"),
            |n| json!({"spec": {"hard": map(n, |at| (format!("count/r{at}"), json!("1")))}}),
        ),
        create("quota scopes", "v1", ("resourcequotas", "ResourceQuota"), |n| {
            json!({"spec": {"hard": {"pods": "1"}, "scopes": list(n, |_| json!("Terminating")),
                "scopeSelector": {"matchExpressions": list(n, |_| json!({"scopeName": "BestEffort", "operator": "Exists"}))}}})
        }),
        create(
            "limit ranges",
            "v1",
            ("limitranges", "LimitRange"),
            |n| json!({"spec": {"limits": list(n, |_| json!({"type": "Container", "max": {"cpu": "1"}}))}}),
        ),
        create("limits of a range", "v1", ("limitranges", "LimitRange"), |n| {
            let amounts = map(n, |at| (format!("a.b/r{at}"), json!("1")));
            json!({"spec": {"limits": [{"type": "Container", "max": amounts, "min": amounts, "default": amounts}]}})
        }),
        create("metrics", "autoscaling/v2", ("horizontalpodautoscalers", "HorizontalPodAutoscaler"), |n| {
            let metric = |_| {
                json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 1}}})
            };
            json!({"spec": {"scaleTargetRef": {"kind": "x", "name": "y"}, "maxReplicas": 3, "metrics": list(n, metric)}})
        }),
        create(
            "scaling policies",
            "autoscaling/v2",
            ("horizontalpodautoscalers", "HorizontalPodAutoscaler"),
            |n| {
                let all = list(n, |_| json!({"type": "Pods", "value": 1, "periodSeconds": 1}));
                json!({"spec": {"scaleTargetRef": {"kind": "x", "name": "y"}, "maxReplicas": 3,
                "behavior": {"scaleUp": {"policies": all}}}})
            },
        ),
        create_wide("topologies", "storage.k8s.io/v1", ("storageclasses", "StorageClass"), |n| {
            let one =
                |at: usize| json!({"matchLabelExpressions": [{"key": "k", "values": [format!("v{at}")]}]});
            json!({"provisioner": "a.b/c", "allowedTopologies": list(n, one)})
        }),
        create_wide("topology keys", "storage.k8s.io/v1", ("storageclasses", "StorageClass"), |n| {
            let all = list(n, |at| json!({"key": format!("k{at}"), "values": ["v"]}));
            json!({"provisioner": "a.b/c", "allowedTopologies": [{"matchLabelExpressions": all}]})
        }),
        create_wide("topology values", "storage.k8s.io/v1", ("storageclasses", "StorageClass"), |n| {
            let values = list(n, |at| json!(format!("v{at}")));
            json!({"provisioner": "a.b/c", "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": values}]}]})
        }),
        create_wide(
            "storage parameters",
            "storage.k8s.io/v1",
            ("storageclasses", "StorageClass"),
            |n| json!({"provisioner": "a.b/c", "parameters": map(n, |at| (format!("k{at}"), json!("")))}),
        ),
        create_wide(
            "node drivers",
            "storage.k8s.io/v1",
            ("csinodes", "CSINode"),
            |n| json!({"spec": {"drivers": list(n, |at| json!({"name": format!("d{at}"), "nodeID": "n", "topologyKeys": ["k"]}))}}),
        ),
        create_wide(
            "keys of a node's driver",
            "storage.k8s.io/v1",
            ("csinodes", "CSINode"),
            |n| json!({"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": list(n, |at| json!(format!("k{at}")))}]}}),
        ),
        create_wide(
            "token requests",
            "storage.k8s.io/v1",
            ("csidrivers", "CSIDriver"),
            |n| json!({"spec": {"tokenRequests": list(n, |at| json!({"audience": format!("a{at}")}))}}),
        ),
        create_wide("flow rules", "flowcontrol.apiserver.k8s.io/v1", ("flowschemas", "FlowSchema"), |n| {
            let rule = |at: usize| {
                json!({"subjects": [{"kind": "User", "user": {"name": format!("u{at}")}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]})
            };
            json!({"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "rules": list(n, rule)}})
        }),
        create_wide(
            "verbs of a flow rule",
            "flowcontrol.apiserver.k8s.io/v1",
            ("flowschemas", "FlowSchema"),
            |n| {
                let rule = json!({"subjects": [{"kind": "User", "user": {"name": "u"}}],
                "nonResourceRules": [{"verbs": list(n, |at| json!(format!("v{at}"))), "nonResourceURLs": list(n, |at| json!(format!("/{at}")))}]});
                json!({"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "rules": [rule]}})
            },
        ),
        create_wide("runtime tolerations", "node.k8s.io/v1", ("runtimeclasses", "RuntimeClass"), |n| {
            let all = list(n, |at| json!({"key": format!("k{at}"), "operator": "Exists"}));
            json!({"handler": "h", "scheduling": {"tolerations": all}})
        }),
        create("account secrets", "v1", ("serviceaccounts", "ServiceAccount"), |n| {
            json!({"secrets": list(n, |at| json!({"name": format!("s{at}")})),
                "imagePullSecrets": list(n, |at| json!({"name": format!("s{at}")}))})
        }),
    ]
}

fn of_devices() -> Vec<Row> {
    const V1: &str = "resource.k8s.io/v1";
    const SLICE: (&str, &str) = ("resourceslices", "ResourceSlice");
    const CLAIM: (&str, &str) = ("resourceclaims", "ResourceClaim");
    fn slice(more: Value) -> Value {
        let mut spec = json!({"driver": "a.b", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({"spec": spec})
    }
    let request = |at: usize| json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "c"}});
    vec![
        create(
            "device requests",
            V1,
            CLAIM,
            move |n| json!({"spec": {"devices": {"requests": list(n, request)}}}),
        ),
        create("device constraints", V1, CLAIM, move |n| {
            let constraints =
                list(n, |at| json!({"requests": [format!("r{at}")], "matchAttribute": "a.b/c"}));
            json!({"spec": {"devices": {"requests": list(n, request), "constraints": constraints}}})
        }),
        create("requests of a constraint", V1, CLAIM, move |n| {
            let names = list(n, |at| json!(format!("r{at}")));
            json!({"spec": {"devices": {"requests": list(n, request), "constraints": [{"requests": names, "matchAttribute": "a.b/c"}]}}})
        }),
        create("alternative requests", V1, CLAIM, move |n| {
            let all = list(n, |at| json!({"name": format!("s{at}"), "deviceClassName": "c"}));
            json!({"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": all}],
                "config": list(n, |at| json!({"requests": [format!("r/s{at}")], "opaque": {"driver": "a.b", "parameters": {}}}))}}})
        }),
        create("device selectors", V1, CLAIM, move |n| {
            let selectors = list(n, |_| json!({"cel": {"expression": "true"}}));
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}}]}}})
        }),
        create_wide("devices of a slice", V1, SLICE, |n| {
            slice(json!({"devices": list(n, |at| json!({"name": format!("d{at}")}))}))
        }),
        create_wide("attributes of a device", V1, SLICE, |n| {
            slice(
                json!({"devices": [{"name": "d", "attributes": map(n, |at| (format!("a{at}"), json!({"int": 1})))}]}),
            )
        }),
        create_wide("taints of a device", V1, SLICE, |n| {
            let taints = list(n, |at| json!({"key": format!("k{at}"), "effect": "NoSchedule"}));
            slice(json!({"devices": [{"name": "d", "taints": taints}]}))
        }),
        create_wide("counters of a slice", V1, SLICE, |n| {
            slice(
                json!({"sharedCounters": list(n, |at| json!({"name": format!("c{at}"), "counters": {"a": {"value": "1"}}}))}),
            )
        }),
    ]
}

fn of_fleets() -> Vec<Row> {
    const POLICY: (&str, &str) = ("propagationpolicies", "PropagationPolicy");
    const OVERRIDE: (&str, &str) = ("overridepolicies", "OverridePolicy");
    const V1: &str = "policy.karmada.io/v1alpha1";
    let selectors = || json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    vec![
        create("policy selectors", V1, POLICY, |n| {
            let all = list(
                n,
                |at| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("d{at}")}),
            );
            json!({"spec": {"resourceSelectors": all, "placement": {"clusterAffinity": {"clusterNames": ["a"]}}}})
        }),
        create("cluster names", V1, POLICY, move |n| {
            let names = list(n, |at| json!(format!("c{at}")));
            json!({"spec": {"resourceSelectors": selectors(), "placement": {"clusterAffinity": {"clusterNames": names}}}})
        }),
        create("cluster affinities", V1, POLICY, move |n| {
            let all = list(n, |at| json!({"affinityName": format!("a{at}"), "clusterNames": ["c"]}));
            json!({"spec": {"resourceSelectors": selectors(), "placement": {"clusterAffinities": all}}})
        }),
        create("cluster tolerations", V1, POLICY, move |n| {
            let all = list(n, |at| json!({"key": format!("k{at}"), "operator": "Exists"}));
            json!({"spec": {"resourceSelectors": selectors(), "placement": {"clusterTolerations": all}}})
        }),
        create("spread of a policy", V1, POLICY, move |n| {
            let all = list(n, |_| json!({"spreadByField": "cluster", "minGroups": 1}));
            json!({"spec": {"resourceSelectors": selectors(), "placement": {"spreadConstraints": all}}})
        }),
        create("weights of a policy", V1, POLICY, move |n| {
            let all =
                list(n, |at| json!({"targetCluster": {"clusterNames": [format!("c{at}")]}, "weight": 1}));
            let scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"staticWeightList": all}});
            json!({"spec": {"resourceSelectors": selectors(), "placement": {"replicaScheduling": scheduling}}})
        }),
        create("override rules", V1, OVERRIDE, move |n| {
            let rule = |at: usize| {
                json!({"targetCluster": {"clusterNames": [format!("c{at}")]},
                "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 1}]}})
            };
            json!({"spec": {"resourceSelectors": selectors(), "overrideRules": list(n, rule)}})
        }),
        create("plain overriders", V1, OVERRIDE, move |n| {
            let all =
                list(n, |at| json!({"path": format!("/spec/a{at}"), "operator": "replace", "value": 1}));
            json!({"spec": {"resourceSelectors": selectors(), "overrideRules": [{"overriders": {"plaintext": all}}]}})
        }),
        create_wide(
            "taints of a cluster",
            "cluster.karmada.io/v1alpha1",
            ("clusters", "Cluster"),
            |n| json!({"spec": {"syncMode": "Pull", "taints": list(n, |at| json!({"key": format!("k{at}"), "effect": "NoSchedule"}))}}),
        ),
        create_wide("models of a cluster", "cluster.karmada.io/v1alpha1", ("clusters", "Cluster"), |n| {
            let model = |at: usize| json!({"grade": at, "ranges": [{"name": "cpu", "min": format!("{at}"), "max": format!("{}", at + 1)}]});
            json!({"spec": {"syncMode": "Pull", "resourceModels": list(n, model)}})
        }),
        create("manifests of a work", "work.karmada.io/v1alpha1", ("works", "Work"), |n| {
            let one = |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{at}")}});
            json!({"spec": {"workload": {"manifests": list(n, one)}}})
        }),
        create(
            "clusters of a binding",
            "work.karmada.io/v1alpha2",
            ("resourcebindings", "ResourceBinding"),
            |n| {
                json!({"spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"},
                "clusters": list(n, |at| json!({"name": format!("c{at}")}))}})
            },
        ),
        create(
            "parts of an interpreter",
            "config.karmada.io/v1alpha1",
            ("resourceinterpreterwebhookconfigurations", "ResourceInterpreterWebhookConfiguration"),
            |n| {
                json!({"webhooks": list(n, |at| json!({"name": format!("w{at}.a.b"), "clientConfig": {"url": "https://x/y"},
                "interpreterContextVersions": ["v1alpha1"]}))})
            },
        ),
    ]
}
