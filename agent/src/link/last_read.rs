//! A connector whose streams say when they last brought a byte.
//!
//! In: another connector. Out: its streams, unchanged; each read that brings bytes is noted.

use std::sync::Arc;

use async_trait::async_trait;
use karmada_proto::last_read::LastRead;
use tokio::time::Instant;
use tokio_util::io::InspectReader;

use super::dial::{Connector, DialError, Io};

/// Over another connector; `last_read` counts from `started`.
pub struct NotingReads {
    /// Makes the streams.
    pub connector: Arc<dyn Connector>,
    /// The session's clock.
    pub started: Instant,
    /// Told of each byte.
    pub last_read: LastRead,
}

#[async_trait]
impl Connector for NotingReads {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let stream = self.connector.connect(endpoint).await?;
        let (started, last_read) = (self.started, self.last_read.clone());
        Ok(Box::new(InspectReader::new(stream, move |bytes: &[u8]| {
            if !bytes.is_empty() {
                last_read.note(started.elapsed());
            }
        })))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    struct One(Mutex<Option<DuplexStream>>);

    #[async_trait]
    impl Connector for One {
        async fn connect(&self, _: &str) -> Result<Box<dyn Io>, DialError> {
            Ok(Box::new(self.0.lock().take().unwrap()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_byte_read_is_noted_and_none_that_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let one = Arc::new(One(Mutex::new(Some(near))));
        let noting = NotingReads { connector: one, started: Instant::now(), last_read: LastRead::default() };
        let mut stream = noting.connect("hub:1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        stream.write_all(b"out").await.unwrap();
        assert_eq!(noting.last_read.at(), Duration::ZERO);
        far.write_all(b"i").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'i');
        assert_eq!(noting.last_read.at(), Duration::from_secs(5));
    }
}
