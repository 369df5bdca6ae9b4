//! What the agent says of itself in the member, where karmadactl and people read it: the annotation
//! [`STATE`] of the identity's Secret, JSON `{"state","cause","message","at"}`, and `"ledger"` while that is in trouble.
//!
//! Comes in: where the link and the ledger stand. Goes out: a merge patch of that Secret where the words changed, and nothing
//! otherwise. An agent that keeps its identity in a directory says it in its log alone.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::agent_state::LinkView;
use crate::clock_and_random::ClockAndRandom;
use crate::identity::{IdentityStore, secret_id};
use crate::member::MemberError;

/// On the identity Secret: what the agent says of itself.
pub const STATE: &str = "edge.karmada.io/agent-state";

/// Before it is tried again, where the member did not take it.
const AGAIN: Duration = Duration::from_secs(5);
/// What the end of the process waits for the last word.
const FAREWELL: Duration = Duration::from_secs(3);

/// Keeps the annotation as the link and the ledger stand. Ends with a sender of either.
pub async fn run(
    identity_store: IdentityStore,
    sources: ClockAndRandom,
    mut link: watch::Receiver<LinkView>,
    mut trouble: watch::Receiver<Option<String>>,
) {
    loop {
        let (view, wrong) = (link.borrow_and_update().clone(), trouble.borrow_and_update().clone());
        match say(&identity_store, &sources, &view, wrong.as_deref()).await {
            Ok(()) => {
                let changed = tokio::select! {
                    changed = link.changed() => changed,
                    changed = trouble.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "saying where the link stands");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// The last word of a process that ends.
pub async fn farewell(identity_store: &IdentityStore, sources: &ClockAndRandom, view: &LinkView) {
    let _ = tokio::time::timeout(FAREWELL, say(identity_store, sources, view, None)).await;
}

async fn say(
    identity_store: &IdentityStore,
    sources: &ClockAndRandom,
    view: &LinkView,
    trouble: Option<&str>,
) -> Result<(), MemberError> {
    let IdentityStore::Secret { member, namespace, name } = identity_store else { return Ok(()) };
    let id = secret_id(namespace, name);
    // Only a Secret that is there: who removes it (unregister) means it.
    let Some(secret) = member.get(&id).await? else { return Ok(()) };
    let standing =
        secret.pointer("/metadata/annotations").and_then(|all| all.get(STATE)).and_then(Value::as_str);
    let Some(said) = words(standing, view, trouble, sources.now()) else { return Ok(()) };
    member.merge(&id, &json!({"metadata": {"annotations": {STATE: said}}})).await.map(drop)
}

/// What is to stand there instead of `standing`; `None` where that says it already.
fn words(standing: Option<&str>, view: &LinkView, trouble: Option<&str>, now: Timestamp) -> Option<String> {
    let (state, cause, message) = match view {
        // A failure, or a connection, stands until there is news: a restart alone is none.
        LinkView::Starting if standing.is_some() && trouble.is_none() => return None,
        LinkView::Starting => ("Joining", String::new(), "asking the hub".to_owned()),
        LinkView::Connected { .. } => ("Connected", String::new(), "the hub welcomed the agent".to_owned()),
        LinkView::Away { cause, reason } => ("Failed", cause.to_string(), reason.clone()),
    };
    let mut said = json!({"state": state, "cause": cause, "message": message});
    if let Some(trouble) = trouble {
        said["ledger"] = json!(format!("in memory alone, and nothing is acknowledged: {trouble}"));
    }
    let before: Option<Value> = standing.and_then(|text| serde_json::from_str(text).ok());
    if before
        .is_some_and(|before| ["state", "cause", "message", "ledger"].iter().all(|f| before[*f] == said[*f]))
    {
        return None;
    }
    said["at"] = json!(now);
    Some(said.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cause::Cause;
    use crate::member::Member;
    use crate::member::memory::MemoryMember;

    #[test]
    fn only_news_is_written() {
        let now = Timestamp::UNIX_EPOCH;
        let away = |cause, reason: &str| LinkView::Away { cause, reason: reason.to_owned() };
        let joining = words(None, &LinkView::Starting, None, now).unwrap();
        assert!(joining.contains(r#""state":"Joining""#), "{joining}");
        let failed = words(Some(&joining), &away(Cause::Http2Refused, "a proxy"), None, now).unwrap();
        let parsed: Value = serde_json::from_str(&failed).unwrap();
        let expected = json!({"state": "Failed", "cause": "HTTP2Refused", "message": "a proxy", "at": now});
        assert_eq!(parsed, expected);
        for (standing, view) in [
            (&joining, LinkView::Starting),
            (&failed, LinkView::Starting),
            (&failed, away(Cause::Http2Refused, "a proxy")),
        ] {
            assert_eq!(words(Some(standing), &view, None, Timestamp::MAX), None, "{view:?}");
        }
        assert!(words(Some(&failed), &away(Cause::Tcp, "a proxy"), None, now).is_some());
        assert!(words(Some("no JSON"), &LinkView::Connected { epoch: 1 }, None, now).is_some());
    }

    #[tokio::test]
    async fn it_stands_on_the_secret_and_leaves_the_identity_alone() {
        let member: Arc<dyn Member> = Arc::new(MemoryMember::new("m", 1, Duration::ZERO));
        let identity_store =
            IdentityStore::Secret { member: member.clone(), namespace: "default".into(), name: "id".into() };
        say(&identity_store, &ClockAndRandom::system(), &LinkView::Starting, None).await.unwrap();
        assert!(member.get(&secret_id("default", "id")).await.unwrap().is_none(), "it makes no Secret");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "id", "namespace": "default"},
            "data": {"identity.json": "e30="}});
        member.create(&secret).await.unwrap();
        say(
            &identity_store,
            &ClockAndRandom::system(),
            &LinkView::Connected { epoch: 1 },
            Some("the disk is full"),
        )
        .await
        .unwrap();
        let secret = member.get(&secret_id("default", "id")).await.unwrap().unwrap();
        assert!(secret["metadata"]["annotations"][STATE].as_str().unwrap().contains("Connected"));
        assert!(secret["metadata"]["annotations"][STATE].as_str().unwrap().contains("the disk is full"));
        say(&identity_store, &ClockAndRandom::system(), &LinkView::Connected { epoch: 1 }, None)
            .await
            .unwrap();
        let secret = member.get(&secret_id("default", "id")).await.unwrap().unwrap();
        assert!(!secret["metadata"]["annotations"][STATE].as_str().unwrap().contains("ledger"), "it is over");
        assert_eq!(secret["data"]["identity.json"], "e30=");
    }
}
