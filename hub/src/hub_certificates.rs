//! Ends of certificates, and changes of the CA: the hub's own certificates are replaced in time, what it signs with and whom it
//! trusts is taken from the data directory as it is there, and each end is told of.
//!
//! In: the data directory, a clock. Out: a fresh kubeconfig, server certificate and front proxy's certificate in a hub that runs for
//! years; the bundle of CAs published wherever it is read; agents told, and those cut off whose CA was dropped; warnings in the log
//! and lines of `/metrics`. Runs until told to stop.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use karmada_apiserver::aggregation::{Aggregator, ClientIdentity};
use karmada_certs::PeerIdentity;
use karmada_gateway::Gateway;
use karmada_registry::{Clock, Registry};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::data_dir::{DataDir, lasts};
use crate::server_certificate::PortTls;
use crate::settings::ProxySettings;
use crate::{cluster_info, extension_apiserver_authentication};

/// How often the directory of the CA is looked at.
const PAUSE: Duration = Duration::from_secs(5);

/// How often the ends are looked at.
const LOOK: Duration = Duration::from_secs(12 * 3600);

/// A wall clock that goes elsewhere than time does by more than this was set: what was concluded from it is looked at again.
const SET: Duration = Duration::from_secs(60);

/// From when on the end of a CA is warned of, and that of a certificate, which should have been renewed before.
const WARNED_CA: i64 = 365 * 24 * 3600;
const WARNED: i64 = 30 * 24 * 3600;

/// Everything that holds a certificate or a CA.
pub struct CertificateHolders {
    /// Where they are kept.
    pub data: Arc<DataDir>,
    /// The hub's URL, for kubeconfigs.
    pub url: String,
    /// The port.
    pub tls: Arc<PortTls>,
    /// Shows the front proxy's certificate.
    pub aggregator: Arc<Aggregator>,
    /// Where the bundle is published.
    pub registry: Arc<Registry>,
    /// The proxy in front of the hub.
    pub in_front: Option<ProxySettings>,
    /// The bundle for controllers.
    pub bundle: watch::Sender<Arc<str>>,
    /// The agents.
    pub gateway: Arc<Gateway>,
}

/// When one certificate ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Which certificate it is.
    pub certificate: &'static str,
    /// The CA that signed it; its own name where it is a CA.
    pub authority: String,
    /// When it ends.
    pub end: Timestamp,
    /// Whether it is a CA.
    pub is_authority: bool,
}

/// Keeps the holders' certificates from ending.
pub struct Renewal {
    holders: CertificateHolders,
    /// The front proxy's certificate, and the CA that it is of.
    proxy: Mutex<(PeerIdentity, u64)>,
    /// What was published last: the revisions of both bundles.
    published: Mutex<(u64, u64)>,
}

impl Renewal {
    /// For holders that have all been given what the directory holds now; `proxy` is the certificate that the aggregator shows.
    pub fn new(holders: CertificateHolders, proxy: PeerIdentity) -> Arc<Renewal> {
        let of = (holders.data.authorities().revision(), holders.data.front_proxy().revision());
        Arc::new(Renewal { holders, proxy: Mutex::new((proxy, of.1)), published: Mutex::new(of) })
    }

