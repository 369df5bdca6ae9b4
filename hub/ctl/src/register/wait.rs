//! Waiting until the hub has seen the agent. In: what the agent writes onto its identity Secret
//! (`edge.karmada.io/agent-state`), its Deployment and its Pods. Out: connected, or the cause why not and what to do next.
//!
//! [`Judge`] decides, from observations and the time that has passed; the loop around it only reads.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{ApiError, Connection, object_path};
use crate::output::Progress;
use crate::register::manifests::{AGENT, Installation, POD_LABEL, STATE};

/// How often the member is read.
const POLL: Duration = Duration::from_millis(500);

/// How long trouble that may pass by itself must last before it counts: a name just entered, an image being pulled.
const TROUBLE_LASTS: Duration = Duration::from_secs(20);

/// What the agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Report {
    /// Connected, Joining or Failed.
    state: String,
    /// Why it failed.
    #[serde(default)]
    cause: String,
    /// In words.
    #[serde(default)]
    message: String,
}

/// One look at the member.
#[derive(Clone, Debug, Default)]
struct Observation {
    /// The annotation as it stands.
    said: Option<String>,
    /// What keeps the Pod from running.
    pod: Option<Trouble>,
    /// Whether there is a Pod.
    pod_exists: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    cause: String,
    message: String,
    /// Whether it fails at once, after a while, or only at the end.
    weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It will not pass by itself.
    AtOnce,
    /// It fails if it lasts.
    IfItLasts,
    /// It may pass until the very end: a node may be added.
    AtTheEnd,
}

#[derive(Debug, PartialEq, Eq)]
enum JoinWait {
    Connected,
    Wait(String),
    Failed(Trouble),
}

/// Decides what observations mean.
struct Judge {
    baseline: Option<String>,
    timeout: Duration,
    since: Option<(String, Duration)>,
}

impl Judge {
    /// `baseline`: what the agent had said before anything was applied and may be old.
    fn new(baseline: Option<String>, timeout: Duration) -> Judge {
        Judge { baseline, timeout, since: None }
    }

    /// What this look, `elapsed` after the start, means.
    fn judge(&mut self, look: &Observation, elapsed: Duration) -> JoinWait {
        let report: Option<Report> = look.said.as_deref().and_then(|said| serde_json::from_str(said).ok());
        if report.as_ref().is_some_and(|report| report.state == "Connected") {
            return JoinWait::Connected;
        }
        let failed = report
            .as_ref()
            .filter(|report| report.state == "Failed")
            .map(|report| self.failure(report, look));
        let Some(trouble) = failed.or_else(|| look.pod.clone()) else {
            self.since = None;
            return self.waiting(report.as_ref(), look, elapsed);
        };
        let since = match &self.since {
            Some((cause, since)) if *cause == trouble.cause => *since,
            _ => elapsed,
        };
        self.since = Some((trouble.cause.clone(), since));
        let enough = match trouble.weight {
            Weight::AtOnce => true,
            Weight::IfItLasts => elapsed.saturating_sub(since) >= TROUBLE_LASTS.min(self.timeout / 3),
            Weight::AtTheEnd => false,
        };
        if enough || elapsed >= self.timeout {
            return JoinWait::Failed(trouble);
        }
        JoinWait::Wait(format!("{}: {}", trouble.cause, trouble.message))
    }

    fn failure(&self, report: &Report, look: &Observation) -> Trouble {
        // What was said before this run may be about what this run has put right.
        let new = look.said != self.baseline;
        let passing = matches!(report.cause.as_str(), "DNS" | "TCP" | "HTTP2Refused" | "");
        // A person may decide at any time: the agent goes on asking.
        if report.cause == "Pending" {
            let message = report.message.clone();
            return Trouble { cause: "Pending".to_owned(), message, weight: Weight::AtTheEnd };
        }
        let weight = if new && !passing { Weight::AtOnce } else { Weight::IfItLasts };
        let cause = if report.cause.is_empty() { "Failed" } else { &report.cause };
        Trouble { cause: cause.to_owned(), message: report.message.clone(), weight }
    }

