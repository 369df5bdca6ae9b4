//! Files that were copied and put back: the hub's data, an agent's ledger. What lives stays, what is gone goes again, and all of it
//! ends where hub and site say the same.

use std::fs;
use std::path::Path;

use karmada_api::strings::{annotations, labels};
use serde_json::json;
use tests::wait::{TIMEOUT, eventually, so, throughout};

use crate::fleet::{await_gone, get};
use crate::private_site::{A_WHILE, Line, config};

/// Copies a folder into `to`, which is made.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// Puts the ledger's files of `from` in the place of those of `to`.
fn copy_ledger(from: &Path, to: &Path) {
    let is_ledger = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ledger.sqlite"))
    };
    let files = |folder: &Path| fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files(to).filter(|path| is_ledger(path)).for_each(|path| fs::remove_file(path).unwrap());
    let copied = files(from).filter(|path| is_ledger(path));
    let copied = copied.map(|path| fs::copy(&path, to.join(path.file_name().unwrap())).unwrap());
    assert!(copied.count() > 0, "there is a ledger in {}", from.display());
}

/// The copy holds a delete that the site has not heard of yet. The hub's next life finishes it and takes it back: what is listed
/// as deleted after the restore lives.
#[test]
fn a_restored_hub_deletes_nothing_that_lives_and_all_converges_after_a_word() {
    let Some(mut line) = Line::start() else { return };
    for name in ["changed", "deleted", "kept", "taken-back"] {
        line.put(name, "old");
    }
    line.await_agreement(&[("changed", "old"), ("deleted", "old"), ("kept", "old"), ("taken-back", "old")]);
    line.agent.stop();
    line.delete("taken-back");
    line.hub.stop();
    let (data, copy) = (line.hub.data_dir(), line.folder.join("copy"));
    copy_folder(&data, &copy);

    line.hub.start_again();
    line.agent.start_again();
    line.await_no("taken-back");
    line.put("taken-back", "new");
    line.put("added", "new");
    line.change("changed", "new");
    line.delete("deleted");
    line.await_no("deleted");
    line.await_agreement(&[("added", "new"), ("changed", "new"), ("kept", "old"), ("taken-back", "new")]);
    let living = ["added", "kept", "taken-back"];
    let before = living.map(|name| line.uid(name));

    line.hub.stop();
    fs::remove_dir_all(&data).unwrap();
    copy_folder(&copy, &data);
    line.hub.start_again();
    // What the hub says of what it knows holds again, in both directions; what it lists as deleted waits.
    line.await_mode("changed", "old");
    line.await_mode("deleted", "old");
    let batch = eventually("the held deletes to be told", TIMEOUT, || line.held_batch());
    line.await_orphan("added");
    throughout("what lives", A_WHILE, || {
        living.iter().try_for_each(|name| get(line.member.api(), &config(name)).map(drop))
    });
    assert_eq!(living.map(|name| line.uid(name)), before, "nothing was deleted and made anew");
    // A delete of this life needs no word, beside those that wait.
    line.delete("deleted");
    line.await_no("deleted");
    // Neither does a restart let those out.
    line.agent.stop();
    line.agent.start_again();
    throughout("what is held", A_WHILE, || get(line.member.api(), &config("taken-back")).map(drop));

    line.karmadactl(&["confirm", "lone", "--batch", &batch]);
    line.await_no("taken-back");
    assert!(get(line.member.api(), &config("added")).is_ok(), "the word was for deletes");
    line.karmadactl(&["orphans", "lone", "--delete", "added"]);
    line.await_no("added");
    line.await_agreement(&[("changed", "old"), ("kept", "old")]);
    // Names of the life that was taken back are names like others.
    for name in ["added", "deleted", "taken-back"] {
        line.put(name, "third");
    }
    line.change("changed", "third");
    line.await_agreement(&[
        ("added", "third"),
        ("changed", "third"),
        ("deleted", "third"),
        ("kept", "old"),
        ("taken-back", "third"),
    ]);
    assert_eq!(line.uid("kept"), before[1]);
}

#[test]
fn an_agent_whose_older_ledger_is_put_back_converges() {
    let Some(mut line) = Line::start() else { return };
    for name in ["changed", "deleted", "kept"] {
        line.put(name, "old");
    }
    line.await_agreement(&[("changed", "old"), ("deleted", "old"), ("kept", "old")]);
    line.agent.stop();
    let (state, copy) = (line.agent.state_dir(), line.folder.join("ledger"));
    fs::create_dir(&copy).unwrap();
    copy_ledger(&state, &copy);

    line.agent.start_again();
    line.put("added", "new");
    line.change("changed", "new");
    line.delete("deleted");
    line.await_no("deleted");
    line.await_agreement(&[("added", "new"), ("changed", "new"), ("kept", "old")]);
    let uids = ["added", "changed", "kept"].map(|name| line.uid(name));
    line.agent.stop();
    copy_ledger(&copy, &state);
    // What the hub remembers of what was deleted since, it says.
    line.agent.start_again();
    line.await_agreement(&[("added", "new"), ("changed", "new"), ("kept", "old")]);
    line.agent.stop();
    copy_ledger(&copy, &state);
    line.hub.stop();
    // Without the hub the site has no newer word than its ledger.
    line.agent.start_again();
    line.await_mode("deleted", "old");
    line.await_mode("changed", "old");
    line.hub.start_again();
    // A hub that was restarted has no history that says that the Work is gone: a person says it.
    line.await_orphan("deleted");
    assert!(get(line.member.api(), &config("deleted")).is_ok(), "absence never deletes");
    line.karmadactl(&["orphans", "lone", "--delete", "deleted"]);
    line.await_agreement(&[("added", "new"), ("changed", "new"), ("kept", "old")]);
    assert_eq!(["added", "changed", "kept"].map(|name| line.uid(name)), uids, "each is the same object");
    // The ledger is whole again: what is deleted goes, what is changed comes.
    line.delete("added");
    line.await_no("added");
    line.change("kept", "new");
    line.await_agreement(&[("changed", "new"), ("kept", "new")]);
}

/// The hub has the Work, which names other objects: of what was brought back nobody would hear.
#[test]
fn what_a_restored_member_brings_back_of_a_held_work_is_told_until_a_person_decides() {
    let Some(line) = Line::start() else { return };
    line.put("kept", "old");
    line.await_agreement(&[("kept", "old")]);
    let marks = json!({annotations::WORK_NAME: "kept", annotations::WORK_NAMESPACE: "karmada-es-lone"});
    let back = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "back", "namespace": "default",
        "labels": {labels::MANAGED: labels::MANAGED_VALUE}, "annotations": marks}});
    line.member.api().create("/api/v1/namespaces/default/configmaps", &back).unwrap();
    line.await_orphan("kept/former");
    assert!(get(line.member.api(), &config("back")).is_ok(), "nothing is removed unasked");
    line.karmadactl(&["orphans", "lone", "--delete", "kept/former"]);
    await_gone(line.member.api(), "the member", &config("back"));
    eventually("nothing more to be told", TIMEOUT, || {
        let orphans = line.karmadactl(&["orphans", "lone"]);
        so(!orphans.contains("former"), || orphans)
    });
    line.await_agreement(&[("kept", "old")]);
}
