//! Moves one tunnel: parts of this end into frames, frames of the other into parts.
//!
//! In: a stream of frames, and parts by an [`Outgoing`]. Out: frames into a bounded channel, and parts by an [`Incoming`]. Frames are always
//! read, so that neither direction waits for the other; what is not taken stays within the window, which the flow watches.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use karmada_proto::v1::{
    TunnelData, TunnelEnd, TunnelFrame, TunnelReset, TunnelResetCode, TunnelResponse, TunnelWindow,
    tunnel_frame,
};
use karmada_proto::{frame, one_line};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::CHUNK;
use crate::flow::Flow;

/// Parts that wait at each end, beside those that the window holds.
const PARTS: usize = 2;

/// How long the other end may take to close, once both are done.
const FAREWELL: Duration = Duration::from_secs(10);

/// A part of what an end says.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The head of the answer; the first, and once.
    Head(TunnelResponse),
    /// Bytes that follow.
    Data(Bytes),
}

/// Why a tunnel ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Its class.
    pub code: TunnelResetCode,
    /// In plain words.
    pub message: String,
}

impl Reset {
    /// Of a class, in words.
    pub fn new(code: TunnelResetCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn frame(&self) -> TunnelFrame {
        let reset = TunnelReset { code: self.code.into(), message: self.message.clone() };
        frame::tunnel(tunnel_frame::Body::Reset(reset))
    }
}

/// What this end says. Dropped, it has said all.
#[derive(Debug)]
pub struct Outgoing(mpsc::Sender<Result<Part, Reset>>);

impl Outgoing {
    /// Says a part, once there is room. False where nobody listens any more.
    pub async fn say(&self, part: Part) -> bool {
        self.0.send(Ok(part)).await.is_ok()
    }

    /// Ends the tunnel, both ways, and says why.
    pub async fn reset(self, reset: Reset) {
        let _ = self.0.send(Err(reset)).await;
    }
}

/// What the other end says; ends after its last part. Dropped, the rest is let go.
#[derive(Debug)]
pub struct Incoming(mpsc::Receiver<Result<Part, Reset>>);

impl Incoming {
    /// The next part; `None` after the last.
    ///
    /// # Errors
    /// The [`Reset`] with which either end broke the tunnel off; nothing comes after it.
    pub async fn next(&mut self) -> Option<Result<Part, Reset>> {
        self.0.recv().await
    }

    /// The parts as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Part, Reset>> + Send + Unpin {
        Box::pin(futures::stream::unfold(self, |mut parts| async move {
            let part = parts.next().await?;
            Some((part, parts))
        }))
    }
}

