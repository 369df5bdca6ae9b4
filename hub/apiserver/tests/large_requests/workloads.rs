//! Rows of Pods and of what holds their templates.

use serde_json::{Value, json};

use super::rows::{Row, create, list, map};

const DEPLOYMENT: (&str, &str) = ("deployments", "Deployment");

/// A Deployment's fields, with a template of this spec.
pub fn deployment(spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

/// A Pod's spec of one container with these fields.
pub fn with_container(mut container: Value) -> Value {
    container["name"] = json!("c");
    container["image"] = json!("i");
    json!({"containers": [container]})
}

/// A Pod's spec with this field beside one container.
fn with(field: &str, value: Value) -> Value {
    let mut spec = with_container(json!({}));
    spec[field] = value;
    spec
}

/// A row for a list in a Pod's spec.
fn spec(field: &'static str, name: &'static str, one: fn(usize) -> Value) -> Row {
    create(name, "apps/v1", DEPLOYMENT, move |n| deployment(with(field, list(n, one))))
}

/// A row for a list in a container.
fn container(field: &'static str, name: &'static str, one: fn(usize) -> Value) -> Row {
    create(name, "apps/v1", DEPLOYMENT, move |n| deployment(with_container(json!({field: list(n, one)}))))
}

pub fn rows() -> Vec<Row> {
    let mut all = of_containers();
    all.extend(of_specs());
    all.extend(of_volumes());
    all.extend(of_placement());
    all.extend(of_workloads());
    all
}

fn of_containers() -> Vec<Row> {
    fn port(at: usize) -> usize {
        1 + at % 65_000
    }
    vec![
        container("env", "env", |at| json!({"name": format!("E{at}")})).whole(),
        container(
            "env",
            "env that refers",
            |at| json!({"name": format!("E{at}"), "value": format!("$(E{at})")}),
        ),
        container("env", "env of one name", |_| json!({"name": "E"})),
        container("env", "env of one name that refers", |_| json!({"name": "E", "value": "x$(E)"})),
        container("env", "env of wrong names", |at| json!({"name": format!("={at}")})),
        container("env", "env without names", |_| json!({})),
        container("envFrom", "env sources", |at| json!({"configMapRef": {"name": format!("c{at}")}})),
        container("ports", "ports", |at| json!({"containerPort": port(at)})),
        container("ports", "ports that are one", |_| json!({"containerPort": 80})),
        container("ports", "ports of one name", |at| json!({"containerPort": port(at), "name": "p"})),
        container("ports", "host ports", |at| json!({"containerPort": 80, "hostPort": port(at)})),
        container(
            "ports",
            "host addresses of one port",
            |at| json!({"containerPort": 80, "hostPort": 80, "hostIP": format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255)}),
        ),
        container(
            "ports",
            "host addresses without ports",
            |at| json!({"containerPort": 80, "hostIP": format!("10.0.{}.{}", at >> 8 & 255, at & 255)}),
        ),
        container(
            "volumeDevices",
            "devices",
            |at| json!({"name": format!("v{at}"), "devicePath": format!("/{at}")}),
        ),
        container(
            "volumeMounts",
            "mounts of no volume",
            |at| json!({"name": format!("v{at}"), "mountPath": format!("/{at}")}),
        ),
        container(
            "volumeMounts",
            "mounts at one path",
            |at| json!({"name": format!("v{at}"), "mountPath": "/a"}),
        ),
        container("args", "arguments", |at| json!(format!("{at}"))),
        container(
            "resizePolicy",
            "resize policies",
            |at| json!({"resourceName": format!("r{at}"), "restartPolicy": "NotRequired"}),
        ),
        create("capabilities", "apps/v1", DEPLOYMENT, |n| {
            let add = list(n, |at| json!(format!("C{at}")));
            deployment(with_container(json!({"securityContext": {"capabilities": {"add": add}}})))
        }),
        create("limits", "apps/v1", DEPLOYMENT, |n| {
            let amounts = map(n, |at| (format!("a.b/r{at}"), json!("1")));
            deployment(with_container(json!({"resources": {"limits": amounts}})))
        }),
        create("container claims", "apps/v1", DEPLOYMENT, |n| {
            let claims = list(n, |at| json!({"name": format!("c{at}")}));
            deployment(with_container(json!({"resources": {"claims": claims}})))
        }),
        create("container and pod claims", "apps/v1", DEPLOYMENT, |n| {
            let claims = list(n, |at| json!({"name": format!("c{at}")}));
            let mut spec = with_container(json!({"resources": {"claims": claims}}));
            spec["resourceClaims"] =
                list(n, |at| json!({"name": format!("c{at}"), "resourceClaimName": format!("c{at}")}));
            deployment(spec)
        }),
        create("HTTP headers", "apps/v1", DEPLOYMENT, |n| {
            let headers = list(n, |at| json!({"name": format!("h{at}"), "value": ""}));
            deployment(with_container(
                json!({"livenessProbe": {"httpGet": {"port": 1, "httpHeaders": headers}}}),
            ))
        }),
    ]
}

