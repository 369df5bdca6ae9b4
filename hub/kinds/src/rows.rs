//! The rows of shipped kinds: what each does, at a glance.
//!
//! In: group, version and kind. Out: the row, which names the functions of its kind. One file holds the rows of a part of the API; what
//! they name stands beside, by concern (`validation`, `defaults`, `table`, …).

mod cluster_scoped;
mod core;
mod karmada;
mod network;
mod selectable;
mod storage;
mod workloads;

use karmada_definitions::description::Style;
use karmada_definitions::kind_row::KindRow;

/// A group and its rows.
type Group = (&'static str, &'static [KindRow]);

/// Every group that has rows, by the files that they stand in.
const GROUPS: [&[Group]; 6] = [
    core::GROUPS,
    workloads::GROUPS,
    network::GROUPS,
    storage::GROUPS,
    cluster_scoped::GROUPS,
    karmada::GROUPS,
];

/// The row of a shipped kind.
pub(crate) fn find(group: &str, version: &str, kind: &str, style: Style) -> &'static KindRow {
    let groups = GROUPS.into_iter().flatten().filter(|(name, _)| *name == group);
    let mut rows = groups.flat_map(|(_, rows)| rows.iter());
    let own = rows.find(|row| row.kind == kind && (row.version.is_empty() || row.version == version));
    own.unwrap_or(match style {
        Style::Go => &KindRow::GO,
        Style::Aggregated | Style::Crd => &KindRow::CUSTOM,
    })
}

#[cfg(test)]
mod tests {
    use super::GROUPS;
    use crate::catalogue;

    #[test]
    fn each_row_is_of_a_kind_that_is_served() {
        for (group, rows) in GROUPS.into_iter().flatten() {
            for row in *rows {
                let of = |one: &&karmada_definitions::description::Resource| {
                    one.group == *group
                        && one.kind == row.kind
                        && (row.version.is_empty() || one.version == row.version)
                };
                assert!(catalogue::resources().iter().any(|one| of(&one)), "{group} {}", row.kind);
            }
        }
    }
}
