//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! In: the user who asks and the headers. Out: the user they act as, if RBAC lets them (`impersonate` on users, groups,
//! serviceaccounts, uids, userextras), else 403 naming the first thing that they may not take on.

use std::collections::BTreeMap;

use http::HeaderMap;
use karmada_definitions::status::Status;
use karmada_registry::user::{ANONYMOUS, UNAUTHENTICATED, account_groups, service_account_of};
use karmada_registry::{Attributes, Authorize as _, User};

use crate::Authorizer;
use crate::authenticate::known;

const EXTRA: &str = "impersonate-extra-";
const GROUP: &str = "authentication.k8s.io";

/// The user that the request acts as: `user` itself where no such header is sent.
pub fn impersonate(
    authorizer: &Authorizer,
    user: User,
    headers: &HeaderMap,
    path: &str,
) -> Result<User, Status> {
    let wanted = wanted(headers)?;
    let anything = !wanted.groups.is_empty() || !wanted.uid.is_empty() || !wanted.extra.is_empty();
    if wanted.name.is_empty() {
        return if anything {
            Err(Status::plain(
                500,
                format!(
                    "Internal Server Error: \"{path}\": requested [{}] without impersonating a user\n",
                    asked(&wanted)
                ),
            ))
        } else {
            Ok(user)
        };
    }
    for request in requests(&wanted) {
        let decision = authorizer.authorize(&user, &request);
        if !decision.allowed {
            return Err(request.forbidden(&user, &decision.reason));
        }
    }
    Ok(completed(wanted))
}

/// What is asked for, as Go prints references to it.
fn asked(wanted: &User) -> String {
    let groups = wanted.groups.iter().map(|group| format!("{{Group  {group}    }}"));
    let extra = wanted.extra.iter().flat_map(|(key, values)| {
        values.iter().map(move |value| format!("{{UserExtra  {value}  {GROUP}/v1  {key}}}"))
    });
    let uid = (!wanted.uid.is_empty()).then(|| format!("{{UID  {}  {GROUP}/v1  }}", wanted.uid));
    groups.chain(extra).chain(uid).collect::<Vec<_>>().join(" ")
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

/// What must be allowed for somebody to become `wanted`.
fn requests(wanted: &User) -> Vec<Attributes> {
    let about = |group: &str, resource: &str, name: &str| Attributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        version: if group.is_empty() { String::new() } else { "v1".to_owned() },
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut out = vec![match service_account_of(&wanted.name) {
        Some((namespace, name)) => {
            Attributes { namespace: namespace.to_owned(), ..about("", "serviceaccounts", name) }
        }
        None => about("", "users", &wanted.name),
    }];
    out.extend(wanted.groups.iter().map(|group| about("", "groups", group)));
    for (key, values) in &wanted.extra {
        let named = values.iter().map(|value| about(GROUP, "userextras", value));
        out.extend(named.map(|request| Attributes { subresource: key.clone(), ..request }));
    }
    if !wanted.uid.is_empty() {
        out.push(about(GROUP, "uids", &wanted.uid));
    }
    out
}

/// Adds the groups that come with the identity.
fn completed(mut user: User) -> User {
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