fn of_specs() -> Vec<Row> {
    vec![
        spec("containers", "containers", |at| json!({"name": format!("c{at}"), "image": "i"})),
        spec("containers", "containers of one name", |_| json!({"name": "c", "image": "i"})),
        spec(
            "containers",
            "containers with a port",
            |_| json!({"name": "c", "image": "i", "ports": [{"containerPort": 1}]}),
        ),
        spec("initContainers", "init containers", |at| json!({"name": format!("i{at}"), "image": "i"})),
        spec(
            "initContainers",
            "sidecars",
            |at| json!({"name": format!("i{at}"), "image": "i", "restartPolicy": "Always"}),
        ),
        spec(
            "ephemeralContainers",
            "ephemeral containers",
            |at| json!({"name": format!("e{at}"), "image": "i", "targetContainerName": "c"}),
        ),
        spec(
            "hostAliases",
            "host aliases",
            |at| json!({"ip": format!("10.{}.{}.{}", at >> 16 & 255, at >> 8 & 255, at & 255), "hostnames": ["a"]}),
        ),
        spec("hostAliases", "host aliases of one address", |_| json!({"ip": "10.0.0.1", "hostnames": ["a"]})),
        spec("imagePullSecrets", "pull secrets", |at| json!({"name": format!("s{at}")})),
        spec("imagePullSecrets", "pull secrets without names", |_| json!({})),
        spec("readinessGates", "readiness gates", |at| json!({"conditionType": format!("g{at}")})),
        spec("schedulingGates", "scheduling gates", |at| json!({"name": format!("g{at}")})),
        spec(
            "resourceClaims",
            "pod claims",
            |at| json!({"name": format!("c{at}"), "resourceClaimName": format!("c{at}")}),
        ),
        spec("resourceClaims", "pod claims of one name", |_| json!({"name": "c", "resourceClaimName": "c"})),
        create("sysctls", "apps/v1", DEPLOYMENT, |n| {
            let all = list(n, |at| json!({"name": format!("net.a{at}"), "value": "1"}));
            deployment(with("securityContext", json!({"sysctls": all})))
        }),
        create("groups", "apps/v1", DEPLOYMENT, |n| {
            deployment(with("securityContext", json!({"supplementalGroups": list(n, |at| json!(at))})))
        }),
        create("name servers", "apps/v1", DEPLOYMENT, |n| {
            let all = list(n, |at| json!(format!("10.0.{}.{}", at >> 8 & 255, at & 255)));
            deployment(with("dnsConfig", json!({"nameservers": all})))
        }),
        create("search domains", "apps/v1", DEPLOYMENT, |n| {
            deployment(with("dnsConfig", json!({"searches": list(n, |at| json!(format!("d{at}.x")))})))
        }),
        create("overhead", "apps/v1", DEPLOYMENT, |n| {
            deployment(with("overhead", map(n, |at| (format!("a.b/r{at}"), json!("1")))))
        }),
        create("template labels", "apps/v1", DEPLOYMENT, |n| {
            let mut fields = deployment(with_container(json!({})));
            fields["spec"]["template"]["metadata"]["labels"] = map(n, |at| (format!("k{at}"), json!("v")));
            fields
        }),
        create("seccomp annotations", "apps/v1", DEPLOYMENT, |n| {
            let mut fields = deployment(with_container(json!({})));
            let prefix = "container.apparmor.security.beta.kubernetes.io/";
            fields["spec"]["template"]["metadata"]["annotations"] =
                map(n, |at| (format!("{prefix}c{at}"), json!("runtime/default")));
            fields
        }),
        create("armored containers", "apps/v1", DEPLOYMENT, |n| {
            let mut fields = deployment(
                json!({"containers": list(n, |at| json!({"name": format!("c{at}"), "image": "i"}))}),
            );
            let prefix = "container.apparmor.security.beta.kubernetes.io/";
            fields["spec"]["template"]["metadata"]["annotations"] =
                map(n, |at| (format!("{prefix}c{at}"), json!("runtime/default")));
            fields
        }),
    ]
}

