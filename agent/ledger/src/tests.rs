//! The ledger against real files.

use bytes::Bytes;
use karmada_proto::body;
use karmada_proto::v1::Seen;

use super::*;
use crate::outcome;
use karmada_session::session::Phase;

fn put(key: &str, revision: u64, body: &'static [u8]) -> Change {
    let body = Bytes::from_static(body);
    Change::Put {
        key: key.into(),
        uid: "u".into(),
        revision,
        hash: body::hash(&body),
        body,
        suspended: false,
        preserve: false,
        generation: revision,
        retry: String::new(),
    }
}

/// Applying `a` came to its end.
fn ended(ledger: &Ledger, hash: Bytes, placed: bool) {
    let applied = outcome(placed, "");
    let written = vec![7; usize::from(placed)];
    ledger.ended(&[Outcome { key: "a".into(), hash, applied, placed, written, unanswered: false }]).unwrap();
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    ledger.commit(&[Change::Epoch(7), put("a", 3, b"one"), put("b", 4, b"two"), Change::Cursor(4)]).unwrap();
    ledger.begins(&["a".into()]).unwrap();
    drop(ledger);
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!(ledger.position().unwrap(), (7, 4));
    assert_eq!(ledger.keys().unwrap(), ["a", "b"]);
    let entry = ledger.entry("a").unwrap().unwrap();
    assert_eq!((entry.body.as_ref(), entry.crashes, entry.applied), (&b"one"[..], 1, None));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir.path().join("ledger.sqlite")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What was told before a listing began is held until the listing is complete.
#[test]
fn where_the_cursor_was_is_remembered_until_it_is_somewhere_again() {
    let ledger = Ledger::in_memory().unwrap();
    let stands = |changes: &[Change]| {
        ledger.commit(changes).unwrap();
        (ledger.position().unwrap().1, ledger.former_cursor().unwrap())
    };
    assert_eq!(stands(&[Change::Epoch(7), Change::Cursor(0)]), (0, 0), "nothing was told yet");
    assert_eq!(stands(&[Change::Cursor(9)]), (9, 0));
    assert_eq!(stands(&[Change::Cursor(0)]), (0, 9));
    assert_eq!(stands(&[Change::Cursor(0), Change::Epoch(8)]), (0, 9), "another one begins");
    assert_eq!(stands(&[Change::Cursor(4)]), (4, 0));
    assert_eq!(stands(&[Change::Epoch(9)]), (0, 4));
}

#[test]
fn a_listing_begins_with_revisions_and_a_cursor_of_its_own() {
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[Change::Epoch(7), put("a", 3, b"one"), put("b", 4, b"two"), Change::Cursor(4)]).unwrap();
    ledger.commit(&[Change::Listing, put("a", 2, b"one"), Change::Cursor(2)]).unwrap();
    let held = ledger.held().unwrap();
    assert_eq!((held["a"].revision, held["b"].revision), (2, 0), "what is not listed is newer than nothing");
    assert_eq!(ledger.position().unwrap(), (7, 2));
}

#[test]
fn a_ledger_of_an_older_agent_is_taken_over() {
    for version in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.sqlite");
        let placed = if version == 2 { ", placed INTEGER NOT NULL DEFAULT 0" } else { "" };
        Connection::open(&file)
            .unwrap()
            .execute_batch(&format!(
                "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
                 CREATE TABLE works (key TEXT PRIMARY KEY, uid TEXT NOT NULL, revision INTEGER NOT NULL,
                    hash BLOB NOT NULL, encoding INTEGER NOT NULL, decoded_size INTEGER NOT NULL,
                    body BLOB NOT NULL, suspended INTEGER NOT NULL, preserve INTEGER NOT NULL,
                    phase INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
                    applied_hash BLOB, applied_ok INTEGER, applied_message TEXT{placed});
                 INSERT INTO works (key, uid, revision, hash, encoding, decoded_size, body, suspended, preserve)
                    VALUES ('a', 'u', 3, x'44136fa355b3678a1146ad16f7e8649e', 0, 2, x'7b7d', 0, 0);
                 PRAGMA user_version = {version};"
            ))
            .unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let entry = ledger.entry("a").unwrap().unwrap();
        assert_eq!((entry.generation, entry.retry.as_str()), (0, ""), "what the hub has not said yet");
        let touch = Change::Touch {
            key: "a".into(),
            uid: "u".into(),
            revision: 4,
            suspended: false,
            preserve: false,
            generation: 9,
            retry: "again".into(),
        };
        ledger.commit(&[touch]).unwrap();
        drop(ledger);
        let entry = Ledger::open(dir.path()).unwrap().entry("a").unwrap().unwrap();
        assert_eq!((entry.generation, entry.retry.as_str(), entry.revision), (9, "again", 4));
    }
}

