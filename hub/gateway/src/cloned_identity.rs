//! Two agents with one identity: a state directory that was copied, or a process that was started twice.
//!
//! In: a hello, and the session that its cluster has already. Out: a close for the second of two that live; nothing where the first is
//! the same process, or does not answer any more.

use std::time::Duration;

use karmada_proto::v1::{Close, CloseCode, Hello, RetryClass};

use crate::gateway::Gateway;
use crate::session::SessionOrder;
use crate::session_admission::{self, close};

/// A clone asks again this seldom: a person must look.
const PAUSE: Duration = Duration::from_secs(300);

/// What is known of the session that a cluster has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiveSession {
    /// None.
    None,
    /// The same process dialled again: the old session is dead, it only does not know.
    SameProcess,
    /// Another process shows the identity: ask the old one whether it lives.
    OtherProcess,
}

/// Compares the hello's boot id with the live session's.
fn live_session(live_boot_id: Option<&str>, hello: &Hello) -> LiveSession {
    match live_boot_id {
        None => LiveSession::None,
        Some(id) if id == hello.boot_id => LiveSession::SameProcess,
        Some(_) => LiveSession::OtherProcess,
    }
}

/// The close for the second of two living processes with one identity.
pub(crate) fn close_for_clone() -> Close {
    let message =
        "another process with this identity is connected and answers: was the agent's state copied?";
    close(CloseCode::Clone, RetryClass::RetryAfter, PAUSE, message.into())
}

/// Where another process shows the identity, asks the old session for a sign of life: silence means replaced,
/// an answer means a clone, and the newcomer is refused.
pub(crate) async fn refuse(gateway: &Gateway, cluster: &str, hello: &Hello) -> Result<(), Close> {
    let old = gateway.fleet.handle(cluster);
    let live_session = live_session(old.as_ref().map(|old| old.boot_id.as_str()), hello);
    let (Some(old), LiveSession::OtherProcess) = (old, live_session) else { return Ok(()) };
    // Whose key no longer holds is nobody's clone.
    if let Err(refused) = gateway.ports.registrar.authorize_session(&old.peer).await {
        gateway.end(&old, session_admission::refused(&refused));
        return Ok(());
    }
    let asked = gateway.now();
    old.order(SessionOrder::Probe);
    let answered = async {
        loop {
            let heard = old.heard.notified();
            match gateway.fleet.heard_in(&old) {
                Some(at) if at > asked => return true,
                Some(_) => heard.await,
                None => return false,
            }
        }
    };
    if tokio::time::timeout(gateway.options.probe_timeout, answered).await == Ok(true) {
        tracing::warn!(cluster, "two living agents with one identity: the second is refused");
        gateway.ports.statuses.clone_seen(cluster);
        return Err(close_for_clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_told_from_a_second_dial() {
        let hello = &Hello { boot_id: "b1".into(), ..Hello::default() };
        assert_eq!(live_session(None, hello), LiveSession::None);
        assert_eq!(live_session(Some("b1"), hello), LiveSession::SameProcess);
        assert_eq!(live_session(Some("b2"), hello), LiveSession::OtherProcess);
    }
}
