//! Durations of `@every`: `90s`, `1h30m`, `1.5h`.
//!
//! In: the text. Out: whole seconds, at least one; none where it is no duration.

use jiff::SignedDuration;

const UNITS: [(&str, i128); 8] = [
    // Longer names first: `ms` begins like `m`.
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The duration between two runs.
pub(crate) fn every(text: &str) -> Option<SignedDuration> {
    let nanoseconds = if text == "0" { 0 } else { sum(text)? };
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).ok()?;
    Some(SignedDuration::from_secs(seconds.max(1)))
}

fn sum(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total = 0i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, size) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total += amount(number, *size)?;
        // What a duration of 64 bits can hold, some 292 years.
        if total > i128::from(i64::MAX) {
            return None;
        }
        rest = &after[unit.len()..];
    }
    Some(sign * total)
}

/// A number of units, cut off below nanoseconds.
fn amount(number: &str, size: i128) -> Option<i128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let part = &part[..part.len().min(18)];
    let scale = 10i128.checked_pow(u32::try_from(part.len()).ok()?)?;
    digits(whole)?.checked_mul(size)?.checked_add(digits(part)?.checked_mul(size)? / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_units_in_whole_seconds() {
        let all = [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("+2m", 120), ("2500ms", 2), (".5m", 30)];
        for (text, seconds) in all {
            assert_eq!(every(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        for least in ["0", "1ns", "999ms", "-5m"] {
            assert_eq!(every(least), Some(SignedDuration::from_secs(1)), "{least}");
        }
        for none in [
            "",
            "5",
            "m",
            "-",
            "5x",
            ".s",
            "1.2.3s",
            "5 m",
            "9223372037s",
            "99999999999999999999999999999999999999999h",
        ] {
            assert_eq!(every(none), None, "{none}");
        }
    }
}
