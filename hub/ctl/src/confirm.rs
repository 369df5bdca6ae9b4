//! `karmadactl confirm`: a person's word that the deletes which a restored hub holds back for a site may go out. In: a Cluster and the
//! epoch that its event `DeletesHeld` names. Out: the annotation `edge.karmada.io/confirm-deletes` on the Cluster.
//!
//! The epoch is part of the word: one given for an earlier restore lets nothing through after the next.

use anyhow::{Result, bail};
use karmada_api::strings::annotations::CONFIRM_DELETES;
use serde_json::{Value, json};

use crate::access::Access;
use crate::output;

/// Flags of `confirm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster whose deletes are held back.
    cluster: String,
    /// The epoch that the event `DeletesHeld` of the Cluster names.
    #[arg(long)]
    epoch: u64,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Sets the annotation.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let hub = access.hub().await?;
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", arguments.cluster);
    if hub.find(&path).await?.is_none() {
        bail!(
            "there is no cluster {} on {}: karmadactl get clusters lists those there are",
            arguments.cluster,
            hub.server
        );
    }
    if !arguments.dry_run {
        hub.merge(&path, &patch(arguments.epoch)).await?;
    }
    let dry = if arguments.dry_run { " (dry run)" } else { "" };
    output::line(&format!(
        "the deletes of epoch {} may go out to {}{dry}",
        arguments.epoch, arguments.cluster
    ))
}

fn patch(epoch: u64) -> Value {
    json!({"metadata": {"annotations": {CONFIRM_DELETES: epoch.to_string()}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_for_one_epoch() {
        assert_eq!(
            patch(7).pointer("/metadata/annotations/edge.karmada.io~1confirm-deletes"),
            Some(&json!("7"))
        );
    }
}
