//! A proxy in front of this server that says in headers who asks.
//!
//! In: the common name of a client certificate that the proxies' own CA signed, put into the request's extensions by the
//! listener, and the headers. Out: the user they name. Without such a certificate the headers are not looked at.

use std::collections::BTreeMap;

use http::HeaderMap;
use karmada_definitions::status::Status;
use karmada_registry::User;

use crate::impersonate::percent_decoded;

/// The connection's other end: a proxy, by the common name of its verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyPeer(pub String);

/// Which proxies are believed, and which headers they speak in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxy {
    /// Common names; none means any that the CA signed.
    pub allowed_names: Vec<String>,
    /// Headers of the user name; the first one there counts.
    pub username_headers: Vec<String>,
    /// Headers of the uid.
    pub uid_headers: Vec<String>,
    /// Headers of groups.
    pub group_headers: Vec<String>,
    /// Beginnings of headers of further facts.
    pub extra_prefixes: Vec<String>,
}

impl Default for FrontProxy {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        FrontProxy {
            allowed_names: Vec::new(),
            username_headers: one("x-remote-user"),
            uid_headers: one("x-remote-uid"),
            group_headers: one("x-remote-group"),
            extra_prefixes: one("x-remote-extra-"),
        }
    }
}

/// Every text of the headers of these names.
fn values<'a>(headers: &'a HeaderMap, names: &'a [String]) -> impl Iterator<Item = &'a str> {
    let all = names.iter().flat_map(|name| headers.get_all(name.as_str()));
    all.filter_map(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

impl FrontProxy {
    /// The user that the headers name; `None` where they name none, so that the proxy asks for itself.
    ///
    /// # Errors
    /// 401 for a proxy that is not among the allowed ones.
    pub fn user(&self, peer: &ProxyPeer, headers: &HeaderMap) -> Result<Option<User>, Status> {
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&peer.0) {
            return Err(Status::unauthorized());
        }
        let Some(name) = values(headers, &self.username_headers).next() else { return Ok(None) };
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (header, value) in headers {
                let key = header.as_str().strip_prefix(prefix.to_lowercase().as_str());
                if let (Some(key), Ok(value)) = (key, value.to_str()) {
                    extra.entry(percent_decoded(key)).or_default().push(value.to_owned());
                }
            }
        }
        Ok(Some(User {
            name: name.to_owned(),
            uid: values(headers, &self.uid_headers).next().unwrap_or_default().to_owned(),
            groups: values(headers, &self.group_headers).map(str::to_owned).collect(),
            extra,
            ..User::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_the_allowed_proxies_to_set() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "jane"),
            ("x-remote-uid", "u1"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2fproject", "p"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let proxy = FrontProxy { allowed_names: vec!["front".into()], ..FrontProxy::default() };
        let user = proxy.user(&ProxyPeer("front".into()), &headers).unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.uid.as_str(), user.groups),
            ("jane", "u1", vec!["a".into(), "b".into()])
        );
        assert_eq!(user.extra, BTreeMap::from([("acme.com/project".to_owned(), vec!["p".to_owned()])]));
        assert_eq!(proxy.user(&ProxyPeer("other".into()), &headers).unwrap_err().code, 401);
        assert!(FrontProxy::default().user(&ProxyPeer("other".into()), &headers).unwrap().is_some());
        assert!(proxy.user(&ProxyPeer("front".into()), &HeaderMap::new()).unwrap().is_none());
    }
}
