//! One look at every kind that the member serves for objects that bear our marks: a kind of which nothing is held has no watch.
//!
//! In: the member. Out: marked objects with the Work that they name, into the engine's bounded queue. Paced, page by page, and nothing
//! is written. A kind that cannot be listed, or may not be, is passed over: what is not seen is not told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karmada_api::strings::labels;
use tokio::sync::mpsc;

use super::member_body::ClusterNames;
use super::{catch_panics, orphan_candidates};
use crate::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Watch, namespaced_watch};

/// Kinds that are many, and that no Work brings.
const PASSED_OVER: [(&str, &str); 2] = [("", "Event"), ("events.k8s.io", "Event")];
/// A group of what is measured, not stored.
const MEASURED: &str = "metrics.k8s.io";

/// What is to be looked at.
pub(super) struct Look {
    pub(super) member: Arc<dyn Member>,
    pub(super) cluster: ClusterNames,
    /// The only namespaces to look in; empty for all.
    pub(super) namespaces: Arc<[String]>,
    /// Groups and kinds that are watched already.
    pub(super) watched: BTreeSet<(String, String)>,
    /// Between two kinds.
    pub(super) pause: Duration,
}

/// Looks at all kinds, for as long as anybody listens.
pub(super) async fn run(look: Look, found: mpsc::Sender<(ObjectId, String)>) {
    let kinds = match kinds(&look).await {
        Ok(kinds) => kinds,
        Err(error) => {
            return tracing::debug!(%error, "what the member serves is not known: its kinds are not looked at");
        }
    };
    for gvk in kinds {
        match kind(&look, &gvk, &found).await {
            Ok(()) => {}
            Err(Ended::Unheard) => return,
            Err(Ended::Member(error)) => tracing::debug!(%gvk, %error, "not looked at"),
        }
        tokio::time::sleep(look.pause).await;
    }
}

enum Ended {
    Unheard,
    Member(MemberError),
}

/// One version of each kind.
async fn kinds(look: &Look) -> Result<Vec<Gvk>, MemberError> {
    let (enablements, _) = look.member.api_enablements().await?;
    let mut known = look.watched.clone();
    known.extend(PASSED_OVER.map(|(group, kind)| (group.to_owned(), kind.to_owned())));
    let mut kinds = Vec::new();
    for enablement in enablements {
        for resource in enablement.resources {
            let gvk = Gvk::new(&enablement.group_version, &resource.kind);
            if gvk.group != MEASURED && known.insert((gvk.group.clone(), gvk.kind.clone())) {
                kinds.push(gvk);
            }
        }
    }
    Ok(kinds)
}

async fn kind(look: &Look, gvk: &Gvk, found: &mpsc::Sender<(ObjectId, String)>) -> Result<(), Ended> {
    let labels = format!("{}={}", labels::MANAGED, labels::MANAGED_VALUE);
    let watch = Watch { gvk: gvk.clone(), namespace: String::new(), labels, fields: String::new() };
    let mut stream = namespaced_watch::watch(&*look.member, watch, &look.namespaces);
    while let Some(event) = stream.next().await {
        match event.map_err(Ended::Member)? {
            MemberEvent::Object(object) => {
                let key = catch_panics::read(|| {
                    orphan_candidates::work_of(&object, &look.cluster).map(str::to_owned)
                })
                .flatten();
                if let Some(key) = key {
                    found.send((ObjectId::of(&object), key)).await.map_err(|_| Ended::Unheard)?;
                }
            }
            MemberEvent::Listed => return Ok(()),
            MemberEvent::Listing | MemberEvent::Gone(_) => {}
        }
    }
    Ok(())
}
