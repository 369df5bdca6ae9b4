//! `karmadactl confirm`: a person's word that deletes which are held back for a site may go out. In: a Cluster and the batch that its event
//! `DeletesHeld` or its ClusterLink names. Out: an annotation on the Cluster: `edge.karmada.io/confirm-deletes` for what a restored hub holds
//! back, `edge.karmada.io/confirm-removals` for what changes of placement would take.
//!
//! The word is for that batch: what is held after it waits for another one, and so does what another life of the hub, which was restored
//! once more, lists under the same epoch and revision.

use anyhow::Result;
use karmada_api::strings::annotations::{CONFIRM_DELETES, CONFIRM_REMOVALS};
use serde_json::{Value, json};

use crate::access::Access;
use crate::{output, site};

/// Flags of `confirm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The cluster whose deletes are held back.
    cluster: String,
    /// The batch that the Cluster's link shows (kubectl get clusterlink CLUSTER -o yaml): EPOCH/REVISION/START of heldDeletes, or the moment of
    /// heldRemovals, as in 20260131T235959Z.
    #[arg(long, value_parser = batch)]
    batch: Batch,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Sets the annotation.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let Arguments { cluster, batch: asked @ Batch { annotation, text: batch }, dry_run } = arguments;
    let hub = access.hub().await?;
    let found = site::found(&hub, cluster).await?;
    if asked.is_in(found["metadata"]["annotations"][annotation].as_str().unwrap_or_default()) {
        return output::line(&format!("the deletes of batch {batch} were let out to {cluster} before"));
    }
    if !dry_run {
        hub.merge(&site::path(cluster), &patch(annotation, batch)).await?;
    }
    let dry = if *dry_run { " (dry run)" } else { "" };
    let later = site::when_heard(&found);
    output::line(&format!("the deletes of batch {batch} may go out to {cluster}{dry}{later}"))
}

/// A batch, and the annotation that lets it go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    annotation: &'static str,
    text: String,
}

impl Batch {
    /// Whether a word that was given before lets it go: that for a later moment does, and is not to be taken back by one for an earlier.
    fn is_in(&self, word: &str) -> bool {
        let later = self.annotation == CONFIRM_REMOVALS
            && batch(word).is_ok_and(|said| said.annotation == self.annotation)
            && *word > *self.text;
        later || word == self.text
    }
}

fn batch(text: &str) -> Result<Batch, String> {
    let is_number = |text: &str, radix| u64::from_str_radix(text, radix).is_ok();
    let of = |annotation| Ok(Batch { annotation, text: text.to_owned() });
    match text.split('/').collect::<Vec<_>>()[..] {
        [epoch, revision, start]
            if is_number(epoch, 10) && is_number(revision, 10) && is_number(start, 16) =>
        {
            of(CONFIRM_DELETES)
        }
        [_] if jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).is_ok() => of(CONFIRM_REMOVALS),
        _ => Err(
            "it is EPOCH/REVISION/START or a moment like 20260131T235959Z, as the Cluster's link shows it"
                .to_owned(),
        ),
    }
}

fn patch(annotation: &str, batch: &str) -> Value {
    json!({"metadata": {"annotations": {annotation: batch}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_later_moment_is_not_taken_back() {
        let asked = batch("20260131T235959Z").unwrap();
        for (said, is_in) in [
            ("20260131T235959Z", true),
            ("20260201T000000Z", true),
            ("20260131T235958Z", false),
            ("", false),
            ("zzz", false),
            ("9/1/1", false),
        ] {
            assert_eq!(asked.is_in(said), is_in, "{said}");
        }
        assert!(!batch("7/12/1f").unwrap().is_in("8/12/1f"));
        assert!(batch("7/12/1f").unwrap().is_in("7/12/1f"));
    }

    #[test]
    fn the_word_is_for_one_batch() {
        let restored = batch("7/12/1f").unwrap();
        assert_eq!(
            patch(restored.annotation, &restored.text)
                .pointer("/metadata/annotations/edge.karmada.io~1confirm-deletes"),
            Some(&json!("7/12/1f"))
        );
        assert_eq!(batch("20260131T235959Z").unwrap().annotation, "edge.karmada.io/confirm-removals");
        for wrong in [
            "7",
            "7/12",
            "7/x/1",
            "7/12/g",
            "7/12/1/1",
            "20260131",
            "20261331T235959Z",
            "2026-01-31T23:59:59Z",
        ] {
            assert!(batch(wrong).is_err(), "{wrong}");
        }
    }
}
