//! ResourceInterpreterWebhookConfigurations as they are read, and which webhook is asked of a kind.
//!
//! In: objects of the API. Out: webhooks in the order in which they are looked at: that of `CONFIGURATION/NAME`. The first whose rules
//! name kind and operation is asked, and no other.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::object;
use karmada_interpreter::Operation;
use karmada_interpreter::question::Digest;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How long a webhook that says nothing of it may take, in seconds.
const WITHIN: u64 = 10;

/// What stands for everything in a rule.
const ALL: &str = "*";

/// One configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub struct WebhookConfiguration {
    /// Its webhooks.
    pub webhooks: Vec<Arc<Webhook>>,
}

/// One webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `CONFIGURATION/NAME`.
    pub whom: String,
    /// Its `clientConfig`.
    pub client: Value,
    /// How long it may take.
    pub within: Duration,
    rules: Vec<Rule>,
    /// Of all that its configuration says of it: an answer that was given under another digest counts no more.
    pub webhook_digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    kinds: Vec<String>,
    operations: Vec<String>,
}

impl Webhook {
    /// What stands for it where nobody needs to know its address: another text for another name or address. By whom it is believed does not count, as
    /// certificates are renewed.
    pub fn identity(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(self.whom.as_bytes());
        for part in ["url", "service"] {
            digest.update(b"\0");
            digest.update(self.client[part].to_string());
        }
        digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The kinds that its rules name, each by apiVersion and kind; of a rule that says `*` none.
    pub fn named_kinds(&self) -> Vec<(String, String)> {
        let is_plain = |rule: &&Rule| {
            ![&rule.groups, &rule.versions, &rule.kinds].into_iter().flatten().any(|one| one == "*")
        };
        let mut named = Vec::new();
        for rule in self.rules.iter().filter(is_plain) {
            for (group, version) in
                rule.groups.iter().flat_map(|group| rule.versions.iter().map(move |version| (group, version)))
            {
                let api_version =
                    if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                named.extend(rule.kinds.iter().map(|kind| (api_version.clone(), kind.clone())));
            }
        }
        named
    }
}

impl From<Value> for WebhookConfiguration {
    fn from(object: Value) -> Self {
        let name = object::name(&object);
        let webhooks = object["webhooks"].as_array().into_iter().flatten();
        Self { webhooks: webhooks.map(|webhook| Arc::new(Webhook::read(name, webhook))).collect() }
    }
}

impl Webhook {
    fn read(configuration: &str, webhook: &Value) -> Self {
        let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(WITHIN);
        Self {
            whom: format!("{configuration}/{}", webhook["name"].as_str().unwrap_or_default()),
            client: webhook["clientConfig"].clone(),
            within: Duration::from_secs(seconds.clamp(1, 30)),
            rules: webhook["rules"].as_array().into_iter().flatten().map(Rule::read).collect(),
            webhook_digest: Sha256::digest(webhook.to_string()).into(),
        }
    }

    /// Whether it is to be asked this of a kind.
    pub fn claims(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let (group, version) = object::group_version(api_version);
        self.rules.iter().any(|rule| {
            names(&rule.operations, operation.name())
                && names(&rule.groups, group)
                && names(&rule.versions, version)
                && names(&rule.kinds, kind)
        })
    }

