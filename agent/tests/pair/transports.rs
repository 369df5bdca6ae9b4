//! What carries a session, and what an agent does where that does not come through.

use std::sync::atomic::{AtomicUsize, Ordering};

use karmada_agent::link::dial::Transports;
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::TcpStream;

use super::*;

fn transport(hub: &Hub, cluster: &str) -> Option<&'static str> {
    hub.gateway.fleet().link(cluster).session.map(|session| session.transport)
}

fn large(name: &str) -> Value {
    let mut deployment = deployment(name, 2);
    let noise: String =
        (0..60_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    deployment["metadata"]["annotations"] = json!({"noise": noise});
    deployment
}

/// Works down, each more than a connection has room for at once, statuses up, a hub that goes and comes back, a farewell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_the_same_over_each() {
    for (transports, carries) in [(Transports::BareOrGrpc, "bare"), (Transports::Grpc, "grpc")] {
        let hub = Hub::start(Duration::from_secs(3600)).await;
        let state = tempfile::tempdir().unwrap();
        let config = Config { transports, ..hub.config("site1") };
        let identity_store = IdentityStore::Directory(state.path().to_owned());
        let agent = Agent::start(config, member("site1"), identity_store);
        let names: Vec<String> = (0..5).map(|at| format!("app{at}")).collect();
        names.iter().for_each(|name| hub.fake.put("site1", name, &large(name)));
        let ready = |fake: &Fake, name: &String| ready_replicas(fake, "site1", name) == Some(2);
        until("all are ready", || names.iter().all(|name| ready(&hub.fake, name))).await;
        assert_eq!(transport(&hub, "site1"), Some(carries));
        let address = hub.address.clone();
        let Hub { fake, accept, .. } = hub;
        accept.abort();
        let _ = accept.await;
        fake.delete("site1", "app0");
        let hub = Hub::serve(fake, &address).await;
        until("it is gone", || agent.member.read(&deployment_id("app0")).is_none()).await;
        agent.end().await;
        until("the farewell was heard", || hub.live().is_empty()).await;
    }
}

/// What stands in front of the hub, and ends each connection whose first bytes name the frames without HTTP, after this long. How often it did.
async fn before(hub: &Hub, after: Duration) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, hub, cut) =
        (listener.local_addr().unwrap().to_string(), hub.address.clone(), Arc::new(AtomicUsize::new(0)));
    let count = cut.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (hub, count) = (hub.clone(), count.clone());
            tokio::spawn(async move {
                // The handshake's first record, which names what the client speaks, comes at once.
                let mut first = vec![0; 16 << 10];
                let read = near.read(&mut first).await.unwrap_or(0);
                let named =
                    first[..read].windows(karmada_bare::ALPN.len()).any(|bytes| bytes == karmada_bare::ALPN);
                let mut far = TcpStream::connect(hub).await.unwrap();
                let passes = async {
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut far, &first[..read]).await;
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                };
                if named {
                    let _ = tokio::time::timeout(after, passes).await;
                    count.fetch_add(1, Ordering::SeqCst);
                } else {
                    passes.await;
                }
            });
        }
    });
    (address, cut)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_does_not_come_through_grpc_does() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (address, cut) = before(&hub, Duration::ZERO).await;
    let state = tempfile::tempdir().unwrap();
    let config = Config { hub: vec![address], ..hub.config("site1") };
    let agent = Agent::start(config, member("site1"), IdentityStore::Directory(state.path().to_owned()));
    until("connected", || hub.live() == ["site1"]).await;
    assert_eq!(transport(&hub, "site1"), Some("grpc"));
    assert_eq!(cut.load(Ordering::SeqCst), 1, "tried once");
    agent.end().await;
}

/// Two addresses, of which one takes nothing and what stands in front of the other does not let the frames through: gRPC is tried where the
/// frames failed, and not at the other address alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_else_carries_a_session_is_tried_at_the_same_address() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (address, _) = before(&hub, Duration::ZERO).await;
    let state = tempfile::tempdir().unwrap();
    let identity_store = IdentityStore::Directory(state.path().to_owned());
    let config = Config { hub: vec![address.clone()], ..hub.config("site1") };
    let agent = Agent::start(config.clone(), member("site1"), identity_store.clone());
    until("joined", || hub.live() == ["site1"]).await;
    let member = agent.end().await;
    until("the farewell was heard", || hub.live().is_empty()).await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let agent = Agent::start(Config { hub: vec![address, closed], ..config }, member, identity_store);
    until("connected", || hub.live() == ["site1"]).await;
    agent.end().await;
}

/// What looks at a connection for a while before it makes up its mind: the session begins, and is cut each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_is_cut_once_it_has_begun_grpc_is_not() {
    let hub = Hub::start(Duration::from_secs(3600)).await;
    let (address, _) = before(&hub, Duration::from_millis(700)).await;
    let state = tempfile::tempdir().unwrap();
    let config = Config { hub: vec![address], ..hub.config("site1") };
    let agent = Agent::start(config, member("site1"), IdentityStore::Directory(state.path().to_owned()));
    until("it begins without HTTP", || transport(&hub, "site1") == Some("bare")).await;
    until("it is over gRPC", || transport(&hub, "site1") == Some("grpc")).await;
    agent.end().await;
}
