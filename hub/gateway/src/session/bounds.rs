//! How long what an agent says may be, in bytes, where it is kept.
//!
//! In: reports of a peer. Out: whether one is short enough to be looked at.

use karmada_proto::v1::agent_frame;

/// The longest name or uid of a Work.
pub(super) const NAME: usize = 253;

/// Whether what a report says of a Work's name and uid can be one: it is kept as long as the report.
pub(super) fn is_named_briefly(body: &agent_frame::Body) -> bool {
    use agent_frame::Body as B;
    let (key, uid) = match body {
        B::WorkStatus(status) => (&status.key, &status.uid),
        B::Removed(removed) => (&removed.key, &removed.uid),
        B::Event(event) => (&event.key, &event.uid),
        B::Want(want) => return want.key.len() <= NAME,
        B::Nack(nack) => return nack.key.len() <= NAME,
        B::Orphans(orphans) => return orphans.keys.iter().all(|key| key.len() <= NAME),
        _ => return true,
    };
    key.len() <= NAME && uid.len() <= NAME
}
