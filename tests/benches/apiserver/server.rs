//! The two that are compared, and what is done to both alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tests::hub::{Hub, HubOptions};
use tests::member::{Member, MemberOptions};
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wire::Wire;

/// One server under load.
pub enum Server {
    /// A hub without its control loops.
    Ours(Box<Hub>),
    /// kube-apiserver and etcd.
    Theirs(Box<Member>),
}

impl Server {
    /// A hub.
    pub fn ours() -> Server {
        let options =
            HubOptions { args: vec!["--controllers=none".into()], env: Vec::new(), ..HubOptions::default() };
        Server::Ours(Box::new(Hub::start(options)))
    }

    /// A kube-apiserver as in production.
    pub fn theirs() -> Server {
        // As Karmada runs it; no controller makes the ServiceAccounts that the plugin would wait for.
        let plugins =
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection";
        let apiserver_args = vec![plugins.to_owned()];
        let options = MemberOptions { apiserver_args, production: true, ..MemberOptions::bare("peer") };
        Server::Theirs(Box::new(Member::start(options)))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Ours(hub) => hub.kubeconfig(),
            Server::Theirs(member) => member.kubeconfig(),
        }
    }

    /// Resident memory of all its processes, in MB.
    pub fn resident(&mut self) -> f64 {
        let kib = match self {
            Server::Ours(hub) => hub.process().expect("the hub runs").resident_kib(),
            Server::Theirs(member) => member.resident_kib(),
        };
        kib as f64 / 1024.0
    }

    /// Ends it, then starts it on what it has stored: how long that takes until it is ready.
    pub fn restart(&mut self) -> Duration {
        match self {
            Server::Ours(hub) => hub.stop(),
            Server::Theirs(member) => member.stop(),
        }
        let from = Instant::now();
        match self {
            Server::Ours(hub) => hub.start_again(),
            Server::Theirs(member) => member.start_again(),
        }
        from.elapsed()
    }

    /// `count` clients with connections of their own.
    pub fn wires(&self, count: usize) -> Vec<Arc<Wire>> {
        let path = self.kubeconfig();
        let one = |_| runtime().block_on(Wire::new(&path)).expect("the kubeconfig is good");
        (0..count).map(one).map(Arc::new).collect()
    }

    /// A request of the administrator's that must succeed.
    pub fn post(&self, path: &str, object: &Value) {
        let wire = self.wires(1).remove(0);
        let body = Bytes::from(object.to_string());
        runtime().block_on(wire.call(Method::POST, path, body)).expect("it is taken");
    }

    /// Makes a namespace.
    pub fn namespace(&self, name: &str) {
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
    }

    /// Bytes of the JSON of one object, as it is got.
    pub fn length(&self, path: &str) -> usize {
        let wire = self.wires(1).remove(0);
        let got = runtime().block_on(wire.call(Method::GET, path, Bytes::new()));
        got.unwrap_or_else(|error| panic!("getting {path}: {error:#}")).len()
    }

    /// Makes `count` ConfigMaps of about 2 KB in a namespace, by 32 clients.
    pub fn fill(&self, namespace: &str, count: usize) {
        const CLIENTS: usize = 32;
        let (path, wires) = (collection(namespace), self.wires(CLIENTS));
        runtime().block_on(async {
            let tasks = wires.into_iter().enumerate().map(|(n, wire)| {
                let path = path.clone();
                runtime().spawn(async move {
                    for number in (n..count).step_by(CLIENTS) {
                        let body = config_map(&format!("object-{number:06}"));
                        wire.call(Method::POST, &path, body).await.expect("it is taken");
                    }
                })
            });
            for task in futures::future::join_all(tasks).await {
                task.expect("no client panics");
            }
        });
    }
}

/// Where the ConfigMaps of a namespace are.
pub fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// An object of about 2 KB.
pub fn config_map(name: &str) -> Bytes {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}}, "data": {"payload": "x".repeat(1700)}});
    Bytes::from(object.to_string())
}

/// Both, on one machine.
pub struct Pair {
    /// The hub.
    pub ours: Server,
    /// kube-apiserver and etcd.
    pub theirs: Server,
}

impl Pair {
    /// Starts both.
    pub fn start() -> Pair {
        Pair { ours: Server::ours(), theirs: Server::theirs() }
    }

    /// Measures both `turns` times, turn by turn; the medians.
    pub fn measure(&self, turns: usize, mut one: impl FnMut(&Server, usize) -> f64) -> (f64, f64) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for turn in 0..turns {
            ours.push(one(&self.ours, turn));
            theirs.push(one(&self.theirs, turn));
        }
        (median(ours), median(theirs))
    }

    /// Ends both at once: what they stored is not wanted any more.
    pub fn stop(self) {
        if let Server::Theirs(mut member) = self.theirs {
            member.kill();
        }
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Adds a row beside the peer, of which the goal is a factor: `AtMost(2.0)` is half of what the peer takes, `AtLeast(2.0)` twice what it
/// does.
pub fn beside(rows: &mut Rows, row: &str, (ours, theirs): (f64, f64), unit: &str, factor: Goal) {
    let rounded = |goal: f64| {
        let digits = if goal < 10.0 { 100.0 } else { 1.0 };
        (goal * digits).round() / digits
    };
    let (goal, ratio) = match factor {
        Goal::AtMost(factor) => (Goal::AtMost(rounded(theirs / factor)), theirs / ours),
        Goal::AtLeast(factor) => (Goal::AtLeast(rounded(theirs * factor)), ours / theirs),
    };
    let peer = format!(
        "kube-apiserver and etcd {:.*} {unit}: {ratio:.1} ×",
        if theirs < 10.0 { 2 } else { 0 },
        theirs
    );
    rows.add(row, ours, unit, &peer, goal);
}
