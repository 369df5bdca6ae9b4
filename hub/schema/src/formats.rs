//! Formats of strings that kube-apiserver enforces for custom kinds; unknown ones pass.
//!
//! In: a format's name, and a text. Out: whether the text is of that format; whether the format means anything for a type. Pure.

use base64::Engine as _;

use std::sync::LazyLock;

use regex::Regex;

use super::time;

/// Every format of texts that means something, be it only to clients.
const KNOWN: [&str; 27] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether a format means something for values of this type; of no type they may be texts.
pub fn is_known(of_type: &str, format: &str) -> bool {
    match of_type {
        "" | "string" => KNOWN.contains(&format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether `text` is of the format.
pub(super) fn is_of_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => time::parse(text).is_some(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => is_duration(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => is_rgb(text),
        _ => true,
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns below are regular expressions")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static DOTTED_MAC: LazyLock<Regex> = LazyLock::new(|| pattern(r"^([0-9a-fA-F]{4}\.){2,9}[0-9a-fA-F]{4}$"));
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    const UNIT: &str = "(ns|nanoseconds?|us|\u{b5}s|microseconds?|ms|milliseconds?|milli|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|wk|nano|micro|hr)";
    pattern(&format!(r"^([+-]?[0-9]*(\.[0-9]+)?[\t\n\f\r ]*{UNIT}[\t\n\f\r ]*)+$"))
});

/// `1h30m`, or words: `2 weeks`.
fn is_duration(text: &str) -> bool {
    text == "0" || DURATION.is_match(text) && text.bytes().any(|b| b.is_ascii_digit())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    let pairs = matches!(parts.len(), 6 | 8 | 20)
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
    pairs || DOTTED_MAC.is_match(text)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return text.starts_with('/') };
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    named && !rest.chars().any(|c| c.is_control() || c == ' ')
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.ends_with('>')) {
        (Some(open), true) => &text[open + 1..text.len() - 1],
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom =
        |c: char| !c.is_control() && !matches!(c, ' ' | '(' | ')' | '<' | '>' | ',' | ';' | ':' | '"' | '@');
    !local.is_empty()
        && !domain.is_empty()
        && local.chars().all(atom)
        && domain.chars().all(atom)
        && !domain.starts_with('.')
        && !domain.ends_with('.')
}

fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let label = |label: &&str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.len() <= 255
        && labels.iter().all(label)
        && labels.last().is_some_and(|last| last.chars().count() >= 2)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let plain: String = text.chars().filter(|c| *c != '-').collect();
    let shaped = text.len() == 32 || uuid::Uuid::try_parse(text).is_ok();
    let hex = plain.len() == 32 && plain.bytes().all(|b| b.is_ascii_hexdigit());
    let right = |version: char| {
        plain.chars().nth(12) == Some(version)
            && (version == '3'
                || plain.chars().nth(16).is_some_and(|c| matches!(c, '8' | '9' | 'a' | 'b' | 'A' | 'B')))
    };
    shaped && hex && version.is_none_or(right)
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let [first @ .., last] = plain.as_bytes() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = first.iter().zip(1..).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let all = digits(&plain);
    let sum: u32 = all.iter().enumerate().map(|(at, digit)| digit * if at % 2 == 0 { 1 } else { 3 }).sum();
    plain.len() == 13 && all.len() == 13 && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let all = digits(text);
    let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ' '));
    let luhn = |(at, digit): (usize, &u32)| {
        let doubled = digit * if at % 2 == 1 { 2 } else { 1 };
        if doubled > 9 { doubled - 9 } else { doubled }
    };
    let sum: u32 = all.iter().rev().enumerate().map(luhn).sum();
    plain && (13..=19).contains(&all.len()) && sum.is_multiple_of(10)
}

fn is_rgb(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_kube_apiserver_takes() {
        for (format, good, bad) in [
            ("uri", &["http://a", "urn:x:y"][..], &["x y", "abc"][..]),
            ("email", &["a@b", "A <a@b.c>"], &["x", "@b", "a@"]),
            ("hostname", &["abc", "a.bc"], &["-a", "a.b", ""]),
            ("ipv6", &["::1"], &["1.2.3.4"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["1.2.3.4", "10.0.0.0/33", "10.0.0.0/+8"]),
            ("mac", &["01:02:03:04:05:06", "0102.0304.0506"], &["x", "01:02"]),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            ("duration", &["1h", "1h30m", "1.5h", "1 day", "2 weeks", "0"], &["x", "zz", "1", "h"]),
            ("hexcolor", &["#fff", "a0b0c0"], &["x", "#ffff"]),
            ("rgbcolor", &["rgb(1,2,3)"], &["x", "rgb(1,2,256)"]),
            ("isbn", &["0-306-40615-2", "978-0-306-40615-7"], &["x", "0-306-40615-3", "12345678\u{e9}"]),
            ("creditcard", &["4111 1111 1111 1111"], &["x", "4111 1111 1111 1112"]),
            ("ssn", &["111-22-3333"], &["x"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]),
            ("date", &["2020-01-01"], &["2020-13-01", "20200101"]),
            ("nobody-knows", &["anything"], &[]),
        ] {
            good.iter().for_each(|text| assert!(is_of_format(format, text), "{format} takes {text}"));
            bad.iter().for_each(|text| assert!(!is_of_format(format, text), "{format} refuses {text}"));
        }
    }
}
