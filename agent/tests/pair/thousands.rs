//! Thousands of Works and deletes through a real agent and a real stream, to the member.

use karmada_agent::ledger::Ledger;

use super::*;

const WORKS: usize = 5800;
const DELETES: usize = 2000;

fn config(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("w{at}"), "namespace": "default"}, "data": {"at": at.to_string()}})
}

/// What the hub's Works say, by name.
fn said(hub: &Hub) -> BTreeMap<String, Value> {
    let manifest = |work: &Value| work["spec"]["workload"]["manifests"][0]["data"].clone();
    hub.fake.seen(|state| state.works.iter().map(|((_, key), work)| (key.clone(), manifest(work))).collect())
}

/// What the member has, by name.
fn found(member: &MemoryMember) -> BTreeMap<String, Value> {
    let maps = member.ids().into_iter().filter(|id| id.gvk.kind == "ConfigMap");
    maps.filter_map(|id| member.read(&id).map(|object| (id.name, object["data"].clone()))).collect()
}

/// Waits for as long as it goes on: how fast thousands are is this machine's business.
async fn until_as_many(what: &str, wanted: usize, now: impl Fn() -> usize) {
    let mut last = now();
    while last != wanted {
        until(&format!("{what}: {last} moves towards {wanted}"), || now() != last).await;
        last = now();
    }
}

/// Works that wait when the agent connects, deletes while it is connected, and deletes while it is away: all of them
/// arrive, in whatever pieces the transport brings them, and the member has what the hub says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thousands_of_works_and_deletes_none_is_lost() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let name = |at: usize| format!("w{at}");
    for at in 0..WORKS {
        hub.fake.put("site1", &name(at), &config(at));
    }
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = Config { state_dir: Some(state.path().to_owned()), ..hub.config("site1") };
    let agent = Agent::start(config.clone(), member("site1"), identity_store.clone());
    let held = || Ledger::open(state.path()).unwrap().keys().unwrap().len();
    let acked = |hub: &Hub| {
        let links = hub.gateway.fleet().links();
        links.iter().find_map(|link| link.session.as_ref()).map_or(0, |session| session.progress.acked)
    };
    let all = hub.fake.seen(|s| s.revision);
    until("acknowledged", || acked(&hub) == all).await;
    assert_eq!(held(), WORKS, "what is acknowledged is held");
    let there = agent.member.clone();
    let objects = || there.ids().iter().filter(|id| id.gvk.kind == "ConfigMap").count();
    until_as_many("objects", WORKS, objects).await;
    assert_eq!(found(&there), said(&hub));
    for at in 0..DELETES / 2 {
        hub.fake.delete("site1", &name(at));
    }
    let left = |hub: &Hub| hub.fake.seen(|s| s.works.len());
    until_as_many("Works", WORKS - DELETES / 2, || left(&hub)).await;
    assert_eq!(found(&there), said(&hub), "a Work is gone when its object is");
    let member = agent.end().await;
    for at in DELETES / 2..DELETES {
        hub.fake.delete("site1", &name(at));
    }
    let agent = Agent::start(config, member, identity_store);
    until_as_many("Works", WORKS - DELETES, || left(&hub)).await;
    until_as_many("ledger", WORKS - DELETES, held).await;
    assert_eq!(found(&there), said(&hub));
    assert_eq!(found(&there).len(), WORKS - DELETES);
    agent.end().await;
}
