//! Thousands of Works and deletes through a real agent and a real stream.

use karmada_agent::ledger::Ledger;

use super::*;

/// Works that wait when the agent connects, deletes while it is connected, and deletes while it is away: all of them
/// arrive, in whatever pieces the transport brings them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thousands_of_works_and_deletes_none_is_lost() {
    const WORKS: usize = 5800;
    const DELETES: usize = 2000;
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let name = |at: usize| format!("w{at}");
    let config = |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(at), "namespace": "default"}});
    for at in 0..WORKS {
        hub.fake.put_suspended("site1", &name(at), &config(at));
    }
    let state = tempfile::tempdir().unwrap();
    let keeper = Keeper::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let agent = Agent::start(config.clone(), member("site1"), keeper.clone());
    let held = || Ledger::open(state.path()).unwrap().keys().unwrap().len();
    let acked = |hub: &Hub| {
        let links = hub.gateway.links().links();
        links.iter().find_map(|link| link.session.as_ref()).map_or(0, |session| session.progress.acked)
    };
    let all = hub.fake.seen(|s| s.revision);
    until("acknowledged", || acked(&hub) == all).await;
    assert_eq!(held(), WORKS, "what is acknowledged is held");
    for at in 0..DELETES / 2 {
        hub.fake.delete("site1", &name(at));
    }
    until("half is removed", || hub.fake.seen(|s| s.works.len()) == WORKS - DELETES / 2).await;
    let member = agent.end().await;
    for at in DELETES / 2..DELETES {
        hub.fake.delete("site1", &name(at));
    }
    let agent = Agent::start(config, member, keeper);
    until("the rest is removed", || hub.fake.seen(|s| s.works.len()) == WORKS - DELETES).await;
    until("and released", || held() == WORKS - DELETES).await;
    agent.end().await;
}
