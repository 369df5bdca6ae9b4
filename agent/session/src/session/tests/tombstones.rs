//! What the hub says is gone: what it removes, and what absence does not.

use super::*;

#[test]
fn absence_never_deletes_and_what_was_removed_is_forgotten() {
    let removed = HeldWork { phase: Phase::Removed, ..held("u-gone", 1, b"x") };
    let mut session = open(7, 1, &[("orphan", held("u-o", 1, b"x")), ("gone", removed)]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::SnapshotStart(SnapshotStart { epoch: 7, ..SnapshotStart::default() }));
    hear(&mut session, Body::Upsert(upsert("a", 4, "one", 0)));
    hear(&mut session, Body::SnapshotEnd(SnapshotEnd { epoch: 7, cursor: 10, withheld: false }));
    assert_eq!(written(&mut session), ["listing", "put a@4", "forget gone", "cursor 10"]);
    assert_eq!(said(&mut session), ["ack 10", "orphans [\"orphan\"]"]);
}

/// The agent found marked objects of a Work that nobody holds after the session began, and a person decided.
#[test]
fn a_word_on_what_was_found_since_is_carried_out() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    welcome(&mut session, 7);
    let mut outbox = Outbox::default();
    assert!(outbox.orphan("found") && outbox.orphan("a") && !outbox.orphan("a"));
    let told = session.next_frame(&mut outbox, Duration::ZERO).and_then(|frame| frame.body);
    assert!(matches!(told, Some(agent_frame::Body::Orphans(all)) if all.keys == ["a", "found"]));
    hear(&mut session, tombstone("found", "", i64::MAX as u64, TombstoneReason::Released));
    assert_eq!(written(&mut session), [format!("delete found@{}", i64::MAX), format!("cursor {}", i64::MAX)]);
}

#[test]
fn a_tombstone_removes_its_own_uid_or_what_is_older_and_nothing_newer() {
    use TombstoneReason::{Deleted, Released};
    for (what, uid, revision, reason, expect) in [
        ("its own", "u-a", 6, Deleted, vec!["delete a@6", "cursor 6"]),
        ("an older life of the name", "u-old", 4, Deleted, vec!["cursor 4"]),
        ("a newer life of the name", "u-new", 6, Deleted, vec!["delete a@6", "cursor 6"]),
        ("released, and still held here", "u-a", 6, Released, vec!["delete a@6", "cursor 6"]),
        ("an older life released", "u-old", 4, Released, vec!["cursor 4"]),
    ] {
        let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
        said(&mut session);
        welcome(&mut session, 7);
        hear(&mut session, tombstone("a", uid, revision, reason));
        assert_eq!(written(&mut session), expect, "{what}");
    }
    let removed = HeldWork { phase: Phase::Removed, ..held("u-a", 5, b"x") };
    let mut session = open(7, 3, &[("a", removed)]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("a", "u-a", 6, Released));
    assert_eq!(written(&mut session), ["forget a", "cursor 6"], "removed, and the hub knows it");
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u-never", 6, Deleted));
    assert_eq!(said(&mut session), ["removed never"]);
    assert_eq!(written(&mut session), [""; 0], "the cursor waits: what is to be removed is still to come");
    let body = Upsert { suspended: true, ..upsert("never", 6, "one", 0) };
    hear(&mut session, Body::Upsert(body));
    assert_eq!(written(&mut session), ["put never@6"], "and for the tombstone, which a cut may take");
    hear(&mut session, tombstone("never", "u-never", 6, Deleted));
    assert_eq!(written(&mut session), ["delete never@6", "cursor 6"]);
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u-before", 6, Deleted));
    hear(&mut session, Body::Upsert(upsert("never", 8, "one", 8)));
    assert_eq!(
        written(&mut session),
        ["put never@8", "cursor 8"],
        "the next of its name is waited for by nothing"
    );
    let mut session = open(7, 3, &[]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, tombstone("never", "u", 6, Deleted));
    hear(&mut session, Body::Upsert(Upsert { encoding: 9, ..upsert("never", 6, "one", 0) }));
    hear(&mut session, tombstone("never", "u", 6, Deleted));
    assert_eq!(written(&mut session), ["cursor 6"], "but not for ever");
}

/// The start that was told may be one that was taken back since.
#[test]
fn orphans_are_told_in_each_session() {
    let works = [("a", held("u-a", 5, b"x")), ("lost", held("u-lost", 0, b"x"))];
    for (cursor, told) in [(3, 1), (0, 0)] {
        let mut session = open(7, cursor, &works);
        said(&mut session);
        hear(
            &mut session,
            Body::Welcome(Welcome {
                epoch: 7,
                timeline: 42,
                credit: Some(Credit { messages: 10, bytes: 1 << 20 }),
                ..Welcome::default()
            }),
        );
        let orphans = said(&mut session).into_iter().filter(|word| word == "orphans [\"lost\"]").count();
        assert_eq!(orphans, told, "no listing was ever complete: {cursor}");
    }
}
