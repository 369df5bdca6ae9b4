//! How many requests were answered, with which code, and how fast: what `/metrics` shows as `apiserver_request_*`.
//!
//! In: each request's attributes, its code, the time it took. Out: text for Prometheus. Labels are those of kube-apiserver, but for
//! what a client could make up: a resource that is not served has none, and past [`MOST`] combinations all others are one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use karmada_registry::Attributes;
use parking_lot::Mutex;

/// Combinations of labels that are told apart: definitions of custom kinds may make any number.
const MOST: usize = 1000;

/// Upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 11] = [0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// Paths that are no resource's and are told apart.
const PATHS: [&str; 8] = ["api", "apis", "healthz", "livez", "metrics", "openapi", "readyz", "version"];

/// Counts of one hub.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    /// By a digest of the labels, so that a look costs no copy of them.
    series: Mutex<BTreeMap<u64, Series>>,
}

#[derive(Debug, Default)]
struct Series {
    labels: String,
    codes: BTreeMap<u16, u64>,
    /// Those that took at most the bucket's end, and not the one before.
    buckets: [u64; BUCKETS.len()],
    timed: u64,
    seconds: f64,
}

/// What of a request is counted.
#[derive(Debug, Hash)]
pub(crate) struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

impl Labels {
    /// Of a request. `served`: whether its resource, and the part that it asks for, are there.
    pub(crate) fn of(attributes: &Attributes, served: bool) -> Labels {
        let none = || Labels {
            verb: verb(&attributes.verb),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
        };
        if attributes.resource.is_empty() {
            let first = attributes.path.split('/').find(|part| !part.is_empty()).unwrap_or_default();
            let known = PATHS.iter().find(|path| **path == first);
            return Labels {
                subresource: known.map(|path| format!("/{path}")).unwrap_or_default(),
                ..none()
            };
        }
        if !served {
            return none();
        }
        let scope = match (attributes.name.is_empty(), attributes.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Labels {
            group: attributes.group.clone(),
            version: attributes.version.clone(),
            resource: attributes.resource.clone(),
            subresource: attributes.subresource.clone(),
            scope,
            ..none()
        }
    }

    fn other() -> Labels {
        let empty = String::new;
        Labels {
            verb: "OTHER",
            group: empty(),
            version: empty(),
            resource: empty(),
            subresource: empty(),
            scope: "",
        }
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn text(&self) -> String {
        format!(
            "component=\"apiserver\",group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.group, self.resource, self.scope, self.subresource, self.verb, self.version
        )
    }
}

/// As kube-apiserver names verbs here.
fn verb(asked: &str) -> &'static str {
    match asked {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "head" => "HEAD",
        "options" => "OPTIONS",
        _ => "OTHER",
    }
}

impl RequestMetrics {
    /// A request was answered. `took` is none for one whose answer goes on: a watch.
    pub(crate) fn observe(&self, labels: &Labels, code: u16, took: Option<Duration>) {
        let mut all = self.series.lock();
        let digest = labels.digest();
        let series = if all.contains_key(&digest) || all.len() < MOST {
            all.entry(digest).or_insert_with(|| Series { labels: labels.text(), ..Series::default() })
        } else {
            let other = Labels::other();
            all.entry(other.digest()).or_insert_with(|| Series { labels: other.text(), ..Series::default() })
        };
        *series.codes.entry(code).or_default() += 1;
        if let Some(took) = took {
            let seconds = took.as_secs_f64();
            if let Some(at) = BUCKETS.iter().position(|end| seconds <= *end) {
                series.buckets[at] += 1;
            }
            series.timed += 1;
            series.seconds += seconds;
        }
    }

    /// The lines for `/metrics`.
    pub fn page(&self) -> String {
        let all = self.series.lock();
        let mut out = String::new();
        let name = "apiserver_request_total";
        out.push_str(&head(name, "counter", "Requests answered, by verb, resource and HTTP code."));
        for series in all.values() {
            for (code, count) in &series.codes {
                let _ = writeln!(out, "{name}{{code=\"{code}\",{}}} {count}", series.labels);
            }
        }
        let name = "apiserver_request_duration_seconds";
        out.push_str(&head(name, "histogram", "How long requests took that are no watches."));
        for series in all.values().filter(|series| series.timed > 0) {
            let (labels, mut sum) = (&series.labels, 0);
            for (end, count) in BUCKETS.iter().zip(series.buckets) {
                sum += count;
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {sum}");
            }
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", series.timed);
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", series.seconds);
            let _ = writeln!(out, "{name}_count{{{labels}}} {}", series.timed);
        }
        out
    }
}

fn head(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(verb: &str, resource: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn requests_are_counted_by_what_they_asked_and_the_answer() {
        let metrics = RequestMetrics::default();
        let list = Labels::of(&attributes("list", "deployments"), true);
        metrics.observe(&list, 200, Some(Duration::from_millis(20)));
        metrics.observe(&list, 200, Some(Duration::from_secs(2)));
        metrics.observe(&list, 403, Some(Duration::from_secs(100)));
        metrics.observe(&Labels::of(&attributes("watch", "deployments"), true), 200, None);
        metrics.observe(
            &Labels::of(&Attributes::path("get", "/healthz/etcd"), false),
            200,
            Some(Duration::ZERO),
        );
        let page = metrics.page();
        let labels = "component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"";
        for line in [
            format!("apiserver_request_total{{code=\"200\",{labels}}} 2"),
            format!("apiserver_request_total{{code=\"403\",{labels}}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.025\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"60\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("apiserver_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}: {page}");
        }
        assert!(
            page.contains("verb=\"WATCH\"") && page.contains("subresource=\"/healthz\",verb=\"GET\""),
            "{page}"
        );
        assert!(!page.contains("_count{component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\""));
    }

    #[test]
    fn what_clients_make_up_makes_no_series() {
        let metrics = RequestMetrics::default();
        for at in 0..10 {
            metrics.observe(&Labels::of(&attributes("get", &format!("made-up-{at}\"")), false), 404, None);
            metrics.observe(&Labels::of(&Attributes::path("brew", &format!("/pot-{at}")), false), 404, None);
        }
        assert_eq!(metrics.series.lock().len(), 2);
        for at in 0..2 * MOST {
            metrics.observe(&Labels::of(&attributes("get", &format!("kinds{at}")), true), 200, None);
        }
        assert_eq!(metrics.series.lock().len(), MOST);
        assert!(
            metrics.page().contains(&format!("verb=\"OTHER\",version=\"\"}} {}\n", MOST + 2)),
            "the rest is one"
        );
    }
}
