//! Connections that a request took for another protocol, on their way through the hub to another API server.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::port::tls_as;
use crate::world::{World, options};

const GROUP: &str = "echo.example.com";

/// An API server that takes each connection whose request asks for it, and sends back what comes on it.
async fn echo_server(world: &World) -> u16 {
    let names = ["localhost".to_owned()];
    let issued =
        world.hub.data.authorities().issue_server(&names, crate::world::HOUR, jiff::Timestamp::now());
    // The hub shows its front proxy's certificate.
    let proxies = world.hub.data.front_proxy().bundle_pem();
    let proxies = CertificateDer::pem_slice_iter(proxies.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let mut config = karmada_certs::server_config(&issued.unwrap(), &proxies).unwrap();
    config.alpn_protocols.clear();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                if String::from_utf8_lossy(&head).to_lowercase().contains("upgrade: echo") {
                    let taken =
                        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
                    stream.write_all(taken).await.unwrap();
                    let (mut from, mut to) = tokio::io::split(stream);
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                    return;
                }
                let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"), "resources": []});
                let list = list.to_string();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{list}",
                    list.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

/// Hands the group to a server on this machine.
async fn hand_over(world: &World, port: u16) {
    let registry = &world.hub.registry;
    let services = registry.definition("", "v1", "services").unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    registry.create(&services, "default", service, &options()).await.unwrap();
    let kinds = registry.definition("apiregistration.k8s.io", "v1", "apiservices").unwrap();
    let handed = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "echo", "port": port}}});
    registry.create(&kinds, "", handed, &options()).await.unwrap();
}

/// A connection through the hub that the echo server has taken.
async fn taken(world: &World, life: Duration) -> TlsStream<TcpStream> {
    let certificate = world.administrator(life);
    for _ in 0..200 {
        let mut stream = tls_as(world, Some(&certificate)).await;
        let ask = format!(
            "GET /apis/{GROUP}/v1/tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        );
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut head = vec![0; 4096];
        let length = stream.read(&mut head).await.unwrap();
        if head[..length].starts_with(b"HTTP/1.1 101 ") {
            return stream;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not take connections");
}

async fn echoes(stream: &mut TlsStream<TcpStream>) -> bool {
    let answered = async {
        stream.write_all(b"ping").await.ok()?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.ok()?;
        Some(answer == *b"ping")
    };
    tokio::time::timeout(Duration::from_secs(5), answered).await.ok().flatten() == Some(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_taken_over_ends_with_the_certificate_that_opened_it() {
    let world = World::start().await;
    let port = echo_server(&world).await;
    hand_over(&world, port).await;
    let mut ended = taken(&world, Duration::from_secs(600)).await;
    let mut lasting = taken(&world, Duration::from_secs(6000)).await;
    assert!(echoes(&mut ended).await && echoes(&mut lasting).await);
    world.pass(601);
    let mut more = [0; 1];
    let cut = tokio::time::timeout(Duration::from_secs(10), ended.read(&mut more)).await.expect("it is cut");
    assert!(!matches!(cut, Ok(1..)), "nothing more comes: {cut:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(echoes(&mut lasting).await, "the other one goes on");
}
