//! A watch of some namespaces alone, for an agent that may see no others: one stream of events, made of one watch for
//! each namespace.
//!
//! In: a member, what to watch, the namespaces. Out: events as of one watch. Nothing is asked of the member but what the watches ask.
//!
//! The list is complete when every namespace's is. Where one of them has to list again, or ends, the whole ends, and is
//! begun again by whoever reads it: what is gone is only ever told by a complete list.

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{Member, MemberError, MemberEvent, Watch};

/// Watches in `namespaces`; in the whole cluster where none are named. A Namespace is watched by its name.
pub fn watch(
    member: &dyn Member,
    watch: Watch,
    namespaces: &[String],
) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
    if namespaces.is_empty() {
        return member.watch(watch);
    }
    let streams = namespaces.iter().enumerate().map(|(at, namespace)| {
        let narrow = if watch.gvk.group.is_empty() && watch.gvk.kind == "Namespace" {
            Watch { fields: format!("metadata.name={namespace}"), ..watch.clone() }
        } else {
            Watch { namespace: namespace.clone(), ..watch.clone() }
        };
        let events = member.watch(narrow).map(move |event| (at, Some(event)));
        events.chain(stream::once(async move { (at, None) })).boxed()
    });
    let merged = stream::select_all(streams.collect::<Vec<_>>());
    let lists = Lists { begun: false, listing: (0..namespaces.len()).collect() };
    stream::unfold((merged, lists), |(mut merged, mut lists)| async move {
        loop {
            let (at, event) = merged.next().await?;
            match event? {
                Err(error) => return Some((Err(error), (merged, lists))),
                Ok(event) => match lists.take(at, event) {
                    NamespaceVerdict::Tell(event) => return Some((Ok(event), (merged, lists))),
                    NamespaceVerdict::Keep => {}
                    NamespaceVerdict::Over => return None,
                },
            }
        }
    })
    .boxed()
}

/// How far the lists have come.
struct Lists {
    begun: bool,
    /// Those that are not complete.
    listing: BTreeSet<usize>,
}

enum NamespaceVerdict {
    Tell(MemberEvent),
    Keep,
    Over,
}

impl Lists {
    fn take(&mut self, at: usize, event: MemberEvent) -> NamespaceVerdict {
        match event {
            MemberEvent::Listing if !self.listing.contains(&at) => NamespaceVerdict::Over,
            MemberEvent::Listing if self.begun => NamespaceVerdict::Keep,
            MemberEvent::Listing => {
                self.begun = true;
                NamespaceVerdict::Tell(MemberEvent::Listing)
            }
            MemberEvent::Listed => {
                self.listing.remove(&at);
                if self.listing.is_empty() {
                    NamespaceVerdict::Tell(MemberEvent::Listed)
                } else {
                    NamespaceVerdict::Keep
                }
            }
            event => NamespaceVerdict::Tell(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gvk, ObjectId};

    /// What is told of these events: `(`, `)` for the list's ends, a name for what is gone, `.` at the end.
    fn told(events: &[(usize, char)]) -> String {
        let mut lists = Lists { begun: false, listing: [0, 1].into() };
        let mut told = String::new();
        for (at, word) in events {
            let event = match word {
                '(' => MemberEvent::Listing,
                ')' => MemberEvent::Listed,
                name => MemberEvent::Gone(ObjectId {
                    gvk: Gvk::new("v1", "Pod"),
                    namespace: String::new(),
                    name: name.to_string(),
                }),
            };
            match lists.take(*at, event) {
                NamespaceVerdict::Tell(MemberEvent::Listing) => told.push('('),
                NamespaceVerdict::Tell(MemberEvent::Listed) => told.push(')'),
                NamespaceVerdict::Tell(MemberEvent::Gone(id)) => told.push_str(&id.name),
                NamespaceVerdict::Tell(MemberEvent::Object(_)) | NamespaceVerdict::Keep => {}
                NamespaceVerdict::Over => return told + ".",
            }
        }
        told
    }

    #[test]
    fn a_list_is_complete_when_all_are_and_a_second_one_ends_it() {
        assert_eq!(told(&[(0, '('), (0, 'a'), (1, '('), (0, ')'), (1, 'b'), (1, ')'), (0, 'c')]), "(ab)c");
        assert_eq!(told(&[(0, '('), (0, ')'), (1, '(')]), "(", "not before the second is complete");
        assert_eq!(told(&[(0, '('), (0, ')'), (0, '('), (0, 'a')]), "(.", "a second list of one namespace");
    }
}