#[test]
fn what_is_acknowledged_is_synced_whatever_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let level = || -> i64 {
        ledger.store.lock().connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
    };
    assert_eq!(level(), 2, "FULL");
    ledger.commit(&[put("a", 1, b"one")]).unwrap();
    ledger.begins(&["a".into()]).unwrap();
    ended(&ledger, Bytes::new(), false);
    assert!(ledger.entry("a").unwrap().unwrap().is_nowhere());
    ended(&ledger, Bytes::new(), true);
    assert!(!ledger.entry("a").unwrap().unwrap().is_nowhere());
    assert_eq!(level(), 2);
}

#[test]
fn an_outcome_is_about_one_body() {
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[put("a", 1, b"one")]).unwrap();
    let hash = ledger.entry("a").unwrap().unwrap().hash;
    ledger.begins(&["a".into()]).unwrap();
    ended(&ledger, hash, true);
    let entry = ledger.entry("a").unwrap().unwrap();
    assert!(entry.is_applied() && entry.crashes == 0);
    ledger.commit(&[put("a", 2, b"two")]).unwrap();
    let entry = ledger.entry("a").unwrap().unwrap();
    assert!(!entry.is_applied() && entry.applied.is_some());
    ledger.commit(&[put("a", 3, b"one")]).unwrap();
    let entry = ledger.entry("a").unwrap().unwrap();
    assert!(!entry.is_applied(), "the member may have taken the one between");
}

/// A process that ended without a word: the ledger is opened anew over what it left.
fn crash(dir: &Path, ledger: Ledger) -> Ledger {
    drop(ledger);
    Ledger::open(dir).unwrap()
}

#[test]
fn only_a_crash_over_one_work_alone_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    ledger.commit(&[put("a", 1, b"one"), put("b", 1, b"one")]).unwrap();
    let crashes = |ledger: &Ledger, key: &str| ledger.entry(key).unwrap().unwrap().crashes;
    // Orderly, as often as anybody likes.
    for _ in 0..5 {
        ledger.begins(&["a".into()]).unwrap();
        ledger.stops().unwrap();
        ledger = crash(dir.path(), ledger);
        assert_eq!((crashes(&ledger, "a"), ledger.suspects().len()), (0, 0));
        assert!(!ledger.entry("a").unwrap().unwrap().is_nowhere(), "it may have been placed");
    }
    // Of two, nobody knows which it was.
    ledger.begins(&["a".into(), "b".into()]).unwrap();
    ledger = crash(dir.path(), ledger);
    assert_eq!(
        (crashes(&ledger, "a"), crashes(&ledger, "b"), ledger.suspects()),
        (0, 0, &["a".into(), "b".into()][..])
    );
    // Of two, one had ended.
    ledger.begins(&["a".into(), "b".into()]).unwrap();
    ledger.came_back("b", false, false).unwrap();
    ledger = crash(dir.path(), ledger);
    assert_eq!((crashes(&ledger, "a"), crashes(&ledger, "b")), (1, 0));
    ledger.begins(&["a".into()]).unwrap();
    ledger.came_back("a", false, false).unwrap();
    ledger = crash(dir.path(), ledger);
    assert_eq!((crashes(&ledger, "a"), ledger.suspects().len()), (0, 0), "it came back");
}

