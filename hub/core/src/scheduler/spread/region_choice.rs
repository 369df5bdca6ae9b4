//! Which regions are used, where a placement asks for several and for so many clusters in them. Pure.
//!
//! In: what each region is worth and how many clusters it has, best first; how many regions and clusters are asked for. Out: positions.
//! What is promised: an answer wherever there is one, after a bounded amount of work whatever the fleet is. It is the best one where the
//! question is of a usual size; finding the best of any size would take a lifetime (it is a knapsack), so that beyond it a good one is
//! given: whoever may write a policy must not be able to keep the scheduler busy.

/// A region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// What it is worth.
    pub score: i64,
    /// How many clusters it has; at least one.
    pub size: usize,
}

/// Cells of tables that one decision may fill: some tens of milliseconds.
const MOST_CELLS: usize = 2_000_000;
/// How many counts of regions are tried, where not all combinations are.
const MOST_COUNTS: usize = 64;

/// Chooses regions. `groups` stand best first. A choice grows region by region, in that order, and is complete as soon as it has enough
/// regions and enough clusters: it never grows further. Among complete choices the highest mean score wins, then the most clusters, then
/// the one with the earlier regions. The positions chosen, rising.
pub(super) fn choose(
    groups: &[Group],
    (min, max): (usize, usize),
    min_clusters: usize,
) -> Option<Vec<usize>> {
    // As each has a cluster, more than these are never needed.
    let most = max.min(groups.len()).min(min.max(min_clusters).max(1));
    let least = (min.max(1)..=most).find(|count| largest(groups, *count) >= min_clusters)?;
    let cells: usize = (least..=most).fold(0, |sum: usize, count| {
        sum.saturating_add(groups.len().saturating_mul(count + 1).saturating_mul(min_clusters + 1))
    });
    let choices: Vec<Choice> = if cells <= MOST_CELLS {
        (least..=most).filter_map(|count| best_of(groups, min, count, min_clusters)).collect()
    } else {
        let stride = (most - least) / MOST_COUNTS + 1;
        (least..=most).step_by(stride).filter_map(|count| good_of(groups, min, count, min_clusters)).collect()
    };
    let mean = |a: &Choice, b: &Choice| {
        let (a_count, b_count) = (a.positions.len() as i128, b.positions.len() as i128);
        (i128::from(a.score) * b_count).cmp(&(i128::from(b.score) * a_count))
    };
    choices
        .into_iter()
        .max_by(|a, b| {
            mean(a, b).then(a.clusters.cmp(&b.clusters)).then_with(|| b.positions.cmp(&a.positions))
        })
        .map(|choice| choice.positions)
}

