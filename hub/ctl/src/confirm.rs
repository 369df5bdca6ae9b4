//! `karmadactl confirm`: a person's word that deletes which a restored hub holds back for a site may go out. In: a Cluster and the batch
//! that its event `DeletesHeld` names. Out: the annotation `edge.karmada.io/confirm-deletes` on the Cluster.
//!
//! The word is for that batch: what is held after it waits for another one, and so does what another life of the hub, which was restored
//! once more, lists under the same epoch and revision.

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
    /// The batch that the event `DeletesHeld` of the Cluster names: EPOCH/REVISION/START.
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
    let is_number = |text: &str, radix| u64::from_str_radix(text, radix).is_ok();
    match text.split('/').collect::<Vec<_>>()[..] {
        [epoch, revision, start]
            if is_number(epoch, 10) && is_number(revision, 10) && is_number(start, 16) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("it is EPOCH/REVISION/START, as the event DeletesHeld of the Cluster names it".to_owned()),
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
            patch("7/12/1f").pointer("/metadata/annotations/edge.karmada.io~1confirm-deletes"),
            Some(&json!("7/12/1f"))
        );
        assert!(batch("7/12/1f").is_ok());
        for wrong in ["7", "7/12", "7/x/1", "7/12/g", "7/12/1/1"] {
            assert!(batch(wrong).is_err(), "{wrong}");
        }
    }
}
