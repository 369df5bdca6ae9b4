//! What the agent says of itself to a monitor on its own machine: `/healthz`, `/livez`, `/readyz` and `/metrics` over plain HTTP.
//!
//! Comes in: where the link and the ledger stand, what the reconciler and the summary count. Goes out: Prometheus text, with
//! upstream's names where upstream has them. Nothing here tells more than counts.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::agent_state::{AgentState, LinkView};
use crate::counts::Durations;

/// Callers at once; more wait.
const CALLERS: usize = 8;
/// A caller is given this long.
const CALLER_TIMEOUT: Duration = Duration::from_secs(10);

/// One line of the text with its head.
fn sample(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    labels: &str,
    value: impl std::fmt::Display,
) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}");
}

/// The text of `/metrics` for the cluster of this name. Pure but for the process's own numbers.
fn text(shared: &AgentState, cluster: &str) -> String {
    let mut out = String::new();
    gauges(&mut out, shared, cluster);
    counters(&mut out, shared);
    durations(&mut out, shared, cluster);
    shared.counts.writes.page(&mut out, cluster);
    process(&mut out);
    out
}

/// How things stand now.
fn gauges(out: &mut String, shared: &AgentState, cluster: &str) {
    let counts = &shared.counts;
    let gauge = |value: &AtomicI64| value.load(Ordering::Relaxed);
    let connected = i64::from(matches!(*shared.link.borrow(), LinkView::Connected { .. }));
    let member = format!("{{member_cluster={cluster:?}}}");
    let all = [
        (
            "cluster_ready_state",
            "State of the cluster (1 if ready, 0 otherwise).",
            &*member,
            gauge(&counts.ready),
        ),
        ("cluster_node_number", "Number of nodes in the cluster.", &*member, gauge(&counts.nodes)),
        (
            "cluster_ready_node_number",
            "Number of ready nodes in the cluster.",
            &*member,
            gauge(&counts.ready_nodes),
        ),
        ("workqueue_depth", "Current depth of workqueue.", "{name=\"work\"}", gauge(&counts.pending)),
        ("karmada_agent_connected", "Whether the hub has welcomed the agent.", "", connected),
        (
            "karmada_agent_ledger_durable",
            "Whether what the hub sent is on disk (0: in memory alone).",
            "",
            i64::from(shared.ledger.is_durable()),
        ),
        (
            "karmada_agent_quarantined_works",
            "Works that are left alone because they crashed the agent.",
            "",
            gauge(&counts.quarantined),
        ),
        (
            "karmada_agent_certificate_expiration_timestamp_seconds",
            "When the agent's certificate ends, in seconds since 1970 (0: there is none yet).",
            "",
            gauge(&counts.certificate_ends),
        ),
    ];
    for (name, help, labels, value) in all {
        sample(out, name, "gauge", help, labels, value);
    }
}

/// What happened since the agent started.
fn counters(out: &mut String, shared: &AgentState) {
    let counts = &shared.counts;
    let counter = |value: &AtomicU64| value.load(Ordering::Relaxed);
    let name = "karmada_agent_works_applied_total";
    let _ = writeln!(out, "# HELP {name} Applications of Works by result.\n# TYPE {name} counter");
    for (result, value) in [("success", counter(&counts.applied)), ("error", counter(&counts.failed))] {
        let _ = writeln!(out, "{name}{{result={result:?}}} {value}");
    }
    let removed = ("karmada_agent_works_removed_total", "Works removed from the member.");
    sample(out, removed.0, "counter", removed.1, "", counter(&counts.removed));
    let drifted = ("karmada_agent_drifted_objects_total", "Objects found to be other than the hub says.");
    sample(out, drifted.0, "counter", drifted.1, "", counter(&counts.drifted));
}

/// How long what happened took.
fn durations(out: &mut String, shared: &AgentState, cluster: &str) {
    let counts = &shared.counts;
    let synced = [("result=\"success\"", &counts.synced), ("result=\"error\"", &counts.sync_failed)];
    let help = "How long Works took to be brought to the member.";
    histogram(out, "work_sync_workload_duration_seconds", help, &synced);
    let member = format!("member_cluster={cluster:?}");
    let help = "How long it took to find out how the member is.";
    histogram(out, "cluster_sync_status_duration_seconds", help, &[(&member, &counts.status_synced)]);
}

/// One histogram, by labels as they are written, without braces.
fn histogram(out: &mut String, name: &str, help: &str, all: &[(&str, &Durations)]) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
    // What never was has no lines, as upstream has it.
    for (labels, took) in all.iter().filter(|(_, took)| took.count() > 0) {
        for (end, count) in took.up_to() {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {count}");
        }
        let (seconds, count) = (took.seconds(), took.count());
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
    }
}

/// The process's own numbers, as every exporter names them; what cannot be read is left out.
fn process(out: &mut String) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
    if let Some(status) = read("status") {
        let kib = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        for (field, name, help) in [
            ("VmRSS:", "process_resident_memory_bytes", "Resident memory size in bytes."),
            ("VmSize:", "process_virtual_memory_bytes", "Virtual memory size in bytes."),
        ] {
            if let Some(kib) = kib(field) {
                sample(out, name, "gauge", help, "", kib * 1024);
            }
        }
    }
    // User and system time are the 14th and 15th field, in hundredths of a second on every Linux; the name before may hold blanks.
    let times = read("stat").and_then(|stat| {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    });
    if let Some(times) = times {
        let help = "Total user and system CPU time spent in seconds.";
        sample(out, "process_cpu_seconds_total", "counter", help, "", times as f64 / 100.0);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        sample(out, "process_open_fds", "gauge", "Number of open file descriptors.", "", files.count());
    }
}

