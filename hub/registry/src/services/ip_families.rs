//! The IP families of a Service, on a hub that has IPv4 alone.
//!
//! In: a Service that is made or changed. Out: the Service with its `ipFamilyPolicy` and `ipFamilies`, or a `Status` where it asks for what there is not.

use std::net::IpAddr;

use karmada_definitions::status::{Cause, Status};
use serde_json::{Map, Value, json};

use super::{invalid, list, needs_address, put, text};

/// Completes them. `before` is the spec as it was, `old` the whole object.
pub(super) fn families(
    service: &mut Value,
    before: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let spec = &service["spec"];
    if !needs_address(spec) {
        return Ok(());
    }
    let selectorless = spec["selector"].as_object().is_none_or(Map::is_empty);
    let unbound = text(spec, "clusterIP") == "None" && selectorless;
    let policy = policy_of(spec, before, unbound);
    put(&mut service["spec"], "ipFamilyPolicy", json!(policy));
    let causes = karmada_kinds::service_addresses(service, old);
    if !causes.is_empty() {
        return Err(Status::invalid("", "Service", text(&service["metadata"], "name"), causes));
    }
    let mut families = list(&service["spec"], "ipFamilies").to_vec();
    if policy == "SingleStack" {
        refuse_two_of_one(service, &families)?;
    }
    add_those_of_addresses(service, &mut families)?;
    if families.is_empty() {
        families.push(json!("IPv4"));
    }
    if unbound {
        if families.len() < 2 && policy != "SingleStack" {
            families.push(json!(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }));
        }
    } else {
        refuse_ipv6(service, &policy, &families)?;
    }
    put(&mut service["spec"], "ipFamilies", Value::Array(families));
    Ok(())
}

/// The policy that is given, or was, or is usual. `unbound`: no address is needed, and nothing is selected.
fn policy_of(spec: &Value, before: Option<&Value>, unbound: bool) -> String {
    match (spec["ipFamilyPolicy"].as_str(), before.map_or("", |before| text(before, "ipFamilyPolicy"))) {
        (None, "") if unbound => "RequireDualStack".to_owned(),
        (None, "") => "SingleStack".to_owned(),
        (None, before) => before.to_owned(),
        (Some(given), _) => given.to_owned(),
    }
}

/// A Service of one family has one of each.
fn refuse_two_of_one(service: &Value, families: &[Value]) -> Result<(), Status> {
    let spec = &service["spec"];
    let refused = |what: &str| {
        let why =
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        invalid(service, "spec.ipFamilyPolicy".to_owned(), &spec["ipFamilyPolicy"], &why)
    };
    if list(spec, "clusterIPs").len() == 2 {
        return Err(refused("cluster IPs"));
    }
    if families.len() == 2 {
        return Err(refused("IP families"));
    }
    Ok(())
}

/// Addresses that are asked for say their family where nothing else does.
fn add_those_of_addresses(service: &Value, families: &mut Vec<Value>) -> Result<(), Status> {
    let addresses = &service["spec"]["clusterIPs"];
    let given = list(&service["spec"], "clusterIPs").iter().filter_map(Value::as_str);
    for (index, address) in given.enumerate() {
        if address == "None" || index < families.len() {
            continue;
        }
        match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => families.push(json!("IPv4")),
            Ok(IpAddr::V6(_)) => {
                let field = format!("spec.clusterIPs[{index}]");
                return Err(invalid(service, field, addresses, "IPv6 is not configured on this cluster"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn refuse_ipv6(service: &Value, policy: &str, families: &[Value]) -> Result<(), Status> {
    let mut causes = Vec::new();
    let mut note = |field: String, value: &Value, detail: &str| {
        let message = format!("Invalid value: {value}: {detail}");
        causes.push(Cause { reason: "FieldValueInvalid".into(), message, field });
    };
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        note("spec.ipFamilyPolicy".into(), &json!(policy), detail);
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| **family == "IPv6") {
        note(format!("spec.ipFamilies[{index}]"), family, "not configured on this cluster");
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("", "Service", text(&service["metadata"], "name"), causes)),
    }
}
