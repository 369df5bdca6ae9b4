//! What pods ask for: requests of containers, init containers and overhead, in the units the scheduler counts in.
//!
//! In: a pod spec as JSON. Out: amounts by resource, each container's amount rounded up to thousandths of a CPU and
//! whole units of everything else.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::ResourceList;
use karmada_quantity::Quantity;
use serde_json::Value;

use crate::{Answer, InterpretError};

/// Puts an amount into the unit its resource is counted in.
pub fn counted(name: &str, amount: Quantity) -> Quantity {
    if name == "cpu" {
        return Quantity::from_milli(amount.milli());
    }
    let binary = name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
    if binary { Quantity::from_binary_units(amount.units()) } else { Quantity::from_units(amount.units()) }
}

fn parse(name: &str, value: &Value) -> Answer<Quantity> {
    let parsed = serde_json::from_value::<Quantity>(value.clone());
    parsed.map_err(|error| InterpretError::Object(format!("resource {name}: {error}")))
}

/// Whether clusters report a resource of this name: what Kubernetes itself counts on nodes, and what device plugins
/// and operators add under a name with a domain.
pub fn schedulable(name: &str) -> bool {
    let native = ["cpu", "memory", "ephemeral-storage", "pods"].contains(&name);
    let counted = ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix));
    native || counted || (name.contains('/') && !name.starts_with("requests."))
}

/// Reads a map of amounts.
///
/// # Errors
/// An amount is no quantity; the error names its resource.
pub fn resource_list(value: Option<&Value>) -> Answer<ResourceList> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(name, amount)| Ok((name.clone(), parse(name, amount)?))).collect()
}

/// Adds `more` to `sum`, resource by resource.
pub fn add(sum: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(entry) => *entry = entry.plus(*amount),
            None => drop(sum.insert(name.clone(), *amount)),
        }
    }
}

/// What one container asks for: its requests, and its limits where it has no request.
fn container_request(container: &Value) -> Answer<ResourceList> {
    let resources = container.get("resources");
    let requests = resource_list(resources.and_then(|r| r.get("requests")))?;
    let limits = resource_list(resources.and_then(|r| r.get("limits")))?;
    let names: BTreeSet<&String> = requests.keys().chain(limits.keys()).collect();
    let amount = |name: &String| requests.get(name).or_else(|| limits.get(name)).copied().unwrap_or_default();
    Ok(names.into_iter().map(|name| (name.clone(), counted(name, amount(name)))).collect())
}

/// What a pod asks for: all containers at once, or the greediest init container, and the overhead on top.
/// Nothing is left out but zeros.
///
/// # Errors
/// An amount is no quantity.
pub fn pod_request(spec: &Value) -> Answer<ResourceList> {
    let list = |key: &str| spec.get(key).and_then(Value::as_array).into_iter().flatten();
    let mut total = ResourceList::new();
    for container in list("containers") {
        add(&mut total, &container_request(container)?);
    }
    for container in list("initContainers") {
        for (name, amount) in container_request(container)? {
            let entry = total.entry(name).or_default();
            *entry = (*entry).max(amount);
        }
    }
    let overhead = resource_list(spec.get("overhead"))?;
    let overhead: BTreeMap<_, _> =
        overhead.into_iter().map(|(name, amount)| (name.clone(), counted(&name, amount))).collect();
    add(&mut total, &overhead);
    total.retain(|_, amount| !amount.is_zero());
    Ok(total)
}
