//! `karmadactl certs check-expiration`: when the hub's certificates, its CAs and each agent's certificate end, as kubeadm shows those
//! of a control plane. In: the hub's `/metrics`, and what is kept of each agent on its Cluster. Out: two tables, and on stderr what
//! is to be done about an end that is near, or before an older CA is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karmada_api::strings::annotations::AGENT;
use serde_json::Value;

use crate::access::Access;
use crate::{duration, output, table};

const METRIC: &str = "karmada_hub_certificate_expiration_timestamp_seconds";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const DAY: i64 = 24 * 3600;

/// From when on the end of a CA is warned of, and that of a certificate, which should have been renewed before.
const WARNED_CA: i64 = 365 * DAY;
const WARNED: i64 = 30 * DAY;

/// Commands of `certs`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show when the hub's certificates and CAs, and the agents' certificates, end.
    CheckExpiration,
}

/// One end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    certificate: String,
    authority: String,
    end: Timestamp,
    is_ca: bool,
}

/// Shows them.
pub async fn run(access: &Access, command: Command, now: Timestamp) -> Result<()> {
    let Command::CheckExpiration = command;
    let hub = access.hub().await?;
    let page = hub.text("/metrics").await?;
    let mut all = of_the_hub(&page);
    anyhow::ensure!(
        !all.is_empty(),
        "{} says nothing of its certificates: is it a hub of this version?",
        hub.server
    );
    let clusters = hub.get(CLUSTERS).await.context("listing clusters")?;
    all.extend(of_agents(&clusters));
    for warning in warnings(&all, now) {
        eprintln!("warning: {warning}");
    }
    output::print(&shown(&all, now))
}

/// The ends in the hub's `/metrics`.
fn of_the_hub(page: &str) -> Vec<End> {
    let lines =
        page.lines().filter_map(|line| line.strip_prefix(METRIC)?.strip_prefix('{')?.rsplit_once("} "));
    lines.filter_map(|(labels, value)| read(labels, value)).collect()
}

/// Labels are `name="text"` with commas between; none of these texts holds a quote.
fn read(labels: &str, value: &str) -> Option<End> {
    let pairs = labels.split("\",").filter_map(|pair| pair.trim_end_matches('"').split_once("=\""));
    let labels: BTreeMap<&str, &str> = pairs.collect();
    Some(End {
        certificate: (*labels.get("certificate")?).to_owned(),
        authority: (*labels.get("authority")?).to_owned(),
        end: Timestamp::from_second(value.parse().ok()?).ok()?,
        is_ca: *labels.get("is_ca")? == "true",
    })
}

/// The ends of agents' certificates, as they showed them last.
fn of_agents(clusters: &Value) -> Vec<End> {
    let one = |cluster: &Value| {
        let note: Value = serde_json::from_str(cluster["metadata"]["annotations"][AGENT].as_str()?).ok()?;
        Some(End {
            certificate: format!("agent/{}", cluster["metadata"]["name"].as_str()?),
            authority: note["authority"].as_str()?.to_owned(),
            end: note["certificateEnds"].as_str()?.parse().ok()?,
            is_ca: false,
        })
    };
    clusters["items"].as_array().into_iter().flatten().filter_map(one).collect()
}

fn left(end: Timestamp, now: Timestamp) -> i64 {
    end.as_second() - now.as_second()
}

