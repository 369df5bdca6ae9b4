//! What of a member's own words goes into its cluster's status.
//!
//! In: a version, what is served, amounts, as the member says them. Out: the same without what the hub would refuse the whole report for: names
//! that are none, and more than a cluster has. Pure.

use karmada_api::binding::ResourceList;
use karmada_api::cluster::{ApiEnablement, ResourceSummary};

/// Bytes of a version, of a name, and how many amounts: the hub takes no more.
const VERSION: usize = 64;
const NAME: usize = 317;
const AMOUNTS: usize = 256;
/// Groups with their versions, and resources in all of them.
const GROUP_VERSIONS: usize = 5_000;
const RESOURCES: usize = 50_000;

/// The member's version, cut to what is shown of it.
pub(super) fn version(said: &str) -> String {
    said.chars().filter(char::is_ascii_graphic).take(VERSION).collect()
}

/// What the member serves, and whether that is all that it said.
pub(super) fn enablements(said: Vec<ApiEnablement>) -> (Vec<ApiEnablement>, bool) {
    let (mut left, mut is_whole) = (RESOURCES, said.len() <= GROUP_VERSIONS);
    let mut told: Vec<ApiEnablement> = said.into_iter().take(GROUP_VERSIONS).collect();
    told.retain_mut(|one| {
        let before = one.resources.len();
        one.resources.retain(|resource| is_name(&resource.name) && is_name(&resource.kind));
        one.resources.truncate(left);
        left -= one.resources.len();
        let keeps = is_name(&one.group_version);
        is_whole &= keeps && one.resources.len() == before;
        keeps
    });
    (told, is_whole)
}

/// The amounts that have names.
pub(super) fn amounts(summary: ResourceSummary) -> ResourceSummary {
    let named = |amounts: ResourceList| -> ResourceList {
        amounts.into_iter().filter(|(name, _)| is_name(name)).take(AMOUNTS).collect()
    };
    let ResourceSummary { allocatable, allocating, allocated, allocatable_modelings } = summary;
    ResourceSummary {
        allocatable: named(allocatable),
        allocating: named(allocating),
        allocated: named(allocated),
        allocatable_modelings,
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    (1..=NAME).contains(&text.len()) && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use karmada_api::cluster::ApiResource;

    use super::*;

    #[test]
    fn a_members_words_are_cut_to_what_the_hub_takes() {
        assert_eq!(version("v1.34.1+k3s1"), "v1.34.1+k3s1");
        assert_eq!(version(&format!("v1\n{}", "x".repeat(5_000_000))).len(), VERSION);
        let served = |name: &str, kind: &str| ApiEnablement {
            group_version: "v1".into(),
            resources: vec![ApiResource { name: name.into(), kind: kind.into() }],
        };
        let pods = served("pods", "Pod");
        assert_eq!(enablements(vec![pods.clone()]), (vec![pods.clone()], true));
        let (told, is_whole) = enablements(vec![served("pods", "P\n"), served(&"p".repeat(1000), "Pod")]);
        assert!(!is_whole && told.iter().all(|one| one.resources.is_empty()));
        let (told, is_whole) = enablements(vec![pods; GROUP_VERSIONS + 1]);
        assert!(!is_whole && told.len() == GROUP_VERSIONS);
        let one = || karmada_quantity::Quantity::from_units(1);
        let allocatable: ResourceList =
            [("cpu".to_owned(), one()), ("x".repeat(100_000), one()), ("a b".to_owned(), one())].into();
        let told = amounts(ResourceSummary { allocatable, ..ResourceSummary::default() });
        assert_eq!(told.allocatable.into_keys().collect::<Vec<_>>(), ["cpu"]);
    }
}
