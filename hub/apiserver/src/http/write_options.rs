//! How a write is to be made: what its query asks for, judged as kube-apiserver does.
//!
//! In: the query, the client's name, the raw body. Out: [`WriteOptions`], or the 422 that names the option.

use bytes::Bytes;
use http::Method;
use karmada_definitions::status::Status;
use karmada_registry::{FieldValidation, PatchShown, WriteOptions};
use serde_json::json;

use super::{ApiServer, Call};

impl ApiServer {
    /// Reads how a write is to be made from the query, and problems of the raw body.
    pub(super) fn write_options(
        &self,
        call: &Call<'_>,
        subresource: &str,
        raw: &Bytes,
    ) -> Result<WriteOptions, Status> {
        let field_validation = match call.query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let shown = format!("\"{other}\"");
                let known = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                return Err(unsupported(options_kind(call), "fieldValidation", &shown, known));
            }
        };
        let dry_run = dry_run(call)?;
        let body_problems = match field_validation {
            FieldValidation::Ignore => Vec::new(),
            _ => karmada_schema::duplicate_fields(raw),
        };
        Ok(WriteOptions {
            user: call.user.clone(),
            field_manager: field_manager(call)?,
            dry_run,
            field_validation,
            subresource: subresource.to_owned(),
            body: if body_problems.is_empty() { Bytes::new() } else { raw.clone() },
            body_problems,
            patch: PatchShown::None,
            applied: false,
            warnings: call.warnings.clone(),
        })
    }
}

/// An apply names who applies.
pub(super) fn manager_required() -> Status {
    required("PatchOptions", "fieldManager", "is required for apply patch")
}

/// Bytes of the longest name of a field manager.
const MAX_MANAGER: usize = 128;

/// Who writes: as named, or the first word of the client's own name.
pub(super) fn field_manager(call: &Call<'_>) -> Result<String, Status> {
    let named = call.query.get("fieldManager");
    let refused = |reason: &'static str, message: String| {
        let cause = karmada_definitions::status::Cause {
            reason: reason.into(),
            message,
            field: "fieldManager".into(),
        };
        Err(Status::invalid("meta.k8s.io", options_kind(call), "", vec![cause]))
    };
    if named.len() > MAX_MANAGER {
        let why = format!("Too long: may not be more than {MAX_MANAGER} bytes");
        return refused("FieldValueTooLong", why);
    }
    if let Some((at, odd)) = named.char_indices().find(|(_, c)| !karmada_schema::is_printable(*c)) {
        let code = u32::from(odd);
        let why = format!(
            "Invalid value: {}: invalid character U+{code:04X} (at position {at})",
            karmada_schema::quote(named)
        );
        return refused("FieldValueInvalid", why);
    }
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let agent = call.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("unknown");
    let name = agent.split('/').next().unwrap_or(agent).chars().filter(|c| karmada_schema::is_printable(*c));
    Ok(name.take(MAX_MANAGER).collect())
}

/// What the query's options are called of this method.
fn options_kind(call: &Call<'_>) -> &'static str {
    match call.method {
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "CreateOptions",
    }
}

pub(super) fn dry_run(call: &Call<'_>) -> Result<bool, Status> {
    is_dry(options_kind(call), &call.query.all("dryRun"))
}

/// Whether options ask for a dry run. Refused is what stands there otherwise: it would be taken for one by who reads in haste.
pub(super) fn is_dry(kind: &str, all: &[impl AsRef<str> + serde::Serialize]) -> Result<bool, Status> {
    match all {
        [] => Ok(false),
        all if all.iter().all(|one| one.as_ref() == "All") => Ok(true),
        other => Err(unsupported(kind, "dryRun", &json!(other).to_string(), "\"All\"")),
    }
}

fn unsupported(kind: &str, field: &str, value: &str, known: &str) -> Status {
    let cause = karmada_definitions::status::Cause {
        reason: "FieldValueNotSupported".into(),
        message: format!("Unsupported value: {value}: supported values: {known}"),
        field: field.to_owned(),
    };
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}

fn required(kind: &str, field: &str, why: &str) -> Status {
    let cause = karmada_definitions::status::Cause {
        reason: "FieldValueRequired".into(),
        message: format!("Required value: {why}"),
        field: field.to_owned(),
    };
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}
