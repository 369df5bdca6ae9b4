//! A watch of one kind of the member's objects, for as long as the kind is wanted.
//!
//! In: the kind, and the namespaces that may be looked in; only objects with our label are asked for. Out: the member's events, into the
//! engine's bounded queue; a watch that finds no room there waits.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karmada_api::strings::labels;
use tokio::sync::mpsc;

use super::failure_log::FailureLog;
use crate::member::{Gvk, Member, MemberError, MemberEvent, Watch, namespaced_watch};
use crate::retry::Waits;

/// An event of a kind, with the kind's plural.
pub(super) type Watched = (Gvk, String, MemberEvent);

/// Watches one kind for as long as anybody listens; a watch that ends is begun again after a pause.
pub(super) async fn run(
    member: Arc<dyn Member>,
    gvk: Gvk,
    namespaces: Arc<[String]>,
    failure_log: Arc<FailureLog>,
    events: mpsc::Sender<Watched>,
) {
    let mut waits = Waits::default();
    loop {
        let pause = async |waits: &mut Waits| {
            tokio::time::sleep(waits.failed("").min(Duration::from_secs(30))).await;
        };
        let Ok(plural) = member.resource(&gvk).await else {
            pause(&mut waits).await;
            continue;
        };
        let labels = format!("{}={}", labels::MANAGED, labels::MANAGED_VALUE);
        let watch = Watch { gvk: gvk.clone(), namespace: String::new(), labels, fields: String::new() };
        let mut stream = namespaced_watch::watch(&*member, watch, &namespaces);
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    if event == MemberEvent::Listed {
                        waits.clear("");
                    }
                    if events.send((gvk.clone(), plural.clone(), event)).await.is_err() {
                        return;
                    }
                }
                Err(MemberError::NoKind(_)) => break,
                Err(error) => {
                    if let Some(untold) = failure_log.met(&error.to_string()) {
                        tracing::warn!(%gvk, %error, untold, "watching the member");
                    }
                    break;
                }
            }
        }
        pause(&mut waits).await;
    }
}
