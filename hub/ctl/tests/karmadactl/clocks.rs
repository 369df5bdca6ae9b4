//! A clock that is wrong, this machine's or the hub's: told before anything is made in the member.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{SignedDuration, Timestamp};
use karmada_certs::server_config;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cluster::{Cluster, NAMESPACE, register_line};

const DAY: Duration = Duration::from_secs(86_400);

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

/// What answers as `hub` does, by the same CA, where its certificate was made so long from now, and its clock shows so much more than ours.
async fn at_another_hour(hub: &Cluster, made: SignedDuration, clock: SignedDuration) -> String {
    let authorities = hub.hub.data.authorities();
    let authority = authorities.signing();
    let issued = authority.issue_server(&["127.0.0.1".to_owned()], DAY, Timestamp::now() + made).unwrap();
    let mut config = server_config(&issued, &[authority.certificate().clone()]).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = hyper::service::service_fn(move |_| async move {
                    let date = jiff::fmt::rfc2822::DateTimePrinter::new()
                        .timestamp_to_rfc9110_string(&(Timestamp::now() + clock))
                        .unwrap();
                    let answer = Response::builder().status(StatusCode::FORBIDDEN).header(header::DATE, date);
                    Ok::<_, std::convert::Infallible>(answer.body(String::new()).unwrap())
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    address.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong_is_told_before_anything_is_made() {
    let (hub, member) = (Cluster::start().await, Cluster::member().await);
    let (line, token) = register_line(&hub).await;
    let address = hub.hub.address.to_string();
    let none = hours(0);
    for (made, clock, told) in [
        (hours(48), none, "is not valid at this machine's time"),
        (hours(-240), none, "is not valid at this machine's time"),
        (none, hours(2), "s behind the hub's"),
        (none, hours(-2), "s ahead of the hub's"),
    ] {
        let there = at_another_hour(&hub, made, clock).await;
        let text = member.fail(&format!("{} --timeout 1s", line.replace(&address, &there))).await;
        assert!(text.contains("Clock: ") && text.contains(told), "{told}: {text}");
        assert!(text.contains("next: set this machine's clock (NTP), or the hub's"), "{text}");
        assert!(text.contains("Nothing was made in the member") && !text.contains(&token), "{text}");
        assert!(member.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_none(), "{told}");
    }
    // Some minutes are no matter.
    let there = at_another_hour(&hub, none, SignedDuration::from_mins(50)).await;
    let text = member.fail(&format!("{} --timeout 1s", line.replace(&address, &there))).await;
    assert!(!text.contains("Clock: ") && !text.contains("Nothing was made"), "{text}");
}
