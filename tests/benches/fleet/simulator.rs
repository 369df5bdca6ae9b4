//! The process of the simulated agents, apart from the hub's and the bench's.
//!
//! In: the hub's address, a token, a pin and a status for all clusters (environment), and a command a line on standard input: `join N` (joins and
//! connects so many more; answered once all stand), `report N` (so many agents tell other statuses), `deaf N` (so many read nothing more), `counts`. Out: a
//! line of JSON for each. It ends with its input.

use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use karmada_agent::join::{self, Ask};
use karmada_agent::link::dial::Transports;
use karmada_agent::{ClockAndRandom, LinkView};
use karmada_certs::{ClientKey, JoinToken};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::counted_connection::{Counted, Traffic};
use crate::simulated_agent::{Counters, Orders, SimulatedAgent};

/// What the bench tells its simulator, as variables.
pub const HUB: &str = "SIMULATOR_HUB";
pub const TOKEN: &str = "SIMULATOR_TOKEN";
pub const PIN: &str = "SIMULATOR_PIN";
pub const STATUS: &str = "SIMULATOR_CLUSTER_STATUS";
pub const GRPC: &str = "SIMULATOR_GRPC";

/// Joins under way at once: sites come one by one, not as one crowd.
const JOINS: usize = 16;

struct Simulator {
    hub: String,
    token: JoinToken,
    pin: String,
    transports: Transports,
    cluster_status: bytes::Bytes,
    traffic: Arc<Traffic>,
    counters: Arc<Counters>,
    orders: Vec<Arc<Orders>>,
    /// Who is next to report.
    turn: usize,
}

/// Runs until its input ends.
pub async fn run() {
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let mut simulator = Simulator {
        hub: told(HUB),
        token: JoinToken::parse(&told(TOKEN)).expect("a token"),
        pin: told(PIN),
        transports: if told(GRPC).is_empty() { Transports::BareOrGrpc } else { Transports::Grpc },
        cluster_status: std::fs::read(told(STATUS)).expect("the clusters' status").into(),
        traffic: Arc::default(),
        counters: Arc::default(),
        orders: Vec::new(),
        turn: 0,
    };
    let (lines, mut commands) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = commands.recv().await {
        let (command, count) = line.split_once(' ').unwrap_or((&line, "0"));
        let count = count.parse().unwrap_or(0);
        let answer = match command {
            "join" => simulator.join(count).await,
            "report" => simulator.report(count),
            "deaf" => simulator.deafen(count),
            _ => simulator.counts(),
        };
        println!("{answer}");
    }
}

impl Simulator {
    fn counts(&self) -> Value {
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        json!({
            "connected": of(&self.counters.connected),
            "sessions": of(&self.counters.sessions),
            "taken": of(&self.counters.taken),
            "removed": of(&self.counters.removed),
            "received": of(&self.traffic.received),
            "sent": of(&self.traffic.sent),
        })
    }

    async fn join(&mut self, count: usize) -> Value {
        let begun = Instant::now();
        let places = Arc::new(Semaphore::new(JOINS));
        let first = self.orders.len();
        let mut joining = tokio::task::JoinSet::new();
        for number in first..first + count {
            let orders = Arc::new(Orders::default());
            self.orders.push(orders.clone());
            let ask = Ask {
                endpoints: vec![self.hub.clone()],
                token: self.token.clone(),
                pins: self.pin.parse().into_iter().collect(),
                cluster_name: format!("site-{number:06}"),
                cluster_uid: format!("00000000-0000-4000-8000-{number:012}"),
                provider: String::new(),
                region: String::new(),
                zones: Vec::new(),
                patience: Duration::from_secs(60),
                sources: ClockAndRandom::system(),
            };
            let (transports, status, places) = (self.transports, self.cluster_status.clone(), places.clone());
            let (traffic, counters) = (self.traffic.clone(), self.counters.clone());
            joining.spawn(async move {
                let _place = places.acquire_owned().await;
                let key = ClientKey::generate().expect("a key");
                let (link, _) = watch::channel(LinkView::default());
                let connector = Counted::of(number as u64, traffic.clone());
                let identity = match Box::pin(join::join(&connector, &key, &ask, &link)).await {
                    Ok(identity) => identity,
                    Err(error) => return Err(format!("{}: {error}", ask.cluster_name)),
                };
                let agent = SimulatedAgent {
                    identity,
                    endpoint: ask.endpoints[0].clone(),
                    transports,
                    number: number as u64,
                    cluster_status: status,
                    traffic,
                    counters,
                    orders,
                };
                tokio::spawn(agent.run());
                Ok(())
            });
        }
        let mut refused = Vec::new();
        while let Some(joined) = joining.join_next().await {
            refused.extend(joined.expect("no join panics").err());
        }
        let joined = begun.elapsed().as_secs_f64();
        let all = (self.orders.len() - refused.len()) as u64;
        while self.counters.connected.load(Ordering::Relaxed) < all
            && begun.elapsed() < Duration::from_secs(1800)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        refused.truncate(3);
        json!({"joined": joined, "connected": begun.elapsed().as_secs_f64(), "refused": refused})
    }

    /// So many agents, in turn, tell other statuses of what they hold.
    fn report(&mut self, count: usize) -> Value {
        for _ in 0..count {
            let orders = &self.orders[self.turn % self.orders.len()];
            self.turn += 1;
            orders.reports.store(true, Ordering::Relaxed);
            orders.bell.notify_one();
        }
        json!({"reported": count})
    }

    /// The last so many agents read nothing more.
    fn deafen(&self, count: usize) -> Value {
        for orders in self.orders.iter().rev().take(count) {
            orders.is_deaf.store(true, Ordering::Relaxed);
            orders.bell.notify_one();
        }
        json!({"deaf": count})
    }
}
