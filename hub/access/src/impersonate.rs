//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! In: the user who asks and the headers. Out: the user they act as, if RBAC lets them (`impersonate` on users, groups,
//! serviceaccounts, uids, userextras; or `impersonate-on:MODE:VERB` on what is asked for and `impersonate:MODE` on whom they become), else
//! 403 naming the first thing that they may not take on.

use std::collections::BTreeMap;

use http::HeaderMap;
use karmada_definitions::status::Status;
use karmada_registry::user::{ANONYMOUS, UNAUTHENTICATED, account_groups, service_account_of};
use karmada_registry::{Attributes, Authorize as _, User};

use crate::Authorizer;
use crate::authenticate::known;

const EXTRA: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

/// The user that `request` acts as: `user` itself where no such header is sent.
///
/// # Errors
/// 403: `user` may not; 400: the headers are no text, or name no user beside what else they name.
pub fn impersonate(
    authorizer: &Authorizer,
    user: User,
    headers: &HeaderMap,
    request: &Attributes,
) -> Result<User, Status> {
    let wanted = wanted(headers)?;
    if wanted.name.is_empty() {
        let anything = !wanted.groups.is_empty() || !wanted.uid.is_empty() || !wanted.extra.is_empty();
        return match anything {
            true => Err(Status::bad_request(format!(
                "requested {} without impersonating a user name",
                asked(&wanted)
            ))),
            false => Ok(user),
        };
    }
    let refused = |requests: Vec<Attributes>| {
        requests.into_iter().find_map(|request| {
            let decision = authorizer.authorize(&user, &request);
            (!decision.allowed).then(|| request.forbidden(&user, &decision.reason))
        })
    };
    // What is allowed for this request alone is tried first, and what it lacks is what is told.
    let mut first = None;
    if let Some(mode) = Mode::of(&wanted) {
        let on = format!("impersonate-on:{}:{}", mode.name(), request.verb);
        let mut constrained = vec![Attributes { verb: on, ..request.clone() }];
        constrained.extend(requests(&wanted, Some(mode)));
        match refused(constrained) {
            None => return Ok(completed(wanted, Some(mode))),
            refusal => first = refusal,
        }
    }
    match refused(requests(&wanted, None)) {
        None => Ok(completed(wanted, None)),
        Some(refusal) => Err(first.unwrap_or(refusal)),
    }
}

/// Whom somebody wants to be, where roles tell them apart: a node or an account by its name alone, or anybody else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Node,
    Account,
    Anybody,
}

impl Mode {
    /// None for a node or an account of which more than the name is asked for.
    fn of(wanted: &User) -> Option<Mode> {
        let name_alone = wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty();
        match (node(&wanted.name), service_account_of(&wanted.name)) {
            (Some(_), _) => name_alone.then_some(Mode::Node),
            (_, Some(_)) => name_alone.then_some(Mode::Account),
            _ => Some(Mode::Anybody),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Node => "arbitrary-node",
            Mode::Account => "serviceaccount",
            Mode::Anybody => "user-info",
        }
    }
}

fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| !name.is_empty())
}

/// What is asked for, as Go prints it.
fn asked(wanted: &User) -> String {
    let list = |all: &[String]| format!("[]string{{{}}}", quoted(all));
    let groups = if wanted.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&wanted.groups) };
    let extra: Vec<String> =
        wanted.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:map[string][]string{extra}}}",
        wanted.uid
    )
}

fn quoted(all: &[String]) -> String {
    all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ")
}

fn wanted(headers: &HeaderMap) -> Result<User, Status> {
    let text = |value: &http::HeaderValue| {
        let text = value.to_str().map(str::to_owned);
        text.map_err(|_| Status::bad_request("an Impersonate header is not text"))
    };
    let one = |name: &str| headers.get(name).map_or(Ok(String::new()), text);
    let groups = headers.get_all("impersonate-group").iter().map(text).collect::<Result<_, _>>()?;
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.entry(percent_decoded(key)).or_default().push(text(value)?);
        }
    }
    Ok(User {
        name: one("impersonate-user")?,
        uid: one("impersonate-uid")?,
        groups,
        extra,
        ..User::default()
    })
}

/// What must be allowed for somebody to become `wanted`: in a mode, or at all requests.
fn requests(wanted: &User, mode: Option<Mode>) -> Vec<Attributes> {
    let verb = mode.map_or_else(|| "impersonate".to_owned(), |mode| format!("impersonate:{}", mode.name()));
    let about = |group: &str, resource: &str, name: &str| Attributes {
        verb: verb.clone(),
        group: group.to_owned(),
        version: if group.is_empty() { String::new() } else { "v1".to_owned() },
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let group = if mode.is_some() { GROUP } else { "" };
    let mut out = vec![match (mode, node(&wanted.name), service_account_of(&wanted.name)) {
        (Some(_), Some(name), _) => about(group, "nodes", name),
        (_, _, Some((namespace, name))) => {
            Attributes { namespace: namespace.to_owned(), ..about(group, "serviceaccounts", name) }
        }
        _ => about(group, "users", &wanted.name),
    }];
    if !wanted.uid.is_empty() {
        out.push(about(GROUP, "uids", &wanted.uid));
    }
    out.extend(wanted.groups.iter().map(|name| about(group, "groups", name)));
    for (key, values) in &wanted.extra {
        let named = values.iter().map(|value| about(GROUP, "userextras", value));
        out.extend(named.map(|request| Attributes { subresource: key.clone(), ..request }));
    }
    out
}

/// Adds the groups that come with the identity.
fn completed(mut user: User, mode: Option<Mode>) -> User {
    if mode == Some(Mode::Node) {
        user.groups = vec!["system:nodes".to_owned()];
    }
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account_of(&user.name)
    {
        user.groups = account_groups(namespace);
    }
    if user.name == ANONYMOUS && !user.groups.iter().any(|group| group == UNAUTHENTICATED) {
        user.groups.push(UNAUTHENTICATED.to_owned());
    }
    known(user)
}

/// Header names cannot hold every character of a key: clients escape them. What is no escape stays as it is.
pub(super) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match escape.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}
