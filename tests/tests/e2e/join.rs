//! Joining: one token for three members, what is refused and how it is told, and what a Cluster then shows.

use std::time::Duration;

use serde_json::{Value, json};
use tests::agent::{Agent, AgentOptions};
use tests::api::{condition, text_at};
use tests::hub::Hub;
use tests::kube_binaries::member_version;
use tests::middlebox::{Kind, Middlebox};
use tests::wait::{eventually, so};

use crate::fleet::{Fleet, NAMES, RegisterCommand, get, has, powerless, shared};

/// Longer than an agent tries a hub that it cannot reach.
const ENDS: Duration = Duration::from_secs(60);

#[test]
fn one_token_joins_three_members_and_clusters_tell_what_they_are() {
    let Some(fleet) = shared() else { return };
    let clusters = fleet.hub.api().list("/apis/cluster.karmada.io/v1alpha1/clusters").unwrap();
    let mut names: Vec<&str> = clusters.iter().map(|cluster| text_at(cluster, "/metadata/name")).collect();
    let mut expected = NAMES;
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for site in &fleet.sites {
        let system = get(site.api(), "/api/v1/namespaces/kube-system").unwrap();
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", site.name);
        crate::fleet::await_object(fleet.hub.api(), "the hub", &path, |cluster| {
            has(cluster, "/spec/id", &system["metadata"]["uid"])?;
            has(cluster, "/spec/syncMode", &json!("Pull"))?;
            has(cluster, "/status/kubernetesVersion", &json!(member_version()))?;
            has(cluster, "/status/nodeSummary", &json!({"totalNum": 2, "readyNum": 2}))?;
            has(cluster, "/status/resourceSummary/allocatable/cpu", &json!("16"))?;
            has(cluster, "/status/resourceSummary/allocatable/memory", &json!("64Gi"))?;
            so(condition(cluster, "Ready") == "True", || "not ready".to_owned())?;
            so(condition(cluster, "CompleteAPIEnablements") == "True", || "not complete".to_owned())?;
            enables(cluster, "apps/v1", "deployments", "Deployment")
        });
    }
    // What Nodes say of where they are, its Cluster says.
    let labelled = fleet.site("kind-east").cluster(&fleet.hub).unwrap();
    assert_eq!(
        (&labelled["spec"]["region"], &labelled["spec"]["zones"]),
        (&json!("coast"), &json!(["coast-1"]))
    );
    assert!(fleet.site("north").cluster(&fleet.hub).unwrap()["spec"]["region"].is_null());
    let table = fleet.hub.kubectl().ok(&["get", "clusters"]);
    let north = table.lines().find(|line| line.starts_with("north")).unwrap().to_owned();
    assert!(north.contains(&member_version()) && north.contains("Pull") && north.contains("True"), "{table}");
    // What the hub made for an agent is there, and holds no credential of the member.
    let cluster = fleet.site("north").cluster(&fleet.hub).unwrap();
    for field in ["secretRef", "impersonatorSecretRef", "apiEndpoint"] {
        assert!(cluster.pointer(&format!("/spec/{field}")).is_none(), "{field}: {cluster}");
    }
}

fn enables(cluster: &Value, group_version: &str, name: &str, kind: &str) -> Result<(), String> {
    let all = cluster.pointer("/status/apiEnablements").and_then(Value::as_array);
    let group = all.into_iter().flatten().find(|group| group["groupVersion"] == group_version);
    let resources = group.and_then(|group| group["resources"].as_array());
    let found = resources.into_iter().flatten().any(|one| one["name"] == name && one["kind"] == kind);
    so(found, || format!("{group_version} {kind} is not enabled: {group:?}"))
}

/// One attempt to join that must fail.
struct Refused {
    what: &'static str,
    agent: Agent,
    told: Vec<String>,
}

impl Refused {
    /// What `change` makes of a join that would succeed, if the member and its name were free.
    fn begin(
        fleet: &Fleet,
        what: &'static str,
        site: &str,
        told: &[&str],
        change: impl FnOnce(&mut AgentOptions),
    ) -> Refused {
        let mut options = AgentOptions {
            hub: fleet.hub.address().to_string(),
            token: Some(fleet.register.token.clone()),
            ca_hash: Some(fleet.register.ca_hash.clone()),
            cluster_name: Some("newcomer".to_owned()),
            kubeconfig: Some(fleet.site(site).member.kubeconfig()),
            ..AgentOptions::default()
        };
        change(&mut options);
        let told = told.iter().map(|text| (*text).to_owned()).collect();
        Refused { what, agent: Agent::start(options), told }
    }

