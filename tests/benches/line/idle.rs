//! What an agent costs that has nothing to do: bytes and packets on its socket, and the hub's memory for many of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use karmada_agent::identity::IdentityStore;
use karmada_agent::link::dial::{Tcp, Transports};
use karmada_agent::member::memory::MemoryMember;
use karmada_agent::{Config, LinkView, Parts};
use karmada_certs::JoinToken;
use tests::hub::{Hub, HubOptions};
use tokio_util::sync::CancellationToken;

use crate::footprint::resident;
use crate::site::Site;
use tests::joining::Joining;
use tests::rows::{Goal, Rows};

/// Counters of one socket, both directions together.
#[derive(Clone, Copy, Default)]
struct Counters {
    bytes: u64,
    packets: u64,
}

/// Reads the kernel's counters of an agent's connection to the hub (`ss -ti`).
fn counters(pid: u32, port: u16) -> Counters {
    let output = Command::new("ss")
        .args(["-tinpHO", "state", "established", &format!("( dport = :{port} )")])
        .output()
        .expect("ss is installed (iproute2)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut sum = Counters::default();
    for line in text.lines().filter(|line| line.contains(&format!("pid={pid},"))) {
        let fields: BTreeMap<&str, u64> = line
            .split_whitespace()
            .filter_map(|field| field.split_once(':'))
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect();
        let field = |name: &str| fields.get(name).copied().unwrap_or(0);
        sum.bytes += field("bytes_sent") + field("bytes_received");
        sum.packets += field("segs_out") + field("segs_in");
    }
    sum
}

/// Bytes and packets of each agent over a quiet time.
pub fn traffic(rows: &mut Rows, site: &mut Site, quiet: Duration) {
    // What the burst left to say is said first.
    std::thread::sleep(quiet.min(Duration::from_secs(30)));
    let port = site.hub.address().port();
    let ids: Vec<u32> = site.agents.iter_mut().filter_map(|agent| agent.process().map(|p| p.id())).collect();
    let before: Vec<Counters> = ids.iter().map(|id| counters(*id, port)).collect();
    std::thread::sleep(quiet);
    let minutes = quiet.as_secs_f64() / 60.0;
    let (mut bytes, mut packets) = (Vec::new(), Vec::new());
    for (id, before) in ids.iter().zip(before) {
        let after = counters(*id, port);
        bytes.push((after.bytes.saturating_sub(before.bytes)) as f64 / 1024.0 / minutes);
        packets.push((after.packets.saturating_sub(before.packets)) as f64 / minutes);
    }
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    rows.add(
        "idle agent, TLS bytes both ways a minute",
        most(&bytes),
        "KB",
        "Karmada 8 KB of payload",
        Goal::AtMost(0.5),
    );
    rows.add(
        "idle agent, packets both ways a minute",
        most(&packets),
        "packets",
        "Karmada 54",
        Goal::AtMost(6.0),
    );
}

/// The hub's memory for each of many idle agents, over real TLS, by what carries their sessions: soon after they joined, and once `idle` has
/// passed and what is kept for watchers of the past has gone. The agents are the real ones, on members in memory.
pub fn fleet(rows: &mut Rows, count: usize, quiet: Duration, idle: Duration) {
    let (bare, grpc) =
        ((Transports::BareOrGrpc, "frames without HTTP", 24.0), (Transports::Grpc, "gRPC", 48.0));
    for (transports, carried, goal) in [bare, grpc] {
        let mut hub = Hub::start(HubOptions::default());
        let joining = Joining::on(&hub);
        std::thread::sleep(quiet);
        let before = resident(hub.process());
        let stop = CancellationToken::new();
        let folder = tempfile::tempdir().expect("a folder for identities");
        let site = Fleet { hub: &hub, joining: &joining, folder: folder.path(), transports, stop: &stop };
        let connected = tests::runtime().block_on(join_all(&site, count));
        assert_eq!(connected, count, "every agent connects");
        let mut each = || (resident(hub.process()) - before) * 1024.0 / count as f64;
        std::thread::sleep(quiet);
        let fresh = each();
        std::thread::sleep(idle + quiet);
        rows.add(
            &format!("hub memory for each of {count} idle agents, {carried}"),
            each(),
            "KB",
            &format!("{fresh:.0} KB just after they joined; a bare mTLS h2 stream 33 KB"),
            Goal::AtMost(goal),
        );
        stop.cancel();
        hub.stop();
    }
}

/// Agents of one hub.
struct Fleet<'a> {
    hub: &'a Hub,
    joining: &'a Joining,
    /// For identities.
    folder: &'a std::path::Path,
    transports: Transports,
    stop: &'a CancellationToken,
}

async fn join_all(fleet: &Fleet<'_>, count: usize) -> usize {
    let mut connected = 0;
    // A few at a time: what is measured is memory, not a stampede.
    for batch in (0..count).collect::<Vec<_>>().chunks(20) {
        let mut links = Vec::new();
        for number in batch {
            links.push(start(fleet, *number));
        }
        for mut link in links {
            let up = link.wait_for(|view| matches!(view, LinkView::Connected { .. }));
            if matches!(tokio::time::timeout(Duration::from_secs(60), up).await, Ok(Ok(_))) {
                connected += 1;
            }
        }
    }
    connected
}

fn start(fleet: &Fleet<'_>, number: usize) -> tokio::sync::watch::Receiver<LinkView> {
    let Fleet { hub, joining, folder, transports, stop } = *fleet;
    let name = format!("fleet-{number}");
    let directory = folder.join(&name);
    std::fs::create_dir_all(&directory).expect("a folder for an identity");
    let (link, seen) = tokio::sync::watch::channel(LinkView::default());
    let config = Config {
        hub: vec![hub.address().to_string()],
        token: JoinToken::parse(&joining.token).ok(),
        pins: joining.ca_hash.parse().into_iter().collect(),
        cluster_name: name.clone(),
        transports,
        ..Config::default()
    };
    let parts = Parts {
        member: Arc::new(MemoryMember::new(&name, 1, Duration::from_millis(100))),
        interpreter: Arc::new(karmada_interpreter::Native),
        connector: Arc::new(Tcp),
        identity_store: IdentityStore::Directory(directory),
        link,
        sources: karmada_agent::ClockAndRandom::system(),
    };
    let stop = stop.clone();
    tests::runtime().spawn(async move {
        if let Err(error) = Box::pin(karmada_agent::run(config, parts, stop)).await {
            eprintln!("{name}: {error}");
        }
    });
    seen
}
