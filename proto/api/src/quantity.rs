//! Kubernetes quantities: `100m`, `1.5Gi`, `1e3`.
//!
//! In: text or numbers. Out: exact arithmetic down to one billionth, and the canonical text: the largest suffix
//! without a fraction, of the family that the quantity was written in. What is finer than a billionth is rounded
//! away from zero, what is larger than 2^63-1 is capped, as `resource.Quantity` does.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Billionths in one unit.
const NANO: i128 = 1_000_000_000;
/// The largest quantity, in billionths.
const MAX: i128 = i64::MAX as i128 * NANO;

/// The family of suffixes that a quantity was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// An amount of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': {0:?} does not"
)]
pub struct ParseQuantityError(pub String);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A whole number of units.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANO, format: Format::DecimalSi }
    }

    /// A number of thousandths.
    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * (NANO / 1000), format: Format::DecimalSi }
    }

    /// A whole number of units, shown with binary suffixes.
    pub const fn from_binary_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANO, format: Format::BinarySi }
    }

    /// Whole units, a fraction rounded away from zero.
    pub fn units(self) -> i64 {
        clamp(divide_away_from_zero(self.nanos, NANO))
    }

    /// Thousandths, a finer fraction rounded away from zero.
    pub fn milli(self) -> i64 {
        clamp(divide_away_from_zero(self.nanos, NANO / 1000))
    }

    /// Whether the amount is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below nothing.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The sum; a zero takes over how the other is written.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: (self.nanos + other.nanos).clamp(-MAX, MAX), format }
    }

    /// The difference; a zero takes over how the other is written.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: (self.nanos - other.nanos).clamp(-MAX, MAX), format }
    }

    /// The amount taken `times` times.
    #[must_use]
    pub fn times(self, times: i64) -> Self {
        let nanos = self.nanos.saturating_mul(i128::from(times)).clamp(-MAX, MAX);
        Self { nanos, format: self.format }
    }

    /// Rounded up to the next multiple of `step` billionths of a unit (1 for units, 1000 per thousand…).
    fn rounded_to(self, step: i128) -> Self {
        Self { nanos: divide_away_from_zero(self.nanos, step) * step, format: self.format }
    }

    /// Rounded up to thousandths.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        self.rounded_to(NANO / 1000)
    }

    /// Rounded up to whole units.
    #[must_use]
    pub fn rounded_to_units(self) -> Self {
        self.rounded_to(NANO)
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn divide_away_from_zero(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

/// What a suffix multiplies by: a power of two or of ten.
enum Scale {
    Two(u32),
    Ten(i32),
}

fn suffix(text: &str) -> Option<(Scale, Format)> {
    let binary = |power| Some((Scale::Two(power), Format::BinarySi));
    let decimal = |power| Some((Scale::Ten(power), Format::DecimalSi));
    match text {
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            let power = exponent.parse::<i32>().ok()?;
            Some((Scale::Ten(power), Format::DecimalExponent))
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseQuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (scale, format) = suffix(unit)?;
    let digits: String = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    let magnitude = magnitude(&digits, fraction.len(), &scale);
    Some(Quantity { nanos: if negative { -magnitude } else { magnitude }, format })
}

/// `digits` with `decimals` places after the point, scaled, in billionths: rounded up, and capped.
fn magnitude(digits: &str, decimals: usize, scale: &Scale) -> i128 {
    if digits.is_empty() {
        return 0;
    }
    let decimals = i64::try_from(decimals).unwrap_or(i64::MAX);
    let (power, factor) = match scale {
        Scale::Ten(power) => (i64::from(*power) - decimals + 9, 1_i128),
        Scale::Two(power) => (9 - decimals, 1_i128 << power),
    };
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    if length.saturating_add(power) > 29 {
        return MAX; // Above 10^28 billionths, whatever the digits are.
    }
    if length.saturating_add(power) < -20 {
        return 1; // Something, but below a billionth even when multiplied by 2^60.
    }
    // 38 digits fit; digits beyond are finer than any rounding that matters, except that they are not nothing.
    let (head, tail) = digits.split_at(digits.len().min(28));
    let sticky = tail.bytes().any(|b| b != b'0');
    let shift = power + i64::try_from(tail.len()).unwrap_or(0);
    let mut value = head.parse::<i128>().unwrap_or(0);
    if shift >= 0 {
        for _ in 0..shift {
            value = value.saturating_mul(10);
        }
        return value.saturating_mul(factor).min(MAX);
    }
    let value = value.saturating_mul(factor);
    let divisor = u32::try_from(-shift).ok().and_then(|s| 10_i128.checked_pow(s));
    let rounded = match divisor {
        Some(divisor) => value / divisor + i128::from(value % divisor != 0 || sticky),
        None => 1,
    };
    rounded.min(MAX)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANO;
        match self.format {
            Format::BinarySi if !small && self.nanos % NANO == 0 => write_binary(f, self.nanos / NANO),
            Format::BinarySi | Format::DecimalSi => write_decimal(f, self.nanos, false),
            Format::DecimalExponent => write_decimal(f, self.nanos, true),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut value: i128) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut index = 0;
    while value % 1024 == 0 && index + 1 < SUFFIXES.len() {
        value /= 1024;
        index += 1;
    }
    write!(f, "{value}{}", SUFFIXES[index])
}

fn write_decimal(f: &mut fmt::Formatter<'_>, mut value: i128, exponent: bool) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let mut index = 0;
    while value % 1000 == 0 && index + 1 < SUFFIXES.len() {
        value /= 1000;
        index += 1;
    }
    if exponent && index != 3 {
        let power = i32::try_from(index).unwrap_or(0) * 3 - 9;
        return write!(f, "{value}e{power}");
    }
    write!(f, "{value}{}", SUFFIXES[index])
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: text or a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(value))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(i64::try_from(value).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
                value.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().unwrap().to_string()
    }

    #[test]
    fn canonical_forms() {
        let table = [
            ("0", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("0.1m", "100u"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("100e-3", "100e-3"),
            ("1E", "1E"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1023", "1023"),
            ("0.5Mi", "512Ki"),
            ("-1.5", "-1500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("+3", "3"),
            ("0.0000000001", "1n"),
            ("100E", "9223372036854775807"),
            ("9223372036854775807", "9223372036854775807"),
            ("1e100", "9223372036854775807"),
            ("1e-100", "1e-9"),
            ("0.00000000001Ki", "11n"),
            ("00012", "12"),
        ];
        for (text, wanted) in table {
            assert_eq!(canonical(text), wanted, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["", "-", ".", "1.2.3", "Ki", "1 Gi", "1gi", "1Kib", "abc", "1e", "e3", "1mm", "٣"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn rounds_away_from_zero() {
        let q: Quantity = "100u".parse().unwrap();
        assert_eq!((q.units(), q.milli()), (1, 1));
        let q: Quantity = "-100u".parse().unwrap();
        assert_eq!((q.units(), q.milli()), (-1, -1));
    }

    #[test]
    fn a_zero_takes_over_the_format() {
        let gi: Quantity = "1Gi".parse().unwrap();
        assert_eq!(Quantity::ZERO.plus(gi).to_string(), "1Gi");
        assert_eq!(gi.minus(gi).plus("1k".parse().unwrap()).to_string(), "1k");
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable_and_equal(whole in 0_i64..10_000_000, fraction in 0_u32..1000,
                                              unit in prop::sample::select(vec!["", "m", "k", "M", "Ki", "Mi", "Gi"])) {
            let text = format!("{whole}.{fraction:03}{unit}");
            let quantity: Quantity = text.parse().unwrap();
            let again: Quantity = quantity.to_string().parse().unwrap();
            prop_assert_eq!(quantity, again);
            prop_assert_eq!(quantity.to_string(), again.to_string());
        }

        #[test]
        fn any_text_is_answered(text in "[-+0-9.eEKMGTPinumk]{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
