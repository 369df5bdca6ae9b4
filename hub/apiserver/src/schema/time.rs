//! Timestamps as Kubernetes writes them.

use jiff::Timestamp;

/// Reads RFC 3339.
pub fn parse(text: &str) -> Option<Timestamp> {
    // jiff also takes a space for the T, and more zones than RFC 3339 knows.
    if text.len() < 20 || text.as_bytes()[10] != b'T' || text.contains('[') {
        return None;
    }
    text.parse().ok()
}

/// `metav1.Time`: whole seconds in UTC.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `metav1.MicroTime`: microseconds in UTC.
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// What Go says of text that is no time; `layout` is Go's reference time.
pub(crate) fn error(text: &str, layout: &str) -> String {
    format!("parsing time {:?} as {layout:?}: cannot parse {text:?} as \"2006\"", text)
}
