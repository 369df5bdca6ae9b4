//! Time zones by name.
//!
//! In: a name as IANA's database has it, to the letter. Out: the zone.

use jiff::tz::{self, TimeZone};

/// No time zone has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(pub String);

/// The zone of that name. No name, `UTC` and `Local` are UTC: a hub has no place.
///
/// # Errors
/// The time zone database has no such name, or writes it in other letters.
pub fn zone(name: &str) -> Result<TimeZone, UnknownZone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    let found = tz::db().get(name).ok();
    // The database takes names in any case.
    found.filter(|zone| zone.iana_name() == Some(name)).ok_or_else(|| UnknownZone(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_their_names_to_the_letter() {
        assert_eq!(zone("Europe/Berlin").unwrap().iana_name(), Some("Europe/Berlin"));
        for utc in ["", "UTC", "Local"] {
            assert_eq!(zone(utc), Ok(TimeZone::UTC));
        }
        for unknown in ["Mars/Base", "europe/berlin", "../etc/passwd", "/etc/localtime", "Europe"] {
            assert_eq!(zone(unknown), Err(UnknownZone(unknown.to_owned())), "{unknown}");
        }
    }

    /// A machine without a database of its own has the one in the binary.
    #[test]
    fn zones_are_in_the_binary_too() {
        let bundled = tz::TimeZoneDatabase::bundled();
        assert!(bundled.get("Asia/Tokyo").is_ok());
    }
}
