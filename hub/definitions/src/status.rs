//! The `Status` that every refused request gets: code, reason, message, details.
//!
//! In: what went wrong, in the words of the code that found it. Out: the JSON body and HTTP code that
//! kube-apiserver gives for the same (`k8s.io/apimachinery` api/errors).

use std::borrow::Cow;
use std::collections::HashSet;

use karmada_cel::Crowded;
use karmada_schema::quote;
use serde::Serialize;

use crate::resource::ResourceDefinition;

/// One reason why an object was refused, as clients read it (`details.causes[]`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldManagerConflict`…
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// Words for a person; none where the reason says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// JSON path of the field, empty where the whole object is meant.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What the refusal is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Object name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural resource, or the kind for `Invalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Object uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Every cause found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
    /// Where a list that cannot go on as it was may go on: told beside the details.
    #[serde(skip)]
    pub next: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Characters of warnings in an answer. Where there are more, each is cut, and those beyond are left out, as in kube-apiserver.
pub const MOST_WARNINGS: usize = 4096;

/// How kube-apiserver names the list of kinds that it knows, where it has looked for one in vain.
pub const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// The reason of those that are no Status on the wire.
const PLAIN: &str = "text/plain";

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: Cow<'static, str>,
    /// Words for a person.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason: Cow::Borrowed(reason), message: message.into(), details: None }
    }

    fn about(mut self, definition: &ResourceDefinition, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: definition.group.to_string(),
            kind: definition.plural.to_string(),
            ..Details::default()
        }));
        self
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, "BadRequest", message)
    }

    /// 401: nobody, or a credential that is not ours.
    pub fn unauthorized() -> Self {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    /// The same, with a cause that its holder may know.
    pub fn unauthorized_because(reason: &'static str) -> Self {
        let cause = Cause { reason: Cow::Borrowed(reason), message: String::new(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Status { details: Some(Box::new(details)), ..Status::unauthorized() }
    }

    /// 403 about an object.
    pub fn forbidden(definition: &ResourceDefinition, name: &str, why: &str) -> Self {
        let what = qualified(definition, name);
        Status::new(403, "Forbidden", format!("{what} is forbidden: {why}")).about(definition, name)
    }

    /// 404: no such object.
    pub fn not_found(definition: &ResourceDefinition, name: &str) -> Self {
        Status::new(404, "NotFound", format!("{} not found", qualified(definition, name)))
            .about(definition, name)
    }

    /// 404: no such resource.
    pub fn no_resource() -> Self {
        let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 400: what is sent to a name has none itself.
    pub fn nameless(asked: &str) -> Self {
        Status::bad_request(format!(
            "the name of the object ({asked} based on URL) was undeterminable: name must be provided"
        ))
    }

    /// 400: what is sent to one name has another.
    pub fn misnamed(name: &str, asked: &str) -> Self {
        Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({asked})"
        ))
    }

    /// 405: the resource has no such verb.
    pub fn method_not_allowed() -> Self {
        let mut status = Status::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(Box::default());
        status
    }

    /// 406: no representation that the client accepts.
    pub fn not_acceptable(accepted: &str) -> Self {
        Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }

    /// 406 or 415 of kube-apiserver's router, which knows its own words only.
    pub fn routed(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let mut status = Status::new(code, reason, message);
        status.details = Some(Box::default());
        status
    }

    /// 409: an object of that name exists.
    pub fn already_exists(definition: &ResourceDefinition, name: &str) -> Self {
        Status::new(409, "AlreadyExists", format!("{} already exists", qualified(definition, name)))
            .about(definition, name)
    }

    /// 409: the object changed since the client read it.
    pub fn conflict(definition: &ResourceDefinition, name: &str) -> Self {
        Status::conflict_because(
            definition,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 with another reason than a newer version.
    pub fn conflict_because(definition: &ResourceDefinition, name: &str, why: &str) -> Self {
        let what = qualified(definition, name);
        Status::new(409, "Conflict", format!("Operation cannot be fulfilled on {what}: {why}"))
            .about(definition, name)
    }

    /// 409 of a precondition, which names the kind where others name the resource.
    pub fn conflict_with_kind(definition: &ResourceDefinition, name: &str, why: &str) -> Self {
        let group = if &*definition.group == "events.k8s.io" { "" } else { &*definition.group };
        let what = match group {
            "" => definition.kind.to_string(),
            group => format!("{}.{group}", definition.kind),
        };
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        let mut status = Status::new(409, "Conflict", message).about(definition, name);
        if let Some(details) = &mut status.details {
            details.kind = definition.kind.to_string();
            details.group = group.to_owned();
        }
        status
    }

    /// 409 of server-side apply: fields that others manage.
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let mut status = Status::new(409, "Conflict", message);
        status.details = Some(Box::new(Details { causes, ..Details::default() }));
        status
    }

    /// 410: the revision asked for is gone; list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::new(410, "Expired", message)
    }

    /// 410: a list cannot go on as it was; with `next` it goes on as things are now.
    pub fn expired_page(next: String) -> Self {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
             the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
             Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.details = Some(Box::new(Details { next, ..Details::default() }));
        status
    }

    /// 413: the body is larger than any object may be.
    pub fn too_large(limit: usize) -> Self {
        Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 415: the body is in a format that is not read here.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Status::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 422: the object breaks rules, all of them listed.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        // Events of either group are one kind inside kube-apiserver, and called by the older name.
        let group = if group == "events.k8s.io" { "" } else { group };
        let what = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let (mut texts, mut seen) = (Vec::with_capacity(causes.len()), HashSet::new());
        for cause in &causes {
            let text = if cause.field.is_empty() {
                cause.message.clone()
            } else {
                format!("{}: {}", cause.field, cause.message)
            };
            if seen.insert(text.clone()) {
                texts.push(text);
            }
        }
        let all = match texts.len() {
            1 => texts.remove(0),
            _ => format!("[{}]", texts.join(", ")),
        };
        let mut status = Status::new(422, "Invalid", format!("{what} \"{name}\" is invalid: {all}"));
        status.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        }));
        status
    }

    /// 422 without fields: the patch cannot be carried out on this object.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Status::new(422, "Invalid", message)
    }

    /// 429: come back later.
    pub fn too_many_requests(message: impl Into<String>, after_seconds: u32) -> Self {
        let mut status = Status::new(429, "TooManyRequests", message);
        status.details = Some(Box::new(Details { retry_after_seconds: after_seconds, ..Details::default() }));
        status
    }

    /// 500: our own fault.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        let mut status = Status::new(500, "InternalError", format!("Internal error occurred: {text}"));
        status.details = Some(Box::new(Details {
            causes: vec![Cause { reason: "".into(), message: text, field: String::new() }],
            ..Details::default()
        }));
        status
    }

    /// 503: starting, stopping, or the disk failed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Status::new(503, "ServiceUnavailable", message)
    }

    /// 504: the wait for a revision took too long.
    pub fn timeout(message: impl std::fmt::Display) -> Self {
        Status::new(504, "Timeout", format!("Timeout: {message}"))
    }

    /// 500 that kube-apiserver did not foresee: a sentence and nothing else.
    pub fn unforeseen(message: impl Into<String>) -> Self {
        Status::new(500, "", message)
    }

    /// An answer in plain text, as kube-apiserver's outer handlers give them.
    pub fn plain(code: u16, text: impl Into<String>) -> Self {
        Status::new(code, PLAIN, text)
    }

    /// 404 of a path that nothing serves.
    pub fn no_page() -> Self {
        Status::plain(404, "404 page not found\n")
    }

    /// Whether it is said in plain text.
    pub fn is_plain(&self) -> bool {
        self.reason == PLAIN
    }

    /// The JSON body.
    pub fn body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            kind: &'a str,
            api_version: &'a str,
            metadata: serde_json::Map<String, serde_json::Value>,
            status: &'a str,
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a Details>,
            code: u16,
        }
        let mut metadata = serde_json::Map::new();
        let next =
            self.details.as_deref().map(|details| details.next.as_str()).filter(|next| !next.is_empty());
        if let Some(next) = next {
            metadata.insert("continue".to_owned(), next.into());
        }
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata,
            status: "Failure",
            message: &self.message,
            reason: &self.reason,
            details: self.details.as_deref().filter(|_| next.is_none()),
            code: self.code,
        };
        serde_json::to_vec(&wire).unwrap_or_default()
    }
}

/// Nobody has judged the request: its client comes back, as most do by themselves.
impl From<Crowded> for Status {
    fn from(crowded: Crowded) -> Status {
        Status::too_many_requests(crowded.to_string(), 1)
    }
}

/// `plural.group "name"`, as every message names an object.
fn qualified(definition: &ResourceDefinition, name: &str) -> String {
    if definition.group.is_empty() {
        format!("{} {}", definition.plural, quote(name))
    } else {
        format!("{}.{} {}", definition.plural, definition.group, quote(name))
    }
}
