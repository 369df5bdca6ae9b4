//! Which checks make up a standard: by level, and by the release that began with them.
//!
//! In: a standard and a Pod. Out: what the Pod violates, in the order in which it is told.

use serde_json::Value;

use super::pod::{Pod, Violation};
use super::policy::{Level, Standard, Version};
use super::{host, identities, privileges, profiles, volumes};

/// The newest release with rules of its own; later ones have its rules.
const NEWEST: u64 = 35;

/// One check.
struct Check {
    /// From this level on.
    level: Level,
    /// From this release (1.N) on.
    since: u64,
    /// From this release on another check stands in for it where all that is restricted is checked.
    covered_since: Option<u64>,
    find: fn(&Pod<'_>) -> Option<Violation>,
}

const fn baseline(find: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Baseline, since: 0, covered_since: None, find }
}

const fn covered(since: u64, find: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { covered_since: Some(since), ..baseline(find) }
}

const fn restricted(since: u64, find: fn(&Pod<'_>) -> Option<Violation>) -> Check {
    Check { level: Level::Restricted, since, ..baseline(find) }
}

/// All checks, in the order in which they are told.
const CHECKS: [Check; 19] = [
    baseline(profiles::app_armor),
    covered(22, privileges::capabilities),
    baseline(host::namespaces),
    covered(0, volumes::host_paths),
    baseline(host::ports),
    Check { since: 34, ..baseline(host::probes) },
    baseline(privileges::privileged),
    covered(35, profiles::proc_mount),
    baseline(profiles::se_linux),
    covered(19, profiles::seccomp),
    baseline(profiles::sysctls),
    baseline(privileges::host_process),
    restricted(8, privileges::escalation),
    restricted(22, privileges::all_capabilities),
    restricted(35, profiles::proc_mount_is_masked),
    restricted(0, volumes::restricted),
    restricted(0, identities::not_root),
    restricted(23, identities::user),
    restricted(19, profiles::seccomp_is_set),
];

impl Check {
    fn is_part_of(&self, level: Level, minor: u64) -> bool {
        let covered = level == Level::Restricted && self.covered_since.is_some_and(|since| minor >= since);
        level >= self.level && minor >= self.since && !covered
    }
}

/// What a Pod with these metadata and this spec violates.
pub(super) fn violations(standard: Standard, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let minor = match standard.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let pod = Pod { annotations: &metadata["annotations"], spec, minor };
    let checks = CHECKS.iter().filter(|check| check.is_part_of(standard.level, minor));
    checks.filter_map(|check| (check.find)(&pod)).collect()
}

/// All of it with every detail, as the writer of one Pod is told; `None` where nothing is violated.
pub(super) fn in_detail(violations: &[Violation]) -> Option<String> {
    let each = violations.iter().map(|Violation { reason, detail }| format!("{reason} ({detail})"));
    (!violations.is_empty()).then(|| each.collect::<Vec<_>>().join(", "))
}

/// The reasons alone, by which many Pods are told of together; `None` where nothing is violated.
pub(super) fn in_brief(violations: &[Violation]) -> Option<String> {
    let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason).collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(level: Level, minor: u64, spec: &Value) -> String {
        let standard = Standard { level, version: Version::Minor(minor) };
        in_brief(&violations(standard, &Value::Null, spec)).unwrap_or_default()
    }

    /// What a plain Pod violates grows with the releases, and with the level.
    #[test]
    fn a_plain_pod_violates_more_from_release_to_release() {
        let plain = json!({"containers": [{"name": "c", "image": "i"}]});
        for (minor, wanted) in [
            (0, "runAsNonRoot != true"),
            (8, "allowPrivilegeEscalation != false, runAsNonRoot != true"),
            (19, "allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile"),
            (
                22,
                "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
            ),
        ] {
            assert_eq!(found(Level::Restricted, minor, &plain), wanted);
            assert_eq!(found(Level::Restricted, minor + 1, &plain), wanted);
            assert_eq!(found(Level::Baseline, minor, &plain), "");
        }
        assert_eq!(found(Level::Restricted, 99, &plain), found(Level::Restricted, NEWEST, &plain));
    }

    /// Root among users of the Pod's own is nobody on the node; what it sees of /proc is another matter.
    #[test]
    fn since_1_35_users_of_its_own_count() {
        let container = json!({"name": "c", "securityContext": {
            "procMount": "Unmasked", "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
        let spec = json!({
            "hostUsers": false, "containers": [container],
            "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}});
        assert_eq!(found(Level::Baseline, 34, &spec), "procMount");
        assert_eq!(found(Level::Restricted, 34, &spec), "procMount, runAsNonRoot != true, runAsUser=0");
        assert_eq!(found(Level::Baseline, 35, &spec), "");
        assert_eq!(found(Level::Restricted, 35, &spec), "procMount");
    }

    /// Where the stricter check of the same is made, the looser one is not told as well.
    #[test]
    fn one_thing_is_told_once() {
        let spec = json!({
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "Unconfined"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"add": ["SYS_ADMIN"]}}}],
        });
        assert_eq!(
            found(Level::Baseline, 34, &spec),
            "non-default capabilities, hostPath volumes, seccompProfile"
        );
        let all = "unrestricted capabilities, restricted volume types, seccompProfile";
        assert_eq!(found(Level::Restricted, 34, &spec), all);
        let before = "non-default capabilities, restricted volume types, seccompProfile";
        assert_eq!(found(Level::Restricted, 21, &spec), before);
    }
}