#[test]
fn a_crash_counter_is_cleared_by_a_new_body_or_by_a_persons_word() {
    let ledger = Ledger::in_memory().unwrap();
    let crashes = || ledger.entry("a").unwrap().unwrap().crashes;
    ledger.commit(&[put("a", 1, b"one")]).unwrap();
    ledger.panicked("a").unwrap();
    ledger.commit(&[put("a", 2, b"one")]).unwrap();
    assert_eq!(crashes(), 1, "the same body under a newer revision");
    ledger.commit(&[put("a", 3, b"two")]).unwrap();
    assert_eq!(crashes(), 0);
    let touch = |retry: &str| Change::Touch {
        key: "a".into(),
        uid: "u".into(),
        revision: 4,
        suspended: false,
        preserve: false,
        generation: 3,
        retry: retry.into(),
    };
    ledger.panicked("a").unwrap();
    ledger.commit(&[touch("")]).unwrap();
    assert_eq!(crashes(), 1);
    ledger.commit(&[touch("now")]).unwrap();
    assert_eq!(crashes(), 0);
}

/// The rule of the format: an agent reads what newer ones wrote, three formats on, and leaves their number.
#[test]
fn a_newer_ledger_is_read_up_to_three_formats_on() {
    for ahead in 0..=4 {
        let dir = tempfile::tempdir().unwrap();
        Ledger::open(dir.path()).unwrap().commit(&[put("a", 1, b"one")]).unwrap();
        let file = dir.path().join("ledger.sqlite");
        let newer = Connection::open(&file).unwrap();
        newer
            .execute_batch(&format!(
                "ALTER TABLE works ADD COLUMN later TEXT NOT NULL DEFAULT 'not known';
                 CREATE TABLE more (key TEXT); PRAGMA user_version = {}",
                FORMAT + ahead
            ))
            .unwrap();
        drop(newer);
        let opened = Ledger::open(dir.path());
        if ahead > 3 {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("start a newer agent"), "{error}");
            continue;
        }
        let ledger = opened.unwrap();
        ledger.commit(&[put("a", 2, b"two"), put("b", 1, b"one")]).unwrap();
        drop(ledger);
        let again = Ledger::open(dir.path()).unwrap();
        assert_eq!(again.entry("a").unwrap().unwrap().body, &b"two"[..]);
        drop(again);
        let file = Connection::open(&file).unwrap();
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, FORMAT + ahead, "the newer agent finds its own format");
    }
}

#[test]
fn a_full_disk_is_outlived_in_memory_and_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert!(ledger.commit(&[put("a", 1, b"one"), Change::Epoch(3), Change::Cursor(1)]).unwrap());
    let limit =
        |pages: i64| ledger.store.lock().connection.pragma_update(None, "max_page_count", pages).unwrap();
    limit(1);
    let large = Bytes::from(
        (0..200_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect::<Vec<u8>>(),
    );
    let big = Change::Put {
        key: "b".into(),
        uid: "u".into(),
        revision: 2,
        hash: body::hash(&large),
        body: large,
        suspended: false,
        preserve: false,
        generation: 2,
        retry: String::new(),
    };
    assert!(!ledger.commit(&[big, Change::Cursor(2)]).unwrap(), "held, and not to be acknowledged");
    assert_eq!(ledger.keys().unwrap(), ["a", "b"]);
    assert_eq!(ledger.position().unwrap(), (3, 2));
    let trouble = ledger.health().borrow().trouble.clone().unwrap();
    assert!(trouble.contains("full"), "{trouble}");
    assert!(!ledger.commit(&[put("c", 3, b"three")]).unwrap());
    // What a restart would find is what was acknowledged.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(dir.path().join("ledger.sqlite"), copy.path().join("ledger.sqlite")).unwrap();
    ledger.write_back();
    assert!(!ledger.is_durable(), "it is still full");
    ledger.bound_file(None);
    ledger.write_back();
    assert!(ledger.is_durable() && ledger.health().borrow().trouble.is_none());
    assert!(ledger.commit(&[put("d", 4, b"four")]).unwrap());
    drop(ledger);
    assert_eq!(Ledger::open(dir.path()).unwrap().keys().unwrap(), ["a", "b", "c", "d"]);
}

