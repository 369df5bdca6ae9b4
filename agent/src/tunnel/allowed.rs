//! What the site allows to be asked of its member by way of the hub. Pure.
//!
//! In: the site's words (`--allow-requests`), and the head of a request. Out: whether it goes on, or a sentence that says why not and what would
//! allow it. A request is taken apart as a Kubernetes API server does (its verb, resource and part); what cannot be told for sure counts as the
//! strongest that it may be. Whether the user may do it is the member's own RBAC's to say: this is beside it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// One sort of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Objects, what is served, and the member's health, read.
    Get,
    /// Lists of objects.
    List,
    /// Changes of objects, as they come.
    Watch,
    /// What containers print.
    Logs,
    /// Commands in containers.
    Exec,
    /// The terminals of containers.
    Attach,
    /// Connections to ports of Pods.
    PortForward,
    /// Requests to what runs on nodes and in Pods, other connections to parts of objects, and paths of the member that are no objects.
    Proxy,
    /// New objects, and what is posted to parts of them.
    Create,
    /// Objects, written whole.
    Update,
    /// Objects, changed in part.
    Patch,
    /// Objects, removed.
    Delete,
}

const SORTS: [(Sort, &str); 12] = [
    (Sort::Get, "get"),
    (Sort::List, "list"),
    (Sort::Watch, "watch"),
    (Sort::Logs, "logs"),
    (Sort::Exec, "exec"),
    (Sort::Attach, "attach"),
    (Sort::PortForward, "port-forward"),
    (Sort::Proxy, "proxy"),
    (Sort::Create, "create"),
    (Sort::Update, "update"),
    (Sort::Patch, "patch"),
    (Sort::Delete, "delete"),
];

/// What is allowed where nobody says otherwise.
pub const STANDARD: &str = "get,list,watch,logs";

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = SORTS.iter().find(|(sort, _)| sort == self).map_or("", |(_, word)| word);
        f.write_str(word)
    }
}

/// The sorts that are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed(BTreeSet<Sort>);

impl Default for Allowed {
    fn default() -> Self {
        Self([Sort::Get, Sort::List, Sort::Watch, Sort::Logs].into())
    }
}

impl FromStr for Allowed {
    type Err = String;

    /// Words with commas between; `all` is every one, `none` is none.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Self(BTreeSet::new())),
            "all" => return Ok(Self(SORTS.iter().map(|(sort, _)| *sort).collect())),
            _ => {}
        }
        let known = || SORTS.map(|(_, word)| word).join(", ");
        let words = text.split(',').map(|word| {
            let found = SORTS.iter().find(|(_, known)| *known == word.trim());
            found
                .map(|(sort, _)| *sort)
                .ok_or_else(|| format!("{:?} is none of: {}; or all, or none, alone", word.trim(), known()))
        });
        Ok(Self(words.collect::<Result<_, _>>()?))
    }
}

impl Allowed {
    /// Whether nothing is allowed at all.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request may go on. `path` with its query; `upgrades`: its connection is to become another protocol's.
    ///
    /// # Errors
    /// In words for who asked: the site does not allow requests of this sort, or never this one.
    pub fn check(&self, method: &str, path: &str, upgrades: bool) -> Result<Sort, String> {
        let sort = sort(method, path, upgrades)?;
        if self.0.contains(&sort) {
            return Ok(sort);
        }
        let allows = match self.0.iter().map(Sort::to_string).collect::<Vec<_>>().join(",") {
            nothing if nothing.is_empty() => "none".to_owned(),
            words => words,
        };
        Err(format!(
            "this site does not allow {sort} by way of the hub: its agent runs with --allow-requests={allows}, and would need {sort} in it"
        ))
    }
}

