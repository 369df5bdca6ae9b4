//! An agent whose kubeconfig leads to another cluster than the one that was joined, with its hub away.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use karmada_agent::identity::{Identity, IdentityStore};
use karmada_agent::ledger::Ledger;
use karmada_agent::link::dial::Tcp;
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::session::Change;
use karmada_agent::{AgentError, Config, LinkView, Parts, run};
use karmada_certs::{Authority, CertificateRequest, ClientKey, agent_subject};
use karmada_interpreter::Native;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Agent {
    member: MemoryMember,
    link: watch::Receiver<LinkView>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
    _state: tempfile::TempDir,
}

/// An agent that was joined for the cluster of `uid` and holds the ConfigMap `a`.
async fn joined_for(uid: &str, member: &MemoryMember) -> Agent {
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let (ca, _) = Authority::create(Timestamp::now()).unwrap();
    let key = ClientKey::generate().unwrap();
    let subject = agent_subject("site1");
    let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
    let grant = karmada_proto::v1::JoinGrant {
        certificate: ca
            .issue_client(&subject, &request, Duration::from_secs(3600), Timestamp::now())
            .unwrap(),
        ca_bundle: ca.certificate_pem().into(),
        endpoints: Vec::new(),
        cluster_name: "site1".into(),
    };
    identity_store.save(&Identity::new(&key, uid.into(), grant, "127.0.0.1:1")).await.unwrap();
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let body = Bytes::from(json!({"manifests": [config]}).to_string());
    let ledger = Ledger::open(state.path()).unwrap();
    let put = Change::Put {
        key: "a".into(),
        uid: "u".into(),
        revision: 1,
        hash: karmada_proto::body::hash(&body),
        body,
        suspended: false,
        preserve: false,
        generation: 1,
        retry: String::new(),
    };
    ledger.commit(&[put]).unwrap();
    drop(ledger);
    let (sender, link) = watch::channel(LinkView::default());
    let parts = Parts {
        member: Arc::new(member.clone()),
        interpreter: Arc::new(Native),
        connector: Arc::new(Tcp),
        identity_store,
        link: sender,
        sources: karmada_agent::ClockAndRandom::system(),
    };
    let stop = CancellationToken::new();
    let config = Config { state_dir: Some(state.path().to_owned()), ..Config::default() };
    let task = tokio::spawn(run(config, parts, stop.clone()));
    Agent { member: member.clone(), link, stop, task, _state: state }
}

impl Agent {
    async fn until_written(&self, writes: u64) {
        for _ in 0..1000 {
            if self.member.writes() > writes {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing was written");
    }
}

/// Its kubeconfig leads to a clone, or to somebody else's cluster: the check at the start found nobody there.
#[tokio::test]
async fn a_member_that_was_away_at_the_start_is_not_written_to_before_it_is_known_to_be_the_one_that_was_joined()
 {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.set_away(true);
    let agent = joined_for("another", &member).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let writes = member.writes();
    member.set_away(false);
    let ended = tokio::time::timeout(Duration::from_secs(20), agent.task).await;
    assert_eq!(member.writes(), writes, "nothing was written");
    let error = ended.expect("the agent ends").unwrap().unwrap_err();
    assert!(matches!(error, AgentError::OtherMember(..)), "{error}");
    for words in ["another", "m-kube-system", "kubeconfig"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(
        matches!(&*agent.link.borrow(), LinkView::Away { reason, .. } if reason.contains("m-kube-system"))
    );
}

#[tokio::test]
async fn after_an_outage_the_member_is_asked_again_who_it_is() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    let writes = member.writes();
    let agent = joined_for("m-kube-system", &member).await;
    agent.until_written(writes).await;
    member.set_away(true);
    member.becomes("stranger");
    // Somebody there removes what the agent placed, which it would place again.
    for id in member.ids().iter().filter(|id| id.gvk.kind == "ConfigMap") {
        member.remove(id);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let writes = member.writes();
    member.set_away(false);
    let ended = tokio::time::timeout(Duration::from_secs(20), agent.task).await;
    assert_eq!(member.writes(), writes, "nothing was written to the stranger");
    assert!(matches!(ended.expect("the agent ends").unwrap(), Err(AgentError::OtherMember(..))));
}

#[tokio::test]
async fn the_right_member_is_worked_on_once_it_is_back() {
    let member = MemoryMember::new("m", 1, Duration::ZERO);
    member.set_away(true);
    let writes = member.writes();
    let agent = joined_for("m-kube-system", &member).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    member.set_away(false);
    agent.until_written(writes).await;
    agent.stop.cancel();
    agent.task.await.unwrap().unwrap();
}
