//! Joins, and certificates that are renewed.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_fail_name_the_cause() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (stranger, _) = Authority::create(Timestamp::now()).unwrap();
    let identity_store = || IdentityStore::Directory(tempfile::tempdir().unwrap().keep());
    let good = hub.config("site1");
    let failing = |config: Config, name: &'static str| {
        let agent = Agent::start(config, member(name), identity_store());
        async move { agent.task.await.unwrap().unwrap_err() }
    };
    let error = failing(Config { pins: vec![stranger.pin()], ..good.clone() }, "site1").await;
    assert!(matches!(error, AgentError::Join(JoinError::Dial(DialError::Pin { .. }))), "{error}");
    let error = failing(Config { pins: vec![Pin::of_spki(b"x")], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("discovery-token-ca-cert-hash"), "{error}");
    let wrong = JoinToken::parse("abcdef.xxxxxxxxxxxxxxxx").unwrap();
    let error = failing(Config { token: Some(wrong), ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("the token is unknown"), "{error}");
    let error = failing(Config { hub: vec!["127.0.0.1:1".into()], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("TCP"), "{error}");
    let error = failing(Config { hub: vec!["no-such-host.invalid:1".into()], ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("DNS"), "{error}");
    let error = failing(Config { token: None, ..good.clone() }, "site1").await;
    assert!(error.to_string().contains("--token"), "{error}");

    let first = Agent::start(good.clone(), member("site1"), identity_store());
    until("connected", || matches!(*first.link.borrow(), LinkView::Connected { .. })).await;
    let error = failing(good, "another").await;
    assert!(error.to_string().contains("the name is taken"), "{error}");
    first.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_without_dropping_the_stream() {
    let hub = Hub::start(Duration::from_secs(6)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let agent = Agent::start(hub.config("site1"), member("site1"), identity_store.clone());
    until("connected", || matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    let before = identity_store.load().await.unwrap().unwrap().certificate;
    until("renewed twice", || hub.fake.seen(|s| s.renewals >= 2)).await;
    assert_eq!(hub.fake.seen(|s| s.seq), 1, "in one session");
    let mut kept = before.clone();
    for _ in 0..1000 {
        kept = identity_store.load().await.unwrap().unwrap().certificate;
        if kept != before {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_ne!(kept, before);
    agent.end().await;
}

/// A person takes the cluster from the hub and lets it join as another: what was made under the name before is the new one's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_joins_anew_under_another_name_goes_on_under_that() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = |cluster: &str| Config { state_dir: Some(state.path().to_owned()), ..hub.config(cluster) };
    hub.fake.put("site1", "web", &deployment("web", 1));
    hub.fake.put("site1", "gone", &deployment("gone", 1));
    let agent = Agent::start(config("site1"), member("site1"), identity_store.clone());
    until("applied", || ready_replicas(&hub.fake, "site1", "web").is_some()).await;
    until("applied", || ready_replicas(&hub.fake, "site1", "gone").is_some()).await;
    let site = agent.end().await;
    let mut identity = identity_store.load().await.unwrap().unwrap();
    identity.token_id = "another".into();
    identity_store.save(&identity).await.unwrap();
    // Nothing that the hub does from here on moves its revision: a cursor of the old name would seem to know it all.
    {
        let mut state = hub.fake.state.lock();
        state.clusters.clear();
        state.works.clear();
        let work = json!({"metadata": {"name": "web", "uid": "uid-new"}, "spec": {"workload": {"manifests": [deployment("web", 2)]}}});
        state.works.insert(("site2".into(), "web".into()), work);
    }
    let agent = Agent::start(config("site2"), site, identity_store.clone());
    let mark = |agent: &Agent, name: &str| {
        let object = agent.member.read(&deployment_id(name))?;
        object.pointer("/metadata/annotations/work.karmada.io~1namespace")?.as_str().map(str::to_owned)
    };
    until("the other name's Work is applied", || ready_replicas(&hub.fake, "site2", "web") == Some(2)).await;
    assert_eq!(mark(&agent, "web").as_deref(), Some("karmada-es-site2"));
    until("told as an orphan", || hub.fake.seen(|s| s.orphans.contains("gone"))).await;
    // A restart later, its removal takes the object along.
    let site = agent.end().await;
    hub.fake.delete("site2", "web");
    let agent = Agent::start(config("site2"), site, identity_store);
    until("finalised", || hub.fake.seen(|s| !s.works.contains_key(&("site2".into(), "web".into())))).await;
    assert!(agent.member.read(&deployment_id("web")).is_none());
    assert!(agent.member.read(&deployment_id("gone")).is_some(), "that is a person's to say");
    agent.end().await;
}
