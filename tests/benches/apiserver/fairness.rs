//! A flood by one client: how long another one waits for its answers, beside how long it waits when all is quiet.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tests::rows::{Goal, Rows};
use tests::runtime;
use tests::wire::Wire;

use crate::server::{Pair, Server, collection, config_map};

const GROUP: &str = "bench";
/// Requests that the flood has under way at once.
const FLOOD: usize = 200;

/// Measures, and adds the row.
pub fn run(rows: &mut Rows, pair: &Pair, listed: usize, turn: Duration) {
    let [ours, theirs] = [&pair.ours, &pair.theirs].map(|server| {
        prepare(server, listed / 10);
        let quiet = p99(server, turn);
        let flood = Flood::begin(server);
        let flooded = p99(server, turn);
        drop(flood);
        (quiet, flooded)
    });
    rows.add(
        "p99 of one client's gets while another floods with lists, beside its quiet p99",
        ours.1 / ours.0,
        "×",
        &format!(
            "{:.1} ms beside {:.1} ms; kube-apiserver {:.1} × ({:.1} ms beside {:.1} ms)",
            ours.1,
            ours.0,
            theirs.1 / theirs.0,
            theirs.1,
            theirs.0
        ),
        Goal::AtMost(3.0),
    );
}

/// Neither is an administrator: those are exempt from fairness.
fn prepare(server: &Server, listed: usize) {
    // Lists stay as long as they are: what the flood writes is elsewhere.
    server.namespace("flood");
    server.namespace("fair");
    server.fill("fair", listed);
    server.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({"metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}]}),
    );
}

fn wire(kubeconfig: &Path, user: &str) -> Arc<Wire> {
    let wire = runtime().block_on(Wire::new(kubeconfig)).expect("the kubeconfig is good");
    Arc::new(wire.impersonating(user, GROUP))
}

/// Milliseconds that the slowest hundredth of a modest client's requests takes.
fn p99(server: &Server, turn: Duration) -> f64 {
    let wire = wire(&server.kubeconfig(), "modest");
    let path = format!("{}/object-000000", collection("fair"));
    let mut times = runtime().block_on(async {
        let (from, mut times) = (Instant::now(), Vec::new());
        while from.elapsed() < turn {
            let began = Instant::now();
            // Whoever is refused comes again after the second that the answer asks for: that wait counts.
            while wire.call(Method::GET, &path, Bytes::new()).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times
    });
    times.sort_by(f64::total_cmp);
    times[(times.len() - 1) * 99 / 100]
}

/// Lists and writes without end, more at once than may be served. A process of its own that runs only where nobody else wants to, as
/// if it were on another machine: what it takes to send and read is not to be the modest one's wait.
struct Flood(std::process::Child);

impl Flood {
    fn begin(server: &Server) -> Flood {
        let itself = std::env::current_exe().expect("a bench is a program");
        let child = std::process::Command::new("chrt")
            .args(["--idle", "0"])
            .arg(itself)
            .arg("--flood")
            .arg(server.kubeconfig())
            .spawn()
            .expect("chrt is installed (util-linux)");
        // Until all its requests are under way.
        std::thread::sleep(Duration::from_secs(2));
        Flood(child)
    }
}

/// Also where the bench breaks off: nothing is to go on flooding.
impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the flood's process does until it is ended.
pub fn flood(kubeconfig: &Path) {
    let wire = wire(kubeconfig, "flood");
    let tasks: Vec<_> = (0..FLOOD)
        .map(|n| {
            let wire = wire.clone();
            runtime().spawn(async move {
                for turn in 0.. {
                    // Refused with 429 or served: the flood does not care.
                    let _ = if n.is_multiple_of(4) {
                        let name = format!("flood-{}-{n}-{turn}", std::process::id());
                        wire.call(Method::POST, &collection("flood"), config_map(&name)).await
                    } else {
                        wire.call(Method::GET, &collection("fair"), Bytes::new()).await
                    };
                }
            })
        })
        .collect();
    runtime().block_on(futures::future::join_all(tasks));
}
