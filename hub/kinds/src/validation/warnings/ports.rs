//! Ports of containers that are in each other's way.
//!
//! In: the containers of a Pod and where each stands. Out: a warning for each two ports that are one, overlap, or cannot be told
//! apart. Ports are found by what they have in common, not by going through all of them for each.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{MOST, Warnings, list, text};

/// A port of a container.
struct Port<'p> {
    at: String,
    /// The container's port and its protocol.
    inner: (i64, &'p str),
    /// Of the node; 0 where none is asked for.
    host: i64,
    ip: &'p str,
}

/// What ports have in common: the inner port, of the node's port where it counts, of the node's address where it counts.
type Common<'p> = ((i64, &'p str), Option<i64>, Option<&'p str>);

impl<'p> Port<'p> {
    fn of(at: String, port: &'p Value) -> Port<'p> {
        let number = |field: &str| port[field].as_i64().unwrap_or(0);
        let inner = (number("containerPort"), text(port, "protocol"));
        Port { at, inner, host: number("hostPort"), ip: text(port, "hostIP") }
    }

    /// The keys under which ports that come later find it.
    fn found_by(&self) -> [Common<'p>; 3] {
        let host = Some(self.host);
        [(self.inner, None, None), (self.inner, host, None), (self.inner, host, Some(self.ip))]
    }

    /// The keys of earlier ports that it repeats: without a port of the node, of any with the same container port; with one, of those
    /// that have no port of the node, and of those that have the same one and the same address, or where one of both has no address.
    fn meets(&self) -> Vec<Common<'p>> {
        let host = Some(self.host);
        match (self.host, self.ip) {
            (0, _) => vec![(self.inner, None, None)],
            (_, "") => vec![(self.inner, Some(0), None), (self.inner, host, None)],
            (_, ip) => {
                vec![(self.inner, Some(0), None), (self.inner, host, Some(ip)), (self.inner, host, Some(""))]
            }
        }
    }

    fn beside(&self, before: &Port<'_>) -> String {
        let (at, other) = (&self.at, &before.at);
        if (self.host, self.ip) == (before.host, before.ip) {
            format!("{at}: duplicate port definition with {other}")
        } else if self.host == 0 || before.host == 0 {
            format!("{at}: overlapping port definition with {other}")
        } else {
            format!("{at}: dangerously ambiguous port definition with {other}")
        }
    }
}

/// Warns of the ports of all containers, and then of those of one name.
pub(super) fn warnings(containers: &[(String, &Value)], out: &mut Warnings) {
    let mut seen: Vec<Port<'_>> = Vec::new();
    let mut places: HashMap<Common<'_>, Vec<usize>> = HashMap::new();
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    let mut by_name = Warnings::new();
    for (at, container) in containers {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let at = format!("{at}.ports[{index}]");
            address_alone(&at, port, out);
            let own = Port::of(at.clone(), port);
            if out.len() < MOST {
                let met = own.meets().into_iter().filter_map(|common| places.get(&common)).flatten();
                let mut met: Vec<usize> = met.copied().collect();
                met.sort_unstable();
                out.extend(met.into_iter().map(|place| own.beside(&seen[place])));
            }
            for common in own.found_by() {
                places.entry(common).or_default().push(seen.len());
            }
            seen.push(own);
            let name = text(port, "name");
            match named.get(name) {
                _ if name.is_empty() => {}
                Some(other) => by_name.push(format!(
                    "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will \
                     use {other}"
                )),
                None => {
                    named.insert(name, at);
                }
            }
        }
    }
    out.append(&mut by_name);
}

/// An address of the node without a port of it.
fn address_alone(at: &str, port: &Value, out: &mut Warnings) {
    let (ip, host) = (text(port, "hostIP"), port["hostPort"].as_i64().unwrap_or(0));
    if !ip.is_empty() && host == 0 {
        // A port as Go prints one.
        out.push(format!(
            "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
            text(port, "name"),
            port["containerPort"],
            text(port, "protocol"),
        ));
    }
}
