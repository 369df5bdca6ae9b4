//! The wire between an agent and a hub: a TCP proxy that can be cut, stalled, delayed, slowed, made to reset and forget connections, and
//! that counts what passes.
//!
//! In: where the hub listens. Out: an address for the agent to dial. What the wire does is changed while it runs, and holds for connections
//! that stand already; it does not read what it carries.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::runtime;

/// What the wire does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Passes them on, each after its delay.
    Open,
    /// Has closed its connections, and closes new ones at once.
    Cut,
    /// Keeps its connections, takes new ones, and passes nothing: what a dead radio link looks like.
    Stalled,
}

#[derive(Clone, Copy, Debug)]
struct Wire {
    state: State,
    delay: Duration,
    /// Bytes a second in each direction; as many as there are, where none is given.
    rate: Option<u32>,
    /// How many of a thousand pieces that pass end their connection.
    resets: u32,
    /// A connection over which nothing went for so long is forgotten, as by a NAT gateway: both ends hold it, and nothing passes any more.
    forgets_after: Option<Duration>,
    /// Counted up by a cut, so that connections of before end even if it is healed at once.
    cuts: u64,
    /// Counted up where the connections of before are forgotten.
    forgotten: u64,
}

/// One connection over the link.
struct Connection {
    /// How often connections had been forgotten when it began.
    forgotten: u64,
    began: Instant,
    /// When something went over it last, in milliseconds since it began.
    used_ms: AtomicU64,
}

impl Connection {
    /// Whether the wire has forgotten it; otherwise it is used now.
    fn is_forgotten(&self, wire: Wire) -> bool {
        let now = self.began.elapsed();
        let idle = now.saturating_sub(Duration::from_millis(self.used_ms.load(Ordering::Relaxed)));
        if wire.forgotten != self.forgotten || wire.forgets_after.is_some_and(|after| idle > after) {
            return true;
        }
        self.used_ms.store(now.as_millis() as u64, Ordering::Relaxed);
        false
    }
}

/// Bytes and connections that went through.
#[derive(Debug, Default)]
struct Counters {
    up: AtomicU64,
    down: AtomicU64,
    connections: AtomicU64,
    /// Draws which pieces end their connection: the same ones in each run, as far as the same ones come.
    drawn: AtomicU64,
}

impl Counters {
    /// Whether this piece is one of so many in a thousand.
    fn draws(&self, of_thousand: u32) -> bool {
        let draw = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (draw >> 32) % 1000 < u64::from(of_thousand)
    }
}

/// A link; it is gone with its value.
pub struct Link {
    address: SocketAddr,
    wire: watch::Sender<Wire>,
    counters: Arc<Counters>,
    listener: tokio::task::JoinHandle<()>,
}

impl Link {
    /// A link to `target`, on a loopback port of its own.
    pub fn to(target: SocketAddr) -> Link {
        let (wire, _) = watch::channel(Wire {
            state: State::Open,
            delay: Duration::ZERO,
            rate: None,
            resets: 0,
            forgets_after: None,
            cuts: 0,
            forgotten: 0,
        });
        let counters = Arc::new(Counters::default());
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound listener has an address");
        let accept = accept(listener, target, wire.clone(), counters.clone());
        Link { address, wire, counters, listener: runtime().spawn(accept) }
    }

    /// What the agent connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections, and every new one at once.
    pub fn cut(&self) {
        self.wire.send_modify(|wire| {
            wire.state = State::Cut;
            wire.cuts += 1;
        });
    }

    /// Passes nothing on any more, without closing anything.
    pub fn stall(&self) {
        self.wire.send_modify(|wire| wire.state = State::Stalled);
    }

    /// Passes everything again; what a stall held back is delivered.
    pub fn heal(&self) {
        self.wire.send_modify(|wire| wire.state = State::Open);
    }