    #[track_caller]
    fn ends(mut self) {
        let what = self.what;
        let process = self.agent.process().unwrap();
        let status = eventually(&format!("{what}: the agent's end"), ENDS, || {
            process.ended().ok_or_else(|| process.tail(5))
        });
        let tail = process.tail(3);
        assert_eq!(status.code(), Some(1), "{what}: {tail}");
        for text in &self.told {
            assert!(tail.contains(text.as_str()), "{what}: {text:?} is not in {tail}");
        }
        assert!(!self.agent.state_dir().join("identity.json").exists(), "{what}: it keeps no identity");
    }
}

#[test]
fn what_cannot_join_is_told_why() {
    let Some(fleet) = shared() else { return };
    let wrong_pin = format!("sha256:{}", "0".repeat(64));
    let expired = expired_token(&fleet.hub);
    let once = RegisterCommand::make(&fleet.hub, &["--uses", "1"]).token;
    let nobody = tests::ports::reserve();
    let all = [
        Refused::begin(&fleet, "the same cluster under another name", "north", &["another name"], |_| {}),
        Refused::begin(
            &fleet,
            "a name that another cluster holds",
            "south",
            &["taken", "choose another"],
            |options| {
                options.cluster_name = Some("north".to_owned());
            },
        ),
        Refused::begin(
            &fleet,
            "another pin",
            "north",
            &["TLS: at 127.0.0.1:", "the hub's CA is", "not the one", "next: make the line anew"],
            |options| options.ca_hash = Some(wrong_pin),
        ),
        Refused::begin(
            &fleet,
            "a token that nobody made",
            "north",
            &["the token is unknown", "next: make a new token"],
            |options| {
                options.token = Some("abcdef.0123456789abcdef".to_owned());
            },
        ),
        Refused::begin(
            &fleet,
            "an expired token",
            "north",
            &["the token has expired", "next: make a new token"],
            |options| {
                options.token = Some(expired);
            },
        ),
        // What was refused for its name has not used the token up.
        Refused::begin(&fleet, "a token for one join", "north", &["another name"], |options| {
            options.token = Some(once);
        }),
        Refused::begin(
            &fleet,
            "a port that nobody listens on",
            "north",
            &["TCP: no connection to", "next: let"],
            |options| {
                options.hub = format!("127.0.0.1:{nobody}");
            },
        ),
        Refused::begin(
            &fleet,
            "a name that does not resolve",
            "north",
            &["DNS: hub.invalid", "next: check"],
            |options| {
                options.hub = "hub.invalid:5443".to_owned();
            },
        ),
        Refused::begin(
            &fleet,
            "no rights in the member",
            "north",
            &["the member: ", "forbidden", "kube-system", "next: give"],
            |options| {
                options.kubeconfig = Some(powerless(&fleet, "north", "join-nobody"));
            },
        ),
        Refused::begin(&fleet, "a name that is no DNS label", "north", &["name cannot be used"], |options| {
            options.cluster_name = Some("Not_A_Label".to_owned());
        }),
    ];
    all.into_iter().for_each(Refused::ends);
    what_is_no_hub_is_told(&fleet);
    let clusters = fleet.hub.api().list("/apis/cluster.karmada.io/v1alpha1/clusters").unwrap();
    assert_eq!(clusters.len(), NAMES.len(), "a refused join leaves no Cluster");
}

/// What answers in the hub's place.
fn what_is_no_hub_is_told(fleet: &Fleet) {
    let boxes: Vec<(Middlebox, &[&str])> = [
        (Kind::Http1, &["HTTP/2: refused at 127.0.0.1:", "next: let the proxy"][..]),
        (Kind::NoAlpn, &["HTTP/2: refused at 127.0.0.1:", "next: let the proxy"]),
        (Kind::OtherCa, &["TLS: at 127.0.0.1:", "the hub's CA is sha256:", "not the one"]),
        (Kind::NotYetValid, &["clock right?", "not valid yet", "next: set this machine's clock"]),
        (Kind::Expired, &["clock right?", "expired", "next: set this machine's clock"]),
        (Kind::PlainHttp, &["TLS: 127.0.0.1:", "does not speak TLS", "next: point --hub"]),
    ]
    .into_iter()
    .map(|(kind, told)| (Middlebox::start(kind, &fleet.hub), told))
    .collect();
    let begun: Vec<Refused> = boxes
        .iter()
        .map(|(middlebox, told)| {
            Refused::begin(fleet, "no hub", "north", told, |options| {
                options.hub = middlebox.address().to_string();
            })
        })
        .collect();
    begun.into_iter().for_each(Refused::ends);
}

/// A token whose end was an hour ago.
pub fn expired_token(hub: &Hub) -> String {
    let token = RegisterCommand::make(hub, &[]).token;
    let id = token.split('.').next().unwrap();
    let end = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let end = end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let patch = json!({"stringData": {"expiration": end}}).to_string();
    let secret = format!("bootstrap-token-{id}");
    let kubectl = hub.kubectl().in_namespace("kube-system");
    kubectl.ok(&["patch", "secret", &secret, "--type=merge", "-p", &patch]);
    token
}
