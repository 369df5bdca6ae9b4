//! Timestamps as Kubernetes writes them.
//!
//! In: text, or a moment. Out: the moment, or `None`; text in UTC; or Go's sentence on why the text is no time. Reads no clock.

use jiff::Timestamp;
pub use karmada_field::time::seconds;

/// Reads RFC 3339.
pub fn parse(text: &str) -> Option<Timestamp> {
    // jiff also takes a space for the T, and more zones than RFC 3339 knows.
    if text.len() < 20 || text.as_bytes()[10] != b'T' || text.contains('[') {
        return None;
    }
    text.parse().ok()
}

/// `metav1.MicroTime`: microseconds in UTC.
pub fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// What Go says of text that is no time; `layout` is Go's reference time, whose parts are read one after the other.
pub(crate) fn problem(text: &str, layout: &str) -> Option<String> {
    let mut left = text;
    for (part, limits, unit) in PARTS {
        let Some((number, rest)) = number(left, part) else { return Some(unread(text, layout, left, part)) };
        if !limits.contains(&number) {
            return Some(format!("parsing time {text:?}: {unit} out of range"));
        }
        left = rest;
        let next = match part {
            "2006" | "01" => "-",
            "02" => "T",
            "15" | "04" => ":",
            _ => continue,
        };
        let Some(rest) = left.strip_prefix(next) else { return Some(unread(text, layout, left, next)) };
        left = rest;
    }
    left = match fraction(left, layout.contains(".000000")) {
        Some(rest) => rest,
        None => return Some(unread(text, layout, left, ".000000")),
    };
    match zone(left) {
        None => Some(unread(text, layout, left, "Z07:00")),
        Some("") => None,
        Some(extra) => Some(format!("parsing time {text:?}: extra text: {extra:?}")),
    }
}

/// The numbers of a time, as Go's reference time names them.
const PARTS: [(&str, std::ops::RangeInclusive<u32>, &str); 6] = [
    ("2006", 0..=9999, "year"),
    ("01", 1..=12, "month"),
    ("02", 0..=99, "day"),
    ("15", 0..=23, "hour"),
    ("04", 0..=59, "minute"),
    ("05", 0..=59, "second"),
];

fn unread(text: &str, layout: &str, left: &str, part: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {left:?} as {part:?}")
}

/// A number of the part's length, and what follows it. An hour may have one digit.
fn number<'t>(text: &'t str, part: &str) -> Option<(u32, &'t str)> {
    let digits = text.bytes().take(part.len()).take_while(u8::is_ascii_digit).count();
    let enough = digits == part.len() || (part == "15" && digits == 1);
    if !enough {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// The text behind the fraction of a second that `text` may begin with; `six`: it must, with six places or more.
fn fraction(text: &str, six: bool) -> Option<&str> {
    let digits = text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    match (text.starts_with(['.', ',']), six) {
        (true, true) if digits >= 6 => Some(&text[7..]),
        (_, true) => None,
        (true, false) if digits > 0 => Some(&text[1 + digits..]),
        (_, false) => Some(text),
    }
}

/// The text behind the zone that `text` begins with; `None` where it begins with none.
fn zone(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some(rest);
    }
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes.get(from..from + 2).is_some_and(|two| two.iter().all(u8::is_ascii_digit));
    let fits =
        matches!(bytes.first(), Some(b'+' | b'-')) && digits(1) && bytes.get(3) == Some(&b':') && digits(4);
    fits.then(|| &text[6..])
}
