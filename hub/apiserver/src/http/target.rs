//! What a path and a query name: a resource, or a path of its own.
//!
//! In: a request's path, method and query. Out: a [`Target`], the attributes by which it is authorised, and the query's values decoded.
//! Nothing is refused here: what cannot be understood leads to nothing that is served.

use http::Method;

use super::Attributes;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Not a resource.
    Path(String),
    /// A resource, one of its objects, or a part of one.
    Resource(ResourcePath),
}

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub plural: String,
    pub name: String,
    pub subresource: String,
    /// What follows the subresource (a proxied path).
    pub rest: String,
    /// Whether the path itself asks for a watch.
    pub watch: bool,
    /// Whether nothing can be there: a part of the path is missing between two slashes, or namespaces are looked for inside of one.
    pub hollow: bool,
    /// Whether that part is the name of a namespace: every namespace is meant.
    pub unnamed: bool,
}

impl Target {
    pub(super) fn parse(path: &str) -> Target {
        // Escaped slashes part a path as others do.
        let path = &*decode(path);
        let other = || Target::Path(path.to_owned());
        if path.starts_with("//") {
            return other();
        }
        // A namespace without a name is every namespace.
        let every = path.replacen("/namespaces//", "/", 1);
        let unnamed = path.matches("/namespaces//").count() == 1;
        let path = if unnamed { &*every } else { path };
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return other(),
        };
        if rest.is_empty() {
            return other();
        }
        let mut wanted = ResourcePath {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            ..ResourcePath::default()
        };
        wanted.hollow = path.trim_matches('/').contains("//");
        // `/api/v1/watch/…` is how watches were asked for once, and still may be.
        let rest = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => {
                wanted.watch = true;
                rest
            }
            rest => rest,
        };
        wanted.unnamed = unnamed && !wanted.watch;
        // `namespaces/NAME/PLURAL…` is a namespaced path, `namespaces/NAME[/status|finalize]` the namespace itself.
        let rest = match rest {
            ["namespaces", name, subresource @ ("status" | "finalize")] => {
                wanted.namespace = (*name).to_owned();
                wanted.plural = "namespaces".to_owned();
                wanted.name = (*name).to_owned();
                wanted.subresource = (*subresource).to_owned();
                return Target::Resource(wanted);
            }
            ["namespaces", name, rest @ ..] if !rest.is_empty() => {
                // Otherwise a right that is held inside one namespace would count for every namespace.
                wanted.hollow |= rest[0] == "namespaces" && wanted.group.is_empty();
                wanted.namespace = (*name).to_owned();
                rest
            }
            ["namespaces", name] => {
                wanted.namespace = (*name).to_owned();
                rest
            }
            rest => rest,
        };
        wanted.plural = rest.first().map(|p| (*p).to_owned()).unwrap_or_default();
        wanted.name = rest.get(1).map(|p| (*p).to_owned()).unwrap_or_default();
        wanted.subresource = rest.get(2).map(|p| (*p).to_owned()).unwrap_or_default();
        wanted.rest = rest.get(3..).unwrap_or_default().join("/");
        Target::Resource(wanted)
    }

    /// What an authoriser sees.
    pub(super) fn attributes(&self, method: &Method, query: &Query) -> Attributes {
        match self {
            Target::Path(path) => Attributes {
                verb: method.as_str().to_lowercase(),
                path: path.clone(),
                ..Attributes::default()
            },
            Target::Resource(wanted) => {
                let mut name = wanted.name.clone();
                let one = !name.is_empty();
                let verb = match *method {
                    Method::GET | Method::HEAD if wanted.watch => "watch",
                    Method::GET | Method::HEAD if one => "get",
                    Method::GET | Method::HEAD if query.flag("watch") => "watch",
                    Method::GET | Method::HEAD => "list",
                    Method::POST => "create",
                    Method::PUT => "update",
                    Method::PATCH => "patch",
                    Method::DELETE if one => "delete",
                    Method::DELETE => "deletecollection",
                    _ => "",
                };
                // A list or watch of one name is judged as that name (as kube-apiserver does).
                if !one && matches!(verb, "list" | "watch" | "deletecollection") {
                    name = query.named().unwrap_or_default();
                }
                Attributes {
                    verb: verb.to_owned(),
                    group: wanted.group.clone(),
                    version: wanted.version.clone(),
                    resource: wanted.plural.clone(),
                    subresource: wanted.subresource.clone(),
                    namespace: wanted.namespace.clone(),
                    name,
                    path: String::new(),
                }
            }
        }
    }
}

/// The query's parameters, decoded, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The query of an address.
    pub(super) fn of(uri: &http::Uri) -> Query {
        Query::parse(uri.query().unwrap_or(""))
    }

    pub(super) fn parse(text: &str) -> Query {
        // What cannot be read is passed over, as Go does.
        let read = |pair: &&str| !pair.is_empty() && !pair.contains(';') && is_escaped_well(pair);
        let pairs = text.split('&').filter(read).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Query(pairs.collect())
    }

    /// The first value of a parameter, empty where absent.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }

    /// Every value of a parameter.
    pub(crate) fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.as_str()).collect()
    }

    /// A truth value, as Kubernetes reads one: anything but `false` and `0`, also nothing at all behind the name.
    pub(crate) fn flag(&self, key: &str) -> bool {
        let value = self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.to_lowercase());
        value.is_some_and(|value| !matches!(value.as_str(), "false" | "0"))
    }

    fn named(&self) -> Option<String> {
        let selector = self.get("fieldSelector");
        let name = selector.strip_prefix("metadata.name=")?;
        (!name.contains(',')).then(|| name.trim_start_matches('=').to_owned())
    }
}

/// Whether every percent sign begins an escape.
pub(super) fn is_escaped_well(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// Undoes percent encoding; bytes that are no UTF-8 become replacement characters, which match no name.
pub(super) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
        match (bytes[at], digits.and_then(|d| u8::from_str_radix(d, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_kubernetes_says_they_name() {
        for (path, query, method, wanted) in [
            ("/api/v1/namespaces/a/pods/b/log", "", "GET", "get /v1 a pods b log"),
            ("/api/v1/namespaces/a", "", "GET", "get /v1 a namespaces a "),
            ("/api/v1/namespaces", "", "GET", "list /v1  namespaces  "),
            ("/api/v1/namespaces/a/finalize", "", "PUT", "update /v1 a namespaces a finalize"),
            ("/apis/apps/v1/namespaces/a/deployments", "watch=1", "GET", "watch apps/v1 a deployments  "),
            (
                "/apis/apps/v1/deployments",
                "fieldSelector=metadata.name%3Dx",
                "GET",
                "list apps/v1  deployments x ",
            ),
            ("/api/v1/nodes/n%201", "", "DELETE", "delete /v1  nodes n 1 "),
            ("/api/v1/nodes/n%2Fstatus", "", "GET", "get /v1  nodes n status"),
            ("/api/v1/namespaces//pods", "", "GET", "list /v1  pods  "),
            ("/api/v1/namespaces/a/pods", "", "DELETE", "deletecollection /v1 a pods  "),
        ] {
            let attributes = Target::parse(path).attributes(&method.parse().unwrap(), &Query::parse(query));
            let a = &attributes;
            let text = format!(
                "{} {}/{} {} {} {} {}",
                a.verb, a.group, a.version, a.namespace, a.resource, a.name, a.subresource
            );
            assert_eq!(text, wanted, "{path}");
        }
        assert_eq!(Target::parse("/apis/apps/v1"), Target::Path("/apis/apps/v1".into()));
        assert_eq!(Target::parse("/version"), Target::Path("/version".into()));
    }
}