/// What is answered to a path: status, kind, text.
fn answer(shared: &AgentState, cluster: &str, path: &str) -> (StatusCode, &'static str, String) {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let trouble = shared.ledger.health().borrow().trouble.clone();
    let words = trouble.as_ref().map(|trouble| {
        format!("the ledger is in memory alone, and what the hub sends is not acknowledged: {trouble}\n")
    });
    match path {
        // A restart would lose what is in memory: no reason to end the process.
        "/healthz" | "/livez" => {
            (StatusCode::OK, PLAIN, words.map_or_else(|| "ok".to_owned(), |words| format!("ok, but {words}")))
        }
        "/readyz" => match words {
            None => (StatusCode::OK, PLAIN, "ok".to_owned()),
            Some(words) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, words),
        },
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text(shared, cluster)),
        _ => (StatusCode::NOT_FOUND, PLAIN, "not found\n".to_owned()),
    }
}

/// Serves at `address` until `stop`. An address that is taken is told and is no reason to end.
pub async fn serve(shared: Arc<AgentState>, cluster: String, address: SocketAddr, stop: CancellationToken) {
    match TcpListener::bind(address).await {
        Ok(listener) => accept(shared, cluster, listener, stop).await,
        Err(error) => {
            tracing::warn!(%address, %error, "no /healthz and /metrics: give another --metrics-bind-address, or 0 for none");
        }
    }
}

async fn accept(shared: Arc<AgentState>, cluster: String, listener: TcpListener, stop: CancellationToken) {
    let places = Arc::new(tokio::sync::Semaphore::new(CALLERS));
    loop {
        let place = places.clone().acquire_owned().await;
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (shared, cluster) = (shared.clone(), cluster.clone());
        tokio::spawn(async move {
            let _place = place;
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (status, kind, text) = answer(&shared, &cluster, request.uri().path());
                let answer = Response::builder().status(status).header(header::CONTENT_TYPE, kind).body(text);
                async move { Ok::<_, Infallible>(answer.unwrap_or_default()) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(CALLER_TIMEOUT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CALLER_TIMEOUT, served).await;
        });
    }
}

/// `HOST:PORT` or `:PORT` as upstream takes them; `0` for none.
///
/// # Errors
/// In words: it is neither.
pub fn bind_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" || text.is_empty() {
        return Ok(None);
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(Some)
        .map_err(|_| format!("{text:?} is not ADDRESS:PORT, for example 127.0.0.1:8080, or 0 for none"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::watch;

    use super::*;
    use crate::ledger::Ledger;

    fn shared() -> Arc<AgentState> {
        let (link, _) = watch::channel(LinkView::default());
        AgentState::new(Ledger::in_memory().unwrap(), link)
    }

    #[tokio::test]
    async fn a_monitor_reads_health_and_counts() {
        let shared = shared();
        shared.counts.applied.fetch_add(3, Ordering::Relaxed);
        shared.counts.ready.store(1, Ordering::Relaxed);
        for millis in [1, 3, 9000] {
            shared.counts.synced.note(Duration::from_millis(millis));
        }
        shared.counts.status_synced.note(Duration::from_millis(3));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(accept(shared, "site1".into(), listener, stop.clone()));
        let ask = async |path: &str| {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        };
        assert!(ask("/healthz").await.ends_with("ok"));
        assert!(ask("/nothing").await.starts_with("HTTP/1.1 404"));
        let metrics = ask("/metrics").await;
        for line in [
            "cluster_ready_state{member_cluster=\"site1\"} 1",
            "karmada_agent_connected 0",
            "karmada_agent_ledger_durable 1",
            "karmada_agent_certificate_expiration_timestamp_seconds 0",
            "karmada_agent_works_applied_total{result=\"success\"} 3",
            "# TYPE work_sync_workload_duration_seconds histogram",
            "work_sync_workload_duration_seconds_bucket{result=\"success\",le=\"0.001\"} 1",
            "work_sync_workload_duration_seconds_bucket{result=\"success\",le=\"0.004\"} 2",
            "work_sync_workload_duration_seconds_bucket{result=\"success\",le=\"2.048\"} 2",
            "work_sync_workload_duration_seconds_bucket{result=\"success\",le=\"+Inf\"} 3",
            "work_sync_workload_duration_seconds_sum{result=\"success\"} 9.004",
            "work_sync_workload_duration_seconds_count{result=\"success\"} 3",
            "cluster_sync_status_duration_seconds_bucket{member_cluster=\"site1\",le=\"0.004\"} 1",
            "# TYPE create_resource_to_cluster counter",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
        ] {
            assert!(metrics.contains(&format!("\n{line}")), "{line} in {metrics}");
        }
        assert!(!metrics.contains("work_sync_workload_duration_seconds_count{result=\"error\"}"));
        stop.cancel();
        served.await.unwrap();
    }

    #[test]
    fn addresses_are_upstreams() {
        assert_eq!(bind_address("0"), Ok(None));
        assert_eq!(bind_address(":8080").unwrap().unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(bind_address("127.0.0.1:1").unwrap().unwrap().port(), 1);
        assert!(bind_address("8080").is_err());
    }
}