    /// Looks again and again.
    pub async fn run(self: Arc<Self>, clock: Clock, stop: CancellationToken) {
        let started = Instant::now();
        let mut looked = None;
        loop {
            let changed = self.holders.data.reload().unwrap_or_else(|error| {
                tracing::warn!(error = format!("{error:#}"), "the CA in the data directory cannot be used");
                false
            });
            let now = clock();
            let at = (started.elapsed(), now);
            if changed || is_due(looked, at) {
                looked = Some(at);
                self.renew(now);
                self.warn(now);
            }
            if let Err(error) = self.publish().await {
                tracing::warn!(error = format!("{error:#}"), "the changed CA is published again soon");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Replaces what ends soon, or is of a CA that does not sign any more.
    fn renew(&self, now: Timestamp) {
        let CertificateHolders { data, url, tls, .. } = &self.holders;
        if let Err(error) = data.write_kubeconfig(url, now) {
            tracing::warn!(error = format!("{error:#}"), "the administrator's kubeconfig cannot be renewed");
        }
        match tls.renew(now) {
            Ok(true) => {
                tracing::info!(until = %tls.shown().certificate.not_after, "the hub's server certificate is a new one");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the server certificate cannot be renewed");
            }
        }
        if let Err(error) = self.renew_proxy(now) {
            tracing::warn!(error = format!("{error:#}"), "the front proxy's certificate cannot be renewed");
        }
    }

    fn renew_proxy(&self, now: Timestamp) -> Result<()> {
        let data = &self.holders.data;
        let mut shown = self.proxy.lock();
        let of = data.front_proxy().revision();
        if shown.1 == of && lasts(&shown.0, now) {
            return Ok(());
        }
        let made = data.front_proxy_client(now)?;
        *shown = (PeerIdentity::from_pem(&made.certificate_pem)?, of);
        let identity = ClientIdentity { certificate_pem: made.certificate_pem, key_pem: made.key_pem };
        self.holders.aggregator.identify(identity);
        Ok(())
    }

    /// Tells everybody whom to trust, where that is not what was told last; and sends those away whose CA was dropped.
    async fn publish(&self) -> Result<()> {
        let CertificateHolders { data, url, registry, in_front, bundle, gateway, .. } = &self.holders;
        let (authorities, front) = (data.authorities(), data.front_proxy());
        let now = (authorities.revision(), front.revision());
        let before = *self.published.lock();
        if before == now {
            return Ok(());
        }
        extension_apiserver_authentication::publish(registry, data, in_front.as_ref()).await?;
        if before.0 != now.0 {
            let pem = authorities.bundle_pem();
            cluster_info::publish(registry, url, &pem).await?;
            bundle.send_replace(pem.into());
            let sent_away = gateway.send_away(|peer| !authorities.trusts(peer));
            let signs = authorities.ends().first().map(|ca| ca.name.clone()).unwrap_or_default();
            tracing::warn!(signs, trusted = authorities.ends().len(), sent_away, "the hub's CA changed");
            gateway.tell_trust(now.0).await;
        }
        *self.published.lock() = now;
        Ok(())
    }

    /// Every end there is.
    pub fn ends(&self) -> Vec<End> {
        let CertificateHolders { data, tls, .. } = &self.holders;
        let leaf = |certificate, peer: &PeerIdentity| End {
            certificate,
            authority: peer.issuer.clone(),
            end: peer.not_after,
            is_authority: false,
        };
        let mut ends = vec![leaf("server", &tls.shown().certificate)];
        ends.extend(data.administrator().map(|peer| leaf("admin.kubeconfig", &peer)));
        ends.push(leaf("front-proxy-client", &self.proxy.lock().0));
        for (names, all) in [
            (["ca", "ca-older"], data.authorities()),
            (["front-proxy-ca", "front-proxy-ca-older"], data.front_proxy()),
        ] {
            ends.extend(names.into_iter().zip(all.ends()).map(|(certificate, ca)| End {
                certificate,
                authority: ca.name.clone(),
                end: ca.end,
                is_authority: true,
            }));
        }
        ends
    }

    fn warn(&self, now: Timestamp) {
        for end in self.ends() {
            if let Some(days) = days_to_warn_of(&end, now) {
                let End { certificate, authority, end, .. } = end;
                tracing::warn!(certificate, authority, %end, days, "{}", what_to_do(certificate));
            }
        }
    }

    /// The lines of `/metrics`.
    pub fn page(&self) -> String {
        let name = "karmada_hub_certificate_expiration_timestamp_seconds";
        let mut out =
            format!("# HELP {name} When the hub's own certificates and CAs end.\n# TYPE {name} gauge\n");
        for End { certificate, authority, end, is_authority } in self.ends() {
            let _ = writeln!(
                out,
                "{name}{{certificate={certificate:?},authority={authority:?},is_ca=\"{is_authority}\"}} {}",
                end.as_second()
            );
        }
        out
    }
}

/// Whether the ends are to be looked at, that were at the time and the hour of `looked`.
fn is_due(looked: Option<(Duration, Timestamp)>, (elapsed, now): (Duration, Timestamp)) -> bool {
    let Some((then, hour)) = looked else { return true };
    let (passed, shown) = (elapsed.saturating_sub(then), now.as_second().saturating_sub(hour.as_second()));
    let astray = shown.abs_diff(passed.as_secs().cast_signed());
    passed >= LOOK || astray > SET.as_secs()
}

/// Days that are left, where that is little enough to be told; below 0: it has ended.
fn days_to_warn_of(end: &End, now: Timestamp) -> Option<i64> {
    let left = end.end.as_second() - now.as_second();
    let warned = if end.is_authority { WARNED_CA } else { WARNED };
    (left < warned).then(|| left.div_euclid(24 * 3600))
}

fn what_to_do(certificate: &str) -> &'static str {
    match certificate {
        "ca" => {
            "the hub's CA ends: nobody believes the hub from then on. Make a new one before: karmada-hub certs new-ca"
        }
        "ca-older" => {
            "the older CA ends, and with it what is of it: karmada-hub certs drop-older-ca when nothing is"
        }
        "front-proxy-ca" => {
            "the front proxy's CA ends: groups that other servers answer are lost from then on. Make a new one before: \
             karmada-hub certs new-ca --of front-proxy"
        }
        "front-proxy-ca-older" => {
            "the front proxy's older CA ends: karmada-hub certs drop-older-ca --of front-proxy"
        }
        _ => "a certificate of the hub's own ends, and was not renewed: see the log above",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_looked_at_again_in_either_direction() {
        let at = |passed: u64, hour: i64| {
            (Duration::from_secs(passed), Timestamp::from_second(1_760_000_000 + hour).unwrap())
        };
        let looked = Some(at(100, 0));
        assert!(is_due(None, at(0, 0)));
        for (now, due) in [
            (at(105, 5), false),
            (at(105, 63_000_000), true),
            (at(105, -63_000_000), true),
            (at(100 + 12 * 3600, 12 * 3600), true),
            (at(99 + 12 * 3600, 12 * 3600), false),
        ] {
            assert_eq!(is_due(looked, now), due, "{now:?}");
        }
    }

    #[test]
    fn ends_are_told_of_while_there_is_time() {
        let day = |day: i64| Timestamp::from_second(1_760_000_000 + day * 24 * 3600).unwrap();
        let end = |certificate, is_authority, at| End {
            certificate,
            authority: "CN=a".to_owned(),
            end: day(at),
            is_authority,
        };
        let ca = end("ca", true, 3650);
        for (now, told) in [(0, None), (3284, None), (3286, Some(364)), (3650, Some(0)), (3651, Some(-1))] {
            assert_eq!(days_to_warn_of(&ca, day(now)), told, "{now}");
        }
        let server = end("server", false, 400);
        assert_eq!(days_to_warn_of(&server, day(369)), None, "it is renewed before");
        assert_eq!(days_to_warn_of(&server, day(371)), Some(29));
        assert!(what_to_do("ca").contains("new-ca") && what_to_do("server").contains("not renewed"));
    }
}
