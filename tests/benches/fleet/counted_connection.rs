//! Plain TCP to a hub from an address of the agent's own, as sites have it: a hub bounds what one address may ask. The bytes are counted as they
//! are on the wire, TLS and all.

use std::net::{Ipv4Addr, SocketAddr};

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use karmada_agent::link::dial::{Connector, DialError, Io};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpSocket;

/// Bytes of all connections, in both directions.
#[derive(Default)]
pub struct Traffic {
    /// From the hub.
    pub received: AtomicU64,
    /// To the hub.
    pub sent: AtomicU64,
}

/// Makes connections that count, from an address of loopback.
pub struct Counted {
    /// What counts them.
    pub traffic: Arc<Traffic>,
    /// Whose they are.
    pub from: Ipv4Addr,
}

impl Counted {
    /// Of the agent of this number, of at most sixteen million.
    pub fn of(number: u64, traffic: Arc<Traffic>) -> Counted {
        let [.., a, b, c] = (number + 2).to_be_bytes();
        Counted { traffic, from: Ipv4Addr::new(127, a, b, c) }
    }
}

#[async_trait]
impl Connector for Counted {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let failed = |error: &dyn std::fmt::Display| DialError::Tcp {
            endpoint: endpoint.to_owned(),
            error: error.to_string(),
        };
        let hub: SocketAddr = endpoint.parse().map_err(|error| failed(&error))?;
        let socket = TcpSocket::new_v4().map_err(|error| failed(&error))?;
        socket.bind((self.from, 0).into()).map_err(|error| failed(&error))?;
        let io = socket.connect(hub).await.map_err(|error| failed(&error))?;
        io.set_nodelay(true).map_err(|error| failed(&error))?;
        Ok(Box::new(Connection { io: Box::new(io), traffic: self.traffic.clone() }))
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
