//! What many agents cost a hub, and how soon it serves all of them.
//!
//! In: how many agents. A release hub runs as at a site; the agents are simulated in a process of their own (`simulator`), over real TLS connections. Out: rows
//! as JSON lines, with goal and met: joins, memory and traffic of idle agents, one object to all of them, statuses that change, an agent that never
//! reads, and a hub that starts anew. `cargo bench -p tests --bench fleet -- --agents 1000`; with `--grpc` sessions are carried by gRPC, and with
//! `--quick` the quiet times are short.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::api::Api;
use tests::hub::{Hub, HubOptions};
use tests::joining::Joining;
use tests::rows::{Goal, Rows};

use crate::simulator;

const NAMESPACED: &str = "/apis/apps/v1/namespaces/default/deployments";
const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
/// How long anything may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The simulator's process. It ends with its input, so with this.
struct Simulator {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Simulator {
    fn start(hub: &Hub, joining: &Joining, status: &std::path::Path, grpc: bool) -> Simulator {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.arg("--simulator").stdin(Stdio::piped()).stdout(Stdio::piped());
        command
            .env(simulator::HUB, hub.address().to_string())
            .env(simulator::TOKEN, &joining.token)
            .env(simulator::PIN, &joining.ca_hash)
            .env(simulator::STATUS, status)
            .env(simulator::GRPC, if grpc { "1" } else { "" });
        let mut child = command.spawn().expect("the simulator starts");
        let commands = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Simulator { child, commands, answers }
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.commands, "{command}").expect("the simulator runs");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the simulator answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command}: {line:?}: {error}"))
    }

    fn count(&mut self, of: &str) -> u64 {
        self.ask("counts")[of].as_u64().expect("a count")
    }

    /// How long it took until `of` was so much.
    fn until(&mut self, of: &str, least: u64, begun: Instant) -> Duration {
        let mut seen = self.count(of);
        while seen < least {
            assert!(begun.elapsed() < PATIENCE, "{of} is {seen} and not {least}");
            std::thread::sleep(Duration::from_millis(10));
            seen = self.count(of);
        }
        begun.elapsed()
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a cluster says of itself: that it serves what the hub serves of Kubernetes.
fn cluster_status(api: &Api) -> Value {
    let mut versions = vec!["v1".to_owned()];
    let groups = api.get("/apis").expect("discovery").expect("groups");
    for group in groups["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        if !name.contains("karmada.io") {
            let all = group["versions"].as_array().into_iter().flatten();
            versions.extend(all.filter_map(|version| version["groupVersion"].as_str().map(str::to_owned)));
        }
    }
    let enablement = |version: &String| {
        let path = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        let served = api.get(&path).expect("discovery").expect("resources");
        let whole = |one: &&Value| !one["name"].as_str().unwrap_or_default().contains('/');
        let all = served["resources"].as_array().into_iter().flatten().filter(whole);
        let resources: Vec<Value> =
            all.map(|one| json!({"name": one["name"], "kind": one["kind"]})).collect();
        json!({"groupVersion": version, "resources": resources})
    };
    json!({
        "kubernetesVersion": "v1.36.3",
        "apiEnablements": versions.iter().map(enablement).collect::<Vec<_>>(),
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy and ready to accept workloads"},
            {"type": "CompleteAPIEnablements", "status": "True", "reason": "Complete", "message": "the API enablements are complete"},
        ],
        "nodeSummary": {"totalNum": 3, "readyNum": 3},
        "resourceSummary": {"allocatable": {"cpu": "12", "memory": "48Gi", "pods": "330"}, "allocated": {"cpu": "2", "memory": "4Gi", "pods": "30"}},
    })
}

fn deployment(name: &str, place: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"place": place}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.29"}]}}},
    })
}

/// Everything of label `place` goes to every cluster.
fn everywhere(place: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": place, "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"place": place}}}],
            "placement": {"clusterAffinity": {}}},
    })
}

/// A hub and its agents.
struct Bench {
    hub: Hub,
    simulator: Simulator,
    count: u64,
    rows: Rows,
    quiet: Duration,
    _status: tempfile::NamedTempFile,
}

/// Measures `count` agents.
pub fn run(count: usize, grpc: bool, quick: bool) {
    let mut hub = Hub::start(HubOptions::default());
    let joining = Joining::on(&hub);
    let mut status = tempfile::NamedTempFile::new().expect("a file");
    status.write_all(cluster_status(hub.api()).to_string().as_bytes()).expect("the file takes it");
    let mut simulator = Simulator::start(&hub, &joining, status.path(), grpc);
    let before = resident(&mut hub);
    let quiet = Duration::from_secs(if quick { 10 } else { 60 });
    let joined = simulator.ask(&format!("join {count}"));
    assert_eq!(joined["refused"], json!([]), "every agent joins");
    let mut rows = Rows::default();
    let seconds = joined["connected"].as_f64().expect("a time");
    rows.add(
        &format!("{count} joins, each until its session stands"),
        seconds * 1e3 / count as f64,
        "ms",
        "-",
        Goal::AtMost(10.0),
    );
    let mut bench = Bench { hub, simulator, count: count as u64, rows, quiet, _status: status };
    bench.one_to_all("first", "one object to all agents");
    bench.idle(before, grpc, quick);
    bench.changing_statuses();
    bench.one_to_all("second", "one object more to all agents");
    bench.deaf();
    bench.restart();
    bench.rows.table();
    bench.hub.stop();
}

fn resident(hub: &mut Hub) -> f64 {
    hub.process().expect("the hub runs").resident_kib() as f64
}

