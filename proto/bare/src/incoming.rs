//! What the other end says.
//!
//! In: bytes, as they come, and which messages may be decoded. Out: messages, each decoded once it is whole; an error, once, where none can follow.

use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use futures::Stream;
use prost::Message;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{Broken, HEAD};

/// Memory that is taken ahead of what has come: an announced length costs nothing by itself.
const AHEAD: usize = 16 << 10;

/// How long messages may be, bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The first one.
    pub first: usize,
    /// Each that follows.
    pub then: usize,
}

/// Messages of one type, read from a connection.
#[derive(Debug)]
pub struct Incoming<R, M> {
    io: R,
    limits: Limits,
    may_be: fn(&[u8]) -> bool,
    head: [u8; HEAD],
    seen: usize,
    /// The message that is under way, and its length.
    pub(crate) body: Option<(BytesMut, usize)>,
    over: bool,
    message: PhantomData<fn() -> M>,
}

impl<R, M> Incoming<R, M> {
    /// From this connection.
    pub fn new(io: R, limits: Limits) -> Self {
        let may_be = |_: &[u8]| true;
        Self { io, limits, may_be, head: [0; HEAD], seen: 0, body: None, over: false, message: PhantomData }
    }

    /// The same, where a message is decoded only if `may_be` says so of its bytes: it may become many times as long.
    #[must_use]
    pub fn only(self, may_be: fn(&[u8]) -> bool) -> Self {
        Self { may_be, ..self }
    }

    /// The connection, with what was not read yet.
    pub fn into_inner(self) -> R {
        self.io
    }
}

impl<R: AsyncRead + Unpin, M: Message + Default> Incoming<R, M> {
    /// Reads into `into`. How many bytes came; none at the connection's end.
    fn read(io: &mut R, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// The length of the next message; `None` where the connection ends before it.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<usize>, Broken>> {
        while self.seen < HEAD {
            match ready!(Self::read(&mut self.io, cx, &mut self.head[self.seen..]))? {
                0 if self.seen == 0 => return Poll::Ready(Ok(None)),
                0 => return Poll::Ready(Err(Broken::CutOff)),
                read => self.seen += read,
            }
        }
        self.seen = 0;
        let length = usize::try_from(u32::from_be_bytes(self.head)).unwrap_or(usize::MAX);
        let most = self.limits.first;
        if length > most {
            return Poll::Ready(Err(Broken::TooLong { length, most }));
        }
        self.limits.first = self.limits.then;
        Poll::Ready(Ok(Some(length)))
    }

    fn poll_body(
        io: &mut R,
        (body, length): &mut (BytesMut, usize),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        while body.len() < *length {
            let at = body.len();
            body.resize(at + (*length - at).min(AHEAD), 0);
            let read = Self::read(io, cx, &mut body[at..]);
            body.truncate(at + if let Poll::Ready(Ok(read)) = read { read } else { 0 });
            if ready!(read)? == 0 {
                return Poll::Ready(Err(Broken::CutOff));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<M>, Broken>> {
        if self.body.is_none() {
            let Some(length) = ready!(self.poll_head(cx))? else { return Poll::Ready(Ok(None)) };
            self.body = Some((BytesMut::new(), length));
        }
        if let Some(body) = &mut self.body {
            ready!(Self::poll_body(&mut self.io, body, cx))?;
        }
        let whole = self.body.take().map(|(body, _)| body.freeze()).unwrap_or_default();
        if !(self.may_be)(&whole) {
            return Poll::Ready(Err(Broken::Unlikely));
        }
        Poll::Ready(M::decode(whole).map(Some).map_err(Broken::from))
    }
}

impl<R: AsyncRead + Unpin, M: Message + Default> Stream for Incoming<R, M> {
    type Item = Result<M, Broken>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let message = ready!(this.poll_message(cx)).transpose();
        if !matches!(message, Some(Ok(_))) {
            this.over = true;
            this.body = None;
        }
        Poll::Ready(message)
    }
}
