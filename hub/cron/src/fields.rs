//! The five fields of a schedule: which minutes, hours, days, months and days of the week it means.
//!
//! In: five texts. Out: sets, and from them the next moment of a calendar that they mean; or what is wrong, in the words of kube-apiserver.

use jiff::civil::{Date, DateTime, Time};

use crate::unreadable::Unreadable;

/// Which values a field takes; names stand for the values from `low` on.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const fn numbers(low: u32, high: u32) -> Bounds {
    Bounds { low, high, names: &[] }
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Bounds; 5] = [
    numbers(0, 59),
    numbers(0, 23),
    numbers(1, 31),
    Bounds { low: 1, high: 12, names: MONTHS },
    Bounds { low: 0, high: 6, names: WEEKDAYS },
];

/// The values of one field, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// Whether it is `*` (or `?`): all values, and none of them on purpose.
    any: bool,
}

impl Set {
    fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }

    /// Its first value from `from` on.
    fn from(self, from: u32) -> Option<u32> {
        let left = self.bits.checked_shr(from).unwrap_or(0);
        (left != 0).then(|| from + left.trailing_zeros())
    }
}

/// The values of the five fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
}

impl Fields {
    /// Reads the fields, which spaces divide.
    pub(crate) fn parse(text: &str) -> Result<Fields, Unreadable> {
        let texts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = texts[..] else {
            let words = format!("expected exactly 5 fields, found {}: [{}]", texts.len(), texts.join(" "));
            return Err(Unreadable(words));
        };
        Ok(Fields {
            minutes: set(minutes, &FIELDS[0])?,
            hours: set(hours, &FIELDS[1])?,
            days: set(days, &FIELDS[2])?,
            months: set(months, &FIELDS[3])?,
            weekdays: set(weekdays, &FIELDS[4])?,
        })
    }

    /// The first minute that they mean in `from..until`, on a clock that nobody sets. `from` is a whole minute.
    pub(crate) fn next(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        let (mut day, mut time) = (from.date(), (number(from.hour()), number(from.minute())));
        while day <= until.date() {
            if !self.months.has(number(day.month())) {
                day = day.last_of_month().tomorrow().ok()?;
            } else if self.is_on(day)
                && let Some((hour, minute)) = self.time_from(time)
            {
                let time = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok()?;
                return Some(day.to_datetime(time)).filter(|found| *found < until);
            } else {
                day = day.tomorrow().ok()?;
            }
            time = (0, 0);
        }
        None
    }

    /// A day of the month and one of the week that are both said mean either.
    fn is_on(&self, day: Date) -> bool {
        let month = self.days.has(number(day.day()));
        let week = self.weekdays.has(number(day.weekday().to_sunday_zero_offset()));
        if self.days.any || self.weekdays.any { month && week } else { month || week }
    }

    /// The first hour and minute from these on, on one day.
    fn time_from(&self, (hour, minute): (u32, u32)) -> Option<(u32, u32)> {
        let later = |hour| Some((self.hours.from(hour)?, self.minutes.from(0)?));
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.from(minute)
        {
            return Some((hour, minute));
        }
        later(hour + 1)
    }
}

/// Parts of a calendar are never negative.
fn number(part: i8) -> u32 {
    u32::try_from(part).unwrap_or(0)
}

/// A list of ranges.
fn set(text: &str, bounds: &Bounds) -> Result<Set, Unreadable> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    let all = ranges.map(|range| part(range, bounds));
    all.collect::<Result<Vec<Set>, _>>().map(|all| {
        all.iter().fold(Set::default(), |sum, one| Set { bits: sum.bits | one.bits, any: sum.any || one.any })
    })
}

/// `*`, `7`, `1-5`, each with a step (`*/15`, `5/10`, `1-31/2`).
fn part(text: &str, bounds: &Bounds) -> Result<Set, Unreadable> {
    let wrong = |words: String| Err(Unreadable(words));
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let ends = range.split_once('-');
    let all = matches!(ends.map_or(range, |(start, _)| start), "*" | "?");
    let (start, end) = match ends {
        _ if all => (bounds.low, bounds.high),
        Some((_, end)) if end.contains('-') => return wrong(format!("too many hyphens: {text}")),
        Some((start, end)) => (value(start, bounds)?, value(end, bounds)?),
        None => {
            let start = value(range, bounds)?;
            (start, if step.is_some() { bounds.high } else { start })
        }
    };
    let step = match step {
        Some(step) if step.contains('/') => return wrong(format!("too many slashes: {text}")),
        Some(step) => integer(step)?,
        None => 1,
    };
    if start < bounds.low {
        return wrong(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.low));
    }
    if end > bounds.high {
        return wrong(format!("end of range ({end}) above maximum ({}): {text}", bounds.high));
    }
    if start > end {
        return wrong(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return wrong(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Ok(Set { bits, any: all && step == 1 })
}

/// A number, or the name of one.
fn value(text: &str, bounds: &Bounds) -> Result<u32, Unreadable> {
    let named = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| bounds.low + at);
    named.map_or_else(|| integer(text), Ok)
}

fn integer(text: &str) -> Result<u32, Unreadable> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let failed = |why: &str| {
        Unreadable(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
    };
    if !digits {
        return Err(failed("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| failed("value out of range"))?;
    if number < 0 {
        return Err(Unreadable(format!("negative number ({number}) not allowed: {text}")));
    }
    // What is larger is out of any bounds all the same.
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sets_of_values() {
        let bits = |text: &str, at: usize| set(text, &FIELDS[at]).unwrap();
        let of = |values: &[u32]| values.iter().fold(0u64, |bits, value| bits | 1 << value);
        assert_eq!(bits("1,2,30-32", 0).bits, of(&[1, 2, 30, 31, 32]));
        assert_eq!(bits("5/10", 0).bits, of(&[5, 15, 25, 35, 45, 55]));
        assert_eq!(bits("JAN,jul", 3).bits, of(&[1, 7]));
        assert_eq!(bits("Mon-FRI/2", 4).bits, of(&[1, 3, 5]));
        assert_eq!(bits(",4,", 1).bits, of(&[4]), "nothing between commas is nothing");
        assert_eq!((bits("*/2", 2).any, bits("?", 2).any, bits("*/1", 2).any), (false, true, true));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let told = |text: &str| Fields::parse(text).unwrap_err().to_string();
        let all = [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 0 L * *", "failed to parse int from L: strconv.Atoi: parsing \"L\": invalid syntax"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* 5-3 * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/2/3 * * * *", "too many slashes: */2/3"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("5000000000 * * * *", "end of range (4294967295) above maximum (59): 5000000000"),
        ];
        for (text, words) in all {
            assert_eq!(told(text), words);
        }
    }
}
