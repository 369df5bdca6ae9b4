//! A connector whose streams say when they last brought a byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use karmada_proto::pulse::Pulse;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::dial::{Connector, DialError, Io};

/// Over another connector; `pulse` counts from `started`.
pub struct Heard {
    /// Makes the streams.
    pub connector: Arc<dyn Connector>,
    /// The session's clock.
    pub started: Instant,
    /// Told of each byte.
    pub pulse: Pulse,
}

#[async_trait]
impl Connector for Heard {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let stream = self.connector.connect(endpoint).await?;
        Ok(Box::new(Listening { stream, started: self.started, pulse: self.pulse.clone() }))
    }
}

struct Listening {
    stream: Box<dyn Io>,
    started: Instant,
    pulse: Pulse,
}

impl AsyncRead for Listening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if buf.filled().len() > before {
            self.pulse.beat(self.started.elapsed());
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Listening {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    async fn each_byte_read_is_heard_and_none_that_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let one = Arc::new(One(Mutex::new(Some(near))));
        let heard = Heard { connector: one, started: Instant::now(), pulse: Pulse::default() };
        let mut stream = heard.connect("hub:1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        stream.write_all(b"out").await.unwrap();
        assert_eq!(heard.pulse.last(), Duration::ZERO);
        far.write_all(b"i").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'i');
        assert_eq!(heard.pulse.last(), Duration::from_secs(5));
    }
}
