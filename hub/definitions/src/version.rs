//! Versions of groups: as `apiVersion` writes them, and which is preferred.
//!
//! In: text. Out: parts of it, or what orders versions. Pure.

use std::cmp::Reverse;

/// How much a version is preferred: the greater, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Preference<'a> {
    /// Stable is 3, beta 2, alpha 1, and 0 what is no version.
    stability: u8,
    numbers: (u64, u64),
    /// Of those that are no versions the first by alphabet is preferred.
    other: Reverse<&'a str>,
}

/// How much a version is preferred: stable over beta over alpha, then the higher number; last, by alphabet, what is not written as `v1`, `v1beta2`
/// or `v1alpha3` are (the order of a CRD's versions in Kubernetes).
pub fn preference(version: &str) -> Preference<'_> {
    let kubernetes = numbered(version);
    let (stability, numbers) = kubernetes.unwrap_or_default();
    let other = Reverse(if kubernetes.is_some() { "" } else { version });
    Preference { stability, numbers, other }
}

/// The stability and the numbers of a version that has them.
fn numbered(version: &str) -> Option<(u8, (u64, u64))> {
    let number = |text: &str| if text.starts_with('+') { None } else { text.parse().ok() };
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, (number(major)?, number(minor)?)));
        }
    }
    Some((3, (number(rest)?, 0)))
}

/// Joins group and version as apiVersion does.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an apiVersion into group and version.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Kubernetes' documentation of versions in CustomResourceDefinitions.
    #[test]
    fn versions_are_preferred_as_kubernetes_does() {
        let order = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v",
            "v+1",
            "v1beta",
            "vnext",
        ];
        for pair in order.windows(2) {
            assert!(preference(pair[0]) > preference(pair[1]), "{pair:?}");
        }
    }
}
