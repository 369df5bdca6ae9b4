//! A schedule: five fields, a word for them, or a pace; and the zone whose clock it means.
//!
//! In: its text, and the zone that holds where it names none; then moments. Out: the runs around them.
//!
//! A zone's time is looked at in the pieces within which its clock is not set: within one, a schedule is a plain calendar.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::every::every;
use crate::fields::Fields;
use crate::unreadable::Unreadable;
use crate::zone::zone;

/// A schedule that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pace: Pace,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Pace {
    /// Where the clock shows these.
    At(Fields),
    /// So long after the last one.
    Every(SignedDuration),
}

/// Words for five fields.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What does not come within so many days never comes: the 29th of February comes within eight years.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 366 * 9);

impl Schedule {
    /// Reads a schedule. `TZ=NAME` or `CRON_TZ=NAME` before it names its zone; otherwise it is `zone`.
    ///
    /// # Errors
    /// The zone is unknown, or the rest is neither five fields nor one of the words that begin with `@`; in the words of Go's cron library.
    pub fn parse(text: &str, zone: &TimeZone) -> Result<Schedule, Unreadable> {
        let named = ["TZ=", "CRON_TZ="].iter().find_map(|prefix| text.strip_prefix(prefix));
        let Some(named) = named else { return Schedule::read(text, zone.clone()) };
        let (name, rest) = named.split_once(' ').unwrap_or((named, ""));
        let zone =
            self::zone(name).map_err(|error| Unreadable(format!("provided bad location {name}: {error}")))?;
        Schedule::read(rest.trim(), zone)
    }

    fn read(text: &str, zone: TimeZone) -> Result<Schedule, Unreadable> {
        if !text.starts_with('@') {
            return Ok(Schedule { pace: Pace::At(Fields::parse(text)?), zone });
        }
        if let Some((_, fields)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(Schedule { pace: Pace::At(Fields::parse(fields)?), zone });
        }
        let Some(duration) = text.strip_prefix("@every ") else {
            return Err(Unreadable(format!("unrecognized descriptor: {text}")));
        };
        let pace = every(duration).ok_or_else(|| {
            Unreadable(format!("failed to parse duration {text}: time: invalid duration {duration:?}"))
        })?;
        Ok(Schedule { pace: Pace::Every(pace), zone })
    }

    /// The first run after `after`, in whole seconds; none where none ever comes.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.pace {
            Pace::At(fields) => next_at(fields, &self.zone, after),
            Pace::Every(pace) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*pace).ok(),
        }
    }

    /// The last run until `until`, where `first` is one that is not later.
    pub fn last(&self, first: Timestamp, until: Timestamp) -> Timestamp {
        match &self.pace {
            Pace::At(_) => self.last_at(first, until),
            Pace::Every(pace) => {
                let runs = until.duration_since(first).as_secs() / pace.as_secs();
                let passed = SignedDuration::from_secs(runs.max(0) * pace.as_secs());
                first.checked_add(passed).unwrap_or(first)
            }
        }
    }

    /// Halves the time in which the last run is, until nothing comes between.
    fn last_at(&self, first: Timestamp, until: Timestamp) -> Timestamp {
        let comes = |after: Timestamp, until: Timestamp| self.next(after).filter(|run| *run <= until);
        let (mut last, mut end) = (first, until);
        while let Some(run) = comes(last, until) {
            last = run;
            let half = SignedDuration::from_secs(end.duration_since(last).as_secs() / 2);
            let Ok(middle) = last.checked_add(half) else { break };
            match comes(middle, until) {
                Some(run) => last = run,
                None => end = middle,
            }
        }
        last
    }

    /// Whether `next` can be what was told as this schedule's next run, by `now`: a run that another schedule told counts no longer, and one
    /// that this one has others before neither.
    pub fn told(&self, next: Timestamp, now: Timestamp) -> bool {
        match &self.pace {
            Pace::At(_) => {
                let before = next.checked_sub(1.second()).unwrap_or(Timestamp::MIN).min(now);
                self.next(before) == Some(next)
            }
            Pace::Every(pace) => next.duration_since(now) <= *pace,
        }
    }
}

fn next_at(fields: &Fields, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let horizon = after.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
    // Within the first piece from the next minute on, then each from its beginning.
    let mut begin = after;
    let mut changes = zone.following(after).map(|change| change.timestamp());
    while begin < horizon {
        let offset = zone.to_offset(begin);
        let end = changes.next().unwrap_or(horizon).min(horizon);
        let clock = offset.to_datetime(begin);
        let minute = clock.with().second(0).subsec_nanosecond(0).build().ok()?;
        let from =
            if minute == clock && begin != after { minute } else { minute.checked_add(1.minute()).ok()? };
        if let Some(found) = fields.next(from, offset.to_datetime(end)) {
            return offset.to_timestamp(found).ok();
        }
        begin = end;
    }
    None
}

#[cfg(test)]
mod tests;
