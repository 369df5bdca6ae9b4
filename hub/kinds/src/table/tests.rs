//! Cases of server-side tables.

use karmada_schema::duration::human_duration;
use serde_json::json;

use super::*;
use crate::catalogue;

const NOW: &str = "2026-01-02T00:00:00Z";

fn row_of(resource: &Resource) -> &'static KindRow {
    crate::rows::find(&resource.group, &resource.version, &resource.kind, resource.style)
}

fn cells(group: &str, version: &str, kind: &str, object: &Value) -> Vec<Value> {
    let resource = catalogue::of_kind(group, version, kind).unwrap();
    let cells = row(row_of(resource), resource, object, NOW.parse().unwrap());
    assert_eq!(cells.len(), columns(resource).len(), "{kind}");
    cells
}

#[test]
fn every_kind_prints_as_many_cells_as_columns() {
    for resource in catalogue::resources() {
        let cells =
            row(row_of(resource), resource, &json!({"metadata": {"name": "x"}}), NOW.parse().unwrap());
        // kube-apiserver writes one cell too many for addresses.
        let extra = usize::from(resource.kind == "IPAddress");
        assert_eq!(cells.len(), columns(resource).len() + extra, "{}/{}", resource.group, resource.kind);
        assert_eq!(cells.iter().filter(|c| **c == json!("x")).count(), 1, "{}", resource.kind);
    }
}

#[test]
fn a_work_whose_newer_generation_waits_is_not_applied() {
    let applied = |observed: Value, generation: u64, held_back: bool| {
        let work = json!({"metadata": {"name": "w", "generation": generation},
            "spec": {"suspendDispatching": held_back, "workload": {"manifests": [{"kind": "ConfigMap"}]}},
            "status": {"conditions": [{"type": "Applied", "status": "True", "observedGeneration": observed}]}});
        cells("work.karmada.io", "v1alpha1", "Work", &work)[2].clone()
    };
    for (observed, generation, held_back, wanted) in [
        (json!(2), 2, false, "True"),
        (json!(1), 2, false, "False"),
        (json!(1), 2, true, "True"),
        (Value::Null, 2, false, "True"),
    ] {
        assert_eq!(applied(observed.clone(), generation, held_back), wanted, "{observed} of {generation}");
    }
}

#[test]
fn durations_are_for_people() {
    for (seconds, text) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3600 * 2, "120m"),
        (3600 * 3, "3h"),
        (3600 * 7 + 300, "7h5m"),
        (3600 * 30, "30h"),
        (3600 * 48, "2d"),
        (3600 * 75, "3d3h"),
        (86400 * 9, "9d"),
        (86400 * 365 * 3 + 86400 * 4, "3y4d"),
        (86400 * 365 * 9, "9y"),
    ] {
        assert_eq!(human_duration(seconds), text, "{seconds}");
    }
}

#[test]
fn a_deployment_shows_ready_over_wanted() {
    let object = json!({
        "metadata": {"name": "web", "creationTimestamp": "2026-01-01T23:55:00Z"},
        "spec": {"replicas": 6, "selector": {"matchLabels": {"b": "2", "a": "1"},
                 "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}]},
                 "template": {"spec": {"containers": [{"name": "n", "image": "nginx"}, {"name": "s", "image": "s:1"}]}}},
        "status": {"readyReplicas": 6, "updatedReplicas": 6, "availableReplicas": 5}
    });
    assert_eq!(
        cells("apps", "v1", "Deployment", &object),
        [
            json!("web"),
            json!("6/6"),
            json!(6),
            json!(5),
            json!("5m"),
            json!("n,s"),
            json!("nginx,s:1"),
            json!("a=1,b=2,c in (x,y)")
        ]
    );
}

#[test]
fn pods_show_why_they_wait() {
    let show = |status: Value, extra: Value| {
        let mut object = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T23:59:00Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": status
        });
        json_patch::merge(&mut object, &extra);
        let cells = cells("", "v1", "Pod", &object);
        (
            cells[1].as_str().unwrap().to_owned(),
            cells[2].as_str().unwrap().to_owned(),
            cells[3].as_str().unwrap().to_owned(),
        )
    };
    let s = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(show(json!({"phase": "Pending"}), json!({})), s("0/2", "Pending", "0"));
    assert_eq!(
        show(
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            json!({})
        ),
        s("0/2", "Init:0/1", "0")
    );
    assert_eq!(
        show(
            json!({"phase": "Running", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
                   "containerStatuses": [
                       {"name": "a", "ready": true, "restartCount": 3, "state": {"running": {}},
                        "lastState": {"terminated": {"finishedAt": "2026-01-01T23:58:00Z"}}},
                       {"name": "b", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            json!({})
        ),
        s("1/2", "CrashLoopBackOff", "3 (2m ago)")
    );
    assert_eq!(
        show(json!({"phase": "Running"}), json!({"metadata": {"deletionTimestamp": "2026-01-01T23:59:30Z"}})),
        s("0/2", "Terminating", "0")
    );
    assert_eq!(
        show(
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 137}}}]}),
            json!({})
        ),
        s("0/2", "ExitCode:137", "0")
    );
}

