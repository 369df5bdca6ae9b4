//! `karmadactl taint`. In: clusters and `key=value:Effect`, or with a dash to remove. Out: their `spec.taints`.

use anyhow::{Result, bail, ensure};
use karmada_api::strings::taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE};
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::{ApiError, Connection};
use crate::output;

/// How often a write that lost against another is tried again.
const TRIES: usize = 5;

/// Flags of `taint`.
#[derive(clap::Args)]
pub struct Arguments {
    /// `clusters`, the clusters' names, and the taints: key=value:Effect or key:Effect; key:Effect- or key- removes.
    #[arg(required = true, num_args = 3.., value_names = ["clusters", "NAME...", "TAINT"])]
    words: Vec<String>,
    /// Change a taint that is there with another value.
    #[arg(long)]
    overwrite: bool,
}

/// One taint to set or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: String,
    /// Its value; empty for none.
    pub value: String,
    /// Its effect; `None` removes the key with every effect.
    pub effect: Option<String>,
    /// Remove it.
    pub remove: bool,
}

/// Reads `key=value:Effect`, `key:Effect`, `key:Effect-` or `key-`.
fn parse(text: &str) -> Result<Change> {
    let (body, remove) = match text.strip_suffix('-') {
        Some(body) => (body, true),
        None => (text, false),
    };
    let (pair, effect) = match body.split_once(':') {
        Some((pair, effect)) => (pair, Some(effect.to_owned())),
        None => (body, None),
    };
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    ensure!(!key.is_empty(), "{text:?} is not a taint: write key=value:Effect, or key:Effect- to remove one");
    match effect.as_deref() {
        Some(NO_SCHEDULE | PREFER_NO_SCHEDULE | NO_EXECUTE) => {}
        None if remove => {}
        _ => bail!("{text:?} needs an effect: {NO_SCHEDULE}, {PREFER_NO_SCHEDULE} or {NO_EXECUTE}"),
    }
    Ok(Change { key: key.to_owned(), value: value.to_owned(), effect, remove })
}

/// Whether a word is a taint and not a cluster's name, which has neither sign.
fn is_taint(word: &str) -> bool {
    word.contains([':', '=']) || word.ends_with('-')
}

/// What is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Another value under the key, and a taint to remove that is not there.
    Strict,
    /// A taint to remove that is not there.
    Overwrite,
    /// Nothing.
    Idempotent,
}

/// The taints after the changes.
fn apply(taints: &[Value], changes: &[Change], rule: Rule) -> Result<Vec<Value>> {
    let mut taints = taints.to_vec();
    for change in changes {
        let same = |taint: &Value| {
            taint["key"] == *change.key
                && change.effect.as_ref().is_none_or(|effect| taint["effect"] == **effect)
        };
        let value = |taint: &Value| taint["value"].as_str().unwrap_or_default().to_owned();
        let present = taints.iter().position(same);
        match (change.remove, present) {
            (true, Some(_)) => taints.retain(|taint| !same(taint)),
            (true, None) if rule == Rule::Idempotent => {}
            (true, None) => bail!("there is no taint {}", shown(change)),
            (false, Some(at)) if value(&taints[at]) == change.value => {}
            (false, Some(_)) if rule == Rule::Strict => {
                bail!("the taint {} is there with another value: --overwrite changes it", shown(change))
            }
            (false, present) => {
                let mut taint = json!({"key": change.key, "effect": change.effect});
                if !change.value.is_empty() {
                    taint["value"] = json!(change.value);
                }
                match present {
                    Some(at) => taints[at] = taint,
                    None => taints.push(taint),
                }
            }
        }
    }
    Ok(taints)
}

fn shown(change: &Change) -> String {
    match &change.effect {
        Some(effect) => format!("{}:{effect}", change.key),
        None => change.key.clone(),
    }
}

/// Changes a cluster's taints; false if it has them so already.
pub async fn write(
    hub: &Connection,
    name: &str,
    changes: &[Change],
    rule: Rule,
    dry_run: bool,
) -> Result<bool> {
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}");
    let mut tries = 0;
    loop {
        let Some(cluster) = hub.find(&path).await? else {
            bail!(
                "there is no cluster {name} on {}: karmadactl get clusters lists those there are",
                hub.server
            );
        };
        let live = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let taints = apply(&live, changes, rule)?;
        if taints == live || dry_run {
            return Ok(taints != live);
        }
        // The version makes sure that a taint set meanwhile is not lost: lists are replaced whole.
        let version = &cluster["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        tries += 1;
        match hub.merge(&path, &patch).await {
            Ok(_) => return Ok(true),
            Err(ApiError::Refused { code: 409, .. }) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Taints clusters.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let (kind, rest) =
        arguments.words.split_first().map_or(("", &[][..]), |(kind, rest)| (kind.as_str(), rest));
    let (kind, first) = kind.split_once('/').map_or((kind, None), |(kind, name)| (kind, Some(name)));
    ensure!(
        matches!(kind, "cluster" | "clusters"),
        "only clusters are tainted: karmadactl taint clusters NAME key=value:Effect"
    );
    let (taints, names): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| is_taint(word));
    let changes: Vec<Change> = taints.into_iter().map(|text| parse(text)).collect::<Result<_>>()?;
    let names: Vec<&str> = first.into_iter().chain(names.into_iter().map(String::as_str)).collect();
    ensure!(!changes.is_empty() && !names.is_empty(), "name at least one cluster and one taint");
    let rule = if arguments.overwrite { Rule::Overwrite } else { Rule::Strict };
    let hub = access.hub().await?;
    let removed = changes.iter().all(|change| change.remove);
    for name in names {
        write(&hub, name, &changes, rule, false).await?;
        output::line(&format!("cluster/{name} {}", if removed { "untainted" } else { "tainted" }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_read_set_and_removed() {
        let (set, other) = (parse("site=edge:NoSchedule").unwrap(), parse("site=core:NoSchedule").unwrap());
        let one = apply(&[], std::slice::from_ref(&set), Rule::Strict).unwrap();
        assert_eq!(one, [json!({"key": "site", "value": "edge", "effect": "NoSchedule"})]);
        assert_eq!(apply(&one, std::slice::from_ref(&set), Rule::Strict).unwrap(), one);
        assert!(apply(&one, std::slice::from_ref(&other), Rule::Strict).is_err());
        assert_eq!(apply(&one, &[other], Rule::Overwrite).unwrap()[0]["value"], "core");
        let two = apply(&one, &[parse("site:NoExecute").unwrap()], Rule::Strict).unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(apply(&two, &[parse("site:NoExecute-").unwrap()], Rule::Strict).unwrap(), one);
        assert!(apply(&two, &[parse("site-").unwrap()], Rule::Strict).unwrap().is_empty());
        let absent = [parse("other-").unwrap()];
        assert!(
            apply(&one, &absent, Rule::Strict).is_err() && apply(&one, &absent, Rule::Overwrite).is_err()
        );
        assert_eq!(apply(&one, &absent, Rule::Idempotent).unwrap(), one);
        for wrong in ["site", "site=edge", "site:Sometimes", "=a:NoSchedule", "-"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
