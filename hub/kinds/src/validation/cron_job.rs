//! CronJobs: schedules, time zones, and the template of their Jobs.
//!
//! In: a CronJob, on update the stored one. Out: field errors.

use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, job, non_negative, one_of, selector, text};

/// The names of the zones that IANA's database knows: the machine need not have it to judge a schedule.
const ZONES: &str = include_str!("zones.txt");

fn time_zone(zone: &str, path: &Path<'_>, errors: &mut Errors) {
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

pub(crate) fn cron_job(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (schedule, at) = (text(spec, "schedule"), path.child("schedule"));
    if schedule.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if let Some(problem) = schedule_problem(schedule) {
            errors.push(FieldError::invalid(&at, schedule, problem));
        }
        if schedule.contains("TZ") && old.is_none_or(|old| !text(&old["spec"], "schedule").contains("TZ")) {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid(&at, schedule, detail));
        }
    }
    non_negative(spec, "startingDeadlineSeconds", &path, errors);
    if spec["timeZone"].is_string() {
        time_zone(text(spec, "timeZone"), &path.child("timeZone"), errors);
    }
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &path, errors);
    let template = path.child("jobTemplate");
    let (job, at) = (&spec["jobTemplate"]["spec"], template.child("spec"));
    job::spec(job, &at, errors);
    if job["selector"].is_object() {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(&at.child("selector"), selector::shown(&job["selector"]), detail));
    }
    if job["manualSelector"] == true {
        errors.push(FieldError::not_supported(&at.child("manualSelector"), true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(spec, field, &path, errors);
    }
    let name = text(&new["metadata"], "name");
    if old.is_none() && name.len() > 52 {
        let meta = Path::field("metadata");
        errors.push(FieldError::invalid(&meta.child("name"), name, "must be no more than 52 characters"));
    }
}

/// What is wrong with a cron schedule: five fields of numbers, names, ranges, steps and lists, or a macro.
fn schedule_problem(schedule: &str) -> Option<String> {
    let schedule = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule.trim(),
    };
    if let Some(name) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return (!known.contains(&name) && !name.starts_with("every "))
            .then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        let list: Vec<&str> = fields.clone();
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), list.join(" ")));
    }
    const BOUNDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    fields
        .iter()
        .zip(BOUNDS)
        .enumerate()
        .find_map(|(index, (field, bounds))| field.split(',').find_map(|part| cron_part(part, bounds, index)))
}

fn cron_part(part: &str, (low, high): (u32, u32), field: usize) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    let number = |text: &str| -> Result<u32, String> {
        let lower = text.to_lowercase();
        let named = match field {
            3 => MONTHS.iter().position(|name| *name == lower).map(|at| at as u32 + 1),
            4 => DAYS.iter().position(|name| *name == lower).map(|at| at as u32),
            _ => None,
        };
        named.map_or_else(
            || {
                text.parse().map_err(|_| {
                    format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
                })
            },
            Ok,
        )
    };
    if let Some(step) = step {
        match number(step) {
            Err(problem) => return Some(problem),
            Ok(0) => return Some(format!("step of range should be a positive number: {part}")),
            Ok(_) => {}
        }
    }
    if range == "*" || range == "?" {
        return None;
    }
    let (start, end) = range.split_once('-').map_or((range, None), |(start, end)| (start, Some(end)));
    let (start, end) = match (number(start), end.map(number)) {
        (Err(problem), _) | (_, Some(Err(problem))) => return Some(problem),
        (Ok(start), None) => (start, start),
        (Ok(start), Some(Ok(end))) => (start, end),
    };
    if start < low {
        return Some(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Some(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    (start > end).then(|| format!("beginning of range ({start}) beyond end of range ({end}): {part}"))
}
