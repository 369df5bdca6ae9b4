//! A socket that says when it last brought a byte: what a slow agent is in the middle of sending is life.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use karmada_proto::pulse::Pulse;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Over another socket; the pulse counts from `started`.
pub struct Heard<S> {
    socket: S,
    started: Instant,
    pulse: Pulse,
}

impl<S> Heard<S> {
    /// Tells `pulse` of each read that brings anything.
    pub fn new(socket: S, started: Instant, pulse: Pulse) -> Heard<S> {
        Heard { socket, started, pulse }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.socket).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.pulse.beat(self.started.elapsed());
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_byte_read_is_heard_and_none_that_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let pulse = Pulse::default();
        let mut socket = Heard::new(near, Instant::now(), pulse.clone());
        tokio::time::sleep(Duration::from_secs(5)).await;
        socket.write_all(b"out").await.unwrap();
        assert_eq!(pulse.last(), Duration::ZERO);
        far.write_all(b"i").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'i');
        assert_eq!(pulse.last(), Duration::from_secs(5));
    }
}
