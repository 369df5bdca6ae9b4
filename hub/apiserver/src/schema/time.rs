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

/// Whether a time that is well-formed has its six decimal places, neither fewer nor more, as `metav1.MicroTime` is read.
///
/// # Errors
/// What Go says of one that has not.
pub(crate) fn six_places(text: &str, layout: &str) -> Result<(), String> {
    let rest = text.get(19..).unwrap_or_default();
    let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    let (left, wanted) = match (rest.starts_with('.'), digits) {
        (true, 6) => return Ok(()),
        (true, 7..) => (&rest[7..], "Z07:00"),
        _ => (rest, ".000000"),
    };
    Err(format!("parsing time {text:?} as {layout:?}: cannot parse {left:?} as {wanted:?}"))
}
