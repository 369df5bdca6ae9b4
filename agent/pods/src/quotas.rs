//! What the ResourceQuotas of one namespace leave, where the hub asks for room and they count.
//!
//! In: a namespace of the member. Out: its quotas, trimmed to what bounds Pods. They are read anew for each question: few namespaces have any, and
//! what they leave changes with each Pod.

use karmada_interpreter::node_room::Quota;
use karmada_member::list::list;
use karmada_member::{Gvk, Member, Watch};

/// Quotas of one namespace that are looked at; where there are more, the room is not known.
const MOST: usize = 1_000;

/// Reads them.
///
/// # Errors
/// In words: the member does not answer, the agent may not read quotas there, or there are too many.
pub async fn of(member: &dyn Member, namespace: &str) -> Result<Vec<Quota>, String> {
    let watch = Watch {
        gvk: Gvk::new("v1", "ResourceQuota"),
        namespace: namespace.to_owned(),
        labels: String::new(),
        fields: String::new(),
    };
    let quotas = list(member, watch, MOST + 1, |quota| Quota::of(&quota)).await;
    match quotas.map_err(|error| error.to_string())? {
        None => Err("the member ended the list early".to_owned()),
        Some(quotas) if quotas.len() > MOST => Err(format!("{namespace} has more than {MOST} of them")),
        Some(quotas) => Ok(quotas),
    }
}
