//! What probes and scrapers look at, and that nothing is said without TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use karmada_schema::KUBERNETES_VERSION;
use tests::api::text_at;

use crate::request::Calls as _;
use tests::subject::{Subject, shared};

#[test]
fn probes_need_no_credential() {
    let subject = shared();
    let nobody = subject.caller().anonymous();
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(nobody.get(path).is(200).text, "ok", "{path}");
        assert_eq!(nobody.send(http::Method::POST, path, &[], "").code, 403, "POST {path}");
    }
    let version = nobody.get("/version").is(200).json();
    let minor = KUBERNETES_VERSION.split('.').nth(1).unwrap();
    assert_eq!((text_at(&version, "/major"), text_at(&version, "/minor")), ("1", minor));
    assert_eq!(text_at(&version, "/gitVersion"), KUBERNETES_VERSION);
    assert_eq!(nobody.get("/metrics").code, 403);
}

#[test]
fn metrics_are_in_the_text_format() {
    let subject = shared();
    let page = subject.caller().get("/metrics").is(200);
    assert!(page.header("content-type").starts_with("text/plain"), "{:?}", page.headers);
    assert!(page.text.contains("apiserver_storage_objects{"), "{}", page.text);
    for line in page.text.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn without_tls_nothing_is_served() {
    let subject = shared();
    let Subject::Hub(hub) = &*subject else { return };
    for hello in
        ["GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0\0\0\0"]
    {
        let mut stream = TcpStream::connect(hub.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(hello.as_bytes()).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"), "{hello:?}");
        assert!(!answer.windows(2).any(|pair| pair == b"ok"), "{hello:?}");
    }
    subject.caller().get("/readyz").is(200);
}