/// Clusters of the `count` largest.
fn largest(groups: &[Group], count: usize) -> usize {
    let mut sizes: Vec<usize> = groups.iter().map(|group| group.size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.iter().take(count).sum()
}

/// A complete choice.
#[derive(Debug)]
struct Choice {
    score: i64,
    clusters: usize,
    positions: Vec<usize>,
}

impl Choice {
    fn of(groups: &[Group], positions: Vec<usize>) -> Choice {
        let chosen = || positions.iter().filter_map(|at| groups.get(*at));
        let (score, clusters) = (chosen().map(|g| g.score).sum(), chosen().map(|g| g.size).sum());
        Choice { score, clusters, positions }
    }
}

/// The best choice of exactly `count` regions: how good the best completion of a choice is follows, from the last region to the first, from
/// how many were taken and how many clusters are missing.
fn best_of(groups: &[Group], min: usize, count: usize, min_clusters: usize) -> Option<Choice> {
    let width = min_clusters + 1;
    let is_complete = |taken: usize, missing: usize| taken > 0 && taken >= min && missing == 0;
    let at_end = |taken: usize, missing: usize| {
        (is_complete(taken, missing) && taken == count).then_some((0_i64, 0_usize))
    };
    let states = || (0..=count).flat_map(|taken| (0..width).map(move |missing| (taken, missing)));
    let mut worth: Vec<Option<(i64, usize)>> =
        states().map(|(taken, missing)| at_end(taken, missing)).collect();
    let mut takes = vec![false; groups.len() * (count + 1) * width];
    for (next, group) in groups.iter().enumerate().rev() {
        let layer = |(taken, missing): (usize, usize)| {
            if is_complete(taken, missing) || taken == count {
                return (at_end(taken, missing), false);
            }
            let rest = worth[(taken + 1) * width + missing.saturating_sub(group.size)];
            let with = rest.map(|(score, clusters)| (score + group.score, clusters + group.size));
            let without = worth[taken * width + missing];
            if with >= without { (with, with.is_some()) } else { (without, false) }
        };
        let (now, take): (Vec<_>, Vec<bool>) = states().map(layer).unzip();
        takes[next * (count + 1) * width..(next + 1) * (count + 1) * width].copy_from_slice(&take);
        worth = now;
    }
    worth[min_clusters]?;
    let (mut positions, mut missing) = (Vec::new(), min_clusters);
    for (next, group) in groups.iter().enumerate() {
        if takes[(next * (count + 1) + positions.len()) * width + missing] {
            positions.push(next);
            missing = missing.saturating_sub(group.size);
        }
    }
    Some(Choice::of(groups, positions))
}

/// A good choice of up to `count` regions: the best ones, of which the smallest give way to the largest of the others until there are
/// enough clusters.
fn good_of(groups: &[Group], min: usize, count: usize, min_clusters: usize) -> Option<Choice> {
    let mut going: Vec<usize> = (0..count).collect();
    going.sort_by_key(|at| (groups[*at].size, groups[*at].score));
    let mut coming: Vec<usize> = (count..groups.len()).collect();
    coming.sort_by_key(|at| std::cmp::Reverse((groups[*at].size, groups[*at].score)));
    let mut clusters: usize = groups[..count].iter().map(|group| group.size).sum();
    let mut chosen: Vec<bool> = (0..groups.len()).map(|at| at < count).collect();
    for (out, in_its_place) in going.into_iter().zip(coming) {
        if clusters >= min_clusters {
            break;
        }
        clusters = clusters - groups[out].size + groups[in_its_place].size;
        (chosen[out], chosen[in_its_place]) = (false, true);
    }
    if clusters < min_clusters {
        return None;
    }
    let (mut positions, mut missing) = (Vec::new(), min_clusters);
    for (at, group) in groups.iter().enumerate().filter(|(at, _)| chosen[*at]) {
        if !positions.is_empty() && positions.len() >= min && missing == 0 {
            break;
        }
        positions.push(at);
        missing = missing.saturating_sub(group.size);
    }
    Some(Choice::of(groups, positions))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(of: &[(i64, usize)]) -> Vec<Group> {
        let mut all: Vec<Group> = of.iter().map(|&(score, size)| Group { score, size }).collect();
        all.sort_by_key(|group| std::cmp::Reverse(group.score));
        all
    }

    fn is_choice(groups: &[Group], positions: &[usize], (min, max): (usize, usize), clusters: usize) -> bool {
        let sizes: Vec<usize> = positions.iter().map(|at| groups[*at].size).collect();
        let enough = |sizes: &[usize]| {
            !sizes.is_empty() && sizes.len() >= min && sizes.iter().sum::<usize>() >= clusters
        };
        positions.is_sorted()
            && positions.len() <= max
            && enough(&sizes)
            && (1..sizes.len()).all(|count| !enough(&sizes[..count]))
    }

    /// What one policy could keep the scheduler busy with for minutes: hundreds of regions, and no most.
    #[test]
    fn a_fleet_of_any_shape_is_chosen_from_with_bounded_work() {
        let uneven: Vec<(i64, usize)> =
            (0..600).map(|at| (1000 - at % 7, 1 + (at as usize * 31) % 9)).collect();
        let one_each: Vec<(i64, usize)> = (0..10_000).map(|at| (at % 100, 1)).collect();
        for (fleet, wanted) in
            [(uneven.clone(), 300), (uneven, 2900), (one_each.clone(), 5000), (one_each, 10_000)]
        {
            let fleet = groups(&fleet);
            let chosen = choose(&fleet, (1, usize::MAX), wanted).unwrap();
            assert!(is_choice(&fleet, &chosen, (1, usize::MAX), wanted), "{wanted}");
        }
    }

    proptest! {
        /// The best of all choices, as found by trying each.
        #[test]
        fn the_best_choice_is_chosen(
            fleet in prop::collection::vec((0..4_i64, 1..4_usize), 1..8),
            min in 0..4_usize, more in 0..4_usize, clusters in 0..9_usize,
        ) {
            let (fleet, bounds) = (groups(&fleet), (min, min + more));
            let chosen = choose(&fleet, bounds, clusters);
            let all = (1..1_u32 << fleet.len())
                .map(|set| (0..fleet.len()).filter(|at| set & (1 << at) != 0).collect::<Vec<_>>())
                .filter(|positions| is_choice(&fleet, positions, bounds, clusters))
                .map(|positions| Choice::of(&fleet, positions));
            let rank = |choice: &Choice| {
                // Means over at most seven regions, as whole numbers.
                (choice.score * 420 / choice.positions.len() as i64, choice.clusters)
            };
            let best = all.max_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.positions.cmp(&a.positions)));
            prop_assert_eq!(chosen.map(|positions| rank(&Choice::of(&fleet, positions))), best.as_ref().map(rank));
        }

        #[test]
        fn a_good_choice_is_one(
            fleet in prop::collection::vec((0..9_i64, 1..9_usize), 1..40),
            min in 0..9_usize, count in 1..40_usize, clusters in 0..90_usize,
        ) {
            let fleet = groups(&fleet);
            prop_assume!(count <= fleet.len() && count >= min.max(1));
            let good = good_of(&fleet, min, count, clusters);
            prop_assert_eq!(good.is_some(), largest(&fleet, count) >= clusters);
            if let Some(good) = good {
                prop_assert!(is_choice(&fleet, &good.positions, (min, count), clusters));
            }
        }
    }
}
