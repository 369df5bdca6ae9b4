//! Moments as the API writes them (`metav1.Time`).
//!
//! In: a moment. Out: RFC 3339 in UTC, in whole seconds; or the moment without its fractions. Reads no clock.

use jiff::Timestamp;

/// A moment as metadata and conditions write it.
pub fn seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The moment without fractions, as it is once it was written and read.
pub fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_the_moment_without_its_fractions() {
        for (text, written) in [
            ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05+01:00", "2026-01-02T02:04:05Z"),
        ] {
            let moment: Timestamp = text.parse().unwrap();
            assert_eq!(seconds(moment), written);
            assert_eq!(whole_seconds(moment), written.parse().unwrap());
        }
    }
}
