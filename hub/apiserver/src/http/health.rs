//! What probes look at: `/healthz`, `/livez`, `/readyz`, each check of theirs, and the same as figures (`/metrics/slis`).
//!
//! In: a path and its query, and how what can fail while the hub runs stands (whether writes reach the store, whether a key service answers). Out: `ok`, a line for each check, or a 500 that says which one failed.
//!
//! The checks bear kube-apiserver's names, which monitoring asks for. Most of them are of things that are started, and here all
//! of them are before the port is opened: an answer is the proof. What can fail later is handed in; only `/readyz` fails by it, as
//! a new start would not mend a disk.

use http::{Response, StatusCode};

use super::answer_body::Body;
use super::respond;
use super::target::Query;

/// Every check of kube-apiserver's that `/healthz` and `/livez` have; `/readyz` has one more.
const CHECKS: [&str; 20] = [
    "ping",
    "log",
    STORE,
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
];

/// The store's check, under the name that monitoring knows.
pub const STORE: &str = "etcd";
const SYNCED: &str = "informer-sync";

/// The results of the checks of what can fail while the hub runs, by the check's name.
pub type CheckResults = [(&'static str, Result<(), String>)];

/// The checks of a probe: those that are always there, and what else is handed in.
fn checks<'a>(probe: &str, given: &'a CheckResults) -> impl Iterator<Item = &'static str> + use<'a> {
    let more = given.iter().map(|(name, _)| *name).filter(|name| !CHECKS.contains(name));
    CHECKS.into_iter().chain(more).chain((probe == "readyz").then_some(SYNCED))
}

/// How a check stands: `Ok(true)` where it is passed over.
fn check(probe: &str, name: &str, excluded: &[&str], given: &CheckResults) -> Result<bool, String> {
    let found = given.iter().find(|(known, _)| *known == name);
    match found {
        _ if excluded.contains(&name) => Ok(true),
        Some((_, Err(_))) if probe != "readyz" => Ok(true),
        Some((_, Err(why))) => Err(why.clone()),
        _ => Ok(false),
    }
}

/// The answer to `/PROBE` or to `/PROBE/CHECK`; `None` where there is no such check.
pub(super) fn answer(probe: &str, one: &str, query: &Query, given: &CheckResults) -> Option<Response<Body>> {
    if !one.is_empty() {
        let name = checks(probe, given).find(|name| *name == one)?;
        return Some(match check(probe, name, &[], given) {
            Ok(_) => respond::text_as("ok".to_owned(), PLAIN),
            Err(why) => failed(format!("internal server error: {why}\n")),
        });
    }
    let excluded = query.all("exclude");
    let (mut lines, mut well) = (String::new(), true);
    for name in checks(probe, given) {
        let line = match check(probe, name, &excluded, given) {
            Ok(false) => format!("[+]{name} ok\n"),
            Ok(true) => format!("[+]{name} excluded: ok\n"),
            Err(why) => {
                well = false;
                format!("[-]{name} failed: {why}\n")
            }
        };
        lines.push_str(&line);
    }
    Some(match (well, query.all("verbose").is_empty()) {
        (true, true) => respond::text("ok"),
        (true, false) => respond::text_as(format!("{lines}{probe} check passed\n"), PLAIN),
        (false, _) => failed(format!("{lines}{probe} check failed\n")),
    })
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn failed(text: String) -> Response<Body> {
    let mut answer = respond::text_as(text, PLAIN);
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}

/// The checks as figures: 1 where one passes.
pub(super) fn figures(given: &CheckResults) -> String {
    let mut page =
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
        # TYPE kubernetes_healthcheck gauge\n"
            .to_owned();
    for probe in ["healthz", "livez", "readyz"] {
        for name in checks(probe, given) {
            let passes = u8::from(check(probe, name, &[], given).is_ok());
            page.push_str(&format!("kubernetes_healthcheck{{name=\"{name}\",type=\"{probe}\"}} {passes}\n"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn asked(probe: &str, one: &str, query: &str, given: &CheckResults) -> Option<(u16, String)> {
        let answer = answer(probe, one, &Query::parse(query), given)?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Some((code, String::from_utf8(body.to_vec()).unwrap()))
    }

    #[tokio::test]
    async fn each_check_is_told_to_who_asks() {
        let well = [(STORE, Ok(()))];
        for probe in ["healthz", "livez", "readyz"] {
            assert_eq!(asked(probe, "", "", &well).await, Some((200, "ok".to_owned())));
            let (code, text) = asked(probe, "", "verbose", &well).await.unwrap();
            assert_eq!(code, 200);
            assert!(text.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n"), "{text}");
            assert!(text.ends_with(&format!("{probe} check passed\n")), "{text}");
            assert_eq!(text.contains("[+]informer-sync ok\n"), probe == "readyz");
            assert_eq!(asked(probe, "ping", "", &well).await, Some((200, "ok".to_owned())));
            assert_eq!(asked(probe, "bananas", "", &well).await, None);
        }
        let (_, text) = asked("readyz", "", "verbose&exclude=ping", &well).await.unwrap();
        assert!(text.starts_with("[+]ping excluded: ok\n"), "{text}");
    }

    #[tokio::test]
    async fn a_store_that_takes_no_writes_makes_it_unready_and_no_more() {
        let full = [
            (STORE, Err("the disk is full".to_owned())),
            ("kms-providers", Err("nobody answers".to_owned())),
        ];
        let (code, text) = asked("readyz", "", "", &full).await.unwrap();
        assert!(code == 500 && text.contains("[-]etcd failed: the disk is full\n"), "{text}");
        assert_eq!(asked("readyz", "etcd", "", &full).await.unwrap().0, 500);
        assert_eq!(asked("livez", "", "", &full).await, Some((200, "ok".to_owned())));
        assert!(asked("livez", "", "verbose", &full).await.unwrap().1.contains("[+]etcd excluded: ok\n"));
        assert!(text.contains("[-]kms-providers failed: nobody answers\n"), "{text}");
        let exclude = "exclude=etcd&exclude=kms-providers";
        assert_eq!(asked("readyz", "", exclude, &full).await, Some((200, "ok".to_owned())));
        assert!(figures(&full).contains("{name=\"etcd\",type=\"readyz\"} 0\n"));
        assert!(figures(&full).contains("{name=\"etcd\",type=\"livez\"} 1\n"));
    }
}
