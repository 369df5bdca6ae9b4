//! What a client sent, read as the kind that the path names.
//!
//! In: the object as sent. Out: the same in the kind's own terms, with what is unknown in it dropped, warned of or refused as the
//! request asks; or a `Status`.

use karmada_definitions::resource::{Family, ResourceDefinition};
use karmada_definitions::status::{Cause, SCHEME, Status};
use karmada_kinds::strategy;
use karmada_schema::object::meta;
use karmada_schema::{Empties, Read};
use serde_json::{Value, json};

use crate::request::{FieldValidation, PatchShown, WriteOptions};

/// Checks that the body is the kind that the path names.
pub(crate) fn check_type(definition: &ResourceDefinition, object: &Value) -> Result<(), Status> {
    if !object.is_object() && !object.is_null() {
        return Err(Status::bad_request("the object provided is not a JSON object"));
    }
    let (kind, version) =
        (object["kind"].as_str().unwrap_or(""), object["apiVersion"].as_str().unwrap_or(""));
    let expected = definition.api_version();
    if definition.is_structural() && !kind.is_empty() && kind != &*definition.kind && version == expected {
        // As a CRD's kinds are refused: by validation, under the name that was sent.
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: \"{kind}\": must be {}", definition.kind),
            field: "kind".into(),
        };
        return Err(Status::invalid(&definition.group, kind, meta::text(object, "name"), vec![cause]));
    }
    if !version.is_empty() && version != expected {
        if definition.family == Family::Builtin && version.matches('/').count() > 1 {
            let begin = object.to_string();
            let begin: String = begin.chars().take(30).collect();
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {version} ({begin} ...)",
                definition.kind
            )));
        }
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        if definition.family == Family::Builtin
            && (kind == "Status" && version == "v1"
                || karmada_kinds::kind::Kind::builtin(group, short, kind).is_some())
        {
            return Err(Status::bad_request(converting(definition, short, kind)));
        }
        if definition.family == Family::Builtin {
            let short = version.rsplit('/').next().unwrap_or(version);
            return Err(Status::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {0}: no kind \"{kind}\" is registered for version \"{version}\" in scheme {SCHEME:?}",
                definition.kind
            )));
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != &*definition.kind {
        return Err(Status::bad_request(another_kind(definition, kind, object)));
    }
    match object.get("metadata") {
        // A compiled kind's reader says what it cannot read.
        None | Some(Value::Object(_) | Value::Null) => Ok(()),
        Some(_) if definition.family == Family::Builtin => Ok(()),
        Some(other) => Err(Status::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: json: cannot unmarshal {2} into Go value of type v1.ObjectMeta",
            definition.kind,
            definition.version,
            karmada_schema::go_kind(other)
        ))),
    }
}

/// What is said of a body that is of another kind than the path's.
fn another_kind(definition: &ResourceDefinition, kind: &str, object: &Value) -> String {
    let (version, wanted) = (&definition.version, &definition.kind);
    let api_version = definition.api_version();
    if definition.is_structural() {
        return format!(
            "{kind} in version \"{version}\" cannot be handled as a {wanted}: converting ({api_version}.{kind}) to ({api_version}.{wanted}): unknown conversion"
        );
    }
    let begin = format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: ");
    // Every group has a Status of its own to convert from, save in its own version.
    let known =
        kind == "Status" || karmada_kinds::kind::Kind::builtin(&definition.group, version, kind).is_some();
    if known {
        let own = karmada_kinds::kind::Kind::builtin(&definition.group, version, kind);
        // It is read as what it says it is, before it is seen that it cannot be this.
        if let Some(Err(error)) = own.map(|own| own.decode(&mut object.clone())) {
            return format!("{begin}{error}");
        }
        return converting(definition, version, kind);
    }
    format!("{begin}no kind \"{kind}\" is registered for version \"{api_version}\" in scheme {SCHEME:?}")
}

/// What is said of a known kind that cannot be made the one that is wanted.
fn converting(definition: &ResourceDefinition, version: &str, kind: &str) -> String {
    let (wanted, package) = (&definition.kind, strategy::package(definition));
    format!(
        "{kind} in version \"{version}\" cannot be handled as a {wanted}: converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    )
}

/// The refusal of a body in the version that the kind is stored in, sent to another: it is read as what it says it is first.
fn as_stored(definition: &ResourceDefinition, object: &Value, options: &WriteOptions) -> Option<Status> {
    let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let (expected, stored) = (definition.api_version(), definition.storage_api_version());
    if definition.family != Family::Builtin
        || version != stored
        || stored == expected
        || kind != &*definition.kind
    {
        return None;
    }
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    let refuse = |why: String| {
        let begin = format!("{kind} in version \"{short}\" cannot be handled as a {kind}: ");
        Some(Status::bad_request(format!("{begin}{why}")))
    };
    let mut problems = options.body_problems.clone();
    match karmada_kinds::kind::Kind::builtin(group, short, kind)?.decode(&mut object.clone()) {
        Err(error) => return refuse(error.to_string()),
        Ok(more) => problems.extend(more),
    }
    if options.field_validation == FieldValidation::Strict && !problems.is_empty() {
        return refuse(format!("strict decoding error: {}", problems.join(", ")));
    }
    Some(Status::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({expected})"
    )))
}

