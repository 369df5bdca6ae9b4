//! What breaks, and what then must hold: nothing is lost, nothing is deleted that nobody deleted, and everything
//! finds back by itself. Each of these has the fleet for itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::api::{condition, text_at};
use tests::kube_binaries::member_version;
use tests::kubectl::Kubectl;
use tests::wait::{TIMEOUT, eventually, so};

use crate::fleet::{Fleet, SILENCE, Site, alone, await_targets, get, has};

/// A Deployment and a ConfigMap on all members.
fn workload(fleet: &Fleet, namespace: &str) -> Kubectl {
    let kubectl = fleet.namespace(namespace);
    kubectl.apply(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: calm}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: ConfigMap, name: settings}
  placement: {}
",
    );
    kubectl.wait_for_field(&["deploy", "web"], "{.status.readyReplicas}", "6", TIMEOUT);
    for site in &fleet.sites {
        site.await_object(&settings(namespace), |object| has(object, "/data/mode", &json!("calm")));
    }
    kubectl
}

fn web(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/web")
}

fn settings(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/settings")
}

fn set_mode(kubectl: &Kubectl, mode: &str) {
    kubectl.ok(&[
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        &json!({"data": {"mode": mode}}).to_string(),
    ]);
}

/// The longest that an agent waits before it dials again, and a little more: how long it is depends on how often it dialled in vain,
/// also in the tests before, as it remembers that over restarts.
const REDIAL: Duration = Duration::from_secs(330);

#[track_caller]
fn await_mode(site: &Site, namespace: &str, mode: &str) {
    let what = format!("{} of {namespace} in mode {mode} on {}", settings(namespace), site.name);
    eventually(&what, REDIAL, || has(&get(site.api(), &settings(namespace))?, "/data/mode", &json!(mode)));
}

/// Deletes the ConfigMap on the member, and sees it come back as another one.
#[track_caller]
fn delete_and_see_restored(site: &Site, namespace: &str) {
    let before = get(site.api(), &settings(namespace)).unwrap();
    delete_and_see_one_of(site, namespace, &[text_at(&before, "/data/mode")]);
}

/// The same, in one of these modes.
#[track_caller]
fn delete_and_see_one_of(site: &Site, namespace: &str, modes: &[&str]) {
    let before = get(site.api(), &settings(namespace)).unwrap();
    site.api().delete(&settings(namespace)).unwrap();
    site.await_object(&settings(namespace), |object| {
        let mode = text_at(object, "/data/mode");
        so(modes.contains(&mode), || format!("the mode is {mode:?}"))?;
        so(object["metadata"]["uid"] != before["metadata"]["uid"], || "still the old one".to_owned())
    });
}

/// UIDs of the Deployment on all members: whoever deletes and makes anew is found out.
fn uids(fleet: &Fleet, namespace: &str) -> Vec<String> {
    let uid = |site: &Site| {
        let object = get(site.api(), &web(namespace)).unwrap();
        format!("{} {}", site.name, text_at(&object, "/metadata/uid"))
    };
    fleet.sites.iter().map(uid).collect()
}

