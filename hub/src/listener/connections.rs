//! Who is connected, from where, and since when nothing was asked: what bounds how much of the port one address takes.
//!
//! In: connections as they come and go, requests as they begin and end, time. Out: whether a connection may come, which one goes for
//! it, and when one has been idle for too long, or its answers not taken. Who shows a certificate of the hub's and has a request or a
//! session under way is never sent away; whoever shows none goes before that keeps anybody out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::settings::PortPatience;

/// File descriptors that are kept for everything else: the store, logs, calls of webhooks.
const KEPT_FREE: u64 = 128;

/// Of these, what connections may hold that were sent away and have not closed their socket yet.
const LEAVING: usize = 64;

/// An answer of which nothing is taken for this long breaks off, with its connection.
pub const UNTAKEN: Duration = Duration::from_secs(60);

/// Every connection of the port.
pub struct Connections {
    started: Instant,
    per_address: usize,
    all: usize,
    patience: PortPatience,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: BTreeMap<(IpAddr, u64), State>,
}

struct State {
    requests: usize,
    /// Since when it is idle, or busy.
    since: Duration,
    /// Whether it shows a certificate of the hub's.
    is_known: bool,
    /// Whether it was sent away.
    leaves: bool,
    leave: CancellationToken,
}

/// One connection's place; given back when dropped.
pub struct ConnectionPermit {
    connections: Arc<Connections>,
    key: (IpAddr, u64),
    /// Since when the peer is waited for, by answer.
    waiting: Mutex<BTreeMap<u64, Duration>>,
    /// Cancelled when it must make room.
    pub leave: CancellationToken,
}

/// A request under way, until the end of its answer.
pub struct Busy(Arc<ConnectionPermit>);

impl Connections {
    /// At most so many of one address (0: any number), and in all as many as the process may open files.
    pub fn new(per_address: usize, patience: PortPatience) -> Arc<Connections> {
        Connections::bounded(per_address, files(), patience)
    }

    fn bounded(per_address: usize, all: usize, patience: PortPatience) -> Arc<Connections> {
        // One address never has all of the port.
        let per_address = if per_address == 0 { all } else { per_address.min(all.div_ceil(2)) };
        Arc::new(Connections { started: Instant::now(), per_address, all, patience, open: Mutex::default() })
    }

    /// A place for a connection. Where there are too many of its address, or in all, another one goes for it; `None` where none can.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Arc<ConnectionPermit>> {
        let from = network(from);
        let now = self.started.elapsed();
        let mut open = self.open.lock();
        let of_address = open.connections.range((from, 0)..=(from, u64::MAX)).count();
        if of_address >= self.per_address && !open.make_room(Some(from)) {
            return None;
        }
        if open.connections.len() >= self.all && !open.make_room(None) {
            return None;
        }
        let key = (from, open.next);
        open.next += 1;
        let leave = CancellationToken::new();
        let state = State { requests: 0, since: now, is_known: false, leaves: false, leave: leave.clone() };
        open.connections.insert(key, state);
        drop(open);
        Some(Arc::new(ConnectionPermit { connections: self.clone(), key, waiting: Mutex::default(), leave }))
    }

    /// Lets a connection go, whoever it is: the system gives no more.
    pub fn make_room(&self) {
        self.open.lock().make_room(None);
    }
}

impl Open {
    /// Sends one away: the one that has been idle longest, strangers first; else, of strangers that are busy, the one that has been for
    /// longest, of the address that has most of them. True where one goes.
    fn make_room(&mut self, of: Option<IpAddr>) -> bool {
        if self.connections.values().filter(|state| state.leaves).count() >= LEAVING {
            return false;
        }
        let idle = |state: &State| state.requests == 0;
        let longest_idle = self.staying(of).filter(|(_, state)| idle(state));
        let longest_idle = longest_idle.min_by_key(|(_, state)| (state.is_known, state.since));
        let Some(key) = longest_idle.map(|(key, _)| *key).or_else(|| self.busy_stranger(of)) else {
            return false;
        };
        if let Some(state) = self.connections.get_mut(&key) {
            state.leaves = true;
            state.leave.cancel();
        }
        true
    }

