//! Pods. Names and order of the columns are data: `data/catalogue.jsonl`.
//!
//! In: a Pod, and the time. Out: its cells, wide ones included, and the condition that its row carries once it has run to an end.

use serde_json::{Value, json};

use super::Row;
use super::cells::{Fields as _, NONE, since};

/// What a Pod's container statuses add up to.
#[derive(Default)]
struct Tally {
    ready: i64,
    total: usize,
    restarts: i64,
    last_restart: Option<jiff::Timestamp>,
}

impl Tally {
    fn count(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or(0);
        let finished = status.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        self.last_restart = self.last_restart.max(finished.and_then(karmada_schema::time::parse));
    }
}

fn exit(prefix: &str, terminated: &Value) -> String {
    match (terminated["reason"].as_str().unwrap_or_default(), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("{prefix}ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

/// Init containers: the reason to show while they run, and restarts of those that keep running.
fn init_containers(row: Row<'_>, tally: &mut Tally, sidecars: &mut Tally) -> Option<String> {
    let specs = row.list("/spec/initContainers");
    let restartable =
        |name: &Value| specs.iter().any(|c| c["name"] == *name && c["restartPolicy"] == "Always");
    for (index, status) in row.list("/status/initContainerStatuses").iter().enumerate() {
        tally.count(status);
        let sidecar = restartable(&status["name"]);
        if sidecar {
            sidecars.count(status);
        }
        let (terminated, waiting) = (&status["state"]["terminated"], &status["state"]["waiting"]);
        if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
            continue;
        }
        if sidecar && status["started"] == true {
            tally.ready += i64::from(status["ready"] == true);
            continue;
        }
        if terminated.is_object() {
            return Some(exit("Init:", terminated));
        }
        return match waiting["reason"].as_str() {
            Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                Some(format!("Init:{reason}"))
            }
            _ => Some(format!("Init:{index}/{}", specs.len())),
        };
    }
    None
}

/// Main containers: the reason to show, later containers first. One that failed is not hidden by others that are done.
fn main_containers(row: Row<'_>, tally: &mut Tally, mut reason: String) -> String {
    let (mut running, mut failed) = (false, None);
    for status in row.list("/status/containerStatuses").iter().rev() {
        tally.count(status);
        let state = &status["state"];
        match state["waiting"]["reason"].as_str() {
            Some(waiting) if !waiting.is_empty() => reason = waiting.to_owned(),
            _ if state["terminated"].is_object() => {
                reason = exit("", &state["terminated"]);
                if state["terminated"]["exitCode"].as_i64().unwrap_or(0) != 0 {
                    failed = Some(reason.clone());
                }
            }
            _ if status["ready"] == true && state["running"].is_object() => {
                running = true;
                tally.ready += 1;
            }
            _ => {}
        }
    }
    if reason != "Completed" {
        return reason;
    }
    let ready = row.condition("Ready").is_some_and(|condition| condition["status"] == "True");
    match (running && ready, failed) {
        (true, _) => "Running".to_owned(),
        (_, Some(failed)) => failed,
        _ if running => "NotReady".to_owned(),
        _ => reason,
    }
}

/// The conditions of a Pod's row: `Completed` for one that ran to an end.
pub(crate) fn pod_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str() {
        Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
        Some("Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

pub(crate) fn pod(row: Row<'_>) -> Vec<Value> {
    let phase = row.text("/status/phase").unwrap_or_default();
    let mut reason = row.text("/status/reason").filter(|r| !r.is_empty()).unwrap_or(phase).to_owned();
    if row.condition("PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let sidecar_specs =
        row.list("/spec/initContainers").iter().filter(|c| c["restartPolicy"] == "Always").count();
    let mut tally = Tally { total: row.list("/spec/containers").len() + sidecar_specs, ..Tally::default() };
    let mut sidecars = Tally::default();
    let initializing = init_containers(row, &mut tally, &mut sidecars);
    let initialized = row.condition("Initialized").is_some_and(|condition| condition["status"] == "True");
    let waits = initializing.is_some();
    reason = initializing.unwrap_or(reason);
    if !waits || initialized {
        tally.restarts = sidecars.restarts;
        tally.last_restart = sidecars.last_restart;
        reason = main_containers(row, &mut tally, reason);
    }
    if row.is_deleting() && row.text("/status/reason") == Some("NodeLost") {
        reason = "Unknown".to_owned();
    } else if row.is_deleting() && !matches!(phase, "Succeeded" | "Failed") {
        reason = "Terminating".to_owned();
    }
    let restarts = match tally.last_restart {
        Some(last) if tally.restarts != 0 => {
            format!("{} ({} ago)", tally.restarts, since(Some(last), row.now))
        }
        _ => tally.restarts.to_string(),
    };
    vec![
        row.name(),
        format!("{}/{}", tally.ready, tally.total).into(),
        reason.into(),
        restarts.into(),
        row.age(),
        row.text_or("/status/podIPs/0/ip", NONE),
        row.text_or("/spec/nodeName", NONE),
        row.text_or("/status/nominatedNodeName", NONE),
        readiness_gates(row),
    ]
}

fn readiness_gates(row: Row<'_>) -> Value {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let open = gates.iter().filter(|gate| {
        let ty = gate["conditionType"].as_str().unwrap_or_default();
        row.condition(ty).is_some_and(|condition| condition["status"] == "True")
    });
    json!(format!("{}/{}", open.count(), gates.len()))
}
