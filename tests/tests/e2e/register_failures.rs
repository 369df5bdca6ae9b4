//! Why `karmadactl register` did not bring a cluster to its hub: each cause on real parts, told by its name, with what
//! was met where, and what to do next; and that the next run puts it right. With a hub of its own. The causes are the agent's here:
//! register's own look at the hub, which would find them before, is left out.

use tests::built::program;
use tests::hub::{Hub, HubOptions};
use tests::kubelet::Kubelet;
use tests::middlebox::{Kind, Middlebox};

use crate::fleet::{RegisterCommand, await_object, has_condition, karmadactl, powerless, shared};
use crate::join::expired_token;

/// The words of a run that asks `hub` for the name `name`.
fn words<'a>(command: &'a RegisterCommand, hub: &'a str, name: &'a str) -> Vec<&'a str> {
    let (token, ca_hash) = (&command.token, &command.ca_hash);
    let flags = ["register", hub, "--token", token, "--discovery-token-ca-cert-hash", ca_hash];
    [&flags[..], &["--cluster-name", name, "--timeout", "18s", "--skip-hub-check"]].concat()
}

#[test]
fn each_cause_is_told_by_its_name_and_the_next_run_puts_it_right() {
    let Some(fleet) = shared() else { return };
    let site = fleet.site("north");
    let hub = Hub::start(HubOptions::default());
    let kubelet = Kubelet::start(&site.member, "karmada-system", program("karmada-agent"));
    let command = RegisterCommand::make(&hub, &[]);
    let kubeconfig = site.member.kubeconfig();
    let refused = |what: &str, words: &[&str], told: &[&str]| {
        let refused = karmadactl(&kubeconfig, words).refused();
        for text in told {
            assert!(refused.contains(text), "{what}: {text:?} is not in {refused}\n{}", kubelet.tails());
        }
    };

    // Nothing is touched by somebody who may not.
    let nobody = powerless(&fleet, "north", "causes-nobody");
    let told = karmadactl(&nobody, &words(&command, &command.hub, "quay")).refused();
    assert!(told.contains("may not") && told.contains("administrator"), "{told}");
    assert!(site.api().get("/api/v1/namespaces/karmada-system").unwrap().is_none(), "nothing was made");
    // Nor where the hub cannot be joined, as far as that is seen from here.
    let looking = words(&command, "hub.invalid:5443", "quay");
    let told = karmadactl(&kubeconfig, &looking[..looking.len() - 1]).refused();
    assert!(told.contains("DNS: ") && told.contains("Nothing was made in the member"), "{told}");
    assert!(site.api().get("/api/v1/namespaces/karmada-system").unwrap().is_none(), "nothing was made");

    let wrong = RegisterCommand { ca_hash: format!("sha256:{}", "0".repeat(64)), ..command.clone() };
    refused(
        "another pin",
        &words(&wrong, &command.hub, "quay"),
        &["PinMismatch: ", &command.hub, &command.ca_hash, "next: the hub has another CA"],
    );
    refused(
        "a name that does not resolve",
        &words(&command, "hub.invalid:5443", "quay"),
        &["DNS: ", "hub.invalid does not resolve", "next: the member cannot resolve"],
    );
    let closed = format!("127.0.0.1:{}", tests::ports::reserve());
    refused(
        "a closed port",
        &words(&command, &closed, "quay"),
        &["TCP: ", &closed, "next: let the member's network"],
    );
    for (kind, told) in [
        (Kind::Http1, ["HTTP2Refused: ", "refused at", "next: a proxy or load balancer"]),
        (Kind::NotYetValid, ["Clock: ", "not valid yet", "next: the member's clock is wrong, or the hub's"]),
        (Kind::PlainHttp, ["TLS: ", "does not speak TLS", "next: something else than the hub answers"]),
    ] {
        let middlebox = Middlebox::start(kind, &hub);
        let address = middlebox.address().to_string();
        refused(&format!("{kind:?}"), &words(&command, &address, "quay"), &[&told[..], &[&address]].concat());
    }
    let expired = RegisterCommand { token: expired_token(&hub), ..command.clone() };
    refused(
        "an expired token",
        &words(&expired, &command.hub, "quay"),
        &["TokenExpired: ", "the token has expired", "next: make a new token"],
    );
    // An agent that never joined holds no name: another may be given.
    let printed = karmadactl(&kubeconfig, &words(&command, &command.hub, "pier"));
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/pier";
    await_object(hub.api(), "the hub", path, |cluster| has_condition(cluster, "Ready", "True", ""));
    // One that did is not overrun.
    refused(
        "a second name",
        &words(&command, &command.hub, "quay"),
        &["already registered at this hub as pier"],
    );

    let hub_config = hub.kubeconfig().display().to_string();
    let printed = karmadactl(&kubeconfig, &["unregister", "pier", "--karmada-config", &hub_config]);
    assert!(printed.status.success(), "{printed}\n{}", kubelet.tails());
    site.await_gone("/api/v1/namespaces/karmada-system");
}