/// Reads the body into the kind; what the kind does not know is dropped, and said as asked. Answers what was sent empty.
///
/// # Errors
/// It is of another kind or version, does not fit the kind's types, or has unknown or repeated fields where these are refused.
pub fn decode(
    definition: &ResourceDefinition,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<Empties, Status> {
    if object.is_null() && !definition.is_structural() {
        *object = json!({});
    }
    let shown = match &options.patch {
        PatchShown::None => None,
        PatchShown::Itself(text) => Some(text.clone()),
        PatchShown::Outcome => Some(object.to_string()),
    };
    if let (PatchShown::None, Some(refusal)) = (&options.patch, as_stored(definition, object, options)) {
        return Err(refusal);
    }
    let mut problems = options.body_problems.clone();
    let read = check_type(definition, object).and_then(|()| karmada_kinds::read(definition, object));
    let empties = match (read, &shown) {
        (Ok(Read { unknown: mut more, empties }), _) => {
            if definition.is_structural() {
                more.sort_by_key(|problem| !problem.contains("\"metadata."));
            }
            let mixed = !problems.is_empty() && !more.is_empty();
            problems.extend(more);
            // One reader finds both; of a definition's kinds, and of what a patch makes, duplicates are found first.
            if mixed && shown.is_none() && !definition.is_structural() {
                problems = karmada_schema::in_order(&options.body, problems);
            }
            empties
        }
        (Err(status), Some(shown)) if !definition.is_structural() => {
            return Err(unreadable(definition, &status, shown, options));
        }
        (Err(status), _) => return Err(status),
    };
    if !problems.is_empty() {
        tell(problems, definition, shown.as_deref(), options)?;
    }
    Ok(empties)
}

/// The refusal of what a patch makes, or of the patch itself, in the words of who cannot read it.
fn unreadable(
    definition: &ResourceDefinition,
    status: &Status,
    shown: &str,
    options: &WriteOptions,
) -> Status {
    let marker = format!("cannot be handled as a {}: ", definition.kind);
    let why = status.message.split_once(&marker).map_or(status.message.as_str(), |(_, why)| why);
    match &options.patch {
        PatchShown::Itself(_) => refused_patch(&unstructured(why), shown),
        _ => refused_patch(why, shown),
    }
}

/// The refusal of a patch that is shown.
fn refused_patch(why: &str, shown: &str) -> Status {
    let value = Value::from(shown);
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {value}: {why}"),
        field: "patch".into(),
    };
    Status::invalid("", "", "", vec![cause])
}

/// Says what the kind does not know, as the request asks.
fn tell(
    problems: Vec<String>,
    definition: &ResourceDefinition,
    shown: Option<&str>,
    options: &WriteOptions,
) -> Result<(), Status> {
    match options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            problems.into_iter().for_each(|problem| options.warnings.add(problem));
            Ok(())
        }
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", problems.join(", "));
            if let Some(shown) = shown {
                return Err(refused_patch(&why, shown));
            }
            Err(Status::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: {why}",
                definition.kind, definition.version, definition.kind
            )))
        }
    }
}

/// What cannot be read, as the converter says it that strategic merges go through instead of a JSON decoder.
fn unstructured(why: &str) -> String {
    let Some((what, rest)) =
        why.strip_prefix("json: cannot unmarshal ").and_then(|w| w.split_once(" into Go "))
    else {
        return why.to_owned();
    };
    let kind = match what {
        "object" => "map",
        "array" => "slice",
        _ if what.starts_with("number") => "int64",
        other => other,
    };
    match rest.rsplit_once(" of type ").map_or("", |(_, wanted)| wanted) {
        wanted if wanted.starts_with("[]") => format!("cannot restore slice from {kind}"),
        wanted if wanted.starts_with("map[") => format!("cannot restore map from {kind}"),
        wanted if wanted.contains('.') => format!("cannot restore struct from: {kind}"),
        wanted => format!("unrecognized type: {wanted}"),
    }
}
