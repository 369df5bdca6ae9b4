//! What a site tells of where a Service is reached there, judged. Pure.
//!
//! In: the status of the Work by which its agent was asked. Out: of each EndpointSlice what an API server takes and somebody elsewhere can use,
//! and how it is called there. A site may tell anything: all of it is bounded, and of nothing but known fields.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use karmada_api::multi_cluster_service::{MemberSlice, ServiceEndpoints};
use karmada_api::work::Work;
use serde_json::{Map, Value, json};

use super::SLICES;

/// EndpointSlices of one Service that are taken from one site.
const MOST: usize = 100;
/// Endpoints that an API server takes in one EndpointSlice.
const ENDPOINTS: usize = 1000;
/// Ports that an API server takes in one EndpointSlice.
const PORTS: usize = 100;
/// The longest name of an EndpointSlice elsewhere: with what the name of its Work has beside it, one that an API server takes.
const NAME: usize = 240;
/// Bytes of what one site tells of one Service.
const TOLD: usize = 128 * 1024;

/// What the agent told, as it stands in the status of the Work by which it was asked; `None` where it told nothing yet.
pub fn answer(question: &Work) -> Option<ServiceEndpoints> {
    let status = question.status.manifest_statuses.first()?.status.as_ref()?;
    // It is multiplied by those that reach it: an agent keeps to less than this.
    if status.to_string().len() > TOLD {
        return None;
    }
    serde_json::from_value(status.clone()).ok()
}

/// How the EndpointSlice of a cluster is called elsewhere: `CLUSTER-SLICE`. Where that is how one of another cluster is called as well, whose name
/// goes on with a hyphen and the slice's first letters, `CLUSTER.SLICE`: no cluster's name has a dot.
pub fn joined(cluster: &str, slice: &str, is_cluster: impl Fn(&str) -> bool) -> String {
    let usual = format!("{cluster}-{slice}");
    let ends = usual.match_indices('-').map(|(at, _)| at).filter(|at| *at > cluster.len());
    let is_anothers = ends.into_iter().any(|at| is_cluster(&usual[..at]));
    if is_anothers { format!("{cluster}.{slice}") } else { usual }
}

/// Slices that an API server would take under the names that `named` gives them, with these names; each slice once.
pub(crate) fn good<'a>(
    told: &'a ServiceEndpoints,
    named: impl Fn(&str) -> String,
) -> Vec<(&'a MemberSlice, String)> {
    let mut seen = BTreeSet::new();
    let with_name = |slice: &'a MemberSlice| (slice, named(&slice.name));
    let is_good = |(slice, name): &(&MemberSlice, String)| {
        name.len() <= NAME
            && is_subdomain(&slice.name)
            && is_subdomain(name)
            && ["IPv4", "IPv6", "FQDN"].contains(&&*slice.address_type)
            && slice.endpoints.len() <= ENDPOINTS
            && slice.ports.len() <= PORTS
    };
    let all = told.endpoint_slices.iter().map(with_name).filter(is_good);
    all.filter(|(slice, _)| seen.insert(&slice.name)).take(MOST).collect()
}

/// Whether an API server takes this as a name: RFC 1123, a subdomain.
fn is_subdomain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &[u8]| {
        let ends = label.first().into_iter().chain(label.last());
        !label.is_empty()
            && ends.copied().all(is_plain)
            && label.iter().all(|byte| is_plain(*byte) || *byte == b'-')
    };
    name.as_bytes().split(|byte| *byte == b'.').all(is_label)
}

/// An endpoint of what a site told, of known fields alone; none where nobody in another cluster could reach it.
fn endpoint(told: &Value, address_type: &str) -> Option<Value> {
    let is_reachable = |text: &str| match address_type {
        "FQDN" => is_subdomain(text),
        "IPv4" => text.parse::<Ipv4Addr>().is_ok_and(|at| {
            !(at.is_loopback() || at.is_link_local() || at.is_unspecified() || at.is_multicast())
        }),
        _ => text.parse::<Ipv6Addr>().is_ok_and(|at| {
            !(at.is_loopback() || at.is_unicast_link_local() || at.is_unspecified() || at.is_multicast())
        }),
    };
    let addresses: Vec<&str> =
        told["addresses"].as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    if addresses.is_empty() || !addresses.iter().all(|text| is_reachable(text)) {
        return None;
    }
    let mut endpoint = json!({"addresses": addresses});
    for condition in ["ready", "serving", "terminating"] {
        if let Some(is_so) = told["conditions"][condition].as_bool() {
            endpoint["conditions"][condition] = json!(is_so);
        }
    }
    if let Some(hostname) = told["hostname"].as_str().filter(|name| is_subdomain(name)) {
        endpoint["hostname"] = json!(hostname);
    }
    Some(endpoint)
}

/// A port of what a site told, of known fields alone.
fn port(told: &Value) -> Value {
    let fields = ["name", "protocol", "port", "appProtocol"];
    let kept = fields.into_iter().filter_map(|field| Some((field.to_owned(), told.get(field)?.clone())));
    kept.collect::<Map<_, _>>().into()
}

/// A slice as an object again, without metadata.
pub(crate) fn object(slice: &MemberSlice) -> Value {
    let endpoints: Vec<Value> =
        slice.endpoints.iter().filter_map(|told| endpoint(told, &slice.address_type)).collect();
    let ports: Vec<Value> = slice.ports.iter().map(port).collect();
    json!({"apiVersion": SLICES, "kind": "EndpointSlice", "addressType": slice.address_type, "endpoints": endpoints, "ports": ports})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever names its slices, and whatever clusters there are: two slices of two clusters are never called the same.
    #[test]
    fn slices_of_clusters_whose_names_begin_alike_are_told_apart() {
        let clusters = ["a", "a-b", "a-b-c", "m1", "m10"];
        let named = |cluster: &str, slice: &str| joined(cluster, slice, |name| clusters.contains(&name));
        assert_eq!(named("m1", "web-abc"), "m1-web-abc");
        assert_eq!(named("m10", "web-abc"), "m10-web-abc");
        assert_eq!((named("a-b", "web"), named("a", "b-web")), ("a-b-web".into(), "a.b-web".into()));
        let parts = ["a", "b", "c", "web", "b-c"];
        let slices = parts
            .iter()
            .flat_map(|one| parts.iter().flat_map(move |two| ["-", "."].map(|by| format!("{one}{by}{two}"))));
        let slices: BTreeSet<String> = slices.chain(parts.map(str::to_owned)).collect();
        let all: Vec<String> =
            clusters.iter().flat_map(|cluster| slices.iter().map(|slice| named(cluster, slice))).collect();
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|name| is_subdomain(name)));
    }
}
