//! Which FlowSchema a request belongs to, and which flow of it.
//!
//! Pure. In: stored FlowSchemas; a user and attributes. Out: the first schema that matches, by `matchingPrecedence` and name,
//! and the number of the flow, as kube-apiserver's rules.

use karmada_kinds::flow_control;
use karmada_registry::{Attributes, User};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// By what requests of one schema are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    User,
    Namespace,
    None,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
    /// Namespace and name.
    Account(String, String),
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    namespaces: Vec<String>,
    cluster: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Vec<String>,
    paths: Vec<String>,
}

#[derive(Debug)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

/// A FlowSchema.
#[derive(Debug)]
pub(super) struct Schema {
    pub name: String,
    pub uid: String,
    pub level: String,
    precedence: i64,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// Every schema in the order in which they are tried; the mandatory ones are there whether they are stored or not.
pub(super) fn in_order(stored: &[Value]) -> Vec<Schema> {
    let mut all: Vec<Schema> = stored.iter().map(Schema::read).collect();
    for mandatory in flow_control::mandatory_schemas() {
        let mandatory = Schema::read(&mandatory);
        if !all.iter().any(|schema| schema.name == mandatory.name) {
            all.push(mandatory);
        }
    }
    all.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    all
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn each<T>(value: &Value, field: &str, read: impl FnMut(&Value) -> T) -> Vec<T> {
    value[field].as_array().into_iter().flatten().map(read).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

impl Schema {
    fn read(object: &Value) -> Schema {
        let spec = &object["spec"];
        let rule = |rule: &Value| Rule {
            subjects: each(rule, "subjects", Subject::read).into_iter().flatten().collect(),
            resources: each(rule, "resourceRules", |rule| ResourceRule {
                verbs: texts(rule, "verbs"),
                groups: texts(rule, "apiGroups"),
                resources: texts(rule, "resources"),
                namespaces: texts(rule, "namespaces"),
                cluster: rule["clusterScope"] == true,
            }),
            paths: each(rule, "nonResourceRules", |rule| PathRule {
                verbs: texts(rule, "verbs"),
                paths: texts(rule, "nonResourceURLs"),
            }),
        };
        Schema {
            name: text(&object["metadata"], "name"),
            uid: text(&object["metadata"], "uid"),
            level: text(&spec["priorityLevelConfiguration"], "name"),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(1000),
            distinguisher: match spec["distinguisherMethod"]["type"].as_str() {
                Some("ByUser") => Distinguisher::User,
                Some("ByNamespace") => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: each(spec, "rules", rule),
        }
    }

    /// Whether the request is one of the schema's.
    pub(super) fn matches(&self, user: &User, request: &Attributes) -> bool {
        self.rules.iter().any(|rule| {
            rule.subjects.iter().any(|subject| subject.is(user))
                && match request.is_resource() {
                    true => rule.resources.iter().any(|rule| rule.matches(request)),
                    false => rule.paths.iter().any(|rule| rule.matches(request)),
                }
        })
    }

    /// The number of the request's flow.
    pub(super) fn flow(&self, user: &User, request: &Attributes) -> u64 {
        let distinguished = match self.distinguisher {
            Distinguisher::User => &*user.name,
            Distinguisher::Namespace => &*request.namespace,
            Distinguisher::None => "",
        };
        let digest =
            Sha256::new().chain_update(&self.name).chain_update(",").chain_update(distinguished).finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Subject> {
        match subject["kind"].as_str()? {
            "User" => Some(Subject::User(text(&subject["user"], "name"))),
            "Group" => Some(Subject::Group(text(&subject["group"], "name"))),
            "ServiceAccount" => {
                let account = &subject["serviceAccount"];
                Some(Subject::Account(text(account, "namespace"), text(account, "name")))
            }
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => name == "*" || *name == user.name,
            Subject::Group(group) => group == "*" || user.groups.contains(group),
            Subject::Account(namespace, name) => {
                let own = user
                    .name
                    .strip_prefix(karmada_registry::user::SERVICE_ACCOUNT)
                    .and_then(|rest| rest.split_once(':'));
                own.is_some_and(|(in_, called)| in_ == namespace && (name == "*" || called == name))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, request: &Attributes) -> bool {
        let place = || match &*request.namespace {
            "" => self.cluster,
            namespace => has(&self.namespaces, namespace),
        };
        has(&self.verbs, &request.verb)
            && has(&self.resources, &request.combined_resource())
            && has(&self.groups, &request.group)
            && place()
    }
}

impl PathRule {
    fn matches(&self, request: &Attributes) -> bool {
        has(&self.verbs, &request.verb)
            && self.paths.iter().any(|path| {
                let prefix = path.strip_suffix('*').unwrap_or(path);
                let below = if prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") };
                path == "*" || *path == request.path || request.path.starts_with(&below)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.into(), groups, ..User::default() }
    }

    #[test]
    fn requests_go_where_kube_apiserver_sends_them() {
        let schemas = in_order(&flow_control::schemas());
        let known = "system:authenticated";
        let about = |verb: &str, group: &str, resource: &str, namespace: &str| Attributes {
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            ..Attributes::default()
        };
        let (leases, pods) =
            (about("update", "coordination.k8s.io", "leases", "a"), about("list", "", "pods", ""));
        let robot = "system:serviceaccount:kube-system:gc";
        let accounts = "system:serviceaccounts";
        for (user, request, schema, level) in [
            (person("root", &["system:masters", known]), &pods, "exempt", "exempt"),
            (person("jane", &[known]), &pods, "global-default", "global-default"),
            (person("jane", &[known]), &Attributes::path("get", "/healthz"), "probes", "exempt"),
            (person("jane", &[known]), &Attributes::path("get", "/healthz/etcd"), "probes", "exempt"),
            (person("jane", &[known]), &Attributes::path("get", "/apis"), "global-default", "global-default"),
            (
                person("system:anonymous", &["system:unauthenticated"]),
                &pods,
                "global-default",
                "global-default",
            ),
            (person("nobody", &[]), &pods, "catch-all", "catch-all"),
            (person("system:node:a", &["system:nodes", known]), &leases, "system-node-high", "node-high"),
            (person("system:node:a", &["system:nodes", known]), &pods, "system-nodes", "system"),
            (person(robot, &[accounts, known]), &leases, "system-leader-election", "leader-election"),
            (person(robot, &[accounts, known]), &pods, "kube-system-service-accounts", "workload-high"),
            (
                person("system:serviceaccount:a:b", &[accounts, known]),
                &pods,
                "service-accounts",
                "workload-low",
            ),
            (person("system:kube-scheduler", &[known]), &pods, "kube-scheduler", "workload-high"),
        ] {
            let found = schemas.iter().find(|schema| schema.matches(&user, request));
            let found = found.map(|schema| (&*schema.name, &*schema.level));
            assert_eq!(
                found,
                if schema == "catch-all" { None } else { Some((schema, level)) },
                "{} {request:?}",
                user.name
            );
        }
    }

    #[test]
    fn flows_are_told_apart_by_what_the_schema_says() {
        let read = |kind: &str| {
            Schema::read(
                &serde_json::json!({"metadata": {"name": "s"}, "spec": {"distinguisherMethod": {"type": kind}}}),
            )
        };
        let at = |namespace: &str| Attributes { namespace: namespace.into(), ..Attributes::default() };
        let flow =
            |kind: &str, user: &str, namespace: &str| read(kind).flow(&person(user, &[]), &at(namespace));
        assert_ne!(flow("ByUser", "a", "n"), flow("ByUser", "b", "n"));
        assert_eq!(flow("ByUser", "a", "n"), flow("ByUser", "a", "m"));
        assert_ne!(flow("ByNamespace", "a", "n"), flow("ByNamespace", "a", "m"));
        assert_eq!(flow("", "a", "n"), flow("", "b", "m"));
    }
}
