//! What a site has of the hub's that the hub knows nothing of, when its cluster leaves. In: the Cluster, and whether what was placed stays.
//! Out: with --keep-workloads the site lets go of them as of everything else, their objects stay; what is left with the hub's marks, in
//! words. Of a Work that the hub holds again since it was reported, it knows: it leaves as the other Works do.

use std::collections::BTreeSet;

use anyhow::Result;
use karmada_api::strings::annotations::ORPHANS;
use karmada_core::orphans::{Fate, Orphans};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::POLL;
use crate::connection::Connection;
use crate::output::{self, Progress};
use crate::site;

/// Orphans that are named.
const NAMED: usize = 5;

/// A cluster that leaves.
#[derive(Clone, Copy)]
pub struct Leaving<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Whether what was placed stays.
    pub keeps: bool,
    /// The Works that the hub has for it.
    pub held: &'a BTreeSet<String>,
}

/// Has the site let go of them where what was placed stays, for as long as until `deadline`, and says what is left.
pub async fn leave(
    hub: &Connection,
    Leaving { cluster, keeps, held }: Leaving<'_>,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<()> {
    let path = site::path(cluster);
    while let Some(found) = hub.find(&path).await? {
        let all = unknown(&found, held);
        if all.count() == 0 {
            return Ok(());
        }
        if !keeps || site::is_silent(&found) || Instant::now() >= deadline {
            return output::line(&format!("hub: {}", left(cluster, &all)));
        }
        let released = released(&all);
        if released != all {
            let version = &found["metadata"]["resourceVersion"];
            let word = released.text();
            let patch = json!({"metadata": {"resourceVersion": version, "annotations": {ORPHANS: word}}});
            match hub.merge(&path, &patch).await {
                // Somebody else changed it: read anew.
                Err(error) if error.code() != Some(409) => return Err(error.into()),
                _ => {}
            }
        }
        progress.step(&format!("waiting for the site to let go of {} orphans", all.count()));
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Says what would become of them.
pub fn say(found: &Value, cluster: &str, keeps: bool, held: &BTreeSet<String>) -> Result<()> {
    let all = unknown(found, held);
    match all.count() {
        0 => Ok(()),
        count if keeps && !site::is_silent(found) => {
            output::line(&format!("hub: {count} orphans would be let go of, their objects stay"))
        }
        _ => output::line(&format!("hub: {}", left(cluster, &all))),
    }
}

/// Those that stand on the Cluster and of which the hub knows nothing yet.
fn unknown(found: &Value, held: &BTreeSet<String>) -> Orphans {
    let mut all = Orphans::of(found);
    all.reported(&[], |name| held.contains(name));
    all
}

/// All that nobody decided on are let go of.
fn released(all: &Orphans) -> Orphans {
    let mut released = all.clone();
    for (name, _) in all.fates().iter().filter(|(_, fate)| **fate == Fate::Undecided) {
        released.decide(name, Fate::Release);
    }
    released
}

fn left(cluster: &str, all: &Orphans) -> String {
    let named: Vec<&str> = all.fates().keys().take(NAMED).map(String::as_str).collect();
    let more = if all.count() > NAMED { ", …" } else { "" };
    format!(
        "{} orphans of {cluster} stay in the member with the hub's marks, as the hub knows nothing of them: {}{more} (before it leaves: \
         karmadactl orphans {cluster} --all, with --release or --delete)",
        all.count(),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_nobody_decided_on_is_let_go_of_and_what_is_left_is_named() {
        let all = |words: &[(&str, &str)]| {
            let words: BTreeMap<_, _> = words.iter().copied().collect();
            Orphans::of(&json!({"metadata": {"annotations": {ORPHANS: json!(words).to_string()}}}))
        };
        let decided = all(&[("a", "undecided"), ("b", "delete"), ("c", "release")]);
        assert_eq!(released(&decided), all(&[("a", "release"), ("b", "delete"), ("c", "release")]));
        let text = left("shop", &decided);
        assert!(text.contains("3 orphans of shop") && text.contains("a, b, c (before"), "{text}");
        let names: Vec<String> = (0..9).map(|at| format!("w{at}")).collect();
        let many = all(&names.iter().map(|name| (name.as_str(), "undecided")).collect::<Vec<_>>());
        assert!(left("shop", &many).contains("w4, … (before"));
        let cluster = json!({"metadata": {"annotations": {ORPHANS: decided.text()}}});
        let held = BTreeSet::from(["a".to_owned(), "other".to_owned()]);
        assert_eq!(unknown(&cluster, &held), all(&[("b", "delete"), ("c", "release")]));
    }
}
