//! Sessions of real agents: the whole line of a Work, and how they end.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_line_over_tls() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let agent = Agent::start(config.clone(), member("site1"), identity_store.clone());
    hub.fake.put("site1", "web", &deployment("web", 3));
    until("the status is back", || ready_replicas(&hub.fake, "site1", "web") == Some(3)).await;
    until("the cluster's status", || {
        hub.fake.seen(|s| s.statuses.get("site1").is_some_and(|s| s["nodeSummary"]["readyNum"] == 2))
    })
    .await;
    assert!(matches!(*agent.link.borrow(), LinkView::Connected { epoch: 1 }));
    assert_eq!(hub.link("site1"), LinkState::Connected);
    until("the event", || hub.fake.seen(|s| s.notices.iter().any(|n| n.reason == "SyncSucceed"))).await;
    assert_eq!(hub.live(), ["site1"]);

    // The hub is gone: the site goes on, over the agent's own restart.
    let address = hub.address.clone();
    hub.accept.abort();
    let _ = hub.accept.await;
    until("the loss is seen", || !matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    let lonely = agent.end().await;
    let without_token = Config { token: None, pins: Vec::new(), ..config };
    let agent = Agent::start(without_token, lonely, identity_store);
    agent.member.remove(&deployment_id("web"));
    until("restored without a hub", || agent.member.read(&deployment_id("web")).is_some()).await;

    // The hub is back at the same address, with something new.
    hub.fake.put("site1", "web", &deployment("web", 5));
    let hub = Hub::serve(hub.fake.clone(), &address).await;
    until("the new state arrives", || ready_replicas(&hub.fake, "site1", "web") == Some(5)).await;
    hub.fake.delete("site1", "web");
    until("removed and released", || hub.fake.seen(|s| s.works.is_empty())).await;
    assert!(agent.member.read(&deployment_id("web")).is_none());
    agent.end().await;
    until("the leaving is seen", || hub.link("site1") == LinkState::Offline).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_living_agents_with_one_identity_is_refused() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let first = Agent::start(hub.config("site1"), member("site1"), identity_store.clone());
    until("connected", || matches!(*first.link.borrow(), LinkView::Connected { .. })).await;
    let second = Agent::start(hub.config("site1"), member("site1"), identity_store);
    until(
        "refused",
        || matches!(&*second.link.borrow(), LinkView::Away { reason, .. } if reason.contains("another process")),
    )
    .await;
    assert_eq!(hub.fake.seen(|s| s.clones.clone()), ["site1"]);
    assert!(matches!(*first.link.borrow(), LinkView::Connected { .. }), "the running one keeps its place");
    second.end().await;
    first.end().await;
}

/// Both on one directory: the second would go on from what the ledger was when it started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_agents_with_one_state_directory_reads_nothing_until_the_first_is_gone() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let first = Agent::start(config.clone(), member("site1"), identity_store.clone());
    hub.fake.put("site1", "old", &deployment("old", 1));
    until("applied", || ready_replicas(&hub.fake, "site1", "old") == Some(1)).await;
    let second = Agent::start(config, first.member.clone(), identity_store);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*second.link.borrow(), LinkView::Starting);
    hub.fake.put("site1", "new", &deployment("new", 2));
    until("applied by the first", || ready_replicas(&hub.fake, "site1", "new") == Some(2)).await;
    first.task.abort();
    let _ = first.task.await;
    until("connected", || matches!(*second.link.borrow(), LinkView::Connected { .. })).await;
    second.member.remove(&deployment_id("new"));
    until("looked after by the second", || second.member.read(&deployment_id("new")).is_some()).await;
    assert_eq!(hub.fake.seen(|s| s.clones.len()), 0);
    second.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_hub_sends_its_agents_away_and_an_unregistered_one_is_told() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let identity_store = IdentityStore::Directory(tempfile::tempdir().unwrap().keep());
    let agent = Agent::start(hub.config("site1"), member("site1"), identity_store);
    until("connected", || matches!(*agent.link.borrow(), LinkView::Connected { .. })).await;
    hub.gateway.drain(Duration::from_millis(500)).await;
    // Here it is taken again, so it comes back, in a session of its own.
    until("back", || {
        hub.fake.seen(|s| s.seq) == 2 && matches!(*agent.link.borrow(), LinkView::Connected { .. })
    })
    .await;
    hub.fake.state.lock().clusters.clear();
    assert!(hub.gateway.review("site1").await, "whoever it belongs to is refused now");
    until(
        "told",
        || matches!(&*agent.link.borrow(), LinkView::Away { reason, .. } if reason.contains("who?")),
    )
    .await;
    agent.end().await;
}

/// An agent that greets, promises to be heard again within a second, and then neither reads nor speaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_takes_nothing_is_given_up_and_delays_nobody() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let key = ClientKey::generate().unwrap();
    let ask = join::Ask {
        endpoints: vec![hub.address.clone()],
        token: JoinToken::parse(TOKEN).unwrap(),
        pins: vec![hub.fake.ca.pin()],
        cluster_name: "stuck".into(),
        cluster_uid: "uid".into(),
        provider: String::new(),
        region: String::new(),
        zones: Vec::new(),
        patience: Duration::ZERO,
        sources: karmada_agent::ClockAndRandom::system(),
    };
    let (link, _) = watch::channel(LinkView::default());
    let identity = join::join(&Tcp, &key, &ask, &link).await.unwrap();
    let tls =
        client_config_h2(&identity.trust(), Some(&identity.keyed_certificate(Timestamp::now()))).unwrap();
    let mut client = dial(&Tcp, &hub.address, tls).await.unwrap();
    let (frames, outbound) = tokio::sync::mpsc::channel(4);
    let credit = Some(Credit { messages: u32::MAX, bytes: u64::MAX });
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_name: "stuck".into(),
        boot_id: "b".into(),
        credit,
        ..Hello::default()
    };
    frames.send(frame::agent(agent_frame::Body::Hello(hello))).await.unwrap();
    frames
        .send(frame::agent(agent_frame::Body::Ping(Ping { seq: 1, next_ms: 1000, ..Ping::default() })))
        .await
        .unwrap();
    let unread = client.connect(ReceiverStream::new(outbound)).await.unwrap();
    assert_eq!(hub.live().len(), 1);
    let noise = |at: u32| -> String {
        let letter = |i: u32| char::from(b'a' + ((i ^ at).wrapping_mul(2_654_435_761) >> 20) as u8 % 26);
        (0..200_000).map(letter).collect()
    };
    for at in 0..50 {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{at}"), "namespace": "default"}, "data": {"k": noise(at)}});
        hub.fake.put("stuck", &format!("c{at}"), &config);
    }
    let identity_store = IdentityStore::Directory(tempfile::tempdir().unwrap().keep());
    let quick = Agent::start(hub.config("quick"), member("quick"), identity_store);
    hub.fake.put("quick", "web", &deployment("web", 2));
    until("the other is served", || ready_replicas(&hub.fake, "quick", "web") == Some(2)).await;
    until("the stuck one is given up", || hub.link("stuck") == LinkState::Offline).await;
    assert_eq!(hub.live(), ["quick"]);
    drop((unread, frames));
    quick.end().await;
}
