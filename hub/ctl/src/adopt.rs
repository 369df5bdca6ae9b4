//! `karmadactl adopt` and `karmadactl refuse`: a person's decision about a key that asks for a cluster's name. In: a cluster, and
//! which key where several ask. Out: an annotation on the Cluster, which the hub carries out: who may update clusters decides.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::Connection;
use crate::{output, site};

/// What the hub writes onto a Cluster: the keys that ask.
const REQUESTS: &str = "edge.karmada.io/key-request";
/// How often the hub is asked whether it has carried out the decision, and how long.
const LOOK: Duration = Duration::from_millis(100);
const DECISION_TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of both.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster.
    cluster: String,
    /// The fingerprint of the key, or at least eight characters of its beginning; the agent that asks logs it.
    #[arg(long, value_name = "FINGERPRINT")]
    key: Option<String>,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The key gets the name.
    Adopt,
    /// It does not.
    Refuse,
}

/// A key that asks.
#[derive(Debug, Deserialize)]
struct Request {
    key: String,
    uid: String,
    since: String,
    #[serde(default)]
    refused: bool,
}

/// Decides, and waits until the hub has carried it out.
pub async fn run(access: &Access, arguments: &Arguments, decision: Decision) -> Result<()> {
    let hub = access.hub().await?;
    let name = &arguments.cluster;
    let (path, cluster) = (site::path(name), site::found(&hub, name).await?);
    let asking = requests(&cluster);
    let key = chosen(&asking, arguments.key.as_deref(), decision, name)?;
    let annotation = match decision {
        Decision::Adopt => "edge.karmada.io/adopt-key",
        Decision::Refuse => "edge.karmada.io/refuse-key",
    };
    hub.merge(&path, &json!({"metadata": {"annotations": {annotation: key}}})).await?;
    carried_out(&hub, &path, annotation).await?;
    let (done, next) = match decision {
        Decision::Adopt => ("adopted", "its agent connects when it asks next"),
        Decision::Refuse => ("refused", "the key that holds the name goes on"),
    };
    output::line(&format!("{name} key {} {done}: {next}", short(&key)))
}

async fn carried_out(hub: &Connection, path: &str, annotation: &str) -> Result<()> {
    let looked = tokio::time::timeout(DECISION_TIMEOUT, async {
        loop {
            match hub.find(path).await? {
                Some(cluster) if cluster["metadata"]["annotations"][annotation].is_string() => {
                    tokio::time::sleep(LOOK).await;
                }
                _ => return anyhow::Ok(()),
            }
        }
    });
    match looked.await {
        Ok(looked) => looked,
        Err(_) => {
            bail!(
                "the decision is written, but the hub has not carried it out in {DECISION_TIMEOUT:?}: see its log"
            )
        }
    }
}

fn requests(cluster: &Value) -> Vec<Request> {
    let text = cluster["metadata"]["annotations"][REQUESTS].as_str().unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

fn short(key: &str) -> String {
    if key == "*" { "of all that ask".to_owned() } else { key.chars().take(16).collect() }
}

/// The key that is meant. To refuse without naming one refuses all; to adopt without naming one needs that only one asks.
fn chosen(asking: &[Request], named: Option<&str>, decision: Decision, cluster: &str) -> Result<String> {
    let list = || {
        let line = |one: &Request| {
            let refused = if one.refused { ", refused" } else { "" };
            format!("\n  {} (uid {}, since {}{refused})", one.key, one.uid, one.since)
        };
        asking.iter().map(line).collect::<String>()
    };
    ensure!(!asking.is_empty(), "no key asks for the name {cluster}");
    if let Some(named) = named {
        ensure!(
            named.len() >= 8,
            "{named:?} is too short: give eight characters of the key's fingerprint or more"
        );
        let found: Vec<&Request> = asking.iter().filter(|one| one.key.starts_with(named)).collect();
        return match found[..] {
            [one] => Ok(one.key.clone()),
            _ => bail!(
                "{} keys that ask for the name {cluster} begin with {named}; these ask:{}",
                found.len(),
                list()
            ),
        };
    }
    if decision == Decision::Refuse {
        return Ok("*".to_owned());
    }
    let waiting: Vec<&Request> = asking.iter().filter(|one| !one.refused).collect();
    match waiting[..] {
        [one] => Ok(one.key.clone()),
        _ => bail!("{} keys wait for the name {cluster}: choose by --key among{}", waiting.len(), list()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_is_meant_is_the_one_that_is_adopted() {
        let text = json!([
            {"key": "aaaaaaaa11", "uid": "u1", "since": "t"},
            {"key": "aaaaaaaa22", "uid": "u2", "since": "t"},
            {"key": "bbbbbbbb33", "uid": "u3", "since": "t", "refused": true},
        ])
        .to_string();
        let all = requests(&json!({"metadata": {"annotations": {REQUESTS: text}}}));
        let choose = |named: Option<&str>, decision| chosen(&all, named, decision, "north");
        assert_eq!(choose(Some("aaaaaaaa2"), Decision::Adopt).unwrap(), "aaaaaaaa22");
        assert_eq!(
            choose(Some("bbbbbbbb"), Decision::Adopt).unwrap(),
            "bbbbbbbb33",
            "people change their minds"
        );
        assert_eq!(choose(None, Decision::Refuse).unwrap(), "*");
        assert_eq!(chosen(&all[1..], None, Decision::Adopt, "north").unwrap(), "aaaaaaaa22");
        for (named, says) in [
            (Some("aaaaaaaa"), "2 keys"),
            (Some("aa"), "too short"),
            (Some("cccccccc"), "0 keys"),
            (None, "2 keys wait"),
        ] {
            let error = choose(named, Decision::Adopt).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(chosen(&[], None, Decision::Adopt, "north").unwrap_err().to_string().contains("no key asks"));
        assert!(requests(&json!({})).is_empty());
    }
}
