//! Frames without HTTP: whom they are for, and what who sends them can take.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use karmada_bare::{ALPN, Broken, Incoming, Limits, Outgoing};
use karmada_certs::{ClientKey, KeyedCertificate, client_config};
use karmada_proto::v1::{AgentFrame, CloseCode, Hello, HubFrame, Ping, Row, Rows, agent_frame, hub_frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::world::{HOUR, World, until};

type Tls = TlsStream<TcpStream>;

/// A connection that speaks frames.
async fn connection(world: &World, identity: Option<&KeyedCertificate>) -> Tls {
    over(TcpStream::connect(world.hub.address).await.unwrap(), world, identity).await
}

async fn over(tcp: TcpStream, world: &World, identity: Option<&KeyedCertificate>) -> Tls {
    let mut config = client_config(&world.trust(), identity).unwrap();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(ALPN));
    tls
}

struct Session {
    incoming: Incoming<ReadHalf<Tls>, HubFrame>,
    outgoing: Outgoing<WriteHalf<Tls>, AgentFrame>,
}

impl Session {
    fn over(tls: Tls) -> Session {
        let (reads, writes) = tokio::io::split(tls);
        let limits = Limits { first: 1 << 22, then: 1 << 22 };
        Session { incoming: Incoming::new(reads, limits), outgoing: Outgoing::new(writes) }
    }

    async fn hello(&mut self, cluster: &str, boot: &str) {
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            cluster_name: cluster.to_owned(),
            boot_id: boot.to_owned(),
            ..Hello::default()
        };
        let _ = self.outgoing.send(karmada_proto::frame::agent(agent_frame::Body::Hello(hello))).await;
    }

    async fn next(&mut self) -> Option<Result<HubFrame, Broken>> {
        tokio::time::timeout(Duration::from_secs(60), self.incoming.next()).await.expect("something comes")
    }

    /// What the hub says first, in a word.
    async fn first(&mut self) -> String {
        match self.next().await {
            Some(Ok(HubFrame { body: Some(hub_frame::Body::Welcome(_)), .. })) => "welcome".to_owned(),
            Some(Ok(HubFrame { body: Some(hub_frame::Body::Close(close)), .. })) => {
                close.code().as_str_name().to_owned()
            }
            Some(Ok(other)) => format!("{other:?}"),
            Some(Err(_)) | None => "ended".to_owned(),
        }
    }
}

async fn agent(world: &World, name: &str) -> KeyedCertificate {
    let owner = ClientKey::generate().unwrap();
    world.join(name, &format!("uid-{name}"), &owner).await.certificate(&owner)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_for_agents_and_for_their_own_cluster() {
    let world = World::start().await;
    let (north, south) = (agent(&world, "north").await, agent(&world, "south").await);
    let administrator = world.administrator(HOUR);
    for (identity, cluster, said) in [
        (None, "north", "ended"),
        (Some(&administrator), "north", "ended"),
        (Some(&north), "north", "welcome"),
        (Some(&south), "north", CloseCode::Protocol.as_str_name()),
    ] {
        let mut session = Session::over(connection(&world, identity).await);
        session.hello(cluster, "one").await;
        assert_eq!(session.first().await, said, "{cluster}");
    }
    // A key that was taken away opens nothing, and one whose cluster is gone neither.
    world.delete_cluster("north").await;
    until("the cluster's end", || world.cluster("north").is_none()).await;
    let mut session = Session::over(connection(&world, Some(&north)).await);
    session.hello("north", "two").await;
    let said = session.first().await;
    assert!(said != "welcome" && said != "ended", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_ends_it() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    // A hello is short; bytes that are no message; a message that never ends to come is given up as any hello is.
    for bytes in [&(1_u32 << 20).to_be_bytes()[..], &[0, 0, 0, 2, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut tls = connection(&world, Some(&north)).await;
        tls.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), tls.read_to_end(&mut rest));
        let _ = ended.await.expect("it is ended");
    }
    let mut session = Session::over(connection(&world, Some(&north)).await);
    session.hello("north", "one").await;
    assert_eq!(session.first().await, "welcome", "nobody else is concerned");
}

/// As over gRPC: connections of one key are few, and the oldest goes.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_has_few() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    let mut all = Vec::new();
    for _ in 0..12 {
        all.push(connection(&world, Some(&north)).await);
    }
    let mut open = 0;
    for tls in &mut all {
        let quiet = tokio::time::timeout(Duration::from_millis(500), tls.read_u8()).await.is_err();
        open += usize::from(quiet);
    }
    assert!((1..=4).contains(&open), "{open} of 12 are open");
}

/// A frame that is mostly the beginnings of things: two bytes each, and a hundred where they are decoded.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_many_parts_ends_it() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    let rows = || agent_frame::Body::Rows(Rows { rows: vec![Row::default(); 200_000], ..Rows::default() });
    let ping = || agent_frame::Body::Ping(Ping { seq: 7, next_ms: 1000, ..Ping::default() });
    let is_answer = |body: &hub_frame::Body| matches!(body, hub_frame::Body::Pong(pong) if pong.seq == 7);
    let mut bare = Session::over(connection(&world, Some(&north)).await);
    bare.hello("north", "one").await;
    assert_eq!(bare.first().await, "welcome");
    for body in [rows(), ping()] {
        let _ = bare.outgoing.send(karmada_proto::frame::agent(body)).await;
    }
    while let Some(Ok(frame)) = bare.next().await {
        assert!(!frame.body.as_ref().is_some_and(is_answer), "it goes on");
    }
    let mut grpc = world.connect(&north, "north").await;
    grpc.welcomed().await;
    for body in [rows(), ping()] {
        grpc.say(body).await;
    }
    while let Some(body) = grpc.next().await {
        assert!(!is_answer(&body), "it goes on over gRPC");
    }
}

/// What ends a session is said last, and behind all that a slow link has not carried yet: it arrives, though the agent says something more meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_hears_why_it_ends() {
    let world = World::start().await;
    let north = agent(&world, "north").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let tcp = socket.connect(world.hub.address).await.unwrap();
    let mut session = Session::over(over(tcp, &world, Some(&north)).await);
    session.hello("north", "one").await;
    assert_eq!(session.first().await, "welcome");
    // It asks, and does not take what it is answered, until the hub listens no more.
    let mut asks = 0;
    loop {
        let ping = agent_frame::Body::Ping(Ping { seq: asks, next_ms: 60_000, ..Ping::default() });
        let sent = session.outgoing.send(karmada_proto::frame::agent(ping));
        match tokio::time::timeout(Duration::from_millis(500), sent).await {
            Ok(sent) => sent.unwrap(),
            Err(_) => break,
        }
        asks += 1;
    }
    world.delete_cluster("north").await;
    let closed = loop {
        match session.next().await {
            Some(Ok(HubFrame { body: Some(hub_frame::Body::Close(close)), .. })) => break Some(close.code()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break None,
        }
    };
    assert_eq!(closed, Some(CloseCode::Unregistered), "after {asks} pings");
}