#[test]
fn a_killed_hub_loses_nothing_and_is_not_needed_to_enforce() {
    let Some(mut fleet) = alone() else { return };
    let kubectl = workload(&fleet, "hub-killed");
    let before = uids(&fleet, "hub-killed");
    // Asked to end it drains, and whoever was connected comes back.
    fleet.hub.stop();
    fleet.hub.start_again();
    set_mode(&kubectl, "drained");
    fleet.sites.iter().for_each(|site| await_mode(site, "hub-killed", "drained"));
    // Acknowledged, and killed at once.
    set_mode(&kubectl, "last");
    fleet.hub.kill();
    for site in &mut fleet.sites {
        site.agent.kill();
        site.agent.start_again();
    }
    // What a site was told last is in its ledger, applied or not when its agent was killed; nothing older comes back.
    for site in &fleet.sites {
        delete_and_see_one_of(site, "hub-killed", &["drained", "last"]);
    }
    // And again after a restart of the agent, which now has only its ledger.
    let north = fleet.site_mut("north");
    north.agent.kill();
    north.api().delete(&settings("hub-killed")).unwrap();
    north.agent.start_again();
    north.await_object(&settings("hub-killed"), |_| Ok(()));

    fleet.hub.start_again();
    assert_eq!(kubectl.field(&["configmap", "settings"], "{.data.mode}"), "last");
    for site in &fleet.sites {
        await_mode(site, "hub-killed", "last");
        site.await_ready(&fleet.hub);
    }
    set_mode(&kubectl, "after");
    fleet.sites.iter().for_each(|site| await_mode(site, "hub-killed", "after"));
    assert_eq!(uids(&fleet, "hub-killed"), before, "nothing was deleted");
    kubectl.wait_for_field(&["deploy", "web"], "{.status.readyReplicas}", "6", TIMEOUT);
    // What was removed while an agent was away goes once it is back.
    fleet.site_mut("south").agent.kill();
    kubectl.ok(&["delete", "configmap", "settings"]);
    fleet.site("north").await_gone(&settings("hub-killed"));
    assert!(get(fleet.site("south").api(), &settings("hub-killed")).is_ok());
    fleet.site_mut("south").agent.start_again();
    fleet.site("south").await_gone(&settings("hub-killed"));
    fleet.remove_namespace("hub-killed");
}

#[test]
fn a_members_api_that_restarts_is_caught_up_with() {
    let Some(mut fleet) = alone() else { return };
    let kubectl = workload(&fleet, "member-restarts");
    let before = uids(&fleet, "member-restarts");
    fleet.site_mut("north").member.kill_apiserver();
    set_mode(&kubectl, "meanwhile");
    await_mode(fleet.site("south"), "member-restarts", "meanwhile");
    fleet.site_mut("north").member.start_apiserver();
    await_mode(fleet.site("north"), "member-restarts", "meanwhile");
    delete_and_see_restored(fleet.site("north"), "member-restarts");
    fleet.site("north").await_ready(&fleet.hub);
    kubectl.ok(&["scale", "deployment/web", "--replicas=3"]);
    kubectl.wait_for_field(&["deploy", "web"], "{.status.readyReplicas}", "9", TIMEOUT);
    assert_eq!(uids(&fleet, "member-restarts"), before);
    fleet.remove_namespace("member-restarts");
}

#[test]
fn a_cut_link_is_noticed_and_healed() {
    let Some(mut fleet) = alone() else { return };
    let kubectl = workload(&fleet, "link-cut");
    let before = uids(&fleet, "link-cut");
    // A short cut is nobody's concern.
    fleet.site("north").link.cut();
    set_mode(&kubectl, "shortly");
    await_mode(fleet.site("south"), "link-cut", "shortly");
    fleet.site("north").link.heal();
    await_mode(fleet.site("north"), "link-cut", "shortly");
    assert_eq!(condition(&fleet.site("north").cluster(&fleet.hub).unwrap(), "Ready"), "True");
    // A long one is.
    fleet.site("north").link.cut();
    set_mode(&kubectl, "meanwhile");
    await_mode(fleet.site("south"), "link-cut", "meanwhile");
    let north = fleet.site("north");
    eventually("north Unknown and tainted", SILENCE, || {
        let cluster = north.cluster(&fleet.hub)?;
        let taints = cluster.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let unreachable = |taint: &&Value| taint["key"] == "cluster.karmada.io/unreachable";
        let effects: Vec<&str> =
            taints.iter().filter(unreachable).map(|taint| text_at(taint, "/effect")).collect();
        so(condition(&cluster, "Ready") == "Unknown" && effects == ["NoSchedule"], || cluster.to_string())
    });
    // What runs there goes on, and stays placed there.
    delete_and_see_restored(north, "link-cut");
    has(&get(north.api(), &settings("link-cut")).unwrap(), "/data/mode", &json!("shortly")).unwrap();
    assert_eq!(uids(&fleet, "link-cut"), before);
    // Without its ledger it is told everything again, and its wait between attempts, which has grown meanwhile, is
    // forgotten too.
    let north = fleet.site_mut("north");
    north.link.heal();
    north.agent.stop();
    north.forget_ledger();
    north.agent.start_again();
    let north = fleet.site("north");
    north.await_ready(&fleet.hub);
    await_mode(north, "link-cut", "meanwhile");
    assert_eq!(uids(&fleet, "link-cut"), before);
    fleet.remove_namespace("link-cut");
}

