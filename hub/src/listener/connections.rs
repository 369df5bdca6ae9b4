//! Who is connected, from where, and since when nothing was asked: what bounds how much of the port one address takes.
//!
//! In: connections as they come and go, requests as they begin and end, time. Out: whether a connection may come, which one goes for
//! it, and when one has been idle for too long. A connection with a request or a session on it is never sent away.

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
    idle_since: Duration,
    leave: CancellationToken,
}

/// One connection's place; given back when dropped.
pub struct Place {
    connections: Arc<Connections>,
    key: (IpAddr, u64),
    /// Cancelled when it must make room.
    pub leave: CancellationToken,
}

/// A request under way, until the end of its answer.
pub struct Busy(Arc<Place>);

impl Connections {
    /// At most so many of one address (0: any number), and in all as many as the process may open files.
    pub fn new(per_address: usize, patience: PortPatience) -> Arc<Connections> {
        Connections::bounded(per_address, files(), patience)
    }

    fn bounded(per_address: usize, all: usize, patience: PortPatience) -> Arc<Connections> {
        let per_address = if per_address == 0 { all } else { per_address };
        Arc::new(Connections { started: Instant::now(), per_address, all, patience, open: Mutex::default() })
    }

    /// A place for a connection. Where there are too many of its address, or in all, the one that has been idle longest goes for
    /// it; `None` where every one of them is busy.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Arc<Place>> {
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
        open.connections.insert(key, State { requests: 0, idle_since: now, leave: leave.clone() });
        drop(open);
        Some(Arc::new(Place { connections: self.clone(), key, leave }))
    }

    /// Lets the connection go that has been idle longest, whoever it is: the system gives no more.
    pub fn make_room(&self) {
        self.open.lock().make_room(None);
    }
}

impl Open {
    /// True where one goes.
    fn make_room(&mut self, of: Option<IpAddr>) -> bool {
        let idle = self
            .connections
            .iter()
            .filter(|((from, _), state)| state.requests == 0 && of.is_none_or(|of| of == *from));
        let Some(key) = idle.min_by_key(|(_, state)| state.idle_since).map(|(key, _)| *key) else {
            return false;
        };
        if let Some(state) = self.connections.remove(&key) {
            state.leave.cancel();
        }
        true
    }
}

impl Place {
    /// A request begins.
    pub fn begin(self: &Arc<Self>) -> Busy {
        if let Some(state) = self.connections.open.lock().connections.get_mut(&self.key) {
            state.requests += 1;
        }
        Busy(self.clone())
    }

    /// How long the port waits for it.
    pub fn port(&self) -> PortPatience {
        self.connections.patience
    }

    /// How long it may still be idle; `None` while it is not.
    pub fn patience(&self) -> Option<Duration> {
        let open = self.connections.open.lock();
        let state = open.connections.get(&self.key).filter(|state| state.requests == 0)?;
        Some((state.idle_since + self.port().idle).saturating_sub(self.connections.started.elapsed()))
    }

    /// Resolves when it has been idle for too long.
    pub async fn idled(&self) {
        loop {
            match self.patience() {
                Some(Duration::ZERO) => return,
                // A request on its way out is looked for again later.
                left => tokio::time::sleep(left.unwrap_or(self.port().idle)).await,
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let place = &self.0;
        let now = place.connections.started.elapsed();
        if let Some(state) = place.connections.open.lock().connections.get_mut(&place.key) {
            state.requests -= 1;
            state.idle_since = now;
        }
    }
}

impl Drop for Place {
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
        let busy = one.begin();
        let four = enter().unwrap();
        assert!(two.leave.is_cancelled(), "the first is busy, so the second goes");
        assert!(!one.leave.is_cancelled() && !three.leave.is_cancelled() && !other.leave.is_cancelled());
        let more = [three.begin(), four.begin()];
        assert!(enter().is_none(), "no busy one goes");
        assert!(all.enter(address(3)).is_some(), "another address has its own places");
        drop(more);
        drop(two);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(busy);
        enter().unwrap();
        assert!(three.leave.is_cancelled() && !one.leave.is_cancelled(), "who ended last stays");
    }

    #[tokio::test(start_paused = true)]
    async fn in_all_there_are_as_many_as_files_and_places_come_back() {
        let all = Connections::bounded(0, 2, PortPatience::default());
        let (one, two) = (all.enter(address(1)).unwrap(), all.enter(address(2)).unwrap());
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
