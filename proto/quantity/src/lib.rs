//! Kubernetes' quantities (`resource.Quantity`): `100m`, `1.5Gi`, `1e3`. The one arithmetic that hub and agent have of them.
//!
//! In: text or numbers. Out: amounts exact to one billionth, compared, added, and written in the canonical way: the largest
//! suffix without a fraction, of the family that the amount was written in.
//!
//! What is finer than a billionth is rounded away from zero. What is written with a power of two is capped at 2^63-1, as
//! Kubernetes does; other amounts go as far as 128 bits hold them, and stay there.

mod read;
mod serde_form;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Billionths in one unit.
const NANO: i128 = 1_000_000_000;
/// The largest amount that is written with a power of two, in billionths.
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANO;
/// The largest amount of all, in billionths: sums of two of them fit.
const LARGEST: i128 = i128::MAX / 1000;
/// Powers of 1024, from none.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Powers of ten, in steps of a thousand, from the billionth.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The family of suffixes that an amount was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `k`, `M`, `m`, …
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, …
    DecimalExponent,
}

/// An amount of a resource. Equal are those that are as much, however they are written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {text:?}")]
pub struct ParseQuantityError {
    /// What Kubernetes says of it: [`Quantity::ERROR`] or [`Quantity::SUFFIX_ERROR`].
    pub why: &'static str,
    /// The text.
    pub text: String,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// What Kubernetes says of text that is no quantity.
    pub const ERROR: &'static str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

    /// What Kubernetes says of a suffix that is none.
    pub const SUFFIX_ERROR: &'static str = "unable to parse quantity's suffix";

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

    /// An amount in billionths, written as `other` is.
    #[must_use]
    pub fn of_nanos(nanos: i128, other: Self) -> Self {
        Self { nanos: nanos.clamp(-LARGEST, LARGEST), format: other.format }
    }

    /// The amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whole units, a fraction rounded away from zero; what 64 bits do not hold is the most that they do.
    pub fn units(self) -> i64 {
        clamp(away_from_zero(self.nanos, NANO))
    }

    /// Thousandths, a finer fraction rounded away from zero; what 64 bits do not hold is the most that they do.
    pub fn milli(self) -> i64 {
        clamp(away_from_zero(self.nanos, NANO / 1000))
    }

    /// Whole units as Kubernetes' own 64 bits show them: of what is larger, the last bits.
    pub fn wrapped_units(self) -> i64 {
        away_from_zero(self.nanos, NANO) as i64
    }

    /// Thousandths as Kubernetes' own 64 bits show them: of what is larger, the last bits.
    pub fn wrapped_milli(self) -> i64 {
        away_from_zero(self.nanos, NANO / 1000) as i64
    }

    /// The amount as a number of units, as exact as a float is.
    #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
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
        Self::of_nanos(self.nanos + other.nanos, if self.is_zero() { other } else { self })
    }

    /// The difference; a zero takes over how the other is written.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self::of_nanos(self.nanos - other.nanos, if self.is_zero() { other } else { self })
    }

    /// The amount taken `times` times.
    #[must_use]
    pub fn times(self, times: i64) -> Self {
        Self::of_nanos(self.nanos.saturating_mul(i128::from(times)), self)
    }

    /// Rounded away from zero to thousandths.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        const STEP: i128 = NANO / 1000;
        Self::of_nanos(away_from_zero(self.nanos, STEP) * STEP, self)
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn away_from_zero(value: i128, by: i128) -> i128 {
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

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|why| ParseQuantityError { why, text: text.to_owned() })
    }
}

/// The one way to write the amount.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.nanos % NANO == 0 {
            let (value, power) = reduced(self.nanos / NANO, 1024, BINARY.len());
            return write!(f, "{value}{}", BINARY[power]);
        }
        let (value, at) = reduced(self.nanos, 1000, DECIMAL.len());
        match (self.format, DECIMAL[at]) {
            (Format::DecimalExponent, (_, 0)) => write!(f, "{value}"),
            (Format::DecimalExponent, (_, exponent)) => write!(f, "{value}e{exponent}"),
            (_, (suffix, _)) => write!(f, "{value}{suffix}"),
        }
    }
}

/// `value` divided by `by` for as long as nothing is left over, fewer than `most` times; and how often that was. Not for zero.
fn reduced(mut value: i128, by: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while value % by == 0 && times + 1 < most {
        value /= by;
        times += 1;
    }
    (value, times)
}
