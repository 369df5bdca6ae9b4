//! A connection that a request takes for another protocol, as `exec` and `port-forward` do: from then on it is no longer the port's, but it
//! ends still when its certificate counts no more.
//!
//! In: the socket before anything is served on it. Out: the same socket, wherever it goes, and the [`Hold`] on it that stays with the port: it
//! is told when the socket is dropped, and cuts it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

/// A socket that breaks off once it is cut. One without a hold on it is as it was.
pub(super) struct Takeable<S> {
    socket: S,
    line: Option<HeldSocket>,
}

/// The socket's end of a hold.
struct HeldSocket {
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _gone: DropGuard,
}

/// The port's end of it. Dropped, it cuts nothing.
pub(super) struct Hold {
    cut: CancellationToken,
    gone: CancellationToken,
}

impl<S> Takeable<S> {
    /// With a hold on it where it may be taken over.
    pub fn new(socket: S, is_takeable: bool) -> (Takeable<S>, Option<Hold>) {
        if !is_takeable {
            return (Takeable { socket, line: None }, None);
        }
        let (cut, gone) = (CancellationToken::new(), CancellationToken::new());
        let line =
            HeldSocket { cut: Box::pin(cut.clone().cancelled_owned()), _gone: gone.clone().drop_guard() };
        (Takeable { socket, line: Some(line) }, Some(Hold { cut, gone }))
    }

    /// Fails once it is cut; wakes the caller then.
    fn holds(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_cut = |line: &mut HeldSocket| line.cut.as_mut().poll(context).is_ready();
        if self.line.as_mut().is_some_and(is_cut) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was cut"));
        }
        Ok(())
    }
}

impl Hold {
    /// Stays by a socket that is not the port's any more until it is dropped; cuts it at `end`.
    pub async fn until(self, end: impl Future<Output = ()>) {
        tokio::select! {
            () = self.gone.cancelled() => {}
            () = end => self.cut.cancel(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Takeable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.holds(context)?;
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Takeable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.holds(context)?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.holds(context)?;
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
        self.holds(context)?;
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_is_cut_breaks_off_where_it_waits() {
        let (near, mut far) = tokio::io::duplex(64);
        let (mut socket, hold) = Takeable::new(near, true);
        far.write_all(b"a").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'a');
        let waiting = tokio::spawn(async move { (socket.read_u8().await, socket.write_u8(1).await) });
        hold.unwrap().until(async {}).await;
        let (read, written) = waiting.await.unwrap();
        let kinds = [read.unwrap_err().kind(), written.unwrap_err().kind()];
        assert_eq!(kinds, [io::ErrorKind::ConnectionAborted; 2]);
    }

    #[tokio::test]
    async fn who_holds_a_socket_is_told_when_it_is_dropped() {
        let (socket, hold) = Takeable::new(tokio::io::duplex(1).0, true);
        drop(socket);
        hold.unwrap().until(std::future::pending()).await;
    }
}
