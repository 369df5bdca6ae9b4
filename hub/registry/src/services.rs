//! Addresses and ports of Services: what kube-apiserver's allocators choose, take and give back.
//!
//! In: a Service that is made or changed, and what the others hold. Out: the Service with its `clusterIP`, address families,
//! node ports and health-check port; or a `Status` where what it asks for is taken or no such thing. Pure: who holds what is
//! read from the cache by the caller, who also keeps others out until the write is done.

mod ip_families;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use karmada_definitions::status::{Cause, Status};
use karmada_kinds::has_health_port;
use karmada_schema::fields::{list, text};
use serde_json::{Map, Value, json};

use self::ip_families::families;

/// The range of cluster addresses: Karmada's.
const FIRST: u32 = u32::from_be_bytes([10, 96, 0, 0]);
const SIZE: u32 = 1 << 20;

/// The first address of the range: that of the API server's own Service.
pub fn first_service_address() -> Ipv4Addr {
    Ipv4Addr::from(FIRST + 1)
}

/// The range as it is written.
pub fn service_range() -> String {
    format!("{}/{}", Ipv4Addr::from(FIRST), SIZE.leading_zeros() + 1)
}

/// Node ports.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Drawn addresses and ports keep out of the low end, where people choose by hand.
const STATIC_ADDRESSES: u32 = 256;
const STATIC_PORTS: i64 = 86;

/// What the other Services hold.
#[derive(Debug, Default)]
pub(super) struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<i64>,
}

impl Taken {
    /// Adds what a stored Service holds.
    pub(super) fn add(&mut self, service: &Value) {
        let spec = &service["spec"];
        let addresses = list(spec, "clusterIPs").iter().filter_map(Value::as_str);
        self.addresses.extend(addresses.filter_map(|text| text.parse::<Ipv4Addr>().ok()).map(u32::from));
        self.ports.extend(node_ports(spec));
        self.ports.extend(spec["healthCheckNodePort"].as_i64().filter(|port| *port != 0));
    }
}

/// One decision: what is taken, and where to begin drawing.
pub(super) struct Allocator {
    pub(super) taken: Taken,
    pub(super) seed: u64,
    /// Nothing will be stored.
    pub(super) dry: bool,
    /// So many ports from the seed's on are taken: a Service with many does not look at them again for each.
    pub(super) drawn: i64,
}

fn node_ports(spec: &Value) -> impl Iterator<Item = i64> {
    list(spec, "ports").iter().filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0)
}

fn needs_address(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_node_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"][0] == "None"
}

fn invalid(service: &Value, field: String, value: &Value, detail: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {value}: {detail}"),
        field,
    };
    Status::invalid("", "Service", text(&service["metadata"], "name"), vec![cause])
}

fn put(spec: &mut Value, field: &str, value: Value) {
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    let Some(fields) = spec.as_object_mut() else { return };
    let nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if nothing {
        fields.remove(field)
    } else {
        fields.insert(field.to_owned(), value)
    };
}

impl Allocator {
    /// Completes a new Service.
    pub(super) fn create(&mut self, service: &mut Value) -> Result<(), Status> {
        let single = text(&service["spec"], "clusterIP").to_owned();
        if !single.is_empty() && list(&service["spec"], "clusterIPs").is_empty() {
            put(&mut service["spec"], "clusterIPs", json!([single]));
        }
        families(service, None, None)?;
        self.address(service)?;
        self.new_ports(service)?;
        if has_health_port(&service["spec"]) {
            self.health_port(&mut service["spec"])?;
        }
        Ok(())
    }

    /// Completes a changed Service: what it left out stays, what its type no longer has goes.
    pub(super) fn update(&mut self, new: &mut Value, old: &Value) -> Result<(), Status> {
        let before = &old["spec"];
        keep_allocated(&mut new["spec"], before);
        normalise(&mut new["spec"], before);
        families(new, Some(before), Some(old))?;
        if needs_address(&new["spec"]) && !needs_address(before) {
            self.address(new)?;
        }
        if matches!(text(&new["spec"], "type"), "NodePort" | "LoadBalancer") {
            self.changed_ports(new, before)?;
        }
        if has_health_port(&new["spec"]) && !has_health_port(before) {
            self.health_port(&mut new["spec"])?;
        }
        drop_for_type(new, before);
        Ok(())
    }

