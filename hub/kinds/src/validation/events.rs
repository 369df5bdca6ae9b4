//! Events: what is said about others.
//!
//! In: an event in the words of either group, on an update with what stands. Out: field errors in kube-apiserver's order. Both groups share
//! the rules that hold of either.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown, go_struct};
use serde_json::Value;

use super::{Errors, invalid_each, names, text};

/// An event in the words of core/v1.
pub(crate) fn core_event(new: &Value, errors: &mut Errors) {
    said(new, ["involvedObject", "message", "reportingComponent"], errors);
}

/// An event in the words of events.k8s.io/v1, which is judged more strictly.
pub(crate) fn event(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    said(new, ["regarding", "note", "reportingController"], errors);
    match old {
        None => strict_create(new, errors),
        Some(old) => strict_change(new, old, errors),
    }
}

/// What holds of an event, whatever a version calls its fields.
fn said(new: &Value, [about, message, reporter]: [&'static str; 3], errors: &mut Errors) {
    let timed = new["eventTime"].is_string();
    let own = text(&new["metadata"], "namespace");
    let place = text(&new[about], "namespace");
    let involved = Path::field("involvedObject");
    let fits = match (timed, place) {
        (false, "") => matches!(own, "" | "default"),
        (true, "") => matches!(own, "default" | "kube-system"),
        (false, place) => place == own,
        (true, _) => true,
    };
    if !fits {
        errors.push(FieldError::invalid(
            &involved.child("namespace"),
            place,
            "does not match event.namespace",
        ));
    }
    if timed {
        reported(new, reporter, message, errors);
    }
}

/// Of an event that was sent in the newer version nothing changes but how often it was seen.
fn strict_change(new: &Value, old: &Value, errors: &mut Errors) {
    if new["series"] != old["series"] {
        series(new, errors);
    }
    for (field, named) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        // kube-apiserver compares it twice.
        ("reason", "reason"),
        ("type", "type"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let (now, at) = (&new[field], Path::field(named));
        if *now == old[field] {
            continue;
        }
        let shown = match field {
            "regarding" => reference_shown(now),
            "related" if now.is_object() => reference_shown(now),
            "deprecatedSource" => Shown::Raw(go_struct(now).to_string()),
            "deprecatedFirstTimestamp" | "deprecatedLastTimestamp" | "related" => now.clone().into(),
            "deprecatedCount" => now.as_i64().unwrap_or(0).into(),
            _ => now.as_str().unwrap_or_default().into(),
        };
        errors.push(FieldError::invalid(&at, shown, "field is immutable"));
    }
    // A time that was never set cannot be set later either.
    if new["eventTime"] != old["eventTime"] {
        let (at, now) = (Path::field("eventTime"), new["eventTime"].clone());
        errors.push(FieldError::invalid(&at, now, "field is immutable"));
    }
}

/// A reference as kube-apiserver's memory has it.
fn reference_shown(reference: &Value) -> Shown {
    let fields = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    let fields = fields.map(|(named, field)| format!("\"{named}\":{}", Value::from(text(reference, field))));
    Shown::Raw(format!("{{{}}}", fields.join(",")))
}

/// How often an event was seen.
fn series(new: &Value, errors: &mut Errors) {
    if !new["series"].is_object() {
        return;
    }
    if new["series"]["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&Path::field("series.count"), "", "should be at least 2"));
    }
    if new["series"]["lastObservedTime"].is_null() {
        errors.push(FieldError::required(&Path::field("series.lastObservedTime"), ""));
    }
}

fn reported(new: &Value, reporter: &'static str, message: &str, errors: &mut Errors) {
    let name = text(new, reporter);
    if name.is_empty() {
        errors.push(FieldError::required(&Path::field(reporter), ""));
    }
    invalid_each(errors, &Path::field(reporter), name, names::qualified_name(name));
    for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(new, field);
        if value.is_empty() {
            errors.push(FieldError::required(&Path::field(field), ""));
        }
        if value.len() > limit {
            let detail = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid(&Path::field(field), "", detail));
        }
    }
    if text(new, message).len() > 1024 {
        errors.push(FieldError::invalid(&Path::field("message"), "", "can have at most 1024 characters"));
    }
}

fn strict_create(new: &Value, errors: &mut Errors) {
    // The rest of the metadata's rules are said here, after what the older version says.
    let metadata = super::validate_metadata(super::NameRule::Subdomain, new, None);
    errors.extend(metadata);
    super::metadata::standard_finalizers(new, errors);
    series(new, errors);
    if !new["eventTime"].is_string() {
        errors.push(FieldError::required(&Path::field("eventTime"), ""));
    }
    let kind = text(new, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid(&Path::field("type"), "", format!("has invalid value: {kind}")));
    }
    for (field, named) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let value = &new[field];
        let set = match value {
            Value::Null => false,
            Value::Number(n) => n.as_i64() != Some(0),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        if set {
            errors.push(FieldError::invalid(&Path::field(named), "", "needs to be unset"));
        }
    }
}
