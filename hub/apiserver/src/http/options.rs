//! What a query asks of a list or watch, read and judged as kube-apiserver does.
//!
//! In: the query. Out: numbers and versions, or the `Status` of what cannot be read: 400 for a number, 422 for options that do
//! not go together, 500 for a version (which kube-apiserver reads where it does not expect to fail).

use karmada_definitions::status::{Cause, Status};

use super::target::Query;

/// Reads a number parameter; empty is `None`.
pub(super) fn number(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    let text = query.get(name);
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(number) => return Ok(Some(number)),
            Err(_) => "value out of range",
        }
    };
    Err(Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}")))
}

/// Reads a version, or says why it is none.
pub(super) fn read_version(text: &str) -> Result<u64, String> {
    karmada_registry::resource_version(text)
        .map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

/// Reads `resourceVersion` where a single object or a watch is asked for.
pub(super) fn version(query: &Query) -> Result<Option<u64>, Status> {
    match query.get("resourceVersion") {
        "" => Ok(None),
        text => read_version(text).map(Some).map_err(Status::unforeseen),
    }
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause {
        reason: "FieldValueForbidden".into(),
        message: format!("Forbidden: {why}"),
        field: field.to_owned(),
    }
}

fn not_supported(field: &str, value: &str, known: &str) -> Cause {
    Cause {
        reason: "FieldValueNotSupported".into(),
        message: format!("Unsupported value: {value:?}: supported values: {known}"),
        field: field.to_owned(),
    }
}

/// Refuses options of a list that do not go together.
pub(super) fn check_list(query: &Query) -> Result<(), Status> {
    check(query, of_list)
}

/// The same of a watch.
pub(super) fn check_watch(query: &Query) -> Result<(), Status> {
    check(query, of_watch)
}

fn check(query: &Query, wrong: fn(&Query) -> Vec<Cause>) -> Result<(), Status> {
    for name in ["limit", "timeoutSeconds"] {
        number(query, name)?;
    }
    let causes = wrong(query);
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes)) }
}

const MATCH: &str = "resourceVersionMatch";

fn of_list(query: &Query) -> Vec<Cause> {
    let (matching, version) = (query.get(MATCH), query.get("resourceVersion"));
    let mut causes = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            causes.push(forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !query.get("continue").is_empty() {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(not_supported(MATCH, matching, "\"Exact\", \"NotOlderThan\", \"\""));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(forbidden(MATCH, why));
        }
    }
    if !query.all("sendInitialEvents").is_empty() {
        causes.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    causes
}

fn of_watch(query: &Query) -> Vec<Cause> {
    let matching = query.get(MATCH);
    let given = !query.all("sendInitialEvents").is_empty();
    let mut causes = Vec::new();
    if given && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(forbidden(MATCH, why));
    }
    if !matching.is_empty() {
        if !given {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(forbidden(MATCH, why));
        }
        if matching != "NotOlderThan" {
            causes.push(not_supported(MATCH, matching, "\"NotOlderThan\""));
        }
        if !query.get("continue").is_empty() {
            causes.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    causes
}