    fn address(&mut self, service: &mut Value) -> Result<(), Status> {
        let spec = &service["spec"];
        if !needs_address(spec) || is_headless(spec) {
            return Ok(());
        }
        let asked = spec["clusterIPs"][0].as_str().unwrap_or_default().to_owned();
        let chosen =
            if asked.is_empty() { self.draw_address(service)? } else { self.take_address(service, &asked)? };
        put(&mut service["spec"], "clusterIPs", json!([chosen]));
        put(&mut service["spec"], "clusterIP", json!(chosen));
        Ok(())
    }

    /// Why a Service cannot have an address: the address' own object would name it, and cannot.
    fn unnamed(&self, service: &Value, address: &str) -> Option<String> {
        let unnamed = !self.dry && text(&service["metadata"], "name").is_empty();
        unnamed.then(|| {
            format!("IPAddress.networking.k8s.io {address:?} is invalid: spec.parentRef.name: Required value")
        })
    }

    fn draw_address(&mut self, service: &Value) -> Result<String, Status> {
        let dynamic = SIZE - STATIC_ADDRESSES - 1;
        let start = u32::try_from(self.seed % u64::from(dynamic)).unwrap_or(0);
        let high = (0..dynamic).map(|n| FIRST + STATIC_ADDRESSES + (start + n) % dynamic);
        let low = (2..STATIC_ADDRESSES).map(|n| FIRST + n);
        let free = high.chain(low).find(|address| !self.taken.addresses.contains(address));
        let name = text(&service["metadata"], "name");
        let full = || {
            Status::internal(format!("failed to allocate a serviceIP for Service {name:?}: range is full"))
        };
        let free = free.ok_or_else(full)?;
        let address = Ipv4Addr::from(free).to_string();
        if let Some(why) = self.unnamed(service, &address) {
            let asked = json!([""]);
            let detail = format!("failed to allocate IP: {why}");
            return Err(invalid(service, "spec.clusterIPs".to_owned(), &asked, &detail));
        }
        self.taken.addresses.insert(free);
        Ok(address)
    }

    fn take_address(&mut self, service: &Value, asked: &str) -> Result<String, Status> {
        let refuse = |why: &str| {
            let value = service["spec"]["clusterIPs"].clone();
            let detail = format!("failed to allocate IP {asked}: {why}");
            Err(invalid(service, "spec.clusterIPs".to_owned(), &value, &detail))
        };
        match karmada_schema::addresses::parse(asked) {
            // What is no address was told before.
            None => Ok(asked.to_owned()),
            Some(IpAddr::V4(address)) if (FIRST..FIRST + SIZE).contains(&u32::from(address)) => {
                if let Some(why) = self.unnamed(service, asked) {
                    refuse(&why)
                } else if self.taken.addresses.insert(address.into()) {
                    Ok(asked.to_owned())
                } else {
                    refuse("provided IP is already allocated")
                }
            }
            Some(IpAddr::V4(_)) if self.dry => {
                let (first, bits) = (Ipv4Addr::from(FIRST), SIZE.leading_zeros() + 1);
                refuse(&format!(
                    "the provided IP ({asked}) is not in the valid range. The range of valid IPs is {first}/{bits}"
                ))
            }
            Some(_) => refuse("the provided network does not match the current range"),
        }
    }

    fn new_ports(&mut self, service: &mut Value) -> Result<(), Status> {
        if !matches!(text(&service["spec"], "type"), "NodePort" | "LoadBalancer") {
            return Ok(());
        }
        let allocates = needs_node_ports(&service["spec"]);
        let ports = list(&service["spec"], "ports").to_vec();
        let mut given: BTreeMap<i64, i64> = BTreeMap::new();
        let mut asked_of: BTreeMap<i64, i64> = BTreeMap::new();
        for port in &ports {
            let asked = port["nodePort"].as_i64().filter(|asked| *asked != 0);
            if let (Some(number), Some(asked)) = (port["port"].as_i64(), asked) {
                asked_of.entry(number).or_insert(asked);
            }
        }
        for (index, port) in ports.iter().enumerate() {
            let (number, node) = (port["port"].as_i64().unwrap_or(0), port["nodePort"].as_i64().unwrap_or(0));
            if node == 0 && !allocates {
                continue;
            }
            let chosen = match given.get(&number) {
                Some(same) if node == 0 || node == *same => *same,
                Some(_) => self.take_port(service, index, node)?,
                None => match asked_of.get(&number) {
                    Some(asked) => self.take_port(service, index, *asked)?,
                    None => self.draw_port()?,
                },
            };
            given.entry(number).or_insert(chosen);
            service["spec"]["ports"][index]["nodePort"] = json!(chosen);
        }
        Ok(())
    }