    fn staying(&self, of: Option<IpAddr>) -> impl Iterator<Item = (&(IpAddr, u64), &State)> {
        self.connections
            .iter()
            .filter(move |((from, _), state)| !state.leaves && of.is_none_or(|of| of == *from))
    }

    fn busy_stranger(&self, of: Option<IpAddr>) -> Option<(IpAddr, u64)> {
        let strangers = || self.staying(of).filter(|(_, state)| !state.is_known);
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        strangers().for_each(|((from, _), _)| *by_address.entry(*from).or_default() += 1);
        let (most, _) = by_address.into_iter().max_by_key(|(_, count)| *count)?;
        let of_most = strangers().filter(|((from, _), _)| *from == most);
        of_most.min_by_key(|(_, state)| state.since).map(|(key, _)| *key)
    }
}

impl ConnectionPermit {
    /// A request begins.
    pub fn begin(self: &Arc<Self>) -> Busy {
        let now = self.connections.started.elapsed();
        if let Some(state) = self.connections.open.lock().connections.get_mut(&self.key) {
            if state.requests == 0 {
                state.since = now;
            }
            state.requests += 1;
        }
        Busy(self.clone())
    }

    /// How long the port waits for it.
    pub fn port(&self) -> PortPatience {
        self.connections.patience
    }

    /// It shows a certificate of the hub's.
    pub fn is_known(&self) {
        if let Some(state) = self.connections.open.lock().connections.get_mut(&self.key) {
            state.is_known = true;
        }
    }

    /// From now on the peer is waited for, to take what there is of an answer.
    pub fn waits(&self, answer: u64) {
        self.waiting.lock().insert(answer, self.connections.started.elapsed());
    }

    /// The peer has taken what there was of an answer.
    pub fn took(&self, answer: u64) {
        self.waiting.lock().remove(&answer);
    }

    /// Whether nothing of an answer was taken for too long.
    pub fn is_untaken(&self) -> bool {
        let now = self.connections.started.elapsed();
        self.waiting.lock().values().any(|since| now.saturating_sub(*since) >= UNTAKEN)
    }

    /// How long it may still be idle; `None` while it is not.
    pub fn patience(&self) -> Option<Duration> {
        let open = self.connections.open.lock();
        let state = open.connections.get(&self.key).filter(|state| state.requests == 0)?;
        Some((state.since + self.port().idle).saturating_sub(self.connections.started.elapsed()))
    }

    /// Resolves when it has been idle for too long, or what it asked for is not taken.
    pub async fn idled(&self) {
        loop {
            match self.patience() {
                Some(Duration::ZERO) => return,
                _ if self.is_untaken() => return,
                // A request on its way out is looked for again later.
                left => tokio::time::sleep(left.unwrap_or(UNTAKEN.min(self.port().idle))).await,
            }
        }
    }
}

