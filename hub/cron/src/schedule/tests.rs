//! When runs come: around changes of clocks, after long times, and never.

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(text: &str, name: &str) -> Schedule {
    Schedule::parse(text, &zone(name).unwrap()).unwrap()
}

fn runs(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let first = schedule.next(at(after));
    std::iter::successors(first, |run| schedule.next(*run)).take(count).map(|run| run.to_string()).collect()
}

#[test]
fn a_clock_that_is_put_forward_skips_a_run_and_one_that_is_put_back_has_it_twice() {
    let night = schedule("30 2 * * *", "Europe/Berlin");
    assert_eq!(runs(&night, "2024-03-30T12:00:00Z", 1), ["2024-04-01T00:30:00Z"]);
    let twice = ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"];
    assert_eq!(runs(&night, "2024-10-26T12:00:00Z", 3), twice);
    // Half an hour at two in the morning.
    let early = schedule("45 1 * * *", "Australia/Lord_Howe");
    let runs = runs(&early, "2024-04-06T00:00:00Z", 3);
    assert_eq!(runs, ["2024-04-06T14:45:00Z", "2024-04-06T15:15:00Z", "2024-04-07T15:15:00Z"]);
}

#[test]
fn words_paces_and_zones_are_read() {
    assert_eq!(runs(&schedule("@weekly", ""), "2024-02-27T23:59:30Z", 1), ["2024-03-03T00:00:00Z"]);
    let every = schedule("@every 90s", "");
    assert_eq!(runs(&every, "2024-02-27T23:59:30.5Z", 2), ["2024-02-28T00:01:00Z", "2024-02-28T00:02:30Z"]);
    for tokyo in ["TZ=Asia/Tokyo 0 8 * * *", "CRON_TZ=Asia/Tokyo  0 8 * * *"] {
        assert_eq!(
            runs(&schedule(tokyo, "Europe/Berlin"), "2024-02-27T23:59:30Z", 1),
            ["2024-02-28T23:00:00Z"]
        );
    }
    let told = |text: &str| Schedule::parse(text, &TimeZone::UTC).unwrap_err().0;
    assert_eq!(told("@weekdays"), "unrecognized descriptor: @weekdays");
    assert_eq!(
        told("TZ=Mars/Base 0 8 * * *"),
        "provided bad location Mars/Base: unknown time zone Mars/Base"
    );
    assert_eq!(told("@every soon"), "failed to parse duration @every soon: time: invalid duration \"soon\"");
    assert_eq!(told("TZ=UTC"), "expected exactly 5 fields, found 0: []");
}

#[test]
fn what_never_comes_is_told_and_what_comes_seldom_is_found() {
    assert_eq!(schedule("0 0 31 2 *", "Europe/Berlin").next(at("2024-01-01T00:00:00Z")), None);
    assert_eq!(schedule(", * * * *", "").next(at("2024-01-01T00:00:00Z")), None);
    let leap = schedule("0 0 29 2 *", "America/New_York");
    assert_eq!(runs(&leap, "2096-03-01T00:00:00Z", 1), ["2104-02-29T05:00:00Z"]);
    assert_eq!(leap.next(Timestamp::MAX), None);
}

#[test]
fn the_last_run_is_found_however_many_there_were() {
    let last =
        |text: &str, first: &str, until: &str| schedule(text, "").last(at(first), at(until)).to_string();
    assert_eq!(last("* * * * *", "2024-01-01T00:00:00Z", "2026-05-01T12:00:59Z"), "2026-05-01T12:00:00Z");
    assert_eq!(last("0 8 * * *", "2024-01-01T08:00:00Z", "2024-01-01T08:00:00Z"), "2024-01-01T08:00:00Z");
    assert_eq!(last("* * * 1 *", "2024-01-01T08:00:00Z", "2025-12-31T00:00:00Z"), "2025-01-31T23:59:00Z");
    assert_eq!(last("@every 5m", "2024-01-01T08:00:07Z", "2024-01-01T08:12:00Z"), "2024-01-01T08:10:07Z");
}

#[test]
fn a_run_that_another_schedule_told_is_not_this_ones() {
    let (eight, now) = (schedule("0 8 * * *", "Asia/Tokyo"), at("2024-02-27T12:00:00Z"));
    assert!(eight.told(at("2024-02-27T23:00:00Z"), now) && eight.told(at("2024-02-20T23:00:00Z"), now));
    assert!(!eight.told(at("2024-02-28T08:00:00Z"), now));
    assert!(!eight.told(at("2024-02-28T23:00:00Z"), now), "the one before it comes first");
    let every = schedule("@every 5m", "");
    assert!(every.told(at("2024-02-27T12:05:00Z"), now) && !every.told(at("2024-02-27T12:05:01Z"), now));
}

proptest! {
    /// A run is the first minute after a moment at which the clock shows what is said: looked for minute by minute, it is the same one.
    #[test]
    fn the_next_run_is_the_first_minute_that_the_clock_shows(
        second in 1_700_000_000i64..1_740_000_000,
        fields in ("[0-9]|[1-5][0-9]|\\*/7", "[0-9]|1[0-9]|\\*", "\\*|\\*/3", Just("*"), "\\*|[0-6]"),
        name in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"]),
    ) {
        let text = format!("{} {} {} {} {}", fields.0, fields.1, fields.2, fields.3, fields.4);
        let schedule = schedule(&text, name);
        let (after, zone) = (Timestamp::from_second(second).unwrap(), zone(name).unwrap());
        let Pace::At(fields) = &schedule.pace else { panic!("five fields") };
        let first = (second / 60 + 1..).map(|minute| Timestamp::from_second(minute * 60).unwrap());
        let shows = |at: &Timestamp| {
            let clock = zone.to_offset(*at).to_datetime(*at);
            fields.next(clock, clock.checked_add(1.minute()).unwrap()) == Some(clock)
        };
        prop_assert_eq!(schedule.next(after), first.take(60 * 24 * 40).find(shows));
    }
}