    /// Delays what comes from now on by so much, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.wire.send_modify(|wire| wire.delay = delay);
    }

    /// Lets so many bytes a second through from now on, in each direction of each connection; `None`: as many as come.
    pub fn slow_down(&self, rate: Option<u32>) {
        self.wire.send_modify(|wire| wire.rate = rate);
    }

    /// Has so many of a thousand pieces that pass end their connection.
    pub fn reset_some(&self, of_thousand: u32) {
        self.wire.send_modify(|wire| wire.resets = of_thousand);
    }

    /// Forgets connections over which nothing went for so long: nothing passes there any more, and neither end is told.
    pub fn forget_idle(&self, after: Option<Duration>) {
        self.wire.send_modify(|wire| wire.forgets_after = after);
    }

    /// Forgets all connections that there are; new ones pass.
    pub fn forget(&self) {
        self.wire.send_modify(|wire| wire.forgotten += 1);
    }

    /// Bytes from the agent to the hub, and from the hub to the agent, so far.
    pub fn bytes(&self) -> (u64, u64) {
        (self.counters.up.load(Ordering::Relaxed), self.counters.down.load(Ordering::Relaxed))
    }

    /// Connections that were passed on so far.
    pub fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
        self.listener.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    wire: watch::Sender<Wire>,
    counters: Arc<Counters>,
) {
    while let Ok((agent, _)) = listener.accept().await {
        if wire.borrow().state == State::Cut {
            continue;
        }
        let (wire, counters) = (wire.subscribe(), counters.clone());
        tokio::spawn(async move {
            let mut end = wire.clone();
            let cuts = end.borrow().cuts;
            tokio::select! {
                () = carry(agent, target, wire, counters) => {}
                _ = end.wait_for(|wire| wire.cuts != cuts) => {}
            }
        });
    }
}

/// One connection, until either end closes it.
async fn carry(agent: TcpStream, target: SocketAddr, wire: watch::Receiver<Wire>, counters: Arc<Counters>) {
    let mut open = wire.clone();
    if open.wait_for(|wire| wire.state == State::Open).await.is_err() {
        return;
    }
    let Ok(hub) = TcpStream::connect(target).await else { return };
    let _ = (agent.set_nodelay(true), hub.set_nodelay(true));
    counters.connections.fetch_add(1, Ordering::Relaxed);
    let connection =
        Connection { forgotten: wire.borrow().forgotten, began: Instant::now(), used_ms: AtomicU64::new(0) };
    let ((from_agent, to_agent), (from_hub, to_hub)) = (agent.into_split(), hub.into_split());
    // Either way tells of a reset, and both end with it.
    let up = one_way(from_agent, to_hub, wire.clone(), &connection, (&counters, &counters.up));
    let down = one_way(from_hub, to_agent, wire, &connection, (&counters, &counters.down));
    let _ = tokio::try_join!(up, down);
}

/// The wire ended a connection.
struct Reset;

/// Bytes that wait for their time, at most; beyond it the sender is held up, as by a full window.
const IN_FLIGHT: usize = 1 << 20;

