//! What a Pod asks for and may use: its containers together, or what is said of the whole in their place.
//!
//! In: a Pod's spec. Out: amounts by resource name. Pure.

use serde_json::Value;

use crate::{Amounts, add, add_all, amounts};
use karmada_quantity::Quantity;

/// The lists of containers that have resources.
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Whether what a Pod says of the whole counts for a resource.
pub fn of_the_whole(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Whether a Pod says anything of the whole that counts.
pub(crate) fn says_of_the_whole(spec: &Value) -> bool {
    let sides = ["requests", "limits"].map(|side| spec["resources"][side].as_object());
    sides.into_iter().flatten().flatten().any(|(name, _)| of_the_whole(name))
}

/// `requests` or `limits` of a Pod: of its containers, and for the resources that `whole` names, of the whole where it says so.
pub fn resources(spec: &Value, side: &str, whole: impl Fn(&str) -> bool) -> Amounts {
    let mut all = of_containers(spec, side);
    all.extend(amounts(&spec["resources"][side]).into_iter().filter(|(name, _)| whole(name)));
    all
}

/// What containers need together when all run, or an init container beside the sidecars that were started before it, if that is more.
fn of_containers(spec: &Value, side: &str) -> Amounts {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let of = |container: &Value| amounts(&container["resources"][side]);
    let (mut running, mut sidecars, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    list("containers").for_each(|container| add_all(&mut running, &of(container)));
    for container in list("initContainers") {
        let own = of(container);
        let mut now = sidecars.clone();
        add_all(&mut now, &own);
        if container["restartPolicy"] == "Always" {
            add_all(&mut running, &own);
            sidecars.clone_from(&now);
        }
        raise(&mut starting, now);
    }
    raise(&mut running, starting);
    running
}

fn raise(all: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        let most = all.entry(name).or_default();
        *most = (*most).max(amount);
    }
}

/// What a Pod uses of quotas, by every name that it counts for: with its overhead, in limits where there are any.
pub(crate) fn used(spec: &Value, used: &mut Amounts) {
    let overhead = amounts(&spec["overhead"]);
    let [mut requests, mut limits] = ["requests", "limits"].map(|side| resources(spec, side, of_the_whole));
    add_all(&mut requests, &overhead);
    for (name, more) in &overhead {
        if limits.get(name).is_some_and(|limit| !limit.is_zero()) {
            add(&mut limits, name, *more);
        }
    }
    let plain = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    for (name, amount) in requests {
        used.insert(format!("requests.{name}"), amount);
        if plain(&name) || name.starts_with("hugepages-") {
            used.insert(name, amount);
        }
    }
    let limits = limits.into_iter().filter(|(name, _)| plain(name));
    used.extend(limits.map(|(name, amount)| (format!("limits.{name}"), amount)));
}

/// Whether a Pod asks for no processor and no memory, and has no limits of them.
pub(crate) fn is_best_effort(spec: &Value) -> bool {
    let silent = |resources: &Value| {
        let sides = ["requests", "limits"].map(|side| amounts(&resources[side]));
        let mut all = sides.into_iter().flatten();
        all.all(|(name, amount)| !matches!(&*name, "cpu" | "memory") || amount <= Quantity::default())
    };
    match &spec["resources"] {
        Value::Null => {
            let mut all = LISTS.into_iter().filter_map(|list| spec[list].as_array()).flatten();
            all.all(|container| silent(&container["resources"]))
        }
        whole => silent(whole),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(amounts: &Amounts) -> String {
        let all: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        all.join(" ")
    }

    fn asks(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn what_is_said_of_the_whole_takes_the_place_of_what_containers_say() {
        let spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}}}],
            "resources": {"requests": {"cpu": "5"}, "limits": {"memory": "2Gi", "ephemeral-storage": "1Gi"}},
        });
        let mut all = Amounts::new();
        used(&spec, &mut all);
        assert_eq!(
            shown(&all),
            "cpu=5 limits.cpu=1 limits.memory=2Gi memory=1Mi requests.cpu=5 requests.memory=1Mi"
        );
        assert!(says_of_the_whole(&spec));
        assert!(!says_of_the_whole(&json!({"resources": {"limits": {"ephemeral-storage": "1Gi"}}})));
    }

    #[test]
    fn an_init_container_runs_beside_the_sidecars_before_it() {
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [asks("1")], "initContainers": [sidecar, asks("5")]});
        assert_eq!(shown(&resources(&spec, "requests", of_the_whole)), "cpu=6");
        let spec = json!({"containers": [asks("1")], "initContainers": [asks("5"), sidecar]});
        assert_eq!(shown(&resources(&spec, "requests", of_the_whole)), "cpu=5");
        let spec = json!({"containers": [asks("5")], "initContainers": [sidecar, asks("2")]});
        assert_eq!(shown(&resources(&spec, "requests", of_the_whole)), "cpu=6");
    }

    #[test]
    fn overhead_is_asked_for_and_raises_limits_that_there_are() {
        let spec = json!({"overhead": {"cpu": "1", "memory": "1Mi"}, "containers": [{"resources": {"limits": {"cpu": "2"}}}]});
        let mut all = Amounts::new();
        used(&spec, &mut all);
        assert_eq!(shown(&all), "cpu=1 limits.cpu=3 memory=1Mi requests.cpu=1 requests.memory=1Mi");
    }

    #[test]
    fn best_effort_is_who_asks_for_nothing() {
        let disk = json!({"resources": {"requests": {"ephemeral-storage": "1Gi", "cpu": "0"}}});
        for (spec, wanted) in [
            (json!({"containers": [{}, {"resources": {}}]}), true),
            (json!({"containers": [disk]}), true),
            (json!({"containers": [{}], "initContainers": [asks("1")]}), false),
            (json!({"containers": [{}], "resources": {"requests": {"cpu": "1"}}}), false),
            (json!({"containers": [asks("1")], "resources": {}}), true),
        ] {
            assert_eq!(is_best_effort(&spec), wanted, "{spec}");
        }
    }
}