fn of_volumes() -> Vec<Row> {
    vec![
        create("volumes and mounts", "apps/v1", DEPLOYMENT, |n| {
            let mounts = list(n, |at| json!({"name": format!("v{at}"), "mountPath": format!("/{at}")}));
            let mut spec = with_container(json!({"volumeMounts": mounts}));
            spec["volumes"] = list(n, |at| json!({"name": format!("v{at}"), "emptyDir": {}}));
            deployment(spec)
        }),
        create("mounts and devices", "apps/v1", DEPLOYMENT, |n| {
            let mounts = list(n, |at| json!({"name": format!("v{at}"), "mountPath": format!("/{at}")}));
            let devices = list(n, |at| json!({"name": format!("w{at}"), "devicePath": format!("/d{at}")}));
            deployment(with_container(json!({"volumeMounts": mounts, "volumeDevices": devices})))
        }),
        spec("volumes", "volumes", |at| json!({"name": format!("v{at}"), "emptyDir": {}})),
        spec("volumes", "volumes of one name", |_| json!({"name": "v", "emptyDir": {}})),
        spec(
            "volumes",
            "volumes of claims",
            |at| json!({"name": format!("v{at}"), "persistentVolumeClaim": {"claimName": format!("c{at}")}}),
        ),
        spec(
            "volumes",
            "volumes of disks",
            |at| json!({"name": format!("v{at}"), "gcePersistentDisk": {"pdName": format!("d{at}")}}),
        ),
        create("volume items", "apps/v1", DEPLOYMENT, |n| {
            let items = list(n, |at| json!({"key": format!("k{at}"), "path": format!("p{at}")}));
            deployment(with("volumes", json!([{"name": "v", "configMap": {"name": "c", "items": items}}])))
        }),
        create("volume items of one path", "apps/v1", DEPLOYMENT, |n| {
            let items = list(n, |at| json!({"key": format!("k{at}"), "path": "p"}));
            let sources = json!([{"configMap": {"name": "c", "items": items}}]);
            deployment(with("volumes", json!([{"name": "v", "projected": {"sources": sources}}])))
        }),
        create("projected sources", "apps/v1", DEPLOYMENT, |n| {
            let sources = list(
                n,
                |at| json!({"configMap": {"name": format!("c{at}"), "items": [{"key": "k", "path": "p"}]}}),
            );
            deployment(with("volumes", json!([{"name": "v", "projected": {"sources": sources}}])))
        }),
        create("volume modes", "apps/v1", DEPLOYMENT, |n| {
            let items =
                list(n, |at| json!({"path": format!("p{at}"), "fieldRef": {"fieldPath": "metadata.name"}}));
            deployment(with("volumes", json!([{"name": "v", "downwardAPI": {"items": items}}])))
        }),
    ]
}

fn of_placement() -> Vec<Row> {
    let expressions =
        |n: usize| list(n, |at| json!({"key": format!("k{at}"), "operator": "In", "values": ["v"]}));
    vec![
        spec("tolerations", "tolerations", |at| json!({"key": format!("k{at}"), "operator": "Exists"})),
        spec("tolerations", "tolerations that are one", |_| json!({"key": "k", "operator": "Exists"})),
        spec(
            "topologySpreadConstraints",
            "spread constraints",
            |at| json!({"maxSkew": 1, "topologyKey": format!("k{at}"), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}),
        ),
        spec(
            "topologySpreadConstraints",
            "spread constraints of one key",
            |_| json!({"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}),
        ),
        create("keys of a spread constraint", "apps/v1", DEPLOYMENT, |n| {
            let keys = list(n, |at| json!(format!("k{at}")));
            let one = json!({"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": map(n, |at| (format!("k{at}"), json!("v")))}, "matchLabelKeys": keys});
            deployment(with("topologySpreadConstraints", json!([one])))
        }),
        create("node selector", "apps/v1", DEPLOYMENT, |n| {
            deployment(with("nodeSelector", map(n, |at| (format!("k{at}"), json!("v")))))
        }),
        create("node terms", "apps/v1", DEPLOYMENT, move |n| {
            let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions(n)}]});
            let affinity =
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            deployment(with("affinity", affinity))
        }),
        create("pod terms", "apps/v1", DEPLOYMENT, move |n| {
            let terms = list(n, |at| json!({"topologyKey": format!("k{at}"), "labelSelector": {}}));
            let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            deployment(with("affinity", affinity))
        }),
        create("keys of a pod term", "apps/v1", DEPLOYMENT, |n| {
            let keys = |prefix: &str| list(n, |at| json!(format!("{prefix}{at}")));
            let term = json!({"topologyKey": "k", "labelSelector": {"matchLabels": map(n, |at| (format!("k{at}"), json!("v")))},
                "matchLabelKeys": keys("k"), "mismatchLabelKeys": keys("l")});
            let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            deployment(with("affinity", affinity))
        }),
        create("values of an expression", "apps/v1", DEPLOYMENT, |n| {
            let mut fields = deployment(with_container(json!({})));
            let values = list(n, |at| json!(format!("v{at}")));
            fields["spec"]["selector"] =
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]});
            fields
        }),
        create("expressions", "apps/v1", DEPLOYMENT, move |n| {
            let mut fields = deployment(with_container(json!({})));
            fields["spec"]["selector"] = json!({"matchExpressions": expressions(n)});
            fields
        }),
    ]
}

