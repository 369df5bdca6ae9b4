//! What who has no credential can take of the port.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use karmada_certs::{KeyedCertificate, client_config};

use crate::world::World;

pub type Body = StreamBody<futures::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;
pub type Sender = hyper::client::conn::http2::SendRequest<Body>;

async fn connection(world: &World) -> Sender {
    connection_of(world, 1, None).await
}

/// From the loopback address that ends with `host`, of who shows a certificate.
pub async fn connection_of(world: &World, host: u8, identity: Option<&KeyedCertificate>) -> Sender {
    let mut config = client_config(&world.trust(), identity).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    let tcp = socket.connect(world.hub.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let tls = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, tcp).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A join that announces a message of some size, sends a part of it, and then nothing more.
pub fn unfinished(size: u32, sent: usize) -> http::Request<Body> {
    unfinished_call("Join", size, sent)
}

/// The same of any call.
pub fn unfinished_call(method: &str, size: u32, sent: usize) -> http::Request<Body> {
    let mut head = vec![0u8];
    head.extend(size.to_be_bytes());
    head.extend(vec![0; sent]);
    let first = futures::stream::iter([Ok(Frame::data(Bytes::from(head)))]);
    let body = futures::StreamExt::chain(first, futures::stream::pending());
    http::Request::post(format!("https://localhost/fleet.v1.Fleet/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(StreamBody::new(futures::StreamExt::boxed(body)))
        .unwrap()
}

pub async fn status(sender: &mut Sender, request: http::Request<Body>) -> String {
    let Ok(response) = sender.send_request(request).await else { return "reset".to_owned() };
    let told = |headers: &http::HeaderMap| {
        headers.get("grpc-status").map(|code| code.to_str().unwrap_or("").to_owned())
    };
    if let Some(code) = told(response.headers()) {
        return code;
    }
    let trailers =
        http_body_util::BodyExt::collect(response.into_body()).await.ok().and_then(|b| b.trailers().cloned());
    trailers.and_then(|trailers| told(&trailers)).unwrap_or_default()
}

pub const EXHAUSTED: &str = "8";
pub const DEADLINE: &str = "4";
pub const TOO_LARGE: &str = "11";

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_joins_are_few_small_and_short() {
    let world = World::start().await;
    let mut sender = connection(&world).await;
    assert_eq!(status(&mut sender, unfinished(4 << 20, 0)).await, TOO_LARGE, "refused by what it announces");
    let started = Instant::now();
    let all: Vec<_> = (0..30)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move { status(&mut sender, unfinished(60_000, 1_000)).await })
        })
        .collect();
    let mut codes = Vec::new();
    for one in all {
        codes.push(one.await.unwrap());
    }
    let count = |code: &str| codes.iter().filter(|one| *one == code).count();
    assert_eq!((count(DEADLINE), count(EXHAUSTED)), (4, 26), "{codes:?}");
    assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
}

/// Resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Hub and attackers in one process: what the hub holds of them is less than what is measured.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the next one, in a process of its own"]
async fn a_flood_of_unfinished_joins() {
    let world = World::start().await;
    let mut all = Vec::new();
    let mut senders = Vec::new();
    for host in 1..=63 {
        senders.push(connection_of(&world, host, None).await);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = resident();
    for sender in &senders {
        for _ in 0..4 {
            let mut sender = sender.clone();
            all.push(tokio::spawn(async move { status(&mut sender, unfinished(60_000, 59_999)).await }));
        }
    }
    let mut most = before;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(resident());
    }
    let held = all.iter().filter(|one| !one.is_finished()).count();
    println!("{held} joins under way, {} KiB more", most - before);
}

#[test]
fn a_flood_of_unfinished_joins_costs_some_megabytes() {
    let alone = ["--exact", "strangers::a_flood_of_unfinished_joins", "--ignored", "--nocapture"];
    let output = std::process::Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.contains("joins under way")).unwrap_or_else(|| panic!("{said}"));
    println!("{line}");
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] >= 250, "the flood was let in: {line}");
    // 15 MB that were sent, on both sides; 1 GB where each stream had its 4 MiB.
    assert!(numbers[1] < 96 * 1024, "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_calls_only_so_often() {
    let world = World::start().await;
    let (mut codes, started) = (Vec::new(), Instant::now());
    let mut sender = connection(&world).await;
    for _ in 0..400 {
        codes.push(status(&mut sender, unfinished(4 << 20, 0)).await);
    }
    let taken = codes.iter().filter(|code| *code != EXHAUSTED).count();
    let allowed = 115.0 + started.elapsed().as_secs_f64() * 10.0;
    assert!(taken as f64 <= allowed, "{taken} of 400 were taken, {allowed} may be");
    // Who has a credential is not concerned.
    let mut admin = world.https(Some(&world.administrator(crate::world::HOUR))).await;
    assert_eq!(admin.send("GET", "/api/v1/namespaces").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_room_and_busy_ones_stay() {
    let world = World::with(|settings| settings.access.connections_per_address = 4).await;
    let admin = world.administrator(crate::world::HOUR);
    let mut oldest = world.https(Some(&admin)).await;
    assert_eq!(oldest.send("GET", "/healthz").await.unwrap().0, 200);
    let mut watching = world.https(Some(&admin)).await;
    let watch = tokio::spawn(async move { watching.send("GET", "/api/v1/namespaces?watch=true").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut more = Vec::new();
    for _ in 0..6 {
        let mut https = world.https(Some(&admin)).await;
        assert_eq!(https.send("GET", "/healthz").await.unwrap().0, 200);
        more.push(https);
    }
    crate::world::until("the oldest idle one goes", || oldest.is_closed()).await;
    assert!(!watch.is_finished(), "a watch is no idle connection");
    assert!(!more.last().unwrap().is_closed());
    watch.abort();
}
