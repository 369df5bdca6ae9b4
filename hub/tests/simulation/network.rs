//! The network between sites and hub: pipes in memory with delays, and all that a bad line does to them.
//!
//! In: dials of agents ([`Line`] is a connector), and the weather, which the script sets. Out: byte streams to the hub, while there is one.
//! TLS and HTTP/2 run over them as over a real line. What is counted are writes, not bytes: the lengths of signatures in a handshake are
//! not the seed's, and a fault at a byte is one within a write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use karmada_agent::link::dial::{Connector, DialError, Io};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::crash::Fuse;
use crate::log::Log;
use crate::pipe::{self, End, Fault, Flow, Towards};

/// How dials of a site fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dials {
    /// They come through.
    #[default]
    Through,
    /// They are refused.
    Refused,
    /// Nobody answers.
    Hang,
}

/// The line of one site.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    pub dials: Dials,
    pub delay: Duration,
    /// How long a write of 16 KiB keeps the line busy.
    pub slowness: Duration,
}

/// What becomes of a site's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Both ends see it end, and what was under way is lost.
    Reset,
    /// Nobody sees anything, and nothing comes through any more.
    Silence,
    /// The agent sees it end; what was under way to the hub comes late, after a connection that the agent makes meanwhile.
    HubHearsLate(Duration),
}

#[derive(Default)]
struct State {
    weather: BTreeMap<String, Weather>,
    hub: Option<(mpsc::Sender<(String, End)>, Fuse)>,
    /// How often each site was connected.
    connected: BTreeMap<String, u64>,
    /// The connections of each site, the newest last.
    flows: BTreeMap<String, Vec<Flow>>,
    /// What the next connection of a site, or this one, meets.
    faults: BTreeMap<String, Vec<(Towards, Fault)>>,
}

/// The network. Clones are the same one.
#[derive(Clone)]
pub struct Network {
    state: Arc<Mutex<State>>,
    log: Log,
}

impl Network {
    pub fn new(log: Log) -> Self {
        Self { state: Arc::default(), log }
    }

    /// A hub listens from now on, whose `fuse` is blown where it is to end in the middle of something.
    pub fn hub_listens(&self, hub: mpsc::Sender<(String, End)>, fuse: Fuse) {
        self.state.lock().hub = Some((hub, fuse));
    }

    /// None listens any more; what is connected stays so.
    pub fn hub_closes(&self) {
        self.state.lock().hub = None;
    }

    /// None listens any more, and what was connected is gone without a word where it `vanishes`.
    pub fn hub_is_gone(&self, vanishes: bool) {
        let mut state = self.state.lock();
        state.hub = None;
        if vanishes {
            state.flows.values().flatten().for_each(Flow::silence);
        }
    }

    pub fn set_weather(&self, site: &str, weather: Weather) {
        let mut state = self.state.lock();
        state.weather.insert(site.to_owned(), weather);
        for flow in state.flows.get(site).into_iter().flatten() {
            flow.slow_down(weather.delay, weather.slowness);
        }
    }

    /// All lines are good again; connections that were silenced stay so.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.weather.clear();
        state.faults.clear();
        state
            .flows
            .values()
            .flatten()
            .for_each(|flow| flow.slow_down(Duration::from_millis(20), Duration::ZERO));
    }

    pub fn harm(&self, site: &str, harm: Harm) {
        let state = self.state.lock();
        for flow in state.flows.get(site).into_iter().flatten() {
            match harm {
                Harm::Reset => flow.reset(),
                Harm::Silence => flow.silence(),
                Harm::HubHearsLate(late) => flow.hub_hears_late(late),
            }
        }
    }

    /// The connection that there is, or the next one, meets this.
    pub fn fault(&self, site: &str, towards: Towards, fault: Fault) {
        let mut state = self.state.lock();
        let newest = state.flows.get(site).and_then(|flows| flows.last());
        match newest.filter(|flow| flow.is_open()) {
            Some(flow) => flow.fault(towards, fault),
            None => state.faults.entry(site.to_owned()).or_default().push((towards, fault)),
        }
    }

    /// How often a site was connected so far.
    pub fn connected(&self, site: &str) -> u64 {
        self.state.lock().connected.get(site).copied().unwrap_or_default()
    }

    /// Whether a site's newest connection is whole, as far as the line goes.
    pub fn is_open(&self, site: &str) -> bool {
        self.state.lock().flows.get(site).and_then(|flows| flows.last()).is_some_and(Flow::is_open)
    }

    fn dial(&self, site: &str, fuse: &Fuse) -> Result<Option<End>, ()> {
        let mut state = self.state.lock();
        let weather = state.weather.get(site).copied().unwrap_or_default();
        match weather.dials {
            Dials::Hang => return Ok(None),
            Dials::Refused => return Err(()),
            Dials::Through => {}
        }
        let (hub, hubs) = state.hub.clone().ok_or(())?;
        let (ours, theirs, flow) = pipe::pair(weather.delay, weather.slowness, (fuse.clone(), hubs));
        for (towards, fault) in state.faults.remove(site).unwrap_or_default() {
            flow.fault(towards, fault);
        }
        hub.try_send((site.to_owned(), theirs)).map_err(|_| ())?;
        let flows = state.flows.entry(site.to_owned()).or_default();
        flows.retain(|flow| !flow.is_over());
        flows.push(flow);
        *state.connected.entry(site.to_owned()).or_default() += 1;
        drop(state);
        self.log.line(format_args!("{site} is connected"));
        Ok(Some(ours))
    }
}

/// One agent's way to the hub.
pub struct Line {
    pub network: Network,
    pub site: String,
    /// Blown where the agent is to end in the middle of something.
    pub fuse: Fuse,
}

#[async_trait]
impl Connector for Line {
    async fn connect(&self, endpoint: &str) -> Result<Box<dyn Io>, DialError> {
        let tcp = |error: &str| DialError::Tcp { endpoint: endpoint.to_owned(), error: error.to_owned() };
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.fuse.holds().await;
        match self.network.dial(&self.site, &self.fuse) {
            Ok(Some(end)) => Ok(Box::new(end)),
            Ok(None) => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(tcp("no answer in 10 s"))
            }
            Err(()) => Err(tcp("refused")),
        }
    }
}
