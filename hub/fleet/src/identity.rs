//! Whether a certificate opens a session, and for which cluster.
//!
//! In: the certificate that an agent showed in the handshake, the moment, whether its CA is trusted, the Cluster that it names. Out: the
//! cluster's name, or why not. Pure.

use jiff::Timestamp;
use karmada_certs::PeerIdentity;
use karmada_core::registration::keys;
use karmada_gateway::ports::SessionRefusal;
use serde_json::Value;

/// Whether the hub trusts the CA that signed a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// It does.
    Trusted,
    /// It does not, or not any more.
    Dropped,
}

/// The cluster that a certificate is of, as far as the certificate itself says.
///
/// # Errors
/// It is no agent's, has ended, or is of a CA that was dropped.
pub fn cluster_of(peer: &PeerIdentity, authority: Authority, now: Timestamp) -> Result<&str, SessionRefusal> {
    let no_agent = || SessionRefusal::Unregistered("the certificate is not an agent's".to_owned());
    let name = peer.cluster().ok_or_else(no_agent)?;
    if peer.not_after <= now {
        return Err(SessionRefusal::Revoked(format!("the certificate ended on {}", peer.not_after)));
    }
    if authority == Authority::Dropped {
        let why = format!("the CA of the certificate ({}) is not trusted any more", peer.issuer);
        return Err(SessionRefusal::Revoked(why));
    }
    Ok(name)
}

/// Whether a key speaks for the cluster of this name, which the hub has, or not.
///
/// # Errors
/// It is not registered, or another key holds its name.
pub fn speaks_for(name: &str, cluster: Option<&Value>, key: &str) -> Result<(), SessionRefusal> {
    let gone = || SessionRefusal::Unregistered(format!("the cluster {name} is not registered (any more)"));
    let cluster = cluster.ok_or_else(gone)?;
    if keys::holds(cluster, key) {
        return Ok(());
    }
    Err(SessionRefusal::Revoked(format!("the cluster {name} was given to another key since")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn agent() -> PeerIdentity {
        let text = str::to_owned;
        PeerIdentity {
            common_name: karmada_api::names::agent_common_name("north"),
            organizations: vec![text("system:karmada:agents")],
            subject: text("CN=north"),
            issuer: text("CN=karmada-ca-1"),
            serial: text("1"),
            not_before: at(0),
            not_after: at(100),
            fingerprint: text("f"),
            key_fingerprint: text("k"),
        }
    }

    #[test]
    fn a_certificate_says_whose_it_is_until_it_ends_or_its_ca_is_dropped() {
        assert_eq!(cluster_of(&agent(), Authority::Trusted, at(99)), Ok("north"));
        let person = PeerIdentity { organizations: vec!["system:masters".to_owned()], ..agent() };
        let refused = |peer: &PeerIdentity, authority, now| cluster_of(peer, authority, now).unwrap_err();
        assert!(matches!(
            refused(&person, Authority::Trusted, at(1)),
            SessionRefusal::Unregistered(why) if why.contains("not an agent's")
        ));
        assert!(matches!(
            refused(&agent(), Authority::Trusted, at(100)),
            SessionRefusal::Revoked(why) if why.contains("ended on 1970-01-01T00:01:40Z")
        ));
        assert!(matches!(
            refused(&agent(), Authority::Dropped, at(1)),
            SessionRefusal::Revoked(why) if why.contains("CN=karmada-ca-1")
        ));
    }

    #[test]
    fn a_key_speaks_for_the_cluster_that_was_given_to_it() {
        let mut cluster = json!({"metadata": {"annotations": {}}});
        keys::give(&mut cluster, &["k"]);
        assert_eq!(speaks_for("north", Some(&cluster), "k"), Ok(()));
        assert!(matches!(speaks_for("north", Some(&cluster), "other"), Err(SessionRefusal::Revoked(_))));
        assert!(matches!(speaks_for("north", None, "k"), Err(SessionRefusal::Unregistered(_))));
    }
}
