//! Spans of time as flags and tables write them. In: `24h`, `1h30m`, seconds. Out: durations, and `23h`.

use std::time::Duration;

/// Reads a span as Go writes it: `90s`, `5m`, `1h30m`, `24h`; `0` is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a duration like 90s, 5m or 24h");
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

/// A span as kubectl's AGE column rounds it: two units where one would be too coarse.
pub fn human(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |large: u64, a: &str, small: u64, b: &str| {
        if small == 0 { format!("{large}{a}") } else { format!("{large}{a}{small}{b}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
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
        for text in ["", "5", "soon", "-5m", "5 parsecs"] {
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
        ] {
            assert_eq!(human(Duration::from_secs(seconds)), text);
        }
    }
}