    fn waiting(&self, report: Option<&Report>, look: &Observation, elapsed: Duration) -> JoinWait {
        let (cause, message) = match report {
            Some(report) => ("Joining", format!("the agent is joining: {}", report.message)),
            None if look.pod_exists => ("NoReport", "the agent's Pod has not reported yet".to_owned()),
            None => ("NoPod", "the agent's Pod has not been created yet".to_owned()),
        };
        if elapsed < self.timeout {
            return JoinWait::Wait(message);
        }
        JoinWait::Failed(Trouble { cause: cause.to_owned(), message, weight: Weight::AtTheEnd })
    }
}

/// What keeps a Deployment's Pods from being made or run.
fn trouble(deployment: &Value, pods: &[Value]) -> Option<Trouble> {
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let refused =
        conditions(deployment).into_iter().find(|c| c["type"] == "ReplicaFailure" && c["status"] == "True");
    if let Some(refused) = refused.filter(|_| pods.is_empty()) {
        return Some(Trouble {
            cause: text(&refused["reason"]),
            message: text(&refused["message"]),
            weight: Weight::IfItLasts,
        });
    }
    let pod = pods.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null())?;
    let unscheduled = |c: &Value| c["type"] == "PodScheduled" && c["status"] == "False";
    if let Some(condition) = conditions(pod).into_iter().find(unscheduled) {
        let cause = text(&condition["reason"]);
        return Some(Trouble { cause, message: text(&condition["message"]), weight: Weight::AtTheEnd });
    }
    let container = &pod["status"]["containerStatuses"][0];
    let waiting = &container["state"]["waiting"];
    let cause = text(&waiting["reason"]);
    let weight = match cause.as_str() {
        "" | "ContainerCreating" | "PodInitializing" => return None,
        "InvalidImageName" | "ErrImageNeverPull" => Weight::AtOnce,
        _ => Weight::IfItLasts,
    };
    let ended = &container["lastState"]["terminated"];
    let last = match ended["exitCode"].as_i64() {
        Some(code) => {
            format!(" (it ended with {code} {} {})", text(&ended["reason"]), text(&ended["message"]))
        }
        None => String::new(),
    };
    Some(Trouble { cause, message: format!("{}{last}", text(&waiting["message"])), weight })
}

/// What to do about a cause.
pub fn next(cause: &str, installation: &Installation) -> String {
    let (hub, namespace, cluster) = (&installation.hub, &installation.namespace, &installation.cluster);
    match cause {
        "DNS" => format!("the member cannot resolve the hub's name: check {hub}, or make the line anew with token create --advertise"),
        "TCP" => format!("let the member's network open connections to {hub}, and check that the hub listens there"),
        "TLS" => format!("something else than the hub answers at {hub}, or a proxy breaks TLS open between: let it pass"),
        "PinMismatch" => "the hub has another CA than --discovery-token-ca-cert-hash says: make the line anew on the hub with \
                          karmadactl token create --print-register-command; if it is right, something between reads along"
            .to_owned(),
        "HTTP2Refused" => format!("a proxy or load balancer before {hub} does not pass HTTP/2 through: let it forward TCP as it is"),
        "Clock" => "the member's clock is wrong, or the hub's: set it (NTP) and run this again".to_owned(),
        "Clone" => "another agent of this cluster is connected: stop that one".to_owned(),
        "TokenUnknown" | "TokenExpired" | "TokenUsedUp" | "Unregistered" | "Revoked" | "CertificateExpired" => {
            "make a new token on the hub with karmadactl token create --print-register-command and run what it prints".to_owned()
        }
        "NameInvalid" | "NameTaken" => format!("choose another --cluster-name, or karmadactl unregister {cluster} first if that cluster is gone (--force)"),
        "IdTaken" => "use the name under which the hub knows this cluster as --cluster-name, or unregister that first".to_owned(),
        "Permission" => "the hub or the member refuses the agent: run this again with wider --permissions, as an administrator of the member".to_owned(),
        "Joining" => "the agent goes on asking".to_owned(),
        "Pending" => format!(
            "on the hub: karmadactl adopt {cluster} where that is this site's agent, or karmadactl refuse {cluster}; the agent goes on asking"
        ),
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            format!("the nodes cannot get the image {}: push it where they can, or give --karmada-agent-image", installation.image)
        }
        "Unschedulable" => "make room on a node of the member: the agent asks for 10m CPU and 32Mi".to_owned(),
        "CrashLoopBackOff" | "NoReport" | "Failed" => format!("kubectl -n {namespace} logs deployment/{AGENT}"),
        _ => format!("kubectl -n {namespace} describe pods -l {}={}", POD_LABEL.0, POD_LABEL.1),
    }
}

