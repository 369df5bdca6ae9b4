//! The tables of plain facts (`data/facts.tsv`) and defaults (`data/defaults.tsv`): each line is of a type that there is, and of a field
//! that it has; and what is judged by is what OpenAPI tells.

use std::collections::{BTreeMap, BTreeSet};

use karmada_schema::{SchemaRef, Schemas};

const FACTS: &str = include_str!("../../data/facts.tsv");
const DEFAULTS: &str = include_str!("../../data/defaults.tsv");
/// What kube-apiserver's OpenAPI tells: component, field, values.
const TOLD: &str = include_str!("../../../apiserver/data/enums.tsv");

/// A table's lines, each by its cells.
fn lines(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// The field of a part of a path (`field`, `field=told`), and whether its items are meant (`[]`, `[*]`).
fn part(part: &str) -> (&str, bool) {
    let of_items = part.strip_suffix("[]").or_else(|| part.strip_suffix("[*]"));
    let field = of_items.unwrap_or(part);
    (field.split_once('=').map_or(field, |(field, _)| field), of_items.is_some())
}

fn step<'s>(at: SchemaRef<'s>, one: &str) -> Option<SchemaRef<'s>> {
    let (field, of_items) = part(one);
    let found = at.property(field)?;
    if of_items { found.items() } else { Some(found) }
}

fn reach(of: &str, path: &str) -> Option<SchemaRef<'static>> {
    let of = of.split('#').next().unwrap();
    let of = Schemas::builtin().named(&format!("io.k8s.{of}"))?;
    path.split('.').filter(|part| !part.is_empty()).try_fold(of, step)
}

#[test]
fn each_line_is_of_a_field_that_there_is() {
    let all: Vec<Vec<&str>> = lines(FACTS).chain(lines(DEFAULTS)).collect();
    let wrong: Vec<&Vec<&str>> = all.iter().filter(|cells| reach(cells[0], cells[1]).is_none()).collect();
    assert!(all.len() > 500, "{}", all.len());
    assert!(wrong.is_empty(), "these are of nothing: {wrong:#?}");
}

/// Fields of which fewer values are taken than OpenAPI tells, as kube-apiserver has it.
const FEWER: [&str; 2] = [
    // New webhooks say more.
    "api.admissionregistration.v1.ValidatingWebhook sideEffects",
    // Volumes may be of it, classes may not.
    "api.storage.v1.StorageClass reclaimPolicy",
];

#[test]
fn values_that_are_taken_are_those_that_openapi_tells() {
    let told: BTreeMap<String, BTreeSet<&str>> = lines(TOLD)
        .map(|cells| {
            (format!("{} {}", cells[0], cells[1].trim_end_matches("[]")), cells[2].split(',').collect())
        })
        .collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for cells in lines(FACTS) {
        let Some(values) = cells[3].strip_prefix("one of: ").or_else(|| cells[3].strip_prefix("only: "))
        else {
            continue;
        };
        let (above, last) = cells[1].rsplit_once('.').unwrap_or(("", cells[1]));
        let of = reach(cells[0], above).and_then(|of| of.type_name()).unwrap();
        let name = format!("{} {}", of.strip_prefix("io.k8s.").unwrap_or(of), part(last).0);
        let Some(told) = told.get(&name) else { continue };
        count += 1;
        let taken: BTreeSet<&str> = values.split(',').collect();
        let fewer = FEWER.contains(&name.as_str());
        if fewer == (taken == *told) || !taken.is_subset(told) {
            wrong.push(format!("{name}: {taken:?} are taken, {told:?} told"));
        }
    }
    assert!(count > 40, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
