//! What is propagated: every kind that a user has, cluster-scoped ones too, selected by name, label or all; with
//! overrides; and how the members' statuses come together on the hub.

use serde_json::{Value, json};
use tests::api::text_at;
use tests::wait::so;

use crate::fleet::{await_gone, await_object, get, has, has_condition, shared};

/// One of each kind, named `sample`.
const KINDS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: sample}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: sample}
stringData: {password: hidden}
---
apiVersion: v1
kind: Service
metadata: {name: sample}
spec: {selector: {app: sample}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sample}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sample}
spec:
  template:
    metadata: {labels: {app: job}}
    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: sample}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: sample}
spec:
  replicas: 2
  serviceName: sample
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: sample}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: sample}
spec: {minAvailable: 1, selector: {matchLabels: {app: set}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: sample}
spec:
  minReplicas: 1
  maxReplicas: 4
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: sample}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: sample}
spec:
  rules:
  - host: sample.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: sample, port: {number: 80}}}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: sample}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: sample}
spec: {containers: [{name: main, image: nginx}]}
";

/// apiVersion, kind, collection, and what the hub's object says once all members have told (pointer and value).
type Told = (&'static str, &'static str, &'static str, Option<(&'static str, i64)>);

/// One of each.
const TOLD: &[Told] = &[
    ("v1", "ConfigMap", "configmaps", None),
    ("v1", "Secret", "secrets", None),
    ("v1", "Service", "services", None),
    ("v1", "ServiceAccount", "serviceaccounts", None),
    ("batch/v1", "Job", "jobs", None),
    ("batch/v1", "CronJob", "cronjobs", None),
    ("apps/v1", "StatefulSet", "statefulsets", Some(("/status/readyReplicas", 4))),
    ("apps/v1", "DaemonSet", "daemonsets", Some(("/status/numberReady", 4))),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Some(("/status/currentHealthy", 4))),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", None),
    ("networking.k8s.io/v1", "Ingress", "ingresses", None),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", None),
    ("v1", "Pod", "pods", None),
];

fn path(api_version: &str, namespace: &str, plural: &str, name: &str) -> String {
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    format!("{root}/namespaces/{namespace}/{plural}/{name}")
}

#[test]
fn every_kind_arrives_and_tells_how_it_is() {
    let Some(fleet) = shared() else { return };
    let (kubectl, hub) = (fleet.namespace("kinds"), fleet.hub.api());
    kubectl.apply(KINDS);
    let selectors: Vec<Value> = TOLD
        .iter()
        .map(|(version, kind, ..)| json!({"apiVersion": version, "kind": kind, "name": "sample"}))
        .collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "all"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["north", "south"]}}},
    });
    kubectl.apply(&serde_json::to_string_pretty(&policy).unwrap());
    for (version, kind, plural, told) in TOLD {
        let at = path(version, "kinds", plural, "sample");
        for name in ["north", "south"] {
            fleet.site(name).await_object(&at, |object| {
                has(object, "/metadata/labels/karmada.io~1managed", &json!("true"))
            });
        }
        let binding = format!("sample-{}", kind.to_lowercase());
        let binding = format!("/apis/work.karmada.io/v1alpha2/namespaces/kinds/resourcebindings/{binding}");
        await_object(hub, "the hub", &binding, |binding| {
            let items = binding.pointer("/status/aggregatedStatus").and_then(Value::as_array);
            let names: Vec<&str> = items
                .into_iter()
                .flatten()
                .filter(|item| item["applied"] == true)
                .map(|item| text_at(item, "/clusterName"))
                .collect();
            so(names == ["north", "south"], || format!("{names:?} in {binding}"))
        });
        if let Some((pointer, value)) = told {
            await_object(hub, "the hub", &at, |object| has(object, pointer, &json!(value)));
        }
    }
    let claim = path("v1", "kinds", "persistentvolumeclaims", "sample");
    await_object(hub, "the hub", &claim, |claim| has(claim, "/status/phase", &json!("Pending")));
    let job = path("batch/v1", "kinds", "jobs", "sample");
    await_object(hub, "the hub", &job, |job| so(job.get("status").is_some(), || job.to_string()));
    assert_eq!(fleet.site("kind-east").api().get(&job).unwrap(), None);
    // A Job can change where its fields allow it, though its selector is the member's own and never may.
    kubectl.ok(&["label", "job", "sample", "tier=gold"]);
    kubectl.ok(&[
        "patch",
        "job",
        "sample",
        "--type=merge",
        "-p",
        r#"{"spec": {"activeDeadlineSeconds": 4000}}"#,
    ]);
    for name in ["north", "south"] {
        fleet.site(name).await_object(&job, |job| {
            has(job, "/metadata/labels/tier", &json!("gold"))?;
            has(job, "/spec/activeDeadlineSeconds", &json!(4000))?;
            so(job["spec"]["selector"]["matchLabels"].is_object(), || job.to_string())
        });
    }
    // A member's own choices stay its own.
    let service = get(fleet.site("north").api(), &path("v1", "kinds", "services", "sample")).unwrap();
    assert!(text_at(&service, "/spec/clusterIP").starts_with("10.0.0."), "{service}");
    fleet.remove_namespace("kinds");
}

