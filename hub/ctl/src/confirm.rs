//! `karmadactl confirm`: a person's word that deletes which a restored hub holds back for a site may go out. In: a Cluster and the batch
//! that its event `DeletesHeld` names. Out: the annotation `edge.karmada.io/confirm-deletes` on the Cluster.
//!
//! The word is for that batch: what is held after it waits for another one.

use anyhow::Result;
use karmada_api::strings::annotations::CONFIRM_DELETES;
use serde_json::{Value, json};

use crate::access::Access;
use crate::{output, site};

/// Flags of `confirm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster whose deletes are held back.
    cluster: String,
    /// The batch that the event `DeletesHeld` of the Cluster names: EPOCH/REVISION.
    #[arg(long, value_parser = batch)]
    batch: String,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Sets the annotation.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let Arguments { cluster, batch, dry_run } = arguments;
    let hub = access.hub().await?;
    let found = site::found(&hub, cluster).await?;
    if found["metadata"]["annotations"][CONFIRM_DELETES] == batch.as_str() {
        return output::line(&format!("the deletes of batch {batch} were let out to {cluster} before"));
    }
    if !dry_run {
        hub.merge(&site::path(cluster), &patch(batch)).await?;
    }
    let dry = if *dry_run { " (dry run)" } else { "" };
    let later = site::when_heard(&found);
    output::line(&format!("the deletes of batch {batch} may go out to {cluster}{dry}{later}"))
}

fn batch(text: &str) -> Result<String, String> {
    let numbers =
        text.split_once('/').map(|(epoch, revision)| (epoch.parse::<u64>(), revision.parse::<u64>()));
    match numbers {
        Some((Ok(_), Ok(_))) => Ok(text.to_owned()),
        _ => Err("it is EPOCH/REVISION, as the event DeletesHeld of the Cluster names it".to_owned()),
    }
}

fn patch(batch: &str) -> Value {
    json!({"metadata": {"annotations": {CONFIRM_DELETES: batch}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_for_one_batch() {
        assert_eq!(
            patch("7/12").pointer("/metadata/annotations/edge.karmada.io~1confirm-deletes"),
            Some(&json!("7/12"))
        );
        assert!(batch("7/12").is_ok() && batch("7").is_err() && batch("7/x").is_err());
    }
}
