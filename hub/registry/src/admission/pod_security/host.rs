//! Checks of Pod security about the node: its namespaces, its ports, and where its kubelet is sent.
//!
//! In: a [`Pod`] with the version of the rules that it is judged by. Out: for each check a [`Violation`] with kube-apiserver's words, or
//! `None`. Pure; which level asks for which check stands in `pod_security`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pod::{Pod, Violation, containers, name, number, quoted};

/// None of the node's own namespaces.
pub(super) fn namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}

/// None of the node's ports.
pub(super) fn ports(pod: &Pod<'_>) -> Option<Violation> {
    fn taken(container: &Value) -> impl Iterator<Item = i64> {
        let ports = container["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0)
    }
    let who = pod.which(|container| taken(container).next().is_some());
    let ports: BTreeSet<String> = pod.containers().flat_map(taken).map(|port| port.to_string()).collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&who)?,
        number("uses", "use", who.len()),
        number("hostPort", "hostPorts", ports.len()),
        Vec::from_iter(ports).join(", ")
    );
    Some(Violation { reason: "hostPort", detail })
}

/// A kubelet asks the Pod itself how it is, and no other host.
pub(super) fn probes(pod: &Pod<'_>) -> Option<Violation> {
    let asks = pod.containers().filter(|container| hosts(container).next().is_some());
    let who = Vec::from_iter(asks.map(name).collect::<BTreeSet<&str>>());
    let asked: BTreeSet<&str> = pod.containers().flat_map(hosts).collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&who)?,
        number("uses", "use", who.len()),
        number("probe or lifecycle host", "probe or lifecycle hosts", asked.len()),
        quoted(&asked)
    );
    Some(Violation { reason: "probe or lifecycle host", detail })
}

/// Every host that a container's probes and hooks name.
fn hosts(container: &Value) -> impl Iterator<Item = &str> {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
    let hooks = ["postStart", "preStop"].map(|hook| &container["lifecycle"][hook]);
    let all = probes.into_iter().chain(hooks);
    let hosts = all.flat_map(|one| ["httpGet", "tcpSocket"].map(|way| one[way]["host"].as_str()));
    hosts.flatten().filter(|host| !host.is_empty())
}