    fn changed_ports(&mut self, new: &mut Value, before: &Value) -> Result<(), Status> {
        let allocates = needs_node_ports(&new["spec"]);
        let held: BTreeSet<i64> = node_ports(before).collect();
        let mut now: BTreeSet<i64> = BTreeSet::new();
        for index in 0..list(&new["spec"], "ports").len() {
            let node = new["spec"]["ports"][index]["nodePort"].as_i64().unwrap_or(0);
            if node == 0 && allocates {
                let drawn = self.draw_port()?;
                now.insert(drawn);
                new["spec"]["ports"][index]["nodePort"] = json!(drawn);
            } else if node != 0 && !held.contains(&node) && now.insert(node) {
                self.take_port(new, index, node)?;
            }
        }
        Ok(())
    }

    fn take_port(&mut self, service: &Value, index: usize, asked: i64) -> Result<i64, Status> {
        let refuse =
            |why: &str| Err(invalid(service, format!("spec.ports[{index}].nodePort"), &json!(asked), why));
        if !PORTS.contains(&asked) {
            return refuse(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if self.taken.ports.insert(asked) { Ok(asked) } else { refuse("provided port is already allocated") }
    }

    fn draw_port(&mut self) -> Result<i64, Status> {
        let first = PORTS.start() + STATIC_PORTS;
        let dynamic = PORTS.end() - first + 1;
        let start = i64::try_from(self.seed % 1_000_003).unwrap_or(0);
        while self.drawn < dynamic {
            let port = first + (start + self.drawn) % dynamic;
            self.drawn += 1;
            if self.taken.ports.insert(port) {
                return Ok(port);
            }
        }
        let free = (*PORTS.start()..first).find(|port| !self.taken.ports.contains(port));
        let free = free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        self.taken.ports.insert(free);
        Ok(free)
    }

    fn health_port(&mut self, spec: &mut Value) -> Result<(), Status> {
        let asked = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
        if asked == 0 {
            let drawn = self.draw_port()?;
            put(spec, "healthCheckNodePort", json!(drawn));
            return Ok(());
        }
        let why = if !PORTS.contains(&asked) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if !self.taken.ports.insert(asked) {
            "provided port is already allocated"
        } else {
            return Ok(());
        };
        Err(Status::internal(format!("failed to allocate requested HealthCheck NodePort {asked}: {why}")))
    }
}

/// What an update leaves out and the server chose is as it was.
fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_address(old) && needs_address(new) {
        if text(new, "clusterIP").is_empty() {
            put(new, "clusterIP", old["clusterIP"].clone());
        }
        if list(new, "clusterIPs").is_empty() {
            put(new, "clusterIPs", old["clusterIPs"].clone());
        }
    }
    if needs_node_ports(old) && needs_node_ports(new) {
        let now: BTreeSet<i64> = node_ports(new).collect();
        let used: BTreeSet<i64> = node_ports(old).filter(|port| now.contains(port)).collect();
        let by_name: BTreeMap<String, i64> = list(old, "ports")
            .iter()
            .map(|port| (text(port, "name").to_owned(), port["nodePort"].as_i64().unwrap_or(0)))
            .collect();
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            let before = by_name.get(text(port, "name")).copied().unwrap_or(0);
            if port["nodePort"].as_i64().unwrap_or(0) == 0 && before != 0 && !used.contains(&before) {
                port["nodePort"] = json!(before);
            }
        }
    }
    if has_health_port(old) && has_health_port(new) && new["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        put(new, "healthCheckNodePort", old["healthCheckNodePort"].clone());
    }
}

