//! Servers that no hub would be: what they answer has no end, comes a byte at a time, or is a book.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server that answers each request with this, and then goes on as `goes_on` says, until nobody reads.
async fn server<F>(head: String, goes_on: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Connection
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            if stream.write_all(head.as_bytes()).await.is_ok() {
                tokio::spawn(goes_on(stream));
            }
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let config = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    Connection::open(Some(&file), None).await.unwrap()
}

fn head(status: &str, length: Option<usize>) -> String {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{length}\r\n")
}

#[tokio::test]
async fn an_answer_without_an_end_is_left_in_words() {
    for status in ["200 OK", "403 Forbidden"] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let goes_on = move |mut stream: TcpStream| {
            let counted = counted.clone();
            async move {
                // Four times as much as is taken: a reader without a bound comes to the end of it.
                while counted.load(Ordering::SeqCst) < 256 << 20
                    && stream.write_all(&[b' '; 1 << 16]).await.is_ok()
                {
                    counted.fetch_add(1 << 16, Ordering::SeqCst);
                }
            }
        };
        let connection = server(head(status, None), goes_on).await;
        let error = connection.get("/api").await.unwrap_err().to_string();
        assert!(error.contains("64 MiB"), "{status}: {error}");
        assert!(sent.load(Ordering::SeqCst) < 128 << 20, "{status}: {} bytes", sent.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn an_answer_that_comes_a_byte_at_a_time_is_left_in_words() {
    let goes_on = |mut stream: TcpStream| async move {
        for _ in 0..100 {
            if stream.write_all(b" ").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut connection = server(head("200 OK", None), goes_on).await;
    connection.patience = Duration::from_millis(300);
    let error = connection.get("/api").await.unwrap_err().to_string();
    assert!(error.contains("did not end in"), "{error}");
    let error = connection.text("/metrics").await.unwrap_err().to_string();
    assert!(error.contains("did not end in"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_a_line_however_long_it_is() {
    let book = "no\nerror: all is well\u{202e}".to_owned() + &"A".repeat(100_000);
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": book});
    for said in [status.to_string(), book] {
        let body = head("403 Forbidden", Some(said.len())) + &said;
        let connection = server(body, |_| async {}).await;
        let error = connection.get("/api").await.unwrap_err();
        assert_eq!(error.code(), Some(403));
        let error = error.to_string();
        assert!(error.contains("refused: GET /api: no error: all is well"), "{}", &error[..200]);
        assert!(error.len() < 3000 && !error.contains(['\n', '\u{202e}']), "{}", error.len());
    }
}

#[tokio::test]
async fn what_is_no_object_is_said_to_be_none() {
    let said = "<html>sign in first</html>";
    let connection = server(head("200 OK", Some(said.len())) + said, |_| async {}).await;
    let error = connection.get("/api").await.unwrap_err();
    assert!(error.to_string().contains("it is no JSON") && error.is_away(), "{error}");
    assert_eq!(connection.text("/metrics").await.unwrap(), said);
    let connection = server(head("302 Found", Some(0)), |_| async {}).await;
    assert_eq!(connection.get("/api").await.unwrap_err().code(), Some(302));
}
