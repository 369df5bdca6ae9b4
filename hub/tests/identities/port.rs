//! How long the port waits for connections on which nothing happens: for handshakes, for requests, for their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use karmada_certs::{KeyedCertificate, client_config};
use karmada_hub::PortPatience;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::world::World;

const SHORT: Duration = Duration::from_millis(600);
/// Beyond any of the short limits, on a busy machine, and below all of those that a hub runs with.
const SOON: Duration = Duration::from_secs(4);
/// For what is not tried: nobody waits for it.
const NEVER: Duration = Duration::from_secs(3600);

async fn world(patience: PortPatience) -> World {
    World::with(|settings| settings.access.patience = patience).await
}

async fn tls(world: &World) -> TlsStream<TcpStream> {
    tls_as(world, None).await
}

pub async fn tls_as(world: &World, identity: Option<&KeyedCertificate>) -> TlsStream<TcpStream> {
    let mut config = client_config(&world.trust(), identity).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tcp = TcpStream::connect(world.hub.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
}

async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
}

/// Reads an answer's beginning.
async fn answered(stream: &mut TlsStream<TcpStream>) -> String {
    let mut buffer = vec![0; 4096];
    let length = tokio::time::timeout(SOON, stream.read(&mut buffer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// How long it took until the other end closed, reading whatever it says before.
async fn closed_after(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    within: Duration,
) -> Option<Duration> {
    let (started, mut buffer) = (Instant::now(), vec![0; 4096]);
    let ends = async { while matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {} };
    tokio::time::timeout(within, ends).await.ok().map(|()| started.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_never_finishes_is_given_up() {
    let world = world(PortPatience { handshake: SHORT, idle: NEVER, farewell: NEVER }).await;
    // Nothing; and a record that announces a ClientHello of which nothing comes.
    for said in [&[][..], &[0x16, 0x03, 0x01, 0x02, 0x00]] {
        let mut tcp = TcpStream::connect(world.hub.address).await.unwrap();
        tcp.write_all(said).await.unwrap();
        let after = closed_after(&mut tcp, SOON).await.expect("it is closed");
        assert!(after >= SHORT / 2, "{after:?}");
    }
    // Who has shaken hands is not held to that.
    let mut finished = tls(&world).await;
    assert_eq!(closed_after(&mut finished, 2 * SHORT).await, None);
    ask(&mut finished, "/livez").await;
    assert!(answered(&mut finished).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_nothing_is_sent_away_and_who_is_being_answered_stays() {
    let world = world(PortPatience { handshake: NEVER, idle: SHORT, farewell: NEVER }).await;
    let mut silent = tls(&world).await;
    let after = closed_after(&mut silent, SOON).await.expect("it is closed");
    assert!(after >= SHORT / 2, "{after:?}");
    // An answer begins the time anew.
    let mut asking = tls(&world).await;
    let started = Instant::now();
    while started.elapsed() < 3 * SHORT {
        ask(&mut asking, "/livez").await;
        assert!(answered(&mut asking).await.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(SHORT / 6).await;
    }
    assert!(closed_after(&mut asking, SOON).await.is_some());
    // An answer that goes on is a request under way.
    let administrator = world.administrator(crate::world::HOUR);
    let mut watching = tls_as(&world, Some(&administrator)).await;
    ask(&mut watching, "/api/v1/namespaces/kube-system/configmaps?watch=true").await;
    let head = answered(&mut watching).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(closed_after(&mut watching, 4 * SHORT).await, None);
}

/// A request that never ends to begin is none; who does not take the farewell is cut.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_take_the_farewell_is_cut() {
    let world = world(PortPatience { handshake: NEVER, idle: SHORT, farewell: SHORT }).await;
    let mut begun = tls(&world).await;
    begun.write_all(b"GET /livez HTTP/1.1\r\nHost: lo").await.unwrap();
    let after = closed_after(&mut begun, SOON).await.expect("it is cut");
    assert!(after >= SHORT, "{after:?}");
}
