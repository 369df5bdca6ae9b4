//! Plain TCP to a hub, whose bytes are counted as they are on the wire, TLS and all.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use karmada_agent::link::dial::{Connector, DialError, Io, Tcp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of all connections, in both directions.
#[derive(Default)]
pub struct Traffic {
    /// From the hub.
    pub received: AtomicU64,
    /// To the hub.
    pub sent: AtomicU64,
}

/// Makes connections that count.
pub struct Counted(pub Arc<Traffic>);

#[async_trait]
impl Connector for Counted {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let io = Tcp.connect(endpoint).await?;
        Ok(Box::new(Connection { io, traffic: self.0.clone() }))
    }
}

struct Connection {
    io: Box<dyn Io>,
    traffic: Arc<Traffic>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        self.traffic.received.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.traffic.sent.fetch_add(*count as u64, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
