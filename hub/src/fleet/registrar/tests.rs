//! Joins over a registry in memory: who is granted a name, what a use of a token is counted for, and what a failure leaves.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karmada_certs::{ClientKey, JoinToken};
use karmada_core::cluster::Contact;
use karmada_registry::{AdmissionRequest, RegistryContext, admission::Admission};
use karmada_store::{Expect, Store};
use serde_json::json;
use tokio_util::sync::DropGuard;

use super::*;
use crate::registry_in_memory::RegistryInMemory;

const TOKEN: &str = "abcdef.0123456789abcdef";

/// Nobody is connected.
struct Nobody;

impl ContactSource for Nobody {
    fn contact(&self, _: &str, now: Timestamp) -> Contact {
        Contact { last_heard: None, listening_since: now }
    }

    fn connected(&self, _: &str) -> bool {
        false
    }
}

/// Refuses writes of one resource, while it is told to: as a full disk, or for ever.
#[derive(Clone, Default)]
struct Refusing(Arc<AtomicBool>, &'static str, Arc<AtomicBool>);

impl Admission for Refusing {
    fn admit(&self, _: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let refuses = self.0.load(Ordering::SeqCst) && *request.definition.plural == *self.1;
        match (refuses, self.2.load(Ordering::SeqCst)) {
            (false, _) => Ok(()),
            (true, false) => Err(Status::unavailable("the disk is full")),
            (true, true) => Err(Status::forbidden(request.definition, "", "no clusters on Sundays")),
        }
    }
}

struct Rig {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    registrar: HubRegistrar,
    clusters: Refusing,
    namespaces: Refusing,
    _folder: tempfile::TempDir,
    _stop: DropGuard,
}

impl Rig {
    async fn start() -> Rig {
        let now = Timestamp::now();
        let (clusters, namespaces) = (
            Refusing(Arc::default(), "clusters", Arc::default()),
            Refusing(Arc::default(), "namespaces", Arc::default()),
        );
        let gates: Vec<Box<dyn Admission>> = vec![Box::new(clusters.clone()), Box::new(namespaces.clone())];
        let RegistryInMemory { registry, store, stop, .. } =
            RegistryInMemory::start(gates, Arc::new(move || now)).await;
        let registry = Arc::new(registry);
        let folder = tempfile::tempdir().unwrap();
        let data = Arc::new(DataDir::open(folder.path(), now).unwrap());
        let registrar =
            HubRegistrar::new(registry.clone(), data, vec!["hub:5443".to_owned()], Arc::new(Nobody));
        let rig = Rig {
            registry,
            store,
            registrar,
            clusters,
            namespaces,
            _folder: folder,
            _stop: stop.drop_guard(),
        };
        rig.make_token().await;
        rig
    }

    async fn make_token(&self) {
        let data = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:karmada:default-cluster-token"),
            ("uses-left", "3"),
        ];
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": "bootstrap-token-abcdef"}, "data": data});
        let secrets = self.registry.definition("", "v1", "secrets").unwrap();
        self.registry.create(&secrets, "kube-system", secret, &write_options()).await.unwrap();
    }

    async fn join(&self, name: &str, uid: &str, key: &ClientKey) -> Result<JoinOutcome, PortError> {
        let request = CertificateRequest::from_der(&key.request(&agent_subject(name)).unwrap()).unwrap();
        let ask = JoinAsk {
            token: JoinToken::parse(TOKEN).unwrap(),
            cluster_name: name.to_owned(),
            cluster_uid: uid.to_owned(),
            request,
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            agent_version: String::new(),
        };
        self.registrar.join(ask).await
    }

    fn uses_left(&self) -> String {
        let secrets = self.registry.definition("", "v1", "secrets").unwrap();
        let secret = self.registry.get(&secrets, "kube-system", "bootstrap-token-abcdef").unwrap().value();
        let left = STANDARD.decode(secret["data"]["uses-left"].as_str().unwrap()).unwrap();
        String::from_utf8(left).unwrap()
    }

    fn has_namespace(&self, cluster: &str) -> bool {
        let namespaces = self.registry.definition("", "v1", "namespaces").unwrap();
        self.registry.get(&namespaces, "", &execution_namespace(cluster)).is_ok()
    }
}

fn key() -> ClientKey {
    ClientKey::generate().unwrap()
}