/// Which sort a request is.
fn sort(method: &str, path: &str, upgrades: bool) -> Result<Sort, String> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments = segments(path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some((resource, watches)) = resource(&segments) else {
        let is_read = ["GET", "HEAD"].contains(&method) && !upgrades;
        return if is_read && is_public(&segments) { Ok(Sort::Get) } else { Ok(Sort::Proxy) };
    };
    let (plural, is_named, part) = (resource.plural, resource.is_named, resource.part);
    match (plural, part) {
        ("pods", "log") if method == "GET" => return Ok(Sort::Logs),
        ("pods", "exec") => return Ok(Sort::Exec),
        ("pods", "attach") => return Ok(Sort::Attach),
        ("pods", "portforward") => return Ok(Sort::PortForward),
        (_, "proxy") => return Ok(Sort::Proxy),
        _ => {}
    }
    let reads = match method {
        "GET" | "HEAD" if watches || asks_to_watch(query) => Sort::Watch,
        "GET" | "HEAD" if is_named => Sort::Get,
        "GET" | "HEAD" => Sort::List,
        // Whatever takes a connection may be entered by a POST as well as by a GET.
        "POST" if upgrades => Sort::Proxy,
        "POST" => Sort::Create,
        "PUT" => Sort::Update,
        "PATCH" => Sort::Patch,
        "DELETE" => Sort::Delete,
        other => {
            return Err(format!("requests of the method {other:?} are not passed on to member clusters"));
        }
    };
    // Parts that are read stay what they are; one that takes the connection for itself is more than that.
    let is_a_connection = upgrades && (reads != Sort::Watch || !part.is_empty());
    Ok(if is_a_connection { Sort::Proxy } else { reads })
}

struct Resource<'a> {
    plural: &'a str,
    is_named: bool,
    part: &'a str,
}

/// The resource that a path is of, and whether it is the old form of a watch.
fn resource<'a>(segments: &[&'a str]) -> Option<(Resource<'a>, bool)> {
    let rest = match segments {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return None,
    };
    let (rest, watches) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
        // The old form of a proxy, which servers still may have.
        ["proxy", ..] => (&["", "", "proxy"][..], false),
        rest => (rest, false),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() && !matches!(rest[0], "status" | "finalize") => rest,
        rest => rest,
    };
    let plural = *rest.first()?;
    let part = rest.get(2).copied().unwrap_or_default();
    Some((Resource { plural, is_named: rest.len() > 1, part }, watches))
}

/// What everybody may read of a member who may read anything: what it serves, and how it is.
fn is_public(segments: &[&str]) -> bool {
    match segments {
        [] | ["api" | "apis", ..] => true,
        [first, ..] => matches!(*first, "version" | "openapi" | "healthz" | "livez" | "readyz"),
    }
}

fn asks_to_watch(query: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        decoded(name).is_some_and(|name| name == "watch")
            // As a kube-apiserver reads it: everything else is a yes.
            && decoded(value).is_none_or(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    })
}

/// The segments of a path, decoded. One that could be read in two ways goes nowhere.
fn segments(path: &str) -> Result<Vec<String>, String> {
    let wrong =
        || "this path is not passed on to member clusters: it can be read in more than one way".to_owned();
    let path = path.strip_prefix('/').ok_or_else(wrong)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let one = |segment: &str| {
        let segment = decoded(segment).ok_or_else(wrong)?;
        let leads_elsewhere = ["", ".", ".."].contains(&segment.as_str());
        let is_plain = !segment.contains(['/', '\\', '%', '?', '#']) && !segment.contains(char::is_control);
        if leads_elsewhere || !is_plain { Err(wrong()) } else { Ok(segment) }
    };
    path.split('/').map(one).collect()
}

