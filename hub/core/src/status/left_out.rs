//! What clusters report and a binding does not say of them: what no object of the kind can say, and what it has no room for.
//!
//! In: what is told of each cluster. Out: the same with statuses left out, each with the reason; words for an event where that is new.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::{AggregatedStatusItem, BindingStatus, Health, LARGEST_BINDING, ResourceBinding};
use karmada_interpreter::reported_status;

use crate::object_size;

/// Why a status is left out that is fit to be told.
const NO_ROOM: &str = "what this cluster reports was left out: with all that is reported, the binding would be larger than an object may be; its Work has it";

/// Bytes of a status that is left in whatever the size of the others: the reason for leaving it out takes as much.
const SMALL: usize = 512;

/// Leaves out what a cluster reports and what no object of the kind can say: taken over, it would make the status of
/// the whole unreadable. The item says so.
pub(super) fn without_unreadable(
    binding: &ResourceBinding,
    mut item: AggregatedStatusItem,
) -> AggregatedStatusItem {
    let kind = &binding.spec.resource;
    let Some(status) = &item.status else { return item };
    if let Err(why) = reported_status::status(&kind.api_version, &kind.kind, status) {
        item.status = None;
        item.health = Some(Health::Unknown);
        // What stands in the way of applying comes first.
        if item.applied {
            item.applied_message = format!("what this cluster reports was left out: {why}");
        }
    }
    item
}

/// The same items without the largest statuses where a binding has no room for all, and the clusters of which that is. Whoever adds statuses up goes by
/// the whole of them, which stand in the Works.
pub fn within_an_object(
    binding: &ResourceBinding,
    items: &[AggregatedStatusItem],
) -> (Vec<AggregatedStatusItem>, BTreeSet<String>) {
    let mut told = items.to_vec();
    let mut left_out = BTreeSet::new();
    let room = object_size::room_within(LARGEST_BINDING, &binding.metadata, &binding.spec);
    let mut excess = object_size::bytes(&items).saturating_sub(room);
    if excess == 0 {
        return (told, left_out);
    }
    let mut by_size: Vec<(usize, usize)> =
        told.iter().map(|item| object_size::bytes(&item.status)).enumerate().collect();
    by_size.sort_by_key(|(at, bytes)| (Reverse(*bytes), &*items[*at].cluster_name));
    for (at, bytes) in by_size.into_iter().take_while(|(_, bytes)| *bytes > SMALL) {
        if excess == 0 {
            break;
        }
        let item = &mut told[at];
        item.status = None;
        if item.applied {
            NO_ROOM.clone_into(&mut item.applied_message);
        }
        left_out.insert(item.cluster_name.clone());
        excess = excess.saturating_sub(bytes - NO_ROOM.len());
    }
    (told, left_out)
}

/// What became known of clusters whose status is left out, in words for an event: said once, not each time, and of those that a binding has no
/// room for in one sentence.
pub fn newly_left_out(before: &BindingStatus, after: &BindingStatus) -> Vec<String> {
    let known: BTreeMap<&str, &str> =
        before.aggregated_status.iter().map(|item| (&*item.cluster_name, &*item.applied_message)).collect();
    let is_new = |item: &&AggregatedStatusItem| {
        item.applied
            && !item.applied_message.is_empty()
            && known.get(&*item.cluster_name) != Some(&&*item.applied_message)
    };
    let (no_room, others): (Vec<_>, Vec<_>) =
        after.aggregated_status.iter().filter(is_new).partition(|item| item.applied_message == NO_ROOM);
    let mut words: Vec<String> =
        others.iter().map(|item| format!("{}: {}", item.cluster_name, item.applied_message)).collect();
    if let Some(first) = no_room.first() {
        let more = match no_room.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        words.push(format!("{}{more}: {NO_ROOM}", first.cluster_name));
    }
    words
}
