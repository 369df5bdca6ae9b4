//! What this end says.
//!
//! In: messages, one at a time: the next is taken once the one before is with the connection. Out: their bytes.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::Sink;
use prost::Message;
use tokio::io::AsyncWrite;

use crate::HEAD;

/// Messages of one type, written to a connection. Closed, it ends the connection's own direction.
#[derive(Debug)]
pub struct Outgoing<W, M> {
    io: W,
    under_way: Bytes,
    message: PhantomData<fn(M)>,
}

impl<W, M> Outgoing<W, M> {
    /// To this connection.
    pub fn new(io: W) -> Self {
        Self { io, under_way: Bytes::new(), message: PhantomData }
    }
}

impl<W: AsyncWrite + Unpin, M: Message> Outgoing<W, M> {
    /// Hands over what is under way, and lets its memory go.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.under_way.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.under_way))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.under_way.advance(written),
            }
        }
        self.under_way = Bytes::new();
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin, M: Message> Sink<M> for Outgoing<W, M> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_written(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: M) -> io::Result<()> {
        let length = message.encoded_len();
        let head = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut bytes = BytesMut::with_capacity(HEAD + length);
        bytes.put_u32(head);
        message.encode(&mut bytes).map_err(io::Error::other)?;
        self.get_mut().under_way = bytes.freeze();
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_written(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_written(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