#[test]
fn a_stalled_link_is_noticed_by_both_ends_and_left() {
    let Some(mut fleet) = alone() else { return };
    let kubectl = workload(&fleet, "link-stalled");
    let before = uids(&fleet, "link-stalled");
    // An agent that has learned nothing of its path yet pings every 20 s.
    let north = fleet.site_mut("north");
    let welcomes = |log: &str| log.matches("connected epoch=").count();
    let before_that = welcomes(&north.agent.process().unwrap().tail(1000));
    north.agent.stop();
    north.forget_ledger();
    north.agent.start_again();
    let agent = north.agent.process().unwrap();
    eventually("the agent to be welcomed", TIMEOUT, || {
        let log = agent.tail(1000);
        so(welcomes(&log) > before_that, || log)
    });
    fleet.site("north").await_ready(&fleet.hub);
    let connections = fleet.site("north").link.connections();
    fleet.site("north").link.stall();
    let start = Instant::now();
    set_mode(&kubectl, "meanwhile");
    await_mode(fleet.site("south"), "link-stalled", "meanwhile");
    // TCP says nothing: the two missing pongs do.
    let north = fleet.site_mut("north");
    let agent = north.agent.process().unwrap();
    eventually("the agent to leave the silent hub", PING_DEATH, || {
        let tail = agent.tail(20);
        so(tail.contains("the hub is silent"), || tail)
    });
    eventually(
        "north Unknown",
        (PING_DEATH + Duration::from_secs(30)).saturating_sub(start.elapsed()),
        || {
            let cluster = fleet.site("north").cluster(&fleet.hub)?;
            so(condition(&cluster, "Ready") == "Unknown", || cluster.to_string())
        },
    );
    let north = fleet.site("north");
    delete_and_see_restored(north, "link-stalled");
    has(&get(north.api(), &settings("link-stalled")).unwrap(), "/data/mode", &json!("calm")).unwrap();
    // Its waits have grown little meanwhile, so it is back without being started anew.
    north.link.heal();
    north.await_ready(&fleet.hub);
    await_mode(north, "link-stalled", "meanwhile");
    assert!(north.link.connections() > connections, "by another connection");
    assert_eq!(uids(&fleet, "link-stalled"), before);
    // A stall shorter than that is nobody's concern, and costs no connection.
    let connections = north.link.connections();
    north.link.stall();
    set_mode(&kubectl, "shortly");
    await_mode(fleet.site("south"), "link-stalled", "shortly");
    north.link.heal();
    await_mode(north, "link-stalled", "shortly");
    assert_eq!(north.link.connections(), connections);
    assert_eq!(condition(&north.cluster(&fleet.hub).unwrap(), "Ready"), "True");
    fleet.remove_namespace("link-stalled");
}

/// Two and a half ping intervals of 20 s, and some.
const PING_DEATH: Duration = Duration::from_secs(60);

#[test]
fn a_cluster_status_that_somebody_changed_is_told_again() {
    let Some(fleet) = alone() else { return };
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/north/status";
    let settled = |cluster: &Value| {
        has(cluster, "/status/kubernetesVersion", &json!(member_version()))?;
        has(cluster, "/status/nodeSummary", &json!({"totalNum": 2, "readyNum": 2}))?;
        has(cluster, "/status/resourceSummary/allocatable/cpu", &json!("16"))?;
        let enabled = cluster.pointer("/status/apiEnablements").and_then(Value::as_array).map_or(0, Vec::len);
        so(condition(cluster, "Ready") == "True" && enabled > 10, || cluster.to_string())
    };
    let before = fleet.site("north").cluster(&fleet.hub).unwrap();
    settled(&before).unwrap();
    let connections = fleet.site("north").link.connections();
    for (what, patch) in [
        ("edited", json!({"status": {"kubernetesVersion": "v0.0.1", "nodeSummary": {"totalNum": 77}}})),
        ("wiped", json!({"status": null})),
    ] {
        fleet.hub.api().merge(path, &patch).unwrap();
        // Half a minute is how often an agent is asked at most.
        eventually(&format!("north {what} to be mended"), TIMEOUT, || {
            settled(&fleet.site("north").cluster(&fleet.hub)?)
        });
    }
    assert_eq!(fleet.site("north").link.connections(), connections, "within the running session");
}