async fn one_way(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut wire: watch::Receiver<Wire>,
    connection: &Connection,
    (counters, count): (&Counters, &AtomicU64),
) -> Result<(), Reset> {
    let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let (mut held, mut ended) = (0, false);
    let mut buffer = vec![0; 16 << 10];
    // When the last byte that was read has passed.
    let mut passed = Instant::now();
    while !(ended && waiting.is_empty()) {
        let due = waiting.front().map_or_else(Instant::now, |(due, _)| *due);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due), if !waiting.is_empty() => {
                let Ok(now) = wire.wait_for(|wire| wire.state != State::Stalled).await.map(|wire| *wire) else {
                    return Ok(());
                };
                if connection.is_forgotten(now) {
                    std::future::pending::<()>().await;
                }
                if now.resets > 0 && counters.draws(now.resets) {
                    return Err(Reset);
                }
                let Some((_, bytes)) = waiting.pop_front() else { continue };
                held -= bytes.len();
                if to.write_all(&bytes).await.is_err() {
                    return Ok(());
                }
                count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            read = from.read(&mut buffer), if !ended && held < IN_FLIGHT => match read {
                Ok(0) | Err(_) => ended = true,
                Ok(length) => {
                    held += length;
                    let Wire { delay, rate, .. } = *wire.borrow();
                    // A slow line passes little at a time: a tenth of a second's.
                    let pieces = rate.map_or(length, |rate| (rate as usize / 10).max(1));
                    for piece in buffer[..length].chunks(pieces) {
                        let takes = rate.map_or(0.0, |rate| piece.len() as f64 / f64::from(rate.max(1)));
                        passed = passed.max(Instant::now()) + Duration::from_secs_f64(takes);
                        waiting.push_back((passed + delay, piece.to_vec()));
                    }
                }
            },
        }
    }
    let _ = to.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::wait::{TIMEOUT, eventually, so};

    /// Answers every byte with itself.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        address
    }

    fn round_trip(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
        stream.write_all(text.as_bytes())?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn a_cut_ends_connections_and_refuses_new_ones_until_healed() {
        let link = Link::to(echo());
        let mut stream = TcpStream::connect(link.address()).unwrap();
        assert_eq!(round_trip(&mut stream, "one").unwrap(), "one");
        // What is passed on is counted afterwards.
        eventually("the bytes to be counted", TIMEOUT, || {
            let counted = (link.bytes(), link.connections());
            so(counted == ((3, 3), 1), || format!("{counted:?}"))
        });
        link.cut();
        assert!(round_trip(&mut stream, "two").is_err());
        let mut refused = TcpStream::connect(link.address()).unwrap();
        assert!(round_trip(&mut refused, "three").is_err());
        link.heal();
        assert!(round_trip(&mut stream, "four").is_err(), "a cut connection stays cut");
        eventually("a new connection", TIMEOUT, || {
            let mut stream = TcpStream::connect(link.address()).map_err(|error| error.to_string())?;
            round_trip(&mut stream, "five").map(drop).map_err(|error| error.to_string())
        });
    }

    #[test]
    fn a_stall_holds_bytes_back_and_loses_none() {
        let link = Link::to(echo());
        let mut stream = TcpStream::connect(link.address()).unwrap();
        assert_eq!(round_trip(&mut stream, "one").unwrap(), "one");
        link.stall();
        stream.write_all(b"two").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut answer = [0; 3];
        assert_eq!(stream.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(None).unwrap();
        link.heal();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"two");
    }

    #[test]
    fn a_connection_that_is_forgotten_is_silent_and_a_new_one_passes() {
        let link = Link::to(echo());
        let mut stream = TcpStream::connect(link.address()).unwrap();
        assert_eq!(round_trip(&mut stream, "one").unwrap(), "one");
        let is_silent = |stream: &mut TcpStream| {
            stream.write_all(b"two").unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stream.read(&mut [0; 3]).unwrap_err().kind() == ErrorKind::WouldBlock
        };
        link.forget();
        assert!(is_silent(&mut stream));
        let mut next = TcpStream::connect(link.address()).unwrap();
        assert_eq!(round_trip(&mut next, "three").unwrap(), "three");
        link.forget_idle(Some(Duration::from_millis(100)));
        std::thread::sleep(Duration::from_millis(300));
        assert!(is_silent(&mut next), "nothing went over it for longer than that");
    }

    #[test]
    fn some_pieces_end_their_connection() {
        let link = Link::to(echo());
        link.reset_some(100);
        let mut ended = 0;
        for _ in 0..10 {
            let mut stream = TcpStream::connect(link.address()).unwrap();
            ended += usize::from((0..20).any(|_| round_trip(&mut stream, "one").is_err()));
        }
        assert!((5..=10).contains(&ended), "{ended} of 10, each of 40 pieces");
    }

    #[test]
    fn a_delay_is_added_in_each_direction() {
        let link = Link::to(echo());
        link.delay(Duration::from_millis(60));
        let mut stream = TcpStream::connect(link.address()).unwrap();
        let begin = std::time::Instant::now();
        assert_eq!(round_trip(&mut stream, "one").unwrap(), "one");
        assert!(begin.elapsed() >= Duration::from_millis(120), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_slow_line_passes_so_many_bytes_a_second_and_little_at_a_time() {
        let link = Link::to(echo());
        link.slow_down(Some(10_000));
        let mut stream = TcpStream::connect(link.address()).unwrap();
        let begin = std::time::Instant::now();
        stream.write_all(&[7; 5_000]).unwrap();
        let (mut piece, mut pieces, mut read) = ([0; 5_000], 0, 0);
        while read < 5_000 {
            read += stream.read(&mut piece).unwrap();
            pieces += 1;
        }
        assert!(begin.elapsed() >= Duration::from_millis(500), "{:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(pieces >= 3, "{pieces} pieces");
        link.slow_down(None);
        assert_eq!(round_trip(&mut stream, "quick").unwrap(), "quick");
    }
}
