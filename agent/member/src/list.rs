//! One list of a kind, for who looks once and does not go on watching.
//!
//! In: what is to be listed, and how many at most. Out: what is kept of each object, in the order in which the member told them.

use futures::StreamExt as _;
use serde_json::Value;

use crate::{Member, MemberError, MemberEvent, Watch};

/// Lists once: of the first `most` objects what `keep` makes of them. None where the member ended the list before it was whole.
///
/// # Errors
/// As of [`Member::watch`]: the member does not answer, does not serve the kind, or does not let the agent list it.
pub async fn list<T>(
    member: &dyn Member,
    watch: Watch,
    most: usize,
    keep: impl Fn(Value) -> T,
) -> Result<Option<Vec<T>>, MemberError> {
    let mut events = member.watch(watch);
    let mut kept = Vec::new();
    while let Some(event) = events.next().await {
        match event? {
            // A list that broke off begins anew.
            MemberEvent::Listing => kept.clear(),
            MemberEvent::Object(object) if kept.len() < most => kept.push(keep(*object)),
            MemberEvent::Listed => return Ok(Some(kept)),
            MemberEvent::Object(_) | MemberEvent::Gone(_) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Gvk;
    use crate::memory::MemoryMember;

    #[tokio::test]
    async fn no_more_is_kept_than_was_asked_for() {
        let member = MemoryMember::new("m", 3, std::time::Duration::ZERO);
        let nodes = |most| {
            let watch = Watch {
                gvk: Gvk::new("v1", "Node"),
                namespace: String::new(),
                labels: String::new(),
                fields: String::new(),
            };
            let member = &member;
            async move { list(member, watch, most, |node| node["kind"].clone()).await.unwrap().unwrap() }
        };
        let all = nodes(usize::MAX).await;
        assert!(all.len() > 1 && all.iter().all(|kind| *kind == json!("Node")), "{all:?}");
        assert_eq!(nodes(1).await.len(), 1);
    }
}
