//! Amounts against what Kubernetes makes of them, and against long arithmetic by hand.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn amounts_have_one_canonical_form() {
    for (text, canonical) in [
        ("0", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+3", "3"),
        ("00012", "12"),
        ("-1.5", "-1500m"),
        ("-5m", "-5m"),
        ("12345.678", "12345678m"),
        ("0.1m", "100u"),
        ("1000k", "1M"),
        ("1E", "1E"),
        ("100E", "100E"),
        ("9223372036854775807", "9223372036854775807"),
        ("9999999999999999999", "9999999999999999999"),
        ("1e3", "1e3"),
        ("100e3", "100e3"),
        ("12e2", "1200"),
        ("100e-3", "100e-3"),
        ("1e-100", "1e-9"),
        ("0.0000000001", "1n"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("0.1Gi", "107374182400m"),
        ("0.00000000001Ki", "11n"),
        ("8Ei", "9223372036854775807"),
        ("Mi", "0"),
    ] {
        assert_eq!(read(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused_in_kubernetes_words() {
    for text in ["", "a", "1x", "1..2", "1.2.3", "0x10", " 1", "1 Gi", "1gi", "1Kib", "٣"] {
        assert_eq!(Quantity::read(text), Err(Quantity::ERROR), "{text}");
    }
    for text in ["1K", "1mi", "1mm", "1e", "1ee3"] {
        assert_eq!(Quantity::read(text), Err(Quantity::SUFFIX_ERROR), "{text}");
    }
    let said = "1mm".parse::<Quantity>().unwrap_err().to_string();
    assert_eq!(said, "unable to parse quantity's suffix: \"1mm\"");
}

#[test]
fn what_is_one_way_to_write_an_amount_stays() {
    for (text, written) in
        [("Mi", "0"), ("+1", "+1"), ("1.500", "1.500"), ("1.5", "1500m"), ("8Mi", "8Mi"), ("1024Mi", "1Gi")]
    {
        assert_eq!(Quantity::written(text).as_deref(), Ok(written), "{text}");
    }
}

#[test]
fn fractions_are_rounded_away_from_zero() {
    assert_eq!((read("100u").units(), read("100u").milli()), (1, 1));
    assert_eq!((read("-100u").units(), read("-100u").milli()), (-1, -1));
    assert_eq!(read("0.1m").rounded_to_milli().to_string(), "1m");
    assert_eq!(read("-1.1m").rounded_to_milli().to_string(), "-2m");
}

#[test]
fn what_64_bits_do_not_hold_is_the_most_they_do_or_its_last_bits() {
    let large = read("9999999999999999999");
    assert_eq!((large.units(), read("-100E").units()), (i64::MAX, i64::MIN));
    assert_eq!(large.wrapped_units(), -8_446_744_073_709_551_617);
    assert_ne!(large.wrapped_milli() % 1000, 0);
    assert_eq!((read("1500m").wrapped_units(), read("-1500m").wrapped_units()), (2, -2));
}

#[test]
fn a_zero_takes_over_how_the_other_is_written_and_sums_stay_where_they_end() {
    let gi = read("1Gi");
    assert_eq!(Quantity::ZERO.plus(gi).to_string(), "1Gi");
    assert_eq!(gi.minus(gi).plus(read("1k")).to_string(), "1k");
    let end = read("1e1000");
    assert_eq!(end.plus(end), end);
    assert_eq!(end.times(i64::MAX), end);
    assert_eq!(Quantity::ZERO.minus(end).minus(end).times(2), Quantity::ZERO.minus(end));
}

#[test]
fn json_holds_text_or_numbers() {
    let of = |json: &str| serde_json::from_str::<Quantity>(json).map(|amount| amount.to_string()).ok();
    for (json, text) in [("\"1Gi\"", "1Gi"), ("3", "3"), ("-3", "-3"), ("0.5", "500m")] {
        assert_eq!(of(json).as_deref(), Some(text), "{json}");
    }
    assert_eq!(of("18446744073709551615"), Some("18446744073709551615".to_owned()));
    assert_eq!((of("true"), of("\"x\"")), (None, None));
}

/// An amount with a binary suffix in billionths, by decimal digits of any number: doubled, cut behind the billionth, and rounded up.
fn by_hand(whole: &str, fraction: &str, power: usize) -> i128 {
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).rev().map(|b| b - b'0').collect();
    for _ in 0..10 * power {
        let mut carry = 0;
        for digit in &mut digits {
            let twice = *digit * 2 + carry;
            (*digit, carry) = (twice % 10, twice / 10);
        }
        digits.push(carry);
    }
    let places = fraction.len();
    let above = (0..9usize.saturating_sub(places)).map(|_| 0);
    let cut = places.saturating_sub(9);
    let inexact = digits.iter().take(cut).any(|digit| *digit != 0);
    let kept: Vec<u8> = above.chain(digits.iter().skip(cut).copied()).collect();
    let value =
        kept.iter().rev().fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add((*digit).into()));
    value.saturating_add(i128::from(inexact)).min(LARGEST_BINARY)
}

proptest! {
    #[test]
    fn binary_amounts_are_what_they_are_by_hand(
        whole in "[0-9]{1,12}", fraction in "[0-9]{0,29}", power in 1_usize..7,
    ) {
        let suffix = BINARY[power];
        // With more digits than are held exactly the last billionth may be one off.
        let off = read(&format!("{whole}.{fraction}{suffix}")).nanos() - by_hand(&whole, &fraction, power);
        prop_assert!(off == 0 || (fraction.len() > 19 && off.abs() == 1), "{off}");
    }

    #[test]
    fn the_canonical_form_is_as_much_and_stays(
        whole in 0_i64..10_000_000, fraction in 0_u32..1000,
        unit in prop::sample::select(vec!["", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "e-3"]),
    ) {
        let quantity = read(&format!("{whole}.{fraction:03}{unit}"));
        let again = read(&quantity.to_string());
        prop_assert_eq!(quantity, again);
        prop_assert_eq!(quantity.to_string(), again.to_string());
    }

    #[test]
    fn any_text_is_answered(text in "[-+0-9.eEKMGTPinumk]{0,60}") {
        let _ = (Quantity::read(&text), Quantity::written(&text));
    }
}
