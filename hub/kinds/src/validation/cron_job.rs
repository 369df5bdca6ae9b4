//! CronJobs: schedules, time zones, and the template of their Jobs.
//!
//! In: a CronJob, on update the stored one. Out: field errors.

use jiff::tz::TimeZone;
use karmada_cron::Schedule;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, job, selector};

/// The names of the zones that IANA's database knows: the machine need not have it to judge a schedule.
const ZONES: &str = include_str!("zones.txt");

/// A zone that IANA's database knows.
pub(super) fn time_zone(zone: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let zone = zone.as_str().unwrap_or_default();
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, zone, detail));
    if zone.is_empty() {
        return refuse("timeZone must be nil or non-empty string".to_owned());
    }
    let odd = |part: &str| {
        let letters = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
        part.is_empty() || part.len() > 14 || part == "." || part == ".." || part.starts_with('-') || !letters
    };
    if zone.split('/').any(odd) {
        return refuse(format!("unknown time zone {zone}"));
    }
    let local = zone.eq_ignore_ascii_case("Local");
    if local {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        refuse(detail.to_owned());
    }
    if zone != "Local" && !ZONES.lines().any(|known| known == zone) {
        refuse(format!("unknown time zone {zone}"));
    }
}

/// When Jobs are made. A zone in it, as it was once written, stays.
pub(super) fn schedule(new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let schedule = new.as_str().unwrap_or_default();
    if schedule.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if let Err(problem) = Schedule::parse(schedule, &TimeZone::UTC) {
        errors.push(FieldError::invalid(path, schedule, problem.to_string()));
    }
    if schedule.contains("TZ") && old.is_none_or(|old| !old.as_str().unwrap_or_default().contains("TZ")) {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(path, schedule, detail));
    }
}

/// The spec of its Jobs, whose selectors are made.
pub(super) fn template(spec: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    job::spec(spec, path, errors);
    if spec["selector"].is_object() {
        let detail = "`selector` will be auto-generated";
        let shown = selector::shown(&spec["selector"]);
        errors.push(FieldError::invalid(&path.child("selector"), shown, detail));
    }
    if spec["manualSelector"] == true {
        errors.push(FieldError::not_supported(&path.child("manualSelector"), true, &["nil", "false"]));
    }
}

/// Names of Jobs are made of it and the time.
pub(super) fn name(name: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if old.is_none() && name.as_str().is_some_and(|name| name.len() > 52) {
        errors.push(FieldError::invalid(path, name.clone(), "must be no more than 52 characters"));
    }
}
