//! Addresses and their ranges, as older fields take them and as new fields want them.
//!
//! What stands in older fields may have leading zeros (`010.0.0.1` is `10.0.0.1`), and stays; what is written anew has none. Newer
//! fields take the canonical form alone.
//!
//! In: text, with its path for messages, and what stands in the field already. Out: the address or range; whether one lies in the other;
//! field errors and warnings in kube-apiserver's words. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::FieldError;
use crate::fields::Errors;
use crate::path::Path;

/// What is said of text that is no address.
pub const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// An address, leading zeros and all.
pub fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let [a, b, c, d] = parts.as_slice() else { return None };
    let part = |text: &&str| -> Option<u8> {
        let plain = !text.is_empty() && text.len() < 8 && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok().and_then(|n| u8::try_from(n).ok())).flatten()
    };
    Some(Ipv4Addr::new(part(a)?, part(b)?, part(c)?, part(d)?).into())
}

/// A range: its address as written, and the length of its prefix.
pub fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address = parse(address)?;
    let digits = !length.is_empty() && length.len() < 8 && length.bytes().all(|b| b.is_ascii_digit());
    let length = digits.then(|| length.parse::<u32>().ok()).flatten()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// The first address of a range.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            Ipv4Addr::from(u32::from(v4) & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            Ipv6Addr::from(u128::from(v6) & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into()
        }
    }
}

/// Whether an address lies in a range.
pub fn contains(range: (IpAddr, u32), address: IpAddr) -> bool {
    range.0.is_ipv4() == address.is_ipv4() && masked(range.0, range.1) == masked(address, range.1)
}

/// An address in an older field, whose form need not be the canonical one. `known`: those that stand there already.
pub fn usable(text: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) -> bool {
    let problem = if known.contains(&text) { None } else { unusable(text) };
    let good = problem.is_none();
    errors.extend(problem.map(|detail| FieldError::invalid(path, text, detail)));
    good
}

/// A range in an older field.
pub fn usable_range(text: &str, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let problem = if known.contains(&text) { None } else { unusable_range(text) };
    errors.extend(problem.map(|detail| FieldError::invalid(path, text, detail)));
}

fn unusable(text: &str) -> Option<&'static str> {
    let Some(address) = parse(text) else { return Some(ADDRESS) };
    if text.parse::<IpAddr>().is_err() {
        return Some("must not have leading 0s");
    }
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    mapped.then_some("must not be an IPv4-mapped IPv6 address")
}

fn unusable_range(text: &str) -> Option<&'static str> {
    let Some((address, length)) = parse_range(text) else { return Some(RANGE) };
    let (written, digits) = text.split_once('/').unwrap_or((text, ""));
    if written.parse::<IpAddr>().is_err() || (digits.len() > 1 && digits.starts_with('0')) {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    (masked(address, length) != address).then_some("must not have bits set beyond the prefix length")
}

/// What is wrong with an address in a newer field.
pub fn strict(text: &str) -> Vec<String> {
    if let Some(problem) = unusable(text) {
        return vec![problem.to_owned()];
    }
    let canonical = parse(text).map_or_else(String::new, |address| address.to_string());
    if canonical == text { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

/// What is wrong with a range in a newer field.
pub fn strict_range(text: &str) -> Vec<String> {
    if let Some(problem) = unusable_range(text) {
        return vec![problem.to_owned()];
    }
    let canonical =
        parse_range(text).map_or_else(String::new, |(address, length)| format!("{address}/{length}"));
    if canonical == text { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

/// What an address in an older field is warned of.
pub fn warning(path: &str, text: &str) -> Option<String> {
    let address = parse(text)?;
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if text.parse::<IpAddr>().is_err() || mapped {
        let better = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
            v4 => v4,
        };
        return Some(format!(
            "{path}: non-standard IP address {text:?} will be considered invalid in a future Kubernetes release: use \
             \"{better}\""
        ));
    }
    (address.is_ipv6() && address.to_string() != text).then(|| {
        format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")")
    })
}

/// What a range in an older field is warned of.
pub fn range_warnings(path: &str, text: &str) -> Vec<String> {
    let Some((address, length)) = parse_range(text) else { return Vec::new() };
    let first = masked(address, length);
    let mut out = Vec::new();
    if first != address {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        out.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be \"{first}/{length}\" or \
             \"{address}/{whole}\"?)"
        ));
    }
    let (written, digits) = text.split_once('/').unwrap_or((text, ""));
    if written.parse::<IpAddr>().is_err() || (digits.len() > 1 && digits.starts_with('0')) {
        out.push(format!(
            "{path}: non-standard CIDR value {text:?} will be considered invalid in a future Kubernetes release: use \
             \"{first}/{length}\""
        ));
    }
    if out.is_empty() && address.is_ipv6() && format!("{address}/{length}") != text {
        out.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{address}/{length}\")"
        ));
    }
    out
}

/// An address at which something can be reached from elsewhere: not the unspecified one, not one of the machine itself or of its link.
pub fn reachable(text: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(address) = parse(text) else {
        errors.push(FieldError::invalid(path, text, "must be a valid IP address"));
        return;
    };
    let (local, multicast) = match address {
        IpAddr::V4(v4) => {
            (v4.is_link_local(), v4.octets()[0] == 224 && v4.octets()[1] == 0 && v4.octets()[2] == 0)
        }
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, text, detail));
    if address.is_unspecified() {
        refuse(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_are_read_and_told() {
        assert_eq!(parse("010.0.0.01"), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(parse("10.0.0"), None);
        assert_eq!(parse("10.0.0.256"), None);
        assert_eq!(strict("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(strict("2001:0db8::1"), ["must be in canonical form (\"2001:db8::1\")"]);
        assert!(strict("10.0.0.1").is_empty() && strict_range("10.0.0.0/8").is_empty());
        assert_eq!(strict_range("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert!(warning("p", "010.0.0.1").is_some_and(|w| w.ends_with("use \"10.0.0.1\"")));
    }

    #[test]
    fn a_range_holds_what_shares_its_prefix() {
        let range = parse_range("10.1.0.0/16").unwrap();
        assert!(contains(range, parse("10.1.2.3").unwrap()));
        assert!(!contains(range, parse("10.2.2.3").unwrap()));
        assert!(contains(parse_range("0.0.0.0/0").unwrap(), parse("9.9.9.9").unwrap()));
        assert_eq!(parse_range("10.0.0.0/33"), None);
    }
}
