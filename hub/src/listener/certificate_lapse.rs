//! When a request that goes on, as a watch does, must end because the certificate of its connection counts no more.
//!
//! In: whom the connection speaks for, and whether a request is under way. Out: a future that resolves at that moment.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, Pending};
use karmada_certs::PeerIdentity;

use super::Services;
use super::connections::ConnectionPermit;
use super::peer::Peer;

/// How often it is asked whether a certificate counts still.
const LOOK: Duration = Duration::from_secs(1);

/// Resolves when a request is under way over a certificate that counts no more, and has been for a whole look: a new request is
/// refused with words, which must have time to arrive. An agent's session ends by itself, and costs nothing here.
pub(super) fn lapse_of(
    services: &Services,
    peer: &Peer,
    place: &Arc<ConnectionPermit>,
) -> Either<Pending<()>, Pin<Box<impl Future<Output = ()> + use<>>>> {
    if peer.is_stranger() || peer.identity.as_ref().is_some_and(PeerIdentity::is_of_an_agent) {
        return Either::Left(futures::future::pending());
    }
    let (services, peer, place) = (services.clone(), peer.clone(), place.clone());
    Either::Right(Box::pin(async move {
        let mut looks = 0;
        while looks < 2 {
            tokio::time::sleep(LOOK).await;
            let goes_on = place.patience().is_none();
            looks = if goes_on && !peer.counts(&services) { looks + 1 } else { 0 };
        }
    }))
}
