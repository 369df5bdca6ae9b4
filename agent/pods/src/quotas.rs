//! What the ResourceQuotas of one namespace leave, where the hub asks for room and they count.
//!
//! In: a namespace of the member. Out: its quotas, trimmed to what bounds Pods. They are read anew for each question: few namespaces have any, and
//! what they leave changes with each Pod.

use futures::StreamExt as _;
use karmada_interpreter::node_room::Quota;
use karmada_member::{Gvk, Member, MemberError, MemberEvent, Watch};

/// Quotas of one namespace that are looked at; where there are more, the room is not known.
const MOST: usize = 1_000;

/// Reads them.
///
/// # Errors
/// In words: the member does not answer, the agent may not read quotas there, or there are too many.
pub async fn of(member: &dyn Member, namespace: &str) -> Result<Vec<Quota>, String> {
    let mut listed = member.watch(Watch {
        gvk: Gvk::new("v1", "ResourceQuota"),
        namespace: namespace.to_owned(),
        labels: String::new(),
        fields: String::new(),
    });
    let mut quotas = Vec::new();
    while let Some(event) = listed.next().await {
        match event.map_err(|error: MemberError| error.to_string())? {
            MemberEvent::Object(quota) => quotas.push(Quota::of(&quota)),
            MemberEvent::Listed => return Ok(quotas),
            MemberEvent::Listing | MemberEvent::Gone(_) => {}
        }
        if quotas.len() > MOST {
            return Err(format!("{namespace} has more than {MOST} of them"));
        }
    }
    Err("the member ended the list early".to_owned())
}
