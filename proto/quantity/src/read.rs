//! Reads quantities.
//!
//! In: text of any length and kind. Out: the amount, or what Kubernetes says of it; and the text in the form in which Kubernetes
//! writes it again once it was read. The cost is that of one walk over the text.

use serde_json::Value;

use crate::{BINARY, DECIMAL, Format, LARGEST, LARGEST_BINARY, Quantity};

/// So many digits behind the billionth's place take part; the others only say that there is something. With them and the
/// largest power of two, 128 bits suffice.
const FINEST: i32 = 20;

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// [`Quantity::ERROR`] or [`Quantity::SUFFIX_ERROR`] of text that is none.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(Self::ERROR);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction, suffix) = parts(rest);
        if !is_suffix(suffix) {
            return Err(Self::ERROR);
        }
        let scale = scale(suffix).ok_or(Self::SUFFIX_ERROR)?;
        let nanos = amount(whole, fraction, &scale);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format: scale.format })
    }

    /// Reads a quantity from text or a number; `None` where it is none.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::read(text).ok(),
            Value::Number(number) => Self::read(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// The amount as Kubernetes writes it once it was read: as it came where that is one way to write it, else the canonical way.
    ///
    /// # Errors
    /// What Kubernetes says of text that is no quantity.
    pub fn written(text: &str) -> Result<String, &'static str> {
        let quantity = Self::read(text)?;
        let (whole, fraction, suffix) = parts(text.trim_start_matches(['-', '+']));
        let whole = whole.trim_start_matches('0');
        let digits = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
        let Some(scale) = scale(suffix).filter(|_| digits.len() <= 18 && !quantity.is_zero()) else {
            return Ok(quantity.to_string());
        };
        let keeps = if scale.format == Format::BinarySi {
            fraction.is_empty() && digits.len() <= 8 && digits.parse::<u64>().is_ok_and(|n| n & 7 != 0)
        } else {
            let power = scale.exponent - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
            power >= -9 && power % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        };
        Ok(if keeps { text.to_owned() } else { quantity.to_string() })
    }
}

/// What a suffix says: digits are to be multiplied by `multiplier` and by ten to the power of `exponent`.
struct Scale {
    multiplier: i128,
    exponent: i32,
    format: Format,
}

/// Digits, those behind the point, and the rest.
fn parts(text: &str) -> (&str, &str, &str) {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(digits(text));
    let Some(rest) = rest.strip_prefix('.') else { return (whole, "", rest) };
    let (fraction, suffix) = rest.split_at(digits(rest));
    (whole, fraction, suffix)
}

/// Whether a text is made as suffixes are: letters of them, then an exponent's digits.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

fn scale(suffix: &str) -> Option<Scale> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some(Scale { multiplier: 1, exponent: *exponent, format: Format::DecimalSi });
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return Some(Scale { multiplier: 1 << (10 * power), exponent: 0, format: Format::BinarySi });
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let bounded = (-1000..=1000).contains(&exponent);
    bounded.then_some(Scale { multiplier: 1, exponent, format: Format::DecimalExponent })
}

/// The amount in billionths, rounded up and capped.
fn amount(whole: &str, fraction: &str, scale: &Scale) -> i128 {
    let largest = if scale.format == Format::BinarySi { LARGEST_BINARY } else { LARGEST };
    // The digits as one integer, whose last digit stands `shift` places before the billionth's.
    let mut shift = scale.exponent + 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX / 2);
    let (mut value, mut inexact) = (0_i128, false);
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')) {
        if value < 1 << 100 {
            value = value * 10 + digit;
        } else {
            shift += 1;
            inexact |= digit != 0;
        }
    }
    while shift > 0 && value < largest && value != 0 {
        value = value.saturating_mul(10);
        shift -= 1;
    }
    while shift < -FINEST && value != 0 {
        inexact |= value % 10 != 0;
        value /= 10;
        shift += 1;
    }
    let divisor = 10_i128.pow(shift.clamp(-FINEST, 0).unsigned_abs());
    let rest = value % divisor * scale.multiplier;
    let nanos = (value / divisor).saturating_mul(scale.multiplier).saturating_add(rest / divisor);
    nanos.saturating_add(i128::from(inexact || rest % divisor != 0)).min(largest)
}
