//! What a request wants, in the terms that roles are written in, and the answer.
//!
//! In: a user and [`Attributes`]. Out: a [`Decision`], or the 403 in kube-apiserver's words. Types and a port ([`Authorize`]): who decides
//! is outside.

use std::fmt::Write;

use karmada_definitions::status::{Details, Status};

use crate::user::User;

/// What a request wants: a verb on a resource, or on a path that is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …; for a path the HTTP method in
    /// lower case.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty for the cluster scope.
    pub namespace: String,
    /// Object name, or empty where the request names none.
    pub name: String,
    /// The path of a request that is about no resource; empty for one that is.
    pub path: String,
}

impl Attributes {
    /// A request about a path that is no resource, such as `/healthz`.
    pub fn path(verb: &str, path: &str) -> Self {
        Attributes { verb: verb.to_owned(), path: path.to_owned(), ..Attributes::default() }
    }

    /// Whether the request is about a resource.
    pub fn is_resource(&self) -> bool {
        self.path.is_empty()
    }

    /// `resource/subresource`, or the resource alone: as roles name it.
    pub fn combined_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The 403 for this request, worded as kube-apiserver's. `reason` is a [`Decision`]'s, mostly empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let mut why = escaped(&self.refusal(user));
        if !reason.is_empty() {
            let _ = write!(why, ": {reason}");
        }
        let (message, details) = if self.is_resource() {
            let what = match (self.group.as_str(), self.name.as_str()) {
                ("", "") => self.resource.clone(),
                ("", name) => format!("{} \"{name}\"", self.resource),
                (group, "") => format!("{}.{group}", self.resource),
                (group, name) => format!("{}.{group} \"{name}\"", self.resource),
            };
            let details = Details {
                name: self.name.clone(),
                group: self.group.clone(),
                kind: self.resource.clone(),
                ..Details::default()
            };
            (format!("{what} is forbidden: {why}"), details)
        } else {
            (format!("forbidden: {why}"), Details::default())
        };
        Status { code: 403, reason: "Forbidden".into(), message, details: Some(Box::new(details)) }
    }

    fn refusal(&self, user: &User) -> String {
        let (name, verb) = (&user.name, &self.verb);
        if !self.is_resource() {
            return format!("User \"{name}\" cannot {verb} path \"{}\"", self.path);
        }
        let (resource, group) = (self.combined_resource(), &self.group);
        let place = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        format!("User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}")
    }
}

/// Browsers may show the message: it must not be read as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a request is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is.
    pub allowed: bool,
    /// By which binding; or which roles could not be read. Often empty.
    pub reason: String,
}

/// Who decides what a user may do.
pub trait Authorize: Send + Sync {
    /// Whether `user` may do what `request` says.
    fn authorize(&self, user: &User, request: &Attributes) -> Decision;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_kubectl_users_know_them() {
        let user = User { name: "u".into(), ..User::default() };
        let list = Attributes { verb: "list".into(), resource: "pods".into(), ..Attributes::default() };
        let scale = Attributes {
            verb: "update".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "scale".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ..Attributes::default()
        };
        let table = [
            (
                Attributes { namespace: "default".into(), ..list.clone() },
                "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"",
            ),
            (
                list,
                "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                scale,
                "deployments.apps \"web\" is forbidden: User \"u\" cannot update resource \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"",
            ),
            (Attributes::path("get", "/x<y>"), "forbidden: User \"u\" cannot get path \"/x&lt;y&gt;\""),
        ];
        for (attributes, message) in table {
            let status = attributes.forbidden(&user, "");
            assert_eq!((status.code, status.message.as_str()), (403, message));
        }
    }
}