impl Busy {
    /// Where the request is.
    pub fn place(&self) -> &ConnectionPermit {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let place = &self.0;
        let now = place.connections.started.elapsed();
        if let Some(state) = place.connections.open.lock().connections.get_mut(&place.key) {
            state.requests -= 1;
            state.since = now;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.open.lock().connections.remove(&self.key);
    }
}

/// Whoever has an IPv6 address has all of its network's.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

/// How many connections the process may hold open: its limit of files, raised as far as it goes.
fn files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    };
    let most = current.unwrap_or(1 << 20).saturating_sub(KEPT_FREE).max(16);
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[tokio::test(start_paused = true)]
    async fn above_the_cap_the_longest_idle_of_the_address_goes() {
        let all = Connections::bounded(3, 100, PortPatience::default());
        let enter = || all.enter(address(1));
        let one = enter().unwrap();
        let other = all.enter(address(2)).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let (two, three) = (enter().unwrap(), enter().unwrap());
        for known in [&one, &three] {
            known.is_known();
        }
        let busy = one.begin();
        let four = enter().unwrap();
        four.is_known();
        assert!(two.leave.is_cancelled(), "the first is busy, so the second goes");
        assert!(!one.leave.is_cancelled() && !three.leave.is_cancelled() && !other.leave.is_cancelled());
        drop(two);
        let more = [three.begin(), four.begin()];
        assert!(enter().is_none(), "no busy one goes that is known");
        assert!(all.enter(address(3)).is_some(), "another address has its own places");
        drop(more);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(busy);
        enter().unwrap();
        assert!(three.leave.is_cancelled() && !one.leave.is_cancelled(), "who ended last stays");
    }

    #[tokio::test(start_paused = true)]
    async fn busy_strangers_keep_nobody_out() {
        let all = Connections::bounded(100, 8, PortPatience::default());
        let flood: Vec<_> = (0..4).map(|_| all.enter(address(1)).unwrap()).collect();
        let busy: Vec<_> = flood.iter().map(ConnectionPermit::begin).collect();
        let guest = all.enter(address(2)).unwrap();
        let (agent, also) = (all.enter(address(3)).unwrap(), all.enter(address(3)).unwrap());
        let theirs = [guest.begin(), agent.begin(), also.begin()];
        agent.is_known();
        also.is_known();
        let fifth = all.enter(address(1)).unwrap();
        assert!(
            flood[0].leave.is_cancelled(),
            "one address has half of the port, its own longest goes above that"
        );
        assert!(all.enter(address(4)).is_some(), "whoever comes has a place");
        assert!(fifth.leave.is_cancelled(), "who asks nothing goes first");
        assert!(all.enter(address(5)).is_some());
        assert!(!guest.leave.is_cancelled() && !agent.leave.is_cancelled() && !also.leave.is_cancelled());
        drop((busy, theirs));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_sent_away_and_does_not_go_counts() {
        let all = Connections::bounded(0, 200, PortPatience::default());
        let held: Vec<_> = (0..=255).map(|last| all.enter(address(last))).collect();
        let inside = held.iter().filter(|place| place.is_some()).count();
        assert_eq!(inside, 200 + 56, "newcomers come as others are sent away");
        let more: Vec<_> = (0..=255).map(|last| all.enter(address(last))).collect();
        let more = more.iter().filter(|place| place.is_some()).count();
        assert_eq!(inside + more, 200 + LEAVING, "and no more before those have gone");
        drop(held);
        assert!(all.enter(address(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_ends_its_connection() {
        let all = Connections::bounded(9, 9, PortPatience::default());
        let place = all.enter(address(1)).unwrap();
        let _busy = place.begin();
        place.waits(7);
        tokio::time::advance(UNTAKEN / 2).await;
        place.took(7);
        assert!(
            tokio::time::timeout(UNTAKEN * 5, place.idled()).await.is_err(),
            "a watch that waits for news"
        );
        place.waits(7);
        let start = Instant::now();
        place.idled().await;
        assert!(start.elapsed() >= UNTAKEN && start.elapsed() <= UNTAKEN * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn in_all_there_are_as_many_as_files_and_places_come_back() {
        let all = Connections::bounded(0, 2, PortPatience::default());
        let (one, two) = (all.enter(address(1)).unwrap(), all.enter(address(2)).unwrap());
        one.is_known();
        two.is_known();
        let busy = [one.begin(), two.begin()];
        assert!(all.enter(address(3)).is_none());
        drop((busy, one));
        assert!(all.enter(address(3)).is_some() && !two.leave.is_cancelled());
        assert!(files() >= 16);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_goes_and_who_is_answered_stays() {
        let all = Connections::bounded(9, 9, PortPatience::default());
        let place = all.enter(address(1)).unwrap();
        let (start, idle) = (Instant::now(), PortPatience::default().idle);
        let busy = place.begin();
        assert_eq!(place.patience(), None);
        assert!(tokio::time::timeout(idle * 10, place.idled()).await.is_err());
        drop(busy);
        let ended = start.elapsed();
        place.idled().await;
        assert!(start.elapsed() - ended >= idle && start.elapsed() - ended <= idle * 2);
    }

    #[test]
    fn one_network_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:0:1:2:3:4:5"), of("2001:db8:0:1:9::"));
        assert_ne!(of("2001:db8:0:1::"), of("2001:db8:0:2::"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
