//! Renewing the agent's certificate over a session: when it is asked for, and what becomes of the answer.
//!
//! In: the certificate that is shown, the asks before, the hub's answer. Out: when to ask next; the renewed identity, kept.

use std::sync::atomic::Ordering;
use std::time::Duration;

use karmada_certs::agent_subject;
use karmada_proto::v1::RenewReply;
use tokio::time::Instant;

use super::{Carried, Link};
use crate::renewal_schedule;
use crate::session::Session;

/// A timer this far away never fires in practice and does not overflow.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// The wait before another certificate is asked for where the newest one is not valid yet: the clock of the hub that issued it was ahead.
const NOT_BEGUN: Duration = Duration::from_secs(60);

/// In how long a certificate is to be asked for, by the one that is shown.
pub(super) fn renew_after(link: &Link) -> Duration {
    let now = link.sources.now();
    // The newest one has not begun, and what is shown in its place was to be renewed already.
    if link.identity.shows_earlier(now) {
        return NOT_BEGUN;
    }
    link.identity.peer(now).map_or(FAR, |peer| renewal_schedule::due_in(&peer, now)).min(FAR)
}

/// When to ask, where it is to be in `due`: no earlier than the asks before allow.
pub(super) fn next_renewal(link: &Link, carried: &Carried, due: Duration) -> Instant {
    let now = link.sources.now();
    let earliest = link.identity.peer(now).map_or(Duration::ZERO, |peer| carried.asking.earliest(&peer, now));
    (Instant::now() + due).max(carried.started + earliest)
}

/// Asks for a new certificate; when to ask again, unless one comes that is not due.
pub(super) fn ask_for_renewal(link: &Link, carried: &mut Carried, session: &mut Session) -> Instant {
    let request =
        link.identity.key().and_then(|key| key.request(&agent_subject(&link.identity.cluster_name)));
    let now = link.sources.now();
    match (request, link.identity.peer(now)) {
        (Ok(csr), Ok(peer)) => {
            session.renew(csr.into());
            carried.asking.asks(carried.started.elapsed());
            next_renewal(link, carried, renewal_schedule::ask_again_in(&peer, now))
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "renewing the certificate");
            Instant::now() + FAR
        }
    }
}

/// Takes a new certificate. True where it is of another CA.
pub(super) async fn renewed(link: &mut Link, reply: RenewReply) -> Result<bool, String> {
    let now = link.sources.now();
    let of_another_ca = link.identity.renewed(reply, now)?;
    if let Ok(peer) = link.identity.peer(now) {
        link.shared.counts.certificate_ends.store(peer.not_after.as_second(), Ordering::Relaxed);
    }
    match link.identity_store.save(&link.identity).await {
        Ok(()) => tracing::info!("the certificate was renewed"),
        Err(error) => tracing::error!(%error, "keeping the renewed certificate"),
    }
    Ok(of_another_ca)
}