/// What was written last, of the kinds that controllers and agents write.
fn written_at(fleet: &Fleet, revision: &str) -> String {
    let lists = [
        "/api/v1/configmaps",
        "/api/v1/events",
        "/api/v1/namespaces",
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/work.karmada.io/v1alpha1/works",
        "/apis/work.karmada.io/v1alpha2/resourcebindings",
    ];
    let all = lists.into_iter().filter_map(|path| get(fleet.hub.api(), path).ok());
    let items = all.flat_map(|list| list["items"].as_array().cloned().unwrap_or_default());
    let found: Vec<String> = items
        .filter(|item| item["metadata"]["resourceVersion"] == revision)
        .map(|item| item.to_string())
        .collect();
    if found.is_empty() {
        "something was removed, or is of another kind".to_owned()
    } else {
        found.join("\n")
    }
}

#[test]
fn at_rest_nothing_is_written() {
    let Some(fleet) = alone() else { return };
    let kubectl = workload(&fleet, "at-rest");
    let revision = || {
        let list = get(fleet.hub.api(), "/api/v1/namespaces?limit=1")?;
        Ok::<_, String>(text_at(&list, "/metadata/resourceVersion").to_owned())
    };
    // Reading changes nothing. What other tests left behind takes half a minute: Pods that end, an agent that is asked again.
    let mut seen = (String::new(), Instant::now());
    eventually("the hub to come to rest", 4 * TIMEOUT, || {
        let now = revision()?;
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        so(seen.1.elapsed() > Duration::from_secs(35), || {
            format!("revision {} for {:?}", seen.0, seen.1.elapsed())
        })
    });
    let objects = |site: &Site| {
        let versions = [web("at-rest"), settings("at-rest"), "/api/v1/namespaces/at-rest".to_owned()];
        versions
            .map(|path| get(site.api(), &path).map(|object| object["metadata"]["resourceVersion"].clone()))
    };
    let (resting, members) = (revision().unwrap(), fleet.sites.iter().map(objects).collect::<Vec<_>>());
    tests::wait::throughout("rest", Duration::from_secs(25), || {
        let now = revision()?;
        so(now == resting, || format!("revision {resting} became {now}: {}", written_at(&fleet, &now)))
    });
    assert_eq!(fleet.sites.iter().map(objects).collect::<Vec<_>>(), members, "members rest too");
    // What says the same again is no change.
    set_mode(&kubectl, "calm");
    assert_eq!(revision().unwrap(), resting);
    fleet.remove_namespace("at-rest");
}

/// Of one of the kinds that a member may not serve.
const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: front}
spec:
  resourceSelectors: [{apiVersion: networking.k8s.io/v1, kind: Ingress, name: front}]
  placement: {}
";

#[test]
fn a_kind_that_a_site_lacks_is_placed_there_once_it_is_served() {
    let Some(mut fleet) = alone() else { return };
    let path = "/apis/networking.k8s.io/v1/namespaces/lacking/ingresses/front";
    let binding = "/apis/work.karmada.io/v1alpha2/namespaces/lacking/resourcebindings/front-ingress";
    // As it is from the start.
    let cluster = fleet.site("kind-east").cluster(&fleet.hub).unwrap();
    assert!(!cluster["status"]["apiEnablements"].to_string().contains("\"Ingress\""), "{cluster}");
    let kubectl = fleet.namespace("lacking");
    kubectl.apply(INGRESS);
    await_targets(&fleet, binding, &["north", "south"]);
    fleet.site("north").await_object(path, |_| Ok(()));
    let east = &mut fleet.site_mut("kind-east").member;
    east.kill_apiserver();
    east.set_apiserver_args(Vec::new());
    east.start_apiserver();
    await_targets(&fleet, binding, &["kind-east", "north", "south"]);
    fleet.site("kind-east").await_object(path, |_| Ok(()));
    fleet.remove_namespace("lacking");
}
