//! From what single clusters answered to what all of them have together.
//!
//! In: the binding that places the target, and for each cluster its Pods and readings, or why it said nothing. Out: the facts, who said nothing or
//! not all, and how far the target is placed. Amounts of things that are no Pods are added up over the clusters.
//!
//! Who is not in contact is not asked, and the others stand for him: a site may be away for days, in which they are to be scaled all the same.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::ResourceBinding;

use super::facts::{Facts, Pod, Reading};

/// What one cluster told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterMetrics {
    /// The target's Pods there.
    pub pods: Vec<Pod>,
    /// What is known of each metric there.
    pub readings: Vec<Reading>,
}

/// What each cluster told, or in words why it did not.
pub type Answers = BTreeMap<String, Result<ClusterMetrics, String>>;

/// What all clusters have together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Those that answered.
    pub facts: Facts,
    /// Who said nothing or not all, and why.
    pub silent: BTreeMap<String, String>,
    /// Who was not asked, as he is away.
    pub away: BTreeSet<String>,
    /// How far the target is placed.
    pub placed: Placed,
}

/// How far the target's replicas are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placed {
    /// All of them are.
    #[default]
    Wholly,
    /// Some find no room.
    Partly,
    /// The binding does not know of the template's replicas yet, so that nothing can be told by them.
    Behind,
}

/// Puts answers together. `template` is the target's replicas.
pub fn gather(binding: &ResourceBinding, template: i32, answers: Answers, metrics: usize) -> Gathered {
    let mut gathered = Gathered { placed: placed(binding, template), ..Gathered::default() };
    let mut readings: Vec<Option<Reading>> = vec![None; metrics];
    for (cluster, answer) in answers {
        match answer {
            Err(why) => drop(gathered.silent.insert(cluster, why)),
            Ok(told) => {
                let facts = &mut gathered.facts;
                facts.wanted = facts.wanted.saturating_add(wanted(binding, &cluster));
                facts.running = facts.running.saturating_add(running(binding, &cluster, &told.pods));
                if let Some(why) = merge(&mut readings, told.readings) {
                    gathered.silent.insert(cluster, why);
                }
                facts.pods.extend(told.pods);
            }
        }
    }
    let nobody = || Reading::Unknown("no cluster told it".to_owned());
    gathered.facts.readings = readings.into_iter().map(|reading| reading.unwrap_or_else(nobody)).collect();
    gathered
}

fn placed(binding: &ResourceBinding, template: i32) -> Placed {
    let everywhere: i64 = binding.spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
    match binding.spec.replicas == template {
        false => Placed::Behind,
        true if everywhere < i64::from(template) => Placed::Partly,
        true => Placed::Wholly,
    }
}

fn wanted(binding: &ResourceBinding, cluster: &str) -> i64 {
    let target = binding.spec.clusters.iter().find(|target| target.name == cluster);
    target.map_or(0, |target| i64::from(target.replicas.max(0)))
}

/// As the cluster's status says, and else as many as it has Pods.
fn running(binding: &ResourceBinding, cluster: &str, pods: &[Pod]) -> i64 {
    let item = binding.status.aggregated_status.iter().find(|item| item.cluster_name == cluster);
    let said = item.and_then(|item| item.status.as_ref()?.get("replicas")?.as_i64());
    let counted = || i64::try_from(pods.iter().filter(|pod| !pod.deleting).count()).unwrap_or(i64::MAX);
    said.filter(|replicas| *replicas >= 0).unwrap_or_else(counted)
}

/// Adds one cluster's readings; what it could not read, in words.
fn merge(readings: &mut [Option<Reading>], told: Vec<Reading>) -> Option<String> {
    let mut untold = None;
    let mut told = told.into_iter();
    for reading in readings {
        let one = told.next().unwrap_or_else(|| Reading::Unknown("it was not told".to_owned()));
        if let Reading::Unknown(why) = &one {
            untold.get_or_insert_with(|| why.clone());
        }
        *reading = Some(match (reading.take(), one) {
            (Some(Reading::Whole(before)), Reading::Whole(more)) => {
                Reading::Whole(before.saturating_add(more))
            }
            (Some(known @ (Reading::OfPods | Reading::Whole(_))), _) => known,
            (Some(Reading::Unknown(_)) | None, one @ (Reading::OfPods | Reading::Whole(_))) => one,
            (Some(unknown), Reading::Unknown(_)) => unknown,
            (None, unknown) => unknown,
        });
    }
    untold
}
