//! A namespace's Pod security policy, as its labels say it.
//!
//! In: a way to look a label up. Out: the standard for each of the three modes, always one that can be judged by, and what is
//! wrong with the labels. Nothing said is `privileged:latest`. What cannot be read is the strictest for who enforces, as nothing
//! may slip through by a typing error, and nothing for who warns or audits.

use std::fmt;

use karmada_definitions::status::Cause;

/// What all six labels begin with.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much is forbidden, from nothing upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    const ALL: [Level; 3] = [Level::Privileged, Level::Baseline, Level::Restricted];

    const fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }

    fn read(text: &str) -> Result<Level, String> {
        let wrong = || format!("must be one of {}", Level::ALL.map(Level::name).join(", "));
        Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(wrong)
    }
}

/// The release whose rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// `v1.N`, also one that is yet to come.
    Minor(u64),
    Latest,
}

impl Version {
    fn read(text: &str) -> Result<Version, String> {
        if text == "latest" {
            return Ok(Version::Latest);
        }
        let plain = |digits: &&str| {
            digits.bytes().all(|digit| digit.is_ascii_digit()) && (*digits == "0" || !digits.starts_with('0'))
        };
        let minor = text.strip_prefix("v1.").filter(plain).and_then(|digits| digits.parse::<i64>().ok());
        let minor = minor.and_then(|minor| u64::try_from(minor).ok());
        minor.map(Version::Minor).ok_or_else(|| "must be \"latest\" or \"v1.x\"".to_owned())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Minor(minor) => write!(f, "v1.{minor}"),
            Version::Latest => f.write_str("latest"),
        }
    }
}

/// A level as of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Standard {
    pub(super) const PRIVILEGED: Standard = Standard { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// What holds in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Pods that violate it are refused.
    pub(super) enforce: Standard,
    /// Violations are noted in the audit log.
    pub(super) audit: Standard,
    /// Violations are told to who writes.
    pub(super) warn: Standard,
}

impl Policy {
    /// What the labels say, and what is wrong with them.
    pub(super) fn read(label: impl Fn(&str) -> Option<String>) -> (Policy, Vec<Cause>) {
        let mut wrong = Vec::new();
        let mut mode = |name: &str, unreadable: Level| {
            let level = label_value(&label, name, Level::read, &mut wrong);
            let version = label_value(&label, &format!("{name}-version"), Version::read, &mut wrong);
            Mode { level, version, unreadable }
        };
        let enforce = mode("enforce", Level::Restricted);
        let audit = mode("audit", Level::Privileged);
        let warn = mode("warn", Level::Privileged);
        let mut policy =
            Policy { enforce: enforce.standard(), audit: audit.standard(), warn: warn.standard() };
        // Who enforces is also warned of it, unless the labels say how to warn.
        if let (LabelValue::Absent, LabelValue::Valid(level)) = (&warn.level, &enforce.level)
            && *level > Level::Privileged
        {
            policy.warn.level = *level;
            if matches!(warn.version, LabelValue::Absent) {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, wrong)
    }

    /// Whether nothing is looked at for any of the three.
    pub(super) fn allows_all(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }
}

/// What a label says.
enum LabelValue<T> {
    Absent,
    Valid(T),
    Invalid,
}

/// What the two labels of a mode say.
struct Mode {
    level: LabelValue<Level>,
    version: LabelValue<Version>,
    /// What a level that cannot be read stands for.
    unreadable: Level,
}

impl Mode {
    fn standard(&self) -> Standard {
        let level = match self.level {
            LabelValue::Absent => Level::Privileged,
            LabelValue::Valid(level) => level,
            LabelValue::Invalid => self.unreadable,
        };
        let version = match self.version {
            LabelValue::Valid(version) => version,
            LabelValue::Absent | LabelValue::Invalid => Version::Latest,
        };
        Standard { level, version }
    }
}

fn label_value<T>(
    label: impl Fn(&str) -> Option<String>,
    name: &str,
    read: impl Fn(&str) -> Result<T, String>,
    wrong: &mut Vec<Cause>,
) -> LabelValue<T> {
    let key = format!("{PREFIX}{name}");
    let Some(text) = label(&key) else { return LabelValue::Absent };
    match read(&text) {
        Ok(value) => LabelValue::Valid(value),
        Err(why) => {
            let message = format!("Invalid value: {}: {why}", karmada_schema::quote(&text));
            let field = format!("metadata.labels[{key}]");
            wrong.push(Cause { reason: "FieldValueInvalid".into(), message, field });
            LabelValue::Invalid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&str, &str)]) -> (String, usize) {
        let find = |key: &str| {
            let known = labels.iter().find(|(name, _)| key == format!("{PREFIX}{name}"));
            known.map(|(_, value)| (*value).to_owned())
        };
        let (Policy { enforce, audit, warn }, wrong) = Policy::read(find);
        (format!("{enforce} {audit} {warn}"), wrong.len())
    }

    #[test]
    fn labels_are_read_and_what_is_wrong_fails_on_the_safe_side() {
        for (labels, wanted, wrong) in [
            (&[][..], "privileged:latest privileged:latest privileged:latest", 0),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest", 0),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.22")],
                "restricted:v1.22 privileged:latest restricted:v1.22",
                0,
            ),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.22"), ("warn-version", "v1.30")],
                "restricted:v1.22 privileged:latest restricted:v1.30",
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged"), ("audit", "baseline")],
                "restricted:latest baseline:latest privileged:latest",
                0,
            ),
            (
                &[("enforce", "strict"), ("audit", "strict"), ("warn", "strict")],
                "restricted:latest privileged:latest privileged:latest",
                3,
            ),
            (&[("enforce", "strict")], "restricted:latest privileged:latest privileged:latest", 1),
            (&[("warn-version", "1.2")], "privileged:latest privileged:latest privileged:latest", 1),
            (
                &[("warn", "baseline"), ("warn-version", "v1.999")],
                "privileged:latest privileged:latest baseline:v1.999",
                0,
            ),
        ] {
            assert_eq!(of(labels), (wanted.to_owned(), wrong), "{labels:?}");
        }
    }

    #[test]
    fn versions_are_written_one_way() {
        for wrong in ["", "v1", "v1.", "v1.01", "v1.+1", "v1.-1", "v2.0", "v1.9223372036854775808", "Latest"]
        {
            assert!(Version::read(wrong).is_err(), "{wrong}");
        }
        for right in ["v1.0", "v1.34", "v1.9223372036854775807", "latest"] {
            assert_eq!(Version::read(right).map(|version| version.to_string()), Ok(right.to_owned()));
        }
    }
}
