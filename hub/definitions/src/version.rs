//! Versions of groups: as `apiVersion` writes them, and which is preferred.
//!
//! In: text. Out: parts of it, or numbers by which versions are ordered. Text that does not begin with `v` is preferred least; whether the
//! rest is a version is not checked. Pure.

/// How much a version is preferred: stable over beta over alpha, then the higher number (the order of CRD versions).
pub fn preference(version: &str) -> (u8, u32, u32) {
    let numbers = |text: &str| text.parse::<u32>().unwrap_or(0);
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (word, level) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return (level, numbers(major), numbers(minor));
        }
    }
    (3, numbers(rest), 0)
}

/// Joins group and version as apiVersion does.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an apiVersion into group and version.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