/// Brings `clusterIP` and `clusterIPs` together where a client changed one of them.
fn normalise(new: &mut Value, old: &Value) {
    let (single, before) = (text(new, "clusterIP").to_owned(), text(old, "clusterIP").to_owned());
    if single == before {
        return;
    }
    if list(new, "clusterIPs") == list(old, "clusterIPs") {
        let changed = if single.is_empty() { Value::Null } else { json!([single]) };
        put(new, "clusterIPs", changed);
    }
}

/// Takes out what the new type does not have and the client did not touch.
fn drop_for_type(service: &mut Value, old: &Value) {
    let new = &mut service["spec"];
    let same = |new: &Value, field: &str| {
        new.get(field).unwrap_or(&Value::Null) == old.get(field).unwrap_or(&Value::Null)
    };
    if needs_address(old) && !needs_address(new) {
        // Of one without an address of its own, the list says nothing more.
        let says_none = text(new, "clusterIP") == "None" && list(new, "clusterIPs").is_empty();
        if same(new, "clusterIP") && (says_none || same(new, "clusterIPs")) {
            put(new, "clusterIP", Value::Null);
            put(new, "clusterIPs", Value::Null);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, field) {
                put(new, field, Value::Null);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(new) && node_ports(old).eq(node_ports(new)) {
        for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            put(port, "nodePort", Value::Null);
        }
    }
    if has_health_port(old) && !has_health_port(new) && same(new, "healthCheckNodePort") {
        put(new, "healthCheckNodePort", Value::Null);
    }
    if text(old, "type") == "LoadBalancer" && text(new, "type") != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, field) {
                put(new, field, Value::Null);
            }
        }
    }
    if reachable(old) && !reachable(new) && same(new, "externalTrafficPolicy") {
        put(new, "externalTrafficPolicy", Value::Null);
    }
    if text(old, "type") != "ExternalName"
        && text(new, "type") == "ExternalName"
        && same(new, "internalTrafficPolicy")
    {
        put(new, "internalTrafficPolicy", Value::Null);
    }
    if text(new, "type") != "LoadBalancer" {
        service["status"]["loadBalancer"] = json!({});
    }
}

fn reachable(spec: &Value) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
        || (text(spec, "type") == "ClusterIP" && !list(spec, "externalIPs").is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(others: &[Value]) -> Allocator {
        let mut taken = Taken::default();
        others.iter().for_each(|other| taken.add(other));
        Allocator { taken, seed: 7, dry: false, drawn: 0 }
    }

    #[allow(clippy::needless_pass_by_value, reason = "a literal is handed over")]
    fn service(spec: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn a_service_gets_an_address_that_nobody_has() {
        let mut first = service(json!({"type": "ClusterIP", "ports": [{"port": 80}]}));
        allocator(&[]).create(&mut first).unwrap();
        let mut second =
            service(json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 30_001}]}));
        allocator(std::slice::from_ref(&first)).create(&mut second).unwrap();
        assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
        assert_eq!(first["spec"]["clusterIPs"][0], first["spec"]["clusterIP"]);
        assert_eq!(second["spec"]["ports"][1]["nodePort"], 30_001);
        let mut third = service(json!({"clusterIP": first["spec"]["clusterIP"], "ports": [{"port": 80}]}));
        let refused = allocator(std::slice::from_ref(&first)).create(&mut third).unwrap_err();
        assert!(refused.message.contains("already allocated"), "{}", refused.message);
    }

    #[test]
    fn an_update_keeps_what_it_leaves_out_and_loses_what_its_type_has_not() {
        let mut old = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
        allocator(&[]).create(&mut old).unwrap();
        let mut same = service(json!({"type": "NodePort", "ports": [{"port": 80}]}));
        allocator(&[]).update(&mut same, &old).unwrap();
        assert_eq!(same["spec"], old["spec"]);
        let mut external = old.clone();
        external["spec"]["type"] = json!("ExternalName");
        allocator(&[]).update(&mut external, &old).unwrap();
        assert_eq!(external["spec"], json!({"type": "ExternalName", "ports": [{"port": 80}]}));
    }
}
