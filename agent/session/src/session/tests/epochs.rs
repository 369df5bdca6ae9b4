//! Epochs and starts of the hub: which one is believed, what is kept with it, and by whose signature.

use super::*;

#[test]
fn a_new_epoch_begins_anew_and_an_older_one_is_refused() {
    let mut session = open(7, 900, &[("a", held("u-a", 900, b"old"))]);
    said(&mut session);
    welcome(&mut session, 8);
    hear(&mut session, Body::Upsert(Upsert { epoch: 8, ..upsert("a", 4, "restored", 4) }));
    assert_eq!(
        written(&mut session),
        ["epoch 8", "seal of 0 bytes", "put a@4", "cursor 4"],
        "revisions of old epochs do not count"
    );
    let mut session = open(7, 900, &[]);
    welcome(&mut session, 6);
    assert!(session.ended().is_some());
}

#[test]
fn frames_of_another_epoch_change_nothing() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    welcome(&mut session, 7);
    hear(&mut session, Body::Upsert(Upsert { epoch: 6, ..upsert("a", 99, "x", 99) }));
    let Body::Tombstone(mut old) = tombstone("a", "u-a", 99, TombstoneReason::Deleted) else {
        unreachable!()
    };
    old.epoch = 6;
    hear(&mut session, Body::Tombstone(old));
    assert!(!session.has_changes());
}

#[test]
fn an_epoch_that_nobody_handed_out_gives_way_and_one_that_was_does_not() {
    let (ca, _) = karmada_certs::Authority::create(jiff::Timestamp::now()).unwrap();
    let seal = |epoch| Bytes::from(ca.seal_epoch(epoch).unwrap());
    let meet = |ours: Bytes, theirs: Bytes| {
        let opening =
            Opening { epoch: 50, epoch_seal: ours, seal_keys: ca.seal_keys(), ..Opening::default() };
        let held = BTreeMap::from([("a".to_owned(), held("u-a", 900, b"x"))]);
        let mut session =
            Session::open(opening, held, Unfinished::default(), Cadence::default(), Duration::ZERO);
        let hello = session.next_frame(&mut Outbox::default(), secs(1)).unwrap().body;
        assert!(matches!(hello, Some(agent_frame::Body::Hello(_))));
        hear(&mut session, Body::Welcome(Welcome { epoch: 7, epoch_seal: theirs, ..Welcome::default() }));
        session
    };
    for (ours, theirs, taken) in [
        (Bytes::new(), seal(7), true),
        (seal(49), seal(7), true),
        (seal(50), seal(7), false),
        (Bytes::new(), Bytes::new(), false),
        (Bytes::new(), seal(8), false),
    ] {
        let mut session = meet(ours, theirs);
        assert_eq!((session.ended().is_none(), session.epoch() == 7), (taken, taken));
        if taken {
            assert_eq!(written(&mut session)[0], "epoch 7");
            let older = Upsert { epoch: 7, ..upsert("a", 4, "one", 4) };
            hear(&mut session, Body::Upsert(older));
            assert!(written(&mut session).contains(&"put a@4".to_owned()), "a lower revision is newer there");
        }
    }
}

#[test]
fn the_cursor_is_kept_with_the_start_that_told_it() {
    let mut session = open(7, 3, &[]);
    said(&mut session);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, timeline: 42, ..Welcome::default() }));
    assert!(!session.has_changes(), "the cursor that is held is still the older start's");
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 5)));
    assert_eq!(written(&mut session), ["put a@5", "timeline 42", "cursor 5"]);
    hear(&mut session, Body::Upsert(upsert("a", 6, "two", 6)));
    assert_eq!(written(&mut session), ["put a@6", "cursor 6"], "written once");
}