/// A Job that is placed in two sites, with this image.
fn job(image: &str) -> Value {
    let container = json!({"name": "main", "image": image});
    let pod = json!({"restartPolicy": "Never", "containers": [container]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "jobs-anew"},
        "spec": {"template": {"spec": pod}}})
}

/// Clients that say nothing of dependants orphan those of a Job. That is no wish to keep it in the members, where the next one of its name
/// could never take its place: a Job cannot be changed.
#[test]
fn a_job_that_is_deleted_and_made_anew_is_made_anew_in_the_members() {
    let Some(fleet) = shared() else { return };
    let (kubectl, hub) = (fleet.namespace("jobs-anew"), fleet.hub.api());
    kubectl.apply(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: jobs}
spec:
  resourceSelectors: [{apiVersion: batch/v1, kind: Job}]
  placement: {clusterAffinity: {clusterNames: [north, south]}}
",
    );
    let (jobs, once) =
        ("/apis/batch/v1/namespaces/jobs-anew/jobs", path("batch/v1", "jobs-anew", "jobs", "once"));
    let binding = "/apis/work.karmada.io/v1alpha2/namespaces/jobs-anew/resourcebindings/once-job";
    let runs = |image: &str| {
        for name in ["north", "south"] {
            fleet.site(name).await_object(&once, |job| {
                has(job, "/spec/template/spec/containers/0/image", &json!(image))?;
                so(job.pointer("/metadata/deletionTimestamp").is_none(), || job.to_string())
            });
        }
    };
    hub.create(jobs, &job("first")).unwrap();
    runs("first");
    // No body, as curl and Python's client send it; and the next one at once.
    hub.delete(&once).unwrap();
    await_gone(hub, "the hub", &once);
    hub.create(jobs, &job("second")).unwrap();
    runs("second");
    await_object(hub, "the hub", binding, |binding| has_condition(binding, "FullyApplied", "True", ""));

    // So also where it is asked for in words, and where nothing follows.
    kubectl.ok(&["delete", "job", "once", "--cascade=orphan"]);
    await_gone(hub, "the hub", binding);
    for name in ["north", "south"] {
        fleet.site(name).await_gone(&once);
    }
    fleet.remove_namespace("jobs-anew");
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'docker.io/library/nginx:1.27'}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {}
";

