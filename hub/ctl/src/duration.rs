//! Spans of time as flags and tables write them. In: `24h`, `1h30m`, seconds. Out: durations, and `23h`.

use std::time::Duration;

use karmada_core::human_duration;
use karmada_schema::duration::flag_duration;

/// Reads a span as Go writes it: `90s`, `5m`, `1h30m`, `24h`; `0` is none. A flag that takes one takes hyphens as well, so that what is said of
/// `-1h` is said here.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a duration like 90s, 5m or 24h");
    flag_duration(text).and_then(|span| Duration::try_from(span).ok()).ok_or_else(wrong)
}

/// A span as kubectl's AGE column rounds it: two units where one would be too coarse.
pub fn human(span: Duration) -> String {
    human_duration(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds) in
            [("0", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("24h", 86_400), ("24h0m0s", 86_400)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "soon", "-5m", "5 parsecs", "2562048h", "9223372036854775807s"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (3600, "60m"),
            (86_400, "24h"),
            (86_399, "23h"),
            (20_000, "5h33m"),
            (172_800, "2d"),
            (900_000, "10d"),
            (86_400 * 800, "2y70d"),
        ] {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
    }
}
