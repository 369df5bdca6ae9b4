//! The hub's own certificates near their ends, and a change of its CA under agents that run.

use std::sync::Arc;
use std::time::Duration;

use karmada_agent::identity::{Identity, IdentityStore};
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::{Config, LinkView, Parts};
use karmada_certs::{Authorities, JoinToken, PeerIdentity};
use karmada_interpreter::Native;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::world::{HOUR, TOKEN, World};

const DAY: i64 = 24 * 3600;
const PATIENCE: Duration = Duration::from_secs(40);

/// Looks until it is so.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let started = tokio::time::Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An agent in this process. It ends when it is dropped.
struct Agent {
    stop: CancellationToken,
    state: TempDir,
    seen: watch::Receiver<LinkView>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Agent {
    async fn join(world: &World, name: &str) -> Agent {
        let mut agent = Agent::run(world, name, tempfile::tempdir().unwrap());
        agent.connected().await;
        agent
    }

    fn run(world: &World, name: &str, state: TempDir) -> Agent {
        let (link, seen) = watch::channel(LinkView::default());
        let config = Config {
            hub: vec![world.endpoint()],
            token: Some(JoinToken::parse(TOKEN).unwrap()),
            pins: vec![world.hub.data.authorities().signing().pin()],
            cluster_name: name.to_owned(),
            ..Config::default()
        };
        let parts = Parts {
            member: Arc::new(MemoryMember::new(name, 1, Duration::ZERO)),
            interpreter: Arc::new(Native),
            connector: Arc::new(Tcp),
            identity_store: IdentityStore::Directory(state.path().to_owned()),
            link,
            sources: karmada_agent::ClockAndRandom::system(),
        };
        let stop = CancellationToken::new();
        tokio::spawn(Box::pin(karmada_agent::run(config, parts, stop.clone())));
        Agent { stop, state, seen }
    }

    async fn connected(&mut self) {
        let connected = self.seen.wait_for(|view| matches!(view, LinkView::Connected { .. }));
        tokio::time::timeout(PATIENCE, connected).await.unwrap().unwrap();
    }

    async fn identity(&self) -> Identity {
        IdentityStore::Directory(self.state.path().to_owned()).load().await.unwrap().unwrap()
    }

    /// Ends it and gives back what it leaves.
    fn ended(mut self) -> TempDir {
        self.stop.cancel();
        std::mem::replace(&mut self.state, tempfile::tempdir().unwrap())
    }
}

async fn value(world: &World, namespace: &str, name: &str) -> Value {
    let maps = world.hub.registry.definition("", "v1", "configmaps").unwrap();
    world.hub.registry.get(&maps, namespace, name).unwrap().value()["data"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hubs_certificate_is_replaced_while_it_listens() {
    // It began eleven months ago.
    let world = World::begun(-345 * DAY, |_| {}).await;
    let ca = world.hub.data.authorities().bundle_pem();
    let first = world.shown(&ca).await.unwrap();
    let mut open = world.https(Some(&world.administrator(HOUR))).await;
    let kubeconfig = || std::fs::read_to_string(world.hub.data.kubeconfig_file()).unwrap();
    let before = kubeconfig();
    assert_eq!(open.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
    world.pass(345 * DAY);
    let second = eventually("a new certificate", || async {
        world.shown(&ca).await.filter(|shown| shown.serial != first.serial)
    })
    .await;
    assert!(second.not_after.as_second() > first.not_after.as_second() + 300 * DAY);
    assert_eq!(open.send("GET", "/api/v1/namespaces").await.unwrap().0, 200, "who is there stays");
    assert!(!open.is_closed());
    let mut administrator = world.https(Some(&world.administrator(HOUR))).await;
    let page = administrator.text("/metrics").await;
    for end in ["server", "admin.kubeconfig", "front-proxy-client", "ca", "front-proxy-ca"] {
        let start = format!(
            "karmada_hub_certificate_expiration_timestamp_seconds{{certificate=\"{end}\",authority=\"CN=karmada-ca-"
        );
        let line =
            page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{end}: {page}"));
        let ends: i64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(ends > second.not_before.as_second() + 300 * DAY, "{line}");
    }
    assert_ne!(kubeconfig(), before);
    let quiet = kubeconfig();
    world.pass(DAY);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(kubeconfig(), quiet);
    assert_eq!(world.shown(&ca).await.unwrap().serial, second.serial, "one is enough");
}

/// Two agents, one of which is away while the CA is changed. Nobody is asked to do anything beside the two commands.
#[tokio::test(flavor = "multi_thread")]
async fn the_ca_is_changed_under_agents_that_run_and_one_that_was_away() {
    let world = World::start().await;
    let (mut stays, away) = (Agent::join(&world, "stays").await, Agent::join(&world, "away").await);
    let away = away.ended();
    let folder = world.authority_folder();
    let first = world.hub.data.authorities().bundle_pem();
    let of_the_first = world.administrator(HOUR);
    let mut open = world.https(Some(&of_the_first)).await;

    let both = Authorities::change(&folder, jiff::Timestamp::now()).unwrap();
    eventually("the new CA signs", || async {
        (world.hub.data.authorities().revision() == both.revision()).then_some(())
    })
    .await;
    let bundle = both.bundle_pem();
    eventually("the agent has a certificate of the new CA", || async {
        let identity = stays.identity().await;
        (identity.ca_bundle == bundle
            && both.ends()[0].name == identity.peer(jiff::Timestamp::now()).unwrap().issuer)
            .then_some(())
    })
    .await;
    stays.connected().await;
    for (namespace, name, key) in [
        ("default", "kube-root-ca.crt", "ca.crt"),
        ("kube-system", "extension-apiserver-authentication", "client-ca-file"),
    ] {
        eventually(name, || async {
            (value(&world, namespace, name).await[key] == bundle.as_str()).then_some(())
        })
        .await;
    }
    let info = value(&world, "kube-public", "cluster-info").await;
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(&bundle);
    assert!(info["kubeconfig"].as_str().unwrap().contains(&encoded));
    assert_eq!(open.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
    let by_the_first = eventually("whoever knows the older CA alone reaches the hub", || async {
        world.shown(&first).await.filter(|shown| shown.issuer == both.ends()[0].name)
    })
    .await;
    assert_eq!(world.shown(&bundle).await.unwrap().serial, by_the_first.serial);

    // It comes back after the change and knows nothing of it.
    let mut away = Agent::run(&world, "away", away);
    away.connected().await;
    eventually("who was away has a certificate of the new CA", || async {
        (away.identity().await.peer(jiff::Timestamp::now()).unwrap().issuer == both.ends()[0].name)
            .then_some(())
    })
    .await;
    away.connected().await;

    assert!(Authorities::drop_older(&folder).unwrap());
    eventually("the older CA is trusted no more", || async {
        (world.hub.data.authorities().ends().len() == 1).then_some(())
    })
    .await;
    let last = world.hub.data.authorities().bundle_pem();
    assert_eq!(open.send("GET", "/api/v1/namespaces").await.unwrap().0, 401, "on a live connection");
    eventually("nobody shows the way to the older CA", || async {
        world.shown(&first).await.is_none().then_some(())
    })
    .await;
    for agent in [&mut stays, &mut away] {
        eventually("the agent trusts the new CA alone", || async {
            (agent.identity().await.ca_bundle == last).then_some(())
        })
        .await;
        agent.connected().await;
    }
    let mut refused = world.https(Some(&of_the_first)).await;
    assert_eq!(refused.send("GET", "/api/v1/namespaces").await, None, "the handshake is refused");
    let mut administrator = world.https(Some(&world.administrator(HOUR))).await;
    assert_eq!(administrator.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
    let of_the_file = world.hub.data.administrator().map(|peer: PeerIdentity| peer.issuer);
    assert_eq!(of_the_file, Some(both.ends()[0].name.clone()), "the administrator's kubeconfig");
    for name in ["stays", "away"] {
        let ready = |cluster: &Value| {
            let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        eventually(name, || async {
            let found = world.cluster(name).unwrap();
            ready(&found).then_some(())
        })
        .await;
    }
}