fn shown(all: &[End], now: Timestamp) -> String {
    let head = |names: [&str; 4]| vec![names.map(str::to_owned).to_vec()];
    let mut leaves = head(["CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY"]);
    let mut authorities = head(["CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "NAME"]);
    for one in all {
        let rows = if one.is_ca { &mut authorities } else { &mut leaves };
        let residual = match u64::try_from(left(one.end, now)) {
            Ok(seconds) if seconds > 0 => duration::human(Duration::from_secs(seconds)),
            _ => "<expired>".to_owned(),
        };
        let expires = one.end.strftime("%b %d, %Y %H:%M UTC").to_string();
        rows.push(vec![one.certificate.clone(), expires, residual, one.authority.clone()]);
    }
    format!("{}\n{}", table::of_rows(&leaves), table::of_rows(&authorities))
}

/// What is to be done.
fn warnings(all: &[End], now: Timestamp) -> Vec<String> {
    let mut said = Vec::new();
    let signer = |name: &str| all.iter().find(|one| one.is_ca && one.certificate == name);
    for one in all {
        let days = left(one.end, now).div_euclid(DAY);
        let near = left(one.end, now) < if one.is_ca { WARNED_CA } else { WARNED };
        if !near {
            continue;
        }
        let what = match one.certificate.as_str() {
            "ca" => "make a new one: karmada-hub certs new-ca",
            "front-proxy-ca" => "make a new one: karmada-hub certs new-ca --of front-proxy",
            name if name.ends_with("-older") => "it is on its way out: karmada-hub certs drop-older-ca",
            name if name.starts_with("agent/") => {
                "the agent renews it while it is connected: see its log, or register the cluster again"
            }
            _ => "the hub renews it: see its log",
        };
        said.push(format!("{} ends in {days} days: {what}", one.certificate));
    }
    let agents = || all.iter().filter(|one| one.certificate.starts_with("agent/"));
    let of = |authority: &str| -> Vec<&str> {
        let those = agents().filter(|one| one.authority == authority);
        those.filter_map(|one| one.certificate.strip_prefix("agent/")).collect()
    };
    if let Some(older) = signer("ca-older") {
        let waiting = of(&older.authority);
        if !waiting.is_empty() {
            said.push(format!(
                "certificates of the older CA are still shown by the agents of {}: drop it when they have come with new ones",
                waiting.join(", ")
            ));
        }
    }
    let trusted: Vec<&str> =
        ["ca", "ca-older"].iter().filter_map(|n| Some(signer(n)?.authority.as_str())).collect();
    for one in agents().filter(|one| !trusted.contains(&one.authority.as_str())) {
        let name = one.certificate.trim_start_matches("agent/");
        said.push(format!(
            "the agent of {name} was last seen with a certificate of a CA that is trusted no more: register the cluster again"
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all() -> Vec<End> {
        let page = "# HELP x y\nother{a=\"b\"} 1\n\
            karmada_hub_certificate_expiration_timestamp_seconds{certificate=\"server\",authority=\"CN=new\",is_ca=\"false\"} 1800000000\n\
            karmada_hub_certificate_expiration_timestamp_seconds{certificate=\"ca\",authority=\"CN=new\",is_ca=\"true\"} 2100000000\n\
            karmada_hub_certificate_expiration_timestamp_seconds{certificate=\"ca-older\",authority=\"CN=old\",is_ca=\"true\"} 1790000000\n";
        let agent = |name: &str, authority: &str| {
            let note =
                json!({"version": "1", "authority": authority, "certificateEnds": "2026-12-01T00:00:00Z"});
            json!({"metadata": {"name": name, "annotations": {AGENT: note.to_string()}}})
        };
        let mut all = of_the_hub(page);
        all.extend(of_agents(&json!({"items": [
            agent("north", "CN=old"), agent("south", "CN=new"), agent("gone", "CN=ancient"), {"metadata": {"name": "never"}}]})));
        all
    }

    #[test]
    fn ends_are_shown_as_kubeadm_does() {
        let now = "2026-11-23T00:00:00Z".parse().unwrap();
        let text = shown(&all(), now);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("server"), "server Jan 15, 2027 08:00 UTC 53d CN=new");
        assert_eq!(line("agent/north"), "agent/north Dec 01, 2026 00:00 UTC 8d CN=old");
        assert_eq!(line("ca-older"), "ca-older Sep 21, 2026 14:13 UTC <expired> CN=old");
        assert_eq!(text.lines().count(), 9, "{text}");
    }

    #[test]
    fn what_is_to_be_done_is_said_in_time() {
        let said = warnings(&all(), "2026-11-23T00:00:00Z".parse().unwrap());
        let of = |text: &str| said.iter().filter(|line| line.contains(text)).count();
        assert_eq!(of("drop-older-ca"), 1);
        assert_eq!(of("agent/north ends in 8 days: the agent renews it"), 1);
        assert_eq!(of("still shown by the agents of north: drop it when"), 1);
        assert_eq!(
            of("the agent of gone was last seen with a certificate of a CA that is trusted no more"),
            1
        );
        assert_eq!(of("server") + of("ca ends"), 0, "{said:?}");
        assert!(
            warnings(&all(), "2036-01-01T00:00:00Z".parse().unwrap())
                .iter()
                .any(|line| line.contains("new-ca"))
        );
    }
}
