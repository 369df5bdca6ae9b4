//! `karmadactl orphans`: the Works that a site enforces, or has marked objects of, and that the hub knows nothing of, and a person's word
//! on what becomes of them. In: a Cluster, names. Out: a list; or the annotation `edge.karmada.io/orphans` on the Cluster, with the word beside the names.

use anyhow::{Result, bail};
use karmada_api::strings::annotations::ORPHANS;
use karmada_core::orphans::{Fate, Orphans};
use serde_json::json;

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
        (true, _) => Fate::Release,
        (_, true) => Fate::Delete,
        _ => {
            return output::print(&listed(
                &arguments.cluster,
                &Orphans::of(&site::found(&hub, &arguments.cluster).await?),
            ));
        }
    };
    for _ in 0..TRIES {
        let cluster = site::found(&hub, &arguments.cluster).await?;
        let mut all = Orphans::of(&cluster);
        let names = chosen(arguments, &all)?;
        names.iter().for_each(|name| all.decide(name, word));
        let dry = if arguments.dry_run { " (dry run)" } else { "" };
        let done = format!("{} orphans of {}: {}{dry}", names.len(), arguments.cluster, word.word());
        if arguments.dry_run {
            return output::line(&done);
        }
        let version = &cluster["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": {ORPHANS: all.text()}}});
        match hub.merge(&site::path(&arguments.cluster), &patch).await {
            Ok(_) => return output::line(&format!("{done}{}", site::when_heard(&cluster))),
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the cluster {} changes all the time: try again", arguments.cluster)
}

fn listed(cluster: &str, all: &Orphans) -> String {
    if all.count() == 0 {
        return format!("{cluster} has nothing of the hub's that the hub does not know of\n");
    }
    let lines = all.fates().iter().map(|(name, fate)| format!("{:<10} {name}\n", fate.word()));
    format!("{:<10} WORK\n{}", "DECISION", lines.collect::<String>())
}

/// The names that the word is for; each must be among `all`.
fn chosen(arguments: &Arguments, all: &Orphans) -> Result<Vec<String>> {
    if arguments.names.is_empty() && !arguments.all {
        bail!("which ones? Name them, or say --all: karmadactl orphans {} lists them", arguments.cluster);
    }
    if arguments.all {
        return Ok(all.fates().keys().cloned().collect());
    }
    if let Some(unknown) = arguments.names.iter().find(|name| !all.fates().contains_key(*name)) {
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
        let all = Orphans::of(&cluster);
        assert!(
            listed("m", &all).contains("undecided  a\n")
                && listed("m", &Orphans::default()).contains("nothing")
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
