//! `resource.Quantity`: amounts with suffixes, compared and written in canonical format.
//!
//! Held as nano-units in 128 bits, which spans all that Kubernetes allows (finer amounts are rounded up, larger ones
//! in powers of two capped at 2^63-1, as there).

use serde_json::Value;

/// Which family of suffixes an amount was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `k`, `M`, `m`, …
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, …
    DecimalExponent,
}

/// An amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * NANO;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Quantity {
    /// What Kubernetes says of text that is no quantity.
    pub const ERROR: &'static str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

    /// What Kubernetes says of a unit that is none.
    pub const SUFFIX_ERROR: &'static str = "unable to parse quantity's suffix";

    /// Reads a quantity; `None` where the text is none.
    pub fn parse(text: &str) -> Option<Quantity> {
        Quantity::read(text).ok()
    }

    /// Reads a quantity.
    ///
    /// # Errors
    /// What Kubernetes says of text that is none.
    pub fn read(text: &str) -> Result<Quantity, &'static str> {
        if text.is_empty() {
            return Err(Quantity::ERROR);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction, suffix) = parts(rest);
        if !is_suffix(suffix) {
            return Err(Quantity::ERROR);
        }
        let (numerator, exponent, format) = scale(suffix).ok_or(Quantity::SUFFIX_ERROR)?;
        let nanos = amount(whole, fraction, numerator, exponent, format);
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// The amount as it is written once it was read: as it came where that was one way to write it, else the one way.
    ///
    /// # Errors
    /// What Kubernetes says of text that is no quantity.
    pub fn written(text: &str) -> Result<String, &'static str> {
        let quantity = Quantity::read(text)?;
        let (whole, fraction, suffix) = parts(text.trim_start_matches(['-', '+']));
        let whole = whole.trim_start_matches('0');
        let digits = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
        let Some((_, exponent, format)) = scale(suffix).filter(|_| digits.len() <= 18 && quantity.nanos != 0)
        else {
            return Ok(quantity.canonical());
        };
        let keeps = if format == Format::BinarySi {
            fraction.is_empty() && digits.len() <= 8 && digits.parse::<u64>().is_ok_and(|n| n & 7 != 0)
        } else {
            let scale = exponent - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
            scale >= -9 && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        };
        Ok(if keeps { text.to_owned() } else { quantity.canonical() })
    }

    /// The same, rounded up to whole thousandths.
    #[must_use]
    pub fn in_millis(self) -> Quantity {
        let thousandths = div_up(self.nanos.abs(), NANO / 1000) * (NANO / 1000);
        Quantity { nanos: if self.nanos < 0 { -thousandths } else { thousandths }, ..self }
    }

    /// Reads a quantity from text or a number.
    pub fn from_value(value: &Value) -> Option<Quantity> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    /// An amount in units of 10⁻⁹, written as `other` is.
    pub fn of_nanos(nanos: i128, other: Quantity) -> Quantity {
        Quantity { nanos, format: other.format }
    }

    /// The amount in units of 10⁻⁹.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The amount in whole units, rounded up.
    pub fn units(self) -> i128 {
        div_up(self.nanos, NANO)
    }

    /// The amount in whole units as 64 bits hold it: what is larger comes out as its last bits.
    pub fn value(self) -> i64 {
        away_from_zero(self.nanos, NANO) as i64
    }

    /// The amount in thousandths as 64 bits hold it.
    pub fn milli_value(self) -> i64 {
        away_from_zero(self.nanos, NANO / 1000) as i64
    }

    /// The amount in thousandths, rounded up.
    pub fn millis(self) -> i128 {
        div_up(self.nanos, NANO / 1000)
    }

    /// Whether no fraction is lost in whole units.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The one way to write the amount: no fraction, the largest suffix that keeps it exact.
    pub fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let small = self.nanos.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.is_whole() {
            let (mut value, mut power) = (self.nanos / NANO, 0);
            while value % 1024 == 0 && power < 6 {
                value /= 1024;
                power += 1;
            }
            return format!("{value}{}", BINARY[power]);
        }
        let (mut value, mut at) = (self.nanos, 0);
        while value % 1000 == 0 && at + 1 < DECIMAL.len() {
            value /= 1000;
            at += 1;
        }
        match (self.format, DECIMAL[at]) {
            (Format::DecimalExponent, (_, 0)) => value.to_string(),
            (Format::DecimalExponent, (_, exponent)) => format!("{value}e{exponent}"),
            (_, (suffix, _)) => format!("{value}{suffix}"),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

fn away_from_zero(value: i128, by: i128) -> i128 {
    value.signum() * div_up(value.abs(), by)
}

fn div_up(value: i128, by: i128) -> i128 {
    let floor = value.div_euclid(by);
    if value.rem_euclid(by) == 0 { floor } else { floor + 1 }
}

/// Digits, those behind the point, and the rest.
fn parts(text: &str) -> (&str, &str, &str) {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(digits(text));
    let Some(rest) = rest.strip_prefix('.') else { return (whole, "", rest) };
    let (fraction, suffix) = rest.split_at(digits(rest));
    (whole, fraction, suffix)
}

/// Whether a text is made as units are: letters of them, then an exponent's digits.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

/// A suffix as (multiplier, decimal exponent, family).
fn scale(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *exponent, Format::DecimalSi));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return Some((1i128 << (10 * power), 0, Format::BinarySi));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = digits.parse().ok()?;
    (-1000..=1000).contains(&exponent).then_some((1, exponent, Format::DecimalExponent))
}

/// The amount in nanos, rounded up to a nano and capped.
fn amount(whole: &str, fraction: &str, multiplier: i128, exponent: i32, format: Format) -> i128 {
    // Only amounts of powers of two are capped; others are as far as can be counted here.
    let largest = if format == Format::BinarySi { LARGEST } else { i128::MAX / 1000 };
    // Digits as one integer with a decimal point `shift` places from the nano's end.
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    let mut shift = exponent + 9 - fraction.len() as i32;
    let (mut value, mut inexact) = (0i128, false);
    for digit in digits {
        match value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit))) {
            Some(next) if next < 1 << 100 => value = next,
            _ => {
                shift += 1;
                inexact |= digit != 0;
            }
        }
    }
    // With a binary suffix the multiplication comes first, so that 0.5Gi stays exact.
    let mut value = value.saturating_mul(multiplier);
    while shift > 0 && value < largest && value != 0 {
        value = value.saturating_mul(10);
        shift -= 1;
    }
    while shift < 0 && value != 0 {
        inexact |= value % 10 != 0;
        value /= 10;
        shift += 1;
    }
    (value + i128::from(inexact)).min(largest)
}
