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
