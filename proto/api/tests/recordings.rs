//! The folder of recordings and the table of who reads them name the same files.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "only the tables are looked at here")]
#[path = "recorded/mod.rs"]
mod recorded;

use std::collections::BTreeSet;

/// A file that nobody reads proves nothing, and one that is not there proves nothing any more.
#[test]
fn every_file_of_the_recordings_is_read_by_a_test() {
    let folder = recorded::folder();
    if !folder.is_dir() {
        println!("skipped: no recordings at {}", folder.display());
        return;
    }
    let entries = std::fs::read_dir(&folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = names.filter(|name| name != "README.md").collect();
    let read: BTreeSet<String> = recorded::table::files().into_iter().map(str::to_owned).collect();
    let unread: Vec<&String> = there.difference(&read).collect();
    let missing: Vec<&String> = read.difference(&there).collect();
    assert!(unread.is_empty() && missing.is_empty(), "nobody reads {unread:?}; {missing:?} are not there");
}
