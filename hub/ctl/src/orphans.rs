//! `karmadactl orphans`: the Works that a site enforces, or has marked objects of, and that the hub knows nothing of, and a person's word
//! on what becomes of them. In: a Cluster, names. Out: a list; or the annotation `edge.karmada.io/orphans` on the Cluster, with the word beside the names.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use karmada_api::strings::annotations::ORPHANS;
use serde_json::{Value, json};

use crate::access::Access;
use crate::{output, site};

/// How often the Cluster is read anew where somebody else changed it meanwhile.
const TRIES: usize = 5;

/// Flags of `orphans`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster.
    cluster: String,
    /// The orphans that the word is for.
    #[arg(conflicts_with = "all")]
    names: Vec<String>,
    /// All that are listed.
    #[arg(long)]
    all: bool,
    /// Stop enforcing them: their objects stay, without the hub's marks.
    #[arg(long, conflicts_with = "delete")]
    release: bool,
    /// Delete their objects from the site.
    #[arg(long)]
    delete: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Lists the orphans, or decides on them.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let hub = access.hub().await?;
    let word = match (arguments.release, arguments.delete) {
        (true, _) => "release",
        (_, true) => "delete",
        _ => {
            return output::print(&listed(
                &arguments.cluster,
                &orphans(&site::found(&hub, &arguments.cluster).await?),
            ));
        }
    };
    for _ in 0..TRIES {
        let cluster = site::found(&hub, &arguments.cluster).await?;
        let mut all = orphans(&cluster);
        let names = chosen(arguments, &all)?;
        names.iter().for_each(|name| drop(all.insert(name.clone(), word.to_owned())));
        let dry = if arguments.dry_run { " (dry run)" } else { "" };
        let done = format!("{} orphans of {}: {word}{dry}", names.len(), arguments.cluster);
        if arguments.dry_run {
            return output::line(&done);
        }
        let version = &cluster["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": {ORPHANS: json!(all).to_string()}}});
        match hub.merge(&site::path(&arguments.cluster), &patch).await {
            Ok(_) => return output::line(&format!("{done}{}", site::when_heard(&cluster))),
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the cluster {} changes all the time: try again", arguments.cluster)
}

/// Names, and what was decided of them.
pub(crate) fn orphans(cluster: &Value) -> BTreeMap<String, String> {
    let text = cluster["metadata"]["annotations"][ORPHANS].as_str();
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn listed(cluster: &str, all: &BTreeMap<String, String>) -> String {
    if all.is_empty() {
        return format!("{cluster} has nothing of the hub's that the hub does not know of\n");
    }
    let lines = all.iter().map(|(name, word)| format!("{word:<10} {name}\n"));
    format!("{:<10} WORK\n{}", "DECISION", lines.collect::<String>())
}

/// The names that the word is for; each must be among `all`.
fn chosen(arguments: &Arguments, all: &BTreeMap<String, String>) -> Result<Vec<String>> {
    if arguments.names.is_empty() && !arguments.all {
        bail!("which ones? Name them, or say --all: karmadactl orphans {} lists them", arguments.cluster);
    }
    if arguments.all {
        return Ok(all.keys().cloned().collect());
    }
    if let Some(unknown) = arguments.names.iter().find(|name| !all.contains_key(*name)) {
        bail!(
            "{unknown} is no orphan of {}: karmadactl orphans {} lists those there are",
            arguments.cluster,
            arguments.cluster
        );
    }
    Ok(arguments.names.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn line(text: &str) -> Result<Arguments, clap::Error> {
        Line::try_parse_from(std::iter::once("orphans").chain(text.split(' '))).map(|line| line.arguments)
    }

    #[test]
    fn a_word_is_for_names_that_are_listed() {
        let cluster = json!({"metadata": {"annotations": {ORPHANS: r#"{"a":"undecided","b":"release"}"#}}});
        let all = orphans(&cluster);
        assert!(
            listed("m", &all).contains("undecided  a\n") && listed("m", &BTreeMap::new()).contains("nothing")
        );
        assert_eq!(chosen(&line("m --all --release").unwrap(), &all).unwrap(), ["a", "b"]);
        assert_eq!(chosen(&line("m a --delete").unwrap(), &all).unwrap(), ["a"]);
        assert!(
            chosen(&line("m a c --delete").unwrap(), &all)
                .unwrap_err()
                .to_string()
                .contains("c is no orphan")
        );
        assert!(chosen(&line("m --delete").unwrap(), &all).is_err(), "nothing by mistake");
        for wrong in ["m --release --delete --all", "m a --all --delete"] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
        assert!(line("m").is_ok());
    }
}
