//! Requests to a member's API by way of its agent, which here is one by hand.

use std::time::Duration;

use bytes::Bytes;
use karmada_agent::link::dial::{Tcp, dial};
use karmada_certs::{ClientKey, client_config_h2};
use karmada_proto::v1::{
    Hello, TunnelData, TunnelEnd, TunnelHello, TunnelResponse, agent_frame, ask, hub_frame, tunnel_frame,
};
use karmada_proto::{ASK, frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::port::tls_as;
use crate::world::{HOUR, World};

const LOG: &[u8] = b"GET /apis/cluster.karmada.io/v1alpha1/clusters/north/proxy/api/v1/namespaces/a/pods/p/log HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A log of which half came looks like a whole one, unless its end says otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_does_not_end_as_one_that_is_whole() {
    let world = World::start().await;
    let owner = ClientKey::generate().unwrap();
    let north = world.join("north", "uid-north", &owner).await.certificate(&owner);
    let config = client_config_h2(&world.trust(), Some(&north)).unwrap();
    let mut client = dial(&Tcp, &world.endpoint(), config).await.unwrap();
    let (frames, outbound) = mpsc::channel(16);
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        cluster_name: "north".to_owned(),
        boot_id: "one".to_owned(),
        features: vec![ASK.to_owned()],
        ..Hello::default()
    };
    frames.send(frame::agent(agent_frame::Body::Hello(hello))).await.unwrap();
    let mut inbound = client.connect(ReceiverStream::new(outbound)).await.unwrap().into_inner();
    // It is there once it is welcomed.
    inbound.message().await.unwrap().unwrap();
    for is_whole in [true, false] {
        let mut user = tls_as(&world, Some(&world.administrator(HOUR))).await;
        user.write_all(LOG).await.unwrap();
        let id = loop {
            let said = inbound.message().await.unwrap().unwrap();
            if let Some(hub_frame::Body::Ask(asked)) = said.body
                && let Some(ask::Question::OpenTunnel(wanted)) = asked.question
            {
                break wanted.id;
            }
        };
        let (out, said) = mpsc::channel(8);
        let say = async |body| out.send(frame::tunnel(body)).await.unwrap();
        say(tunnel_frame::Body::Hello(TunnelHello { id, window: 1000 })).await;
        let mut heard = client.tunnel(ReceiverStream::new(said)).await.unwrap().into_inner();
        heard.message().await.unwrap().unwrap();
        say(tunnel_frame::Body::Response(TunnelResponse { status: 200, headers: Vec::new() })).await;
        say(tunnel_frame::Body::Data(TunnelData { offset: 0, bytes: Bytes::from_static(b"half of it") }))
            .await;
        if is_whole {
            say(tunnel_frame::Body::End(TunnelEnd { offset: 10 })).await;
        } else {
            // Until it is with the client.
            tokio::time::sleep(Duration::from_millis(200)).await;
            drop(out);
        }
        let mut came = Vec::new();
        let mut reads = user.take(1 << 20);
        let _ = tokio::time::timeout(Duration::from_secs(3), reads.read_to_end(&mut came)).await;
        let came = String::from_utf8_lossy(&came);
        assert!(came.contains("half of it"), "{came}");
        assert_eq!(came.ends_with("0\r\n\r\n"), is_whole, "{came}");
    }
}

/// kubectl asks what is served there, and shows no words of a refusal of that, but every warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_there_or_away_is_named_also_where_only_warnings_are_shown() {
    let world = World::start().await;
    let owner = ClientKey::generate().unwrap();
    world.join("north", "uid-north", &owner).await.certificate(&owner);
    for (cluster, code, words) in [
        ("nowhere", "404", r#"clusters.cluster.karmada.io \"nowhere\" not found"#),
        ("north", "503", "the agent of cluster north is not connected"),
    ] {
        let mut user = tls_as(&world, Some(&world.administrator(HOUR))).await;
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy/api");
        let asked = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        user.write_all(asked.as_bytes()).await.unwrap();
        let mut said = String::new();
        let _ = user.read_to_string(&mut said).await;
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{said}");
        let warned =
            head.lines().find(|line| line.to_lowercase().starts_with("warning: 299")).unwrap_or(head);
        assert!(warned.contains(words) && body.contains(words) && body.contains("\"Status\""), "{said}");
    }
}