    /// Whether it may be asked anything of a kind.
    pub fn concerns(&self, api_version: &str, kind: &str) -> bool {
        Operation::ALL.iter().any(|operation| self.claims(api_version, kind, *operation))
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let texts = |field: &str| {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        Self {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            kinds: texts("kinds"),
            operations: texts("operations"),
        }
    }
}

fn names(all: &[String], one: &str) -> bool {
    all.iter().any(|name| name == ALL || name == one)
}

/// All webhooks, in the order in which they are looked at.
pub fn in_order<'a>(configurations: impl Iterator<Item = &'a WebhookConfiguration>) -> Vec<Arc<Webhook>> {
    let mut all: Vec<Arc<Webhook>> = configurations.flat_map(|one| one.webhooks.iter().cloned()).collect();
    all.sort_by(|a, b| a.whom.cmp(&b.whom));
    all
}

/// The webhook that is asked this of a kind.
pub fn first<'a>(
    webhooks: &'a [Arc<Webhook>],
    api_version: &str,
    kind: &str,
    operation: Operation,
) -> Option<&'a Arc<Webhook>> {
    webhooks.iter().find(|webhook| webhook.claims(api_version, kind, operation))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(name: &str, webhooks: &Value) -> WebhookConfiguration {
        json!({"metadata": {"name": name}, "webhooks": webhooks}).into()
    }

    fn webhook(name: &str, (group, version, kind, operation): (&str, &str, &str, &str)) -> Value {
        json!({"name": name, "clientConfig": {"url": "https://h/"}, "rules": [{"apiGroups": [group], "apiVersions": [version],
            "kinds": [kind], "operations": [operation]}]})
    }

    #[test]
    fn kinds_are_named_where_no_part_says_all_and_a_renewed_certificate_is_the_same_webhook() {
        let plain = webhook("h", ("apps", "v1", "Deployment", "Retain"));
        let of = |webhook: &Value| configuration("c", &json!([webhook])).webhooks[0].clone();
        assert_eq!(of(&plain).named_kinds(), [("apps/v1".to_owned(), "Deployment".to_owned())]);
        assert_eq!(of(&webhook("h", ("", "v1", "Pod", "Retain"))).named_kinds()[0].0, "v1");
        for all in
            [("*", "v1", "Pod", "Retain"), ("apps", "*", "Pod", "Retain"), ("apps", "v1", "*", "Retain")]
        {
            assert!(of(&webhook("h", all)).named_kinds().is_empty(), "{all:?}");
        }
        let mut renewed = plain.clone();
        renewed["clientConfig"]["caBundle"] = json!("another");
        assert_eq!(of(&renewed).identity(), of(&plain).identity());
        assert_ne!(of(&renewed).webhook_digest, of(&plain).webhook_digest);
        renewed["clientConfig"]["url"] = json!("https://other/");
        assert_ne!(of(&renewed).identity(), of(&plain).identity());
        assert_ne!(
            of(&webhook("i", ("apps", "v1", "Deployment", "Retain"))).identity(),
            of(&plain).identity()
        );
    }

    #[test]
    fn a_rule_names_what_stands_in_all_its_parts() {
        let replica = Operation::InterpretReplica;
        for (rule, api_version, kind, operation, claims) in [
            (("apps", "v1", "Deployment", "InterpretReplica"), "apps/v1", "Deployment", replica, true),
            (("apps", "v1", "Deployment", "InterpretReplica"), "apps/v1", "StatefulSet", replica, false),
            (("apps", "v1", "Deployment", "InterpretReplica"), "apps/v1beta1", "Deployment", replica, false),
            (("apps", "v1", "Deployment", "InterpretReplica"), "x.io/v1", "Deployment", replica, false),
            (("apps", "v1", "Deployment", "Retain"), "apps/v1", "Deployment", replica, false),
            (("", "v1", "ConfigMap", "*"), "v1", "ConfigMap", Operation::InterpretDependency, true),
            (("", "v1", "ConfigMap", "*"), "apps/v1", "ConfigMap", Operation::InterpretDependency, false),
            (("*", "v1", "ConfigMap", "*"), "v1", "ConfigMap", replica, true),
            (("*", "*", "*", "*"), "x.io/v2", "Thing", Operation::AggregateStatus, true),
            (("*", "*", "*", "Retain"), "x.io/v2", "Thing", Operation::AggregateStatus, false),
            (("x.io", "*", "Thing", "ReviseReplica"), "x.io/v7", "Thing", Operation::ReviseReplica, true),
            (("x.io", "v1", "*", "ReviseReplica"), "x.io/v1", "Other", Operation::ReviseReplica, true),
        ] {
            let read = configuration("c", &json!([webhook("a.b", rule)]));
            let said = read.webhooks[0].claims(api_version, kind, operation);
            assert_eq!(said, claims, "{rule:?} of {api_version} {kind} {}", operation.name());
        }
    }

    #[test]
    fn parts_of_two_rules_are_not_mixed() {
        let rules = json!([{"apiGroups": ["a"], "apiVersions": ["v1"], "kinds": ["A", "B"], "operations": ["InterpretReplica"]},
            {"apiGroups": ["b"], "apiVersions": ["v1"], "kinds": ["C"], "operations": ["ReviseReplica", "AggregateStatus"]}]);
        let read = configuration("c", &json!([{"name": "n", "rules": rules}]));
        let claims = |version, kind, operation| read.webhooks[0].claims(version, kind, operation);
        assert!(claims("a/v1", "B", Operation::InterpretReplica));
        assert!(claims("b/v1", "C", Operation::AggregateStatus));
        assert!(
            !claims("a/v1", "C", Operation::InterpretReplica)
                && !claims("b/v1", "C", Operation::InterpretReplica)
        );
    }

    #[test]
    fn the_first_by_name_that_is_meant_is_asked() {
        let any = ("*", "*", "*", "*");
        let things = ("x.io", "v1", "Thing", "ReviseReplica");
        // Names are compared as one text, as Karmada does: `-` comes before `/`.
        let all = [
            configuration("b", &json!([webhook("a.one", any)])),
            configuration("a", &json!([webhook("z.two", any), webhook("b.three", things)])),
            configuration("a-first", &json!([webhook("four", ("*", "*", "*", "Retain"))])),
        ];
        let order = in_order(all.iter());
        let names: Vec<&str> = order.iter().map(|webhook| webhook.whom.as_str()).collect();
        assert_eq!(names, ["a-first/four", "a/b.three", "a/z.two", "b/a.one"]);
        let asked = |kind, operation| first(&order, "x.io/v1", kind, operation).map(|one| one.whom.as_str());
        assert_eq!(asked("Thing", Operation::ReviseReplica), Some("a/b.three"));
        assert_eq!(asked("Thing", Operation::InterpretReplica), Some("a/z.two"));
        assert_eq!(asked("Thing", Operation::Retain), Some("a-first/four"));
        assert!(first(&order[1..2], "x.io/v1", "Other", Operation::ReviseReplica).is_none());
    }

    #[test]
    fn what_a_webhook_lacks_is_as_the_api_has_it_and_nonsense_claims_nothing() {
        let read = configuration("c", &json!([{"name": "n"}, {"timeoutSeconds": 3, "rules": {}}, 7]));
        let within: Vec<u64> = read.webhooks.iter().map(|webhook| webhook.within.as_secs()).collect();
        assert_eq!(within, [10, 3, 10]);
        assert!(!read.webhooks.iter().any(|webhook| webhook.concerns("v1", "ConfigMap")));
        assert_ne!(read.webhooks[0].webhook_digest, read.webhooks[1].webhook_digest);
    }
}