/// Percent-decoded.
fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let table = "
            GET    /                                                  get
            GET    /api                                               get
            GET    /apis/apps/v1                                      get
            GET    /openapi/v3/apis/apps/v1                           get
            GET    /version                                           get
            GET    /readyz/ping                                       get
            GET    /metrics                                           proxy
            GET    /logs/kube-apiserver.log                           proxy
            GET    /debug/pprof/heap                                  proxy
            POST   /version                                           proxy
            GET    /api/v1/pods                                       list
            HEAD   /api/v1/pods                                       list
            GET    /api/v1/pods?watch=1                               watch
            GET    /api/v1/pods?a=b&watch                             watch
            GET    /api/v1/pods?w%61tch=true                          watch
            GET    /api/v1/pods?watch=false                           list
            GET    /api/v1/watch/namespaces/a/pods                    watch
            GET    /api/v1/namespaces                                 list
            GET    /api/v1/namespaces/a                               get
            GET    /api/v1/namespaces/a/                              get
            PUT    /api/v1/namespaces/a/finalize                      update
            GET    /api/v1/namespaces/a/status                        get
            GET    /api/v1/namespaces/a/pods                          list
            GET    /api/v1/namespaces/a/pods/p                        get
            GET    /api/v1/namespaces/a/pods/p/status                 get
            GET    /api/v1/namespaces/a/pods/p/log?follow=true        logs
            POST   /api/v1/namespaces/a/pods/p/log                    create
            GET    /api/v1/namespaces/a/pods/p/exec?command=sh        exec
            POST   /api/v1/namespaces/a/pods/p/exec                   exec
            GET    /api/v1/namespaces/a/pods/p/%65xec                 exec
            POST   /api/v1/namespaces/a/pods/p/attach                 attach
            POST   /api/v1/namespaces/a/pods/p/portforward            port-forward
            GET    /api/v1/namespaces/a/pods/p/proxy                  proxy
            GET    /api/v1/namespaces/a/pods/p/proxy/x/y              proxy
            GET    /api/v1/namespaces/a/services/s:http/proxy/        proxy
            GET    /api/v1/nodes/n/proxy/pods                         proxy
            GET    /api/v1/proxy/nodes/n/pods                         proxy
            POST   /api/v1/namespaces/a/pods                          create
            POST   /api/v1/namespaces/a/serviceaccounts/s/token       create
            POST   /apis/authorization.k8s.io/v1/selfsubjectaccessreviews create
            PUT    /apis/apps/v1/namespaces/a/deployments/d           update
            PATCH  /apis/apps/v1/namespaces/a/deployments/d/scale     patch
            DELETE /apis/apps/v1/namespaces/a/deployments/d           delete
            DELETE /apis/apps/v1/namespaces/a/deployments             delete";
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let found = sort(words[0], words[1], false).unwrap();
            assert_eq!(found.to_string(), words[2], "{line}");
        }
    }

    /// A connection that becomes another protocol's is entered, not read.
    #[test]
    fn what_takes_the_connection_is_no_reading() {
        for (method, path, wanted) in [
            ("GET", "/api/v1/pods?watch=true", Sort::Watch),
            ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", Sort::Logs),
            ("GET", "/api/v1/namespaces/a/pods/p/exec", Sort::Exec),
            (
                "GET",
                "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/v/console",
                Sort::Proxy,
            ),
            ("GET", "/apis/x/v1/namespaces/a/things/t/shell?watch=1", Sort::Proxy),
            ("POST", "/apis/x/v1/namespaces/a/things/t/shell", Sort::Proxy),
            ("GET", "/api/v1/namespaces/a/pods/p", Sort::Proxy),
            ("GET", "/version", Sort::Proxy),
        ] {
            assert_eq!(sort(method, path, true), Ok(wanted), "{path}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_goes_nowhere() {
        for path in [
            "api/v1/pods",
            "//api/v1/pods",
            "/api//v1/pods",
            "/api/v1/../../metrics",
            "/api/v1/namespaces/a/pods/p/log/../exec",
            "/api/v1/namespaces/a/pods/p%2fexec",
            "/api/v1/namespaces/a/pods/p%2Flog/exec",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/namespaces/a/pods/p/%2565xec",
            "/api/v1/namespaces/a/pods/p/ex%",
            "/api/v1/namespaces/a/pods/p/%ff",
            "/api/v1/namespaces/a/pods/p\\exec",
            "/api/v1/pods%0d%0aX: y",
        ] {
            assert!(sort("GET", path, false).is_err(), "{path}");
        }
        assert!(sort("CONNECT", "/api/v1/pods", false).is_err());
    }

    /// A kube-apiserver takes `false` and `0` for no, in any case, and everything else for yes.
    #[test]
    fn a_watch_is_a_watch_however_it_is_asked_for() {
        for value in ["f", "F", "no", "n", "off", ""] {
            assert_eq!(
                sort("GET", &format!("/api/v1/pods?watch={value}"), false),
                Ok(Sort::Watch),
                "watch={value}"
            );
        }
    }

    #[test]
    fn what_is_allowed_is_said_in_words() {
        assert_eq!(STANDARD.parse(), Ok(Allowed::default()));
        let check = |words: &str, method, path| words.parse::<Allowed>().unwrap().check(method, path, false);
        let exec = "/api/v1/namespaces/a/pods/p/exec";
        for (_, word) in SORTS {
            assert!(word.parse::<Allowed>().is_ok(), "{word}");
        }
        assert_eq!(check("all", "POST", exec), Ok(Sort::Exec));
        assert_eq!(check("get, exec", "POST", exec), Ok(Sort::Exec));
        let refused = check(STANDARD, "POST", exec).unwrap_err();
        assert!(
            refused.contains("exec") && refused.contains("--allow-requests=get,list,watch,logs"),
            "{refused}"
        );
        assert!(check("none", "GET", "/api").unwrap_err().contains("--allow-requests=none"));
        assert!("none".parse::<Allowed>().unwrap().is_none());
        for wrong in ["", "gets", "get,,list", "all,get"] {
            assert!(wrong.parse::<Allowed>().is_err(), "{wrong}");
        }
    }
}