#[test]
fn services_jobs_events_and_clusters() {
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        "selector": {"app": "x"}}});
    let got = cells("", "v1", "Service", &service);
    assert_eq!(
        got[1..5],
        [json!("LoadBalancer"), json!("10.0.0.1"), json!("<pending>"), json!("80:30080/TCP,53/UDP")]
    );
    assert_eq!(got[5..], [json!("<unknown>"), json!("app=x")]);

    let job = json!({"metadata": {"name": "j"}, "spec": {"completions": 3}, "status": {"succeeded": 1,
        "startTime": "2026-01-01T23:59:00Z"}});
    assert_eq!(cells("batch", "v1", "Job", &job)[1..4], [json!("Running"), json!("1/3"), json!("60s")]);

    let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "R", "message": " m ", "count": 4,
        "lastTimestamp": "2026-01-01T23:59:55Z", "firstTimestamp": "2026-01-01T23:00:00Z",
        "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "kubelet", "host": "n1"}});
    assert_eq!(
        cells("", "v1", "Event", &event),
        [
            json!("5s"),
            json!("Warning"),
            json!("R"),
            json!("pod/p"),
            json!(""),
            json!("kubelet, n1"),
            json!("m"),
            json!("60m"),
            json!(4),
            json!("e")
        ]
    );

    let cluster = json!({"metadata": {"name": "c"}, "spec": {"syncMode": "Pull", "zones": ["a", "b"]},
        "status": {"kubernetesVersion": "v1.34.4", "conditions": [{"type": "Ready", "status": "True"}]}});
    let got = cells("cluster.karmada.io", "v1alpha1", "Cluster", &cluster);
    assert_eq!(got[1..4], [json!("v1.34.4"), json!("Pull"), json!("True")]);
    assert_eq!(got[5..], [json!("a,b"), json!("<none>"), json!("<none>"), json!("<none>"), json!("<none>")]);
}

#[test]
fn structural_kinds_print_by_json_path() {
    let binding = json!({"metadata": {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "FullyApplied", "status": "False"}]}});
    assert_eq!(
        cells("work.karmada.io", "v1alpha2", "ResourceBinding", &binding),
        [json!("b"), json!("True"), json!("False"), json!("24h")]
    );
    let path = |text: &str| JsonPath::parse(text);
    let object = json!({"a": {"b.c": [1, 2, 3]}, "x": [{"k": "1", "v": 5}]});
    assert_eq!(path(r".a.b\.c[1]").unwrap().first(&object, &mut 1_000), Some(&json!(2)));
    assert_eq!(path(".a['b.c'][-1]").unwrap().first(&object, &mut 1_000), Some(&json!(3)));
    assert_eq!(path("{.x[*].v}").unwrap().first(&object, &mut 1_000), Some(&json!(5)));
    assert_eq!(path(".x[?(@.k!='1')].v").unwrap().first(&object, &mut 1_000), None);
    assert!(path("a b").is_none());
}

#[test]
fn columns_that_all_show_the_whole_object_end_where_a_row_is_too_long() {
    let mut resource = catalogue::of_kind("work.karmada.io", "v1alpha2", "ResourceBinding").unwrap().clone();
    let column = Column {
        name: "spec".into(),
        ty: "string".into(),
        format: String::new(),
        priority: 0,
        json_path: Some(".spec".into()),
        description: String::new(),
    };
    resource.columns = vec![column; 20_000];
    let object = json!({"metadata": {"name": "b"}, "spec": {"text": "s".repeat(50_000)}});
    let cells = row(row_of(&resource), &resource, &object, NOW.parse().unwrap());
    assert_eq!(cells.len(), 20_001);
    assert!(Value::Array(cells).to_string().len() < 500_000);
}