/// Dropped, the tunnel ends, both ways.
#[derive(Debug)]
pub struct Guard(#[allow(dead_code, reason = "held for what its drop does")] DropGuard);

struct Pump<S> {
    flow: Flow,
    frames: S,
    out: mpsc::Sender<TunnelFrame>,
    /// What this end says, until it has said all.
    said: Option<mpsc::Receiver<Result<Part, Reset>>>,
    /// A part of it that is not sent yet.
    part: Option<Bytes>,
    /// Frames that wait for nothing but their turn.
    urgent: VecDeque<TunnelFrame>,
    heard: mpsc::Sender<Result<Part, Reset>>,
    waiting: VecDeque<Part>,
    /// Short parts behind them, put together: each that waits alone costs what a part costs.
    short: BytesMut,
    has_head: bool,
    is_ended: bool,
}

/// One end of a tunnel: what this end says, what the other says, and what moves both, which is to be awaited. `cancelled` ends it from outside.
pub fn open<S>(
    flow: Flow,
    frames: S,
    out: mpsc::Sender<TunnelFrame>,
    cancelled: &CancellationToken,
) -> (Outgoing, Incoming, Guard, impl Future<Output = ()> + Send + use<S>)
where
    S: Stream<Item = TunnelFrame> + Send + Unpin,
{
    let (say, said) = mpsc::channel(PARTS);
    let (heard, hear) = mpsc::channel(PARTS);
    let pump = Pump {
        flow,
        frames,
        out,
        said: Some(said),
        part: None,
        urgent: VecDeque::new(),
        heard,
        waiting: VecDeque::new(),
        short: BytesMut::new(),
        has_head: false,
        is_ended: false,
    };
    let stop = cancelled.child_token();
    let guard = Guard(stop.clone().drop_guard());
    (Outgoing(say), Incoming(hear), guard, pump.run(stop))
}

/// Whether it goes on.
type Goes = Result<(), Over>;

/// How it ends.
enum Over {
    /// Both directions are at their end.
    Done,
    /// This end gives up, and tells the other.
    Ours(Reset),
    /// The other end gave up, or is gone.
    Theirs(Reset),
}

/// What there is to do next.
enum Next {
    Cancelled,
    Gone,
    Send,
    Frame(TunnelFrame),
    /// There is room for a part, or (false) nobody hears it.
    Give(bool),
    Said(Option<Result<Part, Reset>>),
}

impl<S> Pump<S>
where
    S: Stream<Item = TunnelFrame> + Send + Unpin,
{
    async fn run(mut self, stop: CancellationToken) {
        let over = loop {
            if let Err(over) = self.step(&stop).await {
                break over;
            }
        };
        self.gather();
        let Self { heard, waiting, frames, out, said, .. } = self;
        let (reset, frames) = match over {
            Over::Done => (None, Some(frames)),
            Over::Ours(reset) => {
                let _ = out.try_send(reset.frame());
                (Some(reset), Some(frames))
            }
            Over::Theirs(reset) => (Some(reset), None),
        };
        // Nothing more is said. What came before is heard before, for as long as somebody is there.
        drop((out, said));
        let tell = async move {
            for part in waiting {
                heard.send(Ok(part)).await.ok()?;
            }
            if let Some(reset) = reset {
                heard.send(Err(reset)).await.ok()?;
            }
            Some(())
        };
        // Also where this end was cancelled from outside: what was cut off does not end as what is whole.
        let _ = tokio::join!(tell, until_closed(frames));
    }

    async fn step(&mut self, stop: &CancellationToken) -> Goes {
        if self.said.is_none() && self.part.is_none() && self.urgent.is_empty() && self.is_ended {
            return Err(Over::Done);
        }
        let sends = !self.urgent.is_empty() || (self.part.is_some() && self.flow.room() > 0);
        let hears = !self.waiting.is_empty() || !self.short.is_empty();
        // Nobody else sends into these channels: where there was room, there is.
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => Next::Cancelled,
            place = self.out.reserve(), if sends => place.map_or(Next::Gone, |_| Next::Send),
            frame = self.frames.next() => frame.map_or(Next::Gone, Next::Frame),
            place = self.heard.reserve(), if hears => Next::Give(place.is_ok()),
            said = next_said(&mut self.said), if self.part.is_none() => Next::Said(said),
        };
        match next {
            Next::Cancelled => {
                Err(Over::Ours(Reset::new(TunnelResetCode::TunnelCancelled, "who asked is gone")))
            }
            Next::Gone => Err(gone()),
            Next::Send => {
                let urgent = self.urgent.pop_front();
                if let Some(frame) = urgent.or_else(|| next_data(&mut self.flow, &mut self.part)) {
                    let _ = self.out.try_send(frame);
                }
                Ok(())
            }
            Next::Frame(frame) => self.takes(frame),
            Next::Give(is_heard) => {
                self.gives(is_heard);
                Ok(())
            }
            Next::Said(said) => self.says(said),
        }
    }

    /// What nobody hears is let go of, and the other end goes on.
    fn gives(&mut self, is_heard: bool) {
        if self.waiting.is_empty() {
            self.gather();
        }
        let Some(part) = self.waiting.pop_front() else { return };
        if let Part::Data(bytes) = &part
            && let Some(until) = self.flow.takes(bytes.len())
        {
            // The newest says what those before it said: an end that reads nothing must not have them pile up.
            self.urgent.retain(|frame| !matches!(frame.body, Some(tunnel_frame::Body::Window(_))));
            self.urgent.push_back(frame::tunnel(tunnel_frame::Body::Window(TunnelWindow { until })));
        }
        if is_heard {
            let _ = self.heard.try_send(Ok(part));
        }
    }

    fn waits(&mut self, bytes: &[u8]) {
        if bytes.len() < CHUNK / 4 {
            self.short.extend_from_slice(bytes);
            if self.short.len() < CHUNK {
                return;
            }
            return self.gather();
        }
        self.gather();
        // Without the message that they came in: a slice would keep all of it, and it may be many times as long.
        self.waiting.push_back(Part::Data(Bytes::copy_from_slice(bytes)));
    }

    /// What is short and came so far is one part.
    fn gather(&mut self) {
        if !self.short.is_empty() {
            let part = self.short.split().freeze();
            self.waiting.push_back(Part::Data(part));
        }
    }

    fn says(&mut self, said: Option<Result<Part, Reset>>) -> Goes {
        match said {
            Some(Ok(Part::Head(head))) => {
                self.urgent.push_back(frame::tunnel(tunnel_frame::Body::Response(head)));
            }
            Some(Ok(Part::Data(bytes))) => self.part = Some(bytes).filter(|bytes| !bytes.is_empty()),
            Some(Err(reset)) => return Err(Over::Ours(reset)),
            None => {
                self.said = None;
                let offset = self.flow.sent();
                self.urgent.push_back(frame::tunnel(tunnel_frame::Body::End(TunnelEnd { offset })));
            }
        }
        Ok(())
    }

    fn takes(&mut self, frame: TunnelFrame) -> Goes {
        use tunnel_frame::Body as B;
        let wrong = |message: &str| Err(Over::Ours(Reset::new(TunnelResetCode::TunnelProtocol, message)));
        let counted = match frame.body {
            Some(B::Data(TunnelData { offset, bytes })) => {
                let counted = self.flow.receives(offset, bytes.len());
                if counted.is_ok() {
                    self.waits(&bytes);
                }
                counted
            }
            Some(B::End(TunnelEnd { offset })) => {
                self.is_ended = true;
                self.flow.ends(offset)
            }
            Some(B::Window(TunnelWindow { until })) => self.flow.widened(until),
            Some(B::Response(head)) if !self.has_head => {
                self.has_head = true;
                self.gather();
                self.waiting.push_back(Part::Head(head));
                Ok(())
            }
            Some(B::Reset(reset)) => {
                return Err(Over::Theirs(Reset::new(reset.code(), one_line(&reset.message))));
            }
            Some(B::Hello(_) | B::Request(_) | B::Response(_)) => {
                return wrong("the other end of the tunnel said its first word again");
            }
            None => return wrong("the other end of the tunnel sent a frame that is not known here"),
        };
        counted.or_else(|fault| wrong(fault.message()))
    }
}