/// Both kinds in both forms: rules with targets, and the older overriders beside one target.
const OVERRIDES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: e2e-everywhere}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: overrides}]
  overrideRules:
  - overriders:
      plaintext: [{path: /metadata/annotations/owner, operator: add, value: platform}]
      labelsOverrider: [{operator: add, value: {rolled-out-by: hub}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: e2e-older-form}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: overrides}]
  targetCluster: {clusterNames: [kind-east]}
  overriders:
    plaintext: [{path: /spec/replicas, operator: replace, value: 3}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: images, namespace: overrides}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules:
  - targetCluster: {labelSelector: {matchLabels: {tier: gold}}}
    overriders:
      imageOverrider: [{component: Registry, operator: replace, value: registry.north.example.com}]
  - targetCluster: {clusterNames: [south]}
    overriders:
      imageOverrider: [{component: Tag, operator: replace, value: '1.28'}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: older-form, namespace: overrides}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  targetCluster: {clusterNames: [north]}
  overriders:
    plaintext: [{path: /spec/minReadySeconds, operator: add, value: 1}]
";

#[test]
fn overrides_are_seen_on_the_members_they_are_for() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace("overrides");
    kubectl.apply(WEB);
    fleet.hub.kubectl().apply(OVERRIDES);
    let deployment = "/apis/apps/v1/namespaces/overrides/deployments/web";
    let image = "/spec/template/spec/containers/0/image";
    for (name, wanted, replicas, seconds) in [
        ("north", "registry.north.example.com/library/nginx:1.27", 1, Some(json!(1))),
        ("south", "docker.io/library/nginx:1.28", 1, None),
        ("kind-east", "docker.io/library/nginx:1.27", 3, None),
    ] {
        fleet.site(name).await_object(deployment, |object| {
            has(object, image, &json!(wanted))?;
            has(object, "/spec/replicas", &json!(replicas))?;
            has(object, "/metadata/annotations/owner", &json!("platform"))?;
            has(object, "/metadata/labels/rolled-out-by", &json!("hub"))?;
            so(object.pointer("/spec/minReadySeconds") == seconds.as_ref(), || object.to_string())
        });
    }
    let template = get(fleet.hub.api(), deployment).unwrap();
    has(&template, image, &json!("docker.io/library/nginx:1.27")).unwrap();
    // Without the policies everything is as the template says.
    kubectl.ok(&["delete", "overridepolicy", "--all"]);
    fleet.hub.kubectl().ok(&["delete", "clusteroverridepolicy", "e2e-everywhere", "e2e-older-form"]);
    for site in &fleet.sites {
        site.await_object(deployment, |object| {
            has(object, image, &json!("docker.io/library/nginx:1.27"))?;
            has(object, "/spec/replicas", &json!(1))?;
            so(object.pointer("/metadata/annotations/owner").is_none(), || object.to_string())?;
            so(object.pointer("/metadata/labels/rolled-out-by").is_none(), || object.to_string())
        });
    }
    fleet.remove_namespace("overrides");
}

const SELECTED: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: red, namespace: selection, labels: {colour: red}}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: blue, namespace: selection, labels: {colour: blue}}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: one, namespace: selection}
---
apiVersion: v1
kind: Secret
metadata: {name: two, namespace: selection}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-reader, labels: {colour: red}}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: e2e-by-label}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: ConfigMap, namespace: selection, labelSelector: {matchLabels: {colour: red}}}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, labelSelector: {matchLabels: {colour: red}}}
  placement: {clusterAffinity: {labelSelector: {matchExpressions: [{key: tier, operator: In, values: [gold, silver]}]}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: e2e-all}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: selection}]
  placement: {clusterAffinity: {exclude: [south]}}
";