/// A hub that is put back knows by it that the site saw more than the copy has.
#[test]
fn what_came_beyond_the_cursor_is_kept_with_the_start_that_told_it() {
    let told = |timeline| Body::Welcome(Welcome { epoch: 7, timeline, ..Welcome::default() });
    let mut session = open(7, 3, &[]);
    said(&mut session);
    hear(&mut session, told(42));
    hear(&mut session, Body::Upsert(upsert("a", 5, "one", 4)));
    let seen = |revision| format!("seen {:?}", [v1::Seen { timeline: 42, revision }]);
    assert_eq!(written(&mut session), ["put a@5", "timeline 42", "cursor 4", &seen(5)]);
    hear(&mut session, Body::Upsert(upsert("b", 6, "one", 6)));
    assert_eq!(written(&mut session), ["put b@6", "cursor 6", "seen []"]);
}

/// Where deletes are withheld, the site goes on telling of the life that it came from.
#[test]
fn a_listing_from_which_deletes_are_withheld_is_acknowledged_and_moves_no_cursor_that_is_kept() {
    let mut session = open(7, 3, &[("a", held("u-a", 5, b"x"))]);
    said(&mut session);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, timeline: 42, ..Welcome::default() }));
    for (withheld, expect) in [(true, vec!["listing"]), (false, vec!["listing", "timeline 42", "cursor 10"])]
    {
        hear(&mut session, Body::SnapshotStart(SnapshotStart { epoch: 7, ..SnapshotStart::default() }));
        hear(&mut session, Body::SnapshotEnd(SnapshotEnd { epoch: 7, cursor: 10, withheld }));
        assert_eq!(written(&mut session), expect);
        assert!(said(&mut session).contains(&"ack 10".to_owned()), "{withheld}");
    }
}

/// While the hub's CA is changed, a proof by the one that is on its way out gives way to one by the one that stays, once.
#[test]
fn the_proof_of_an_epoch_is_kept_by_the_ca_that_stays() {
    let now = jiff::Timestamp::now();
    let (older, signing) =
        (karmada_certs::Authority::create(now).unwrap().0, karmada_certs::Authority::create(now).unwrap().0);
    let bundle = format!("{}{}", signing.certificate_pem(), older.certificate_pem());
    let seal = |ca: &karmada_certs::Authority| Bytes::from(ca.seal_epoch(7).unwrap());
    for (ours, theirs, kept) in [
        (seal(&older), seal(&signing), true),
        (seal(&signing), seal(&signing), false),
        (seal(&older), seal(&older), false),
        (seal(&signing), seal(&older), false),
        (Bytes::new(), seal(&older), true),
    ] {
        let seal_keys = SealKeys::of_bundle(&bundle);
        let opening = Opening { epoch: 7, epoch_seal: ours, seal_keys, ..Opening::default() };
        let mut session = Session::open(
            opening,
            BTreeMap::new(),
            Unfinished::default(),
            Cadence::default(),
            Duration::ZERO,
        );
        hear(
            &mut session,
            Body::Welcome(Welcome { epoch: 7, epoch_seal: theirs.clone(), ..Welcome::default() }),
        );
        let changes = session.take_changes();
        assert_eq!(changes.contains(&Change::Seal(theirs)), kept, "{changes:?}");
    }
}

#[test]
fn whom_to_trust_is_told_in_the_welcome_and_while_the_session_runs() {
    let mut session = open(7, 0, &[]);
    welcome(&mut session, 7);
    assert_eq!(session.take_trust(), None, "an older hub says nothing of it");
    let told = |revision| v1::Resync { trust_bundle_revision: revision, ..v1::Resync::default() };
    hear(&mut session, Body::Resync(told(0)));
    assert_eq!(session.take_trust(), None);
    hear(&mut session, Body::Resync(told(5)));
    assert_eq!((session.take_trust(), session.take_trust()), (Some(5), None));
    let mut session = open(7, 0, &[]);
    hear(&mut session, Body::Welcome(Welcome { epoch: 7, trust_bundle_revision: 6, ..Welcome::default() }));
    assert_eq!(session.take_trust(), Some(6));
    session.return_renewed();
    assert_eq!(
        session.ended().map(|ended| ended.advice),
        Some(Advice::Now),
        "the new certificate is tried at once"
    );
}
