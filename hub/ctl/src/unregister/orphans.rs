//! What a site has of the hub's that the hub knows nothing of, when its cluster leaves. In: the Cluster, and whether what was placed stays.
//! Out: with --keep-workloads the site lets go of them as of everything else, their objects stay; what is left with the hub's marks, in
//! words.

use std::collections::BTreeMap;

use anyhow::Result;
use karmada_api::strings::annotations::ORPHANS;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::POLL;
use crate::connection::Connection;
use crate::orphans::orphans;
use crate::output::{self, Progress};
use crate::site;

/// Orphans that are named.
const NAMED: usize = 5;

/// Has the site let go of them where what was placed stays, for as long as until `deadline`, and says what is left.
pub async fn leave(
    hub: &Connection,
    cluster: &str,
    keeps: bool,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<()> {
    let path = site::path(cluster);
    while let Some(found) = hub.find(&path).await? {
        let all = orphans(&found);
        if all.is_empty() {
            return Ok(());
        }
        if !keeps || site::is_silent(&found) || Instant::now() >= deadline {
            return output::line(&format!("hub: {}", left(cluster, &all)));
        }
        let released = released(&all);
        if released != all {
            let version = &found["metadata"]["resourceVersion"];
            let word = json!(released).to_string();
            let patch = json!({"metadata": {"resourceVersion": version, "annotations": {ORPHANS: word}}});
            match hub.merge(&path, &patch).await {
                // Somebody else changed it: read anew.
                Err(error) if error.code() != Some(409) => return Err(error.into()),
                _ => {}
            }
        }
        progress.step(&format!("waiting for the site to let go of {} orphans", all.len()));
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Says what would become of them.
pub fn say(found: &Value, cluster: &str, keeps: bool) -> Result<()> {
    let all = orphans(found);
    match all.len() {
        0 => Ok(()),
        count if keeps => {
            output::line(&format!("hub: {count} orphans would be let go of, their objects stay"))
        }
        _ => output::line(&format!("hub: {}", left(cluster, &all))),
    }
}

/// All that nobody decided on are let go of.
fn released(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let word = |word: &String| if word == "undecided" { "release".to_owned() } else { word.clone() };
    all.iter().map(|(name, decided)| (name.clone(), word(decided))).collect()
}

fn left(cluster: &str, all: &BTreeMap<String, String>) -> String {
    let named: Vec<&str> = all.keys().take(NAMED).map(String::as_str).collect();
    let more = if all.len() > NAMED { ", …" } else { "" };
    format!(
        "{} orphans of {cluster} stay in the member with the hub's marks, as the hub knows nothing of them: {}{more} (before it leaves: \
         karmadactl orphans {cluster} --all, with --release or --delete)",
        all.len(),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_decided_on_is_let_go_of_and_what_is_left_is_named() {
        let all = |words: &[(&str, &str)]| -> BTreeMap<String, String> {
            words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect()
        };
        let decided = all(&[("a", "undecided"), ("b", "delete"), ("c", "release")]);
        assert_eq!(released(&decided), all(&[("a", "release"), ("b", "delete"), ("c", "release")]));
        let text = left("shop", &decided);
        assert!(text.contains("3 orphans of shop") && text.contains("a, b, c (before"), "{text}");
        let many: BTreeMap<_, _> = (0..9).map(|at| (format!("w{at}"), "undecided".to_owned())).collect();
        assert!(left("shop", &many).contains("w4, … (before"));
    }
}