fn refusal(outcome: Result<JoinOutcome, PortError>) -> JoinRefusalCode {
    match outcome {
        Ok(JoinOutcome::Refused(refused)) => refused.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_name_is_granted_once_and_to_its_key_as_often_as_it_asks() {
    let rig = Rig::start().await;
    let holder = key();
    for _ in 0..3 {
        assert!(matches!(rig.join("one", "u1", &holder).await, Ok(JoinOutcome::Granted(_))));
    }
    assert_eq!((&*rig.uses_left(), rig.has_namespace("one")), ("2", true), "one Cluster, one use");
    assert!(matches!(rig.join("one", "u1", &key()).await, Ok(JoinOutcome::Pending(_))), "a second key waits");
    assert_eq!(keys::requests(&rig.registrar.cluster("one").unwrap().unwrap().value()).len(), 1);
}

#[tokio::test]
async fn a_member_is_in_the_fleet_under_one_name() {
    let rig = Rig::start().await;
    assert!(matches!(rig.join("one", "u1", &key()).await, Ok(JoinOutcome::Granted(_))));
    assert_eq!(refusal(rig.join("two", "u1", &key()).await), JoinRefusalCode::ClusterTaken);
    let clusters = rig.registrar.clusters().unwrap();
    let at = ObjectKey::new("", "one");
    rig.registry.delete(&clusters, &at, &Default::default(), &write_options().user).await.unwrap();
    assert!(matches!(rig.join("two", "u1", &key()).await, Ok(JoinOutcome::Granted(_))), "it was given up");
    assert_eq!(rig.uses_left(), "1", "a refusal counts for nothing");
}

#[tokio::test]
async fn what_was_not_made_costs_no_use_and_is_made_at_the_next_try() {
    let rig = Rig::start().await;
    let holder = key();
    rig.clusters.0.store(true, Ordering::SeqCst);
    assert!(rig.join("one", "u1", &holder).await.is_err());
    assert_eq!((&*rig.uses_left(), rig.registrar.cluster("one").unwrap().is_none()), ("3", true));
    rig.clusters.0.store(false, Ordering::SeqCst);
    // Its namespace is the cluster controller's to make, too.
    rig.namespaces.0.store(true, Ordering::SeqCst);
    assert!(matches!(rig.join("one", "u1", &holder).await, Ok(JoinOutcome::Granted(_))));
    assert_eq!((&*rig.uses_left(), rig.has_namespace("one")), ("2", false));
}

#[tokio::test]
async fn what_the_hub_will_never_take_is_refused_and_not_put_off() {
    let rig = Rig::start().await;
    rig.clusters.0.store(true, Ordering::SeqCst);
    rig.clusters.2.store(true, Ordering::SeqCst);
    match rig.join("one", "u1", &key()).await {
        Ok(JoinOutcome::Refused(refused)) => {
            assert_eq!(refused.code, JoinRefusalCode::Permission);
            assert!(refused.message.contains("no clusters on Sundays"), "{}", refused.message);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.uses_left(), "3", "it costs no use");
}

/// An object that was encrypted with a key that the hub has no more is there, and nobody knows what it says.
#[tokio::test]
async fn a_cluster_that_cannot_be_read_is_not_one_that_is_gone() {
    let rig = Rig::start().await;
    let holder = key();
    let Ok(JoinOutcome::Granted(grant)) = rig.join("one", "u1", &holder).await else { panic!("not granted") };
    let peer = PeerIdentity::from_pem(&grant.certificate).unwrap();
    assert_eq!(rig.registrar.authorize_session(&peer).await, Ok("one".to_owned()));

    let path = "/registry/cluster.karmada.io/clusters/one";
    let stored = rig.store.get(path).await.unwrap().unwrap();
    rig.store.delete(path, stored.mod_revision).await.unwrap();
    let written = rig.store.put(path, "k8s:enc:aescbc:v1:key1:x".into(), Expect::Absent).await.unwrap();
    rig.registry.cache().wait_for(written).await;

    let refused = rig.registrar.authorize_session(&peer).await.unwrap_err();
    assert!(matches!(refused, SessionRefusal::Unavailable(_)), "{refused:?}");
    for key in [&holder, &key()] {
        let refused = rig.join("one", "u1", key).await.unwrap_err();
        assert!(refused.retriable && refused.message.contains("encrypted"), "{refused:?}");
    }
    assert_eq!(rig.uses_left(), "2", "no more than the first one costs a use");
}

/// What a join reads does not grow with the fleet, nor with what agents report.
#[tokio::test]
async fn a_join_reads_no_cluster_that_is_as_it_was() {
    let rig = Rig::start().await;
    let clusters = rig.registrar.clusters().unwrap();
    for at in 0..50 {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": format!("c{at}")}, "spec": {"syncMode": "Pull", "id": format!("m{at}")}});
        rig.registry.create(&clusters, "", cluster, &write_options()).await.unwrap();
    }
    assert_eq!(refusal(rig.join("new", "m7", &key()).await), JoinRefusalCode::ClusterTaken);
    assert_eq!(rig.registrar.making.lock().await.read(), 50);
    let options = karmada_registry::WriteOptions { subresource: "status".into(), ..write_options() };
    for at in 0..50 {
        let mut change = |live: Option<&Value>| {
            let mut live = live.cloned().unwrap();
            live["status"] = json!({"kubernetesVersion": "v1.36.3"});
            Ok(live)
        };
        let key = ObjectKey::new("", &format!("c{at}"));
        rig.registry.update(&clusters, &key, &options, &mut change).await.unwrap();
    }
    assert_eq!(refusal(rig.join("new", "m8", &key()).await), JoinRefusalCode::ClusterTaken);
    assert!(matches!(rig.join("new", "m50", &key()).await, Ok(JoinOutcome::Granted(_))));
    assert_eq!(refusal(rig.join("other", "m50", &key()).await), JoinRefusalCode::ClusterTaken);
    assert_eq!(rig.registrar.making.lock().await.read(), 51);
}
