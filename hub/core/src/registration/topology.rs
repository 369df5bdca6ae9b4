//! Provider, region and zones of a Cluster, as its agent tells them: at the join, and later, as Nodes often come after it and their labels after them.
//!
//! In: the Cluster as it is, what its agent tells. Out: which fields are open, and the Cluster with what was told. What a person wrote stays, and so does
//! what a person took out: each field is written for the agent once, and the Cluster bears a note of that ([`TOLD_BY_AGENT`]).

use std::collections::BTreeSet;
use std::time::Duration;

use karmada_api::object;
use karmada_api::strings::annotations::TOLD_BY_AGENT;
use serde_json::{Value, json};

/// Between two questions to an agent whose Nodes said nothing, at first and at last.
const SOON: Duration = Duration::from_secs(60);
const LATE: Duration = Duration::from_secs(3600);

/// Where a cluster is, as its agent tells it; empty where it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// `spec.provider`.
    pub provider: String,
    /// `spec.region`.
    pub region: String,
    /// `spec.zones`.
    pub zones: Vec<String>,
}

/// The fields that nobody has said, and that were never written for the agent.
pub fn open_fields(cluster: &Value) -> BTreeSet<&'static str> {
    let written = noted(cluster);
    let is_open = |field: &&str| {
        let said = &cluster["spec"][*field];
        let is_empty = said.as_str().is_none_or(str::is_empty) && said.as_array().is_none_or(Vec::is_empty);
        is_empty && !written.contains(*field)
    };
    ["provider", "region", "zones"].into_iter().filter(is_open).collect()
}

fn noted(cluster: &Value) -> BTreeSet<&str> {
    let note = object::annotation(cluster, TOLD_BY_AGENT).unwrap_or_default();
    note.split(',').filter(|field| !field.is_empty()).collect()
}

/// The Cluster with what its agent tells of open fields; none where that is nothing.
pub fn filled(cluster: &Value, told: &Told) -> Option<Value> {
    let said = [
        ("provider", json!(told.provider), !told.provider.is_empty()),
        ("region", json!(told.region), !told.region.is_empty()),
        ("zones", json!(told.zones), !told.zones.is_empty()),
    ];
    let open = open_fields(cluster);
    let news: Vec<(&str, Value)> = said
        .into_iter()
        .filter(|(field, _, is_said)| *is_said && open.contains(field))
        .map(|(field, value, _)| (field, value))
        .collect();
    if news.is_empty() {
        return None;
    }
    let mut written = noted(cluster);
    written.extend(news.iter().map(|(field, _)| *field));
    let note = written.into_iter().collect::<Vec<_>>().join(",");
    let mut wanted = cluster.clone();
    object::set_annotation(&mut wanted, TOLD_BY_AGENT, &note);
    for (field, value) in news {
        wanted["spec"][field] = value;
    }
    Some(wanted)
}

/// When the agent was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The moment, since some beginning.
    at: Duration,
    /// How many Nodes there were.
    nodes: i64,
    /// How often it had been asked before with as many.
    before: u32,
}

/// What is to be done about an open field now: ask, which is to be noted, or wait so long. Nothing where there are no Nodes: whatever they say comes
/// with them.
pub fn question(last: Option<Asked>, nodes: i64, now: Duration) -> Option<Result<Asked, Duration>> {
    if nodes < 1 {
        return None;
    }
    let Some(last) = last else { return Some(Ok(Asked { at: now, nodes, before: 0 })) };
    let before = if last.nodes == nodes { last.before } else { 0 };
    let due = last.at + SOON.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX)).min(LATE);
    Some(match due.checked_sub(now).filter(|left| !left.is_zero()) {
        Some(left) => Err(left),
        None => Ok(Asked { at: now, nodes, before: before + 1 }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(region: &str, zones: &[&str]) -> Told {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        Told { region: region.to_owned(), zones, ..Told::default() }
    }

    #[test]
    fn what_nobody_said_is_filled_once() {
        let bare = json!({"metadata": {"name": "a"}, "spec": {"id": "u"}});
        assert_eq!(open_fields(&bare).len(), 3);
        assert_eq!(filled(&bare, &Told::default()), None, "nothing is told");
        let one = filled(&bare, &told("eu", &[])).unwrap();
        assert_eq!(one["spec"], json!({"id": "u", "region": "eu"}));
        assert_eq!(one["metadata"]["annotations"][TOLD_BY_AGENT], "region");
        assert_eq!(filled(&one, &told("us", &[])), None, "what is said stays");
        let both = filled(&one, &told("us", &["a", "b"])).unwrap();
        assert_eq!(both["spec"], json!({"id": "u", "region": "eu", "zones": ["a", "b"]}));
        assert_eq!(both["metadata"]["annotations"][TOLD_BY_AGENT], "region,zones");
        // A person takes it out, or says another.
        let mut taken_out = both;
        taken_out["spec"].as_object_mut().unwrap().remove("region");
        assert_eq!(filled(&taken_out, &told("us", &["c"])), None);
        let mut other = bare;
        (other["spec"]["region"], other["spec"]["zones"]) = (json!("mars"), json!([]));
        let filled = filled(&other, &told("eu", &["c"])).unwrap();
        assert_eq!(filled["spec"], json!({"id": "u", "region": "mars", "zones": ["c"]}));
    }

    #[test]
    fn an_agent_is_asked_at_once_and_then_ever_more_seldom_until_nodes_come() {
        let at = Duration::from_secs;
        assert_eq!(question(None, 0, at(5)), None);
        let first = question(None, 2, at(5)).unwrap().unwrap();
        assert_eq!(question(Some(first), 2, at(5)), Some(Err(at(60))));
        assert_eq!(question(Some(first), 3, at(35)), Some(Err(at(30))), "however Nodes come and go");
        let (mut last, mut waits) = (first, Vec::new());
        for _ in 0..40 {
            let Some(Err(wait)) = question(Some(last), 2, last.at) else { panic!("{last:?}") };
            waits.push(wait.as_secs());
            last = question(Some(last), 2, last.at + wait).unwrap().unwrap();
        }
        assert_eq!(waits[..8], [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(waits.last(), Some(&3600));
        assert!(question(Some(last), 3, last.at + at(60)).unwrap().is_ok(), "another Node, another answer");
    }
}