fn of_workloads() -> Vec<Row> {
    let template = || json!({"metadata": {"labels": {"a": "b"}}, "spec": with_container(json!({}))});
    let job = move || {
        let mut template = template();
        template["spec"]["restartPolicy"] = json!("Never");
        template
    };
    vec![
        create(
            "pod env",
            "v1",
            ("pods", "Pod"),
            |n| json!({"spec": with_container(json!({"env": list(n, |at| json!({"name": format!("E{at}")}))}))}),
        ),
        create(
            "pod containers",
            "v1",
            ("pods", "Pod"),
            |n| json!({"spec": {"containers": list(n, |at| json!({"name": format!("c{at}"), "image": "i"}))}}),
        ),
        create(
            "pod tolerations",
            "v1",
            ("pods", "Pod"),
            |n| json!({"spec": with("tolerations", list(n, |at| json!({"key": format!("k{at}"), "operator": "Exists"})))}),
        ),
        create("claim templates", "apps/v1", ("statefulsets", "StatefulSet"), move |n| {
            let claims = list(n, |at| {
                json!({"metadata": {"name": format!("c{at}")}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1"}}}})
            });
            let mut template = template();
            template["spec"]["volumes"] = list(n, |at| json!({"name": format!("v{at}"), "emptyDir": {}}));
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "a", "template": template,
                "volumeClaimTemplates": claims}})
        }),
        create("failure rules", "batch/v1", ("jobs", "Job"), move |n| {
            let rules =
                list(n, |_| json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}));
            json!({"spec": {"template": job(), "podFailurePolicy": {"rules": rules}}})
        }),
        create("exit codes", "batch/v1", ("jobs", "Job"), move |n| {
            let values = list(n, |at| json!(at + 1));
            let rules = json!([{"action": "Count", "onExitCodes": {"operator": "In", "values": values}}]);
            json!({"spec": {"template": job(), "podFailurePolicy": {"rules": rules}}})
        }),
        create("patterns of a failure rule", "batch/v1", ("jobs", "Job"), move |n| {
            let patterns = list(n, |at| json!({"type": format!("t{at}"), "status": "True"}));
            let rules = json!([{"action": "Count", "onPodConditions": patterns}]);
            json!({"spec": {"template": job(), "podFailurePolicy": {"rules": rules}}})
        }),
        create("success rules", "batch/v1", ("jobs", "Job"), move |n| {
            let rules = list(n, |at| json!({"succeededIndexes": format!("{at}")}));
            json!({"spec": {"template": job(), "completionMode": "Indexed", "completions": 5,
                "successPolicy": {"rules": rules}}})
        }),
        create("succeeded indexes", "batch/v1", ("jobs", "Job"), move |n| {
            let indexes: Vec<String> = (0..n).map(|at| (at * 2).to_string()).collect();
            json!({"spec": {"template": job(), "completionMode": "Indexed", "completions": 5_000_000,
                "successPolicy": {"rules": [{"succeededIndexes": indexes.join(",")}]}}})
        }),
        create("cron job env", "batch/v1", ("cronjobs", "CronJob"), move |n| {
            let mut template = job();
            template["spec"]["containers"][0]["env"] = list(n, |at| json!({"name": format!("E{at}")}));
            json!({"spec": {"schedule": "@hourly", "jobTemplate": {"spec": {"template": template}}}})
        }),
    ]
}