#[test]
fn cluster_policies_select_by_label_and_all_and_place_cluster_scoped_kinds() {
    let Some(fleet) = shared() else { return };
    fleet.namespace("selection");
    let kubectl = fleet.hub.kubectl();
    kubectl.apply(SELECTED);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/e2e-reader";
    let at = |plural: &str, name: &str| path("v1", "selection", plural, name);
    for (name, red, secrets) in [("north", true, true), ("south", true, false), ("kind-east", false, true)] {
        let site = fleet.site(name);
        for (path, there) in [
            (at("configmaps", "red"), red),
            (role.to_owned(), red),
            (at("secrets", "one"), secrets),
            (at("secrets", "two"), secrets),
        ] {
            if there {
                site.await_object(&path, |_| Ok(()));
            }
        }
        for (path, there) in [
            (at("configmaps", "red"), red),
            (at("configmaps", "blue"), false),
            (at("secrets", "one"), secrets),
        ] {
            assert_eq!(site.api().get(&path).unwrap().is_some(), there, "{path} on {name}");
        }
        // The namespace goes everywhere, whatever is placed in it.
        site.await_object("/api/v1/namespaces/selection", |_| Ok(()));
    }
    let binding = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings/e2e-reader-clusterrole";
    await_object(fleet.hub.api(), "the hub", binding, |binding| {
        let clusters = binding.pointer("/spec/clusters").and_then(Value::as_array).map_or(0, Vec::len);
        so(clusters == 2, || binding.to_string())
    });
    // A later label is a later match.
    kubectl.in_namespace("selection").ok(&["label", "configmap", "blue", "colour=red", "--overwrite"]);
    fleet.site("north").await_object(&at("configmaps", "blue"), |_| Ok(()));
    kubectl.ok(&["delete", "clusterrole", "e2e-reader"]);
    for site in &fleet.sites {
        site.await_gone(role);
    }
    await_gone(fleet.hub.api(), "the hub", binding);
    fleet.remove_namespace("selection");
    kubectl.ok(&["delete", "clusterpropagationpolicy", "e2e-by-label", "e2e-all"]);
}

#[test]
fn a_namespace_is_carried_along_unless_it_asks_not_to_be() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.hub.kubectl();
    fleet.namespace("carried");
    let stays = "apiVersion: v1\nkind: Namespace\nmetadata: {name: stays-here, labels: {namespace.karmada.io/skip-auto-propagation: 'true'}}\n";
    kubectl.apply(stays);
    for site in &fleet.sites {
        site.await_object("/api/v1/namespaces/carried", |_| Ok(()));
        assert_eq!(site.api().get("/api/v1/namespaces/stays-here").unwrap(), None);
        for name in ["karmada-system", "karmada-cluster", "karmada-es-north"] {
            let found = site.api().get(&format!("/api/v1/namespaces/{name}")).unwrap();
            let label =
                found.as_ref().and_then(|found| found.pointer("/metadata/labels/karmada.io~1managed"));
            assert_eq!(label, None, "{name} on {} is not the hub's to make", site.name);
        }
    }
    fleet.remove_namespace("carried");
    kubectl.ok(&["delete", "namespace", "stays-here"]);
}

#[test]
fn a_template_that_waits_says_so_until_a_policy_comes() {
    let Some(fleet) = shared() else { return };
    let kubectl = fleet.namespace("waiting");
    kubectl.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lonely}\ndata: {a: b}\n");
    let told = |reason: &str, words: &str| {
        tests::wait::eventually(&format!("an event {reason}"), tests::wait::TIMEOUT, || {
            let events = kubectl.ok(&["get", "events", "--field-selector=involvedObject.name=lonely"]);
            let line = events.lines().find(|line| line.contains(reason) && line.contains(words));
            so(line.is_some(), || events.clone())
        });
    };
    told("ApplyPolicyFailed", "No policy match for resource");
    kubectl.apply(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: lonely}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: lonely}]
  placement: {clusterAffinity: {clusterNames: [north]}}
",
    );
    told("ApplyPolicySucceed", "");
    told("ScheduleBindingSucceed", "");
    fleet.site("north").await_object(&path("v1", "waiting", "configmaps", "lonely"), |_| Ok(()));
    fleet.remove_namespace("waiting");
}