/// Looks until the agent is connected, or says why it is not.
pub async fn until_connected(
    member: &Connection,
    installation: &Installation,
    baseline: Option<String>,
    timeout: Duration,
    progress: &mut Progress,
) -> Result<()> {
    let start = Instant::now();
    let mut judge = Judge::new(baseline, timeout);
    loop {
        let elapsed = start.elapsed();
        match look(member, installation).await {
            Ok(look) => match judge.judge(&look, elapsed) {
                JoinWait::Connected => return Ok(()),
                JoinWait::Wait(text) => progress.step(&text),
                JoinWait::Failed(trouble) => bail!(
                    "cluster {} did not connect to {}: {}: {}\nnext: {}\nThe agent stays installed and goes on trying; \
                     running register again is safe, and karmadactl unregister {} takes it away.",
                    installation.cluster,
                    installation.hub,
                    trouble.cause,
                    trouble.message,
                    next(&trouble.cause, installation),
                    installation.cluster
                ),
            },
            // The member's API may be away for a moment; what it refuses, it will refuse again.
            Err(error) if error.code().is_some() || elapsed >= timeout => return Err(error.into()),
            Err(error) => progress.step(&error.to_string()),
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn look(member: &Connection, installation: &Installation) -> Result<Observation, ApiError> {
    let secret = member.find(&object_path(&installation.identity_secret())).await?.unwrap_or_default();
    let deployment = member.find(&object_path(&installation.deployment())).await?.unwrap_or_default();
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}%3D{}",
        installation.namespace, POD_LABEL.0, POD_LABEL.1
    );
    let pods = member.get(&path).await?["items"].as_array().cloned().unwrap_or_default();
    Ok(Observation {
        said: secret["metadata"]["annotations"][STATE].as_str().map(str::to_owned),
        pod: trouble(&deployment, &pods),
        pod_exists: !pods.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MINUTE: Duration = Duration::from_secs(60);

    fn said(state: &str, cause: &str) -> Observation {
        let said = json!({"state": state, "cause": cause, "message": "words", "at": "2026-01-01T00:00:00Z"})
            .to_string();
        Observation { said: Some(said), ..Observation::default() }
    }

    fn cause(verdict: JoinWait) -> Option<String> {
        match verdict {
            JoinWait::Failed(trouble) => Some(trouble.cause),
            _ => None,
        }
    }

    #[test]
    fn final_causes_fail_at_once_and_passing_ones_when_they_last() {
        for at_once in [
            "PinMismatch",
            "TLS",
            "Clock",
            "TokenUnknown",
            "TokenExpired",
            "NameTaken",
            "IdTaken",
            "Permission",
            "New",
        ] {
            let verdict = Judge::new(None, 5 * MINUTE).judge(&said("Failed", at_once), Duration::ZERO);
            assert_eq!(cause(verdict).as_deref(), Some(at_once));
        }
        for passing in ["DNS", "TCP", "HTTP2Refused"] {
            let mut judge = Judge::new(None, 5 * MINUTE);
            for seconds in [0, 10, 19] {
                let verdict = judge.judge(&said("Failed", passing), Duration::from_secs(seconds));
                assert!(matches!(verdict, JoinWait::Wait(_)), "{passing} at {seconds} s");
            }
            assert_eq!(cause(judge.judge(&said("Failed", passing), TROUBLE_LASTS)).as_deref(), Some(passing));
        }
        // Another cause, or none, begins anew.
        let mut judge = Judge::new(None, 5 * MINUTE);
        judge.judge(&said("Failed", "DNS"), Duration::ZERO);
        assert!(matches!(judge.judge(&said("Failed", "TCP"), TROUBLE_LASTS), JoinWait::Wait(_)));
        judge.judge(&said("Joining", ""), TROUBLE_LASTS + Duration::from_secs(1));
        assert!(matches!(judge.judge(&said("Failed", "TCP"), 2 * TROUBLE_LASTS), JoinWait::Wait(_)));
    }

    #[test]
    fn what_was_said_before_is_not_held_against_this_run_at_once() {
        let old = said("Failed", "TokenExpired");
        let mut judge = Judge::new(old.said.clone(), 5 * MINUTE);
        assert!(matches!(judge.judge(&old, Duration::ZERO), JoinWait::Wait(_)));
        assert_eq!(judge.judge(&said("Connected", ""), Duration::ZERO), JoinWait::Connected);
        let connected = said("Connected", "");
        assert_eq!(
            Judge::new(connected.said.clone(), MINUTE).judge(&connected, Duration::ZERO),
            JoinWait::Connected
        );
    }

    #[test]
    fn at_the_end_the_last_known_state_is_the_cause() {
        let unschedulable =
            Trouble { cause: "Unschedulable".into(), message: "0/1".into(), weight: Weight::AtTheEnd };
        for (look, expected) in [
            (Observation::default(), "NoPod"),
            (Observation { pod_exists: true, ..Observation::default() }, "NoReport"),
            (said("Joining", ""), "Joining"),
            (
                Observation { pod: Some(unschedulable), pod_exists: true, ..Observation::default() },
                "Unschedulable",
            ),
            (Observation { said: Some("not json".into()), ..Observation::default() }, "NoPod"),
        ] {
            let mut judge = Judge::new(None, MINUTE);
            assert!(matches!(judge.judge(&look, Duration::ZERO), JoinWait::Wait(_)), "{expected}");
            assert_eq!(cause(judge.judge(&look, MINUTE)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_pod_that_does_not_run_is_quoted() {
        let waiting = |reason: &str, message: &str| json!({"status": {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]}});
        let found = |pod: Value| trouble(&json!({}), &[pod]).map(|t| (t.cause, t.message, t.weight));
        let is = |cause: &str, message: &str, weight| Some((cause.to_owned(), message.to_owned(), weight));
        assert_eq!(
            found(waiting("ImagePullBackOff", "back-off")),
            is("ImagePullBackOff", "back-off", Weight::IfItLasts)
        );
        assert_eq!(found(waiting("InvalidImageName", "bad")), is("InvalidImageName", "bad", Weight::AtOnce));
        assert_eq!(found(waiting("ContainerCreating", "")), None);
        assert_eq!(found(json!({"status": {"containerStatuses": [{"state": {"running": {}}}]}})), None);
        let mut crashed = waiting("CrashLoopBackOff", "restarting");
        crashed["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "usage"}});
        assert_eq!(
            found(crashed),
            is("CrashLoopBackOff", "restarting (it ended with 2 Error usage)", Weight::IfItLasts)
        );
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"});
        assert_eq!(
            found(json!({"status": {"conditions": [condition]}})),
            is("Unschedulable", "0/1 nodes", Weight::AtTheEnd)
        );
        let refused = json!({"status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]}});
        assert_eq!(trouble(&refused, &[]).map(|t| t.message).as_deref(), Some("quota"));
        assert_eq!(trouble(&refused, &[json!({"metadata": {"deletionTimestamp": "x"}})]), None);
    }
}