/// Whoever lets go of a call first takes with it what is still on its way there: each end waits for the other's.
async fn until_closed<S: Stream + Unpin>(frames: Option<S>) {
    let Some(mut frames) = frames else { return };
    let closed = async { while frames.next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, closed).await;
}

fn gone() -> Over {
    Over::Theirs(Reset::new(TunnelResetCode::TunnelResetUnspecified, "the tunnel broke"))
}

async fn next_said(said: &mut Option<mpsc::Receiver<Result<Part, Reset>>>) -> Option<Result<Part, Reset>> {
    match said {
        Some(said) => said.recv().await,
        None => std::future::pending().await,
    }
}

/// As much of the part as may be sent.
fn next_data(flow: &mut Flow, part: &mut Option<Bytes>) -> Option<TunnelFrame> {
    let bytes = part.as_mut()?;
    let most = CHUNK.min(usize::try_from(flow.room()).unwrap_or(CHUNK)).min(bytes.len());
    let bytes = bytes.split_to(most);
    if part.as_ref().is_some_and(Bytes::is_empty) {
        *part = None;
    }
    let offset = flow.sends(bytes.len());
    Some(frame::tunnel(tunnel_frame::Body::Data(TunnelData { offset, bytes })))
}

#[cfg(test)]
mod tests;
