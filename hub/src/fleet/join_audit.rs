//! What the audit log is told of joins, renewals and sessions, beside the requests of the API.
//!
//! In: an occurrence at the gateway. Out: the event, as a request for the Cluster's `agent` subresource.

use karmada_apiserver::audit::{NonRequestEvent, NonRequestResource};
use karmada_gateway::ports::Occurrence;

/// What the audit log is told of agents as.
const AGENTS: NonRequestResource = NonRequestResource {
    group: "cluster.karmada.io",
    version: "v1alpha1",
    plural: "clusters",
    part: "agent",
};

/// An occurrence as the audit log tells it.
pub(super) fn event<'a>(occurrence: &Occurrence<'a>) -> NonRequestEvent<'a> {
    let (code, message) = match occurrence.refused {
        Some(why) if occurrence.user.is_none() => (401, why),
        Some(why) => (403, why),
        None if occurrence.pending => (202, "it waits for a person, or for the name"),
        None => (200, ""),
    };
    let path = if occurrence.verb == "join" { "/fleet.v1.Fleet/Join" } else { "/fleet.v1.Fleet/Connect" };
    NonRequestEvent {
        verb: occurrence.verb,
        path,
        of: AGENTS,
        user: occurrence.user,
        name: occurrence.cluster,
        from: occurrence.from,
        code,
        message,
    }
}