#[test]
fn a_damaged_ledger_is_set_aside_and_listed_anew() {
    for damage in ["no database at all", ""] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.sqlite");
        let ledger = Ledger::open(dir.path()).unwrap();
        ledger
            .commit(&[put("a", 1, b"one"), put("b", 1, b"two"), Change::Epoch(3), Change::Cursor(9)])
            .unwrap();
        drop(ledger);
        if damage.is_empty() {
            // A body that is not the one that was written.
            let other = Connection::open(&file).unwrap();
            other.execute("UPDATE works SET body = x'6f6e66' WHERE key = 'a'", []).unwrap();
        } else {
            std::fs::write(&file, damage.repeat(1000)).unwrap();
        }
        let ledger = Ledger::open(dir.path()).unwrap();
        let _ = ledger.entry("a").unwrap();
        assert_eq!(ledger.position().unwrap().1, 0, "the hub is asked for everything");
        assert_eq!(ledger.health().borrow().relists, 1);
        assert!(ledger.entry("a").unwrap().is_none());
        if damage.is_empty() {
            assert_eq!(ledger.entry("b").unwrap().unwrap().body, &b"two"[..], "what can be read is kept");
        }
        assert!(ledger.commit(&[put("c", 1, b"three")]).unwrap(), "it is on disk");
        let aside = std::fs::read_dir(dir.path()).unwrap().filter(|file| {
            file.as_ref().unwrap().file_name().to_string_lossy().starts_with("ledger.sqlite.damaged-")
        });
        assert!(aside.count() >= 1);
        drop(ledger);
        assert!(Ledger::open(dir.path()).unwrap().entry("c").unwrap().is_some());
    }
}

/// Else a hub that was put back meanwhile would take the site for one that saw nothing, and have it delete what the backup says.
#[test]
fn what_is_saved_of_a_damaged_ledger_tells_how_far_it_had_followed_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let (seen, seal) = (vec![Seen { timeline: 5, revision: 12 }], Bytes::from_static(b"proof"));
    let told =
        [Change::Timeline(4), Change::Cursor(9), Change::Seen(seen.clone()), Change::Seal(seal.clone())];
    ledger.commit(&[put("a", 1, b"one")]).unwrap();
    ledger.commit(&told).unwrap();
    let other = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
    other.execute("UPDATE works SET body = x'6f6e66'", []).unwrap();
    assert!(ledger.entry("a").unwrap().is_none());
    assert_eq!((ledger.relists(), ledger.position().unwrap().1), (1, 0));
    assert_eq!((ledger.timeline().unwrap(), ledger.former_cursor().unwrap()), (4, 9));
    assert_eq!((ledger.seen().unwrap(), ledger.epoch_seal().unwrap()), (seen, seal));
}

/// What a session has taken in follows on what the ledger held when it began.
#[test]
fn no_cursor_is_written_after_what_went_before_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let relists = ledger.relists();
    ledger.commit(&[put("a", 1, b"one"), put("b", 1, b"two"), Change::Epoch(3), Change::Cursor(9)]).unwrap();
    let damage = |key: &str| {
        let other = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        other.execute("UPDATE works SET body = x'6f6e66' WHERE key = ?1", [key]).unwrap();
    };
    let next = |revision: u64| [put("c", revision, b"three"), Change::Cursor(revision)];
    assert_eq!(ledger.commit_after(relists, &next(10)).unwrap(), Some(true));
    // Somebody else reads the row that is damaged.
    damage("a");
    assert!(ledger.entry("a").unwrap().is_none());
    assert_eq!(ledger.commit_after(relists, &next(11)).unwrap(), None);
    assert_eq!((ledger.position().unwrap().1, ledger.entry("c").unwrap().unwrap().revision), (0, 10));
    // The very write finds the damage.
    let relists = ledger.relists();
    ledger.commit(&[Change::Cursor(12)]).unwrap();
    damage("b");
    assert_eq!(ledger.commit_after(relists, &[put("b", 13, b"four"), Change::Cursor(13)]).unwrap(), None);
    assert_eq!(ledger.position().unwrap().1, 0);
    assert_eq!(ledger.commit_after(ledger.relists(), &next(14)).unwrap(), Some(true));
}