/// CPU time of the hub so far, in seconds.
fn cpu(hub: &mut Hub) -> f64 {
    hub.process().expect("the hub runs").processor_time().as_secs_f64()
}

impl Bench {
    /// A Deployment and its policy, until each agent that reads has it.
    fn one_to_all(&mut self, name: &str, row: &str) {
        let readers = self.count - u64::from(name == "third");
        let before = self.simulator.count("taken");
        let cpu_before = cpu(&mut self.hub);
        self.hub.api().create(POLICIES, &everywhere(name)).expect("the hub takes the policy");
        let begun = Instant::now();
        self.hub.api().create(NAMESPACED, &deployment(name, name)).expect("the hub takes the Deployment");
        let took = self.simulator.until("taken", before + readers, begun).as_secs_f64();
        let goal = Goal::AtMost((6.0 * self.count as f64 / 10_000.0).max(1.0));
        self.rows.add(row, took, "s", "-", goal);
        self.ready(name, readers, begun);
        let each = (cpu(&mut self.hub) - cpu_before) * 1e3 / self.count as f64;
        self.rows.add(
            &format!("{row}: CPU of the hub for each, statuses and all"),
            each,
            "ms",
            "-",
            Goal::AtMost(2.0),
        );
    }

    /// Until the template says that so many sites are ready.
    fn ready(&mut self, name: &str, sites: u64, begun: Instant) {
        loop {
            let object = self.hub.api().get(&format!("{NAMESPACED}/{name}")).expect("the hub answers");
            let ready =
                object.and_then(|object| object.pointer("/status/readyReplicas")?.as_u64()).unwrap_or(0);
            if ready >= sites {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{ready} of {sites} are ready");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Agents that have nothing to say, each with one Work.
    fn idle(&mut self, before: f64, grpc: bool, quick: bool) {
        // The history that is kept for watchers of the past goes after five minutes.
        std::thread::sleep(if quick { self.quiet } else { Duration::from_secs(330) });
        let each = |bench: &mut Bench| (resident(&mut bench.hub) - before) / bench.count as f64;
        let (memory, goal) = (each(self), if grpc { 48.0 } else { 24.0 });
        let carried = if grpc { "gRPC" } else { "frames without HTTP" };
        let row = format!("hub memory for each of {} idle agents with one Work, {carried}", self.count);
        self.rows.add(&row, memory, "KB", "-", Goal::AtMost(goal));
        let traffic = |bench: &mut Bench| bench.simulator.count("received") + bench.simulator.count("sent");
        let (bytes, used) = (traffic(self), cpu(&mut self.hub));
        std::thread::sleep(self.quiet);
        let minutes = self.quiet.as_secs_f64() / 60.0;
        let kilobytes = (traffic(self) - bytes) as f64 / 1024.0 / self.count as f64 / minutes;
        self.rows.add("idle agent, TLS bytes both ways a minute", kilobytes, "KB", "-", Goal::AtMost(0.1));
        let share = (cpu(&mut self.hub) - used) / self.quiet.as_secs_f64() * 100.0;
        self.rows.add("hub with idle agents, of one core", share, "%", "-", Goal::AtMost(5.0));
    }

    /// One agent in a hundred tells another status each second.
    fn changing_statuses(&mut self) {
        let seconds = if self.quiet < Duration::from_secs(60) { 10 } else { 30 };
        let changes = (self.count / 100).max(1);
        let version = |bench: &Bench| {
            let binding =
                bench.hub.api().get(&format!("{BINDINGS}/first-deployment")).expect("the hub answers");
            binding.map(|binding| binding["metadata"]["resourceVersion"].clone())
        };
        let (used, begun) = (cpu(&mut self.hub), Instant::now());
        let (mut writes, mut last) = (0, version(self));
        for second in 1..=seconds {
            self.simulator.ask(&format!("report {changes}"));
            while begun.elapsed() < Duration::from_secs(second) {
                std::thread::sleep(Duration::from_millis(50));
                let now = version(self);
                writes += u64::from(now != last);
                last = now;
            }
        }
        let each = (cpu(&mut self.hub) - used) * 1e3 / (changes * seconds) as f64;
        self.rows.add(
            "1 % of agents changing status each second: CPU of the hub for each",
            each,
            "ms",
            "-",
            Goal::AtMost(1.0),
        );
        let rate = writes as f64 / seconds as f64;
        self.rows.add(
            "writes a second of a binding over all of them meanwhile",
            rate,
            "writes",
            "-",
            Goal::AtMost(1.0),
        );
    }

    /// One agent reads nothing more: all others are served as before.
    fn deaf(&mut self) {
        self.simulator.ask("deaf 1");
        self.one_to_all("third", "one object to all agents but one that never reads");
    }

    /// The hub is killed and starts anew.
    fn restart(&mut self) {
        let sessions = self.simulator.count("sessions");
        let bytes = self.simulator.count("received") + self.simulator.count("sent");
        let begun = Instant::now();
        self.hub.start_again();
        let up = begun.elapsed().as_secs_f64();
        let back = self.simulator.until("sessions", sessions + self.count - 1, begun).as_secs_f64();
        self.rows.add(
            "the hub is killed and starts anew: until all are back",
            back,
            "s",
            &format!("{up:.1} s until it answers"),
            Goal::AtMost(60.0),
        );
        std::thread::sleep(Duration::from_secs(5));
        let bytes = self.simulator.count("received") + self.simulator.count("sent") - bytes;
        let each = bytes as f64 / 1024.0 / self.count as f64;
        self.rows.add(
            "what that costs an agent on the wire, with its handshake",
            each,
            "KB",
            "-",
            Goal::AtMost(6.0),
        );
    }
}
