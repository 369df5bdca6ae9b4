//! Where a Service is, for a process that has no cluster network.
//!
//! Pure. In: the Service and its EndpointSlices (or Endpoints) as stored on the hub. Out: an address, or the reason and words
//! with which kube-aggregator says that there is none.

use karmada_definitions::resource::StorageId;
use karmada_registry::cache::Cache;
use karmada_schema::object::ObjectKey;
use serde_json::Value;

use super::ServiceRef;

/// Why a Service cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nowhere {
    /// `ServiceNotFound`, `ServicePortError`, `EndpointsNotFound`, `MissingEndpoints`.
    pub reason: &'static str,
    pub message: String,
}

/// Host and port of a Service in the cache.
pub(super) fn address(cache: &Cache, wanted: &ServiceRef) -> Result<(String, u16), Nowhere> {
    let key = ObjectKey::new(&wanted.namespace, &wanted.name);
    let get = |plural: &str| cache.get(&StorageId(format!("core/{plural}").into()), &key).map(|o| o.value());
    let Some(service) = get("services") else {
        let message = format!("service/{} in \"{}\" is not present", wanted.name, wanted.namespace);
        return Err(Nowhere { reason: "ServiceNotFound", message });
    };
    let slices = cache.of_resource(&StorageId("discovery.k8s.io/endpointslices".into()));
    let of_service = |object: &karmada_schema::object::Stored| {
        object.label("kubernetes.io/service-name").as_deref() == Some(&*wanted.name)
    };
    let slices: Vec<Value> =
        slices.list(&wanted.namespace, None, 0, &of_service).0.iter().map(|slice| slice.value()).collect();
    of_objects(wanted, &service, &slices, get("endpoints").as_ref())
}

fn of_objects(
    wanted: &ServiceRef,
    service: &Value,
    slices: &[Value],
    endpoints: Option<&Value>,
) -> Result<(String, u16), Nowhere> {
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok((host.to_owned(), wanted.port));
    }
    let about = format!("service/{} in \"{}\"", wanted.name, wanted.namespace);
    let ports = spec["ports"].as_array().into_iter().flatten();
    let Some(port) = ports.into_iter().find(|port| port["port"] == wanted.port) else {
        let message = format!("{about} is not listening on port {}", wanted.port);
        return Err(Nowhere { reason: "ServicePortError", message });
    };
    let name = port["name"].as_str().unwrap_or_default();
    if slices.is_empty() && endpoints.is_none() {
        let message = format!("cannot find endpointslices for {about}");
        return Err(Nowhere { reason: "EndpointsNotFound", message });
    }
    let found = slices.iter().find_map(|slice| of_slice(slice, name));
    let found = found.or_else(|| endpoints.and_then(|endpoints| of_endpoints(endpoints, name)));
    found.ok_or_else(|| Nowhere {
        reason: "MissingEndpoints",
        message: format!("endpointslices for {about} have no addresses with port name \"{name}\""),
    })
}

fn port_named(ports: &Value, name: &str) -> Option<u16> {
    let mut ports = ports.as_array()?.iter();
    let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == name)?;
    port["port"].as_u64().and_then(|port| u16::try_from(port).ok())
}

fn of_slice(slice: &Value, name: &str) -> Option<(String, u16)> {
    let port = port_named(&slice["ports"], name)?;
    let mut endpoints = slice["endpoints"].as_array()?.iter();
    let ready = endpoints.find(|endpoint| endpoint["conditions"]["ready"] != false)?;
    Some((ready["addresses"][0].as_str()?.to_owned(), port))
}

fn of_endpoints(endpoints: &Value, name: &str) -> Option<(String, u16)> {
    endpoints["subsets"].as_array()?.iter().find_map(|subset| {
        let port = port_named(&subset["ports"], name)?;
        Some((subset["addresses"][0]["ip"].as_str()?.to_owned(), port))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_where_its_endpoints_are_or_its_name_says() {
        let wanted = ServiceRef { namespace: "n".into(), name: "s".into(), port: 443 };
        let find = |service: Value, slices: &[Value], endpoints: Option<Value>| {
            of_objects(&wanted, &service, slices, endpoints.as_ref()).map_err(|nowhere| nowhere.reason)
        };
        let service =
            || json!({"spec": {"ports": [{"port": 80}, {"port": 443, "name": "https", "targetPort": 6443}]}});
        let slice = |ready: bool| {
            json!({"ports": [{"name": "https", "port": 6443}],
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]})
        };
        let external = json!({"spec": {"type": "ExternalName", "externalName": "metrics.example.org"}});
        assert_eq!(find(external, &[], None), Ok(("metrics.example.org".into(), 443)));
        assert_eq!(find(service(), &[slice(false), slice(true)], None), Ok(("10.0.0.1".into(), 6443)));
        let endpoints = json!({"subsets": [{"addresses": [{"ip": "10.0.0.2"}], "ports": [{"name": "https", "port": 1}]}]});
        assert_eq!(find(service(), &[], Some(endpoints)), Ok(("10.0.0.2".into(), 1)));
        assert_eq!(find(service(), &[slice(false)], None), Err("MissingEndpoints"));
        assert_eq!(find(service(), &[], None), Err("EndpointsNotFound"));
        assert_eq!(find(json!({"spec": {"ports": [{"port": 80}]}}), &[], None), Err("ServicePortError"));
    }
}