#[test]
fn a_life_goes_from_desired_over_deleting_to_removed_and_may_begin_anew() {
    let ledger = Ledger::in_memory().unwrap();
    ledger.commit(&[put("a", 1, b"one")]).unwrap();
    let phase = || ledger.held().unwrap()["a"].phase;
    ledger.removed(&["a".into()]).unwrap();
    assert_eq!(phase(), Phase::Desired, "only what is being deleted can be removed");
    ledger
        .commit(&[Change::Delete {
            key: "a".into(),
            uid: "u".into(),
            revision: 2,
            preserve: true,
            retry: String::new(),
        }])
        .unwrap();
    assert_eq!(phase(), Phase::Deleting);
    ledger.removed(&["a".into()]).unwrap();
    ledger
        .commit(&[Change::Delete {
            key: "a".into(),
            uid: "u2".into(),
            revision: 3,
            preserve: true,
            retry: String::new(),
        }])
        .unwrap();
    assert_eq!(phase(), Phase::Removed);
    assert_eq!(ledger.held().unwrap()["a"].uid, "u2", "the removal is confirmed for the newest");
    ledger.commit(&[put("a", 4, b"one")]).unwrap();
    assert_eq!(phase(), Phase::Desired);
    assert_eq!(ledger.entry("a").unwrap().unwrap().applied, None, "a new life begins unapplied");
    ledger.commit(&[Change::Epoch(9), Change::Forget { key: "b".into() }]).unwrap();
    assert_eq!((ledger.held().unwrap()["a"].revision, ledger.position().unwrap()), (0, (9, 0)));
    ledger.commit(&[Change::Forget { key: "a".into() }]).unwrap();
    assert!(ledger.entry("a").unwrap().is_none());
}

/// What a power cut leaves: what was synced, and nothing that was written since. Here everything was synced that is there.
fn as_after_a_power_cut(ledger: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    for file in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::copy(ledger.join(file), left.path().join(file)).unwrap();
    }
    left
}

#[test]
fn that_a_create_may_come_outlives_a_power_cut_with_the_body_itself() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert!(ledger.commit(&[put("a", 3, b"one")]).unwrap());
    // The note that work begins on it is not synced, and may be lost.
    let left = as_after_a_power_cut(dir.path());
    ledger.begins(&["a".into()]).unwrap();
    let after = Ledger::open(left.path()).unwrap().entry("a").unwrap().unwrap();
    assert!(after.unanswered && !after.is_nowhere(), "the member may have been asked");
    // Where it was told to leave the member alone, it did.
    ledger
        .commit(&[Change::Put {
            key: "s".into(),
            uid: "u".into(),
            revision: 4,
            hash: body::hash(b"s"),
            body: Bytes::from_static(b"s"),
            suspended: true,
            preserve: false,
            generation: 1,
            retry: String::new(),
        }])
        .unwrap();
    let left = as_after_a_power_cut(dir.path());
    assert!(!Ledger::open(left.path()).unwrap().entry("s").unwrap().unwrap().unanswered);
}

#[test]
fn a_sync_of_its_own_is_for_what_was_applied_and_one_for_all_that_begin_together() {
    let ledger = Ledger::in_memory().unwrap();
    let body = Bytes::from_static(b"one");
    ledger.commit(&[put("a", 3, b"one"), put("b", 4, b"one")]).unwrap();
    assert!(!ledger.begins(&["a".into()]).unwrap(), "it came with the body");
    ended(&ledger, body::hash(&body), false);
    assert!(!ledger.begins(&["a".into()]).unwrap(), "it failed: that it is tried again is known");
    ended(&ledger, body::hash(&body), true);
    assert!(ledger.begins(&["a".into(), "b".into()]).unwrap(), "it was applied, and drifted");
    assert!(ledger.entry("b").unwrap().unwrap().unanswered);
    ended(&ledger, body::hash(&body), true);
    ledger.commit(&[put("a", 5, b"two")]).unwrap();
    assert!(!ledger.begins(&["a".into()]).unwrap(), "a new body");
    // A newer one came while it was under way.
    ledger.commit(&[put("a", 6, b"three")]).unwrap();
    ledger.came_back("a", false, true).unwrap();
    assert!(!ledger.begins(&["a".into()]).unwrap());
    let of_a_removal = Change::Delete {
        key: "a".into(),
        uid: "u".into(),
        revision: 7,
        preserve: false,
        retry: String::new(),
    };
    ledger.came_back("a", false, false).unwrap();
    ledger.commit(&[of_a_removal]).unwrap();
    assert!(!ledger.begins(&["a".into()]).unwrap(), "a removal makes nothing");
}

/// How many rows have no guard.
fn unguarded(ledger: &Ledger) -> i64 {
    ledger
        .read(|connection| {
            connection.query_row("SELECT count(*) FROM works WHERE guard = 0", [], |row| row.get(0))
        })
        .unwrap()
}

/// A bit flips in what says whose a row is, whether its objects go and which: the row is not gone by, and the hub is asked for everything.
#[test]
fn a_row_that_is_not_as_its_guard_says_is_damaged() {
    let flips = ["phase = 1", "phase = 2", "preserve = 1", "uid = 'v'", "former = '[]'", "key = 'c'"];
    for (flip, restarts) in flips.into_iter().flat_map(|flip| [(flip, true), (flip, false)]) {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        ledger
            .commit(&[Change::Epoch(7), put("a", 3, b"one"), put("b", 4, b"two"), Change::Cursor(4)])
            .unwrap();
        assert_eq!(unguarded(&ledger), 0);
        let flipped = |connection: &mut Connection| {
            connection
                .execute_batch(&format!("DROP TRIGGER unguard; UPDATE works SET {flip} WHERE key = 'a'"))
        };
        ledger.read(flipped).unwrap();
        let ledger = if restarts {
            drop(ledger);
            Ledger::open(dir.path()).unwrap()
        } else {
            // What comes of the Work does not make it right.
            let (uid, retry) = ("u".to_owned(), String::new());
            let (suspended, preserve, generation) = (true, false, 5);
            let key = "a".into();
            ledger
                .commit(&[Change::Touch { key, uid, revision: 5, suspended, preserve, generation, retry }])
                .unwrap();
            ledger
        };
        let held = ledger.held().unwrap();
        assert_eq!(held.keys().collect::<Vec<_>>(), ["b"], "{flip}");
        assert_eq!((ledger.position().unwrap().1, ledger.relists()), (0, 1), "{flip}");
    }
}

/// Whatever becomes of a Work, its row is guarded; one that an older agent changed is not, and is read.
#[test]
fn every_row_is_guarded_but_those_that_an_older_agent_changed() {
    let ledger = Ledger::in_memory().unwrap();
    let id = |name: &str| {
        let manifest =
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        karmada_member::ObjectId::of(&manifest)
    };
    let delete = |key: &str| Change::Delete {
        key: key.into(),
        uid: "u".into(),
        revision: 9,
        preserve: true,
        retry: String::new(),
    };
    let of = |name: &str| -> &'static [u8] {
        let body = serde_json::json!({"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}]});
        body.to_string().leak().as_bytes()
    };
    let check = |what: &str| assert_eq!((unguarded(&ledger), ledger.held().is_ok()), (0, true), "{what}");
    ledger.commit(&[put("a", 1, of("x")), put("b", 2, of("y"))]).unwrap();
    ledger.begins(&["a".into()]).unwrap();
    ended(&ledger, body::hash(of("x")), true);
    ledger.commit(&[put("a", 3, of("z"))]).unwrap();
    assert_eq!(ledger.entry("a").unwrap().unwrap().former, [id("x")]);
    check("another body");
    ledger.former_removed("a", &body::hash(of("z"))).unwrap();
    check("what it had named is gone");
    ledger.commit(&[put("a", 4, of("x")), Change::KeepFormer { key: "a".into() }]).unwrap();
    check("what it had named is kept");
    ledger.found("stray", &[id("s"), id("t")]).unwrap();
    check("found");
    ledger.lost("stray", &id("s")).unwrap();
    check("lost");
    ledger.commit(&[delete("b")]).unwrap();
    check("on its way out");
    ledger.removed(&["b".into()]).unwrap();
    check("removed");
    let changes = "UPDATE works SET preserve = 1 WHERE key = 'a'";
    ledger.read(|connection| connection.execute(changes, []).map(drop)).unwrap();
    assert!(ledger.entry("a").unwrap().unwrap().preserve);
    assert_eq!(unguarded(&ledger), 1);
}
